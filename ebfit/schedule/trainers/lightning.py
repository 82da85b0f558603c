"""Lightning: its GradientAccumulationScheduler, which changes the accumulation from epoch to epoch.

Facts from lightning 2.6.6, `pytorch/callbacks/gradient_accumulation_scheduler.py`: keys are epochs from 0 on, values
micro-batches per device and step; the optimizer also steps at the end of an epoch, with what there is. An epoch is as
long as `limit_train_batches` says, so a plan can be expressed if its stages may begin at whole epochs of some length:
equal numbers of micro-batches are equal numbers of tokens.
"""

import ast
from math import gcd, lcm

from ebfit.batch_plan import BatchPlan
from ebfit.errors import BadInputError
from ebfit.schedule.trainers.base import Export, ReadSchedule, Setup
from ebfit.schedule.trainers.comments import (
    devices_lines,
    devices_of,
    heading,
    micro_batch_of,
    with_comments,
)
from ebfit.schedule.trainers.divisible import check_divisible, sequences_at_once
from ebfit.schedule.trainers.learning_rate import notes_on_lr_scale
from ebfit.schedule.trainers.python_text import PythonText
from ebfit.schedule.trainers.ramp import Sizes, lay_out, sizes_of
from ebfit.text import short

name = "lightning"
reader = "Lightning (lightning and pytorch-lightning 2.0 and later)"
unit = "batch in micro-batches per device, from epochs on"
suffix = ".py"

_MOST_EPOCHS = 1000
_MOST_MOVED = 1e-3  # of the run, by which a stage may begin earlier or later
_OTHER_WAY = "use the callback of docs/training_loops.md, which needs no epochs."


