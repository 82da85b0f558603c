"""What a trainer is to the rest of ebfit: how it writes down a plan, and what it then does step by step.

A trainer's schedule is often poorer than a plan: a straight ramp, factors of two, thresholds in steps. So an export
says not only what to write but also which batch sizes the trainer will use, which is compared with the plan.
"""

from dataclasses import dataclass, field
from typing import Literal, Protocol

from ebfit.batch_plan import BatchPlan


@dataclass(frozen=True)
class Setup:
    """What neither a plan nor a trainer's file says of the run.

    Attributes
    ----------
    micro_batch : int or None
        Sequences per device and forward pass.
    data_parallel : int or None
        Devices, or groups of them, that each see other sequences.
    strict : bool
        Refuse what the trainer cannot follow exactly, in place of the nearest that it can.
    """

    micro_batch: int | None = None
    data_parallel: int | None = None
    strict: bool = False


@dataclass(frozen=True)
class Export:
    """A plan as a trainer reads it.

    Attributes
    ----------
    text : str
        The whole file, with the trainer's name and versions in a comment where the format has comments.
    as_run : BatchPlan
        The batch sizes that the trainer will use, step by step; the plan itself where it can follow it exactly.
    notes : list of str
        Sentences that the user must read: what was changed, which other settings must be there or absent.
    """

    text: str
    as_run: BatchPlan
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class ReadSchedule:
    """A trainer's schedule as it was read back, before anything is known to be right about it.

    Attributes
    ----------
    starts : tuple of int
        Where each stage starts, in ``start_unit``.
    start_unit : {"tokens", "sequences", "steps"}
    batch_sequences : tuple of int
        As many as ``starts``. Not checked: it may fall, or be no multiple of anything.
    batch_tokens : tuple of int or None
        As written, where the file gives batch sizes in tokens; ``batch_sequences`` are then these by the sequence
        length, rounded down.
    seq_len : int or None
        Tokens per sequence, where the file says it.
    warmup_sequences, decay_sequences, total_sequences : int or None
        Of the learning rate and the run, where the file counts them in samples or tokens.
    warmup_steps, decay_steps, total_steps : int or None
        The same where the file counts iterations.
    iterations_as : {"steps", "last_batch", "devices"}
        What the trainer takes these iterations for: steps of this schedule; or, because its learning rate counts
        samples, so many times the last batch size, or micro-batch x data-parallel.
    rounds_starts_down : bool
        Whether the trainer divides starts in tokens by the sequence length and rounds down; others wait until the
        tokens are consumed.
    order_is_checked : bool
        Whether ``starts`` are already as the trainer sorts them, and ``refusals`` tell which it refuses.
    may_skip_sizes : bool
        Whether it is a ramp with a first size, a last one and where the last begins, of which no more is meant.
    refusals : list of str
        For what the trainer will refuse the file when it starts, in words.
    warnings : list of str
        What else is wrong in the file itself, in words.
    """

    starts: tuple[int, ...]
    start_unit: str
    batch_sequences: tuple[int, ...]
    batch_tokens: tuple[int, ...] | None = None
    seq_len: int | None = None
    warmup_sequences: int | None = None
    decay_sequences: int | None = None
    total_sequences: int | None = None
    warmup_steps: int | None = None
    decay_steps: int | None = None
    total_steps: int | None = None
    iterations_as: Literal["steps", "last_batch", "devices"] = "steps"
    rounds_starts_down: bool = False
    order_is_checked: bool = False
    may_skip_sizes: bool = False
    refusals: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


class Trainer(Protocol):
    """One file of this package: a format of `ebfit schedule --format`."""

    name: str  # as in --format
    reader: (
        str  # the trainer and the versions that read it, such as "Megatron-LM (megatron-core 0.18 and later)"
    )
    unit: str  # of its batch sizes and thresholds, such as "batch in sequences, from tokens on"
    suffix: str  # of a file, such as ".yaml"

    def export(self, plan: BatchPlan, setup: Setup) -> Export:
        """Write a plan down.

        Raises
        ------
        BadInputError
            If the trainer can express nothing like the plan, if ``setup.strict`` and it cannot express it exactly, or
            if ``setup`` lacks what the format needs.
        """
        ...

    def parse(self, text: str, seq_len: int | None, setup: Setup) -> ReadSchedule:
        """Read a schedule that somebody wrote, for `ebfit schedule --check`.

        Parameters
        ----------
        text : str
            The file's content.
        seq_len : int or None
            Tokens per sequence; needed where the format counts tokens.
        setup : Setup
            The devices, for formats whose files count per device and do not say how many there are.

        Raises
        ------
        BadInputError
            If the text is no such schedule, naming the line; without the file's name, which the caller puts in front.
            If ``seq_len`` or ``setup`` lacks what the format needs.
        """
        ...
