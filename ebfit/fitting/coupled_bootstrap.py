"""The bootstrap of targets whose shapes are pooled; see `bootstrap`, whose draws it makes for all of them at once."""

from dataclasses import replace

import numpy as np

from ebfit.fitting.batched import SMALLEST_GAIN_OF_REPLICATES, solve
from ebfit.fitting.bootstrap import correlated
from ebfit.fitting.coupled_fit import CoupledFit
from ebfit.fitting.observations import Observations
from ebfit.laws import FloatArray


def bootstrap_coupled(data: Observations, fit: CoupledFit, count: int, seed: int) -> FloatArray:
    """Refit perturbed copies of all targets; shape (T, count, p)."""
    rng = np.random.default_rng(seed)
    one, targets = fit.problems, fit.problems.targets
    sizes, size_of_run = np.unique(data.log_batch, return_inverse=True)
    luck = rng.standard_normal((count, len(sizes)))[:, size_of_run]
    crossing = correlated(rng, data.covariance, count)
    degrees = float(np.mean(fit.point.degrees_of_freedom))
    scale = np.sqrt(degrees / rng.chisquare(degrees, size=count))
    moved = crossing.transpose(0, 2, 1) + fit.point.misfit_sd[:, None] * luck[:, None, :]  # (count, T, R)
    many = one.take(np.zeros(count, dtype=np.intp))
    shape = (count * targets, -1)
    many = replace(
        many,
        problems=replace(
            many.problems,
            log_steps=many.problems.log_steps + (scale[:, None, None] * moved).reshape(shape),
            sd=many.problems.sd * np.repeat(scale, targets)[:, None],
        ),
        mu_centre=many.mu_centre + one.prior_sd * rng.standard_normal(many.mu_centre.shape),
        delta_centre=rng.standard_normal(many.delta_centre.shape),
    )
    found = [solve(many, np.tile(minimum, (count, 1)), SMALLEST_GAIN_OF_REPLICATES) for minimum in fit.minima]
    best = np.argmin([solutions.cost for solutions in found], axis=0)
    unknowns = np.array([solutions.free for solutions in found])[best, np.arange(count)]
    return many.free(unknowns).transpose(1, 0, 2)