def export(plan: BatchPlan, setup: Setup) -> Export:
    """Write Python that constructs the callback and the arguments of the Trainer.

    Raises
    ------
    BadInputError
        If the micro-batch or the number of devices is not given, if a stage does not fill them, if no epoch of a
        thousandth of the run or more has the stages begin where they should, or if ``setup.strict`` and they do not
        begin exactly there.
    """
    devices_of(setup, name)
    micro_batch_of(setup, name)
    check_divisible(plan, setup)
    at_once = sequences_at_once(setup)
    accumulation = [stage.batch_sequences // at_once for stage in plan.stages]
    length = _epoch_length(plan, accumulation, at_once * plan.seq_len, exactly=setup.strict)
    epochs = [_nearest(stage.start_tokens, length * at_once * plan.seq_len) for stage in plan.stages]
    scheduling = dict(zip(epochs, accumulation, strict=True))
    as_run = lay_out(plan, _sizes(scheduling, length, at_once * plan.seq_len))
    moved = max(
        abs(run.start_tokens - stage.start_tokens)
        for run, stage in zip(as_run.stages, lay_out(plan, sizes_of(plan)).stages, strict=True)
    )
    return Export(
        text=_text(setup, scheduling, length, as_run.total_steps),
        as_run=as_run,
        notes=[
            *(
                [f"stages begin at whole epochs, which moves them by at most {short(moved)} tokens."]
                * (moved > 0)
            ),
            f"an epoch is {length} micro-batches per device here, and each begins the data loader anew: without a "
            "loader that shuffles, or remembers where it was, the same data come again. Otherwise use the callback of "
            "docs/training_loops.md, which needs no epochs.",
            "accumulate_grad_batches of the Trainer must stay away; manual optimization and DeepSpeed do not work with "
            "this callback. max_steps and learning-rate schedulers count steps of this plan's batch sizes.",
            *notes_on_lr_scale(plan, setup, name),
        ],
    )


def parse(text: str, seq_len: int | None, setup: Setup) -> ReadSchedule:
    """Read `scheduling` and `limit_train_batches`.

    Raises
    ------
    BadInputError
        If one is missing, if their numbers cannot be read without running the file, or if nothing says the number of
        devices and the micro-batch.
    """
    python = PythonText(text)
    setup, warnings = with_comments(setup, text)
    at_once = devices_of(setup, name) * micro_batch_of(setup, name)
    scheduling, limit = python.value_of("scheduling"), python.value_of("limit_train_batches")
    if not isinstance(scheduling, ast.Dict) or not scheduling.keys:
        raise BadInputError("there is no GradientAccumulationScheduler(scheduling={epoch: micro-batches}).")
    if limit is None:
        raise BadInputError("there is no limit_train_batches=..., so nobody knows how long an epoch is.")
    length = python.number(limit)
    stages: dict[int, int] = {}
    for key, value in zip(scheduling.keys, scheduling.values, strict=True):
        if key is None:
            raise BadInputError(f"line {value.lineno}: write the epochs out in place of **.")
        stages[python.number(key)] = python.number(value)
    if length < 1 or min(stages) < 0:
        raise BadInputError("limit_train_batches must be positive, and epochs must not be negative.")
    stages = dict(sorted(({0: 1} | stages).items()))
    warnings += [
        f"an epoch of {length} micro-batches is no multiple of {micro_batches}: its last step is smaller."
        for micro_batches in stages.values()
        if micro_batches > 0 and length % micro_batches
    ]
    max_steps = python.value_of("max_steps")
    return ReadSchedule(
        starts=tuple(epoch * length * at_once for epoch in stages),
        start_unit="sequences",
        batch_sequences=tuple(micro_batches * at_once for micro_batches in stages.values()),
        total_steps=None if max_steps is None else python.number(max_steps),
        warnings=warnings,
    )


def _epoch_length(plan: BatchPlan, accumulation: list[int], micro_tokens: int, *, exactly: bool) -> int:
    """Return the longest epoch, in micro-batches per device, at whose multiples all stages may begin.

    It is a multiple of every accumulation, so that no step at its end is smaller.
    """
    least = lcm(*accumulation)
    starts = [stage.start_tokens // micro_tokens for stage in plan.stages]
    total = plan.total_tokens // micro_tokens
    common = gcd(*starts)  # 0 for a single stage, which may have epochs of any length
    if common and common % least == 0 and (exactly or total <= common * _MOST_EPOCHS):
        return common
    if common and exactly:
        raise BadInputError(
            "Lightning changes the accumulation at whole epochs, and the stages of this plan begin at multiples of no "
            f"epoch that holds whole steps. Leave out --strict, or {_OTHER_WAY}"
        )
    for number in range(len(starts), _MOST_EPOCHS + 1):
        length = max(_nearest(total, number * least), 1) * least
        epochs = [_nearest(start, length) for start in starts]
        moved = max(abs(epoch * length - start) for epoch, start in zip(epochs, starts, strict=True))
        all_differ = len(set(epochs)) == len(epochs)
        last_has_a_step = epochs[-1] * length + accumulation[-1] <= total
        if moved <= _MOST_MOVED * total and all_differ and last_has_a_step:
            return length
    raise BadInputError(
        "Lightning changes the accumulation at whole epochs, and no epoch of a thousandth of the run or more has the "
        f"stages of this plan begin where they should: {_OTHER_WAY}"
    )


def _nearest(start: int, length: int) -> int:
    """Return the whole number next to start / length, neither of which need fit a float."""
    return (2 * start + length) // (2 * length)


def _sizes(scheduling: dict[int, int], length: int, micro_tokens: int) -> Sizes:
    return [
        (epoch * length * micro_tokens, micro_batches * micro_tokens)
        for epoch, micro_batches in scheduling.items()
    ]


def _text(setup: Setup, scheduling: dict[int, int], length: int, steps: int) -> str:
    lines = "".join(f"        {epoch}: {micro_batches},\n" for epoch, micro_batches in scheduling.items())
    return f"""{heading(reader, unit)}{devices_lines(setup)}\
from lightning.pytorch.callbacks import GradientAccumulationScheduler

accumulation_scheduler = GradientAccumulationScheduler(
    scheduling={{
{lines}    }}
)
trainer_arguments = dict(
    callbacks=[accumulation_scheduler],
    limit_train_batches={length},
    max_epochs=-1,
    max_steps={steps},
)
"""
