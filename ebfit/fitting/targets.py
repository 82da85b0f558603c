"""Fit a law to all targets of one group of runs: estimates, intervals, and plain words about them."""

from dataclasses import dataclass, field

import numpy as np

from ebfit.fitting.bootstrap import bootstrap
from ebfit.fitting.intervals import (
    NOT_IDENTIFIED,
    Interval,
    Side,
    b_min_is_near,
    open_sides_of_b_opt,
    two_sided,
)
from ebfit.fitting.observations import Observations
from ebfit.fitting.point import PointFit, fit_points, log_evidence
from ebfit.fitting.profile import revised_bound
from ebfit.laws import LAWS, SECOND_OPINIONS, FloatArray, Law

# Distinct batch sizes that must have reached a target, and that must have been tried at all.
LEAST_REACHED = {"revised": 4, "classic": 3}
LEAST_TRIED = {"revised": 5, "classic": 3}
WANTED_FOR_REVISED = 7

# Laws are compared by evidence from a handful of points, whose errors are anything but independent: count it half.
_EVIDENCE_TEMPER = 0.5
_LEAST_WEIGHT = 0.005


@dataclass(frozen=True)
class SecondOpinion:
    """What another law says of the same points, and the weight it has in the intervals (0 to 1)."""

    law: str
    weight: float
    b_min: float
    b_opt: float
    rms_log_residual: float


@dataclass(frozen=True)
class TargetFit:
    """A law fitted at one target.

    Attributes
    ----------
    law : str
    params : dict
        The law's parameters, steps and tokens.
    numbers : dict
        name -> Interval for b_min and b_opt, or b_crit; tokens.
    s_min, e_min, s_opt : float or None
        Steps, tokens, steps.
    rms_log_residual : float
        Over the points that reached the target, natural log.
    misfit_log_sd : float
        Scatter of log steps beyond the error of the crossings.
    second_opinion : SecondOpinion or None
    draws : dict
        name -> natural logs of the bootstrap replicates, shape (N,).
    warnings : list of str
    """

    law: str
    params: dict[str, float]
    numbers: dict[str, Interval]
    s_min: float
    e_min: float
    s_opt: float | None
    rms_log_residual: float
    misfit_log_sd: float
    second_opinion: SecondOpinion | None
    draws: dict[str, FloatArray]
    warnings: list[str] = field(default_factory=list)


def why_not_fitted(law: str, data: Observations, target: int) -> str | None:
    """Return why a target holds too little for a law, or None."""
    reached, tried = _counts(data, target)
    if reached == 0:
        return "no run reaches it in its stable phase"
    if reached < LEAST_REACHED[law]:
        return (
            f"only {_sizes(reached)} reached it; the {law} law wants at least {LEAST_REACHED[law]}"
            f"{f' and better {WANTED_FOR_REVISED}' if law == 'revised' else ''}"
        )
    if tried < LEAST_TRIED[law]:
        return f"only {_sizes(tried)} in all; the {law} law wants at least {LEAST_TRIED[law]}"
    return None


def fit_targets(
    law_name: str, data: Observations, *, replicates: int, confidence: float, seed: int
) -> list[TargetFit]:
    """Fit a law to every target, with intervals.

    Parameters
    ----------
    law_name : {"revised", "classic"}
    data : Observations
        Every target passes `why_not_fitted`. Results do not depend on the order of runs.
    replicates : int
        Bootstrap refits per target.
    confidence : float
        Of the intervals, such as 0.95.
    seed : int
        Of the bootstrap.

    Returns
    -------
    list of TargetFit
        One per target, in order.
    """
    data = _in_canonical_order(data)
    law = LAWS[law_name]
    point = fit_points(law, data)
    draws = _draws(law, data, point, replicates, seed)
    if law_name == "classic":
        return _classic_fits(data, point, draws, confidence)
    return _revised_fits(data, point, draws, replicates, confidence, seed)


