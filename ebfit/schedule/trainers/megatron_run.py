"""What both exports for Megatron share: a bash array of arguments, and the learning rate counted in samples."""

from collections.abc import Iterable
from typing import Any

from ebfit.batch_plan import BatchPlan
from ebfit.errors import BadInputError
from ebfit.schedule.trainers.megatron_arguments import Arguments

ARRAY = "EBFIT_ARGS"
HOW_TO_USE = f"""\
# Source this file, and add "${{{ARRAY}[@]}}" to the arguments of the training script. None of these may be there:
"""


def learning_rate(plan: BatchPlan, samples: int) -> list[str]:
    """Return the arguments of the learning rate, counted in samples.

    Parameters
    ----------
    plan : BatchPlan
    samples : int
        Sequences of the whole run.

    Raises
    ------
    BadInputError
        If the warmup leaves no room for anything else.
    """
    warmup = warmup_samples(plan)
    if warmup >= samples:
        raise BadInputError(
            f"the warmup takes {warmup} of {samples} sequences, and Megatron wants it shorter than the run. "
            "Plan with fewer --warmup-tokens."
        )
    decay = decay_samples(plan, samples)
    arguments = [f"--lr-warmup-samples {warmup}"] if warmup else []
    if decay:
        return [
            "--lr-decay-style WSD",
            *arguments,
            f"--lr-decay-samples {samples}",
            "# its shape is --lr-wsd-decay-style, exponential if left out",
            f"--lr-wsd-decay-samples {decay}",
        ]
    return ["--lr-decay-style constant", *arguments]


def warmup_samples(plan: BatchPlan) -> int:
    """Return the sequences of the warmup, in whole ones."""
    return plan.warmup_tokens // plan.seq_len


def decay_samples(plan: BatchPlan, samples: int) -> int:
    """Return the sequences of the decay, which ends after ``samples``; 0 without one."""
    if plan.decay_start_tokens is None:
        return 0
    return max(samples - plan.decay_start_tokens // plan.seq_len, 0)


def bash_array(arguments: Iterable[str]) -> str:
    """Return a bash array, one argument or comment a line."""
    return "\n".join([f"{ARRAY}=(", *(f"    {argument}" for argument in arguments), ")"]) + "\n"


def read_learning_rate(arguments: Arguments, seq_len: int | None) -> dict[str, Any]:
    """Return what the arguments say of run and learning rate, as the fields of `ReadSchedule` of the same names.

    Parameters
    ----------
    arguments : Arguments
    seq_len : int or None
        What the user says it is.

    Raises
    ------
    BadInputError
        If a value is no whole number, naming the line.
    """
    counts = {
        "seq_len": arguments.integer("seq-length"),
        "warmup_sequences": arguments.integer("lr-warmup-samples"),
        "decay_sequences": arguments.integer("lr-wsd-decay-samples"),
        "total_sequences": arguments.integer("train-samples"),
        "warmup_steps": arguments.integer("lr-warmup-iters"),
        "decay_steps": arguments.integer("lr-wsd-decay-iters"),
        "total_steps": arguments.integer("train-iters"),
    }
    refusals, warnings = [], []
    if counts["total_sequences"] and counts["total_steps"]:
        refusals.append("--train-samples and --train-iters exclude each other.")
    if counts["total_sequences"]:
        for flag in ("lr-warmup-iters", "lr-decay-iters"):
            if arguments.integer(flag):
                refusals.append(f"--{flag} beside --train-samples; with that, all is counted in samples.")
    if counts["seq_len"] and seq_len and counts["seq_len"] != seq_len:
        warnings.append(
            f"--seq-length is {counts['seq_len']} in the file, and {seq_len} was given beside it."
        )
    end, total = arguments.integer("lr-decay-samples"), counts["total_sequences"]
    if end and total and end > total:
        warnings.append(
            f"the learning rate ends its decay after --lr-decay-samples {end}, and the run ends before, after "
            f"--train-samples {total}."
        )
    return {**counts, "refusals": refusals, "warnings": warnings}
