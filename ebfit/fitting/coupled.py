"""Targets that share a shape: one least-squares problem over all targets of a sweep, thousands of them side by side.

In log-log axes the curves of different targets are nearly translations of each other (DESIGN 3.2; exact for the
three-term surface). So each target keeps its two scales, and its shape is

    shape_t = mu + omega * sd * delta_t,     delta_t ~ N(0, 1),     mu ~ N(centre, sd^2),

with one mu for all targets and the sd of the law's shape prior. omega = 0 is one shape for all (``shared``); a small
omega pools the shapes as far as the data want it. The unknowns are the scales and delta of every target, then mu:
the normal equations are an arrow, and solving them target by target costs no more than separate fits do.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ebfit.fitting.batched import BoolArray, marquardt
from ebfit.fitting.problem import Problems, usable
from ebfit.laws import FloatArray

SCALES = 2  # free parameters of a law that carry units; the others are its shape


@dataclass(frozen=True)
class CoupledProblems:
    """K fits of one law to T targets each.

    Attributes
    ----------
    problems : Problems
        K T problems, the T targets of a fit beside each other; their own priors do not count.
    targets : int
        T.
    omega : ndarray, shape (K,)
        How far shapes of targets differ, in standard deviations of the shape prior.
    mu_centre : ndarray, shape (K, s)
        Where the prior of mu sits.
    delta_centre : ndarray, shape (K, T, s)
        Where that of delta sits: zero, but in a bootstrap.
    """

    problems: Problems
    targets: int
    omega: FloatArray
    mu_centre: FloatArray
    delta_centre: FloatArray

    def __len__(self) -> int:
        return len(self.omega)

    @property
    def points(self) -> int:
        """Residuals of one problem, about."""
        return self.targets * self.problems.points

    @property
    def prior_sd(self) -> FloatArray:
        """Standard deviation of the shape prior, shape (s,)."""
        return self.problems.law.prior.sd[SCALES:]

    def take(self, index: NDArray[np.intp] | slice) -> "CoupledProblems":
        """Return some of the fits."""
        rows = np.arange(len(self.problems)).reshape(-1, self.targets)[index].ravel()
        return replace(
            self,
            problems=self.problems.take(rows),
            omega=self.omega[index],
            mu_centre=self.mu_centre[index],
            delta_centre=self.delta_centre[index],
        )

    def split(self, unknowns: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return scales (K, T, 2), delta (K, T, s) and mu (K, s)."""
        shape = len(self.prior_sd)
        own = unknowns[:, : self.targets * (SCALES + shape)].reshape(len(unknowns), self.targets, -1)
        return own[..., :SCALES], own[..., SCALES:], unknowns[:, -shape:]

    def join(self, scales: FloatArray, delta: FloatArray, mu: FloatArray) -> FloatArray:
        """Return unknowns (K, T (2 + s) + s)."""
        own = np.concatenate([scales, delta], axis=-1).reshape(len(mu), -1)
        return np.concatenate([own, mu], axis=-1)

    def free(self, unknowns: FloatArray) -> FloatArray:
        """Return the law's free parameters of every target, shape (K, T, p)."""
        scales, delta, mu = self.split(unknowns)
        shape = mu[:, None] + self.omega[:, None, None] * self.prior_sd * delta
        return np.concatenate([scales, shape], axis=-1)

    def linearise(self, unknowns: FloatArray) -> "Arrow":
        """Return the fits at unknowns of shape (K, T (2 + s) + s)."""
        count, n = len(unknowns), self.problems.points
        free = self.free(unknowns).reshape(count * self.targets, -1)
        residuals, jacobian = self.problems.residuals_and_jacobian(free)
        r = residuals[:, :n].reshape(count, self.targets, n)
        by_free = jacobian[:, :n].reshape(count, self.targets, n, -1)
        _, delta, mu = self.split(unknowns)
        stretch = np.concatenate([np.ones((count, SCALES)), self.omega[:, None] * self.prior_sd], axis=-1)
        off = delta - self.delta_centre
        off_mu = (mu - self.mu_centre) / self.prior_sd
        with np.errstate(over="ignore", invalid="ignore"):
            cost = np.sum(r**2, axis=(1, 2)) + np.sum(off**2, axis=(1, 2)) + np.sum(off_mu**2, axis=1)
            # The derivatives by own parameters and by mu are those by free parameters, stretched: one product does.
            transposed = by_free.swapaxes(-1, -2)
            normal = transposed @ by_free
            gradient = (transposed @ r[..., None])[..., 0]
            arm = stretch[:, None, :, None] * normal[..., SCALES:]
            own = stretch[:, None, :, None] * normal * stretch[:, None, None, :]
            own_gradient = stretch[:, None] * gradient
            own_gradient[..., SCALES:] += off
            held = np.arange(SCALES, own.shape[-1])
            own[..., held, held] += 1.0
            mu_normal = normal[..., SCALES:, SCALES:].sum(axis=1) + np.diag(1.0 / self.prior_sd**2)
            mu_gradient = gradient[..., SCALES:].sum(axis=1) + off_mu / self.prior_sd
        return Arrow(own, arm, mu_normal, own_gradient, mu_gradient, cost, usable(by_free))


