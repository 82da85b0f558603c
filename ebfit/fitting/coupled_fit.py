"""The point estimate of targets whose shapes are pooled, and what it becomes without a batch size."""

from dataclasses import dataclass, replace

import numpy as np

from ebfit.fitting.batched import BoolArray, solve, solve_from_each
from ebfit.fitting.coupled import SCALES, CoupledProblems
from ebfit.fitting.observations import Observations
from ebfit.fitting.point import PointFit, around, distinct_minima, misfit_of, problems_of, rms_log_residual
from ebfit.fitting.problem import Problems
from ebfit.laws import FloatArray

_ROUNDS = 6
_FARTHEST_SHAPE = 3.0  # standard deviations of the prior; a start beyond is one of a target that left it open


@dataclass(frozen=True)
class CoupledFit:
    """The fit of one law to T targets together.

    Attributes
    ----------
    problems : CoupledProblems
        The one problem as it stands at the solution.
    minima : ndarray, shape (k, P)
        Its local minima that are nearly as good, the best first, in its own unknowns.
    point : PointFit
        The same, target by target.
    """

    problems: CoupledProblems
    minima: FloatArray
    point: PointFit


def fit_coupled(data: Observations, point: PointFit, omega: float) -> CoupledFit:
    """Fit all targets together.

    Parameters
    ----------
    data : Observations
    point : PointFit
        The fit of every target by itself, to start from.
    omega : float
        How far the shapes of targets differ, in standard deviations of the shape prior; 0 is one shape for all.
    """
    law, targets = point.problems.law, len(point.free)
    misfit = point.misfit_sd
    sd, centre = law.prior.sd[SCALES:], law.prior.centre[SCALES:]
    shapes = np.clip(point.free[:, SCALES:], centre - _FARTHEST_SHAPE * sd, centre + _FARTHEST_SHAPE * sd)
    mu = np.concatenate([shapes, shapes.mean(axis=0)[None], np.median(shapes, axis=0)[None], centre[None]])
    scales = np.broadcast_to(point.free[:, :SCALES], (len(mu), targets, SCALES))
    best: FloatArray | None = None
    for turn in range(_ROUNDS):
        one = _together(problems_of(law, data, misfit), omega)
        starts = one.join(scales, np.zeros((len(mu), targets, len(sd))), mu)
        if best is not None:
            own, delta, common = one.split(best[None])
            near = around(common[0], turn)
            starts = np.concatenate(
                [
                    one.join(
                        np.broadcast_to(own, (len(near), *own.shape[1:])),
                        np.broadcast_to(delta, (len(near), *delta.shape[1:])),
                        near,
                    ),
                    starts,
                ]
            )
        found = solve(one.take(np.zeros(len(starts), dtype=np.intp)), starts)
        best = found.free[np.argmin(found.cost)]
        free = one.free(best[None])[0]
        used = _effective_parameters(one, best)
        before, (misfit, degrees) = misfit, misfit_of(one.problems, data.log_steps_se.T, free, used)
        if np.all(np.abs(np.log(misfit / before)) < 0.02):
            break
    one = _together(problems_of(law, data, misfit), omega)
    found = solve(one.take(np.zeros(len(found.free), dtype=np.intp)), found.free)
    minima = distinct_minima(found.free[np.argmin(found.cost)], found.free, found.cost)
    free = one.free(minima)
    return CoupledFit(
        one,
        minima,
        PointFit(
            problems=one.problems,
            free=free[0],
            minima=list(free.swapaxes(0, 1)),
            misfit_sd=misfit,
            degrees_of_freedom=degrees,
            effective_parameters=used,
            rms_log_residual=rms_log_residual(one.problems, free[0]),
        ),
    )


def without_each_size(data: Observations, fit: CoupledFit) -> FloatArray:
    """Refit without each of the k batch sizes in turn, at all targets together.

    Returns
    -------
    ndarray, shape (k, T, p)
        Free parameters of every target, batch sizes in rising order.
    """
    sizes = np.unique(data.log_batch)
    stays: BoolArray = data.log_batch != sizes[:, None]
    many = fit.problems.take(np.zeros(len(sizes), dtype=np.intp))
    present = many.problems.present.reshape(len(sizes), fit.problems.targets, -1) & stays[:, None, :]
    many = replace(many, problems=replace(many.problems, present=present.reshape(len(many.problems), -1)))
    return many.free(solve_from_each(many, fit.minima).free)


def _together(problems: Problems, omega: float) -> CoupledProblems:
    law = problems.law
    shape = len(law.prior.sd) - SCALES
    return CoupledProblems(
        problems=problems,
        targets=len(problems),
        omega=np.array([omega]),
        mu_centre=law.prior.centre[None, SCALES:],
        delta_centre=np.zeros((1, len(problems), shape)),
    )


def _effective_parameters(one: CoupledProblems, unknowns: FloatArray) -> FloatArray:
    """Return the trace of the hat matrix over the points of every target that reached it, shape (T,)."""
    problems = one.problems
    free = one.free(unknowns[None])[0]
    arrow = one.linearise(unknowns[None])
    by_free = problems.residuals_and_jacobian(free)[1][:, : problems.points]
    reached = problems.present & ~problems.censored
    by_free = np.where(reached[..., None], by_free, 0.0)
    stretch = np.concatenate([np.ones(SCALES), one.omega[0] * one.prior_sd])
    by_own, by_mu = by_free * stretch, by_free[..., SCALES:]
    inverse = np.linalg.pinv(arrow.own[0], hermitian=True)
    through = inverse @ arrow.arm[0]  # (T, own, s)
    of_mu = np.linalg.pinv(arrow.mu[0] - np.einsum("tij,til->jl", arrow.arm[0], through), hermitian=True)
    rest = by_mu - by_own @ through  # what mu moves once own parameters have followed
    return np.einsum("tij,tjk,tik->t", by_own, inverse, by_own) + np.einsum(
        "tij,jk,tik->t", rest, of_mu, rest
    )
