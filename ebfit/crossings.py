"""From one loss curve to the steps at which it reaches target losses, with errors and their correlation.

The logged loss is noisy, the noise grows as the batch shrinks, and a curve is steep early and flat late. So:

1. rows are averaged in narrow bins of log step (rows far off their bin, such as loss spikes, are clipped);
2. the bins are smoothed by local quadratic regression in log step, its bandwidth chosen place by place by how
   well left-out points are predicted, with outliers weighted down;
3. the smooth curve is made non-increasing (antitonic regression), so that a curve which wanders about a level
   crosses it where its average does, and not at the first lucky dip: the *sustained* crossing;
4. the error of the smooth loss, from the scatter about it and the autocorrelation of that scatter, divided by
   the slope is the error of log S; the smoother is linear, which also gives the covariance between targets.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression

FloatArray = NDArray[np.float64]
Outcome = Literal["reached", "censored", "before_start"]

MIN_ROWS = 5
_MAX_BINS = 300
_BANDWIDTHS = (0.2, 0.28, 0.4, 0.56, 0.8, 1.1)  # half-widths in log step
_JUDGED_OVER = 0.5  # log steps around a place over which its bandwidth is judged
_LEFT_OUT = 0.1  # log steps left out around a point that is to be predicted
_AS_GOOD_AS = 1.3  # prediction errors within this factor of the best are taken for equal
_MIN_NEIGHBOURS = 6  # a local quadratic wants a few more points than coefficients
_NOISE_BANDWIDTH = 0.7  # over which the scatter is taken to be of one size
_SLOPE_BANDWIDTH = 0.4  # a slope is noisier than a level, so it is read over a wider window
_NEIGHBOURHOOD = 9  # points about one that say whether it is far off
_FAR_OFF = 10.0  # standard deviations
_ROBUST_PASSES = 3
_OUTLIER_SDS = 6.0  # where an outlier loses its last weight
_DIVERGED_NATS = 0.5  # a smooth loss this far above its earlier minimum, to the end, is no longer training


@dataclass(frozen=True)
class SmoothCurve:
    """A loss curve smoothed on a grid of log steps.

    Attributes
    ----------
    log_steps : ndarray, shape (m,)
        Strictly rising.
    loss : ndarray, shape (m,)
        Non-increasing.
    loss_covariance : ndarray, shape (m, m)
        Of the errors of ``loss`` before it was made non-increasing.
    log_step_slope : ndarray, shape (m,)
        How fast the loss falls per unit of log step, positive.
    diverged_after : float or None
        The step after which the curve was left out because it diverged.
    """

    log_steps: FloatArray
    loss: FloatArray
    loss_covariance: FloatArray
    log_step_slope: FloatArray
    diverged_after: float | None


@dataclass(frozen=True)
class Crossings:
    """Where one run reaches each of several target losses.

    Attributes
    ----------
    outcome : tuple of str
        Per target: reached, censored (the run ends above the target) or before_start (the first step looked at
        is below the target already).
    log_steps : ndarray, shape (T,)
        Natural log of the steps at the crossing; of the last step where censored; NaN where before_start.
    covariance : ndarray, shape (T, T)
        Covariance of log steps over reached targets; zero rows and columns elsewhere.
    """

    outcome: tuple[Outcome, ...]
    log_steps: FloatArray
    covariance: FloatArray


def smooth(steps: FloatArray, loss: FloatArray) -> SmoothCurve:
    """Smooth a loss curve in log step.

    Parameters
    ----------
    steps : ndarray, shape (n,)
        Positive and strictly rising; at least `MIN_ROWS` of them.
    loss : ndarray, shape (n,)
        Finite.

    Returns
    -------
    SmoothCurve

    Raises
    ------
    ValueError
        If there are fewer than `MIN_ROWS` rows.
    """
    if len(steps) < MIN_ROWS:
        raise ValueError(f"a curve of {len(steps)} rows cannot be smoothed; {MIN_ROWS} are needed")
    x, y = _bin(np.log(steps), loss)
    level, weights = _smooth_at_best_bandwidth(x, y)
    diverged_after = None
    end = _divergence(level)
    if end is not None:
        diverged_after = float(np.exp(x[end]))
        x, y = x[: end + 1], y[: end + 1]
        level, weights = _smooth_at_best_bandwidth(x, y)

    residual = y - level
    leverage = np.clip(np.diag(weights), 0.0, 0.9)
    scatter = _local_sd(x, residual / np.sqrt(1.0 - leverage))
    inflation = _autocorrelation_inflation(residual / np.maximum(scatter, 1e-300))
    covariance = inflation * (weights * scatter**2) @ weights.T
    falling = isotonic_regression(level, increasing=False).x
    slope = _local_polynomial(x, _SLOPE_BANDWIDTH, degree=1, order=1) @ falling
    return SmoothCurve(x, falling, covariance, np.maximum(-slope, 1e-6), diverged_after)


def find(curve: SmoothCurve, targets: Sequence[float]) -> Crossings:
    """Find the sustained crossings of a smooth curve.

    Parameters
    ----------
    curve : SmoothCurve
    targets : sequence of float, length T
        Target losses, in any order.

    Returns
    -------
    Crossings
    """
    outcome: list[Outcome] = []
    log_steps = np.full(len(targets), np.nan)
    read_off = np.zeros((len(targets), len(curve.loss)))  # log step error as a combination of loss errors
    for t, target in enumerate(targets):
        below = np.flatnonzero(curve.loss <= target)
        if len(below) == 0:
            outcome.append("censored")
            log_steps[t] = curve.log_steps[-1]
            continue
        j = int(below[0])
        if j == 0:
            outcome.append("before_start")
            continue
        outcome.append("reached")
        share = (curve.loss[j - 1] - target) / (curve.loss[j - 1] - curve.loss[j])
        log_steps[t] = curve.log_steps[j - 1] + share * (curve.log_steps[j] - curve.log_steps[j - 1])
        slope = (1.0 - share) * curve.log_step_slope[j - 1] + share * curve.log_step_slope[j]
        read_off[t, j - 1] = (1.0 - share) / slope
        read_off[t, j] = share / slope
    return Crossings(tuple(outcome), log_steps, read_off @ curve.loss_covariance @ read_off.T)


def _bin(x: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Average rows in at most `_MAX_BINS` bins of equal width, clipping rows far from their bin's median."""
    width = (x[-1] - x[0]) / _MAX_BINS
    if len(x) <= _MAX_BINS or width == 0.0:
        return x, y
    index = np.minimum(((x - x[0]) / width).astype(int), _MAX_BINS - 1)
    starts = np.flatnonzero(np.diff(index, prepend=-1))
    counts = np.diff(starts, append=len(x))
    median = np.array([np.median(part) for part in np.split(y, starts[1:])])
    away = np.abs(y - np.repeat(median, counts))
    spread = np.array([np.median(part) for part in np.split(away, starts[1:])])
    # a bin of few rows has no spread of its own to speak of: take the typical one
    spread = np.where(counts >= 5, spread, np.median(spread))
    limit = np.repeat(5.0 * 1.4826 * spread, counts)
    centre = np.repeat(median, counts)
    kept = np.where(np.repeat(counts >= 3, counts), np.clip(y, centre - limit, centre + limit), y)
    return np.add.reduceat(x, starts) / counts, np.add.reduceat(kept, starts) / counts


