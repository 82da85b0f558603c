"""The bootstrap: move everything that has an error, refit, look where B_min and B_opt land.

A replicate moves every crossing by its own error (correlated between the targets of a run), moves every point by
the misfit of the law, and moves the centre of the shape prior by the prior's width; then it refits. The size of
the errors is itself drawn, because a misfit that is known from a handful of degrees of freedom may be larger than
it looks: that is what makes the intervals of a small sweep wide enough. Moving the prior with the data is what makes
the replicates spread like the posterior: a fixed prior would hold an unidentified shape in place.
"""

from dataclasses import replace

import numpy as np

from ebfit.fitting.batched import SMALLEST_GAIN_OF_REPLICATES, solve_from_each
from ebfit.fitting.observations import Observations
from ebfit.fitting.point import PointFit
from ebfit.laws import FloatArray


def bootstrap(data: Observations, point: PointFit, count: int, seed: int) -> FloatArray:
    """Refit perturbed copies of every target.

    Parameters
    ----------
    data : Observations
        In a fixed order of runs: the random numbers go by position.
    point : PointFit
        The fits of ``data``; the refits start at each of their local minima and the best wins.
    count : int
        Replicates per target.
    seed : int
        The same seed gives the same replicates.

    Returns
    -------
    ndarray, shape (T, count, p)
        Free parameters.
    """
    rng = np.random.default_rng(seed)
    targets = len(point.free)
    free = np.empty((targets, count, point.free.shape[1]))
    errors = draw_errors(rng, data, point.misfit_sd, count)
    for t in range(targets):
        degrees = point.degrees_of_freedom[t]
        scale = np.sqrt(degrees / rng.chisquare(degrees, size=count))[:, None]
        prior = point.problems.law.prior
        centre_noise = rng.standard_normal((count, len(prior.sd))) * np.where(
            np.isfinite(prior.sd), prior.sd, 0.0
        )
        problems = point.problems.take(np.full(count, t))
        problems = replace(
            problems,
            log_steps=problems.log_steps + scale * errors[:, t],
            sd=problems.sd * scale,
            prior_centre=problems.prior_centre + centre_noise,
        )
        free[t] = solve_from_each(problems, point.minima[t], SMALLEST_GAIN_OF_REPLICATES).free
    return free


def draw_numbers(data: Observations, point: PointFit, count: int, seed: int) -> list[dict[str, FloatArray]]:
    """Return per target name -> natural logs of the replicates of B_min, B_opt, ..., shape (count,)."""
    free = bootstrap(data, point, count, seed)
    return [point.problems.law.log_numbers(free[t]) for t in range(len(free))]


def draw_errors(
    rng: np.random.Generator, data: Observations, misfit_sd: FloatArray, count: int
) -> FloatArray:
    """Draw errors of log steps: those of the crossings, and what the law gets wrong.

    Parameters
    ----------
    rng : Generator
    data : Observations
    misfit_sd : ndarray, shape (T,)
    count : int

    Returns
    -------
    ndarray, shape (count, T, R)
    """
    sizes, size_of_run = np.unique(data.log_batch, return_inverse=True)
    # One number per batch size and replicate for what the law gets wrong there, at every target alike.
    luck = rng.standard_normal((count, len(sizes)))[:, size_of_run]
    crossing = _correlated(rng, data.covariance, count).transpose(0, 2, 1)
    return np.asarray(crossing + misfit_sd[:, None] * luck[:, None, :])


def _correlated(rng: np.random.Generator, covariance: FloatArray, count: int) -> FloatArray:
    """Draw normal errors of the given covariances (R, T, T); return shape (count, R, T)."""
    values, vectors = np.linalg.eigh(covariance)
    root = vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :]
    return np.einsum("rij,crj->cri", root, rng.standard_normal((count, *covariance.shape[:2])))
