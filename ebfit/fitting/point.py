"""The point estimate: lmfit from the best of many starts, and how badly the law fits.

The variance of a point is se^2 + tau^2: the error of its crossing, which is known, and the misfit tau of law,
seed and everything else, which is estimated so that the squared standardised residuals sum to their degrees of
freedom (the method of Paule and Mandel, 1982). The degrees of freedom count what the shape prior left to the data.
"""

from dataclasses import dataclass

import lmfit
import numpy as np
from scipy.optimize import brentq

from ebfit.fitting.batched import solve
from ebfit.fitting.observations import Observations
from ebfit.fitting.problem import Problems
from ebfit.laws import FloatArray, Law

_FIRST_MISFIT = 0.02  # log steps; where the iteration for tau starts
_SMALLEST_MISFIT = 1e-9  # so that noise-free data are solved to rounding and not divided by zero
_HARDLY_NOISE = 1e-3  # log steps; a misfit below it says that the data are exact
_MISFIT_ROUNDS = 20
_NEIGHBOURS = 24  # starts about the best so far
_NEIGHBOUR_SCALES = (0.1, 0.3, 1.0)  # free parameters (logs, logits)
_MOST_MINIMA = 3
_RIVAL_COST = 12.0  # sum of squares by which a local minimum may be worse and still win in some replicate
_DISTINCT = 0.3  # free parameters (logs, logits) by which minima differ that are not one
_POOLING_STRENGTH = 4.0  # the misfit pooled over targets counts like this many degrees of freedom of each


@dataclass(frozen=True)
class PointFit:
    """The fits of one law to T targets.

    Attributes
    ----------
    problems : Problems
        The T problems as they stand at the solution.
    free : ndarray, shape (T, p)
    minima : list of ndarray, shape (k, p)
        Per target, the distinct local minima that are nearly as good, the best first.
    misfit_sd : ndarray, shape (T,)
        tau, in log steps.
    degrees_of_freedom : ndarray, shape (T,)
        With which the misfit is known, pooling included.
    effective_parameters : ndarray, shape (T,)
        How many parameters the data determine; what the shape prior holds does not count.
    rms_log_residual : ndarray, shape (T,)
        Root mean square of log S(B) - log S over the points that reached the target.
    """

    problems: Problems
    free: FloatArray
    minima: list[FloatArray]
    misfit_sd: FloatArray
    degrees_of_freedom: FloatArray
    effective_parameters: FloatArray
    rms_log_residual: FloatArray


def fit_points(law: Law, data: Observations) -> PointFit:
    """Fit a law to every target of ``data``.

    Parameters
    ----------
    law : Law
    data : Observations
        Every target has at least one run that reached it.

    Returns
    -------
    PointFit
        It does not depend on the order of runs, and scaling batch sizes or steps scales it.
    """
    targets = data.log_steps.shape[1]
    starts = [
        law.starts(data.log_batch[data.reached[:, t]], data.log_steps[data.reached[:, t], t])
        for t in range(targets)
    ]
    misfit = np.full(targets, _FIRST_MISFIT)
    free = np.array([start[0] for start in starts])
    for turn in range(_MISFIT_ROUNDS):
        problems = problems_of(law, data, misfit)
        # All starts anew in every round: as the misfit shrinks, other corners of the shape become the best.
        tries = [np.concatenate([around(free[t], turn), starts[t]]) for t in range(targets)]
        owner = np.repeat(np.arange(targets), [len(part) for part in tries])
        found = solve(problems.take(owner), np.concatenate(tries))
        free = np.array([found.free[owner == t][np.argmin(found.cost[owner == t])] for t in range(targets)])
        used = _effective_parameters(problems, free)
        before, (misfit, degrees) = misfit, misfit_of(problems, data.log_steps_se.T, free, used)
        # A misfit this small is hardly noise: the data are exact, and a better corner may still be found.
        exact = (misfit < _HARDLY_NOISE) & (misfit > _SMALLEST_MISFIT)
        if np.all((np.abs(np.log(misfit / before)) < 0.02) & ~exact):
            break
    problems = problems_of(law, data, misfit)
    free = np.array([polish(problems.take(slice(t, t + 1)), free[t]) for t in range(targets)])
    minima = [
        distinct_minima(free[t], found.free[owner == t], found.cost[owner == t]) for t in range(targets)
    ]
    return PointFit(problems, free, minima, misfit, degrees, used, rms_log_residual(problems, free))


