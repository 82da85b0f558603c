"""Levanter: a list of start step and batch size in sequences, in place of the constant `train_batch_size`.

Facts from lib/levanter of marin-community/marin (2026), `schedule.py` (`ScheduleStep`, `BatchSchedule`), `trainer.py`:
the first start is 0; each value must be a multiple of per_device_parallelism x the data axis; warmup and decay of the
learning rate are counted in steps, where a value of at most 1 is a fraction. Until early 2025 an entry had `until` in
place of `start`.
"""

from typing import Any

import yaml

from ebfit.batch_plan import BatchPlan
from ebfit.errors import BadInputError
from ebfit.schedule.trainers.base import Export, ReadSchedule, Setup
from ebfit.schedule.trainers.comments import heading
from ebfit.schedule.trainers.divisible import check_divisible
from ebfit.schedule.trainers.learning_rate import notes_on_lr_scale
from ebfit.schedule.trainers.ramp import lay_out, sizes_of
from ebfit.schedule.trainers.yaml_text import find, read_yaml

name = "levanter"
reader = "Levanter (its repository from 2025 on, now lib/levanter of marin; not the PyPI release 1.1 of 2023)"
unit = "batch in sequences, from steps on"
suffix = ".yaml"


def export(plan: BatchPlan, setup: Setup) -> Export:
    """Write the part of Levanter's configuration that says batch sizes and steps; Levanter follows a plan exactly.

    Raises
    ------
    BadInputError
        If a stage does not fill the devices, or if ``setup.strict`` and the plan scales the learning rate.
    """
    check_divisible(plan, setup)
    decay_start = plan.decay_start_tokens
    decay_steps = 0 if decay_start is None else plan.total_steps - plan.steps_until(decay_start)
    config = {
        "trainer": {
            "train_batch_size": [
                {"start": stage.start_step, "value": stage.batch_sequences} for stage in plan.stages
            ],
            "num_train_steps": plan.total_steps,
        },
        "optimizer": {
            "warmup": _steps(plan.steps_until(plan.warmup_tokens)),
            "decay": _steps(decay_steps),
        },
    }
    return Export(
        text=heading(reader, unit) + yaml.safe_dump(config, sort_keys=False),
        as_run=lay_out(plan, sizes_of(plan)),
        notes=[
            "Levanter counts everything in steps: warmup, decay and num_train_steps in the file are of this plan.",
            *notes_on_lr_scale(plan, setup, name),
        ],
    )


def parse(text: str, seq_len: int | None, setup: Setup) -> ReadSchedule:
    """Read `train_batch_size` of a Levanter configuration, or the list alone.

    Raises
    ------
    BadInputError
        If there is none, or it is neither a number nor a list of start and value.
    """
    document = read_yaml(text)
    sizes = document if isinstance(document, list) else find(document, "train_batch_size")
    if sizes is None:
        raise BadInputError("there is no train_batch_size.")
    total = find(document, "num_train_steps")
    optimizer = find(document, "optimizer")
    total_steps = total if _is_count(total) else None
    starts, values, warnings = _stages(sizes)
    return ReadSchedule(
        starts=starts,
        start_unit="steps",
        batch_sequences=values,
        warmup_steps=_of_learning_rate(find(optimizer, "warmup"), total_steps),
        decay_steps=_of_learning_rate(find(optimizer, "decay"), total_steps),
        total_steps=total_steps,
        warnings=warnings,
    )


def _steps(steps: int) -> int:
    return 0 if steps <= 1 else steps  # Levanter reads a 1 as 100%


def _stages(sizes: Any) -> tuple[tuple[int, ...], tuple[int, ...], list[str]]:
    if _is_count(sizes):
        return (0,), (sizes,), []
    if not isinstance(sizes, list) or not sizes:
        raise BadInputError("train_batch_size is neither a number nor a list of start and value.")
    for number, step in enumerate(sizes, start=1):
        if not isinstance(step, dict) or not _is_count(step.get("value")):
            raise BadInputError(f"entry {number} of train_batch_size has no whole number as value.")
    values = tuple(step["value"] for step in sizes)
    if all("until" in step for step in sizes):
        ends = [step["until"] for step in sizes[:-1]]
        if not all(_is_count(end) for end in ends):
            raise BadInputError(
                "until must be a whole number in all entries of train_batch_size but the last."
            )
        return (0, *ends), values, ["until is the form of early 2025; later versions of Levanter want start."]
    if not all(_is_count(step.get("start")) for step in sizes):
        raise BadInputError("start must be a whole number in every entry of train_batch_size.")
    return tuple(step["start"] for step in sizes), values, []


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63


def _of_learning_rate(value: Any, total_steps: int | None) -> int | None:
    """Steps, from steps or from a fraction of all."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 2**63:
        return None
    if value > 1:
        return int(value)
    return None if total_steps is None else int(value * total_steps)
