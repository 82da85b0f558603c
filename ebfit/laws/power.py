"""The three-term law at one target: the second opinion that widens the intervals of the revised law.

From L(B, S) = L_0 + b B^-beta + c S^-gamma (the fixed-model-size form of arXiv 2607.01487) at a fixed loss:

    S(B) = S_min [1 - (B_min / B)^beta]^(-1/gamma),    B_opt = B_min ((beta + gamma) / gamma)^(1/beta)

It is as U-shaped as the revised law, has the same two numbers, and approaches them differently: from the smallest
batch that reached a target down to B_min it is the law that extrapolates, not the data, and a second law is a
measure of that. The free parameters are log S_min, log B_min, log beta, log gamma.
"""

from collections.abc import Mapping

import numpy as np

from ebfit.laws.base import FloatArray, ShapePrior

name = "power"
free_names = ("log_s_min", "log_b_min", "log_beta", "log_gamma")
# Weak on purpose: exponents of fitted loss surfaces lie within a factor of e of these more often than not.
prior = ShapePrior(centre=np.array([0.0, 0.0, 0.0, -0.5]), sd=np.array([np.inf, np.inf, 1.0, 1.0]))


def log_steps(free: FloatArray, log_batch: FloatArray) -> FloatArray:
    """Return log S(B), shape (..., n); +inf where B <= B_min."""
    return log_steps_jacobian(free, log_batch)[0]


def log_steps_jacobian(free: FloatArray, log_batch: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return log S(B), shape (..., n), and its derivatives (..., n, 4); zero where S is infinite."""
    with np.errstate(all="ignore"):
        beta, gamma = np.exp(free[..., 2, None]), np.exp(free[..., 3, None])
        exponent = beta * (free[..., 1, None] - log_batch)  # log of (B_min / B)^beta
        log_rest = np.where(exponent < 0.0, np.log(-np.expm1(np.minimum(exponent, 0.0))), -np.inf)
        log_s = free[..., 0, None] - log_rest / gamma
        pull = np.exp(exponent - log_rest) / gamma
        jacobian = np.stack([np.ones_like(log_s), beta * pull, exponent * pull, log_rest / gamma], axis=-1)
        return log_s, np.where(np.isfinite(log_s)[..., None], jacobian, 0.0)


def starts(log_batch: FloatArray, observed_log_steps: FloatArray) -> FloatArray:
    """Return starting points, shape (k, 4), with B_min below the smallest reached batch size."""
    lowest = float(log_batch.min())
    found = []
    for below in (0.05, 0.3, 1.0):
        for log_beta in (-0.5, 0.5):
            for log_gamma in (-1.0, 0.0):
                free = np.array([0.0, lowest - below, log_beta, log_gamma])
                free[0] = float(np.median(observed_log_steps - log_steps(free, log_batch)))
                found.append(free)
    return np.array(found)


def log_numbers(free: FloatArray) -> dict[str, FloatArray]:
    """Return the natural logs of b_min, b_opt, e_min (tokens), s_min, s_opt (steps) for ``free`` (..., 4)."""
    beta, gamma = np.exp(free[..., 2]), np.exp(free[..., 3])
    log_b_opt = free[..., 1] + np.log1p(beta / gamma) / beta
    log_s_opt = free[..., 0] + np.log1p(gamma / beta) / gamma
    return {
        "b_min": free[..., 1],
        "b_opt": log_b_opt,
        "e_min": log_b_opt + log_s_opt,
        "s_min": free[..., 0],
        "s_opt": log_s_opt,
    }


def params(free: FloatArray) -> dict[str, float]:
    """Return s_min (steps), b_min (tokens), beta and gamma for one ``free``, shape (4,)."""
    return dict(zip(("s_min", "b_min", "beta", "gamma"), map(float, np.exp(free)), strict=True))


def free_from_params(params: Mapping[str, float]) -> FloatArray:
    """Return the free parameters of a law given by s_min, b_min, beta, gamma.

    Raises
    ------
    ValueError
        If one of them is not positive.
    """
    four = [params[key] for key in ("s_min", "b_min", "beta", "gamma")]
    if min(four) <= 0.0:
        raise ValueError(f"no three-term law: {dict(params)}")
    return np.log(four)


def tokens_at(params: Mapping[str, float], steps: FloatArray) -> FloatArray:
    """Return E(S) = B_min S [1 - (S_min / S)^gamma]^(-1/beta) in tokens; NaN at or below S_min."""
    s = np.asarray(steps, dtype=float)
    with np.errstate(divide="ignore", invalid="ignore"):
        rest = 1.0 - (params["s_min"] / s) ** params["gamma"]
        return np.where(s > params["s_min"], params["b_min"] * s * rest ** (-1.0 / params["beta"]), np.nan)
