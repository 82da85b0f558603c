"""Everything a user can say about how logs are to be read."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from ebfit.errors import BadInputError


@dataclass(frozen=True)
class ReadOptions:
    """How to read logs; the defaults find everything out from the logs themselves.

    Attributes
    ----------
    manifest : Path or None
        CSV with a row per log: path, batch_tokens or batch_sequences + seq_len, optional seed, lr, name.
    columns : mapping
        Role -> column name, for roles of `ebfit.runs.columns.ROLES`; decides where aliases cannot.
    format : str or None
        Name of a log format, in place of looking at the content.
    seq_len : int or None
        Tokens per sequence, for logs that count in sequences.
    batch_tokens : float or None
        Tokens per step of runs that do not say so themselves: the last of all sources.
    warmup_steps, stable_until : int or None
        First and last step of the stable phase, in place of what the learning rate says.
    allow_non_stable : bool
        Use the whole curve after warmup where the learning rate is never constant.
    micro_steps : int or None
        The step column counts micro-batches, so many to an optimizer update.
    allow_dropped : bool
        Use logs of which more than half the rows with a loss had to be left out.
    train_window : int, "interval" or None
        The logged train loss is a mean over so many steps, or over all steps since the row before. None
        takes what `run.json` says, else a single step.
    train_ema : float or None
        The logged train loss is an exponential moving average over rows, with this weight of the past.
    """

    manifest: Path | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    format: str | None = None
    seq_len: int | None = None
    batch_tokens: float | None = None
    warmup_steps: int | None = None
    stable_until: int | None = None
    allow_non_stable: bool = False
    micro_steps: int | None = None
    allow_dropped: bool = False
    train_window: int | Literal["interval"] | None = None
    train_ema: float | None = None

    def __post_init__(self) -> None:
        """Refuse values that no log could be read with.

        Raises
        ------
        BadInputError
            Naming the option.
        """
        for option, value in (("--seq-len", self.seq_len), ("--batch-tokens", self.batch_tokens)):
            if value is not None and not value > 0:
                raise BadInputError(f"{option} must be positive, not {value:g}.")
        if self.warmup_steps is not None and self.warmup_steps < 0:
            raise BadInputError(f"--warmup-steps must not be negative, as {self.warmup_steps} is.")
        if self.stable_until is not None and self.stable_until <= (self.warmup_steps or 0):
            raise BadInputError(
                f"--stable-until {self.stable_until} leaves no stable phase: it must lie after the warmup."
            )
        if self.micro_steps is not None and self.micro_steps < 2:
            raise BadInputError(
                f"--micro-steps must be 2 or more micro-batches to an update, which {self.micro_steps} is not."
            )
        if self.train_window is not None and self.train_ema is not None:
            raise BadInputError("Give --train-window or --train-ema, not both: a loss is averaged one way.")
        if isinstance(self.train_window, int) and self.train_window < 1:
            raise BadInputError(f"--train-window must be 1 step or more, not {self.train_window}.")
        if self.train_ema is not None and not 0 <= self.train_ema < 1:
            raise BadInputError(f"--train-ema must lie in 0 <= BETA < 1, which {self.train_ema:g} does not.")
