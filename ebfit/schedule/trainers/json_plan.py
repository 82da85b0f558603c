"""The plan as JSON, as `BatchPlan.load` reads it: for training loops of one's own."""

import json

from ebfit.batch_plan import BatchPlan
from ebfit.errors import BadInputError
from ebfit.schedule.trainers.base import Export, ReadSchedule, Setup
from ebfit.schedule.trainers.divisible import check_divisible
from ebfit.schedule.trainers.plan_text import plan_of, schedule_of

name = "json"
reader = (
    "training loops that use ebfit.BatchPlan: PyTorch, Hugging Face Trainer, Lightning (schema ebfit.plan/1)"
)
unit = "batch in tokens and in sequences, from tokens and steps on"
suffix = ".json"


def export(plan: BatchPlan, setup: Setup) -> Export:
    """Write the whole plan.

    Raises
    ------
    BadInputError
        If a stage does not fill the devices of ``setup``.
    """
    check_divisible(plan, setup)
    return Export(text=json.dumps(plan.to_dict(), indent=2) + "\n", as_run=plan)


def parse(text: str, seq_len: int | None, setup: Setup) -> ReadSchedule:
    """Read plan.json back.

    Raises
    ------
    BadInputError
        If it is no plan.
    """
    return schedule_of(whole_plan(text))


def whole_plan(text: str) -> BatchPlan:
    """Return the plan that a JSON document holds.

    Raises
    ------
    BadInputError
        If it holds none.
    """
    try:
        document = json.loads(text)
    except json.JSONDecodeError as error:
        raise BadInputError(f"line {error.lineno}: no JSON document ({error.msg}).") from None
    except (ValueError, RecursionError):
        raise BadInputError("no JSON document that can be read.") from None
    return plan_of(document)
