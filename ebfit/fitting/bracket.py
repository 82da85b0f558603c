"""B_min and B_opt of a target as the data bracket them: a number, a one-sided bound, or nothing (DESIGN 3.1)."""

from collections.abc import Callable, Mapping
from typing import Literal

import numpy as np

from ebfit.fitting.intervals import (
    NOT_IDENTIFIED,
    Interval,
    Side,
    b_min_is_near,
    beyond,
    percentiles,
    two_sided,
    unrisen_sides,
)
from ebfit.fitting.observations import Observations
from ebfit.laws import FloatArray

# Of a number the bound on one side, +1 above and -1 below: tokens, or None where the data set none.
BoundOf = Callable[[Literal["b_min", "b_opt"], Literal[-1, 1]], float | None]

_KNOWN_WITHIN = 4.0  # from one end of its interval to the other, S_min is shown


def bracket(
    data: Observations,
    t: int,
    noise: float,
    log_numbers: Mapping[str, float],
    draws: Mapping[str, FloatArray],
    confidence: float,
    bound: BoundOf,
) -> dict[str, Interval]:
    """Return the intervals of b_min and b_opt of target ``t``, with what the data tell of them.

    Parameters
    ----------
    data : Observations
    t : int
    noise : float
        Standard deviation of the log steps of a typical point.
    log_numbers : mapping
        Natural logs of the estimates.
    draws : mapping
        Natural logs of their replicates, shape (N,).
    confidence : float
    bound : callable
        Asked where a number is bracketed from one side only.
    """
    open_sides = _open_sides(data, t, noise, log_numbers["b_opt"], draws["b_opt"], confidence)
    return {
        "b_min": _b_min(data, t, open_sides, log_numbers["b_min"], draws["b_min"], confidence, bound),
        "b_opt": _b_opt(open_sides, log_numbers["b_opt"], draws["b_opt"], confidence, bound),
    }


def is_known(log_draws: FloatArray, confidence: float) -> bool:
    """Whether replicates agree on a number that has no status of its own."""
    low, high = percentiles(log_draws, confidence)
    return bool(high - low < np.log(_KNOWN_WITHIN))


def _open_sides(
    data: Observations, t: int, noise: float, log_b_opt: float, log_draws: FloatArray, confidence: float
) -> set[Side]:
    """Return the sides from which the data do not bracket B_opt."""
    reached, censored = data.reached_batches(t), data.censored_batches(t)
    unrisen = unrisen_sides(data.mean_log_tokens(t), noise, bool(np.any(censored < reached[0])))
    return unrisen | beyond(log_b_opt, log_draws, reached, confidence)


def _b_opt(
    open_sides: set[Side], log_value: float, log_draws: FloatArray, confidence: float, bound: BoundOf
) -> Interval:
    if not open_sides:
        return two_sided(log_value, log_draws, confidence)
    if len(open_sides) == 2:
        return NOT_IDENTIFIED
    if "below" in open_sides:
        high = bound("b_opt", 1)
        return NOT_IDENTIFIED if high is None else Interval(None, None, high, "upper_bound")
    low = bound("b_opt", -1)
    return NOT_IDENTIFIED if low is None else Interval(None, low, None, "lower_bound")


def _b_min(
    data: Observations,
    t: int,
    open_sides: set[Side],
    log_value: float,
    log_draws: FloatArray,
    confidence: float,
    bound: BoundOf,
) -> Interval:
    reached = data.reached_batches(t)
    if "below" in open_sides:
        # Tokens were not seen to rise towards small batches, so nothing was seen of the approach to B_min either: all
        # that is known is that the smallest batch size that reached the target lies above it.
        return Interval(None, None, float(np.exp(reached[0])), "upper_bound")
    if b_min_is_near(log_value, log_draws, reached, data.censored_batches(t)):
        return two_sided(log_value, log_draws, confidence)
    high = min(bound("b_min", 1) or np.inf, float(np.exp(reached[0])))
    return Interval(None, None, high, "upper_bound")
