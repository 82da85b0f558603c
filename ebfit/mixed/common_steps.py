"""The loss curves of several runs, compared at the steps that they have in common.

Curves of one sweep begin at nearly one loss and then part, a larger batch being ahead at equal steps. At equal tokens
they would be far apart all along.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ebfit.runs.run import Curve, FloatArray

BoolArray = NDArray[np.bool_]

_SPACING = 0.05  # of the grid, in log steps
_WINDOW = (
    8  # points of the grid that are averaged at either end of what two curves have in common: e^0.4 in steps
)


@dataclass(frozen=True)
class Ends:
    """Mean log losses of one curve and of each of R others, where their common steps begin and where they end.

    Attributes
    ----------
    first, last : ndarray, shape (R,)
        Of the one curve; NaN where another has too few steps in common with it.
    other_first, other_last : ndarray, shape (R,)
    """

    first: FloatArray
    last: FloatArray
    other_first: FloatArray
    other_last: FloatArray


class CommonSteps:
    """Log losses of R curves on one grid of log steps.

    Parameters
    ----------
    curves : sequence of Curve or None
        None, and curves with a loss that is not positive, compare with nothing.
    """

    def __init__(self, curves: Sequence[Curve | None]) -> None:
        usable = [curve if curve is not None and _is_usable(curve) else None for curve in curves]
        log_steps = [None if curve is None else np.log(curve.steps) for curve in usable]
        begin = min((float(x[0]) for x in log_steps if x is not None), default=0.0)
        end = max((float(x[-1]) for x in log_steps if x is not None), default=0.0)
        grid = np.arange(begin, max(end, begin + _WINDOW * _SPACING) + _SPACING, _SPACING)
        # A curve covers the places of the grid from `begin` to before `end`.
        self._begin, self._end = np.zeros((2, len(curves)), dtype=np.int64)
        self._sums = np.zeros((len(curves), len(grid) + 1))
        for r, (curve, x) in enumerate(zip(usable, log_steps, strict=True)):
            if curve is not None and x is not None:
                self._begin[r] = np.searchsorted(grid, x[0], side="left")
                self._end[r] = np.searchsorted(grid, x[-1], side="right")
                np.cumsum(np.interp(grid, x, np.log(curve.loss)), out=self._sums[r, 1:])

    def compare_with_all(self, run: int) -> Ends:
        """Compare one curve with all, itself included."""
        begin = np.maximum(self._begin, self._begin[run])
        end = np.minimum(self._end, self._end[run])
        apart = end - begin < _WINDOW
        begin, end = np.where(apart, 0, begin), np.where(apart, _WINDOW, end)

        def mean(sums: FloatArray, window_begin: NDArray[np.int64]) -> FloatArray:
            rows = np.arange(len(sums))
            total = sums[rows, window_begin + _WINDOW] - sums[rows, window_begin]
            return np.where(apart, np.nan, total / _WINDOW)

        one = np.broadcast_to(self._sums[run], self._sums.shape)
        return Ends(
            first=mean(one, begin),
            last=mean(one, end - _WINDOW),
            other_first=mean(self._sums, begin),
            other_last=mean(self._sums, end - _WINDOW),
        )


def _is_usable(curve: Curve) -> bool:
    return len(curve.steps) > 1 and bool((curve.loss > 0).all())
