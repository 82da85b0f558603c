"""The three-term surface over all targets of a group at once: five parameters for any number of targets."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import cast

import numpy as np

from ebfit.fitting.batched import solve
from ebfit.fitting.observations import Observations
from ebfit.fitting.point import polish
from ebfit.fitting.problem import Problems
from ebfit.fitting.shared_error import SharedError
from ebfit.fitting.surface_problem import SurfaceProblems
from ebfit.laws import FloatArray, surface

_FIRST_MISFIT = 0.02  # log steps; where the iteration for the misfit starts
_ROUNDS = 30
_SETTLED = 1e-4
_NEIGHBOURS = 12  # starts about the best so far
_NEIGHBOUR_SD = 0.3
_TAKEN_BY_THE_LAW = 3


@dataclass(frozen=True)
class SurfaceFit:
    """The surface that was fitted to T targets.

    Attributes
    ----------
    problem : SurfaceProblems
        A single one, as it stands at the solution.
    error : SharedError
        tau and how far it reaches from target to target.
    surface : ndarray, shape (5,)
        Free parameters of `ebfit.laws.surface`.
    free : ndarray, shape (T, 4)
        Free parameters of `ebfit.laws.power` at every target.
    degrees_of_freedom : float
        With which tau is known: those of the batch sizes, not of the points.
    effective_parameters : float
        How many of the five parameters the data determine; what the prior holds does not count.
    rms_log_residual : ndarray, shape (T,)
        Over the points that reached the target.
    log_likelihood : float
        Of all targets together, with the errors of a run correlated; without the constant of the normal density.
    """

    problem: SurfaceProblems
    error: SharedError
    surface: FloatArray
    free: FloatArray
    degrees_of_freedom: float
    effective_parameters: float
    rms_log_residual: FloatArray
    log_likelihood: float

    @property
    def params(self) -> dict[str, float]:
        """l_0, b, beta, c, gamma."""
        return surface.params(self.surface, self.problem.losses)


def fit_surface(data: Observations, losses: Sequence[float], *, settled: float = _SETTLED) -> SurfaceFit:
    """Fit the surface to all targets of ``data``.

    Parameters
    ----------
    data : Observations
        Its runs are batch sizes: seeds have been merged. Every target was reached by a run.
    losses : sequence of float, length T
        The targets, two different ones at least.
    settled : float
        Change of the logs of the misfit and of its reach from one round to the next at which they count as found.

    Returns
    -------
    SurfaceFit
        It does not depend on the order of runs or targets; counting batch sizes, steps or losses in other units
        scales it.

    Raises
    ------
    ValueError
        If all losses are the same: one cannot tell the floor.
    """
    at = np.asarray(losses, dtype=float)
    if len(np.unique(at)) < 2:
        raise ValueError("a surface takes two different target losses at least")
    error = SharedError.of(data, at, _FIRST_MISFIT)
    starts = surface.starts(at, data.log_batch, np.where(data.reached, data.log_steps, np.nan))
    best = starts[0]
    precision = surface.prior.sd**-2.0
    for turn in range(_ROUNDS):
        problem = _problem(data, at, error)
        noise = np.random.default_rng(turn).standard_normal((_NEIGHBOURS, len(best)))
        tries = np.concatenate([best[None], best + _NEIGHBOUR_SD * noise, starts])
        found = solve(problem.take(np.zeros(len(tries), dtype=np.intp)), tries)
        best = found.free[np.argmin(found.cost)]
        residual, jacobian = problem.raw(best[None])
        residual = np.where(data.reached, residual[0], 0.0)
        before, error = error, error.fitted(residual, jacobian[0], precision)
        if max(abs(error.log_tau - before.log_tau), abs(error.log_reach - before.log_reach)) < settled:
            break
    problem = _problem(data, at, error)
    best = polish(cast(Problems, problem), best)
    residual = problem.raw(best[None])[0][0]
    rms = np.array([np.sqrt(np.mean(residual[data.reached[:, t], t] ** 2)) for t in range(len(at))])
    used = _effective_parameters(problem, best)
    points = problem.residuals(best[None])[0, : data.reached.size]
    return SurfaceFit(
        problem=problem,
        error=error,
        surface=best,
        free=surface.at_losses(best, at),
        degrees_of_freedom=_degrees_of_freedom(data),
        effective_parameters=used,
        rms_log_residual=rms,
        log_likelihood=-0.5 * float(np.sum(points**2)) + error.whitening()[1],
    )


def draw_surfaces(fit: SurfaceFit, count: int, seed: int) -> FloatArray:
    """Refit perturbed copies of all targets together, as `ebfit.fitting.bootstrap` does of each.

    Parameters
    ----------
    fit : SurfaceFit
    count : int
        Replicates.
    seed : int
        The same seed gives the same replicates.

    Returns
    -------
    ndarray, shape (count, 5)
        Free parameters of `ebfit.laws.surface`.
    """
    rng = np.random.default_rng(seed)
    scale = np.sqrt(fit.degrees_of_freedom / rng.chisquare(fit.degrees_of_freedom, size=count))
    moved = fit.error.draw(rng, count) * scale[:, None, None]
    prior_sd = np.where(np.isfinite(surface.prior.sd), surface.prior.sd, 0.0)
    problems = fit.problem.take(np.zeros(count, dtype=np.intp))
    problems = replace(
        problems,
        log_steps=problems.log_steps + moved,
        scale=scale,
        prior_centre=problems.prior_centre + prior_sd * rng.standard_normal((count, len(prior_sd))),
    )
    return solve(problems, np.tile(fit.surface, (count, 1))).free


def _problem(data: Observations, losses: FloatArray, error: SharedError) -> SurfaceProblems:
    return SurfaceProblems(
        losses=losses,
        log_batch_of_run=data.log_batch,
        log_steps=np.nan_to_num(data.log_steps)[None],
        whitening=error.whitening()[0],
        scale=np.ones(1),
        reached=error.reached,
        one_sided=error.one_sided,
        prior_centre=surface.prior.centre[None],
    )


def _degrees_of_freedom(data: Observations) -> float:
    """Return with how many degrees of freedom the size of the errors is known.

    What a run gets wrong at one target it gets wrong at the next, and how far that goes is estimated from the same
    points. So the witnesses are the batch sizes, of which the law takes about three for itself: with these the
    intervals hold the truth as often as they say (`benchmarks/surface_coverage.py`).
    """
    sizes = len(np.unique(data.log_batch[data.reached.any(axis=1)]))
    return float(max(sizes - _TAKEN_BY_THE_LAW, 1))


def _effective_parameters(problem: SurfaceProblems, free: FloatArray) -> float:
    """Return the trace of the hat matrix over the points that reached a target."""
    jacobian = problem.residuals_and_jacobian(free[None])[1][0]
    points = jacobian[: problem.reached.size][problem.reached.ravel()]
    return float(np.trace(points @ np.linalg.pinv(jacobian.T @ jacobian, hermitian=True) @ points.T))
