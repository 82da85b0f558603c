"""The revised three-stage E(S) law of arXiv 2601.05034 (Zhou et al., 2026).

    initial     S_min < S <= S_1 :  E = B_{-1} / (S - S_min) + B_0
    transition  S_1  <= S <= S_2 :  E = C (S - S_opt)^2 + E_min
    asymptotic  S_2  <= S        :  E = A_1 S + A_0

The three pieces, B_min = A_1 and B_opt = E_min / S_opt are the paper's. Our choices: value and slope are
continuous at S_1 and S_2, and A_0 >= 0, so that every batch size above A_1 meets the curve exactly once.

With s = S / S_opt, e = E / E_min and B / B_opt = e / s the law has two scales and four shape numbers:

    m   = B_min / B_opt                      in (0, 1)
    v   = S_1 / S_opt                        in (0, 1)
    q   = S_min / S_opt = v w                w in (0, 1)
    r_2 = S_2 / S_opt = 1 + 2 u (1/m - 1)    u in (0, 1)

and then kappa = C S_opt^2 / E_min = m / (2 (r_2 - 1)) and A_0 / E_min = (1 - m)(1 - u), which is how u < 1 is
the constraint A_0 >= 0. The free parameters are log S_opt, log B_opt and the logits of m, u, v, w.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_expit

from ebfit.laws.base import FloatArray, ShapePrior

name = "revised"
free_names = ("log_s_opt", "log_b_opt", "logit_m", "logit_u", "logit_v", "logit_w")

# Weak priors that hold a shape which the data leave open. The centre is where this law ends up when it is fitted to
# noise-free three-term surfaces (DESIGN 3.4; beta 0.4 to 1.5, gamma 0.3 to 1): m = 0.4, u = 0.05, v = 0.79, w = 0.5
# (`benchmarks/shape_prior.py` prints them). The widths are 1.4 to 9 times the spread found there; 1.8 is the
# standard deviation of the logit of a uniform number on (0, 1).
prior = ShapePrior(
    centre=np.array([0.0, 0.0, -0.4, -3.0, 1.3, 0.0]), sd=np.array([np.inf, np.inf, 1.8, 2.5, 1.8, 1.8])
)


@dataclass(frozen=True)
class _Shape:
    """The dimensionless law, arrays with a trailing axis of length 1, to broadcast over batch sizes."""

    m: FloatArray
    u: FloatArray
    v: FloatArray
    w: FloatArray
    q: FloatArray
    r2_minus_1: FloatArray
    kappa: FloatArray
    a0: FloatArray  # A_0 / E_min
    beta: FloatArray  # B_{-1} / (E_min S_opt)
    b0: FloatArray  # B_0 / E_min

    @classmethod
    def of(cls, free: FloatArray) -> "_Shape":
        m, u, v, w = (expit(free[..., i, None]) for i in range(2, 6))
        one_minus_m = expit(-free[..., 2, None])
        one_minus_u = expit(-free[..., 3, None])
        one_minus_v = expit(-free[..., 4, None])
        q = v * w
        r2_minus_1 = 2.0 * u * one_minus_m / m
        kappa = m / (2.0 * r2_minus_1)
        gap = v * expit(-free[..., 5, None])  # v - q
        return cls(
            m=m,
            u=u,
            v=v,
            w=w,
            q=q,
            r2_minus_1=r2_minus_1,
            kappa=kappa,
            a0=one_minus_m * one_minus_u,
            beta=2.0 * kappa * one_minus_v * gap**2,
            b0=1.0 + kappa * one_minus_v**2 - 2.0 * kappa * one_minus_v * gap,
        )


def _solve_steps(shape: _Shape, rho: FloatArray) -> tuple[FloatArray, NDArray[np.bool_], NDArray[np.bool_]]:
    """Solve e(s) = rho s for s; also say which s lie in the initial and which in the asymptotic stage."""
    rho_1 = (1.0 + shape.kappa * (1.0 - shape.v) ** 2) / shape.v
    r2 = 1.0 + shape.r2_minus_1
    rho_2 = shape.m + shape.a0 / r2
    initial = rho >= rho_1
    asymptotic = rho < rho_2

    # initial: t = s - q solves rho t^2 + (rho q - b0) t - beta = 0; the root is written without cancellation
    h = rho * shape.q - shape.b0
    root = np.sqrt(h * h + 4.0 * rho * shape.beta)
    t = np.where(h > 0.0, 2.0 * shape.beta / (h + root), (root - h) / (2.0 * rho))
    # transition: kappa (s - 1)^2 + 1 = rho s
    half_p = shape.kappa + 0.5 * rho
    k = shape.kappa + 1.0
    middle = k / (half_p + np.sqrt(np.maximum(half_p * half_p - shape.kappa * k, 0.0)))
    # asymptotic: m s + a0 = rho s
    late = np.where(rho > shape.m, shape.a0 / np.where(rho > shape.m, rho - shape.m, 1.0), np.inf)
    s = np.where(initial, shape.q + t, np.where(asymptotic, late, middle))
    return s, initial, asymptotic


def log_steps(free: FloatArray, log_batch: FloatArray) -> FloatArray:
    """Return log S(B) in closed form.

    Parameters
    ----------
    free : ndarray, shape (..., 6)
        log S_opt (steps), log B_opt (tokens), and the logits of the shape.
    log_batch : ndarray, shape (..., n)
        Natural logarithm of the batch size in tokens.

    Returns
    -------
    ndarray, shape (..., n)
        Natural logarithm of the steps; +inf where B <= B_min.
    """
    with np.errstate(all="ignore"):
        rho = np.exp(log_batch - free[..., 1, None])
        s, _, _ = _solve_steps(_Shape.of(free), rho)
        return np.asarray(free[..., 0, None] + np.log(s))


def log_steps_jacobian(free: FloatArray, log_batch: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return log S(B) and its derivatives by the free parameters.

    The derivatives follow from e(s; shape) = rho s: ds = (s d rho - d_shape e) / (e'(s) - rho).

    Parameters
    ----------
    free : ndarray, shape (..., 6)
    log_batch : ndarray, shape (..., n)

    Returns
    -------
    log_s : ndarray, shape (..., n)
    jacobian : ndarray, shape (..., n, 6)
        Zero where S is infinite.
    """
    with np.errstate(all="ignore"):
        rho = np.exp(log_batch - free[..., 1, None])
        sh = _Shape.of(free)
        s, initial, asymptotic = _solve_steps(sh, rho)
        one_minus_v = 1.0 - sh.v
        gap = sh.v - sh.q
        g = np.where(initial, gap / (s - sh.q), 0.0)
        slope = np.where(
            asymptotic,
            sh.m,
            np.where(initial, -2.0 * sh.kappa * one_minus_v * g * g, 2.0 * sh.kappa * (s - 1.0)),
        )
        by_log_s = 1.0 / (s * (slope - rho))  # d log s / d e, at fixed rho with the sign of ds turned below

        e_by_log_kappa = rho * s - 1.0
        e_by_r2 = np.where(asymptotic, 2.0 * sh.kappa * (s - 1.0 - sh.r2_minus_1), 0.0)
        e_by_v = np.where(initial, 2.0 * sh.kappa * (g - 1.0) * (2.0 * one_minus_v - gap), 0.0)
        e_by_q = np.where(initial, 2.0 * sh.kappa * one_minus_v * (g - 1.0) ** 2, 0.0)

        jacobian = np.stack(
            [
                np.ones_like(s),
                -rho * s * by_log_s,
                -by_log_s * (e_by_log_kappa * (2.0 - sh.m) - e_by_r2 * sh.r2_minus_1),
                -by_log_s * (1.0 - sh.u) * (e_by_r2 * sh.r2_minus_1 - e_by_log_kappa),
                -by_log_s * one_minus_v * (e_by_v * sh.v + e_by_q * sh.q),
                -by_log_s * e_by_q * sh.q * (1.0 - sh.w),
            ],
            axis=-1,
        )
        reached = np.isfinite(s)
        jacobian = np.where(reached[..., None], jacobian, 0.0)
        return np.asarray(free[..., 0, None] + np.log(s)), jacobian


