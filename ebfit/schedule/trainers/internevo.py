"""InternEvo: a straight ramp of micro-batches per data-parallel rank, by an increment every so many steps.

Facts from InternEvo 0.5.2, `data/tokenized/batch_sampler.py` (`StaticBatchSampler`), `data/build_dataloader.py` and
`initialize/launch.py`: a rank takes `micro_num` micro-batches of `micro_bsz` sequences per step; start and increment of
`rampup_batch_size` are counted in micro-batches too. With pipeline parallelism the sampler wants all three to be
multiples of micro_bsz. The learning rate follows steps.
"""

import ast
from collections.abc import Iterator, Sequence
from itertools import accumulate
from math import ceil, floor

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
from ebfit.schedule.trainers.divisible import check_divisible
from ebfit.schedule.trainers.learning_rate import notes_on_lr_scale
from ebfit.schedule.trainers.python_text import PythonText
from ebfit.schedule.trainers.ramp import (
    Sizes,
    best_ramp,
    increments,
    notes_on_deviation,
    ramp_lengths,
)

name = "internevo"
reader = "InternEvo (as of 0.5.2)"
unit = "batch in micro-batches per data-parallel rank, increment every so many steps"
suffix = ".py"

_MOST_SIZES = 100_000  # beyond this somebody's file is a slip of the pen
_MULTIPLES = "InternEvo refuses this: micro_num, start and increment must then be multiples of micro_bsz."


def export(plan: BatchPlan, setup: Setup) -> Export:
    """Write the ramp that comes nearest to the plan.

    Raises
    ------
    BadInputError
        If the micro-batch or the number of devices is not given, if the plan has one batch size only or sizes that do
        not fill the devices, or if ``setup.strict`` and the plan is no such ramp.
    """
    devices, micro_batch = devices_of(setup, name), micro_batch_of(setup, name)
    check_divisible(plan, setup)
    at_once = devices * micro_batch
    start, final = plan.stages[0].batch_sequences, plan.stages[-1].batch_sequences

    def run(candidate: tuple[int, int]) -> Sizes:
        increment, every = candidate
        sizes = range(start * plan.seq_len, final * plan.seq_len + 1, increment * plan.seq_len)
        return [(every * before, batch) for before, batch in zip(_sums(sizes), sizes, strict=True)]

    (increment, every), as_run = best_ramp(plan, _candidates(plan, at_once), run)
    micro_batches = [start // at_once, increment // at_once, final // at_once]
    no_pipeline = any(number % micro_batch for number in micro_batches)
    return Export(
        text=heading(reader, unit)
        + devices_lines(setup)
        + "data = dict(\n"
        + f"    seq_len={plan.seq_len},\n"
        + f"    micro_bsz={micro_batch},\n"
        + f"    micro_num={micro_batches[2]},\n"
        + f'    rampup_batch_size="{micro_batches[0]} {micro_batches[1]} {every}",\n'
        + f"    total_steps={as_run.total_steps},\n"
        + ")\n",
        as_run=as_run,
        notes=[
            *notes_on_deviation(plan, as_run, setup, name),
            f"the sizes are for {devices} data-parallel ranks: InternEvo multiplies them by the number it finds.",
            f"put these keys into the dict data of your configuration; total_steps of lr_scheduler is "
            f"{as_run.total_steps} too, and its warmup counts steps of this ramp.",
            *([f"with pipeline parallelism {_MULTIPLES}"] * no_pipeline),
            *notes_on_lr_scale(plan, setup, name),
        ],
    )


def parse(text: str, seq_len: int | None, setup: Setup) -> ReadSchedule:
    """Read `rampup_batch_size`, `micro_num` and `micro_bsz`.

    Raises
    ------
    BadInputError
        If one is missing, if InternEvo would refuse the ramp, or if nothing says the number of devices.
    """
    python = PythonText(text)
    micro_num, micro_batch = _number(python, "micro_num"), _number(python, "micro_bsz")
    setup, warnings = with_comments(setup, text)
    at_once = micro_batch * devices_of(setup, name)
    start, increment, every = _ramp(python, micro_num)
    if increment < 1 or every < 1 or not 0 < start <= micro_num or (micro_num - start) % increment:
        raise BadInputError(
            f'rampup_batch_size "{start} {increment} {every}" does not lead to micro_num, {micro_num}: InternEvo wants '
            "positive numbers, and micro_num - start to be a multiple of the increment."
        )
    if (micro_num - start) // increment > _MOST_SIZES:
        raise BadInputError(f"the ramp has more than {_MOST_SIZES} sizes.")
    if any(number % micro_batch for number in (start, increment, micro_num)):
        warnings.append(f"with pipeline parallelism {_MULTIPLES}")
    sizes = range(start, micro_num + 1, increment)
    total, length = python.value_of("total_steps"), python.value_of("seq_len")
    return ReadSchedule(
        starts=tuple(every * number for number in range(len(sizes))),
        start_unit="steps",
        batch_sequences=tuple(size * at_once for size in sizes),
        seq_len=None if length is None else python.number(length),
        total_steps=None if total is None else python.number(total),
        warnings=warnings,
    )


def _candidates(plan: BatchPlan, unit: int) -> Iterator[tuple[int, int]]:
    start, final = plan.stages[0].batch_sequences, plan.stages[-1].batch_sequences
    for increment in increments(plan, unit):
        reached = _sums(range(start, final + 1, increment))[1:]
        for every in ramp_lengths(plan, [sequences * plan.seq_len for sequences in reached]):
            yield from ((increment, max(rounded, 1)) for rounded in {floor(every), ceil(every)})


def _sums(sizes: Sequence[int]) -> list[int]:
    """Return the sum of what comes before each element."""
    return [0, *accumulate(sizes)][:-1]


def _number(python: PythonText, key: str) -> int:
    value = python.value_of(key)
    if value is None:
        raise BadInputError(f"there is no {key}.")
    number = python.number(value)
    if number < 1:
        raise BadInputError(f"line {value.lineno}: {key} must be positive.")
    return number


def _ramp(python: PythonText, micro_num: int) -> tuple[int, int, int]:
    node = python.value_of("rampup_batch_size")
    if node is None or (isinstance(node, ast.Constant) and not node.value):
        return micro_num, micro_num, 1
    words = node.value.split() if isinstance(node, ast.Constant) and isinstance(node.value, str) else []
    if len(words) != 3 or not all(word.isascii() and word.isdigit() and len(word) < 19 for word in words):
        raise BadInputError(
            f'line {node.lineno}: rampup_batch_size must be "start increment steps", three whole numbers.'
        )
    start, increment, every = map(int, words)
    return start, increment, every
