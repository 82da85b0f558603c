"""The surface law over the targets of a group: B_min and B_opt of each, their intervals and statuses, and its limits.

Unlike those of the revised law, these intervals trust one law. Where it describes the runs badly, that is said.
"""

from collections.abc import Sequence
from functools import partial

import numpy as np

from ebfit.fitting.bracket import bracket, is_known
from ebfit.fitting.enough import WANTED_FOR_REVISED, counts, why_not_fitted
from ebfit.fitting.observations import Observations
from ebfit.fitting.point import fit_points
from ebfit.fitting.result import TargetFit
from ebfit.fitting.surface import SurfaceFit, draw_surfaces, fit_surface
from ebfit.fitting.weak_data import not_bracketed
from ebfit.laws import LAWS, FloatArray, power, surface

_BEATEN_BY = 6.0  # log likelihood of the revised law over the surface, per target, beyond reasonable doubt
_WORTH_A_WORD = 0.03  # RMS log residual below which no law is blamed


def fit_surface_targets(
    data: Observations, losses: Sequence[float] | None, replicates: int, confidence: float, seed: int
) -> list[TargetFit]:
    """Fit the surface to all targets; the arguments are those of `ebfit.fitting.fit_targets`."""
    if losses is None:
        raise ValueError("the law surface is one of losses: give those of the targets")
    fit = fit_surface(data, losses)
    draws = surface.log_numbers(draw_surfaces(fit, replicates, seed), np.asarray(losses, dtype=float))
    draws_of = [{key: values[:, t] for key, values in draws.items()} for t in range(len(losses))]
    about_all = _floor_below_zero(fit, losses) + _beaten(data, fit)
    return [_target(data, fit, t, draws_of[t], confidence, about_all) for t in range(len(losses))]


def _target(
    data: Observations,
    fit: SurfaceFit,
    t: int,
    draws: dict[str, FloatArray],
    confidence: float,
    about_all: list[str],
) -> TargetFit:
    log_numbers = {key: float(value) for key, value in power.log_numbers(fit.free[t]).items()}
    errors = np.diagonal(fit.error.covariance(), axis1=1, axis2=2)[data.reached[:, t], t]
    numbers = bracket(
        data,
        t,
        float(np.sqrt(np.median(errors))),
        log_numbers,
        draws,
        confidence,
        partial(_bound, draws, confidence),
    )
    b_opt_is_known = numbers["b_opt"].status == "ok"
    return TargetFit(
        law="surface",
        free=fit.free[t],
        params=fit.params | power.params(fit.free[t]),
        numbers=numbers,
        s_min=float(np.exp(log_numbers["s_min"])) if is_known(draws["s_min"], confidence) else None,
        e_min=float(np.exp(log_numbers["e_min"])) if b_opt_is_known else None,
        s_opt=float(np.exp(log_numbers["s_opt"])) if b_opt_is_known else None,
        rms_log_residual=float(fit.rms_log_residual[t]),
        misfit_log_sd=fit.error.tau,
        second_opinion=None,
        draws=draws,
        warnings=not_bracketed(data, t, numbers["b_min"], numbers["b_opt"]) + about_all,
    )


def _bound(draws: dict[str, FloatArray], confidence: float, number: str, side: int) -> float | None:
    """Return the bound that the replicates keep to: five parameters of all targets leave none of them at large."""
    return float(np.exp(np.quantile(draws[number], confidence if side > 0 else 1.0 - confidence)))


def _floor_below_zero(fit: SurfaceFit, losses: Sequence[float]) -> list[str]:
    floor = fit.params["l_0"]
    if floor >= 0.0 or min(losses) <= 0.0:
        return []
    return [
        f"the floor of the loss comes out at {floor:.2g}, below zero: the surface describes the losses that were "
        "measured, and nothing far below them."
    ]


def _beaten(data: Observations, fit: SurfaceFit) -> list[str]:
    """Say that the revised law describes these runs better, where it does beyond doubt.

    Both laws are judged target by target, by how far points scatter about them; the surface has its parameters once
    for all targets.
    """
    able = [
        t
        for t in range(len(fit.free))
        if why_not_fitted("revised", data, t) is None and counts(data, t)[0] >= WANTED_FOR_REVISED
    ]
    rms = float(np.sqrt(np.mean(fit.rms_log_residual[able] ** 2))) if able else 0.0
    if rms < _WORTH_A_WORD:
        return []
    revised = fit_points(LAWS["revised"], data.take_targets(able))
    points = data.reached[:, able].sum(axis=0)
    parameters = revised.effective_parameters - fit.effective_parameters / len(fit.free)
    ratio = np.maximum(fit.rms_log_residual[able], 1e-12) / np.maximum(revised.rms_log_residual, 1e-12)
    lead = points * np.log(ratio) - 0.5 * parameters * np.log(points)
    if float(np.mean(lead)) < _BEATEN_BY:
        return []
    revised_rms = float(np.sqrt(np.mean(revised.rms_log_residual**2)))
    return [
        f"the surface does not describe these runs: its RMS log residual is {rms:.3f} over all targets, that of the "
        f"revised law {revised_rms:.3f}, and its intervals do not allow for that. Use --law revised."
    ]