def _local_polynomial(
    x: FloatArray,
    bandwidth: float | FloatArray,
    degree: int = 2,
    order: int = 0,
    trust: FloatArray | None = None,
    leave_out: float | None = None,
) -> FloatArray:
    """Return the matrix that maps values at x to the local polynomial fit (order 0) or its slope (order 1).

    Tricube weights within ``bandwidth`` (one for all places, or one each), widened where fewer than
    `_MIN_NEIGHBOURS` points lie inside. With ``leave_out`` the points within that distance do not take part, the
    point itself at least.
    """
    distance = np.abs(x[:, None] - x[None, :])
    neighbours = min(_MIN_NEIGHBOURS, len(x) - 1)
    reach = np.maximum(bandwidth, np.partition(distance, neighbours, axis=1)[:, neighbours] * 1.05)
    kernel = (1.0 - np.minimum(distance / reach[:, None], 1.0) ** 3) ** 3
    if trust is not None:
        kernel = kernel * trust[None, :]
    if leave_out is not None:
        kernel = np.where(distance <= leave_out, 0.0, kernel)
    offsets = (x[None, :] - x[:, None]) / reach[:, None]
    basis = np.stack([offsets**k for k in range(degree + 1)], axis=-1)
    weighted = kernel[..., None] * basis
    gram = weighted.swapaxes(-1, -2) @ basis
    ridge = 1e-10 * np.trace(gram, axis1=1, axis2=2) + 1e-12
    picked = np.zeros((len(x), degree + 1, 1))
    picked[:, order, 0] = 1.0 / reach**order
    coefficients = np.linalg.solve(gram + ridge[:, None, None] * np.eye(degree + 1), picked)
    return (weighted @ coefficients)[..., 0]


