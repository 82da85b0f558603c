"""Megatron-LM's ``--step-batch-size-schedule``: pairs of a threshold in tokens and a batch size in sequences.

From megatron-core 0.18 on (checked: 0.18.0, 0.18.2, 0.19.2), where it took the place of the ramp of
`megatron_rampup`. A size holds from the first step that begins with at least so many tokens consumed, as in a plan, so
every plan can be said exactly. All else is counted in samples: with iterations, Megatron turns them into samples with
the batch size that it takes for the constant one, micro-batch x data-parallel.
"""

from decimal import Decimal
from itertools import pairwise

from ebfit.batch_plan import BatchPlan
from ebfit.errors import BadInputError
from ebfit.schedule.trainers.base import Export, ReadSchedule, Setup
from ebfit.schedule.trainers.comments import heading
from ebfit.schedule.trainers.divisible import check_divisible
from ebfit.schedule.trainers.learning_rate import notes_on_lr_scale
from ebfit.schedule.trainers.megatron_arguments import Arguments
from ebfit.schedule.trainers.megatron_run import HOW_TO_USE, bash_array, learning_rate, read_learning_rate
from ebfit.text import printable

name = "megatron"
reader = "Megatron-LM with --step-batch-size-schedule (megatron-core 0.18 and later)"
unit = "batch in sequences, from tokens on"
suffix = ".sh"

FLAG = "step-batch-size-schedule"

# Megatron reads every number as a float.
_LARGEST_EXACT = 2**53
_SUFFIXES = {"K": 10**3, "M": 10**6, "B": 10**9, "T": 10**12}


def export(plan: BatchPlan, setup: Setup) -> Export:
    """Write a plan down; see `Trainer.export`."""
    if plan.total_tokens > _LARGEST_EXACT:
        raise BadInputError(
            f"Megatron reads thresholds as floats, which above 2^53 tokens are not exact, and the plan has "
            f"{plan.total_tokens} tokens. Split the run in two."
        )
    check_divisible(plan, setup)
    notes = notes_on_lr_scale(plan, setup, name)
    if setup.micro_batch is None or setup.data_parallel is None:
        notes.append(
            "Megatron asks only when a stage begins whether its batch is a multiple of micro-batch x data-parallel, "
            "and stops there if not: give --micro-batch and --data-parallel to know now."
        )
    notes += [
        "leave out --global-batch-size, --train-iters and all --lr-*-iters: beside this schedule Megatron refuses the "
        "first, and turns iterations into samples with micro-batch x data-parallel.",
        "evaluation takes micro-batch x data-parallel sequences per iteration: set --eval-global-batch-size if that is "
        "too few.",
    ]
    return Export(_text(plan), plan, notes)


def _text(plan: BatchPlan) -> str:
    samples = plan.stages[-1].end_tokens // plan.seq_len
    schedule = " ".join(f"{stage.start_tokens}:{stage.batch_sequences}" for stage in plan.stages)
    arguments = [
        f"--seq-length {plan.seq_len}",
        "# from this token on : sequences per step",
        f'--{FLAG} "{schedule}"',
        f"# {plan.total_steps} steps",
        f"--train-samples {samples}",
        *learning_rate(plan, samples),
    ]
    return (
        heading(reader, unit)
        + HOW_TO_USE
        + "# --global-batch-size --rampup-batch-size --decrease-batch-size-if-needed --train-iters\n"
        + "# --lr-warmup-iters --lr-decay-iters --lr-wsd-decay-iters\n"
        + bash_array(arguments)
    )


def parse(text: str, seq_len: int | None, setup: Setup) -> ReadSchedule:
    """Read a schedule that somebody wrote; see `Trainer.parse`.

    The text may be a script, an argument list, YAML or Python that has the schedule in it, or the schedule alone.
    """
    arguments = Arguments(text)
    schedule = arguments.pairs(FLAG)
    line = arguments.line(FLAG) if schedule is not None else 1
    if schedule is None:
        schedule = arguments.text.strip().strip("\"'")
        if ":" not in schedule.partition("\n")[0] or "=" in schedule or schedule.startswith("-"):
            raise BadInputError(
                f"no --{FLAG} in it. Give the script that has it, or the schedule alone, such as 0:512 125B:1024."
            )
    read = read_learning_rate(arguments, seq_len)
    refusals, warnings = read.pop("refusals"), read.pop("warnings")
    pairs = [_pair(entry, line, warnings) for entry in schedule.replace(",", " ").split()]
    if not pairs:
        raise BadInputError(f"line {line}: the schedule is empty.")
    if pairs != sorted(pairs, key=lambda pair: pair[0]):
        warnings.append("the thresholds are not in order; Megatron sorts them.")
        pairs.sort(key=lambda pair: pair[0])
    seq_len = read["seq_len"] or seq_len
    starts = [start for start, _ in pairs]
    refusals += [*_refused_thresholds(starts, seq_len or 1), *_refused_beside(arguments)]
    return ReadSchedule(
        starts=tuple(starts),
        start_unit="tokens",
        batch_sequences=tuple(batch for _, batch in pairs),
        iterations_as="devices",
        rounds_starts_down=True,
        order_is_checked=True,
        refusals=refusals,
        warnings=warnings,
        **read,
    )


def _pair(entry: str, line: int, warnings: list[str]) -> tuple[int, int]:
    threshold, colon, batch = entry.partition(":")
    if not colon:
        raise BadInputError(
            f"line {line}: {printable(entry)!r} in the schedule has no colon. Write TOKENS:SEQUENCES."
        )
    return _number(threshold, line, warnings), _number(batch, line, warnings)


def _number(text: str, line: int, warnings: list[str]) -> int:
    """Return a number as Megatron reads it, and say where that is not what is written."""
    digits, factor = text.upper(), 1
    if digits[-1:] in _SUFFIXES:
        digits, factor = digits[:-1], _SUFFIXES[digits[-1]]
    try:
        exact = Decimal(digits) * factor
        read = int(float(digits) * factor)
    except (ArithmeticError, ValueError):
        raise BadInputError(
            f"line {line}: {printable(text)!r} in the schedule is no number. Write digits, or digits with K, M, B or T."
        ) from None
    if read != exact:
        warnings.append(f"{text} is no whole number that a float holds; Megatron reads it as {read}.")
    return read


def _refused_thresholds(starts: list[int], seq_len: int) -> list[str]:
    refusals = []
    if starts[0] // seq_len != 0:
        refusals.append(f"the first threshold is {starts[0]}; it must be 0.")
    refusals += [
        f"the thresholds {before} and {after} fall on the same sequence; they must rise from one to another."
        for before, after in pairwise(starts)
        if before // seq_len == after // seq_len
    ]
    return refusals


def _refused_beside(arguments: Arguments) -> list[str]:
    return [
        f"--{flag} beside --{FLAG}; take it out."
        for flag in ("global-batch-size", "decrease-batch-size-if-needed")
        if flag in arguments
    ]
