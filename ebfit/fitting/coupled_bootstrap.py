"""The bootstrap of targets whose shapes are pooled; see `bootstrap`, whose draws it makes for all of them at once."""

from dataclasses import replace

import numpy as np

from ebfit.fitting.batched import SMALLEST_GAIN_OF_REPLICATES, solve_from_each
from ebfit.fitting.bootstrap import draw_errors
from ebfit.fitting.coupled_fit import CoupledFit
from ebfit.fitting.observations import Observations
from ebfit.laws import FloatArray


def bootstrap_coupled(data: Observations, fit: CoupledFit, count: int, seed: int) -> FloatArray:
    """Refit perturbed copies of all targets; shape (T, count, p)."""
    rng = np.random.default_rng(seed)
    one, targets = fit.problems, fit.problems.targets
    errors = draw_errors(rng, data, fit.point.misfit_sd, count)
    degrees = float(np.mean(fit.point.degrees_of_freedom))
    scale = np.sqrt(degrees / rng.chisquare(degrees, size=count))
    many = one.take(np.zeros(count, dtype=np.intp))
    shape = (count * targets, -1)
    many = replace(
        many,
        problems=replace(
            many.problems,
            log_steps=many.problems.log_steps + (scale[:, None, None] * errors).reshape(shape),
            sd=many.problems.sd * np.repeat(scale, targets)[:, None],
        ),
        mu_centre=many.mu_centre + one.prior_sd * rng.standard_normal(many.mu_centre.shape),
        delta_centre=rng.standard_normal(many.delta_centre.shape),
    )
    unknowns = solve_from_each(many, fit.minima, SMALLEST_GAIN_OF_REPLICATES).free
    return many.free(unknowns).transpose(1, 0, 2)
