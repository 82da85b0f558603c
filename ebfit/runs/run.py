"""What a training run is: one loss curve, or two, at one batch size."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
LossKind = Literal["train", "val"]


@dataclass(frozen=True)
class Curve:
    """A loss against optimizer steps.

    Attributes
    ----------
    steps : ndarray, shape (n,)
        Optimizer updates since initialisation, strictly rising and positive. Already corrected for the
        lag of a windowed or moving average, hence possibly fractional.
    loss : ndarray, shape (n,)
        Finite losses, nats per token unless the user says otherwise.
    column : str
        The column of the log that the loss came from.
    lag_steps : float
        How many steps the logged steps were moved back to undo averaging.
    logged_steps : ndarray, shape (n,), or None
        The steps as logged, where they were moved.
    """

    steps: FloatArray
    loss: FloatArray
    column: str
    lag_steps: float = 0.0
    logged_steps: FloatArray | None = None


@dataclass(frozen=True)
class Run:
    """One training run, read and put in order.

    Attributes
    ----------
    name : str
        Unique among the runs read together.
    path : Path
        The file it was read from.
    format : str
        Name of the log format, as in the registry of `ebfit.runs.formats`.
    batch_tokens : float
        Tokens per optimizer step, over all devices and accumulation.
    batch_source : str
        Where the batch size came from, in words.
    seq_len : int or None
        Tokens per sequence.
    lr : float or None
        The learning rate of the stable phase.
    seed : int or None
        Seed of the run, where known.
    rows : int
        Rows in the log before anything was dropped.
    dropped : dict
        Reason -> count of rows that were not used.
    stable_from, stable_to : int
        First and last step of the stable phase, both included.
    stable_source : str
        How the stable phase was found, in words.
    train, val : Curve or None
        The loss curves, whole (not cut to the stable phase).
    warnings : list of str
        Plain sentences about this run.
    assumptions : list of str
        What was assumed because neither the log nor the user says it, in plain sentences.
    problems : list of str
        Why the run cannot be used, in sentences that name the file and the way out. Only `read_logs`, on
        which ``ebfit inspect`` stands, returns such runs; `read_runs` raises the first problem instead.
    facts_path : Path or None
        The run.json beside the log, where one was read.
    model : str or None
        What tells its model from others, where known.
    data : str or None
        What tells the data it was trained on from others, where known.
    pieces : tuple of Path
        All files that it was read from, `path` among them; none where it was made in memory.
    averaging_known : bool
        Whether it is known over which steps the train loss was averaged, or that it was not.
    """

    name: str
    path: Path
    format: str
    batch_tokens: float
    batch_source: str
    seq_len: int | None
    lr: float | None
    seed: int | None
    rows: int
    dropped: dict[str, int]
    stable_from: int
    stable_to: int
    stable_source: str
    train: Curve | None = None
    val: Curve | None = None
    warnings: list[str] = field(default_factory=list)
    assumptions: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    facts_path: Path | None = None
    model: str | None = None
    data: str | None = None
    pieces: tuple[Path, ...] = ()
    averaging_known: bool = False

    def curve(self, kind: LossKind) -> Curve | None:
        """Return the train or the validation curve."""
        return self.val if kind == "val" else self.train

    def stable_curve(self, kind: LossKind) -> Curve | None:
        """Return the part of a curve that lies in the stable phase; None where there is no such curve."""
        curve = self.curve(kind)
        if curve is None:
            return None
        # A mean over steps must begin after the warmup and end before the decay; its last step is the logged one.
        logged = curve.steps if curve.logged_steps is None else curve.logged_steps
        inside = (curve.steps >= self.stable_from) & (logged <= self.stable_to)
        return Curve(curve.steps[inside], curve.loss[inside], curve.column, curve.lag_steps, logged[inside])
