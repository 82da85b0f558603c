"""The arguments of Megatron-LM: found in whatever people keep them in, and written as a bash array.

They are found by name, with ``-`` or ``_``, in shell scripts, argument lists, YAML and Python alike: what stands
between a name and its value differs, the names do not. Nothing is executed.
"""

import re
from collections.abc import Iterable
from typing import Any

from ebfit.batch_plan import BatchPlan
from ebfit.errors import BadInputError
from ebfit.text import printable

ARRAY = "EBFIT_ARGS"
HOW_TO_USE = f"""\
# Source this file, and add "${{{ARRAY}[@]}}" to the arguments of the training script. None of these may be there:
"""

_ASSIGNMENT = re.compile(
    r"""^[ \t]*(?:export[ \t]+|local[ \t]+|readonly[ \t]+)?(\w+)=("[^"\n]*"|'[^'\n]*'|[^\s"'()]+)[ \t;]*$""",
    re.MULTILINE,
)
_COMMENT = re.compile(r"(?:^|(?<=[\s;]))#[^\n]*", re.MULTILINE)
_SEPARATOR = r"""["']?[\s=:,\[(]*["']?"""
_INTEGER = r"[+-]?\d[\d_]*"
_ABSENT = re.compile(r"(?:none|null|false)\b|~", re.IGNORECASE)


class Arguments:
    """Arguments of Megatron-LM in a text, looked up by name.

    Parameters
    ----------
    text : str
        A shell script, an argument list, YAML or Python.

    Attributes
    ----------
    text : str
        The same without comments, ``$NAME`` replaced where a plain value is assigned to it; lines are where they were.
    """

    def __init__(self, text: str) -> None:
        bare = _COMMENT.sub("", text)
        values = {name: value.strip("\"'") for name, value in _ASSIGNMENT.findall(bare)}
        for _ in range(5):  # a value may name another variable; five deep is more than anybody has
            bare = re.sub(
                r"\$(?:\{(\w+)\}|(\w+))",
                lambda match: values.get(match[1] or match[2], match[0]),
                bare,
            )
        self.text = bare.replace("\\\n", " \n").replace("\r", " ")

    def __contains__(self, name: str) -> bool:
        return self._value_at(name) is not None

    def line(self, name: str) -> int:
        """Return the line of an argument that is there."""
        match = self._last(name)
        assert match is not None
        return self.text.count("\n", 0, match.start()) + 1

    def integer(self, name: str) -> int | None:
        """Return the value of ``--name``; None where it is absent.

        Raises
        ------
        BadInputError
            If the value is no whole number, naming the line.
        """
        found = self.integers(name, 1)
        return None if found is None else found[0]

    def integers(self, name: str, count: int) -> list[int] | None:
        """Return the values of ``--name``; None where it is absent.

        Raises
        ------
        BadInputError
            If they are not ``count`` whole numbers, naming the line.
        """
        start = self._value_at(name)
        if start is None:
            return None
        between = r"""["']?[\s,]+(?:-[ \t]+)?["']?"""  # blanks, commas, or the dashes of a YAML list
        values = re.compile(rf"(?:-[ \t]+)?{between.join([f'({_INTEGER})'] * count)}(?![\w.])").match(
            self.text, start
        )
        if values is None:
            wanted = "a whole number" if count == 1 else f"{count} whole numbers"
            raise BadInputError(
                f"line {self.line(name)}: --{name} wants {wanted}, which {self._shown(start)} is not. "
                "Write plain digits: variables are followed only where the same file assigns a plain value."
            )
        return [int(value.replace("_", "")) for value in values.groups()]

    def pairs(self, name: str) -> str | None:
        """Return the value of ``--name`` that is a list of ``a:b``, as one string; None where it is absent."""
        start = self._value_at(name)
        if start is None:
            return None
        quote = self.text[start - 1] if self.text[start - 1] in "\"'" else ""
        if quote:
            return self.text[start:].partition(quote)[0]
        # not quoted, as in YAML or with commas: as many words as have a colon between digits
        unquoted = re.compile(r"(?:[\w.+-]*\d\w*:[\w.+-]+[ \t,]*)*").match(self.text, start)
        return unquoted[0] if unquoted and unquoted[0] else self.text[start:].split("\n", 1)[0]

    def _last(self, name: str) -> re.Match[str] | None:
        pattern = rf"(?<![\w-])(?:--)?{name.replace('-', '[-_]')}(?![\w-])"
        matches = list(re.finditer(pattern, self.text))
        return matches[-1] if matches else None  # as argparse, which takes the last

    def _value_at(self, name: str) -> int | None:
        """Return where the value of an argument begins; None where it is absent or given as None."""
        match = self._last(name)
        if match is None:
            return None
        separator = re.compile(_SEPARATOR).match(self.text, match.end())
        start = separator.end() if separator else match.end()
        return None if _ABSENT.match(self.text, start) else start

    def _shown(self, start: int) -> str:
        words = self.text[start : start + 40].split()
        return repr(printable(words[0])) if words else "nothing"


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
