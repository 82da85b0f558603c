"""A law that neither `revised` nor `power` describes, so that intervals can be tried where every law is wrong.

    S(B) = S_min (1 + bend B_min / B) / (1 - (B_min / B)^beta)^(1/gamma)

It has what all such curves have, a fewest number of steps and a batch size below which none is enough, and one
factor more than the three-term surface. The free parameters are log S_min, log B_min and the logs of beta, gamma, bend.
"""

import numpy as np
from scipy.optimize import minimize_scalar

from ebfit.laws import FloatArray

_FAR = 40.0  # in log batch size above B_min: tokens rise long before


def log_steps(free: FloatArray, log_batch: FloatArray) -> FloatArray:
    """Return log S(B), of the shape of ``log_batch``; +inf at B_min and below. ``free`` has shape (5,)."""
    beta, gamma, bend = np.exp(free[2:])
    above = np.asarray(log_batch, dtype=float) - free[1]
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        steps = free[0] + np.log1p(bend * np.exp(-above)) - np.log(-np.expm1(-beta * above)) / gamma
    return np.where(above > 0.0, steps, np.inf)


def log_numbers(free: FloatArray) -> dict[str, FloatArray]:
    """Return the natural logs of b_min, b_opt, e_min (tokens), s_min, s_opt (steps) for ``free``, shape (5,)."""
    grid = free[1] + np.geomspace(1e-6, _FAR, 2000)
    near = int(np.argmin(grid + log_steps(free, grid)))
    found = minimize_scalar(
        lambda log_batch: float(log_batch + log_steps(free, np.asarray(log_batch))),
        bounds=(grid[max(near - 1, 0)], grid[min(near + 1, len(grid) - 1)]),
        method="bounded",
        options={"xatol": 1e-10},
    )
    log_b_opt = np.asarray(found.x)
    log_s_opt = log_steps(free, log_b_opt)
    return {
        "b_min": np.asarray(free[1]),
        "b_opt": log_b_opt,
        "e_min": log_b_opt + log_s_opt,
        "s_min": np.asarray(free[0]),
        "s_opt": log_s_opt,
    }
