"""For trainers that cannot follow a plan exactly, such as those that only know a straight ramp: how near do they come?

Two schedules are compared at equal tokens. Their distance is the absolute log ratio of the two batch sizes, averaged
over tokens: 0.1 is about 10% too large or too small all along.
"""

import heapq
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from ebfit.batch_plan import BatchPlan
from ebfit.errors import BadInputError
from ebfit.schedule.trainers.base import Setup
from ebfit.text import short

# What a trainer does, as (start_tokens, batch_tokens) from stage to stage: the first start is 0, later ones rise and
# are where a step of the stage before ends. It may go on beyond the end of the plan.
Sizes = Sequence[tuple[int, int]]

Candidate = TypeVar("Candidate")

# A change of size that comes a few steps early or late is no deviation worth a sentence.
_SHORT_PART_OF_RUN = 1e-3

_MOST_TRIED = 4000  # candidates that are walked through before it is looked closer


@dataclass(frozen=True)
class Deviation:
    """How far what a trainer does is from a plan.

    Attributes
    ----------
    ratio : float
        The batch size in use over the planned one where they differ most; stretches of less than a thousandth of the
        run do not count. 1.0 if they are the same.
    at_tokens : int
        Where that stretch begins.
    mean_ratio : float
        exp of the distance: the typical factor, at least 1.0.
    """

    ratio: float
    at_tokens: int
    mean_ratio: float


def sizes_of(plan: BatchPlan) -> list[tuple[int, int]]:
    """Return where each stage starts and its batch size, both in tokens."""
    return [(stage.start_tokens, stage.batch_tokens) for stage in plan.stages]


def lay_out(plan: BatchPlan, sizes: Sizes) -> BatchPlan:
    """Return the plan that ``sizes`` are, over the tokens of ``plan``; its learning rate is not scaled.

    Stages of equal size become one. A stage that does not hold a step is left out, and the run ends before it.
    """
    total = plan.total_tokens
    kept: list[tuple[int, int]] = []
    for start, batch in sizes:
        if kept and start + batch > total:
            total = min(start, total)
            break
        if not kept or batch != kept[-1][1]:
            kept.append((start, batch))
    decay_start = plan.decay_start_tokens
    return BatchPlan.from_sizes(
        kept,
        total_tokens=total,
        seq_len=plan.seq_len,
        warmup_tokens=min(plan.warmup_tokens, total),
        decay_start_tokens=None if decay_start is None else min(decay_start, total),
        policy=plan.policy,
    )


def distance(plan: BatchPlan, sizes: Sizes) -> float:
    """Return the mean over tokens of |ln(batch size / planned batch size)|."""
    lengths, log_ratio = _stretches(plan, sizes)
    return float(np.abs(log_ratio) @ lengths / lengths.sum())


def largest_deviation(plan: BatchPlan, as_run: BatchPlan) -> Deviation:
    """Return where a trainer is farthest from a plan, and how far it is on average."""
    lengths, log_ratio = _stretches(plan, sizes_of(as_run))
    counted = np.where(lengths >= _SHORT_PART_OF_RUN * plan.total_tokens, np.abs(log_ratio), 0.0)
    worst = int(np.argmax(counted))
    return Deviation(
        ratio=math.exp(log_ratio[worst]) if counted[worst] else 1.0,
        at_tokens=int(lengths[:worst].sum()),
        mean_ratio=math.exp(distance(plan, sizes_of(as_run))),
    )


def deviation_note(plan: BatchPlan, as_run: BatchPlan) -> str | None:
    """Return one sentence on how far a trainer is from a plan; None where it is not."""
    deviation = largest_deviation(plan, as_run)
    if deviation.mean_ratio < 1.0 + _SHORT_PART_OF_RUN and deviation.ratio == 1.0:
        return None
    most = max(deviation.ratio, 1 / deviation.ratio)
    side = "above" if deviation.ratio > 1.0 else "below"
    return (
        f"the batch size is at most a factor of {most:.2f} {side} the plan (at {short(deviation.at_tokens)} tokens), "
        f"and a factor of {deviation.mean_ratio:.2f} off on average over tokens."
    )


