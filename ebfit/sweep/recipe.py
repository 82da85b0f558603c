"""A recipe is all that decides the numbers of one run; two runs with the same recipe are the same run."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from ebfit.sweep.architecture import Architecture

DecayShape = Literal["linear", "1-sqrt"]
Precision = Literal["float32", "bfloat16"]


@dataclass(frozen=True)
class Optimizer:
    """Settings of AdamW (arXiv 1711.05101); norms are not decayed, and gradients are clipped by their global norm."""

    beta1: float = 0.9
    beta2: float = 0.95
    eps: float = 1e-8
    weight_decay: float = 0.1
    clip_norm: float = 1.0


@dataclass(frozen=True)
class Recipe:
    """Everything that decides the numbers of one run.

    How a run is carried out (device, micro-batch, compilation, threads) is not part of it: that changes the numbers
    by rounding only.

    Attributes
    ----------
    architecture : Architecture
    seq_len : int
        Tokens per sequence.
    batch_sequences : int
        Sequences per optimizer step.
    seed : int
        Of the initial weights and the order of the data.
    lr : float
        Learning rate of the stable phase.
    warmup_steps : int
        Steps over which the learning rate rises linearly, the last of them at its full value.
    steps : int
        Optimizer steps planned in all, the decay among them.
    data : mapping
        Fingerprint of the data: what they are, and a checksum.
    val_tokens : int
        Size of the validation set.
    decay_fraction : float
        Share of the steps that the learning rate decays in, at the end; 0 without a decay.
    decay_shape : {"linear", "1-sqrt"}
    until_loss : float or None
        The stable phase ends early once the smoothed validation loss is below this.
    stop_when_level : bool
        The stable phase ends early once the validation loss no longer falls.
    optimizer : Optimizer
    precision : {"float32", "bfloat16"}
        Of the matrix products; weights are float32 throughout.
    log_every : int
        Steps between records of the train loss, which is a mean over all of them.
    evaluations_per_doubling : int
        Validations while the step number doubles.
    """

    architecture: Architecture
    seq_len: int
    batch_sequences: int
    seed: int
    lr: float
    warmup_steps: int
    steps: int
    data: Mapping[str, Any]
    val_tokens: int
    decay_fraction: float = 0.0
    decay_shape: DecayShape = "linear"
    until_loss: float | None = None
    stop_when_level: bool = True
    optimizer: Optimizer = field(default_factory=Optimizer)
    precision: Precision = "float32"
    log_every: int = 1
    evaluations_per_doubling: int = 16

    @property
    def batch_tokens(self) -> int:
        """Tokens per optimizer step."""
        return self.batch_sequences * self.seq_len

    @property
    def tokens(self) -> int:
        """Tokens planned in all."""
        return self.steps * self.batch_tokens

    def as_dict(self) -> dict[str, Any]:
        """Return all settings as JSON has them."""
        return asdict(replace(self, data=dict(self.data)))

    @property
    def key(self) -> str:
        """Return a checksum of all settings, the same for the same run wherever and whenever it is planned."""
        document = json.dumps(self.as_dict(), sort_keys=True, allow_nan=False)
        return hashlib.sha256(document.encode()).hexdigest()

    @property
    def name(self) -> str:
        """Return the name of the run and of its folder, such as ``b2048-lr0.01-s0-3f9a41c2``."""
        return f"b{self.batch_tokens}-lr{self.lr:g}-s{self.seed}-{self.key[:8]}"
