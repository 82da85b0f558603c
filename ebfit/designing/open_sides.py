"""Sides on which the runs so far do not bracket what is wanted: a design must go there, whatever a law expects.

Where B_opt or B_min is known from one side only, a law extrapolates past the batch sizes that were run, and the
information that it promises itself from others is worth little. So one run goes past the edge, and the rest of the
budget where the law says.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ebfit.designing.candidates import Candidates
from ebfit.designing.foresight import Foresight
from ebfit.designing.possible import NUMBERS
from ebfit.fitting.intervals import Side, Status
from ebfit.fitting.observations import Observations

_PAST = float(np.log(1.1))  # the edge, from which a batch size counts as beyond it
_FAR_PAST = float(np.log(2.0))  # what is looked for, so that it ends up between batch sizes
_LIKELY = 0.8  # of the laws that are possible, whose number is to be passed

_SIDES: dict[tuple[str, Status], tuple[Side, ...]] = {
    ("b_opt", "upper_bound"): ("below",),
    ("b_opt", "lower_bound"): ("above",),
    ("b_opt", "not_identified"): ("below", "above"),
    ("b_min", "upper_bound"): ("below",),
    ("b_min", "not_identified"): ("below",),
}


@dataclass(frozen=True)
class OpenSide:
    """A side from which a number is not bracketed.

    Attributes
    ----------
    side : {"below", "above"}
    targets : list of int
        Of which it is not.
    edge : float
        Log of the outermost batch size that reached one of them.
    place : float
        Log of the batch size that would make sure.
    """

    side: Literal["below", "above"]
    targets: list[int]
    edge: float
    place: float


def is_open(number: str, status: Status, side: Side) -> bool:
    """Whether a number of this status may lie past the batch sizes that were run on a side."""
    return side in _SIDES.get((number, status), ())


def open_sides(
    number: str,
    statuses: Sequence[Status],
    targets: Sequence[int],
    data: Observations,
    foresight: Foresight,
) -> list[OpenSide]:
    """Return the sides from which a number is not bracketed at some of the targets.

    Parameters
    ----------
    number : {"b_opt", "b_min"}
    statuses : sequence of str, length T
    targets : sequence of int
        That are looked at.
    data : Observations
    foresight : Foresight
    """
    found = []
    sides: tuple[Side, Side] = ("below", "above")
    for side in sides:
        those = [t for t in targets if is_open(number, statuses[t], side)]
        if not those:
            continue
        values = foresight.log_numbers[:, those, NUMBERS.index(number)]
        edges = np.array([data.reached_batches(t)[0 if side == "below" else -1] for t in those])
        if side == "above":
            edge = float(edges.max())
            place = max(float(np.quantile(values, _LIKELY)), edge) + _FAR_PAST
        elif number == "b_opt":
            edge = float(edges.min())
            place = min(float(np.quantile(values, 1.0 - _LIKELY)), edge) - _FAR_PAST
        else:
            # below B_min no run arrives; as near as it may be
            edge = float(edges.min())
            place = min(float(np.quantile(values, _LIKELY)) + _PAST, edge - _PAST)
        found.append(OpenSide(side, those, edge, place))
    return found


def runs_past_the_edges(
    sides: Sequence[OpenSide], candidates: Candidates, budget: float
) -> tuple[list[tuple[int, int]], list[tuple[OpenSide, float]]]:
    """Choose a run on every open side.

    Returns
    -------
    runs : list of tuple
        Batch size and target, as `choose` takes them.
    unpaid : list of tuple
        Sides on which no run lies within the budget, with the tokens that the cheapest would take; infinite where no
        run there is likely enough to arrive.
    """
    runs, unpaid = [], []
    left = budget
    log_batch = np.log(candidates.batch_tokens)
    for side in sides:
        past = log_batch < side.edge - _PAST if side.side == "below" else log_batch > side.edge + _PAST
        tokens = np.where(past[:, None], candidates.tokens, np.inf)[:, side.targets]
        affordable = tokens <= left
        if not affordable.any():
            unpaid.append((side, float(tokens.min())))
            continue
        distance = np.where(affordable.any(axis=1), np.abs(log_batch - side.place), np.inf)
        size = int(np.argmin(distance))
        # the lowest of the targets: on the way to it the run passes the others
        aim = side.targets[int(np.flatnonzero(affordable[size])[-1])]
        runs.append((size, aim))
        left -= float(candidates.tokens[size, aim])
    return runs, unpaid
