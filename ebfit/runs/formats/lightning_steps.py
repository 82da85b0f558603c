"""How Lightning's loggers count: ``step`` is the number of updates made before the one that is logged, from 0.

A record every 50 updates then stands at steps 49, 99, 149 and so on. Read in lightning 2.6.6, see `lightning_csv`.
"""

import statistics
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

_MOSTLY = 0.8


def count_from_zero(steps: Sequence[int] | NDArray[np.int64], *, resumed: bool) -> bool:
    """Tell by the steps of losses whether they count from 0: every 50 updates they are then 49, 99, 149 and so on.

    Parameters
    ----------
    steps : sequence of int
        Rising.
    resumed : bool
        What to say of losses at every step that begin late, of which nothing can be told.
    """
    if len(steps) < 2:
        return False
    at = np.asarray(steps, dtype=np.int64)
    gap = statistics.mode(np.diff(at).tolist())
    if gap == 1:
        return bool(at[0] == 0 or (resumed and at[0] > 1))
    return bool(np.count_nonzero((at + 1) % gap == 0) >= _MOSTLY * len(at))


def logged_by_lightning(epochs: NDArray[np.float64], steps: NDArray[np.float64] | NDArray[np.int64]) -> bool:
    """Tell whether Lightning logged, as it does whole epochs beside losses at steps that count from 0.

    Parameters
    ----------
    epochs : array
        All that were logged.
    steps : array
        Those of the losses, whole numbers.
    """
    whole = len(epochs) > 0 and bool((np.isfinite(epochs) & (np.floor(epochs) == epochs)).all())
    return whole and count_from_zero(np.unique(steps).astype(np.int64), resumed=False)
