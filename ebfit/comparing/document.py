"""Laws compared over all targets of a fit, in numbers and sentences."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, cast

import numpy as np

from ebfit import __version__
from ebfit.comparing.points_of_fit import samples_of
from ebfit.comparing.words import ScoredLaw, beaten, why_chosen
from ebfit.errors import BadInputError, CannotAnswerError
from ebfit.files import (
    ComparedTarget,
    Comparison,
    Counts,
    Errors,
    Fit,
    LawComparison,
    LawErrors,
    LeftOutPoint,
    Recommendation,
)
from ebfit.fitting import why_not_fitted
from ebfit.fitting.batched import BoolArray
from ebfit.fitting.comparison import (
    CONTESTANTS,
    Contestant,
    Fitted,
    LeftOut,
    Refit,
    Verdict,
    aicc,
    joined,
    judge,
    leave_one_out,
)
from ebfit.fitting.coupling import Coupling
from ebfit.fitting.seeds import merge_seeds
from ebfit.laws import FloatArray
from ebfit.samples import Sample

LawChoice = Literal["revised", "classic", "surface"]
_NEEDED_BY = "revised"
_OFTEN = 0.9


def compare(fit: Fit, *, targets: Sequence[float] | None = None, name: str = "the fit") -> LawComparison:
    """Compare laws by how well they predict each batch size from the others.

    Parameters
    ----------
    fit : Fit
        Its points are used, and nothing else of it.
    targets : sequence of float, optional
        Some of its targets; by default all.
    name : str
        Of the fit's file, for messages.

    Returns
    -------
    LawComparison

    Raises
    ------
    BadInputError
        If the fit lacks a target that was asked for, or holds what nobody can have measured.
    CannotAnswerError
        If no target has enough batch sizes to leave one out.
    """
    samples = samples_of(fit, name)
    if targets is not None:
        held = {target for sample in samples for target in sample.targets}
        missing = [f"{target:g}" for target in targets if target not in held]
        if missing:
            known = ", ".join(f"{target:g}" for target in sorted(held, reverse=True))
            raise BadInputError(
                f"{name}: holds no target {', '.join(missing)}. Its targets: {known or 'none'}."
            )
        samples = [sample.only(targets) for sample in samples]
    found = compare_samples([sample for sample in samples if sample.targets])
    if found is None:
        raise CannotAnswerError(f"{name}: {_too_few(samples)}")
    return found


def compare_samples(samples: Sequence[Sample]) -> LawComparison | None:
    """Compare laws over all groups; None where no target has enough batch sizes to leave one out."""
    able = [sample for sample in map(_able, samples) if sample.targets]
    whole = [Refit(merge_seeds(sample.observations), sample.targets) for sample in able]
    contestants, fits, warnings = _entered(whole)
    parts = [
        leave_one_out(sample.observations, sample.targets, contestants, group)
        for group, sample in enumerate(able)
    ]
    if not parts:
        return None
    left_out = joined(parts)
    verdict = judge(left_out, contestants)
    if verdict is None:
        return None
    laws = [
        _law_errors(c, contestants, left_out, verdict, _summed(whole, fits[c]))
        for c in range(len(contestants))
    ]
    scored = [ScoredLaw(contestant, errors) for contestant, errors in zip(contestants, laws, strict=True)]
    warnings += beaten(scored[verdict.chosen], verdict.beaten_by_interpolation)
    chosen = contestants[verdict.chosen]
    return LawComparison(
        schema="ebfit.compare/1",
        ebfit_version=__version__,
        counts=Counts(
            batch_sizes=verdict.batch_sizes,
            between=int(verdict.between.sum()),
            edge=int((~left_out.between & ~left_out.ended).sum()),
            ended=int(left_out.ended.sum()),
        ),
        laws=laws,
        targets=[
            _compared_target(contestants, sample, t, left_out.take(_at(left_out, group, t)))
            for group, sample in enumerate(able)
            for t in range(len(sample.targets))
        ],
        recommendation=Recommendation(
            law=chosen.law,
            coupling=chosen.coupling,
            options=dict(chosen.options or {}),
            why=why_chosen(scored, verdict),
        ),
        warnings=warnings,
    )


@dataclass(frozen=True)
class Choice:
    """The law that `ebfit fit --law auto` fits.

    Attributes
    ----------
    law, coupling : str
        As `ebfit.fit` takes them.
    reason : str
        Sentences for people.
    comparison : list of Comparison
        As in fit.json; empty where nothing could be compared.
    """

    law: LawChoice
    coupling: Coupling
    reason: str
    comparison: list[Comparison]


def choose(samples: Sequence[Sample]) -> Choice:
    """Return the law that is recommended, or the usual one where that cannot be told."""
    found = compare_samples(samples)
    if found is None:
        return Choice("revised", "pooled", f"Law revised, without a comparison: {_too_few(samples)}", [])
    options = found.recommendation.options
    coupling = options.get("coupling", "none")
    named = options["law"] + (f" with coupling {coupling}" if "coupling" in options else "")
    return Choice(
        law=cast(LawChoice, options["law"]),
        coupling=cast(Coupling, coupling),
        reason=f"Law {named} by comparison: {found.recommendation.why}",
        comparison=[
            Comparison(
                law=errors.law,
                coupling=errors.coupling,
                lobo_median=errors.lobo_median,
                lobo_p90=errors.lobo_p90,
            )
            for errors in found.laws
            if errors.lobo_median is not None and errors.lobo_p90 is not None
        ],
    )


def _able(sample: Sample) -> Sample:
    """Return the part of a sample that the law with the most parameters can be fitted to."""
    data = sample.observations
    return sample.only(
        [loss for t, loss in enumerate(sample.targets) if why_not_fitted(_NEEDED_BY, data, t) is None]
    )


def _entered(whole: Sequence[Refit]) -> tuple[list[Contestant], list[list[Fitted]], list[str]]:
    """Return the contestants that can be fitted to every group, their fits of the groups, and who is missing."""
    entered, fits, missing = [], [], []
    for contestant in CONTESTANTS:
        made = [fitted for refit in whole if (fitted := contestant.fit(refit)) is not None]
        if len(made) == len(whole):
            entered.append(contestant)
            fits.append(made)
        else:
            missing.append(contestant.name)
    warnings = [f"not compared, for want of a second target in every group: {', '.join(missing)}."]
    return entered, fits, warnings if missing else []


def _summed(whole: Sequence[Refit], fits: Sequence[Fitted]) -> tuple[float | None, float | None]:
    """Return AICc and the number of parameters over all groups."""
    criteria = [aicc(refit, fit) for refit, fit in zip(whole, fits, strict=True)]
    used = [fit.parameters for fit in fits]
    return _sum(criteria), _sum(used)


def _sum(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(sum(known)) if len(known) == len(values) else None


def _law_errors(
    c: int,
    contestants: Sequence[Contestant],
    left_out: LeftOut,
    verdict: Verdict,
    criterion: tuple[float | None, float | None],
) -> LawErrors:
    errors = left_out.errors()[c]
    is_law = contestants[c].extrapolates
    edge = errors[~left_out.between & ~left_out.ended]
    return LawErrors(
        **_errors(contestants[c], errors[verdict.between]).model_dump(),
        lobo_mean=float(verdict.mean[c]) if is_law else None,
        p_value=float(verdict.p_value[c]) if is_law else None,
        edge_median=_quantile(edge, 0.5) if is_law else None,
        edge_p90=_quantile(edge, _OFTEN) if is_law else None,
        ended_right=int(left_out.says_more()[c, left_out.ended].sum()) if is_law else None,
        aicc=criterion[0],
        parameters=criterion[1],
    )


def _errors(contestant: Contestant, errors: FloatArray) -> Errors:
    return Errors(
        name=contestant.name,
        law=contestant.law,
        coupling=contestant.coupling,
        lobo_median=_quantile(errors, 0.5),
        lobo_p90=_quantile(errors, _OFTEN),
    )


def _quantile(errors: FloatArray, share: float) -> float | None:
    known = errors[~np.isnan(errors)]
    return float(np.quantile(known, share)) if len(known) else None


def _at(left_out: LeftOut, group: int, t: int) -> BoolArray:
    return np.asarray((left_out.group == group) & (left_out.target == t))


def _compared_target(
    contestants: Sequence[Contestant], sample: Sample, t: int, here: LeftOut
) -> ComparedTarget:
    errors = here.errors()
    scored = here.between & ~np.isnan(errors).any(axis=0)
    names = [contestant.name for contestant in contestants]
    return ComparedTarget(
        loss=sample.targets[t],
        group=sample.group,
        laws=[_errors(contestant, errors[c, scored]) for c, contestant in enumerate(contestants)],
        left_out=[
            LeftOutPoint(
                batch_tokens=float(f"{np.exp(here.log_batch[i]):.12g}"),
                steps=float(f"{np.exp(here.observed[i]):.12g}"),
                ended=bool(here.ended[i]),
                between=bool(here.between[i]),
                predicted={
                    name: None if value > 700.0 else float(np.exp(value))
                    for name, value in zip(names, here.predicted[:, i], strict=True)
                    if not np.isnan(value)
                },
            )
            for i in range(len(here.observed))
        ],
    )


def _too_few(samples: Sequence[Sample]) -> str:
    most = max(
        (len(s.observations.reached_batches(t)) for s in samples for t in range(len(s.targets))), default=0
    )
    return (
        f"no batch size can be left out and predicted from the others: {most or 'none'} reached a target, and the "
        "revised law wants five without the one that is left out. Add batch sizes, seven or more in all."
    )
