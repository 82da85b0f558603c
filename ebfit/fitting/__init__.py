"""Fitting laws to steps-to-target data: arrays in, dataclasses out."""

from ebfit.fitting.intervals import Interval
from ebfit.fitting.observations import Observations
from ebfit.fitting.targets import SecondOpinion, TargetFit, fit_targets, why_not_fitted

__all__ = ["Interval", "Observations", "SecondOpinion", "TargetFit", "fit_targets", "why_not_fitted"]
