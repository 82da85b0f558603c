"""The classic law over the targets of a group: its critical batch size, and when not to believe it."""

import numpy as np

from ebfit.fitting import next_run
from ebfit.fitting.bootstrap import draw_numbers
from ebfit.fitting.enough import WANTED_FOR_REVISED, counts, why_not_fitted
from ebfit.fitting.intervals import NOT_IDENTIFIED, Interval, beyond, two_sided
from ebfit.fitting.observations import Observations
from ebfit.fitting.point import fit_points, log_evidence
from ebfit.fitting.result import TargetFit
from ebfit.laws import LAWS, FloatArray

_COLLAPSED = 0.1  # S_min below this share of the fewest observed steps: the plateau was not seen
_BEATEN_BY = 6.0  # log evidence of the revised law over the classic one, beyond reasonable doubt
_WORTH_A_WORD = 0.03  # RMS log residual below which no law is blamed


def fit_classic(data: Observations, replicates: int, confidence: float, seed: int) -> list[TargetFit]:
    """Fit the classic law to every target; the arguments are those of `ebfit.fitting.fit_targets`."""
    point = fit_points(LAWS["classic"], data)
    draws = draw_numbers(data, point, replicates, seed)
    reference = _revised_where_possible(data, log_evidence(point))
    fits = []
    for t in range(len(point.free)):
        params = point.problems.law.params(point.free[t])
        log_b_crit = float(point.problems.law.log_numbers(point.free[t])["b_crit"])
        rms = float(point.rms_log_residual[t])
        reached = data.reached[:, t]
        warnings = []
        least_s_min = _COLLAPSED * float(np.exp(data.log_steps[reached, t].min()))
        if params["s_min"] < least_s_min:
            warnings.append(
                "the classic law has collapsed (S_min goes to zero): no critical batch size can be read off these "
                "data. Use --law revised, or add larger batch sizes if none reaches its fewest steps."
            )
        beaten_by, revised_rms = reference.get(t, (0.0, rms))
        if beaten_by > _BEATEN_BY and rms > _WORTH_A_WORD:
            warnings.append(
                f"the classic law does not describe these data: its RMS log residual is {rms:.3f}, that of the "
                f"revised law {revised_rms:.3f}. Use --law revised."
            )
        if warnings:
            b_crit = NOT_IDENTIFIED
        else:
            b_crit, outside = _bracketed(data, t, log_b_crit, draws[t]["b_crit"], confidence)
            warnings += outside
        fits.append(
            TargetFit(
                law="classic",
                free=point.free[t],
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


def _bracketed(
    data: Observations, t: int, log_value: float, log_draws: FloatArray, confidence: float
) -> tuple[Interval, list[str]]:
    """Return B_crit where the batch sizes that reached the target bracket it, else the bound that they set."""
    reached = data.reached_batches(t)
    sides = beyond(log_value, log_draws, reached, confidence)
    if "above" in sides:
        low = float(np.exp(np.quantile(log_draws, 1.0 - confidence)))
        return Interval(None, low, None, "lower_bound"), [
            f"B_crit lies beyond the largest batch size, {next_run.size_text(reached[-1])} tokens, where steps still "
            f"fall: {next_run.larger_or_lower(data, t)}."
        ]
    if "below" in sides:
        high = float(np.exp(np.quantile(log_draws, confidence)))
        return Interval(None, None, high, "upper_bound"), [
            f"B_crit lies below the smallest batch size, {next_run.size_text(reached[0])} tokens, where tokens still "
            f"fall: {next_run.smaller(data, t).order}."
        ]
    return two_sided(log_value, log_draws, confidence), []


def _revised_where_possible(
    data: Observations, classic_evidence: FloatArray
) -> dict[int, tuple[float, float]]:
    """Return target -> (log evidence over the classic law, RMS log residual) where there is enough to compare."""
    able = [
        t
        for t in range(data.log_steps.shape[1])
        if why_not_fitted("revised", data, t) is None and counts(data, t)[0] >= WANTED_FOR_REVISED
    ]
    if not able:
        return {}
    point = fit_points(LAWS["revised"], data.take_targets(able))
    lead = log_evidence(point) - classic_evidence[able]
    return {t: (float(lead[i]), float(point.rms_log_residual[i])) for i, t in enumerate(able)}
