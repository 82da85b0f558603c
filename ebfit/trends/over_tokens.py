"""B_opt and B_min against tokens: the power law of one group, and the one that several groups share."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.stats import chi2, norm

from ebfit.files import Agreement, Trend
from ebfit.fitting import TargetFit
from ebfit.laws import FloatArray
from ebfit.trends.group import Group
from ebfit.trends.line import Points, fit_line

LEAST_TARGETS = 3  # two make any line
LEAST_RANGE = float(np.log(1.2))  # of D: targets reached with the same tokens make no line over tokens
_SHUFFLE_SEED = 20260105  # for the replicates of one group against those of another

Number = Literal["b_opt", "b_min"]


@dataclass(frozen=True)
class Bound:
    """A batch size only known to lie beyond ``log_bound``: below it where ``side`` is 1, above it where it is -1."""

    log_bound: float
    side: int
    sd: float


def power_law(groups: Sequence[Group], number: Number, confidence: float) -> Trend | None:
    """Fit B = k D^exponent with D = E_min in log-log to the targets of one or more groups.

    Parameters
    ----------
    groups : sequence of Group
        Targets of different groups have independent errors.
    number : {"b_opt", "b_min"}
    confidence : float
        Of the intervals.

    Returns
    -------
    Trend or None
        None with fewer than `LEAST_TARGETS` targets whose D and batch size are known, or if they share one D or nearly.
    """
    points = _points(groups, number)
    if len(points.x) < LEAST_TARGETS or np.ptp(points.x) < LEAST_RANGE:
        return None
    line = fit_line(points, confidence)
    if line.coefficient is None:
        return None
    reach = line.quantile * line.slope_sd
    return Trend(
        k=line.coefficient,
        exponent=line.slope,
        exponent_low=line.slope - reach,
        exponent_high=line.slope + reach,
        d_low=float(np.exp(points.x.min())),
        d_high=float(np.exp(points.x.max())),
        pivot_tokens=float(np.exp(line.pivot)),
        pivot_batch_tokens=float(np.exp(line.height)),
        log_sd_at_pivot=line.height_sd,
        exponent_sd=line.slope_sd,
        quantile=line.quantile,
        scatter_log_sd=line.scatter_sd,
        n_targets=len(points.x),
    )


def agreement(trends: Sequence[Trend]) -> Agreement | None:
    """Test whether groups share one line: the likelihood ratio of a line each against one, given the groups' lines.

    Parameters
    ----------
    trends : sequence of Trend
        One per group that has any.

    Returns
    -------
    Agreement or None
        None with fewer than two lines.
    """
    if len(trends) < 2:
        return None
    middle = float(np.mean([np.log(trend.d_low * trend.d_high) / 2.0 for trend in trends]))
    known = [_height_and_slope(trend, middle) for trend in trends]
    lines = np.array([line for line, _ in known])
    precision = np.linalg.inv(np.array([covariance for _, covariance in known]))
    common = np.linalg.solve(precision.sum(axis=0), np.einsum("gij,gj->i", precision, lines))
    statistic = float(np.einsum("gi,gij,gj->", lines - common, precision, lines - common))
    degrees = 2 * (len(trends) - 1)
    return Agreement(
        statistic=statistic, degrees_of_freedom=degrees, p_value=float(chi2.sf(statistic, degrees))
    )


def bound_of(fit: TargetFit, number: Number) -> Bound | None:
    """Return the one-sided bound of a target, as soft as the side of its replicates towards the bound is wide."""
    interval = fit.numbers[number]
    if interval.status == "upper_bound" and interval.high is not None:
        side, log_bound = 1, float(np.log(interval.high))
    elif interval.status == "lower_bound" and interval.low is not None:
        side, log_bound = -1, float(np.log(interval.low))
    else:
        return None
    draws = fit.draws[number]
    low, middle, high = np.quantile(draws, [norm.cdf(-1.0), 0.5, norm.cdf(1.0)])
    return Bound(log_bound, side, float(high - middle if side > 0 else middle - low))


def _points(groups: Sequence[Group], number: Number) -> Points:
    """Collect what is known of a batch size over tokens.

    A bound on B_min counts at its target's E_min. A bound on B_opt has no E_min, only the fewest tokens that a run
    took, which are as many or more. A line that rises and lies above a lower bound at E_min does so there too, and a
    lower bound counts there. Of an upper bound the like cannot be said, and it is left out.
    """
    known: list[tuple[int, TargetFit]] = []
    bounds: list[tuple[float, Bound]] = []
    for g, group in enumerate(sorted(groups, key=lambda group: group.name or "")):
        for fit, fewest in zip(group.fits, group.fewest_tokens, strict=True):
            # B_min may be known where B_opt, and with it D, is only a bound
            if fit.numbers[number].status == "ok" and fit.e_min is not None:
                known.append((g, fit))
            bound = bound_of(fit, number)
            if bound is not None and fit.e_min is not None:
                bounds.append((float(np.log(fit.e_min)), bound))
            elif bound is not None and number == "b_opt" and bound.side < 0:
                bounds.append((float(np.log(fewest)), bound))
    known.sort(key=lambda item: (item[0], item[1].e_min))
    block = np.array([g for g, _ in known], dtype=np.intp)
    values = [fit.numbers[number].value for _, fit in known]
    return Points(
        x=np.log(np.array([fit.e_min for _, fit in known], dtype=float)),
        y=np.log(np.array(values, dtype=float)),
        x_draws=_shuffled([fit.draws["e_min"] for _, fit in known], block),
        y_draws=_shuffled([fit.draws[number] for _, fit in known], block),
        block=block,
        bound_x=np.array([x for x, _ in bounds]),
        bound=np.array([bound.log_bound for _, bound in bounds]),
        bound_sd=np.array([bound.sd for _, bound in bounds]),
        bound_side=np.array([bound.side for _, bound in bounds], dtype=float),
    )


def _shuffled(draws: Sequence[FloatArray], block: np.ndarray[tuple[int], np.dtype[np.intp]]) -> FloatArray:
    """Stack replicates; those of every group but the first in an order of their own.

    All groups are bootstrapped from one seed, and replicate 17 of two groups may share its luck, which their runs do
    not.
    """
    rows = []
    for row, g in zip(draws, block, strict=True):
        order = np.random.default_rng([_SHUFFLE_SEED, int(g)]).permutation(len(row)) if g else slice(None)
        rows.append(row[order])
    return np.array(rows)


def _height_and_slope(trend: Trend, log_tokens: float) -> tuple[FloatArray, FloatArray]:
    """Return ln B at some tokens with the exponent, shape (2,), and their covariance (2, 2)."""
    assert trend.pivot_tokens is not None
    assert trend.pivot_batch_tokens is not None
    assert trend.log_sd_at_pivot is not None
    assert trend.exponent_sd is not None
    away = log_tokens - float(np.log(trend.pivot_tokens))
    height = float(np.log(trend.pivot_batch_tokens)) + trend.exponent * away
    variance = trend.exponent_sd**2
    covariance = [
        [trend.log_sd_at_pivot**2 + variance * away**2, variance * away],
        [variance * away, variance],
    ]
    return np.array([height, trend.exponent]), np.array(covariance)
