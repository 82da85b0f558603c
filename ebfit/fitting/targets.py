"""Fit a law to all targets of one group of runs."""

from dataclasses import replace

import numpy as np

from ebfit.fitting.classic import fit_classic
from ebfit.fitting.observations import Observations
from ebfit.fitting.result import TargetFit
from ebfit.fitting.revised import fit_revised
from ebfit.fitting.seeds import merge_seeds
from ebfit.laws import LAWS

_FITTERS = {"revised": fit_revised, "classic": fit_classic}


def fit_targets(
    law_name: str, data: Observations, *, replicates: int, confidence: float, seed: int
) -> list[TargetFit]:
    """Fit a law to every target, with intervals.

    Parameters
    ----------
    law_name : {"revised", "classic"}
    data : Observations
        Every target passes `why_not_fitted`. Results do not depend on the order of runs.
    replicates : int
        Bootstrap refits per target.
    confidence : float
        Of the intervals, such as 0.95.
    seed : int
        Of the bootstrap.

    Returns
    -------
    list of TargetFit
        One per target, in order.
    """
    data = _in_canonical_order(data)
    fits = _FITTERS[law_name](merge_seeds(data), replicates, confidence, seed)
    return [replace(fit, rms_log_residual=_rms(fit, data, t)) for t, fit in enumerate(fits)]


def _rms(fit: TargetFit, data: Observations, t: int) -> float:
    """Return the RMS log residual over every run that reached the target; the fit saw the mean of seeds."""
    reached = data.reached[:, t]
    residual = LAWS[fit.law].log_steps(fit.free, data.log_batch[reached]) - data.log_steps[reached, t]
    return float(np.sqrt(np.mean(residual**2)))


def _in_canonical_order(data: Observations) -> Observations:
    """Sort runs by what they are and not by how they were listed, so that the order given changes nothing."""
    keys = [np.nan_to_num(data.log_steps[:, t], nan=-1.0) for t in range(data.log_steps.shape[1])]
    order = np.lexsort([*(data.censored[:, t] for t in range(data.censored.shape[1])), *keys, data.log_batch])
    return data.take_runs(order)
