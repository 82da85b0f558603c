"""Levenberg-Marquardt on thousands of small problems at once.

Every step is array code over the problems that have not converged yet, with analytic Jacobians; a bootstrap of
one target is a single call. lmfit is the reference: `tests/test_batched.py` holds the two to the same objective.
"""

from dataclasses import dataclass

import numpy as np

from ebfit.fitting.problem import BoolArray, Problems
from ebfit.laws import FloatArray

_MAX_ITERATIONS = 200
_SMALLEST_GAIN = 1e-13  # relative decrease of the sum of squares below which a problem counts as converged
_LONGEST_STEP = 3.0  # in free parameters (logs and logits), to stay where the quadratic model means something
_STEEPEST = 1e100  # derivatives beyond this, or NaN, lead nowhere
_CHUNK_POINTS = 60_000  # problems x points worked on together: fits the cache


@dataclass(frozen=True)
class Solutions:
    """Minima found for K problems: free parameters (K, p), sums of squares (K,) and convergence (K,)."""

    free: FloatArray
    cost: FloatArray
    converged: BoolArray


def solve(problems: Problems, start: FloatArray, max_iterations: int = _MAX_ITERATIONS) -> Solutions:
    """Minimise the sum of squared residuals of every problem.

    Parameters
    ----------
    problems : Problems
        K problems.
    start : ndarray, shape (K, p)
        Free parameters to start from; a start of infinite cost stays where it is, not converged.
    max_iterations : int
        Steps tried per problem at most.

    Returns
    -------
    Solutions
    """
    size = max(1, _CHUNK_POINTS // max(1, problems.log_batch.shape[1]))
    parts = [
        _solve_chunk(problems.take(slice(i, i + size)), start[i : i + size], max_iterations)
        for i in range(0, len(problems), size)
    ]
    return Solutions(
        free=np.concatenate([part.free for part in parts]),
        cost=np.concatenate([part.cost for part in parts]),
        converged=np.concatenate([part.converged for part in parts]),
    )


def _solve_chunk(problems: Problems, start: FloatArray, max_iterations: int) -> Solutions:
    free = np.array(start, dtype=float)
    residuals, jacobian = problems.residuals_and_jacobian(free)
    cost = np.sum(residuals**2, axis=-1)
    converged = np.zeros(len(free), dtype=bool)
    p = free.shape[1]

    # working copies of the problems still running
    index = np.flatnonzero(np.isfinite(cost) & _usable(jacobian))
    work = problems.take(index)
    x, c, r, jac = free[index], cost[index], residuals[index], jacobian[index]
    damping = np.full(len(index), 1e-3)
    quiet = np.zeros(len(index), dtype=int)
    for _ in range(max_iterations):
        if len(index) == 0:
            break
        normal = jac.swapaxes(-1, -2) @ jac
        gradient = (jac.swapaxes(-1, -2) @ r[..., None])[..., 0]
        diagonal = np.einsum("kii->ki", normal)
        # Marquardt's scaling; a direction the data do not see is held by a share of the largest
        scale = np.maximum(diagonal, 1e-10 * diagonal.max(axis=1, keepdims=True)) + 1e-300
        damped = normal + (damping[:, None] * scale)[:, :, None] * np.eye(p)
        step = -np.linalg.solve(damped, gradient[..., None])[..., 0]
        longest = np.abs(step).max(axis=1, keepdims=True)
        step = step * np.minimum(1.0, _LONGEST_STEP / np.maximum(longest, 1e-300))
        trial = x + step
        trial_r, trial_jac = work.residuals_and_jacobian(trial)
        with np.errstate(over="ignore", invalid="ignore"):
            trial_c = np.sum(trial_r**2, axis=-1)
        better = np.isfinite(trial_c) & (trial_c < c) & _usable(trial_jac)
        gain = np.where(better, c - trial_c, 0.0)
        small = (gain <= _SMALLEST_GAIN * c) | (np.abs(step).max(axis=1) < 1e-13)
        # a rejected step counts as quiet only when the damped step has become short
        quiet = np.where(small & (better | (np.abs(step).max(axis=1) < 1e-8)), quiet + 1, 0)
        x = np.where(better[:, None], trial, x)
        c = np.where(better, trial_c, c)
        r = np.where(better[:, None], trial_r, r)
        jac = np.where(better[:, None, None], trial_jac, jac)
        damping = np.clip(np.where(better, damping / 5.0, damping * 4.0), 1e-12, 1e12)
        done = (quiet >= 2) | (c <= 1e-28)
        if done.any():
            finished = index[done]
            free[finished], cost[finished], converged[finished] = x[done], c[done], True
            keep = ~done
            index, work = index[keep], work.take(np.flatnonzero(keep))
            x, c, r, jac = x[keep], c[keep], r[keep], jac[keep]
            damping, quiet = damping[keep], quiet[keep]
    free[index], cost[index] = x, c
    return Solutions(free, cost, converged)


def _usable(jacobian: FloatArray) -> BoolArray:
    """Whether the normal equations of each problem can be formed without overflow, shape (K,)."""
    with np.errstate(invalid="ignore"):
        return np.abs(jacobian).max(axis=(1, 2)) < _STEEPEST
