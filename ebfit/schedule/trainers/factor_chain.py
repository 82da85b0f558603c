"""The nearest batch sizes to a plan's of which each is a whole multiple of the one before."""

import math
from itertools import pairwise

from ebfit.batch_plan import BatchPlan

# What it costs to change a planned size at all, as a log ratio: sizes that fit the devices well stay where they can.
_COST_OF_CHANGE = 0.02


def is_factor_chain(batches: list[int]) -> bool:
    """Return whether each of some batch sizes is a whole multiple of the one before."""
    return all(later % earlier == 0 for earlier, later in pairwise(batches))


def nearest_factor_chain(plan: BatchPlan, unit: int) -> list[int]:
    """Return a batch size for each stage such that each is a whole multiple of the one before.

    Nearest is what has the least |ln(size / planned size)|, summed over the tokens of the stages. No size is above the
    largest of the plan, and each is within a factor of two of the planned one, which doubling alone can keep.

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
    # size of the stage so far -> (cost, the chain that leads there); costs are exact sums, ties go to smaller sizes
    reached: dict[int, tuple[float, list[int]]] = {
        size: (_cost(size, planned[0], weights[0]), [size]) for size in _window(planned, 0)
    }
    for number in range(1, len(planned)):
        window = _window(planned, number)
        longer: dict[int, tuple[float, list[int]]] = {}
        for size, (cost, chain) in reached.items():
            first = max(-(-window.start // size), 1) * size
            for next_size in range(first, window.stop, size):
                total = cost + _cost(next_size, planned[number], weights[number])
                if next_size not in longer or total < longer[next_size][0]:
                    longer[next_size] = (total, [*chain, next_size])
        reached = longer
    _, chain = min(reached.values())
    return [size * unit for size in chain]


def _window(planned: list[int], number: int) -> range:
    size = planned[number]
    return range(max(-(-size // 2), 1), min(2 * size, planned[-1]) + 1)


def _cost(size: int, planned: int, weight: float) -> float:
    return weight * (abs(math.log(size / planned)) + (_COST_OF_CHANGE if size != planned else 0.0))