@dataclass(frozen=True)
class Arrow:
    """Normal equations of K coupled fits.

    Attributes
    ----------
    own : ndarray, shape (K, T, 2 + s, 2 + s)
        Blocks of the targets.
    arm : ndarray, shape (K, T, 2 + s, s)
        What joins them to mu.
    mu : ndarray, shape (K, s, s)
    own_gradient, mu_gradient : ndarray, shapes (K, T, 2 + s) and (K, s)
    cost, usable : ndarray, shape (K,)
    """

    own: FloatArray
    arm: FloatArray
    mu: FloatArray
    own_gradient: FloatArray
    mu_gradient: FloatArray
    cost: FloatArray
    usable: BoolArray

    def step(self, damping: FloatArray) -> FloatArray:
        """Return the damped Gauss-Newton steps, shape (K, T (2 + s) + s)."""
        own = marquardt(self.own, np.broadcast_to(damping[:, None], self.own.shape[:2]))
        mu = marquardt(self.mu, damping)
        solved = np.linalg.solve(own, np.concatenate([self.arm, self.own_gradient[..., None]], axis=-1))
        through, gradient = solved[..., :-1], solved[..., -1]
        turned = self.arm.swapaxes(-1, -2)
        rest = mu - (turned @ through).sum(axis=1)
        pull = self.mu_gradient - (turned @ gradient[..., None]).sum(axis=1)[..., 0]
        mu_step = -np.linalg.solve(rest, pull[..., None])[..., 0]
        own_step = -gradient - (through @ mu_step[:, None, :, None])[..., 0]
        return np.concatenate([own_step.reshape(len(mu_step), -1), mu_step], axis=-1)

    def take(self, index: NDArray[np.intp]) -> "Arrow":
        """Return some of the fits."""
        return Arrow(*(getattr(self, name)[index] for name in self.__dataclass_fields__))

    def where(self, better: BoolArray, other: "Arrow") -> "Arrow":
        """Return the other for the fits that are better there."""

        def choose(mine: FloatArray, its: FloatArray) -> FloatArray:
            return np.where(better.reshape(-1, *[1] * (mine.ndim - 1)), its, mine)

        return Arrow(
            own=choose(self.own, other.own),
            arm=choose(self.arm, other.arm),
            mu=choose(self.mu, other.mu),
            own_gradient=choose(self.own_gradient, other.own_gradient),
            mu_gradient=choose(self.mu_gradient, other.mu_gradient),
            cost=choose(self.cost, other.cost),
            usable=self.usable | better,
        )