def _revised_fits(
    data: Observations,
    point: PointFit,
    draws: list[dict[str, FloatArray]],
    replicates: int,
    confidence: float,
    seed: int,
) -> list[TargetFit]:
    second_law = SECOND_OPINIONS["revised"]
    second = fit_points(second_law, data)
    # One weight for the whole group: which law the training follows does not change from target to target.
    lead = float(np.mean(log_evidence(second) - log_evidence(point)))
    weight = float(1.0 / (1.0 + np.exp(-np.clip(_EVIDENCE_TEMPER * lead, -500.0, 500.0))))
    second_draws = _draws(second_law, data, second, replicates, seed) if weight > _LEAST_WEIGHT else draws
    from_second = round(replicates * weight)
    fits = []
    for t in range(len(point.free)):
        mixed = {
            key: np.concatenate([draws[t][key][from_second:], second_draws[t][key][:from_second]])
            for key in draws[t]
        }
        log_numbers = {
            key: float(value) for key, value in point.problems.law.log_numbers(point.free[t]).items()
        }
        params = point.problems.law.params(point.free[t])
        open_sides = open_sides_of_b_opt(
            log_numbers["b_opt"],
            mixed["b_opt"],
            data.reached_batches(t),
            data.mean_log_tokens(t),
            data.censored_batches(t),
        )
        b_opt = _b_opt(point, t, open_sides, log_numbers["b_opt"], mixed["b_opt"], confidence)
        b_min = _b_min(data, point, t, open_sides, log_numbers["b_min"], mixed["b_min"], confidence)
        log_second = second_law.log_numbers(second.free[t])
        opinion = SecondOpinion(
            law=second_law.name,
            weight=weight,
            b_min=float(np.exp(log_second["b_min"])),
            b_opt=float(np.exp(log_second["b_opt"])),
            rms_log_residual=float(second.rms_log_residual[t]),
        )
        fits.append(
            TargetFit(
                law="revised",
                params=params,
                numbers={"b_min": b_min, "b_opt": b_opt},
                s_min=params["s_min"],
                e_min=params["e_min"],
                s_opt=params["s_opt"],
                rms_log_residual=float(point.rms_log_residual[t]),
                misfit_log_sd=float(point.misfit_sd[t]),
                second_opinion=opinion,
                draws=mixed,
                warnings=_revised_warnings(data, t, b_min, b_opt),
            )
        )
    return fits


def _b_opt(
    point: PointFit, t: int, open_sides: set[Side], log_value: float, log_draws: FloatArray, confidence: float
) -> Interval:
    if not open_sides:
        return two_sided(log_value, log_draws, confidence)
    if len(open_sides) == 2:
        return NOT_IDENTIFIED
    if "below" in open_sides:
        return Interval(None, None, _bound(point, t, "b_opt", 1, log_draws, confidence), "upper_bound")
    return Interval(None, _bound(point, t, "b_opt", -1, log_draws, confidence), None, "lower_bound")


def _b_min(
    data: Observations,
    point: PointFit,
    t: int,
    open_sides: set[Side],
    log_value: float,
    log_draws: FloatArray,
    confidence: float,
) -> Interval:
    reached = data.reached_batches(t)
    # Where tokens were not seen to rise towards small batches, nothing was seen of the approach to B_min either.
    if "below" not in open_sides and b_min_is_near(log_value, reached, data.censored_batches(t)):
        return two_sided(log_value, log_draws, confidence)
    # The smallest batch size that reached the target is an upper bound by itself.
    high = min(_bound(point, t, "b_min", 1, log_draws, confidence) or np.inf, float(np.exp(reached[0])))
    return Interval(None, None, high, "upper_bound")


def _bound(
    point: PointFit, t: int, number: str, side: int, log_draws: FloatArray, confidence: float
) -> float | None:
    """Return a one-sided bound: the profile's, or the replicates' where the second opinion reaches further."""
    profile = revised_bound(point, t, number, side, confidence)
    if profile is None:
        return None
    quantile = float(np.quantile(log_draws, confidence if side > 0 else 1.0 - confidence))
    return float(np.exp(max(profile, quantile) if side > 0 else min(profile, quantile)))


def _revised_warnings(data: Observations, t: int, b_min: Interval, b_opt: Interval) -> list[str]:
    warnings = []
    reached, tried = _counts(data, t)
    if tried < WANTED_FOR_REVISED:
        warnings.append(
            f"only {_sizes(tried)} for a law of six parameters: weak assumptions on its shape stand in for the "
            f"missing ones. Run at least {WANTED_FOR_REVISED}."
        )
    elif reached < WANTED_FOR_REVISED:
        warnings.append(
            f"only {_sizes(reached)} reached this loss, the others ended above it: train the smaller ones longer "
            f"or add sizes between, until {WANTED_FOR_REVISED} reach it."
        )
    edges = data.reached_batches(t)
    smallest, largest = (f"{np.exp(edge):,.0f}" for edge in (edges[0], edges[-1]))
    if b_opt.status == "upper_bound":
        warnings.append(
            f"tokens to the target fall all the way to the smallest batch, {smallest} tokens: add smaller."
        )
    elif b_opt.status == "lower_bound":
        warnings.append(
            f"tokens to the target fall all the way to the largest batch, {largest} tokens: add larger."
        )
    elif b_opt.status == "not_identified":
        warnings.append(
            f"no fewest tokens within the batch sizes that reached this loss, {smallest} to {largest} tokens: "
            "add smaller and larger ones."
        )
    if b_min.status == "upper_bound":
        warnings.append(
            f"no batch size was run near B_min: the smallest that reached the target is {smallest} tokens."
        )
    return warnings


