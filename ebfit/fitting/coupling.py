"""How far the targets of a sweep share the shape of their curves: ``none``, ``pooled``, or ``shared``.

The shapes of neighbouring targets differ little, and the points of one target leave most of its shape open. So by
default shapes are pooled: that of a target lies about that of all, by a share of the width of the shape prior. Which
share, the data say: three are tried, the estimate is that of the one with the most evidence, and the replicates are
made with each in proportion to it. Where one shape does for all targets the smallest share wins, and intervals are as
narrow as that allows; where shapes differ the largest wins, which is next to no pooling.
"""

from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np

from ebfit.fitting.batched import solve, solve_from_each
from ebfit.fitting.bootstrap import draw_errors, draw_numbers
from ebfit.fitting.coupled_bootstrap import bootstrap_coupled
from ebfit.fitting.coupled_fit import CoupledFit, fit_coupled
from ebfit.fitting.observations import Observations
from ebfit.fitting.point import PointFit, fit_points, log_evidence
from ebfit.laws import FloatArray, Law

Coupling = Literal["none", "pooled", "shared"]
COUPLINGS: tuple[Coupling, ...] = get_args(Coupling)
_OMEGAS = {"pooled": (0.05, 0.2, 0.6), "shared": (0.0,)}

# The targets of a run are no independent witnesses, so that evidence summed over targets is too sure: count it half.
_EVIDENCE_TEMPER = 0.5
_LEAST_WEIGHT = 0.05
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
    coupled : list of tuple
        The joint fits, each with its weight in the replicates; that of ``point`` first. Empty where shapes are free.
    """

    own: PointFit
    point: PointFit
    coupled: list[tuple[CoupledFit, float]]

    def shares(self, count: int) -> list[tuple[CoupledFit, int]]:
        """Divide a number of replicates over the joint fits by their weights; those without any are left out."""
        ends = np.round(count * np.cumsum([weight for _, weight in self.coupled])).astype(int)
        counts = np.diff(ends, prepend=0).tolist()
        return [(fit, share) for (fit, _), share in zip(self.coupled, counts, strict=True) if share]


def fit_law(law: Law, data: Observations, coupling: Coupling, own: PointFit | None = None) -> Fitted:
    """Fit a law to every target; a single target has no other to share a shape with.

    ``own`` is the fit of every target by itself, where that has been made already.
    """
    own = fit_points(law, data) if own is None else own
    if coupling == "none" or len(own.free) == 1:
        return Fitted(own, own, [])
    fits = [fit_coupled(data, own, omega) for omega in _OMEGAS[coupling]]
    evidence = np.array([log_evidence(fit.point).sum() for fit in fits])
    weights = np.exp(_EVIDENCE_TEMPER * (evidence - evidence.max()))
    weights = np.where(weights / weights.sum() < _LEAST_WEIGHT, 0.0, weights)
    weighed = [
        (fit, float(weight)) for fit, weight in zip(fits, weights / weights.sum(), strict=True) if weight
    ]
    weighed.sort(key=lambda pair: -pair[1])
    return Fitted(own, weighed[0][0].point, weighed)


def draw(data: Observations, fitted: Fitted, count: int, seed: int) -> list[dict[str, FloatArray]]:
    """Return per target name -> natural logs of the replicates of B_min, B_opt, ..., shape (count,)."""
    if not fitted.coupled:
        return draw_numbers(data, fitted.own, count, seed)
    parts = [bootstrap_coupled(data, fit, share, seed) for fit, share in fitted.shares(count)]
    free = np.concatenate(parts, axis=1)
    # Shuffled, at all targets alike: whoever takes some of the replicates takes some of each kind.
    free = free[:, np.random.default_rng(seed).permutation(count)]
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
    own, coupled = fitted.own, fitted.coupled[0][0]
    one = replace(coupled.problems, problems=own.problems)
    targets = one.targets
    rng = np.random.default_rng(seed)
    errors = draw_errors(rng, data, own.misfit_sd, _TEST_REPLICATES)
    expected = own.problems.law.log_steps(fitted.point.free, own.problems.log_batch)
    known = np.isfinite(expected) & ~own.problems.censored
    drawn = np.where(known, np.where(known, expected, 0.0) + errors, own.problems.log_steps)
    seen = np.concatenate([own.problems.log_steps[None], drawn])  # the sweep itself, and those drawn
    many = one.take(np.zeros(len(seen), dtype=np.intp))
    many = replace(many, problems=replace(many.problems, log_steps=seen.reshape(len(seen) * targets, -1)))
    together = solve_from_each(many, coupled.minima).cost
    starts = [fitted.point.free, own.free]
    apart = np.min([solve(many.problems, np.tile(start, (len(seen), 1))).cost for start in starts], axis=0)
    ratio = together - apart.reshape(len(seen), targets).sum(axis=1)
    return float((1 + np.sum(ratio[1:] >= ratio[0])) / (1 + _TEST_REPLICATES))
