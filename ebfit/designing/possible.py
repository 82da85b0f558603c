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
    shares = [*_shares(first, count - from_second), *_shares(second, from_second)]
    return [_draw(data, fitted, which, share, seed) for fitted, which, share in shares if share]


def _shares(fitted: Fitted, count: int) -> list[tuple[Fitted, int, int]]:
    """Divide a count over the joint fits by their weight: the fit, which of its joint fits, how many."""
    weights = [weight for _, weight in fitted.coupled] or [1.0]
    ends = np.round(count * np.cumsum(weights)).astype(int)
    return [(fitted, which, int(share)) for which, share in enumerate(np.diff(ends, prepend=0))]


def _draw(data: Observations, fitted: Fitted, which: int, count: int, seed: int) -> Possible:
    if fitted.coupled:
        fit = fitted.coupled[which][0]
        point, omega = fit.point, float(fit.problems.omega[0])
        free = bootstrap_coupled(data, fit, count, seed)
    else:
        point, omega = fitted.own, np.inf
        free = bootstrap(data, point, count, seed)
    return Possible(point.problems.law, free.swapaxes(0, 1), omega, point.misfit_sd, point.degrees_of_freedom)
