"""Numbers that make sense in another unit only: tokens for sequences, sequences for tokens, steps for either.

Only what is out of every proportion is named: a run of a few million tokens with sequences of 32 is as good as one of
trillions. So each rule wants two things, that the number is absurd as it is read and sensible otherwise.
"""

import math
from collections.abc import Iterator

from ebfit.schedule.check.finding import Finding, error, warning
from ebfit.schedule.check.run import Run
from ebfit.text import short

# No run that was written about had more tokens in one step, by a factor of four or so.
_LARGEST_BATCH_TOKENS = 2**28
# Of the whole run, at one batch size: fewer is no training, more has not been done.
_FEWEST_STEPS, _MOST_STEPS = 20, 20_000_000
# Part of the run: changes that all come before the first are no schedule, one that comes after the second is.
_AT_ONCE, _LATER = 3e-4, 0.05


def batch_sizes(run: Run) -> Iterator[Finding]:
    """Name the batch sizes that are in the wrong unit, and those in tokens that are no whole number of sequences."""
    if run.seq_len is None or run.seq_len == 1:
        return
    if run.read.batch_tokens is None:
        yield from _tokens_for_sequences(run, run.seq_len)
    else:
        yield from _sequences_for_tokens(run, run.read.batch_tokens, run.seq_len)


def starts(run: Run) -> Iterator[Finding]:
    """Name the starts that are in the wrong unit; only of stages in order."""
    if len(run.stages) < 2 or not _absurd(run, run.read.start_unit):
        return
    readable = ("sequences", "steps") if run.seq_len is None else ("tokens", "sequences", "steps")
    sensible = [unit for unit in readable if _sensible(run, unit)]
    if sensible:
        yield warning(
            f"the starts are read as {run.read.start_unit}, in which {run.stage(1)} comes {_where(run)}; "
            f"they would make sense as {' or as '.join(sensible)}. Are they in the wrong unit?"
        )


def _tokens_for_sequences(run: Run, seq_len: int) -> Iterator[Finding]:
    for index, sequences in enumerate(run.read.batch_sequences):
        tokens = sequences * seq_len
        if sequences >= seq_len and (tokens > _LARGEST_BATCH_TOKENS or _few_steps(run, sequences, seq_len)):
            yield warning(
                f"{run.stage(index)}: {short(tokens)} tokens in one step are implausible. If {sequences:,} are tokens, "
                f"write sequences: {_near(sequences / seq_len)}."
            )


def _few_steps(run: Run, sequences: int, seq_len: int) -> bool:
    """Whether the run has hardly any steps of a batch size, and enough if it is in tokens."""
    end = _end_tokens(run)
    if end is None or sequences % seq_len:
        return False
    return end // (sequences * seq_len) < _FEWEST_STEPS <= end // sequences


def _sequences_for_tokens(run: Run, sizes: tuple[int, ...], seq_len: int) -> Iterator[Finding]:
    end = _end_tokens(run)
    for index, tokens in enumerate(sizes):
        if 0 < tokens < seq_len:
            yield error(
                f"{run.stage(index)} is {tokens / seq_len:.3g} of one sequence of {seq_len:,} tokens. "
                f"If {tokens:,} are sequences, write tokens: {tokens * seq_len}."
            )
        elif tokens % seq_len:
            yield error(
                f"{run.stage(index)} is no whole number of sequences of {seq_len:,} tokens but {tokens / seq_len:.2f}. "
                f"{_whole_sizes(tokens, seq_len)}"
            )
        elif (
            tokens > 0
            and end is not None
            and end // tokens > _MOST_STEPS
            and end // (tokens * seq_len) >= _FEWEST_STEPS
        ):
            yield warning(
                f"{run.stage(index)}: with so few tokens in one step the run takes {short(end // tokens)} steps. "
                f"If {tokens:,} are sequences, write tokens: {tokens * seq_len}."
            )


def _whole_sizes(tokens: int, seq_len: int) -> str:
    """Return the sizes near one that is no whole number of sequences; first the one with a binary suffix."""
    for power, decimal, binary in ((3, "B", "Gi"), (2, "M", "Mi"), (1, "K", "Ki")):
        number, rest = divmod(tokens, 1000**power)
        if rest == 0 and number * 1024**power % seq_len == 0:
            size = number * 1024**power
            sequences = f"{size // seq_len:,} sequences"
            return f"{number}{decimal} is {tokens:,}; {number}{binary}, {size} tokens, is {sequences}."
    below = tokens // seq_len * seq_len
    return f"{below} and {below + seq_len} would be."


def _absurd(run: Run, unit: str) -> bool:
    """Whether the last change comes after the end of the run, or within a blink of its beginning."""
    last = run.walked_as(unit)[-1]
    if last.end_sequence is None:
        return last.first_step < _FEWEST_STEPS
    return last.steps == 0 or last.first_sequence < _AT_ONCE * last.end_sequence


def _sensible(run: Run, unit: str) -> bool:
    walked = run.walked_as(unit)
    last = walked[-1]
    if last.first_step > _MOST_STEPS or any(stage.steps is not None and stage.steps < 2 for stage in walked):
        return False
    return last.end_sequence is None or last.first_sequence >= _LATER * last.end_sequence


def _where(run: Run) -> str:
    stage, end = run.stages[1], run.end_sequence
    if end is not None and run.stages[0].end_sequence == end:
        return "after the end of the run"
    part = "" if not end else f", {stage.first_sequence / end:.2g} of the run"
    return f"after {stage.first_step:,} steps{part}"


def _end_tokens(run: Run) -> int | None:
    """Tokens of the whole run, as the user says or else the file."""
    if run.total_tokens is not None:
        return run.total_tokens
    if run.read.total_sequences is not None and run.seq_len is not None:
        return run.read.total_sequences * run.seq_len
    return None


def _near(sequences: float) -> str:
    return (
        f"{sequences:.0f}" if sequences.is_integer() else f"{math.floor(sequences)} or {math.ceil(sequences)}"
    )
