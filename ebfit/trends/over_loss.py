"""Loss against tokens, L = L_0 + c D^-p, and B_opt against loss, B = k (L - L_0)^-q: power laws above one floor.

For any floor L_0, ln D falls with ln(L - L_0) in a straight line of slope -1/p; the best floor is the one with which
the targets lie best on a line. Losses of targets are exact: only D has errors here.
"""

from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import brentq, minimize_scalar
from scipy.stats import t as student_t

from ebfit.files import BatchOfLoss, LossTrend
from ebfit.laws import FloatArray
from ebfit.trends.group import Group
from ebfit.trends.line import LARGEST_LOG, Line, Points, best_log_likelihood, clipped_covariance, fit_line
from ebfit.trends.over_tokens import LEAST_RANGE, LEAST_TARGETS, bound_of

_LEAST_FOR_FLOOR = 4  # some curve of three parameters goes through three targets
_NEAREST = 1e-3  # of the floor to the lowest target, as a share of the range of targets
_GRID = 60


def loss_vs_tokens(group: Group, confidence: float) -> LossTrend | None:
    """Fit L = l_0 + c D^-p with D = E_min to the targets of a group.

    Parameters
    ----------
    group : Group
    confidence : float
        Of the interval of the floor, which is that of the profile likelihood.

    Returns
    -------
    LossTrend or None
        None with fewer than four targets of known D, or where E_min does not grow as the loss falls. Where no floor
        above zero is better than zero itself, the floor is zero, open from below: over the range of the targets the
        loss then falls like ln D, or faster, and a higher floor would be made up.
    """
    known = [(loss, fit) for loss, fit in zip(group.losses, group.fits, strict=True) if fit.e_min is not None]
    known.sort(key=lambda item: -item[0])
    if len(known) < _LEAST_FOR_FLOOR:
        return None
    loss = np.array([loss for loss, _ in known])
    log_tokens = np.log(np.array([fit.e_min for _, fit in known], dtype=float))
    if np.ptp(log_tokens) < LEAST_RANGE:
        return None
    draws = np.array([fit.draws["e_min"] for _, fit in known])
    floor = _Floor(loss, log_tokens, clipped_covariance(draws))
    found = floor.best(confidence)
    if found is None:
        return None
    best, low, high = found
    line = fit_line(_above(best, loss, log_tokens, draws), confidence)
    if line.slope <= 0.0:
        return None
    log_c = line.height / line.slope - line.pivot
    if abs(log_c) > LARGEST_LOG:
        return None
    return LossTrend(
        l_0=best,
        l_0_low=low,
        l_0_high=high,
        c=float(np.exp(log_c)),
        exponent=1.0 / line.slope,
        d_low=float(np.exp(log_tokens.min())),
        d_high=float(np.exp(log_tokens.max())),
        loss_low=float(loss.min()),
        loss_high=float(loss.max()),
        n_targets=len(loss),
    )


def b_opt_vs_loss(group: Group, over_tokens: LossTrend | None, confidence: float) -> BatchOfLoss | None:
    """Fit B_opt = k (L - l_0)^-exponent to the targets of a group, with the floor that loss over tokens has.

    Parameters
    ----------
    group : Group
        Bounds on B_opt count: of them the loss is known, as D is not.
    over_tokens : LossTrend or None
    confidence : float
        Of the interval of the exponent, which holds what the floor's interval does to it; None on a side where the
        floor is open.

    Returns
    -------
    BatchOfLoss or None
        None with fewer than three targets, or without a floor above zero: the exponent would say more of the floor
        that is missing than of the batch size.
    """
    known = [
        (loss, fit)
        for loss, fit in zip(group.losses, group.fits, strict=True)
        if fit.numbers["b_opt"].status == "ok"
    ]
    known.sort(key=lambda item: -item[0])
    if over_tokens is None or over_tokens.l_0 == 0.0 or len(known) < LEAST_TARGETS:
        return None
    loss = np.array([loss for loss, _ in known])
    log_batch = np.log(np.array([fit.numbers["b_opt"].value for _, fit in known], dtype=float))
    draws = np.array([fit.draws["b_opt"] for _, fit in known])

    def line_above(floor: float) -> Line:
        return fit_line(_with_bounds(_above(floor, loss, log_batch, draws), floor, group), confidence)

    line = line_above(over_tokens.l_0)
    if line.coefficient is None:
        return None
    reach = line.quantile * line.slope_sd
    ends: list[float | None] = []
    for floor, side in ((over_tokens.l_0_high, -1.0), (over_tokens.l_0_low, 1.0)):
        # a lower floor makes the exponent larger; both errors add as independent ones do
        shift = None if floor is None else line_above(floor).slope - line.slope
        ends.append(None if shift is None else line.slope + side * float(np.hypot(reach, shift)))
    return BatchOfLoss(
        l_0=over_tokens.l_0,
        k=line.coefficient,
        exponent=line.slope,
        exponent_low=ends[0],
        exponent_high=ends[1],
        loss_low=float(loss.min()),
        loss_high=float(loss.max()),
        n_targets=len(loss),
    )


