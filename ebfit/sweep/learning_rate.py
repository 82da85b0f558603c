"""The warmup-stable-decay learning rate."""

import math
from dataclasses import dataclass

from ebfit.sweep.recipe import DecayShape


@dataclass(frozen=True)
class WarmupStableDecay:
    """Learning rate of every optimizer step, counted from 1.

    Attributes
    ----------
    lr : float
        In the stable phase.
    warmup_steps : int
        Step ``n`` of the warmup has ``lr * n / warmup_steps``.
    decay_start_step : int or None
        The last step at the full rate; None without a decay.
    decay_steps : int
        Steps after it; the rate would be 0 one step after the last of them.
    decay_shape : {"linear", "1-sqrt"}
        The rate falls as ``1 - t`` or ``1 - sqrt(t)`` (arXiv 2405.18392), ``t`` running from 0 to 1.
    """

    lr: float
    warmup_steps: int
    decay_start_step: int | None = None
    decay_steps: int = 0
    decay_shape: DecayShape = "linear"

    def at(self, step: int) -> float:
        """Return the learning rate that optimizer step ``step`` is taken with."""
        if step < self.warmup_steps:
            return self.lr * step / self.warmup_steps
        if self.decay_start_step is None or step <= self.decay_start_step:
            return self.lr
        t = min((step - self.decay_start_step) / (self.decay_steps + 1), 1.0)
        return self.lr * (1 - (t if self.decay_shape == "linear" else math.sqrt(t)))
