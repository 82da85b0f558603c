"""The plan as YAML: the content of plan.json, for loops whose configuration is YAML."""

import yaml

from ebfit.batch_plan import BatchPlan
from ebfit.schedule.trainers.base import Export, ReadSchedule, Setup
from ebfit.schedule.trainers.comments import heading
from ebfit.schedule.trainers.divisible import check_divisible
from ebfit.schedule.trainers.plan_text import plan_of, schedule_of
from ebfit.schedule.trainers.yaml_text import read_yaml

name = "yaml"
reader = "training loops that use ebfit.BatchPlan.from_dict (schema ebfit.plan/1)"
unit = "batch in tokens and in sequences, from tokens and steps on"
suffix = ".yaml"


def export(plan: BatchPlan, setup: Setup) -> Export:
    """Write the whole plan.

    Raises
    ------
    BadInputError
        If a stage does not fill the devices of ``setup``.
    """
    check_divisible(plan, setup)
    return Export(
        text=heading(reader, unit) + yaml.safe_dump(plan.to_dict(), sort_keys=False, allow_unicode=True),
        as_run=plan,
    )


def parse(text: str, seq_len: int | None, setup: Setup) -> ReadSchedule:
    """Read the plan back.

    Raises
    ------
    BadInputError
        If it is no plan.
    """
    return schedule_of(whole_plan(text))


def whole_plan(text: str) -> BatchPlan:
    """Return the plan that a YAML document holds.

    Raises
    ------
    BadInputError
        If it holds none.
    """
    return plan_of(read_yaml(text))
