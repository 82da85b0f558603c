"""How a run is carried out, and what it tells about itself; free of torch, which the process that watches can spare."""

from dataclasses import dataclass
from typing import Literal

Compile = Literal["auto", "on", "off"]


@dataclass(frozen=True)
class Execution:
    """How a run is carried out, which changes its numbers by rounding at most.

    Attributes
    ----------
    device : str
        Such as ``cpu`` or ``cuda:0``.
    micro_batch_sequences : int or None
        Sequences that go through the model at once; None: found by trial.
    compile : {"auto", "on", "off"}
        Whether to compile the model; auto: on a GPU, for runs long enough to win that time back.
    checkpoint_seconds : float
        Time between checkpoints, longer where making one takes long; 0: as often as the log is written.
    """

    device: str = "cpu"
    micro_batch_sequences: int | None = None
    compile: Compile = "auto"
    checkpoint_seconds: float = 60.0


@dataclass(frozen=True)
class Progress:
    """How far a run has come.

    Attributes
    ----------
    step, steps : int
        Done, and planned.
    tokens : int
    train_loss, val_loss : float or None
        The last ones.
    tokens_per_second : float
    epoch : float or None
        How often the training data have been passed over; None for data without end.
    """

    step: int
    steps: int
    tokens: int
    train_loss: float | None
    val_loss: float | None
    tokens_per_second: float
    epoch: float | None = None


@dataclass(frozen=True)
class Outcome:
    """How a run ended.

    Attributes
    ----------
    status : {"finished", "interrupted", "failed"}
    reason : str
        In words.
    step, tokens : int
        Done in all.
    val_loss : float or None
        The last one.
    seconds : float
        Spent on training, in all sessions.
    tokens_per_second : float or None
        In training proper: without validation, checkpoints and the first step, which may compile.
    flops_utilisation : float or None
        Share of the device's peak; None where that is not known.
    """

    status: Literal["finished", "interrupted", "failed"]
    reason: str
    step: int
    tokens: int
    val_loss: float | None
    seconds: float
    tokens_per_second: float | None
    flops_utilisation: float | None
