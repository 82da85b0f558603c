"""Which target losses to fit when the user does not say: those that enough batch sizes reach, well spread."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from ebfit.crossings import FloatArray, SmoothCurve
from ebfit.fitting import WANTED_FOR_REVISED

_CANDIDATES = 400
_LEAST_FALL = 1e-6  # of the loss; curves that fall less do not train, and what they cross is rounding


def choose(curves: Sequence[SmoothCurve], log_batch: FloatArray, count: int) -> list[float]:
    """Choose target losses.

    Parameters
    ----------
    curves : sequence of SmoothCurve, length R
    log_batch : ndarray, shape (R,)
        Log batch size of each run; runs of one batch size count once.
    count : int
        How many targets are wanted.

    Returns
    -------
    list of float
        Falling losses, rounded where that changes nothing, that `WANTED_FOR_REVISED` batch sizes reach, or as many as
        any loss has; of these the ones whose fewest tokens lie between batch sizes, if there are any; evenly
        spaced in the log of the tokens it takes to reach them. Empty if no loss is reached.
    """
    highest = max(float(curve.loss[0]) for curve in curves)
    lowest = min(float(curve.loss[-1]) for curve in curves)
    if highest - lowest <= _LEAST_FALL * abs(highest):
        return []
    losses = np.linspace(highest, lowest, _CANDIDATES + 2)[1:-1]
    log_steps = np.array([_crossing_log_steps(curve, losses) for curve in curves])
    sizes = _sizes_reached(log_steps, log_batch)
    if sizes.max() == 0:
        return []
    least = min(WANTED_FOR_REVISED, int(sizes.max()))
    widely = sizes >= least
    # Early in training the fewest tokens are taken by the smallest batch that was run: B_opt is not seen there yet.
    bracketed = widely & _fewest_tokens_inside(log_steps, log_batch)
    enough = np.flatnonzero(bracketed if bracketed.any() else widely)
    # How far in training a loss lies: the fewest tokens that any run took to it, the D that schedules go by.
    tokens = np.nanmin(log_steps[:, enough] + log_batch[:, None], axis=0)
    progress = np.maximum.accumulate(tokens)
    wanted = np.linspace(progress[0], progress[-1], count + 2)[1:-1] if count > 1 else progress[-1:]
    chosen = sorted({int(enough[np.argmin(np.abs(progress - w))]) for w in wanted})
    if len(chosen) > 1:
        spacing = float(losses[chosen[0]] - losses[chosen[-1]]) / (len(chosen) - 1)
    else:
        spacing = max(0.1 * float(losses[enough[0]] - losses[enough[-1]]), float(losses[0] - losses[1]))

    def holds(loss: float) -> bool:
        at_loss = np.array([_crossing_log_steps(curve, np.array([loss])) for curve in curves])
        return bool(_sizes_reached(at_loss, log_batch)[0] >= least)

    return sorted({_rounded(float(losses[i]), spacing, holds) for i in chosen}, reverse=True)


def _rounded(loss: float, spacing: float, holds: Callable[[float], bool]) -> float:
    """Round to the shortest decimal within a fifth of the spacing of targets that enough batch sizes still reach."""
    for decimals in range(12):
        short = round(loss, decimals)
        if abs(short - loss) <= 0.2 * spacing and holds(short):
            return short
    return loss


def _crossing_log_steps(curve: SmoothCurve, losses: FloatArray) -> FloatArray:
    """Return the log steps at falling losses; NaN where the curve starts below or ends above."""
    log_steps = np.interp(-losses, -curve.loss, curve.log_steps)
    inside = (losses < curve.loss[0]) & (losses >= curve.loss[-1])
    return np.where(inside, log_steps, np.nan)


def _sizes_reached(log_steps: FloatArray, log_batch: FloatArray) -> FloatArray:
    """Return how many distinct batch sizes reach each loss."""
    reached = np.isfinite(log_steps)
    return np.sum([reached[log_batch == size].any(axis=0) for size in np.unique(log_batch)], axis=0)


def _fewest_tokens_inside(log_steps: FloatArray, log_batch: FloatArray) -> NDArray[np.bool_]:
    """Whether neither the smallest nor the largest batch size takes the fewest tokens to each loss."""
    order = np.argsort(log_batch, kind="stable")
    tokens = np.where(np.isfinite(log_steps), log_steps + log_batch[:, None], np.inf)[order]
    fewest = log_batch[order][np.argmin(tokens, axis=0)]
    return (fewest > log_batch.min()) & (fewest < log_batch.max())
