"""The revised law over the targets of a group: B_min and B_opt, their intervals and statuses.

Estimates and intervals are those of the revised law averaged with its second opinion, in the proportion in which the
data speak for each: the estimate is the weighted geometric mean, the interval mixes the replicates. Where the revised
law holds, the second opinion has no weight, and B_min and B_opt are its A_1 and E_min / S_opt. From the smallest batch
that reached a target down to B_min it is the law that extrapolates, and an interval that trusts one law is too narrow
there, however little the points scatter.
"""

from functools import partial

import numpy as np

from ebfit.fitting.bracket import bracket, is_known
from ebfit.fitting.coupling import Coupling, Fitted, draw, fit_law, p_of_one_shape
from ebfit.fitting.leverage import leave_out
from ebfit.fitting.observations import Observations
from ebfit.fitting.point import PointFit
from ebfit.fitting.profile import revised_bound
from ebfit.fitting.result import SecondOpinion, TargetFit
from ebfit.fitting.second_opinion import weight_of_second
from ebfit.fitting.weak_data import hangs_on_one_size, missing_data, no_plateau, other_law
from ebfit.laws import LAWS, SECOND_OPINIONS, FloatArray

_TENABLE = 0.01  # p-value of one shape for all targets below which the user is told


def fit_revised(
    data: Observations, coupling: Coupling, replicates: int, confidence: float, seed: int
) -> list[TargetFit]:
    """Fit the revised law to every target; the arguments are those of `ebfit.fitting.fit_targets`."""
    first = fit_law(LAWS["revised"], data, coupling)
    point = first.point
    draws = draw(data, first, replicates, seed)
    second_law = SECOND_OPINIONS["revised"]
    other = fit_law(second_law, data, coupling)
    second = other.point
    weight = weight_of_second(point, second)
    second_draws = draw(data, other, replicates, seed) if weight else draws
    from_second = round(replicates * weight)
    without = leave_out(data, first)
    sharing = _not_tenable(data, first, seed) if coupling == "shared" else []
    fits = []
    for t in range(len(point.free)):
        mixed = {
            key: np.concatenate([draws[t][key][from_second:], second_draws[t][key][:from_second]])
            for key in draws[t]
        }
        log_first = point.problems.law.log_numbers(point.free[t])
        log_second = second_law.log_numbers(second.free[t])
        # geometric means, so that B_opt = E_min / S_opt holds of the averages as it does of each law
        log_numbers = {
            key: float((1.0 - weight) * log_first[key] + weight * log_second[key]) for key in log_first
        }
        numbers = bracket(
            data,
            t,
            float(np.median(point.problems.sd[t][data.reached[:, t]])),
            log_numbers,
            mixed,
            confidence,
            partial(_bound, first.own, t, mixed, confidence),
        )
        b_opt_is_known = numbers["b_opt"].status == "ok"
        s_min_is_known = is_known(mixed["s_min"], confidence)
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
                free=point.free[t],
                params=point.problems.law.params(point.free[t]),
                numbers=numbers,
                s_min=float(np.exp(log_numbers["s_min"])) if s_min_is_known else None,
                e_min=float(np.exp(log_numbers["e_min"])) if b_opt_is_known else None,
                s_opt=float(np.exp(log_numbers["s_opt"])) if b_opt_is_known else None,
                rms_log_residual=float(point.rms_log_residual[t]),
                misfit_log_sd=float(point.misfit_sd[t]),
                second_opinion=opinion,
                draws=mixed,
                warnings=[
                    *missing_data(data, t, numbers["b_min"], numbers["b_opt"]),
                    *([] if s_min_is_known else no_plateau(data, t, numbers["b_opt"])),
                    *hangs_on_one_size(data, without, t, numbers),
                    *other_law(opinion),
                    *sharing,
                ],
            )
        )
    return fits


def _not_tenable(data: Observations, fitted: Fitted, seed: int) -> list[str]:
    """Say that the targets do not share a shape, where they are sure not to."""
    if not fitted.coupled:
        return []
    p = p_of_one_shape(data, fitted, seed)
    if p >= _TENABLE:
        return []
    return [
        f"one shape for all targets is not tenable (p = {p:.3f}), and intervals that rest on it are too narrow: use "
        "--coupling pooled."
    ]


def _bound(
    point: PointFit, t: int, draws: dict[str, FloatArray], confidence: float, number: str, side: int
) -> float | None:
    """Return a one-sided bound: the profile's, or the replicates' where these reach further.

    The profile is that of the target by itself: what it does not bound, other targets should not seem to.
    """
    profile = revised_bound(point, t, number, side, confidence)
    if profile is None:
        return None
    quantile = float(np.quantile(draws[number], confidence if side > 0 else 1.0 - confidence))
    return float(np.exp(max(profile, quantile) if side > 0 else min(profile, quantile)))
