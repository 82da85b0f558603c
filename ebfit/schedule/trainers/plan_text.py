"""What the formats json, yaml and csv share: each holds a whole plan, and what is read back is a plan again."""

from typing import Any

from ebfit.batch_plan import BatchPlan, PlanError
from ebfit.errors import BadInputError
from ebfit.schedule.trainers.base import ReadSchedule


def plan_of(document: Any) -> BatchPlan:
    """Make a plan of what a parser read.

    Raises
    ------
    BadInputError
        If it is no plan, or contradicts itself.
    """
    try:
        return BatchPlan.from_dict(document)
    except PlanError as error:
        raise BadInputError(str(error)) from None


def schedule_of(plan: BatchPlan) -> ReadSchedule:
    """Return what a plan says as a schedule that is to be checked."""
    decay_start = plan.decay_start_tokens
    return ReadSchedule(
        starts=tuple(stage.start_tokens for stage in plan.stages),
        start_unit="tokens",
        batch_sequences=tuple(stage.batch_sequences for stage in plan.stages),
        seq_len=plan.seq_len,
        warmup_sequences=plan.warmup_tokens // plan.seq_len,
        decay_sequences=None if decay_start is None else (plan.total_tokens - decay_start) // plan.seq_len,
        total_sequences=plan.total_tokens // plan.seq_len,
    )