_CLASSIC_COLLAPSED = 0.1  # S_min below this share of the fewest observed steps: the plateau was not seen
_CLASSIC_BEATEN_BY = 6.0  # log evidence of the revised law over the classic one, beyond reasonable doubt
_CLASSIC_WORTH_A_WORD = 0.03  # RMS log residual below which no law is blamed


def _classic_fits(
    data: Observations, point: PointFit, draws: list[dict[str, FloatArray]], confidence: float
) -> list[TargetFit]:
    reference = _revised_where_possible(data, log_evidence(point))
    fits = []
    for t in range(len(point.free)):
        params = point.problems.law.params(point.free[t])
        log_b_crit = float(point.problems.law.log_numbers(point.free[t])["b_crit"])
        rms = float(point.rms_log_residual[t])
        reached = data.reached[:, t]
        warnings = []
        if params["s_min"] < _CLASSIC_COLLAPSED * np.exp(data.log_steps[reached, t].min()):
            warnings.append(
                "the classic law has collapsed (S_min goes to zero): no critical batch size can be read off these "
                "data. Use --law revised, or add larger batch sizes if none reaches its fewest steps."
            )
        beaten_by, revised_rms = reference.get(t, (0.0, rms))
        if beaten_by > _CLASSIC_BEATEN_BY and rms > _CLASSIC_WORTH_A_WORD:
            warnings.append(
                f"the classic law does not describe these data: its RMS log residual is {rms:.3f}, that of the "
                f"revised law {revised_rms:.3f}. Use --law revised."
            )
        b_crit = NOT_IDENTIFIED if warnings else two_sided(log_b_crit, draws[t]["b_crit"], confidence)
        fits.append(
            TargetFit(
                law="classic",
                params=params,
                numbers={"b_crit": b_crit},
                s_min=params["s_min"],
                e_min=params["e_min"],
                s_opt=None,
                rms_log_residual=rms,
                misfit_log_sd=float(point.misfit_sd[t]),
                second_opinion=None,
                draws=draws[t],
                warnings=warnings,
            )
        )
    return fits


def _revised_where_possible(
    data: Observations, classic_evidence: FloatArray
) -> dict[int, tuple[float, float]]:
    """Return target -> (log evidence over the classic law, RMS log residual) where there is enough to compare."""
    able = [
        t
        for t in range(data.log_steps.shape[1])
        if why_not_fitted("revised", data, t) is None and _counts(data, t)[0] >= WANTED_FOR_REVISED
    ]
    if not able:
        return {}
    point = fit_points(LAWS["revised"], data.take_targets(able))
    lead = log_evidence(point) - classic_evidence[able]
    return {t: (float(lead[i]), float(point.rms_log_residual[i])) for i, t in enumerate(able)}


def _draws(
    law: Law, data: Observations, point: PointFit, replicates: int, seed: int
) -> list[dict[str, FloatArray]]:
    free = bootstrap(data, point, replicates, seed).free
    return [law.log_numbers(free[t]) for t in range(len(free))]


def _counts(data: Observations, target: int) -> tuple[int, int]:
    """Return how many distinct batch sizes reached a target, and how many were run at all."""
    tried = np.unique(data.log_batch[data.present[:, target]])
    return len(data.reached_batches(target)), len(tried)


def _sizes(count: int) -> str:
    return f"{count} batch size" if count == 1 else f"{count} batch sizes"


def _in_canonical_order(data: Observations) -> Observations:
    """Sort runs by what they are and not by how they were listed, so that the order given changes nothing."""
    keys = [np.nan_to_num(data.log_steps[:, t], nan=-1.0) for t in range(data.log_steps.shape[1])]
    order = np.lexsort([*(data.censored[:, t] for t in range(data.censored.shape[1])), *keys, data.log_batch])
    return data.take_runs(order)
