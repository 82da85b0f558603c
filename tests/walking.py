"""Walking a run step by step, the way a trainer does, to compare it with what an export says it will do."""

from collections.abc import Iterator
from itertools import groupby, islice

from ebfit.batch_plan import BatchPlan


def in_stages(sizes: Iterator[int], steps: int) -> list[tuple[int, int]]:
    """(batch size, how many steps of it) of the first ``steps`` steps."""
    return [(size, sum(1 for _ in group)) for size, group in groupby(islice(sizes, steps))]


def stages_of(plan: BatchPlan) -> list[tuple[int, int]]:
    """(sequences, steps) of the stages of a plan, neighbours of equal size as one."""
    return [
        (sequences, sum(stage.steps for stage in group))
        for sequences, group in groupby(plan.stages, key=lambda stage: stage.batch_sequences)
    ]
