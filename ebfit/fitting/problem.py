"""The least-squares problem of one law at one target loss, many of them side by side.

The residual of a point that reached the target is (log S(B) - log S_observed) / sd: the error of a point moves it
along its ray E = B S, so it is counted once, in log S. A run that ended above the target says S > S_last; it
enters as the square root of -2 log Phi((log S(B) - log S_last) / sd), the one-sided likelihood. The prior on the
free parameters enters as residuals too, so that every solver minimises the same sum of squares.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr

from ebfit.fitting.batched import BoolArray, marquardt
from ebfit.laws import FloatArray, Law

_STEEPEST = 1e100  # derivatives beyond this, or NaN, lead nowhere


@dataclass(frozen=True)
class Problems:
    """K fits of one law, padded to the same number of points n.

    Attributes
    ----------
    law : Law
    log_batch, log_steps, sd : ndarray, shape (K, n)
        Logs of tokens per step and of steps (of the last step where censored), and the standard deviation of
        the latter.
    censored, present : ndarray of bool, shape (K, n)
        Which points are one-sided, and which are points at all.
    prior_centre : ndarray, shape (K, p)
        Where each problem's prior sits (a bootstrap moves it).
    """

    law: Law
    log_batch: FloatArray
    log_steps: FloatArray
    sd: FloatArray
    censored: BoolArray
    present: BoolArray
    prior_centre: FloatArray

    def __len__(self) -> int:
        return len(self.log_batch)

    @property
    def points(self) -> int:
        """Residuals of one problem, without those of the prior."""
        return self.log_batch.shape[1]

    def take(self, index: NDArray[np.intp] | slice) -> "Problems":
        """Return some of the problems."""
        return replace(
            self,
            log_batch=self.log_batch[index],
            log_steps=self.log_steps[index],
            sd=self.sd[index],
            censored=self.censored[index],
            present=self.present[index],
            prior_centre=self.prior_centre[index],
        )

    def residuals(self, free: FloatArray) -> FloatArray:
        """Return the residuals, shape (K, n + p), for free parameters of shape (K, p)."""
        with np.errstate(all="ignore"):
            z = (self.law.log_steps(free, self.log_batch) - self.log_steps) / self.sd
            points = np.where(self.censored, _one_sided(z)[0], z)
        points = np.where(self.present, points, 0.0)
        return np.concatenate([points, (free - self.prior_centre) / self.law.prior.sd], axis=-1)

    def residuals_and_jacobian(self, free: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the residuals and their derivatives, shapes (K, n + p) and (K, n + p, p)."""
        p = free.shape[-1]
        prior_part = np.broadcast_to(np.diag(1.0 / self.law.prior.sd), (len(free), p, p))
        with np.errstate(all="ignore"):
            log_s, by_free = self.law.log_steps_jacobian(free, self.log_batch)
            z = (log_s - self.log_steps) / self.sd
            one_sided, one_sided_slope = _one_sided(z)
            points = np.where(self.present, np.where(self.censored, one_sided, z), 0.0)
            slope = np.where(self.present, np.where(self.censored, one_sided_slope, 1.0), 0.0) / self.sd
            jacobian = np.concatenate([slope[..., None] * by_free, prior_part], axis=-2)
        residuals = np.concatenate([points, (free - self.prior_centre) / self.law.prior.sd], axis=-1)
        return residuals, jacobian

    def linearise(self, free: FloatArray) -> "Linearisation":
        """Return the problems at free parameters of shape (K, p), as `batched.solve` asks for."""
        residuals, jacobian = self.residuals_and_jacobian(free)
        with np.errstate(over="ignore", invalid="ignore"):
            return Linearisation(residuals, jacobian, np.sum(residuals**2, axis=-1), usable(jacobian))


@dataclass(frozen=True)
class Linearisation:
    """Residuals (K, m), their derivatives (K, m, p), and what `batched.Linearised` asks for."""

    residuals: FloatArray
    jacobian: FloatArray
    cost: FloatArray
    usable: BoolArray

    def step(self, damping: FloatArray) -> FloatArray:
        """Return the damped Gauss-Newton steps, shape (K, p)."""
        transposed = self.jacobian.swapaxes(-1, -2)
        gradient = transposed @ self.residuals[..., None]
        damped = marquardt(transposed @ self.jacobian, damping)
        return np.asarray(-np.linalg.solve(damped, gradient)[..., 0], dtype=float)

    def take(self, index: NDArray[np.intp]) -> "Linearisation":
        """Return some of the problems."""
        return Linearisation(
            self.residuals[index], self.jacobian[index], self.cost[index], self.usable[index]
        )

    def where(self, better: BoolArray, other: "Linearisation") -> "Linearisation":
        """Return the other for the problems that are better there."""
        return Linearisation(
            np.where(better[:, None], other.residuals, self.residuals),
            np.where(better[:, None, None], other.jacobian, self.jacobian),
            np.where(better, other.cost, self.cost),
            self.usable | better,
        )


def usable(jacobian: FloatArray) -> BoolArray:
    """Whether the normal equations of each problem can be formed without overflow, shape (K,)."""
    with np.errstate(invalid="ignore"):
        return np.asarray(np.abs(jacobian).max(axis=tuple(range(1, jacobian.ndim))) < _STEEPEST)


def _one_sided(z: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return sqrt(-2 log Phi(z)) and its derivative; both zero where z is large or infinite."""
    log_phi = log_ndtr(z)
    value = np.sqrt(-2.0 * log_phi)
    density_ratio = np.exp(-0.5 * z * z - log_phi) / np.sqrt(2.0 * np.pi)
    return value, np.where(value > 1e-150, -density_ratio / value, 0.0)
