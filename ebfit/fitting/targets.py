"""Fit a law to all targets of one group of runs."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from ebfit.fitting.classic import fit_classic
from ebfit.fitting.coupling import Coupling
from ebfit.fitting.intervals import NOT_IDENTIFIED
from ebfit.fitting.observations import Observations
from ebfit.fitting.result import TargetFit
from ebfit.fitting.revised import fit_revised
from ebfit.fitting.seeds import merge_seeds, seed_sd
from ebfit.fitting.surface_targets import fit_surface_targets
from ebfit.laws import LAWS

_POOR = 0.15  # RMS log residual of batch means beyond which a law is no description: 15% in steps


def fit_targets(
    law_name: str,
    data: Observations,
    *,
    coupling: Coupling = "pooled",
    replicates: int,
    confidence: float,
    seed: int,
    losses: Sequence[float] | None = None,
) -> list[TargetFit]:
    """Fit a law to every target, with intervals.

    Parameters
    ----------
    law_name : {"revised", "classic", "surface"}
    data : Observations
        Every target passes `why_not_fitted`. Results do not depend on the order of runs.
    coupling : {"none", "pooled", "shared"}
        Of the shapes of targets; the classic law has none.
    replicates : int
        Bootstrap refits per target.
    confidence : float
        Of the intervals, such as 0.95.
    seed : int
        Of the bootstrap.
    losses : sequence of float, length T, optional
        The target losses, for the law `surface`, which is fitted to all of them at once.

    Returns
    -------
    list of TargetFit
        One per target, in order.

    Raises
    ------
    ValueError
        If the law is `surface` and ``losses`` are missing or all the same.
    """
    data = _in_canonical_order(data)
    fitters: dict[str, Callable[..., list[TargetFit]]] = {
        "revised": partial(fit_revised, coupling=coupling),
        "classic": fit_classic,
        "surface": partial(fit_surface_targets, losses=losses),
    }
    fits = fitters[law_name](merge_seeds(data), replicates=replicates, confidence=confidence, seed=seed)
    apart = seed_sd(data)
    return [_over_all_runs(fit, data, t, float(apart[t])) for t, fit in enumerate(fits)]


def _over_all_runs(fit: TargetFit, data: Observations, t: int, apart: float) -> TargetFit:
    """Return the fit with its RMS over every run that reached the target, since it saw only the means of seeds.

    A law that is far off the means as well is no description, and the worst point is named; nor are runs seeds of each
    other if their log steps lie ``apart`` by more than seeds mostly do.
    """
    reached = data.reached[:, t]
    residual = LAWS[fit.law].log_steps(fit.free, data.log_batch[reached]) - data.log_steps[reached, t]
    warnings = []
    rejected = fit.numbers.get("b_crit") == NOT_IDENTIFIED  # and told so already
    if fit.rms_log_residual > _POOR and not rejected:
        worst = int(np.argmax(np.abs(residual)))
        warnings.append(
            f"the law describes these points poorly (RMS log residual {fit.rms_log_residual:.2f}): at "
            f"{np.exp(data.log_batch[reached][worst]):,.0f} tokens it is off by a factor of "
            f"{np.exp(np.abs(residual[worst])):.3g} in steps. Check that run, and that runs differ in batch size alone."
        )
    rms = float(np.sqrt(np.mean(residual**2)))
    if apart > _POOR:
        warnings.append(
            f"runs of one batch size differ by a factor of {np.exp(2.0 * apart):.2g} in steps, more than seeds mostly "
            "do. If they differ in model, data or learning rate, fit each such sweep by itself."
        )
    return replace(fit, rms_log_residual=rms, warnings=warnings + fit.warnings)


def _in_canonical_order(data: Observations) -> Observations:
    """Sort runs by what they are and not by how they were listed, so that the order given changes nothing."""
    keys = [np.nan_to_num(data.log_steps[:, t], nan=-1.0) for t in range(data.log_steps.shape[1])]
    order = np.lexsort([*(data.censored[:, t] for t in range(data.censored.shape[1])), *keys, data.log_batch])
    return data.take_runs(order)
