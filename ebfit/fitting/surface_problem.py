"""The least-squares problem of the surface at all targets of a group, many of them side by side.

As in `ebfit.fitting.problem`, the residual of a point is that of its log steps, and a run that ended above a target
says S > S_last. Here the errors of a run at several targets are correlated: residuals are multiplied by the run's
whitening matrix, and a one-sided one is so that of its target given the targets that the run did reach.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ebfit.fitting.batched import BoolArray
from ebfit.fitting.problem import Linearisation, _one_sided, usable
from ebfit.laws import FloatArray, surface

_NEVER = 1e100  # log steps of a batch size that never gets there, to be multiplied by zeros


@dataclass(frozen=True)
class SurfaceProblems:
    """K fits of the surface to R runs at T targets, of the same runs and error model.

    Attributes
    ----------
    losses : ndarray, shape (T,)
    log_batch_of_run : ndarray, shape (R,)
    log_steps : ndarray, shape (K, R, T)
        Observed, or those of the last step; anything where there is no observation.
    whitening : ndarray, shape (R, T, T)
        See `SharedError.whitening`.
    scale : ndarray, shape (K,)
        By which all standard deviations of a problem are larger than the whitening has them.
    reached, one_sided : ndarray of bool, shape (R, T)
    prior_centre : ndarray, shape (K, 5)
    """

    losses: FloatArray
    log_batch_of_run: FloatArray
    log_steps: FloatArray
    whitening: FloatArray
    scale: FloatArray
    reached: BoolArray
    one_sided: BoolArray
    prior_centre: FloatArray

    law = surface

    def __len__(self) -> int:
        return len(self.log_steps)

    @property
    def points(self) -> int:
        """Residuals of one problem, without those of the prior."""
        return self.reached.size

    def take(self, index: NDArray[np.intp] | slice) -> "SurfaceProblems":
        """Return some of the problems."""
        return replace(
            self,
            log_steps=self.log_steps[index],
            scale=self.scale[index],
            prior_centre=self.prior_centre[index],
        )

    def raw(self, free: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return log S(B) less the observed log steps, (K, R, T), and its derivatives (K, R, T, 5).

        Both are zero where there is no observation; the first is infinite where B never reaches the loss.
        """
        log_s, jacobian = surface.log_steps_jacobian(free, self.losses, self.log_batch_of_run)
        seen = self.reached | self.one_sided
        with np.errstate(invalid="ignore"):
            residual = np.where(seen, log_s.swapaxes(-1, -2) - self.log_steps, 0.0)
        return residual, np.where(seen[..., None], jacobian.swapaxes(-2, -3), 0.0)

    def residuals(self, free: FloatArray) -> FloatArray:
        """Return the residuals, shape (K, R T + 5), for free parameters of shape (K, 5)."""
        return self.residuals_and_jacobian(free)[0]

    def residuals_and_jacobian(self, free: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the residuals and their derivatives, shapes (K, R T + 5) and (K, R T + 5, 5)."""
        count, p = free.shape
        with np.errstate(all="ignore"):
            raw, by_free = self.raw(free)
            z = self._whitened(np.minimum(raw, _NEVER)[..., None])[..., 0]
            by_free = self._whitened(by_free)
            one_sided, slope = _one_sided(z)
            points = np.where(self.one_sided, one_sided, np.where(np.isposinf(raw), np.inf, z))
            jacobian = np.where(self.one_sided, slope, 1.0)[..., None] * by_free
        prior_sd = surface.prior.sd
        prior_part = np.broadcast_to(np.diag(1.0 / prior_sd), (count, p, p))
        residuals = [points.reshape(count, -1), (free - self.prior_centre) / prior_sd]
        return np.concatenate(residuals, axis=-1), np.concatenate(
            [jacobian.reshape(count, -1, p), prior_part], axis=-2
        )

    def linearise(self, free: FloatArray) -> Linearisation:
        """Return the problems at free parameters of shape (K, 5), as `batched.solve` asks for."""
        residuals, jacobian = self.residuals_and_jacobian(free)
        with np.errstate(over="ignore", invalid="ignore"):
            return Linearisation(residuals, jacobian, np.sum(residuals**2, axis=-1), usable(jacobian))

    def _whitened(self, values: FloatArray) -> FloatArray:
        """Multiply (K, R, T, p) by the whitening matrices: one large product per run."""
        count, runs, targets, p = values.shape
        columns = values.transpose(1, 2, 0, 3).reshape(runs, targets, count * p)
        product = (self.whitening @ columns).reshape(runs, targets, count, p).transpose(2, 0, 1, 3)
        return np.asarray(product / self.scale[:, None, None, None])
