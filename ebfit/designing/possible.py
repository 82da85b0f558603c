"""The laws that a fit leaves possible: replicates of the revised law, and of its second opinion by its weight.

A design that is best for the point estimate alone is made for one law out of many that the data allow; the average
over these is what can be expected.
"""

from dataclasses import dataclass

import numpy as np

from ebfit.fitting.bootstrap import bootstrap
from ebfit.fitting.coupled_bootstrap import bootstrap_coupled
from ebfit.fitting.coupling import Coupling, Fitted, fit_law
from ebfit.fitting.observations import Observations
from ebfit.fitting.point import PointFit
from ebfit.fitting.second_opinion import weight_of_second
from ebfit.laws import LAWS, SECOND_OPINIONS, FloatArray, Law

NUMBERS = ("b_opt", "b_min")
_STRIDE = 1e-5  # of numeric derivatives by free parameters, which are logs and logits


@dataclass(frozen=True)
class Possible:
    """K laws of one kind over T targets.

    Attributes
    ----------
    law : Law
    free : ndarray, shape (K, T, p)
    omega : float
        How far shapes of targets differ, in standard deviations of the shape prior; infinite where each has its own.
    misfit_sd : ndarray, shape (T,)
        Of the points about the law, log steps.
    degrees_of_freedom : ndarray, shape (T,)
        With which that is known.
    """

    law: Law
    free: FloatArray
    omega: float
    misfit_sd: FloatArray
    degrees_of_freedom: FloatArray

    def log_steps(self, log_batch: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return log S, shape (K, T, n), at log batch sizes (n,), and its derivatives (K, T, n, p)."""
        return self.law.log_steps_jacobian(self.free, log_batch)

    def log_numbers(self) -> tuple[FloatArray, FloatArray]:
        """Return the logs of `NUMBERS`, shape (K, T, 2), and their derivatives (K, T, 2, p)."""
        stride = _STRIDE * np.eye(self.free.shape[-1])
        around = self.free[..., None, :] + np.concatenate([stride, -stride])
        p = self.free.shape[-1]
        here, there = self.law.log_numbers(self.free), self.law.log_numbers(around)
        value = np.stack([here[name] for name in NUMBERS], axis=-1)
        slopes = [(there[name][..., :p] - there[name][..., p:]) / (2.0 * _STRIDE) for name in NUMBERS]
        return value, np.stack(slopes, axis=-2)


def possible_laws(data: Observations, coupling: Coupling, count: int, seed: int) -> list[Possible]:
    """Draw laws that the data leave possible.

    Parameters
    ----------
    data : Observations
        With the seeds of a batch size merged, as the law is fitted.
    coupling : {"none", "pooled", "shared"}
        Of the shapes of targets.
    count : int
        Laws in all.
    seed : int
        The same seed draws the same laws.

    Returns
    -------
    list of Possible
        One per law and strength of the coupling that has a share in the count.
    """
    first = fit_law(LAWS["revised"], data, coupling)
    second = fit_law(SECOND_OPINIONS["revised"], data, coupling)
    from_second = round(count * weight_of_second(first.point, second.point))
    return [*_drawn(data, first, count - from_second, seed), *_drawn(data, second, from_second, seed)]


def _drawn(data: Observations, fitted: Fitted, count: int, seed: int) -> list[Possible]:
    if fitted.coupled:
        return [
            _possible(fit.point, bootstrap_coupled(data, fit, share, seed), float(fit.problems.omega[0]))
            for fit, share in fitted.shares(count)
        ]
    return [_possible(fitted.own, bootstrap(data, fitted.own, count, seed), np.inf)] if count else []


def _possible(point: PointFit, free: FloatArray, omega: float) -> Possible:
    return Possible(point.problems.law, free.swapaxes(0, 1), omega, point.misfit_sd, point.degrees_of_freedom)
