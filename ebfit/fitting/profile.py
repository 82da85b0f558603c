"""Profile-likelihood bounds through lmfit, for numbers that the data bound from one side only.

Where nothing holds a number from one side, bootstrap replicates wander off there and say nothing about the other
side that a percentile could be trusted with. The profile asks instead: how far can the number be pushed before the
best fit of everything else is that much worse?
"""

from dataclasses import replace
from typing import cast

import numpy as np
from scipy.special import expit, log_expit
from scipy.stats import t as student_t

from ebfit.fitting.point import PointFit, cost, polish
from ebfit.laws import FloatArray, Law

_FARTHEST = np.log(1e4)  # a bound more than this factor away from the estimate is no bound
_FIRST_STRIDE = 0.1
_CLOSE_ENOUGH = 0.01  # log tokens
_COST_TOLERANCE = 1e-6  # relative; the threshold itself is no better known


def revised_bound(point: PointFit, target: int, number: str, side: int, confidence: float) -> float | None:
    """Return the one-sided profile bound on log B_min or log B_opt of the revised law.

    Parameters
    ----------
    point : PointFit
    target : int
    number : {"b_min", "b_opt"}
    side : {-1, 1}
        Lower or upper bound.
    confidence : float
        One-sided, such as 0.95.

    Returns
    -------
    float or None
        Natural log of tokens; None where the data set no bound on that side.
    """
    problem = point.problems.take(slice(target, target + 1))
    best = point.free[target]
    lowest = cost(problem, best)
    allowed = float(student_t.ppf(confidence, point.degrees_of_freedom[target])) ** 2
    if number == "b_min":
        problem = replace(problem, law=cast(Law, _AnchoredAtBMin(problem.law)))
        best = _from_b_opt_to_b_min(best)
    warm = best

    def allows(distance: float) -> bool:
        """Whether the best fit with the number held this far out is good enough."""
        nonlocal warm
        held = {1: float(best[1]) + side * distance}
        for start in (warm, best):
            found = polish(problem, start, held, tolerance=_COST_TOLERANCE)
            if cost(problem, found) <= lowest + allowed:
                warm = found
                return True
        return False

    inside, outside = 0.0, _FIRST_STRIDE
    while allows(outside):
        inside, outside = outside, 2.0 * outside
        if inside > _FARTHEST:
            return None
    # Bisection, since a profile over several local minima may jump where it crosses.
    while outside - inside > _CLOSE_ENOUGH:
        middle = 0.5 * (inside + outside)
        inside, outside = (middle, outside) if allows(middle) else (inside, middle)
    return float(best[1]) + side * inside


class _AnchoredAtBMin:
    """The revised law with log B_min in the place of log B_opt, so that a profile can hold it."""

    def __init__(self, law: Law) -> None:
        self._law = law
        self.name, self.prior = law.name, law.prior
        self.free_names = tuple("log_b_min" if key == "log_b_opt" else key for key in law.free_names)

    def log_steps(self, anchored: FloatArray, log_batch: FloatArray) -> FloatArray:
        return self._law.log_steps(_from_b_min_to_b_opt(anchored), log_batch)

    def log_steps_jacobian(
        self, anchored: FloatArray, log_batch: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        log_s, jacobian = self._law.log_steps_jacobian(_from_b_min_to_b_opt(anchored), log_batch)
        by_anchored = jacobian.copy()
        by_anchored[..., 2] -= expit(-anchored[..., None, 2]) * jacobian[..., 1]
        return log_s, by_anchored


def _from_b_min_to_b_opt(anchored: FloatArray) -> FloatArray:
    free = np.array(anchored)
    free[..., 1] -= log_expit(free[..., 2])
    return free


def _from_b_opt_to_b_min(free: FloatArray) -> FloatArray:
    anchored = np.array(free)
    anchored[..., 1] += log_expit(free[..., 2])
    return anchored