def notes_on_deviation(plan: BatchPlan, as_run: BatchPlan, setup: Setup, name: str) -> list[str]:
    """Return what the user must know where a straight ramp is not the plan.

    Raises
    ------
    BadInputError
        In place of a note, if ``setup.strict`` and any batch size differs.
    """
    if sizes_of(as_run) == sizes_of(lay_out(plan, sizes_of(plan))):
        return []
    if setup.strict:
        raise BadInputError(
            f"the format {name} knows straight ramps only, and the plan is none. "
            "Leave out --strict to get the nearest one."
        )
    note = deviation_note(plan, as_run)
    if note is None:
        return ["the batch size changes a few steps earlier or later than in the plan."]
    return [f"the format {name} knows straight ramps only; this is the nearest one: {note}"]


def best_ramp(
    plan: BatchPlan,
    candidates: Iterable[Candidate],
    simulate: Callable[[Candidate], Sizes],
    most_tried: int = _MOST_TRIED,
) -> tuple[Candidate, BatchPlan]:
    """Return the candidate that comes nearest to a plan, and what the trainer will do with it.

    Of many thousands of candidates, as of a plan with a hundred stages, some that lie evenly are tried, and then more
    around the best of them, ever closer.

    Parameters
    ----------
    plan : BatchPlan
    candidates : iterable
        Settings of the trainer, of any type; neighbours are alike.
    simulate : callable
        From a candidate to the batch sizes of the trainer, stage by stage.
    most_tried : int
        Of the evenly lying ones.

    Raises
    ------
    ValueError
        If there is no candidate.
    """
    every = list(candidates)
    stride = -(-len(every) // most_tried) or 1
    tried = {k: distance(plan, simulate(every[k])) for k in range(0, len(every), stride)}
    while stride > 1:
        finer = -(-stride // 4)
        for middle in heapq.nsmallest(1 + most_tried // 1000, tried, key=tried.__getitem__):
            for k in range(max(middle - stride, 0), min(middle + stride, len(every)), finer):
                tried[k] = distance(plan, simulate(every[k]))
        stride = finer
    best = every[min(tried, key=lambda k: (tried[k], k))]
    return best, lay_out(plan, simulate(best))


def increments(plan: BatchPlan, unit: int, most_sizes: int = 64) -> list[int]:
    """Return the increments, in sequences, by which a straight ramp gets from the first to the last batch size.

    Parameters
    ----------
    plan : BatchPlan
    unit : int
        Sequences that every batch size is a multiple of.
    most_sizes : int
        Ramps of more sizes than this are left out: they are no nearer to a plan, and take longer to look at.

    Raises
    ------
    BadInputError
        If the batch size of the plan does not change: then it is no ramp, and trainers divide by zero.
    """
    rise = plan.stages[-1].batch_sequences - plan.stages[0].batch_sequences
    if rise == 0:
        raise BadInputError(
            "the plan has one batch size all along, and a ramp cannot say that. "
            "Set the trainer's constant batch size in place of a ramp."
        )
    return [
        rise // parts for parts in range(1, most_sizes) if rise % parts == 0 and rise // parts % unit == 0
    ]


def ramp_lengths(plan: BatchPlan, reached_after: Sequence[float]) -> list[float]:
    """Return the lengths of a ramp among which is the nearest one to a plan.

    The distance changes linearly with the length of the ramp, but where a change of size of the ramp meets one of the
    plan: the best length is one at which they meet.

    Parameters
    ----------
    plan : BatchPlan
    reached_after : sequence of float
        Tokens after which a ramp of length 1 (one sample, one step: whatever the trainer counts) reaches its second
        size, its third, and so on.

    Returns
    -------
    list of float
        In the trainer's unit, rising.
    """
    starts = [stage.start_tokens for stage in plan.stages[1:]]
    return sorted({start / tokens for start in starts for tokens in reached_after})


def _stretches(plan: BatchPlan, sizes: Sizes) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the lengths in tokens of the stretches of one size in both, and the log ratio of the sizes there."""
    planned_starts, planned = np.array(sizes_of(plan), dtype=float).T
    starts, batches = np.array(sizes, dtype=float).T
    edges = np.unique(np.concatenate([planned_starts, starts[starts < plan.total_tokens]]))
    log_ratio = np.log(
        batches[np.searchsorted(starts, edges, side="right") - 1]
        / planned[np.searchsorted(planned_starts, edges, side="right") - 1]
    )
    return np.diff(edges, append=plan.total_tokens), log_ratio
