"""How B_opt and B_min grow with tokens: a power law B = k D^exponent over the targets of a fit."""

from collections.abc import Sequence

import numpy as np

from ebfit.files import Trend
from ebfit.fitting import TargetFit, percentiles
from ebfit.laws import FloatArray

LEAST_TARGETS = 3  # two make any line


def power_law(fits: Sequence[TargetFit], number: str, confidence: float) -> Trend | None:
    """Fit B = k D^exponent with D = E_min by least squares in log-log.

    Parameters
    ----------
    fits : sequence of TargetFit
        One group; only targets whose status is ``ok``, and whose D is known, take part.
    number : {"b_opt", "b_min"}
    confidence : float
        Of the interval of the exponent, which comes from the same line through every bootstrap replicate.

    Returns
    -------
    Trend or None
        None with fewer than `LEAST_TARGETS` targets.
    """
    # B_min may be known where B_opt, and with it D, is only a bound
    known = [fit for fit in fits if fit.numbers[number].status == "ok" and fit.e_min is not None]
    if len(known) < LEAST_TARGETS:
        return None
    log_tokens = np.log(np.array([fit.e_min for fit in known], dtype=float)[:, None])
    values = [fit.numbers[number].value for fit in known]
    log_batch = np.log(np.array(values, dtype=float)[:, None])
    exponent, log_k = _line(log_tokens, log_batch)
    drawn, _ = _line(
        np.array([fit.draws["e_min"] for fit in known]), np.array([fit.draws[number] for fit in known])
    )
    low, high = percentiles(drawn, confidence)
    return Trend(
        k=float(np.exp(log_k[0])),
        exponent=float(exponent[0]),
        exponent_low=float(min(low, exponent[0])),
        exponent_high=float(max(high, exponent[0])),
        d_low=float(np.exp(log_tokens.min())),
        d_high=float(np.exp(log_tokens.max())),
    )


def _line(x: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return slopes and intercepts of least-squares lines down the columns of x and y, shape (T, N)."""
    dx = x - x.mean(axis=0)
    slope = np.sum(dx * (y - y.mean(axis=0)), axis=0) / np.sum(dx * dx, axis=0)
    return slope, y.mean(axis=0) - slope * x.mean(axis=0)
