"""The error model of a law that is fitted to all targets at once: what a run gets wrong, it gets wrong at several.

The errors of a run at T targets have the covariance

    V = C + tau^2 K,    K_tu = exp(-|x_t - x_u| / reach)

with C that of its crossings and tau the misfit of everything else, which falls off between targets with their distance
x in log tokens. Targets that lie close together are so hardly more than one, however many of them are asked for. tau
and the reach maximise the restricted likelihood of the residuals. A small part of both terms is taken as independent,
so that no difference between targets is taken for infinitely sure.
"""

from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import minimize

from ebfit.fitting.batched import BoolArray
from ebfit.fitting.observations import Observations
from ebfit.laws import FloatArray

SMALLEST_MISFIT = 1e-9  # log steps; so that noise-free data are solved to rounding and not divided by zero
# Shares of the variances that targets do not have in common: of the crossings, and of the misfit.
_INDEPENDENT_CROSSING, _INDEPENDENT = 0.05, 0.003
# What is expected of the reach, in units of the range of the targets: a weak normal prior on its logarithm.
_LOG_REACH, _LOG_REACH_SD = float(np.log(3.0)), 2.0
_LIMITS = [  # of log tau and log reach
    (float(np.log(SMALLEST_MISFIT)), float(np.log(1e3))),
    (_LOG_REACH - 3.0 * _LOG_REACH_SD, _LOG_REACH + 3.0 * _LOG_REACH_SD),
]


@dataclass(frozen=True)
class SharedError:
    """Misfit of the runs of a group, with its correlation between targets.

    Attributes
    ----------
    crossing : ndarray, shape (R, T, T)
        Covariance of log steps from the crossings.
    distance : ndarray, shape (T, T)
        Between targets, in units of their range; log tokens.
    reached : ndarray of bool, shape (R, T)
    one_sided : ndarray of bool, shape (R, T)
        Of the targets that a run did not reach, the first: that it did not reach the others either is no news.
    log_tau, log_reach : float
        tau in log steps, the reach in units of the range of the targets.
    """

    crossing: FloatArray
    distance: FloatArray
    reached: BoolArray
    one_sided: BoolArray
    log_tau: float
    log_reach: float

    @classmethod
    def of(cls, data: Observations, losses: FloatArray, first_misfit: float) -> "SharedError":
        """Return the error model of ``data`` before anything is known of its residuals."""
        targets = len(losses)
        place = np.array([data.mean_log_tokens(t).min() for t in range(targets)])
        spread = max(float(np.ptp(place)), 1e-12)
        falling = np.argsort(-losses, kind="stable")
        ended = (data.present & data.censored)[:, falling]
        first = np.zeros_like(ended)
        first[:, falling] = ended & (np.cumsum(ended, axis=1) == 1)
        own = np.eye(targets) * np.diagonal(data.covariance, axis1=1, axis2=2)[:, None, :]
        return cls(
            crossing=(1.0 - _INDEPENDENT_CROSSING) * data.covariance + _INDEPENDENT_CROSSING * own,
            distance=np.abs(place[:, None] - place) / spread,
            reached=data.reached,
            one_sided=first,
            log_tau=float(np.log(first_misfit)),
            log_reach=_LOG_REACH,
        )

    @property
    def tau(self) -> float:
        """Standard deviation of the misfit, log steps."""
        return float(np.exp(self.log_tau))

    def covariance(self) -> FloatArray:
        """Return V, shape (R, T, T)."""
        shared = np.exp(-self.distance * np.exp(-self.log_reach))
        correlation = (1.0 - _INDEPENDENT) * shared + _INDEPENDENT * np.eye(len(shared))
        return self.crossing + self.tau**2 * correlation

    def whitening(self) -> tuple[FloatArray, float]:
        """Return matrices (R, T, T) that make the errors of runs independent, and their log determinant.

        Rows and columns are zero where there is no observation. The row of a one-sided observation is conditional on
        the targets that the run did reach. The determinant is that of the reached targets.
        """
        covariance = self.covariance()
        # reached targets first, then the one-sided one, then what is no observation at all
        kind = np.where(self.reached, 0, np.where(self.one_sided, 1, 2))
        order = np.argsort(kind, axis=1, kind="stable")
        run = np.arange(len(order))[:, None]
        known = np.take_along_axis(kind, order, axis=1) < 2
        block = covariance[run[..., None], order[:, :, None], order[:, None, :]]
        block = np.where(known[:, :, None] & known[:, None, :], block, np.eye(block.shape[1]))
        root = np.linalg.cholesky(block)
        inverse = np.linalg.inv(root) * (known[:, :, None] & known[:, None, :])
        matrices = np.zeros_like(inverse)
        matrices[run[..., None], order[:, :, None], order[:, None, :]] = inverse
        sizes = np.diagonal(matrices, axis1=1, axis2=2)
        return matrices, float(np.sum(np.log(sizes[self.reached])))

    def fitted(self, residual: FloatArray, jacobian: FloatArray, precision: FloatArray) -> "SharedError":
        """Return the model with the tau and reach that the residuals of a fit are likeliest with.

        Parameters
        ----------
        residual : ndarray, shape (R, T)
            Log steps of the law less those observed; zero where the target was not reached.
        jacobian : ndarray, shape (R, T, p)
            Its derivatives by the parameters of the law.
        precision : ndarray, shape (p,)
            Of the prior on those.
        """
        size = max(float(np.sqrt(np.mean(residual[self.reached] ** 2))), SMALLEST_MISFIT)
        found = minimize(
            lambda values: self._at(values)._cost(residual, jacobian, precision),
            np.clip([np.log(size), self.log_reach], *np.transpose(_LIMITS)),
            method="Nelder-Mead",
            bounds=_LIMITS,
            options={"xatol": 1e-8, "fatol": 1e-11, "maxfev": 600},
        )
        return self._at(found.x)

    def draw(self, rng: np.random.Generator, count: int) -> FloatArray:
        """Draw errors of log steps, shape (count, R, T)."""
        root = np.linalg.cholesky(self.covariance())
        return np.einsum("rij,crj->cri", root, rng.standard_normal((count, *self.reached.shape)))

    def _at(self, values: FloatArray) -> "SharedError":
        return replace(self, log_tau=float(values[0]), log_reach=float(values[1]))

    def _cost(self, residual: FloatArray, jacobian: FloatArray, precision: FloatArray) -> float:
        """Return minus the restricted log likelihood, less the log prior of the reach."""
        matrices, log_determinant = self.whitening()
        matrices = matrices * self.reached[:, :, None]
        z = matrices @ residual[..., None]
        a = matrices @ jacobian
        normal = np.einsum("rtp,rtq->pq", a, a) + np.diag(precision)
        prior = ((self.log_reach - _LOG_REACH) / _LOG_REACH_SD) ** 2
        return 0.5 * float(np.sum(z * z) + np.linalg.slogdet(normal)[1] + prior) - log_determinant
