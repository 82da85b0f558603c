"""From a fit to the document that `ebfit design` writes."""

from collections import Counter
from collections.abc import Sequence
from math import isfinite

import numpy as np

from ebfit import __version__
from ebfit.comparing.points_of_fit import samples_of
from ebfit.designing.candidates import Candidates
from ebfit.designing.choose import Goal
from ebfit.designing.expect import expected
from ebfit.designing.plan import Knowledge, Plan, options, plan
from ebfit.designing.possible import NUMBERS
from ebfit.designing.rehearse import Rehearsal, rehearse
from ebfit.designing.words import commands_of, place_of, warnings_of
from ebfit.errors import BadInputError, CannotAnswerError
from ebfit.files import (
    Design,
    DesignedRun,
    DesignedTarget,
    DesignGoal,
    Estimate,
    Fit,
    HalfWidths,
    Rehearsed,
    Status,
    TargetRecord,
)
from ebfit.fitting import COUPLINGS, Coupling, why_not_fitted
from ebfit.laws import FloatArray
from ebfit.samples import Sample

_MOST_SIMULATIONS = 10_000
_LARGEST = 1e18  # tokens
_SAME_LOSS = 1e-9


def design(
    fit: Fit,
    *,
    budget: float,
    goal: DesignGoal = "b_opt",
    target: float | None = None,
    group: str | None = None,
    full_length: bool = False,
    batch_sizes: Sequence[int] = (),
    seq_len: int | None = None,
    check: int = 0,
    seed: int = 0,
    name: str = "the fit",
) -> Design:
    """Find the runs that shrink the interval of B_opt or B_min most per token.

    Parameters
    ----------
    fit : Fit
        Of the law `revised`. Its points are fitted anew.
    budget : float
        Tokens of all new runs together.
    goal : {"b_opt", "b_min"}
    target : float, optional
        The target loss that counts; by default all do.
    group : str, optional
        Of the fit, where it has several.
    full_length : bool
        Whether every run is to reach the lowest target that counts.
    batch_sizes : sequence of int, optional
        Tokens per step to choose from; found if left out.
    seq_len : int, optional
        Tokens per sequence; by default that of the runs, where they have one in common.
    check : int
        Simulations of the design, in each of which the whole fit is repeated.
    seed : int
        Of laws drawn and of simulations: the same seed gives the same design.
    name : str
        Of the fit's file, for messages.

    Returns
    -------
    Design

    Raises
    ------
    BadInputError
        If an option makes no sense for this fit, or the budget is too small for any run.
    CannotAnswerError
        If the fit holds nothing to design by.
    """
    _check_options(budget, goal, batch_sizes, seq_len, check, seed)
    sample, records = _chosen_group(fit, group, name)
    wanted = Goal(goal, _wanted(sample.targets, target, name), full_length)
    seq_len = seq_len or _seq_len_of(fit, sample)
    knowledge = Knowledge.of(sample.observations, _statuses(records), _coupling(fit), seed)
    sizes = _given(batch_sizes, seq_len) if batch_sizes else knowledge.sizes(wanted, seq_len)
    _check_budget(budget, options(knowledge, wanted, sizes)[1] if len(sizes) else None, name)
    found = plan(knowledge, wanted, budget, sizes)
    rehearsal = None
    if check:
        rehearsal = rehearse(
            knowledge.runs,
            knowledge.possible,
            knowledge.seed_sd,
            knowledge.crossing_sd,
            found.log_batch,
            found.log_length,
            coupling=knowledge.coupling,
            confidence=fit.confidence,
            count=check,
            seed=seed,
        )
    rows = _rows(sample, found)
    return Design(
        schema="ebfit.design/1",
        ebfit_version=__version__,
        goal=goal,
        group=sample.group,
        seq_len=seq_len,
        confidence=fit.confidence,
        budget_tokens=budget,
        total_tokens=found.tokens,
        runs=rows,
        targets=[
            DesignedTarget(
                loss=loss,
                wanted=t in wanted.targets,
                b_opt=_half_widths(knowledge, found, records[t], "b_opt", t, fit.confidence),
                b_min=_half_widths(knowledge, found, records[t], "b_min", t, fit.confidence),
                rehearsed_b_opt=_rehearsed(rehearsal, t, "b_opt"),
                rehearsed_b_min=_rehearsed(rehearsal, t, "b_min"),
            )
            for t, loss in enumerate(sample.targets)
        ],
        simulations=check,
        commands=commands_of(fit, rows, seq_len),
        warnings=warnings_of(goal, sample.targets, found, budget, bool(batch_sizes)),
    )


def _check_options(
    budget: float, goal: str, batch_sizes: Sequence[int], seq_len: int | None, check: int, seed: int
) -> None:
    if not (isfinite(budget) and 0.0 < budget <= _LARGEST):
        raise BadInputError(
            f"a budget of {budget:g} tokens: give what all runs together may take, such as 20B."
        )
    if goal not in NUMBERS:
        raise BadInputError(f"there is no number {goal!r} to design for. Choose {' or '.join(NUMBERS)}.")
    for size in batch_sizes:
        if not 0 < size <= _LARGEST:
            raise BadInputError(f"a batch size of {size:g} tokens: give positive ones.")
    if seq_len is not None and not 0 < seq_len <= _LARGEST:
        raise BadInputError(f"a sequence length of {seq_len:g} tokens: give a positive one.")
    if not 0 <= check <= _MOST_SIMULATIONS:
        raise BadInputError(f"{check} simulations: give from 0 to {_MOST_SIMULATIONS:,}.")
    if not 0 <= seed < 2**63:
        raise BadInputError(f"seed {seed}: must be a whole number from 0 to 2^63.")


