"""How far the targets of a sweep share the shape of their curves: ``none``, ``pooled``, or ``shared``.

The shapes of neighbouring targets differ little, and the points of one target leave most of its shape open. So by
default shapes are pooled: that of a target lies about that of all, a tenth as far as the shape prior is wide. The
replicates draw that distance anew, half-normal, since how alike the shapes are is not known. A tenth is our choice: of
those tried it predicts left-out batch sizes of a real sweep best (`benchmarks/pooling.py`), and one shape for all makes
intervals too narrow where the shapes do differ.
"""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from ebfit.fitting.batched import solve
from ebfit.fitting.bootstrap import correlated, draw_numbers
from ebfit.fitting.coupled_bootstrap import bootstrap_coupled
from ebfit.fitting.coupled_fit import CoupledFit, fit_coupled
from ebfit.fitting.observations import Observations
from ebfit.fitting.point import PointFit, fit_points
from ebfit.laws import FloatArray, Law

Coupling = Literal["none", "pooled", "shared"]
OMEGA: dict[str, float] = {"pooled": 0.1, "shared": 0.0}

_TEST_REPLICATES = 200


@dataclass(frozen=True)
class Fitted:
    """A law fitted to all targets of a sweep.

    Attributes
    ----------
    own : PointFit
        Every target by itself.
    point : PointFit
        With the shapes coupled; the same as ``own`` where they are not.
    coupled : CoupledFit or None
        The joint problem behind ``point``.
    """

    own: PointFit
    point: PointFit
    coupled: CoupledFit | None


def fit_law(law: Law, data: Observations, coupling: Coupling) -> Fitted:
    """Fit a law to every target; a single target has no other to share a shape with."""
    own = fit_points(law, data)
    if coupling == "none" or len(own.free) == 1:
        return Fitted(own, own, None)
    coupled = fit_coupled(data, own, OMEGA[coupling])
    return Fitted(own, coupled.point, coupled)


def draw(data: Observations, fitted: Fitted, count: int, seed: int) -> list[dict[str, FloatArray]]:
    """Return per target name -> natural logs of the replicates of B_min, B_opt, ..., shape (count,)."""
    if fitted.coupled is None:
        return draw_numbers(data, fitted.own, count, seed)
    free = bootstrap_coupled(data, fitted.coupled, count, seed)
    return [fitted.point.problems.law.log_numbers(free[t]) for t in range(len(free))]


def p_of_one_shape(data: Observations, fitted: Fitted, seed: int) -> float:
    """Test whether one shape for all targets is tenable, by a likelihood ratio and its parametric bootstrap.

    The ratio is that of one shape to a shape each, both with the misfit that a shape each leaves. Its distribution is
    that of sweeps drawn from the fit with one shape, their errors correlated along a run as those of the sweep are.

    Parameters
    ----------
    data : Observations
    fitted : Fitted
        With coupling ``shared``, of two targets or more.
    seed : int
        Of the bootstrap.

    Returns
    -------
    float
        The p-value: small where the shapes differ by more than noise makes them.
    """
    assert fitted.coupled is not None, "there is nothing to test about separate shapes"
    own = fitted.own
    one = replace(fitted.coupled.problems, problems=own.problems)
    targets = one.targets
    rng = np.random.default_rng(seed)
    sizes, size_of_run = np.unique(data.log_batch, return_inverse=True)
    luck = rng.standard_normal((_TEST_REPLICATES, len(sizes)))[:, size_of_run]
    moved = correlated(rng, data.covariance, _TEST_REPLICATES).transpose(0, 2, 1)
    moved = moved + own.misfit_sd[:, None] * luck[:, None, :]
    expected = own.problems.law.log_steps(fitted.point.free, own.problems.log_batch)
    known = np.isfinite(expected) & ~own.problems.censored
    drawn = np.where(known, np.where(known, expected, 0.0) + moved, own.problems.log_steps)
    seen = np.concatenate([own.problems.log_steps[None], drawn])  # the sweep itself, and those drawn
    many = one.take(np.zeros(len(seen), dtype=np.intp))
    many = replace(many, problems=replace(many.problems, log_steps=seen.reshape(len(seen) * targets, -1)))
    together = np.min(
        [solve(many, np.tile(start, (len(seen), 1))).cost for start in fitted.coupled.minima], axis=0
    )
    starts = [fitted.point.free, own.free]
    apart = np.min([solve(many.problems, np.tile(start, (len(seen), 1))).cost for start in starts], axis=0)
    ratio = together - apart.reshape(len(seen), targets).sum(axis=1)
    return float((1 + np.sum(ratio[1:] >= ratio[0])) / (1 + _TEST_REPLICATES))