def polish(
    problem: Problems, start: FloatArray, fixed: dict[int, float] | None = None, tolerance: float = 1e-15
) -> FloatArray:
    """Minimise one problem with lmfit.

    Parameters
    ----------
    problem : Problems
        A single problem.
    start : ndarray, shape (p,)
    fixed : dict, optional
        Index of a free parameter -> the value it is held at, for profiles.
    tolerance : float
        Relative change of the sum of squares at which it counts as found.

    Returns
    -------
    ndarray, shape (p,)
        The minimum, or the start if lmfit found nothing lower.
    """
    held = fixed or {}
    parameters = lmfit.Parameters()
    for i, key in enumerate(problem.law.free_names):
        parameters.add(key, value=held.get(i, float(start[i])), vary=i not in held)
    moving = [i for i in range(len(start)) if i not in held]

    def free_of(values: lmfit.Parameters) -> FloatArray:
        return np.array([[values[key].value for key in problem.law.free_names]])

    def residuals(values: lmfit.Parameters) -> FloatArray:
        # an infinite residual is a batch size that can never get there
        return _tame(problem.residuals(free_of(values))[0])

    def jacobian(values: lmfit.Parameters) -> FloatArray:
        return _tame(problem.residuals_and_jacobian(free_of(values))[1][0][:, moving])

    with np.errstate(all="ignore"):
        result = lmfit.minimize(
            residuals,
            parameters,
            Dfun=jacobian,
            calc_covar=False,
            ftol=tolerance,
            xtol=tolerance,
            gtol=0.0,
            max_nfev=4000,
        )
    free = free_of(result.params)[0]
    held_start = np.array(start, dtype=float)
    for i, value in held.items():
        held_start[i] = value
    return free if cost(problem, free) <= cost(problem, held_start) else held_start


def _tame(values: FloatArray) -> FloatArray:
    """Return numbers that lmfit can add up and square, steeply worse where they were not finite."""
    return np.clip(np.nan_to_num(values, nan=1e100), -1e100, 1e100)


def cost(problem: Problems, free: FloatArray) -> float:
    """Return the sum of squared residuals of a single problem."""
    return float(np.sum(problem.residuals(free[None])[0] ** 2))


def problems_of(law: Law, data: Observations, misfit: FloatArray) -> Problems:
    """Return the problem of every target, given the misfit tau of each, shape (T,)."""
    present = data.present.T
    sd = np.sqrt(data.log_steps_se.T**2 + misfit[:, None] ** 2)
    return Problems(
        law=law,
        log_batch=np.broadcast_to(data.log_batch, present.shape),
        log_steps=np.where(present, data.log_steps.T, 0.0),
        sd=np.where(present, sd, 1.0),
        censored=data.censored.T,
        present=present,
        prior_centre=np.broadcast_to(law.prior.centre, (len(present), len(law.prior.centre))),
    )


def log_evidence(point: PointFit) -> FloatArray:
    """Return how well a law explains each target, shape (T,): log likelihood less half the BIC penalty.

    Only differences between laws fitted to the same data mean anything.
    """
    problems = point.problems
    reached = problems.present & ~problems.censored
    residuals = problems.residuals(point.free)[:, : reached.shape[1]]
    log_likelihood = -0.5 * np.sum(residuals**2, axis=1) - np.sum(np.log(problems.sd), axis=1, where=reached)
    return log_likelihood - 0.5 * point.effective_parameters * np.log(reached.sum(axis=1))


