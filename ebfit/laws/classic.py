"""The classic critical-batch-size law of arXiv 1812.06162 (McCandlish et al., 2018), equation 2.11.

    (S / S_min - 1)(E / E_min - 1) = 1,   that is   S(B) = S_min + E_min / B,

with the critical batch size B_crit = E_min / S_min. E falls with every smaller batch, so it has no B_min and
no B_opt: on U-shaped data the fit drives S_min to zero. The free parameters are log S_min and log E_min.
"""

from collections.abc import Mapping

import numpy as np

from ebfit.laws.base import FloatArray, ShapePrior

name = "classic"
free_names = ("log_s_min", "log_e_min")
prior = ShapePrior(centre=np.zeros(2), sd=np.full(2, np.inf))


def log_steps(free: FloatArray, log_batch: FloatArray) -> FloatArray:
    """Return log S(B), shape (..., n), for ``free`` of shape (..., 2) and log batch sizes (tokens)."""
    return np.logaddexp(free[..., 0, None], free[..., 1, None] - log_batch)


def log_steps_jacobian(free: FloatArray, log_batch: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return log S(B), shape (..., n), and its derivatives, shape (..., n, 2)."""
    log_s = log_steps(free, log_batch)
    share_of_s_min = np.exp(free[..., 0, None] - log_s)
    return log_s, np.stack([share_of_s_min, 1.0 - share_of_s_min], axis=-1)


def starts(log_batch: FloatArray, observed_log_steps: FloatArray) -> FloatArray:
    """Return starting points, shape (k, 2): S_min a share of the fewest steps, E_min of the fewest tokens."""
    fewest_steps = float(observed_log_steps.min())
    fewest_tokens = float((log_batch + observed_log_steps).min())
    shares = np.log([0.9, 0.5, 0.1])
    return np.array([[fewest_steps + a, fewest_tokens + b] for a in shares for b in shares])


def log_numbers(free: FloatArray) -> dict[str, FloatArray]:
    """Return the natural logs of b_crit, e_min (tokens) and s_min (steps) for ``free`` (..., 2)."""
    return {"b_crit": free[..., 1] - free[..., 0], "e_min": free[..., 1], "s_min": free[..., 0]}


def params(free: FloatArray) -> dict[str, float]:
    """Return s_min (steps), e_min (tokens) and b_crit (tokens) for one ``free``, shape (2,)."""
    s_min, e_min = (float(np.exp(x)) for x in free)
    return {"s_min": s_min, "e_min": e_min, "b_crit": e_min / s_min if s_min > 0.0 else np.inf}


def tokens_at(params: Mapping[str, float], steps: FloatArray) -> FloatArray:
    """Return E(S) = E_min / (1 - S_min / S) in tokens; NaN at or below S_min."""
    s = np.asarray(steps, dtype=float)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(s > params["s_min"], params["e_min"] / (1.0 - params["s_min"] / s), np.nan)
