"""A straight line through points that are uncertain in both directions, correlated, and not quite on any line.

With residuals r = y - a - g x, the weights are the inverse of Cov(r) = V_yy - g (V_xy + V_yx) + g^2 V_xx + tau^2, where
the V are the errors that bootstrap replicates show and tau is the scatter of the points about the line. Minimising
r' Cov(r)^-1 r over a and g, through Cov(r) as well, is the exact treatment of errors in x (York et al., Am. J. Phys.
72, 367, 2004, here with correlated points); weights that held g fixed would bend the line towards the horizontal.

The weights decide only how efficient the line is. How sure it is comes from the same line through every replicate,
which keeps their heavy tails and correlations, plus what tau adds: so weights that are somewhat wrong cost width and
not coverage.
"""

from dataclasses import dataclass, replace

import numpy as np
from scipy.stats import norm
from scipy.stats import t as student_t

from ebfit.laws import FloatArray

# Replicates have heavy tails, and some come from another law: beyond this many robust standard deviations they count
# as if they were there, for the weights.
_CLIP = 3.0
# Errors known from replicates are never so alike that differences of points may count for everything.
_KEPT_CORRELATION = 0.9
_LEAST_SD = 1e-3  # an error of 0.1% matters to nobody, and keeps exact points from being infinitely sure
# Prior of the scatter, half of a Student's t with three degrees of freedom: batch sizes follow a power law to 10%, or
# worse if the points say so. It decides only where there are so few points that they cannot.
_SCATTER_PRIOR_SD = 0.1
_SCATTER_GRID = np.concatenate([[0.0], np.geomspace(0.003, 3.0, 60)])
_LOG_SCATTER_PRIOR = student_t.logpdf(_SCATTER_GRID / _SCATTER_PRIOR_SD, 3)
LARGEST_LOG = 700.0  # of what a float holds
_ROUNDS = 50
_CONVERGED = 1e-10


@dataclass(frozen=True)
class Points:
    """What a line goes through; natural logs.

    Attributes
    ----------
    x, y : ndarray, shape (n,)
    x_draws, y_draws : ndarray, shape (n, N)
        Bootstrap replicates, correlated between points of one block.
    block : ndarray of int, shape (n,)
        Points of different blocks have nothing in common, whatever their replicates look like.
    bound_x, bound, bound_sd : ndarray, shape (m,)
        Where y is only known to lie beyond ``bound``, softly so by ``bound_sd``.
    bound_side : ndarray, shape (m,)
        1 where the bound is an upper one, -1 where it is a lower one.
    """

    x: FloatArray
    y: FloatArray
    x_draws: FloatArray
    y_draws: FloatArray
    block: np.ndarray[tuple[int], np.dtype[np.intp]]
    bound_x: FloatArray
    bound: FloatArray
    bound_sd: FloatArray
    bound_side: FloatArray


@dataclass(frozen=True)
class Line:
    """y = height + slope (x - pivot), where the errors of height and slope are uncorrelated.

    ``height_sd`` and ``slope_sd`` are those that give intervals of the confidence asked for when multiplied by
    ``quantile``; ``scatter_sd`` is tau.
    """

    slope: float
    pivot: float
    height: float
    slope_sd: float
    height_sd: float
    quantile: float
    scatter_sd: float

    @property
    def coefficient(self) -> float | None:
        """The k of exp(y) = k exp(x)^slope; None where no float holds it, as of points that lie one above the other."""
        log_k = self.height - self.slope * self.pivot
        return float(np.exp(log_k)) if abs(log_k) < LARGEST_LOG else None


@dataclass(frozen=True)
class _Errors:
    """Covariances of the errors of points, shape (n, n) each."""

    xx: FloatArray
    xy: FloatArray
    yy: FloatArray

    def of_residuals(self, slope: float) -> FloatArray:
        return self.yy - slope * (self.xy + self.xy.T) + slope**2 * self.xx


