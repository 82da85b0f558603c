"""From rows in file order to loss curves in step order."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ebfit.runs.raw_log import Cells
from ebfit.runs.run import Curve, FloatArray

# No loss in nats is larger; what is comes from an overflow.
MAX_LOSS = 1e9


@dataclass(frozen=True)
class Ordered:
    """Values in step order, one per step.

    Attributes
    ----------
    steps : ndarray, shape (n,)
        Strictly rising.
    rows : ndarray, shape (n,)
        The row of the log that each step was taken from.
    late : int
        Rows that stood after a row of a later step.
    """

    steps: FloatArray
    rows: NDArray[np.int64]
    late: int


def in_step_order(steps: FloatArray, rows: NDArray[np.int64]) -> Ordered:
    """Sort rows by step; of rows of the same step the one that stands last in the file is kept.

    Parameters
    ----------
    steps : ndarray, shape (all rows of the log,)
        Step of every row.
    rows : ndarray, shape (n,)
        The rows to order, rising.
    """
    chosen = steps if len(rows) == len(steps) else steps[rows]
    if len(chosen) < 2 or (chosen[1:] > chosen[:-1]).all():
        return Ordered(chosen, rows, 0)
    late = int(np.count_nonzero(chosen < np.maximum.accumulate(chosen)))
    order = np.argsort(chosen, kind="stable")
    chosen, rows = chosen[order], rows[order]
    last = np.append(chosen[1:] != chosen[:-1], True)
    return Ordered(chosen[last], rows[last], late)


def usable_loss(cells: Cells) -> NDArray[np.bool_]:
    """Tell which cells hold a loss."""
    with np.errstate(invalid="ignore"):
        usable: NDArray[np.bool_] = np.abs(cells.values) < MAX_LOSS
    return usable


def curve_of(
    ordered: Ordered,
    cells: Cells,
    column: str,
    steps: FloatArray,
    window: int | Literal["interval"] = 1,
    ema: float | None = None,
) -> Curve:
    """Make a loss curve, its steps moved back by the lag of averaging.

    Parameters
    ----------
    ordered : Ordered
        Rows with a usable loss.
    cells : Cells
        The loss of every row of the log.
    column : str
        The loss column's name.
    steps : ndarray, shape (all rows of the log,)
        Step of every row.
    window : int or "interval"
        The loss is a mean over this many steps, or over those since the row before.
    ema : float or None
        The loss is an exponential moving average over rows with this weight of the past.
    """
    loss = cells.values[ordered.rows]
    if ema is None and window == 1:
        return Curve(ordered.steps, loss, column)
    if ema is not None:
        moved = _ema_steps(ordered.steps, ema)
    elif window == "interval":
        logged = np.unique(steps[~cells.empty & (steps >= 0)])
        moved = ordered.steps - (_gaps(ordered.steps, logged) - 1) / 2
    else:
        # The first means are over fewer steps: no more have been made.
        moved = ordered.steps - (np.minimum(window, ordered.steps) - 1) / 2
    lag = float(np.median(ordered.steps - moved)) if len(moved) else 0.0
    return Curve(moved, loss, column, lag, ordered.steps)


def _gaps(steps: FloatArray, logged: FloatArray) -> FloatArray:
    """Return the steps since the row before, whether or not that row's loss was a number."""
    at = np.searchsorted(logged, steps)
    before = np.where(at > 0, logged[np.maximum(at - 1, 0)], 0.0)
    gaps: FloatArray = steps - before
    if len(gaps) > 1 and at[0] == 0:
        # A log that starts late has no row before its first: the window was that of its second.
        gaps[0] = min(gaps[0], gaps[1])
    return gaps


def _ema_steps(steps: FloatArray, beta: float) -> FloatArray:
    """Average the steps as the losses were averaged: in a steady state beta / (1 - beta) rows late."""
    from scipy.signal import lfilter

    if len(steps) == 0:
        return steps
    summed = lfilter([1 - beta], [1, -beta], steps)
    weight = lfilter([1 - beta], [1, -beta], np.ones(len(steps)))
    moved: FloatArray = summed / weight
    return moved
