"""Fitting laws to steps-to-target data: arrays in, dataclasses out."""

from ebfit.fitting.coupling import COUPLINGS, Coupling
from ebfit.fitting.enough import LEAST_TRIED, WANTED_FOR_REVISED, why_no_target_fitted, why_not_fitted
from ebfit.fitting.intervals import Interval, percentiles
from ebfit.fitting.observations import Observations
from ebfit.fitting.result import SecondOpinion, TargetFit
from ebfit.fitting.targets import fit_targets

__all__ = [
    "COUPLINGS",
    "LEAST_TRIED",
    "WANTED_FOR_REVISED",
    "Coupling",
    "Interval",
    "Observations",
    "SecondOpinion",
    "TargetFit",
    "fit_targets",
    "percentiles",
    "why_no_target_fitted",
    "why_not_fitted",
]