@dataclass(frozen=True)
class _Floor:
    """The profile likelihood of the floor, as a function of how far it lies below the lowest target (its log)."""

    loss: FloatArray
    log_tokens: FloatArray
    covariance: FloatArray

    def __call__(self, log_depth: float) -> float:
        above = self.loss - self.loss.min() + np.exp(log_depth)
        return best_log_likelihood(-np.log(above), self.log_tokens, self.covariance)

    def best(self, confidence: float) -> tuple[float, float | None, float | None] | None:
        """Return the best floor from zero on and the ends of its interval, None where open; None without a best."""
        lowest = float(self.loss.min())
        if lowest <= 0.0:
            return None  # no loss in nats; without zero as a last floor, nothing tells a floor from none
        nearest = float(np.log(_NEAREST * np.ptp(self.loss)))
        farthest = float(np.log(lowest))  # a floor of zero
        if nearest >= farthest:
            return None
        grid = np.linspace(nearest, farthest, _GRID)
        values = np.array([self(depth) for depth in grid])
        top = int(np.argmax(values))
        if top == 0:
            return None
        best, likelihood = farthest, float(values[-1])
        if top < _GRID - 1:
            found = minimize_scalar(
                lambda depth: -self(depth), bounds=(grid[top - 1], grid[top + 1]), method="bounded"
            )
            best, likelihood = float(found.x), -float(found.fun)
        drop = 0.5 * float(student_t.ppf(0.5 + 0.5 * confidence, len(self.loss) - 3)) ** 2
        least = likelihood - drop
        shallow = self._crossing(least, best, nearest)
        deep = self._crossing(least, best, farthest)
        return (
            0.0 if best == farthest else lowest - float(np.exp(best)),
            None if deep is None else lowest - float(np.exp(deep)),
            None if shallow is None else lowest - float(np.exp(shallow)),
        )

    def _crossing(self, level: float, inside: float, end: float) -> float | None:
        """Return where the likelihood has fallen to ``level`` between ``inside`` and ``end``, if it does."""
        if self(end) > level:
            return None
        return float(brentq(lambda depth: self(depth) - level, inside, end))


def _above(floor: float, loss: FloatArray, y: FloatArray, draws: FloatArray) -> Points:
    """Return points over -ln(L - floor), which have no errors in x."""
    x = -np.log(loss - floor)
    nothing = np.empty(0)
    return Points(
        x=x,
        y=y,
        x_draws=np.repeat(x[:, None], draws.shape[1], axis=1),
        y_draws=draws,
        block=np.zeros(len(x), dtype=np.intp),
        bound_x=nothing,
        bound=nothing,
        bound_sd=nothing,
        bound_side=nothing,
    )


def _with_bounds(points: Points, floor: float, group: Group) -> Points:
    """Return points together with the one-sided B_opt of targets above the floor."""
    found = [
        (float(-np.log(loss - floor)), bound)
        for loss, fit in zip(group.losses, group.fits, strict=True)
        if loss > floor and (bound := bound_of(fit, "b_opt")) is not None
    ]
    return replace(
        points,
        bound_x=np.array([x for x, _ in found]),
        bound=np.array([bound.log_bound for _, bound in found]),
        bound_sd=np.array([bound.sd for _, bound in found]),
        bound_side=np.array([bound.side for _, bound in found], dtype=float),
    )