def fit_line(points: Points, confidence: float) -> Line:
    """Fit a line to three points or more that differ in x.

    Parameters
    ----------
    points : Points
        Bounds enter as one-sided likelihoods.
    confidence : float
        Of the intervals.

    Returns
    -------
    Line
    """
    # The intercept is the height in the middle of the points: what units x is in must not matter.
    middle = float(points.x.mean())
    points = replace(
        points,
        x=points.x - middle,
        x_draws=points.x_draws - middle,
        bound_x=points.bound_x - middle,
    )
    errors = _errors(points)
    beta: FloatArray = np.polyfit(points.x, points.y, 1)[::-1].astype(float)  # intercept, slope
    scatter = 0.0
    for _ in range(_ROUNDS):
        covariance = errors.of_residuals(beta[1])
        scatter = scatter_sd(points.x, points.y, covariance)
        rows_x, rows_y, rows_variance = _bounds_as_points(points, beta, scatter)
        x, y = np.append(points.x, rows_x), np.append(points.y, rows_y)
        weights = _inverse(covariance + scatter**2 * np.eye(len(points.x)), rows_variance)
        residual = y - beta[0] - beta[1] * x
        # the x that the point most likely has, given how far it lies off the line
        true_x = x.copy()
        true_x[: len(points.x)] += (beta[1] * errors.xx - errors.xy) @ (weights @ residual)[: len(points.x)]
        instruments = weights @ np.column_stack([np.ones_like(x), true_x])
        design = np.column_stack([np.ones_like(x), x])
        new: FloatArray = np.linalg.solve(instruments.T @ design, instruments.T @ y).astype(float)
        moved = np.abs(new - beta).max()
        beta = new
        if moved < _CONVERGED * max(1.0, np.abs(beta).max()):
            break

    drawn = _lines_through_replicates(points, instruments, rows_x, rows_y)
    influence = np.linalg.solve(instruments.T @ design, instruments.T)
    added = np.append(np.full(len(points.x), scatter**2), rows_variance)
    more = (influence * added) @ influence.T  # covariance of intercept and slope
    total = clipped_covariance(drawn) + more
    pivot = -total[0, 1] / total[1, 1]
    at_pivot = np.array([1.0, pivot])
    quantile = float(norm.ppf(0.5 + 0.5 * confidence))
    widening = float(student_t.ppf(0.5 + 0.5 * confidence, len(points.x))) / quantile

    def sd(direction: FloatArray) -> float:
        """Return the error of a combination of intercept and slope: of the replicates, and of the rest."""
        off = np.abs(direction @ (drawn - beta[:, None]))
        return float(
            np.hypot(
                np.quantile(off, confidence) / quantile, widening * np.sqrt(direction @ more @ direction)
            )
        )

    return Line(
        slope=float(beta[1]),
        pivot=middle + float(pivot),
        height=float(at_pivot @ beta),
        slope_sd=sd(np.array([0.0, 1.0])),
        height_sd=sd(at_pivot),
        quantile=quantile,
        scatter_sd=scatter,
    )


def scatter_sd(x: FloatArray, y: FloatArray, covariance: FloatArray) -> float:
    """Return the scatter of points about their line beyond their errors.

    Parameters
    ----------
    x, y : ndarray, shape (n,)
    covariance : ndarray, shape (n, n)
        Of the errors of y - a - g x.

    Returns
    -------
    float
        Root of the posterior mean of tau^2: the restricted likelihood times the prior.
    """
    log_likelihood, log_det_normal = _over_scatter(x, y, covariance)
    log_posterior = log_likelihood - 0.5 * log_det_normal + _LOG_SCATTER_PRIOR
    share = np.exp(log_posterior - log_posterior.max()) * np.gradient(_SCATTER_GRID)
    return float(np.sqrt(np.sum(share * _SCATTER_GRID**2) / share.sum()))


def best_log_likelihood(x: FloatArray, y: FloatArray, covariance: FloatArray) -> float:
    """Return the log likelihood of the best line and the best scatter; the arguments are those of `scatter_sd`."""
    return float(np.max(_over_scatter(x, y, covariance)[0] + _LOG_SCATTER_PRIOR))


