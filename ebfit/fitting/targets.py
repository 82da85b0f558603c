"""Fit a law to all targets of one group of runs."""

import numpy as np

from ebfit.fitting.classic import fit_classic
from ebfit.fitting.observations import Observations
from ebfit.fitting.result import TargetFit
from ebfit.fitting.revised import fit_revised

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
    return _FITTERS[law_name](_in_canonical_order(data), replicates, confidence, seed)


def _in_canonical_order(data: Observations) -> Observations:
    """Sort runs by what they are and not by how they were listed, so that the order given changes nothing."""
    keys = [np.nan_to_num(data.log_steps[:, t], nan=-1.0) for t in range(data.log_steps.shape[1])]
    order = np.lexsort([*(data.censored[:, t] for t in range(data.censored.shape[1])), *keys, data.log_batch])
    return data.take_runs(order)
