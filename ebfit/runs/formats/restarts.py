"""Restarts in a log: where the steps go back, and whether a run went on there or another one began.

A job that was killed is often started again with the same log file. Steps then go back to the last checkpoint, and
the records after it belong to the same run. If they go back to the very beginning, nothing was loaded: what follows
is another run, and a curve made of both would be neither.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

# A run of fewer train losses tells nothing.
MIN_ROWS = 5
HARDLY_BEGUN = "of a run that has hardly begun"


@dataclass(frozen=True)
class Stretch:
    """Rows between two restarts.

    Attributes
    ----------
    first, end : int
        Its rows, as those of a slice.
    anew : bool
        It begins at the beginning, not at a checkpoint.
    """

    first: int
    end: int
    anew: bool


def stretches(steps: Sequence[float] | NDArray[np.float64]) -> list[Stretch]:
    """Find the restarts in a log.

    Parameters
    ----------
    steps : array_like of float, shape (rows,)
        The steps of its train losses in file order.

    Returns
    -------
    list of Stretch
        That cover all rows.
    """
    values = np.asarray(steps, dtype=float)
    gaps = np.diff(values)
    if not (gaps < 0).any():
        return [Stretch(0, len(values), anew=True)] if len(values) else []
    usual = float(np.median(gaps[gaps > 0])) if (gaps > 0).any() else 1.0
    bounds = [0, *(np.flatnonzero(gaps < 0) + 1).tolist(), len(values)]
    return [
        Stretch(first, end, first == 0 or bool(values[first] <= usual))
        for first, end in pairwise(bounds)
        if end > first
    ]


def runs(steps: Sequence[float] | NDArray[np.float64]) -> list[list[Stretch]]:
    """Sort the stretches of a log into runs.

    A run that had logged less than `MIN_ROWS` steps when it was begun anew is part of the one after it, whose rows
    count where both have some.

    Parameters
    ----------
    steps : array_like of float, shape (rows,)
        As `stretches` takes them.
    """
    found: list[list[Stretch]] = []
    logged: set[float] = set()  # steps of the last run found, as far as it matters how many
    for stretch in stretches(steps):
        if not found or (stretch.anew and len(logged) >= MIN_ROWS):
            found.append([])
            logged = set()
        found[-1].append(stretch)
        for step in steps[stretch.first : stretch.end]:
            if len(logged) >= MIN_ROWS:
                break
            logged.add(float(step))
    return found