def _over_scatter(x: FloatArray, y: FloatArray, covariance: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return for every tau of the grid the log likelihood of the best line, and log det X' V^-1 X."""
    variances, axes = np.linalg.eigh(covariance)
    ones = axes.T @ np.ones_like(x)
    x, y = axes.T @ (x - x.mean()), axes.T @ (y - y.mean())
    spread = np.maximum(variances, 0.0) + _LEAST_SD**2 + _SCATTER_GRID[:, None] ** 2
    weights = 1.0 / spread
    n_00, n_01, n_11 = weights @ ones**2, weights @ (ones * x), weights @ x**2
    b_0, b_1 = weights @ (ones * y), weights @ (x * y)
    determinant = n_00 * n_11 - n_01**2
    explained = (n_11 * b_0**2 - 2.0 * n_01 * b_0 * b_1 + n_00 * b_1**2) / determinant
    misfit = weights @ y**2 - explained
    return -0.5 * (np.log(spread).sum(axis=1) + misfit), np.log(determinant)


def _errors(points: Points) -> _Errors:
    """Return the errors of the points as their replicates show them."""
    n = len(points.x)
    together = clipped_covariance(np.concatenate([points.x_draws, points.y_draws]))
    same = points.block[:, None] == points.block
    kept = np.where(same, _KEPT_CORRELATION, 0.0)
    np.fill_diagonal(kept, 1.0)
    floor = _LEAST_SD**2 * np.eye(n)
    return _Errors(xx=kept * together[:n, :n], xy=kept * together[:n, n:], yy=kept * together[n:, n:] + floor)


def clipped_covariance(draws: FloatArray) -> FloatArray:
    """Return the covariance of rows of replicates, each row clipped where its tails are heavy."""
    low, middle, high = np.quantile(draws, [norm.cdf(-1.0), 0.5, norm.cdf(1.0)], axis=1)
    reach = _CLIP * 0.5 * (high - low)
    off = np.clip(draws - middle[:, None], -reach[:, None], reach[:, None])
    return off @ off.T / draws.shape[1]


def _bounds_as_points(
    points: Points, beta: FloatArray, scatter: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return x, y and variance of the points that pull at the line as the one-sided likelihoods do here."""
    sd = np.hypot(points.bound_sd, scatter)
    line = beta[0] + beta[1] * points.bound_x
    z = points.bound_side * (points.bound - line) / sd
    pull = np.exp(norm.logpdf(z) - norm.logcdf(z))  # slope of the log likelihood, in units of 1 / sd
    curvature = np.maximum(pull * (pull + z), 1e-12)
    return points.bound_x, line - points.bound_side * pull * sd / curvature, sd**2 / curvature


def _inverse(covariance: FloatArray, more_variances: FloatArray) -> FloatArray:
    """Return the inverse of a covariance with more, independent points appended."""
    n = len(covariance)
    inverse = np.zeros((n + len(more_variances),) * 2)
    inverse[:n, :n] = np.linalg.inv(covariance)
    inverse[n:, n:] = np.diag(1.0 / more_variances)
    return inverse


def _lines_through_replicates(
    points: Points, instruments: FloatArray, rows_x: FloatArray, rows_y: FloatArray
) -> FloatArray:
    """Return intercepts and slopes of the same line through every replicate, shape (2, N)."""
    count = points.x_draws.shape[1]
    x = np.concatenate([points.x_draws, np.tile(rows_x[:, None], count)])
    y = np.concatenate([points.y_draws, np.tile(rows_y[:, None], count)])
    ones = instruments.sum(axis=0)[:, None]
    by_x, by_y = instruments.T @ x, instruments.T @ y
    determinant = ones[0] * by_x[1] - ones[1] * by_x[0]
    return np.array(
        [
            (by_y[0] * by_x[1] - by_y[1] * by_x[0]) / determinant,
            (ones[0] * by_y[1] - ones[1] * by_y[0]) / determinant,
        ]
    )
