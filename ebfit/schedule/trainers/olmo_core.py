"""OLMo-core: its BatchSizeSchedulerCallback, batch sizes and durations in tokens.

Facts from ai2-olmo-core 3.0.0, `train/callbacks/batch_size_scheduler.py` and `data/data_loader.py` (the callback came
with 2.2.0): the first duration is 0 and the others rise; each size is a whole multiple of the one before; a change that
is due waits until the batches of this epoch, counted in the present size, are divisible by the factor, which is when
the tokens consumed are a multiple of the new size. At each change the callback multiplies the learning rate by the
square root of the factor, asked or not.
"""

import ast
from dataclasses import replace
from math import inf, isclose, sqrt
from typing import TypeGuard

from ebfit.batch_plan import BatchPlan
from ebfit.errors import BadInputError
from ebfit.schedule.trainers.base import Export, ReadSchedule, Setup
from ebfit.schedule.trainers.comments import heading
from ebfit.schedule.trainers.divisible import check_divisible, sequences_at_once
from ebfit.schedule.trainers.factor_chain import is_factor_chain, nearest_factor_chain
from ebfit.schedule.trainers.python_text import PythonText, last_name
from ebfit.schedule.trainers.ramp import Sizes, deviation_note, lay_out, sizes_of
from ebfit.text import short

name = "olmo-core"
reader = "OLMo-core (ai2-olmo-core 2.2.0 and later)"
unit = "batch in tokens, from tokens on"
suffix = ".py"

_SCALES_ALREADY = (
    "the callback scales the learning rate by the square root of the batch's growth, as the plan wants it: do not "
    "scale it a second time."
)
_MOST_SHOWN = 8  # sizes in a sentence


def export(plan: BatchPlan, setup: Setup) -> Export:
    """Write Python that constructs the callback, the scheduler and the duration.

    Raises
    ------
    BadInputError
        If a stage does not fill the devices, or if ``setup.strict`` and OLMo-core would use other sizes, other starts
        or another learning rate than the plan.
    """
    check_divisible(plan, setup)
    chain = nearest_factor_chain(plan, sequences_at_once(setup))
    events = _events(plan, chain)
    as_run = _as_run(plan, events)
    on_lr_scale = _notes_on_lr_scale(plan, as_run)
    changed = [
        *_notes_on_sizes(plan, chain, as_run),
        *_notes_on_starts(plan, chain, as_run),
        *on_lr_scale,
    ]
    if changed and setup.strict:
        raise BadInputError(
            f"OLMo-core cannot follow this plan exactly: {changed[0]} Leave out --strict to get the nearest."
        )
    return Export(
        text=_text(plan, events, as_run),
        as_run=as_run,
        notes=[
            *changed,
            *([] if on_lr_scale else [_SCALES_ALREADY]),
            f"global_batch_size of the data loader must be {events[0][1]} tokens at the start: a difference would be "
            "taken for a change of the batch, and scale the learning rate.",
            "count the learning rate's schedule and max_duration in tokens, as in the file: in steps they move when "
            "the batch changes. The starts hold for one epoch of the data.",
        ],
    )


