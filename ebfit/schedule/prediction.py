"""How far a plan gets, in tokens of the best constant batch: a range between two suppositions.

What a run remembers of its earlier batch sizes is not settled by sweeps of constant batches, so two extremes are
followed (ours, not the paper's):

    by loss    all that counts is the loss it has reached: the rest of the way is as long as for a run that had the
               present batch size all along. Small batches early then save nothing.
    by steps   all that counts is the number of steps: the noise of earlier small batches is gone as soon as the batch
               is raised. Small batches early then save the most.

Both need only the cost E(B; ell) = ell phi(B / B_opt(ell)) of `ebfit.schedule.cost`, where the level ell of a loss is
the tokens that the best constant batch needs to it.
"""

from dataclasses import dataclass

import numpy as np

from ebfit.batch_plan import BatchPlan
from ebfit.files import Estimate, Trend
from ebfit.laws import FloatArray
from ebfit.schedule.cost import Cost

# Exponent of B_opt beyond which a lower loss would take fewer steps, and what a batch size reaches has two answers.
STEEPEST = 1.0
_DRAWS = 200
_STEP = 0.015  # of a grid over ln(level)


@dataclass(frozen=True)
class Reached:
    """The level that a plan reaches, tokens of the best constant batch, at the fit's confidence."""

    by_loss: Estimate
    by_steps: Estimate


def level_reached(plan: BatchPlan, trend: Trend, cost: Cost, confidence: float) -> Reached:
    """Follow a plan to the end of its stable phase.

    Parameters
    ----------
    plan : BatchPlan
    trend : Trend
        B_opt over tokens; its band is what makes the intervals.
    cost : Cost
    confidence : float
    """
    end = plan.decay_start_tokens or plan.total_tokens
    pieces = [
        (s.batch_tokens, min(s.end_tokens, end) - s.start_tokens) for s in plan.stages if s.start_tokens < end
    ]
    lines = _lines(trend)
    by_loss = np.array([_by_loss(pieces, line, cost) for line in lines])
    by_steps = np.array([_by_steps(pieces, line, cost) for line in lines])
    return Reached(_estimate(by_loss, confidence), _estimate(by_steps, confidence))


@dataclass(frozen=True)
class _Line:
    """ln B_opt = height + exponent (ln level - ln pivot)."""

    log_pivot: float
    height: float
    exponent: float

    def log_b_opt(self, log_level: FloatArray) -> FloatArray:
        return self.height + self.exponent * (log_level - self.log_pivot)


def _lines(trend: Trend) -> list[_Line]:
    """Return the trend's line, and draws of it within its errors; the first is the line itself."""
    pivot = trend.pivot_tokens or float(np.sqrt(trend.d_low) * np.sqrt(trend.d_high))
    height = float(np.log(trend.batch_at(pivot)[0]))
    rng = np.random.default_rng(0)  # the same plan every time
    moves = np.vstack([np.zeros(2), rng.standard_normal((_DRAWS, 2))])
    sds = [trend.log_sd_at_pivot or 0.0, trend.exponent_sd or 0.0]
    return [
        _Line(float(np.log(pivot)), height + up, min(trend.exponent + tilt, STEEPEST))
        for up, tilt in moves * sds
    ]


def _levels(pieces: list[tuple[int, int]]) -> FloatArray:
    """Return a grid of ln(level), from one token to far more than any plan could stand for.

    A batch far above B_opt takes many tokens to a level that is far below one step of it.
    """
    tokens = sum(length for _, length in pieces)
    return np.arange(0.0, np.log(tokens) + 5.0, _STEP)


def _by_steps(pieces: list[tuple[int, int]], line: _Line, cost: Cost) -> float:
    levels = _levels(pieces)
    steps = sum(length / batch for batch, length in pieces)
    batch = pieces[-1][0]
    log_tokens = levels + cost.log_cost_at(np.log(batch) - line.log_b_opt(levels))
    return float(np.exp(_last_below(log_tokens, np.log(steps * batch), levels)))


def _by_loss(pieces: list[tuple[int, int]], line: _Line, cost: Cost) -> float:
    levels = _levels(pieces)
    level = float(levels[0])
    for number, (batch, length) in enumerate(pieces):
        log_tokens = levels + cost.log_cost_at(np.log(batch) - line.log_b_opt(levels))
        # the tokens that a run of this batch size all along would have needed to where we are
        so_far = 0.0 if number == 0 else float(np.exp(np.interp(level, levels, log_tokens)))
        if np.isfinite(so_far):
            level = max(level, _last_below(log_tokens, np.log(so_far + length), levels))
    return float(np.exp(level))


def _last_below(log_tokens: FloatArray, log_available: float, levels: FloatArray) -> float:
    """Return the ln(level) that the tokens suffice for."""
    beyond = np.flatnonzero(~(log_tokens <= log_available))
    first = int(beyond[0]) if len(beyond) else len(levels)
    if first == 0:
        return float(levels[0])
    if first == len(levels) or not np.isfinite(log_tokens[first]):
        return float(levels[first - 1])
    return float(np.interp(log_available, log_tokens[first - 1 : first + 1], levels[first - 1 : first + 1]))


def _estimate(values: FloatArray, confidence: float) -> Estimate:
    tail = 0.5 * (1.0 - confidence)
    low, high = np.quantile(values[1:], [tail, 1.0 - tail])
    value = float(values[0])
    return Estimate(value=value, low=min(float(low), value), high=max(float(high), value), status="ok")