# Shapes to start from: (m, u, v, w) from a narrow valley to a wide one, with short and long transitions.
_START_SHAPES = (
    (0.3, 0.3, 0.5, 0.5),
    (0.6, 0.3, 0.7, 0.7),
    (0.1, 0.2, 0.4, 0.5),
    (0.3, 0.8, 0.3, 0.8),
    (0.5, 0.05, 0.9, 0.6),
    (0.8, 0.5, 0.5, 0.2),
)
# ... each with B_opt at these places of the range of reached batch sizes, in units of its logarithm
_START_PLACES = (0.15, 0.35, 0.55, 0.8)


def starts(log_batch: FloatArray, observed_log_steps: FloatArray) -> FloatArray:
    """Return starting points: the observed minimum of E first, then a grid of shapes and places.

    Parameters
    ----------
    log_batch, observed_log_steps : ndarray, shape (n,)
        The points that reached the target.

    Returns
    -------
    ndarray, shape (k, 6)
        Every one has B_min below the smallest reached batch size.
    """
    lowest, highest = float(log_batch.min()), float(log_batch.max())
    at_minimum = float(log_batch[np.argmin(log_batch + observed_log_steps)])
    places = [at_minimum, *(lowest + p * (highest - lowest) for p in _START_PLACES)]
    found = []
    for log_b_opt in places:
        for m, u, v, w in _START_SHAPES:
            shape_m = min(m, 0.8 * float(np.exp(lowest - log_b_opt)))
            logits = [float(np.log(x / (1.0 - x))) for x in (shape_m, u, v, w)]
            free = np.array([0.0, log_b_opt, *logits])
            free[0] = float(np.median(observed_log_steps - log_steps(free, log_batch)))
            found.append(free)
    return np.array(found)


