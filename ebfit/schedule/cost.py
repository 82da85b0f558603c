"""What a batch beside B_opt costs: E(B) / E_min as a function of B / B_opt, from the laws of a fit's targets.

In log-log axes the curves of different targets nearly are translations of each other (DESIGN 3.2). Taken as exactly
that, one curve serves all losses: the tokens to a loss of level ell at batch size B are

    E(B; ell) = ell phi(B / B_opt(ell)),    ell = E_min of that loss,

and phi is the median of the targets' laws. B below B_min never arrives: phi is infinite there.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ebfit.errors import CannotAnswerError
from ebfit.files import TargetRecord
from ebfit.laws import LAWS, FloatArray, power, revised

# natural logs of B / B_opt: far enough for any batch size that a plan may hold, in steps of half a percent
_SMALLEST, _LARGEST, _STEP = -7.0, 45.0, 0.005

# Of the laws that have a B_opt: from what fit.json holds to what `ebfit.laws` takes.
_FREE_FROM_PARAMS = {"revised": revised.free_from_params, "surface": power.free_from_params}


@dataclass(frozen=True)
class Cost:
    """phi on a grid.

    Attributes
    ----------
    log_ratio : ndarray, shape (n,)
        Natural logs of B / B_opt, rising evenly.
    log_cost : ndarray, shape (n,)
        Natural logs of E(B) / E_min: 0 at B_opt, positive elsewhere, infinite below B_min.
    """

    log_ratio: FloatArray
    log_cost: FloatArray

    @classmethod
    def of(cls, targets: Sequence[TargetRecord]) -> "Cost":
        """Take the median of the laws of the targets.

        Raises
        ------
        CannotAnswerError
            If no target holds the parameters of a law.
        """
        log_ratio = np.arange(_SMALLEST, _LARGEST, _STEP)
        curves = []
        for target in targets:
            try:
                free = _FREE_FROM_PARAMS[target.law](target.params)
            except (ValueError, KeyError, ZeroDivisionError):
                continue  # a shape at the very edge of what the law allows, rounded over it in the file
            law = LAWS[target.law]
            optimum = law.log_numbers(free)
            log_steps = law.log_steps(free, optimum["b_opt"] + log_ratio)
            curves.append(log_steps + log_ratio - optimum["s_opt"])  # B S / (B_opt S_opt)
        if not curves:
            raise CannotAnswerError("no target of the fit holds the parameters of its law. Fit anew.")
        # of an even number, the lower median: the mean of a finite and an infinite cost would be infinite
        return cls(log_ratio, np.sort(curves, axis=0)[(len(curves) - 1) // 2])

    def log_cost_at(self, log_ratio: FloatArray) -> FloatArray:
        """Return ln phi; infinite below B_min."""
        place = np.clip((log_ratio - _SMALLEST) / _STEP, 0.0, len(self.log_ratio) - 1.001)
        left = place.astype(int)
        share = place - left
        with np.errstate(invalid="ignore"):
            between = self.log_cost[left] * (1.0 - share) + self.log_cost[left + 1] * share
        # beside an infinite cost there is nothing to interpolate
        return np.where(np.isfinite(between), between, np.inf)

    def largest_ratio(self, cost: float) -> float:
        """Return the largest B / B_opt that costs at most ``cost`` times the fewest tokens."""
        dearer = self.log_ratio >= 0.0  # from B_opt on, where the cost rises with the batch
        return float(np.exp(np.interp(np.log(cost), self.log_cost[dearer], self.log_ratio[dearer])))
