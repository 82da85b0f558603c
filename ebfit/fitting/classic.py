"""The classic law over the targets of a group: its critical batch size, and when not to believe it."""

import numpy as np

from ebfit.fitting.bootstrap import draw_numbers
from ebfit.fitting.enough import WANTED_FOR_REVISED, counts, why_not_fitted
from ebfit.fitting.intervals import NOT_IDENTIFIED, Interval, two_sided
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
        collapsed_draws = float(np.mean(draws[t]["s_min"] < np.log(least_s_min)))
        if warnings:
            b_crit = NOT_IDENTIFIED
        elif collapsed_draws > 0.5 * (1.0 - confidence):
            low = float(np.exp(np.quantile(draws[t]["b_crit"], 1.0 - confidence)))
            b_crit = Interval(None, low, None, "lower_bound")
            warnings.append(
                "the data allow a classic law without a plateau (S_min near zero), and then there is no upper bound on "
                "B_crit: add larger batch sizes."
            )
        else:
            b_crit = two_sided(log_b_crit, draws[t]["b_crit"], confidence)
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
        if why_not_fitted("revised", data, t) is None and counts(data, t)[0] >= WANTED_FOR_REVISED
    ]
    if not able:
        return {}
    point = fit_points(LAWS["revised"], data.take_targets(able))
    lead = log_evidence(point) - classic_evidence[able]
    return {t: (float(lead[i]), float(point.rms_log_residual[i])) for i, t in enumerate(able)}
