"""The run that a schedule belongs to, as far as the file and the user say it, and words for its stages and amounts."""

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

from ebfit.batch_plan import LARGEST
from ebfit.errors import BadInputError
from ebfit.schedule.check.walk import Walked, walk
from ebfit.schedule.trainers.base import ReadSchedule
from ebfit.text import short


@dataclass(frozen=True)
class Run:
    """What is checked.

    Attributes
    ----------
    read : ReadSchedule
    seq_len : int or None
        Tokens per sequence; known where starts or batch sizes are in tokens.
    total_tokens : int or None
        What the user says the run will have; the file may say something else.
    """

    read: ReadSchedule
    seq_len: int | None
    total_tokens: int | None

    def __post_init__(self) -> None:
        counts_tokens = self.read.start_unit == "tokens" or self.read.batch_tokens is not None
        if self.seq_len is None and counts_tokens:
            raise BadInputError(
                "the schedule counts tokens, and its batch sizes are sequences: give --seq-len."
            )
        read = self.read
        in_sequences = (read.total_sequences, read.warmup_sequences, read.decay_sequences)
        in_steps = (read.total_steps, read.warmup_steps, read.decay_steps)
        of_run = [number for number in (*in_sequences, *in_steps) if number is not None]
        written = (*read.starts, *read.batch_sequences, *(read.batch_tokens or ()), *of_run)
        if max(map(abs, written)) > LARGEST:
            raise BadInputError("the schedule has a number above 2^63, more than any trainer counts to.")

    @cached_property
    def in_order(self) -> bool:
        """Whether there are batch sizes to walk along, and starts that rise."""
        starts = self.read.starts
        rising = all(left < right for left, right in pairwise(starts))
        return rising and all(batch > 0 for batch in self.read.batch_sequences)

    @cached_property
    def stages(self) -> list[Walked]:
        """The stages as they are run; only of a schedule that is in order."""
        return self.walked_as(self.read.start_unit)

    @cached_property
    def endless_stages(self) -> list[Walked]:
        """The stages as they are run if the last one goes on for ever."""
        endless = replace(self.read, total_sequences=None, total_steps=None)
        return replace(self, read=endless, total_tokens=None).stages

    @property
    def user_sequences(self) -> int | None:
        """Whole sequences in ``total_tokens``."""
        return (
            None if self.total_tokens is None or self.seq_len is None else self.total_tokens // self.seq_len
        )

    @property
    def end_sequence(self) -> int | None:
        """Where the run ends: as the file says, else as the user does."""
        return self.stages[-1].end_sequence

    def walked_as(self, unit: str) -> list[Walked]:
        """Return how the stages would be run if the starts were counted in ``unit``."""
        file_ends = self.read.total_sequences is not None or self.read.total_steps is not None
        return walk(
            [self._in_sequences(start) for start in self.read.starts]
            if unit == "tokens"
            else self.read.starts,
            self.read.batch_sequences,
            in_steps=unit == "steps",
            end_sequences=self.read.total_sequences if file_ends else self.user_sequences,
            end_step=self.read.total_steps,
        )

    def stage(self, index: int) -> str:
        """Return words for a stage: its number, its size and its start as written."""
        unit = self.read.start_unit
        start = self.read.starts[index]
        place = f"step {start:,}" if unit == "steps" else f"{_count(start)} {unit}"
        return f"stage {index + 1} ({self.batch(index)}, from {place} on)"

    def batch(self, index: int) -> str:
        """Return words for a batch size."""
        if self.read.batch_tokens is not None:
            return f"{self.read.batch_tokens[index]:,} tokens"
        number = self.read.batch_sequences[index]
        sequences = f"{number:,} sequence{'' if number == 1 else 's'}"
        return (
            sequences if self.seq_len is None else f"{sequences} = {_count(number * self.seq_len, 3)} tokens"
        )

    def amount(self, sequences: int) -> str:
        """Return words for so many sequences: tokens, where it is known how many one has."""
        if self.seq_len is None:
            return f"{_count(sequences)} sequences"
        return f"{_count(sequences * self.seq_len)} tokens"

    def _in_sequences(self, tokens: int) -> int:
        if self.seq_len is None:
            raise BadInputError("the schedule counts tokens: give --seq-len.")
        return tokens // self.seq_len if self.read.rounds_starts_down else -(-tokens // self.seq_len)


def _count(number: int, digits: int = 4) -> str:
    return f"{number:,}" if number < 100_000 else short(number, digits)