def simulate(events: Sizes) -> list[tuple[int, int]]:
    """Return (tokens consumed before, batch tokens) of each size that the callback sets, within one epoch.

    Parameters
    ----------
    events : sequence of (start_tokens, batch_tokens)
        As in the callback's schedule: starts rise from 0, sizes rise by whole factors.
    """
    run = [events[0]]
    for number, (due, batch) in enumerate(events[1:], start=1):
        change = -(-due // batch) * batch
        later = events[number + 1][0] if number + 1 < len(events) else inf
        if change < later:  # else the next size is due before this one could be set
            run.append((change, batch))
    return run


def parse(text: str, seq_len: int | None, setup: Setup) -> ReadSchedule:
    """Read a BatchSizeSchedulerCallback(...) in Python, and a WSD(...) beside it.

    Raises
    ------
    BadInputError
        If there is no such call, or its numbers cannot be read without running the file.
    """
    if seq_len is None:
        raise BadInputError("OLMo-core counts batch sizes in tokens: give --seq-len.")
    python = PythonText(text)
    call = next(python.calls("BatchSizeSchedulerCallback"), None)
    arguments = {} if call is None else {keyword.arg: keyword.value for keyword in call.keywords}
    if "batch_sizes" not in arguments or "schedule" not in arguments:
        raise BadInputError("there is no BatchSizeSchedulerCallback(batch_sizes=..., schedule=...).")
    batches = [python.number(node) for node in python.items(arguments["batch_sizes"])]
    durations = [_duration(python, node) for node in python.items(arguments["schedule"])]
    if len(batches) != len(durations) or not batches:
        raise BadInputError("batch_sizes and schedule must be as many as each other, and at least one.")
    if len({counted for counted, _ in durations}) > 1:
        raise BadInputError("all durations of the schedule must be in the same unit.")
    refusals = []
    if all(batches) and not is_factor_chain(batches):
        refusals.append("each batch size must be a whole multiple of the one before.")
    in_tokens, warmup, decay = _learning_rate(python)
    return ReadSchedule(
        starts=tuple(value for _, value in durations),
        start_unit=durations[0][0],
        batch_sequences=tuple(batch // seq_len for batch in batches),
        batch_tokens=tuple(batches),
        warmup_sequences=warmup // seq_len if in_tokens and warmup is not None else None,
        decay_sequences=decay // seq_len if in_tokens and decay is not None else None,
        warmup_steps=None if in_tokens else warmup,
        decay_steps=None if in_tokens else decay,
        refusals=refusals,
    )


def _events(plan: BatchPlan, chain: list[int]) -> list[tuple[int, int]]:
    """Return durations and sizes in tokens, each at the multiple of its size that is nearest to the plan's start."""
    events: list[tuple[int, int]] = []
    for stage, sequences in zip(plan.stages, chain, strict=True):
        batch = sequences * plan.seq_len
        if not events:
            events.append((0, batch))
        elif batch != events[-1][1]:
            nearest = (2 * stage.start_tokens + batch) // (2 * batch)
            after_the_last = events[-1][0] // batch + 1
            start = max(nearest, after_the_last) * batch
            if start + batch <= plan.total_tokens:
                events.append((start, batch))
    return events


def _as_run(plan: BatchPlan, events: Sizes) -> BatchPlan:
    run = lay_out(plan, simulate(events))
    first = run.stages[0].batch_tokens
    stages = [replace(stage, lr_scale=sqrt(stage.batch_tokens / first)) for stage in run.stages]
    return replace(run, stages=tuple(stages))


def _notes_on_sizes(plan: BatchPlan, chain: list[int], as_run: BatchPlan) -> list[str]:
    planned = [stage.batch_sequences for stage in plan.stages]
    if planned == chain:
        return []
    return [
        "each batch size must be a whole multiple of the one before, which the plan's "
        f"{_arrows(planned)} sequences are not; the nearest that are: {_arrows(chain)}: "
        f"{deviation_note(plan, as_run)}"
    ]


def _notes_on_starts(plan: BatchPlan, chain: list[int], as_run: BatchPlan) -> list[str]:
    wanted: dict[int, int] = {}
    for stage, sequences in zip(plan.stages, chain, strict=True):
        wanted.setdefault(sequences * plan.seq_len, stage.start_tokens)
    starts = {batch: start for start, batch in sizes_of(as_run)}
    if wanted.keys() != starts.keys():
        return ["stages that are shorter than a step or two are left out."]
    moved = max(abs(start - starts[batch]) for batch, start in wanted.items())
    if not moved:
        return []
    return [
        "a batch size can begin only where the tokens consumed are a multiple of it; starts move by at most "
        f"{short(moved)} tokens."
    ]


def _notes_on_lr_scale(plan: BatchPlan, as_run: BatchPlan) -> list[str]:
    first = plan.stages[0].batch_tokens
    if all(isclose(stage.lr_scale, sqrt(stage.batch_tokens / first), rel_tol=0.01) for stage in plan.stages):
        return []
    planned = plan.stages[-1].lr_scale
    wants = "leaves the learning rate alone" if planned == 1.0 else f"wants it {planned:.4g} times as large"
    return [
        "OLMo-core multiplies the learning rate by the square root of the batch's growth by itself, up to "
        f"{as_run.stages[-1].lr_scale:.4g} times, and has no setting against it; the plan {wants}."
    ]


def _text(plan: BatchPlan, events: Sizes, as_run: BatchPlan) -> str:
    decay_start = plan.decay_start_tokens
    end = as_run.stages[-1].end_tokens
    decay = 0 if decay_start is None else end - min(decay_start, end)
    batches = "".join(f"        {batch},\n" for _, batch in events)
    durations = "".join(f"        Duration.tokens({start}),\n" for start, _ in events)
    return f"""{heading(reader, unit)}# Sequences of {plan.seq_len} tokens.
from olmo_core.optim.scheduler import WSD, SchedulerUnits
from olmo_core.train import Duration
from olmo_core.train.callbacks import BatchSizeSchedulerCallback

GLOBAL_BATCH_SIZE = {events[0][1]}  # of the data loader's configuration

# Multiplies the learning rate by the square root of the batch's growth by itself: do not scale it a second time.
batch_size_scheduler = BatchSizeSchedulerCallback(
    batch_sizes=[
{batches}    ],
    schedule=[
{durations}    ],
)
scheduler = WSD(
    units=SchedulerUnits.tokens, warmup={plan.warmup_tokens}, decay={decay}, decay_fraction=None
)
max_duration = Duration.tokens({end})
"""


def _duration(python: PythonText, node: ast.expr) -> tuple[str, int]:
    if isinstance(node, ast.Call) and last_name(node.func) in ("tokens", "steps") and len(node.args) == 1:
        return last_name(node.func), python.number(node.args[0])
    raise BadInputError(
        f"line {node.lineno}: {ast.unparse(node)[:60]} is no Duration.tokens(...) or Duration.steps(...)."
    )


def _learning_rate(python: PythonText) -> tuple[bool, int | None, int | None]:
    """Return warmup and decay of a WSD(...), and whether they are tokens or steps."""
    for call in python.calls("WSD"):
        given = {keyword.arg: keyword.value for keyword in call.keywords}
        in_tokens = "units" in given and "tokens" in ast.unparse(given["units"])
        warmup, decay = (
            python.number(given[key]) if _is_given(given.get(key)) else None for key in ("warmup", "decay")
        )
        return in_tokens, warmup, decay
    return False, None, None


def _is_given(node: ast.expr | None) -> TypeGuard[ast.expr]:
    return node is not None and not (isinstance(node, ast.Constant) and node.value is None)


def _arrows(sizes: list[int]) -> str:
    shown = [str(size) for size in sizes]
    if len(shown) > _MOST_SHOWN:
        shown[_MOST_SHOWN - 2 : -1] = ["..."]
    return " -> ".join(shown)
