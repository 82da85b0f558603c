"""Levenberg-Marquardt on thousands of small problems at once.

Every step is array code over the problems that have not converged yet, with analytic Jacobians; a bootstrap of
one target is a single call. lmfit is the reference: `tests/test_batched.py` holds the two to the same objective.
"""

from dataclasses import dataclass
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray

from ebfit.laws import FloatArray

BoolArray = NDArray[np.bool_]

_MAX_ITERATIONS = 200
SMALLEST_GAIN = 1e-13
# Of a bootstrap: replicates that are off by a thousandth of their own spread are as good.
SMALLEST_GAIN_OF_REPLICATES = 1e-6
_LONGEST_STEP = 3.0  # in free parameters (logs and logits), to stay where the quadratic model means something
_CHUNK_POINTS = 60_000  # problems x points worked on together: fits the cache


class Linearised(Protocol):
    """K least-squares problems at one place each: their costs, and the steps that a quadratic model proposes."""

    @property
    def cost(self) -> FloatArray:
        """Sums of squared residuals, shape (K,)."""
        ...

    @property
    def usable(self) -> BoolArray:
        """Whether the normal equations can be formed without overflow, shape (K,)."""
        ...

    def step(self, damping: FloatArray, /) -> FloatArray:
        """Return the damped Gauss-Newton steps, shape (K, p)."""
        ...

    def take(self, index: NDArray[np.intp], /) -> Self:
        """Return some of the problems."""
        ...

    def where(self, better: BoolArray, other: Self, /) -> Self:
        """Return ``other`` for the problems that are ``better`` there, and these for the rest."""
        ...


class System(Protocol):
    """K least-squares problems in p unknowns each."""

    def __len__(self) -> int: ...

    @property
    def points(self) -> int:
        """Residuals of one problem, about."""
        ...

    def take(self, index: NDArray[np.intp] | slice, /) -> Self:
        """Return some of the problems."""
        ...

    def linearise(self, unknowns: FloatArray, /) -> Linearised:
        """Return the problems at unknowns of shape (K, p)."""
        ...


@dataclass(frozen=True)
class Solutions:
    """Minima found for K problems: unknowns (K, p), sums of squares (K,) and convergence (K,)."""

    free: FloatArray
    cost: FloatArray
    converged: BoolArray


def solve(system: System, start: FloatArray, smallest_gain: float = SMALLEST_GAIN) -> Solutions:
    """Minimise the sum of squared residuals of every problem.

    Parameters
    ----------
    system : System
        K problems.
    start : ndarray, shape (K, p)
        Unknowns to start from; a start of infinite cost stays where it is, not converged.
    smallest_gain : float
        Relative decrease of the sum of squares below which, twice in a row, a problem counts as converged.

    Returns
    -------
    Solutions
    """
    size = max(1, _CHUNK_POINTS // max(1, system.points))
    parts = [
        _solve_chunk(system.take(slice(i, i + size)), start[i : i + size], smallest_gain)
        for i in range(0, len(system), size)
    ]
    return Solutions(
        free=np.concatenate([part.free for part in parts]),
        cost=np.concatenate([part.cost for part in parts]),
        converged=np.concatenate([part.converged for part in parts]),
    )


def solve_from_each(system: System, starts: FloatArray, smallest_gain: float = SMALLEST_GAIN) -> Solutions:
    """Minimise as `solve` does, every problem from each of several starts, and keep the best.

    Parameters
    ----------
    system : System
        K problems.
    starts : ndarray, shape (k, p)
        The same for all problems, such as the local minima of the problem that they are variations of.
    smallest_gain : float
        As `solve` takes it.
    """
    count = np.arange(len(system))
    found = [solve(system, np.tile(start, (len(system), 1)), smallest_gain) for start in starts]
    best = np.argmin([solutions.cost for solutions in found], axis=0)
    return Solutions(
        free=np.array([solutions.free for solutions in found])[best, count],
        cost=np.array([solutions.cost for solutions in found])[best, count],
        converged=np.array([solutions.converged for solutions in found])[best, count],
    )


def _solve_chunk(system: System, start: FloatArray, smallest_gain: float) -> Solutions:
    free = np.array(start, dtype=float)
    here = system.linearise(free)
    cost = np.array(here.cost)
    converged = np.zeros(len(free), dtype=bool)

    # working copies of the problems still running
    index = np.flatnonzero(np.isfinite(cost) & here.usable)
    work, here, x = system.take(index), here.take(index), free[index]
    damping = np.full(len(index), 1e-3)
    quiet = np.zeros(len(index), dtype=int)
    for _ in range(_MAX_ITERATIONS):
        if len(index) == 0:
            break
        step = here.step(damping)
        longest = np.abs(step).max(axis=1)
        shortened = np.minimum(1.0, _LONGEST_STEP / np.maximum(longest, 1e-300))
        step, longest = step * shortened[:, None], longest * shortened
        trial = x + step
        there = work.linearise(trial)
        better = np.isfinite(there.cost) & (there.cost < here.cost) & there.usable
        gain = np.where(better, here.cost - there.cost, 0.0)
        small = (gain <= smallest_gain * here.cost) | (longest < 1e-13)
        # a rejected step counts as quiet only when the damped step has become short
        quiet = np.where(small & (better | (longest < 1e-8)), quiet + 1, 0)
        x = np.where(better[:, None], trial, x)
        here = here.where(better, there)
        damping = np.clip(np.where(better, damping / 5.0, damping * 4.0), 1e-12, 1e12)
        done = (quiet >= 2) | (here.cost <= 1e-28)
        if done.any():
            finished = index[done]
            free[finished], cost[finished], converged[finished] = x[done], here.cost[done], True
            kept = np.flatnonzero(~done)
            index, work, here, x = index[kept], work.take(kept), here.take(kept), x[kept]
            damping, quiet = damping[kept], quiet[kept]
    free[index], cost[index] = x, here.cost
    return Solutions(free, cost, converged)


def marquardt(normal: FloatArray, damping: FloatArray) -> FloatArray:
    """Return normal matrices (..., p, p) with Marquardt's damping (...) on their diagonals.

    A direction that the data do not see is held by a share of the largest diagonal element.
    """
    diagonal = np.einsum("...ii->...i", normal)
    scale = np.maximum(diagonal, 1e-10 * diagonal.max(axis=-1, keepdims=True)) + 1e-300
    return np.asarray(normal + (damping[..., None] * scale)[..., None] * np.eye(normal.shape[-1]))