def _smooth_at_best_bandwidth(x: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the smooth values and the matrix that made them.

    Every place gets the widest bandwidth that predicts left-out points about as well as the best one does there:
    narrow where the curve bends (the end of warmup), wide where it is straight. The neighbours of a left-out
    point leave with it, since the wander of a loss is shared by neighbours and would pass for signal.
    """
    near = np.maximum(1.0 - ((x[:, None] - x[None, :]) / _JUDGED_OVER) ** 2, 0.0)
    near /= near.sum(axis=1, keepdims=True)
    errors = np.array(
        [
            near @ np.abs(y - _local_polynomial(x, candidate, leave_out=_LEFT_OUT) @ y)
            for candidate in _BANDWIDTHS
        ]
    )
    good = errors <= _AS_GOOD_AS * errors.min(axis=0)
    bandwidth = np.array(_BANDWIDTHS)[len(_BANDWIDTHS) - 1 - np.argmax(good[::-1], axis=0)]

    trust = _trust_by_neighbours(y)
    for _ in range(_ROBUST_PASSES + 1):
        weights = _local_polynomial(x, bandwidth, trust=trust)
        residual = y - weights @ y
        limit = _OUTLIER_SDS * np.maximum(_local_sd(x, residual), 1e-12)
        trust = np.maximum((1.0 - np.minimum(np.abs(residual) / limit, 1.0) ** 2) ** 2, 1e-6)
    return weights @ y, weights


def _trust_by_neighbours(y: FloatArray) -> FloatArray:
    """Return weights of 1, and next to none for points far off the median of the points around them.

    A first look, before anything is fitted: at the end of a curve a spike would draw the local fit to itself.
    """
    window = min(_NEIGHBOURHOOD, len(y))
    first = np.clip(np.arange(len(y)) - window // 2, 0, len(y) - window)
    around = sliding_window_view(y, window)[first]
    median = np.median(around, axis=1)
    spread = np.median(np.abs(around - median[:, None]), axis=1)
    # a stretch without scatter, such as rounded losses, must not make outliers of its neighbours
    spread = np.maximum(spread, np.median(spread))
    return np.where(np.abs(y - median) > _FAR_OFF * 1.4826 * spread, 1e-6, 1.0)


def _local_sd(x: FloatArray, residual: FloatArray) -> FloatArray:
    """Return the standard deviation of residuals about each x, from the local mean of absolute values."""
    distance = np.abs(x[:, None] - x[None, :])
    reach = max(_NOISE_BANDWIDTH, 12.0 * float(np.median(np.diff(x))))
    kernel = np.maximum(1.0 - (distance / reach) ** 2, 0.0)
    return 1.2533 * (kernel @ np.abs(residual)) / kernel.sum(axis=1)  # sd of a normal from its mean size


def _autocorrelation_inflation(standardised: FloatArray) -> float:
    """Return how much larger the variance of a mean is than for independent errors.

    One plus twice the autocorrelations up to the first that is not clearly positive.
    """
    r = standardised - standardised.mean()
    total = max(float(np.dot(r, r)), 1e-300)
    inflation = 1.0
    for lag in range(1, len(r) // 4):
        rho = float(np.dot(r[lag:], r[:-lag])) / total
        if rho < 2.0 / np.sqrt(len(r)):
            break
        inflation += 2.0 * rho
    return inflation


def _divergence(level: FloatArray) -> int | None:
    """Return the index of the minimum that a diverged curve never comes back to, or None."""
    lowest = int(np.argmin(level))
    tail = level[lowest + 1 :]
    if len(tail) and float(tail[-max(1, len(tail) // 4) :].min()) > level[lowest] + _DIVERGED_NATS:
        return max(lowest, MIN_ROWS - 1)
    return None
