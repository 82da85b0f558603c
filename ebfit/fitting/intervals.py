"""From bootstrap replicates to an interval and a status in the sense of DESIGN 3.1: what the data bracket.

B_opt is bracketed where batch sizes on both sides of it reached the target. B_min is bracketed from above by the
smallest batch size that reached the target, and from below only where some batch size near it was run. A number that
is not bracketed is not printed: the side that is known is given as a one-sided bound.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from ebfit.laws import FloatArray

Status = Literal["ok", "upper_bound", "lower_bound", "not_identified"]
Side = Literal["below", "above"]

_NEAR = 2.0  # a batch size within this factor counts as near: the step of the usual sweep
_NEAR_FOR_DRAWS = 4.0  # the same for replicates, which scatter
_OUTSIDE_SHARE = 0.1  # of the replicates beyond the batch sizes that reached the target: no longer bracketed


@dataclass(frozen=True)
class Interval:
    """A number and its confidence interval, natural units; None where the data do not tell."""

    value: float | None
    low: float | None
    high: float | None
    status: Status


NOT_IDENTIFIED = Interval(None, None, None, "not_identified")


def percentiles(log_draws: FloatArray, confidence: float) -> tuple[float, float]:
    """Return the ends of the middle of the replicates that holds a share ``confidence`` of them."""
    tail = 0.5 * (1.0 - confidence)
    low, high = np.quantile(log_draws, [tail, 1.0 - tail])
    return float(low), float(high)


def two_sided(log_value: float, log_draws: FloatArray, confidence: float) -> Interval:
    """Return the percentile interval, stretched to hold the estimate itself.

    Parameters
    ----------
    log_value : float
        Natural log of the estimate.
    log_draws : ndarray, shape (N,)
        Natural logs of the replicates.
    confidence : float
        Such as 0.95.
    """
    low, high = percentiles(log_draws, confidence)
    return Interval(
        value=float(np.exp(log_value)),
        low=float(np.exp(min(low, log_value))),
        high=float(np.exp(max(high, log_value))),
        status="ok",
    )


def beyond(log_value: float, log_draws: FloatArray, reached: FloatArray, confidence: float) -> set[Side]:
    """Return the sides on which an estimate lies outside the rising ``reached``, or its interval far or often does."""
    low, high = percentiles(log_draws, confidence)
    sides: set[Side] = set()
    if (
        log_value < reached[0]
        or np.mean(log_draws < reached[0]) > _OUTSIDE_SHARE
        or low < reached[0] - np.log(_NEAR)
    ):
        sides.add("below")
    if (
        log_value > reached[-1]
        or np.mean(log_draws > reached[-1]) > _OUTSIDE_SHARE
        or high > reached[-1] + np.log(_NEAR)
    ):
        sides.add("above")
    return sides


def unrisen_sides(log_tokens: FloatArray, noise: float, censored_below: bool) -> set[Side]:
    """Return the sides towards which the tokens to a target were not seen to rise.

    Parameters
    ----------
    log_tokens : ndarray, shape (k,)
        Mean log of the tokens that each batch size took, from small batches to large.
    noise : float
        Standard deviation of one of them: a rise is twice that.
    censored_below : bool
        Whether a batch size smaller than these ended above the target, which is as good as a rise.
    """
    risen = log_tokens > log_tokens.min() + 2.0 * noise
    fewest = int(np.argmin(log_tokens))
    sides: set[Side] = set()
    if not (censored_below or risen[:fewest].any()):
        sides.add("below")
    if not risen[fewest + 1 :].any():
        sides.add("above")
    return sides


def b_min_is_near(log_value: float, log_draws: FloatArray, reached: FloatArray, censored: FloatArray) -> bool:
    """Whether some batch size that was run lies near enough to B_min to hold it from below.

    Parameters
    ----------
    log_value : float
    log_draws : ndarray, shape (N,)
    reached, censored : ndarray
        Distinct log batch sizes that reached the target, and that ended above it, rising.
    """
    witnesses = np.append(censored[censored <= reached[0]][-1:], reached[0])
    far_draws = np.abs(log_draws[:, None] - witnesses).min(axis=1) > np.log(_NEAR_FOR_DRAWS)
    return bool(np.abs(log_value - witnesses).min() <= np.log(_NEAR) and np.mean(far_draws) <= _OUTSIDE_SHARE)
