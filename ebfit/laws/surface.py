"""The three-term surface of a group's training runs, over all batch sizes and target losses at once (DESIGN 3.4).

    L(B, S) = L_0 + b B^-beta + c S^-gamma        (the form of arXiv 2607.01487 at a fixed model size)

At a loss L, with l = L - L_0, it is the law `power` with beta and gamma, and

    B_min = (b / l)^(1/beta),    S_min = (c / l)^(1/gamma),

so that five numbers describe any number of targets. The parametrisation is ours. Its free parameters are log S_min and
log B_min at the reference loss, halfway between the highest and the lowest target; log beta; log gamma; and log_depth,
the log of how far the floor L_0 lies below the lowest target in units of the range of the targets. So L_0 stays below
every target, counting steps, tokens or losses in other units moves nothing but the first two, and no sign of the losses
is supposed: a floor below zero is no entropy, but may well describe the losses that were measured.
"""

from collections.abc import Mapping

import numpy as np

from ebfit.laws import power
from ebfit.laws.base import FloatArray, ShapePrior

name = "surface"
free_names = ("log_s_min", "log_b_min", "log_beta", "log_gamma", "log_depth")
# Weak on purpose. Exponents as for `power`; a floor e times the range of the targets below them, within a factor of 50.
prior = ShapePrior(
    centre=np.append(power.prior.centre, 1.0),
    sd=np.append(power.prior.sd, 2.0),
)
_REFERENCE = 0.5  # height of the reference loss in the range of the targets


def at_losses(free: FloatArray, losses: FloatArray) -> FloatArray:
    """Return the free parameters of `power` at every target.

    Parameters
    ----------
    free : ndarray, shape (..., 5)
    losses : ndarray, shape (T,)
        The targets, two different ones at least.

    Returns
    -------
    ndarray, shape (..., T, 4)
    """
    log_ratio, _ = _log_excess(free, losses)
    return _at(free, log_ratio)


def log_steps(free: FloatArray, losses: FloatArray, log_batch: FloatArray) -> FloatArray:
    """Return log S(B), shape (..., T, n), for ``log_batch`` of shape (n,); +inf where B <= B_min of the loss."""
    return power.log_steps(at_losses(free, losses), log_batch)


def log_steps_jacobian(
    free: FloatArray, losses: FloatArray, log_batch: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return log S(B), shape (..., T, n), and its derivatives by the free parameters (..., T, n, 5)."""
    log_ratio, by_depth = _log_excess(free, losses)
    log_s, by_power = power.log_steps_jacobian(_at(free, log_ratio), log_batch)
    log_ratio, by_depth = log_ratio[..., None], by_depth[..., None]
    beta, gamma = np.exp(free[..., 2, None, None]), np.exp(free[..., 3, None, None])
    by_s_min, by_b_min, by_beta, by_gamma = np.moveaxis(by_power, -1, 0)
    jacobian = [
        by_s_min,
        by_b_min,
        by_beta + by_b_min * log_ratio / beta,
        by_gamma + by_s_min * log_ratio / gamma,
        -by_depth * (by_s_min / gamma + by_b_min / beta),
    ]
    return log_s, np.stack(jacobian, axis=-1)


def log_numbers(free: FloatArray, losses: FloatArray) -> dict[str, FloatArray]:
    """Return the natural logs of b_min, b_opt, e_min (tokens), s_min, s_opt (steps) per target, shape (..., T)."""
    return power.log_numbers(at_losses(free, losses))


def starts(losses: FloatArray, log_batch: FloatArray, log_steps_seen: FloatArray) -> FloatArray:
    """Return starting points for a fit, shape (k, 5), each with B_min below what reached the target, at all targets.

    Parameters
    ----------
    losses : ndarray, shape (T,)
    log_batch : ndarray, shape (n,)
    log_steps_seen : ndarray, shape (n, T)
        Log steps of the points that reached a target, NaN elsewhere.
    """
    reached = np.isfinite(log_steps_seen)
    lowest = np.array([log_batch[column].min() if column.any() else np.inf for column in reached.T])
    found = []
    for log_depth in (-1.0, 0.5, 2.0):
        for log_beta in (-0.5, 0.5):
            for log_gamma in (-1.0, 0.0):
                for below in (0.05, 0.5):
                    free = np.array([0.0, 0.0, log_beta, log_gamma, log_depth])
                    at_targets = at_losses(free, losses)
                    free[1] = float(np.min(lowest - at_targets[:, 1])) - below
                    missed = log_steps_seen - log_steps(free, losses, log_batch).T
                    free[0] = float(np.median(missed[reached]))
                    found.append(free)
    return np.array(found)


def params(free: FloatArray, losses: FloatArray) -> dict[str, float]:
    """Return l_0 (loss), b, beta, c, gamma of L_0 + b B^-beta + c S^-gamma, B in tokens, for one ``free`` (5,)."""
    lowest, spread = float(np.min(losses)), float(np.ptp(losses))
    beta, gamma, depth = (float(x) for x in np.exp(free[2:]))
    log_excess = float(np.log(spread * (_REFERENCE + depth)))
    with np.errstate(over="ignore"):
        return {
            "l_0": lowest - spread * depth,
            "b": float(np.exp(log_excess + beta * free[1])),
            "beta": beta,
            "c": float(np.exp(log_excess + gamma * free[0])),
            "gamma": gamma,
        }


def free_from_params(params: Mapping[str, float], losses: FloatArray) -> FloatArray:
    """Return the free parameters of a surface given by l_0, b, beta, c, gamma.

    Raises
    ------
    ValueError
        If a number is not positive or the floor is not below all targets.
    """
    lowest, spread = float(np.min(losses)), float(np.ptp(losses))
    b, beta, c, gamma = (params[key] for key in ("b", "beta", "c", "gamma"))
    depth = (lowest - params["l_0"]) / spread
    if min(b, beta, c, gamma, depth) <= 0.0:
        raise ValueError(f"no surface over these targets: {dict(params)}")
    log_excess = np.log(spread * (_REFERENCE + depth))
    return np.array(
        [
            (np.log(c) - log_excess) / gamma,
            (np.log(b) - log_excess) / beta,
            np.log(beta),
            np.log(gamma),
            np.log(depth),
        ]
    )


def loss_at(params: Mapping[str, float], batch_tokens: FloatArray, steps: FloatArray) -> FloatArray:
    """Return L(B, S) for tokens per step and steps, broadcast against each other."""
    of_batch = params["b"] * np.asarray(batch_tokens, dtype=float) ** -params["beta"]
    return params["l_0"] + of_batch + params["c"] * np.asarray(steps, dtype=float) ** -params["gamma"]


def _at(free: FloatArray, log_ratio: FloatArray) -> FloatArray:
    beta, gamma = np.exp(free[..., 2, None]), np.exp(free[..., 3, None])
    return np.stack(
        [
            free[..., 0, None] - log_ratio / gamma,
            free[..., 1, None] - log_ratio / beta,
            np.broadcast_to(free[..., 2, None], log_ratio.shape),
            np.broadcast_to(free[..., 3, None], log_ratio.shape),
        ],
        axis=-1,
    )


def _log_excess(free: FloatArray, losses: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return log(l / l_reference) of every target and its derivative by log_depth, shapes (..., T)."""
    height = (losses - np.min(losses)) / np.ptp(losses)
    depth = np.exp(free[..., 4, None])
    log_ratio = np.log(height + depth) - np.log(_REFERENCE + depth)
    return log_ratio, depth / (height + depth) - depth / (_REFERENCE + depth)