def log_numbers(free: FloatArray) -> dict[str, FloatArray]:
    """Return the natural logs of b_min, b_opt, e_min (tokens), s_min, s_opt (steps) for ``free`` (..., 6)."""
    log_s_opt, log_b_opt = free[..., 0], free[..., 1]
    return {
        "b_min": log_b_opt + log_expit(free[..., 2]),
        "b_opt": log_b_opt,
        "e_min": log_b_opt + log_s_opt,
        "s_min": log_s_opt + log_expit(free[..., 4]) + log_expit(free[..., 5]),
        "s_opt": log_s_opt,
    }


def params(free: FloatArray) -> dict[str, float]:
    """Return the parameters of the three pieces, in steps and tokens.

    Parameters
    ----------
    free : ndarray, shape (6,)

    Returns
    -------
    dict
        s_min, s_1, s_opt, s_2 (steps), e_min (tokens), c, and the dependent b_minus_1, b_0, a_1, a_0.
    """
    sh = _Shape.of(np.asarray(free, dtype=float))
    s_opt = float(np.exp(free[0]))
    e_min = float(np.exp(free[0] + free[1]))
    return {
        "s_min": s_opt * float(sh.q[0]),
        "s_1": s_opt * float(sh.v[0]),
        "s_opt": s_opt,
        "s_2": s_opt * (1.0 + float(sh.r2_minus_1[0])),
        "c": float(sh.kappa[0]) * e_min / s_opt**2,
        "e_min": e_min,
        "b_minus_1": float(sh.beta[0]) * e_min * s_opt,
        "b_0": float(sh.b0[0]) * e_min,
        "a_1": float(sh.m[0]) * e_min / s_opt,
        "a_0": float(sh.a0[0]) * e_min,
    }


def free_from_params(params: Mapping[str, float]) -> FloatArray:
    """Return the free parameters of a law given by s_min, s_1, s_opt, s_2, c, e_min.

    Raises
    ------
    ValueError
        If the six numbers break S_min < S_1 < S_opt < S_2, positivity, or A_0 > 0.
    """
    s_opt, e_min = params["s_opt"], params["e_min"]
    q, v, r2 = (params[key] / s_opt for key in ("s_min", "s_1", "s_2"))
    m = 2.0 * params["c"] * (params["s_2"] - s_opt) * s_opt / e_min
    u = (r2 - 1.0) * m / (2.0 * (1.0 - m)) if m < 1.0 else np.inf
    shape = {"m": m, "u": u, "v": v, "w": q / v}
    outside = [key for key, x in shape.items() if not 0.0 < x < 1.0]
    if outside:
        raise ValueError(f"no revised law: {', '.join(outside)} outside (0, 1) for {dict(params)}")
    return np.array([np.log(s_opt), np.log(e_min / s_opt), *(np.log(x / (1.0 - x)) for x in shape.values())])


def tokens_at(params: Mapping[str, float], steps: FloatArray) -> FloatArray:
    """Return E(S), DESIGN 3.1.

    Parameters
    ----------
    params : mapping
        s_min, s_1, s_opt, s_2, c, e_min; steps and tokens.
    steps : ndarray
        Optimizer steps.

    Returns
    -------
    ndarray
        Tokens, of the shape of ``steps``; NaN at or below S_min.
    """
    s = np.asarray(steps, dtype=float)
    s_min, s_1, s_opt, s_2 = (params[key] for key in ("s_min", "s_1", "s_opt", "s_2"))
    c, e_min = params["c"], params["e_min"]
    rise = 2.0 * c * (s_opt - s_1) * (s_1 - s_min)
    with np.errstate(divide="ignore", invalid="ignore"):
        initial = rise * (s_1 - s_min) / (s - s_min) + e_min + c * (s_opt - s_1) ** 2 - rise
    transition = c * (s - s_opt) ** 2 + e_min
    asymptotic = 2.0 * c * (s_2 - s_opt) * s + e_min - c * (s_2**2 - s_opt**2)
    tokens = np.where(s <= s_1, initial, np.where(s <= s_2, transition, asymptotic))
    return np.where(s > s_min, tokens, np.nan)
