"""Fitting laws to steps-to-target data: arrays in, dataclasses out."""

from ebfit.fitting.enough import LEAST_TRIED, why_not_fitted
from ebfit.fitting.intervals import Interval
from ebfit.fitting.observations import Observations
from ebfit.fitting.result import SecondOpinion, TargetFit
from ebfit.fitting.targets import fit_targets

__all__ = [
    "LEAST_TRIED",
    "Interval",
    "Observations",
    "SecondOpinion",
    "TargetFit",
    "fit_targets",
    "why_not_fitted",
]
