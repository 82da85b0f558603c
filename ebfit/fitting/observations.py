"""What a fit is given: for every run and target loss, the steps it took, or how far it got without reaching it."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ebfit.fitting.batched import BoolArray
from ebfit.laws import FloatArray


@dataclass(frozen=True)
class Observations:
    """Steps to target losses of R runs at T targets.

    Attributes
    ----------
    log_batch : ndarray, shape (R,)
        Natural log of tokens per step.
    log_steps : ndarray, shape (R, T)
        Natural log of the steps at the crossing, or of the last step where censored; NaN where there is no
        observation.
    censored : ndarray of bool, shape (R, T)
    covariance : ndarray, shape (R, T, T)
        Covariance of log steps between the targets of a run, from its crossings; zero where not known.
    """

    log_batch: FloatArray
    log_steps: FloatArray
    censored: BoolArray
    covariance: FloatArray

    @property
    def present(self) -> BoolArray:
        """Which (run, target) pairs hold an observation, shape (R, T)."""
        return np.isfinite(self.log_steps)

    @property
    def reached(self) -> BoolArray:
        """Which (run, target) pairs reached the target, shape (R, T)."""
        return self.present & ~self.censored

    @property
    def log_steps_se(self) -> FloatArray:
        """Standard error of log steps, shape (R, T)."""
        return np.sqrt(np.diagonal(self.covariance, axis1=1, axis2=2))

    def reached_batches(self, target: int) -> FloatArray:
        """Return the distinct log batch sizes that reached a target, rising."""
        return np.unique(self.log_batch[self.reached[:, target]])

    def censored_batches(self, target: int) -> FloatArray:
        """Return the distinct log batch sizes with a run that ended above a target, rising."""
        return np.unique(self.log_batch[self.present[:, target] & self.censored[:, target]])

    def mean_log_tokens(self, target: int) -> FloatArray:
        """Return the mean log tokens that each of `reached_batches` took to a target."""
        reached = self.reached[:, target]
        log_batch, log_steps = self.log_batch[reached], self.log_steps[reached, target]
        return np.array([size + log_steps[log_batch == size].mean() for size in np.unique(log_batch)])

    def take_runs(self, index: NDArray[np.intp]) -> "Observations":
        """Return some runs, or all in another order."""
        return Observations(
            self.log_batch[index], self.log_steps[index], self.censored[index], self.covariance[index]
        )

    def take_targets(self, index: Sequence[int]) -> "Observations":
        """Return some targets, with the runs that say something of them."""
        t = np.asarray(index, dtype=np.intp)
        covariance = self.covariance[:, t[:, None], t[None, :]]
        chosen = Observations(self.log_batch, self.log_steps[:, t], self.censored[:, t], covariance)
        return chosen.take_runs(np.flatnonzero(chosen.present.any(axis=1)))
