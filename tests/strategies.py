"""Random laws, and what an exact law would have measured: shared by the tests of the mathematics.

Laws are drawn by their dimensionless shape, wide enough to hold anything a sweep may meet and away from the
degenerate corners (no transition, no valley), where six parameters stop being six.
"""

import numpy as np
from hypothesis import strategies as st
from scipy.special import logit

from ebfit.fitting import Observations
from ebfit.laws import FloatArray, revised


def between(low: float, high: float) -> st.SearchStrategy[float]:
    return st.floats(low, high, allow_nan=False, width=64)


@st.composite
def revised_laws(draw: st.DrawFn) -> FloatArray:
    """Free parameters of a revised law: decades of steps and tokens, and all usual shapes."""
    return np.array(
        [
            draw(between(np.log(1e2), np.log(1e6))),
            draw(between(np.log(1e3), np.log(1e8))),
            logit(draw(between(0.08, 0.85))),  # B_min / B_opt
            logit(draw(between(0.05, 0.9))),  # 1 would be A_0 = 0
            logit(draw(between(0.25, 0.9))),  # S_1 / S_opt
            logit(draw(between(0.15, 0.85))),  # S_min / S_1
        ]
    )


def random_revised_law(rng: np.random.Generator) -> FloatArray:
    """Draw a law from the ranges of `revised_laws`, uniformly and not with a taste for their ends."""
    shape = logit(rng.uniform([0.08, 0.05, 0.25, 0.15], [0.85, 0.9, 0.9, 0.85]))
    return np.append(rng.uniform(np.log([1e2, 1e3]), np.log([1e6, 1e8])), shape)


@st.composite
def classic_laws(draw: st.DrawFn) -> FloatArray:
    s_min = draw(between(np.log(1e2), np.log(1e6)))
    return np.array([s_min, s_min + draw(between(np.log(1e3), np.log(1e8)))])


@st.composite
def power_laws(draw: st.DrawFn) -> FloatArray:
    return np.array(
        [
            draw(between(np.log(1e2), np.log(1e6))),
            draw(between(np.log(1e3), np.log(1e8))),
            draw(between(np.log(0.3), np.log(2.0))),
            draw(between(np.log(0.2), np.log(1.5))),
        ]
    )


def batches_in_every_stage(free: FloatArray) -> FloatArray:
    """Log batch sizes: 3 in the asymptotic stage, 3 in the transition, 4 in the initial stage; rising."""
    p = revised.params(free)
    log_a_1 = np.log(p["a_1"])
    log_b_1, log_b_2 = (
        float(np.log(revised.tokens_at(p, np.array(p[key])) / p[key])) for key in ("s_1", "s_2")
    )
    return np.concatenate(
        [
            log_a_1 + (log_b_2 - log_a_1) * np.array([0.3, 0.6, 0.9]),
            log_b_2 + (log_b_1 - log_b_2) * np.array([0.15, 0.5, 0.85]),
            log_b_1 + np.log([1.2, 2.0, 4.0, 12.0]),
        ]
    )


def exact(
    log_batch: FloatArray, log_steps: FloatArray, censored_after: dict[float, float] | None = None
) -> Observations:
    """One target, measured without error; ``censored_after``: log batch size -> log of the last step."""
    more = censored_after or {}
    size = len(log_batch) + len(more)
    return Observations(
        log_batch=np.append(log_batch, list(more.keys())),
        log_steps=np.append(log_steps, list(more.values()))[:, None],
        censored=np.arange(size)[:, None] >= len(log_batch),
        covariance=np.zeros((size, 1, 1)),
    )
