"""How a run is carried out, and what it tells about itself; free of torch, which the process that watches can spare."""

from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True)
class Execution:
    """How a run is carried out; this changes its numbers by rounding at most.

    Attributes
    ----------
    device : str
        As torch names it: ``cpu``, ``cuda:0``, ``mps``.
    micro_batch_sequences : int or None
        Sequences per forward pass; None: found by trial.
    compile : bool
        Whether the model is compiled.
    checkpoint_seconds : float
        Time between checkpoints.
    threads : int
        CPU threads that the run may use.
    """

    device: str = "cpu"
    micro_batch_sequences: int | None = None
    compile: bool = False
    checkpoint_seconds: float = 60.0
    threads: int = 1


@dataclass(frozen=True)
class Progress:
    """How far a run has come.

    Attributes
    ----------
    step, steps : int
        Optimizer steps taken, and planned in all.
    tokens : int
        Consumed so far.
    train_loss, val_loss : float or None
        The latest; None before there is one.
    tokens_per_second : float
    """

    step: int
    steps: int
    tokens: int
    train_loss: float | None
    val_loss: float | None
    tokens_per_second: float


@dataclass(frozen=True)
class Outcome:
    """How a run ended.

    Attributes
    ----------
    status : {"finished", "interrupted", "failed"}
    reason : str
        A few words: why it ended where it did.
    step, tokens : int
        Taken and consumed since initialisation.
    val_loss : float or None
        The last.
    seconds : float
        Time spent on it, in all.
    tokens_per_second : float or None
    flops_utilisation : float or None
        Share of the device's peak arithmetic that went into the model; None where the peak is not known.
    warnings : list of str
    """

    status: Literal["finished", "interrupted", "failed"]
    reason: str
    step: int = 0
    tokens: int = 0
    val_loss: float | None = None
    seconds: float = 0.0
    tokens_per_second: float | None = None
    flops_utilisation: float | None = None
    warnings: list[str] = field(default_factory=list)