def _chosen_group(fit: Fit, group: str | None, name: str) -> tuple[Sample, list[TargetRecord]]:
    """Return the sample of a group and the record of each of its targets."""
    if not fit.targets:
        raise CannotAnswerError(f"{name}: holds no target, so there is nothing to design by.")
    others = sorted({target.law for target in fit.targets} - {"revised"})
    if others:
        raise BadInputError(
            f"{name}: made with the law {others[0]}. A design is made by the law revised: fit the runs with it first."
        )
    samples = samples_of(fit, name)
    groups = [sample.group for sample in samples]
    if group is None and len(samples) > 1:
        raise BadInputError(
            f"{name}: holds the groups {', '.join(map(str, groups))}. Choose one of them with --group."
        )
    chosen = [sample for sample in samples if group is None or sample.group == group]
    if not chosen:
        raise BadInputError(f"{name}: holds no group {group}. It holds {', '.join(map(str, groups))}.")
    sample = chosen[0]
    for t, loss in enumerate(sample.targets):
        if (why := why_not_fitted("revised", sample.observations, t)) is not None:
            raise CannotAnswerError(f"{name}: target {loss:g}: {why}.")
    records = {target.loss: target for target in fit.targets if target.group == sample.group}
    return sample, [records[loss] for loss in sample.targets]


def _wanted(targets: Sequence[float], target: float | None, name: str) -> list[int]:
    if target is None:
        return list(range(len(targets)))
    found = [t for t, loss in enumerate(targets) if abs(loss - target) <= _SAME_LOSS * abs(loss)]
    if not found:
        known = ", ".join(f"{loss:.6g}" for loss in targets)
        raise BadInputError(f"{name}: holds no target {target:g}. Its targets: {known}.")
    return found


def _seq_len_of(fit: Fit, sample: Sample) -> int | None:
    members = set(sample.run_names)
    lengths = {run.seq_len for run in fit.runs if run.name in members}
    return lengths.pop() if len(lengths) == 1 else None


def _statuses(records: Sequence[TargetRecord]) -> dict[str, list[Status]]:
    return {name: [_estimate(record, name).status for record in records] for name in NUMBERS}


def _estimate(record: TargetRecord, number: str) -> Estimate:
    estimate: Estimate | None = getattr(record, number)
    return estimate or Estimate()


def _coupling(fit: Fit) -> Coupling:
    said = fit.settings.get("coupling")
    return next((coupling for coupling in COUPLINGS if coupling == said), "pooled")


def _given(batch_sizes: Sequence[int], seq_len: int | None) -> FloatArray:
    for size in batch_sizes:
        if seq_len and size % seq_len:
            raise BadInputError(
                f"a batch size of {size:,} tokens is no whole number of sequences of {seq_len:,} tokens."
            )
    return np.unique(np.asarray(batch_sizes, dtype=float))


def _check_budget(budget: float, may_be: Candidates | None, name: str) -> None:
    least = float(may_be.tokens.min()) if may_be is not None else np.inf
    if may_be is None or not isfinite(least):
        raise CannotAnswerError(
            f"{name}: at no batch size is a run sure enough to reach a target. Choose from other ones with "
            "--batch-sizes, or run more batch sizes first."
        )
    if budget < least:
        size = may_be.batch_tokens[np.unravel_index(np.argmin(may_be.tokens), may_be.tokens.shape)[0]]
        raise BadInputError(
            f"a budget of {budget:,.6g} tokens is too small for any run: the cheapest, at {size:,.6g} tokens per "
            f"step, takes {least:,.6g}."
        )


def _rows(sample: Sample, found: Plan) -> list[DesignedRun]:
    rows = []
    sizes = np.round(np.log(sample.batch_tokens), 9)
    taken: Counter[int] = Counter()  # seeds by batch size, of the rows before
    for (size, aim), seeds in sorted(Counter(found.runs).items()):
        batch_tokens = float(found.candidates.batch_tokens[size])
        steps = round(float(found.candidates.steps[size, aim]))
        so_far = [sample.seeds[r] for r in np.flatnonzero(sizes == np.round(np.log(batch_tokens), 9))]
        unused = max(len(so_far), *(seed + 1 for seed in so_far if seed is not None), 0)
        rows.append(
            DesignedRun(
                batch_tokens=batch_tokens,
                seeds=seeds,
                seeds_so_far=len(so_far),
                first_seed=unused + taken[size],
                steps=steps,
                tokens=seeds * steps * batch_tokens,
                for_loss=sample.targets[aim],
                place=place_of(found, size, aim, sample.observations),
            )
        )
        taken[size] += seeds
    return rows


def _half_widths(
    knowledge: Knowledge, found: Plan, record: TargetRecord, number: str, t: int, confidence: float
) -> HalfWidths:
    estimate = _estimate(record, number)
    real = None
    if estimate.status == "ok" and estimate.low and estimate.high:
        real = 0.5 * float(np.log(estimate.high / estimate.low))
    foreseen = expected(knowledge, found, number, t, confidence, real)
    return HalfWidths(status=estimate.status, before=real, after=foreseen.after, bracketed=foreseen.bracketed)


def _rehearsed(rehearsal: Rehearsal | None, t: int, number: str) -> Rehearsed | None:
    if rehearsal is None:
        return None
    half_width = rehearsal.half_width[:, t, NUMBERS.index(number)]
    error = rehearsal.error[:, t, NUMBERS.index(number)]
    ok = np.isfinite(half_width)
    return Rehearsed(
        ok=float(np.mean(ok)),
        half_width=float(np.median(half_width[ok])) if ok.any() else None,
        rms_error=float(np.sqrt(np.mean(error[ok] ** 2))) if ok.any() else None,
    )
