"""How a trainer walks through a schedule: when each stage really begins, and how many whole steps it takes.

Unlike a plan of ebfit, what is walked here may be wrong: batch sizes may fall, a stage may get no step at all.
Everything is counted in sequences, because files may not say how many tokens one has.
"""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Walked:
    """A stage as it is run.

    Attributes
    ----------
    batch : int
        Sequences per step.
    first_sequence, first_step : int
        Sequences consumed and steps taken before its first step.
    steps : int or None
        0 if it never begins; None for the last stage if nothing says where the run ends.
    """

    batch: int
    first_sequence: int
    first_step: int
    steps: int | None

    @property
    def end_sequence(self) -> int | None:
        """Sequences consumed after its last step; None if nothing says where the run ends."""
        return None if self.steps is None else self.first_sequence + self.steps * self.batch


def walk(
    starts: Sequence[int],
    batches: Sequence[int],
    *,
    in_steps: bool,
    end_sequences: int | None = None,
    end_step: int | None = None,
) -> list[Walked]:
    """Follow a schedule to its end: the batch changes at the first step that begins at or after a start.

    Parameters
    ----------
    starts : sequence of int
        In steps, or in sequences consumed; the first counts as 0.
    batches : sequence of int
        In sequences, positive.
    in_steps : bool
        Whether ``starts`` are steps.
    end_sequences, end_step : int or None
        Where the run ends; a step that would go beyond is not taken.
    """
    walked: list[Walked] = []
    consumed, step, over = 0, 0, False
    for batch, until in zip(batches, [*starts[1:], None], strict=True):
        limits = []
        if end_sequences is not None:
            limits.append((end_sequences - consumed) // batch)
        if end_step is not None:
            limits.append(end_step - step)
        room = max(min(limits), 0) if limits else None
        wanted = None if until is None else _steps_to(until, step if in_steps else consumed, in_steps, batch)
        steps = 0 if over else _smaller(wanted, room)
        over = over or (wanted is not None and steps != wanted)
        walked.append(Walked(batch, consumed, step, steps))
        consumed, step = consumed + (steps or 0) * batch, step + (steps or 0)
    return walked


def sequences_after(walked: Sequence[Walked], steps: int) -> int:
    """Return how many sequences so many steps consume; ``walked`` must have no end."""
    stage = next(stage for stage in reversed(walked) if stage.first_step <= steps and stage.steps != 0)
    return stage.first_sequence + (steps - stage.first_step) * stage.batch


def steps_until(walked: Sequence[Walked], sequences: int) -> int:
    """Return how many steps it takes until so many sequences are consumed; ``walked`` must have no end."""
    stage = next(
        stage for stage in reversed(walked) if stage.first_sequence <= sequences and stage.steps != 0
    )
    return stage.first_step - (stage.first_sequence - sequences) // stage.batch


def _steps_to(until: int, now: int, in_steps: bool, batch: int) -> int:
    away = max(until - now, 0)
    return away if in_steps else -(-away // batch)


def _smaller(wanted: int | None, room: int | None) -> int | None:
    known = [number for number in (wanted, room) if number is not None]
    return min(known) if known else None
