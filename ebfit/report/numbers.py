"""How numbers are written for people: 8.19K tokens, 4.12K [3.80K, 4.50K], <= 1.2K, not identified."""

from collections.abc import Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from math import ceil, log10

from ebfit.files import Estimate, Fit
from ebfit.text import short

_BOUND_DIGITS = 2
NOT_IDENTIFIED = "not identified"


def size(value: float) -> str:
    """Write a batch size that somebody chose: small whole numbers as they are, others as `short` does."""
    rounded = float(f"{value:.9g}")  # it may come from a logarithm
    return f"{rounded:.0f}" if rounded < 1000.0 and rounded.is_integer() else short(value)


def interval_digits(value: float, low: float, high: float) -> int:
    """Return how many significant digits an interval of this width deserves: 2 or 3."""
    half_width = (high - low) / 2.0
    if value <= 0.0 or half_width <= 0.0:
        return 3
    return min(max(1 + ceil(-log10(half_width / value)), 2), 3)


def estimate_parts(estimate: Estimate | None) -> tuple[str, str]:
    """Write an estimate as a value and an interval, or as words and an empty string.

    A bound is rounded to its safe side, and is never accompanied by a value. An estimate that lacks the
    numbers its status promises counts as not identified.
    """
    if estimate is None:
        return NOT_IDENTIFIED, ""
    value, low, high = estimate.value, estimate.low, estimate.high
    if estimate.status == "ok" and value is not None:
        if low is None or high is None:
            return short(value), ""
        digits = interval_digits(value, low, high)
        return short(value, digits), f"[{short(low, digits)}, {short(high, digits)}]"
    if estimate.status == "upper_bound" and high is not None:
        return f"<= {short(high, _BOUND_DIGITS, ROUND_CEILING)}", ""
    if estimate.status == "lower_bound" and low is not None:
        return f">= {short(low, _BOUND_DIGITS, ROUND_FLOOR)}", ""
    return NOT_IDENTIFIED, ""


def estimate_text(estimate: Estimate | None) -> str:
    """Write an estimate on one line: ``4.12K [3.80K, 4.50K]``, ``<= 1.2K`` or ``not identified``."""
    return " ".join(part for part in estimate_parts(estimate) if part)


def loss_texts(losses: Sequence[float]) -> list[str]:
    """Write losses with five significant digits at most and equally many decimals."""
    shortest = [f"{loss:.5g}" for loss in losses]
    decimals = max((-_last_place(text) for text in shortest), default=0)
    return [f"{loss:.{max(decimals, 0)}f}" for loss in losses]


def confidence_text(fit: Fit) -> str:
    """Write the confidence level of a fit's intervals, such as ``95%``."""
    return f"{100.0 * fit.confidence:g}%"


def _last_place(text: str) -> int:
    exponent = Decimal(text).as_tuple().exponent
    return exponent if isinstance(exponent, int) else 0