def around(free: FloatArray, turn: int) -> FloatArray:
    """Return a solution and starts scattered about it: its piecewise neighbours may hold a better one."""
    noise = np.random.default_rng(turn).standard_normal((_NEIGHBOURS, len(free)))
    scale = np.resize(_NEIGHBOUR_SCALES, _NEIGHBOURS)[:, None]
    return np.concatenate([free[None], free + scale * noise])


def distinct_minima(best: FloatArray, free: FloatArray, costs: FloatArray) -> FloatArray:
    """Return the best and other minima that noise could make the best, shape (k, p)."""
    kept = [best]
    for i in np.argsort(costs, kind="stable"):
        if len(kept) == _MOST_MINIMA or costs[i] > costs.min() + _RIVAL_COST:
            break
        if all(np.abs(free[i] - other).max() > _DISTINCT for other in kept):
            kept.append(free[i])
    return np.array(kept)


def rms_log_residual(problems: Problems, free: FloatArray) -> FloatArray:
    """Return the root mean square of log S(B) - log S over the points that reached the target, shape (T,)."""
    reached = problems.present & ~problems.censored
    return np.asarray(np.sqrt(np.mean(_raw_residuals(problems, free) ** 2, axis=1, where=reached)))


def _raw_residuals(problems: Problems, free: FloatArray) -> FloatArray:
    return problems.law.log_steps(free, problems.log_batch) - problems.log_steps


def _effective_parameters(problems: Problems, free: FloatArray) -> FloatArray:
    """Return the trace of the hat matrix over the points that reached the target, shape (T,)."""
    jacobian = problems.residuals_and_jacobian(free)[1]
    normal = jacobian.swapaxes(-1, -2) @ jacobian
    reached = problems.present & ~problems.censored
    points = np.where(reached[..., None], jacobian[:, : reached.shape[1]], 0.0)
    return np.einsum("tij,tjk,tik->t", points, np.linalg.pinv(normal, hermitian=True), points)


def misfit_of(
    problems: Problems, se: FloatArray, free: FloatArray, used: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return tau and its degrees of freedom per target, shapes (T,); ``se`` is that of the crossings."""
    reached = problems.present & ~problems.censored
    degrees = np.maximum(reached.sum(axis=1) - used, 1.0)
    squares = np.where(reached, _raw_residuals(problems, free) ** 2, 0.0)
    crossing = np.where(reached, se**2, 0.0)
    if len(free) == 1:
        return np.array([_paule_mandel(squares[0], crossing[0], float(degrees[0]))]), degrees
    pooled = _paule_mandel(squares.ravel(), crossing.ravel(), float(degrees.sum()))
    # The pooled misfit joins each target as one more residual of weight `_POOLING_STRENGTH`.
    typical = crossing.sum(axis=1) / reached.sum(axis=1)
    misfit = [
        _paule_mandel(
            np.append(squares[t], _POOLING_STRENGTH * (pooled**2 + typical[t])),
            np.append(crossing[t], typical[t]),
            float(degrees[t] + _POOLING_STRENGTH),
        )
        for t in range(len(free))
    ]
    return np.array(misfit), degrees + _POOLING_STRENGTH


def _paule_mandel(squares: FloatArray, variance: FloatArray, degrees: float) -> float:
    """Return the tau at which sum(squares / (variance + tau^2)) equals the degrees of freedom."""

    def excess(log_tau: float) -> float:
        return float(np.sum(squares / (variance + np.exp(2.0 * log_tau)))) - degrees

    low = float(np.log(_SMALLEST_MISFIT))
    high = 0.5 * float(np.log(max(np.sum(squares) / degrees, 1e-300)))
    if high <= low or excess(low) <= 0.0:
        return _SMALLEST_MISFIT
    return float(np.exp(brentq(excess, low, high + 1e-9, xtol=1e-10)))
