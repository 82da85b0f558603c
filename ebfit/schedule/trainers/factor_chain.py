"""The nearest batch sizes to a plan's of which each is a whole multiple of the one before."""

import heapq
import math
from dataclasses import dataclass
from itertools import pairwise

from ebfit.batch_plan import BatchPlan

# What it costs to change a planned size at all, as a log ratio: sizes that fit the devices well stay where they can.
_COST_OF_CHANGE = 0.02
# Of each stage, sizes that are looked at: batches of a million sequences have more than any trainer can tell apart.
_MOST_SIZES = 1000


def is_factor_chain(batches: list[int]) -> bool:
    """Return whether each of some batch sizes is a whole multiple of the one before."""
    return all(later % earlier == 0 for earlier, later in pairwise(batches))


def nearest_factor_chain(plan: BatchPlan, unit: int) -> list[int]:
    """Return a batch size for each stage such that each is a whole multiple of the one before.

    Nearest is what has the least |ln(size / planned size)|, summed over the tokens of the stages. No size is above the
    largest of the plan, and each is within a factor of two of the planned one, which doubling alone can keep. Of sizes
    in the thousands, the first is one of some thousand that lie evenly.

    Parameters
    ----------
    plan : BatchPlan
    unit : int
        Sequences that every batch size is a multiple of.

    Returns
    -------
    list of int
        In sequences, one per stage; neighbours may be equal.
    """
    planned = [stage.batch_sequences // unit for stage in plan.stages]
    weights = [stage.steps * stage.batch_tokens / plan.total_tokens for stage in plan.stages]
    if is_factor_chain(planned):
        return [size * unit for size in planned]
    window = _window(planned, 0)
    first_sizes = {planned[0], *window[:: -(-len(window) // _MOST_SIZES)]}
    reached = [_Chain(_cost(size, planned[0], weights[0]), [size]) for size in first_sizes]
    for number in range(1, len(planned)):
        window = _window(planned, number)
        nearest: dict[int, tuple[float, _Chain]] = {}  # of each size, the cost and the chain that it goes on
        for chain in reached:
            size = chain.sizes[-1]
            first = max(-(-window.start // size), 1) * size
            for next_size in range(first, window.stop, size):
                cost = chain.cost + _cost(next_size, planned[number], weights[number])
                if next_size not in nearest or cost < nearest[next_size][0]:
                    nearest[next_size] = (cost, chain)
        best = heapq.nsmallest(_MOST_SIZES, nearest.items(), key=lambda item: (item[1][0], item[0]))
        reached = [_Chain(cost, [*chain.sizes, size]) for size, (cost, chain) in best]
    return [size * unit for size in min(reached).sizes]


@dataclass(frozen=True, order=True)
class _Chain:
    """Sizes of the stages so far; ties in cost go to smaller sizes."""

    cost: float
    sizes: list[int]


def _window(planned: list[int], number: int) -> range:
    size = planned[number]
    return range(max(-(-size // 2), 1), min(2 * size, planned[-1]) + 1)


def _cost(size: int, planned: int, weight: float) -> float:
    return weight * (abs(math.log(size / planned)) + (_COST_OF_CHANGE if size != planned else 0.0))
