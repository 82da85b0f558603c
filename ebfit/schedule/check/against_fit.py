"""Are the batch sizes between B_min and a multiple of B_opt, as far as a fit can tell?"""

import math
from collections.abc import Iterator

import numpy as np

from ebfit.files import PlanTrends, Trend
from ebfit.schedule.check.finding import Finding, note, warning
from ebfit.schedule.check.run import Run
from ebfit.schedule.cost import Cost
from ebfit.text import short

# Far above B_opt: more tokens than this for the same loss or, where the fit does not tell, so many times B_opt.
_DEAR, _FAR = 1.2, 4.0
_CLEARLY = 0.95  # below B_min by less than this factor is within any rounding of sizes and starts


def against_fit(run: Run, trends: PlanTrends, cost: Cost | None) -> Iterator[Finding]:
    """Compare every stage with B_min and B_opt at its last token; only of stages in order.

    There both are largest: a batch below B_min is worst off at the end of its stage, and one that is too large for the
    end of its stage was so from its beginning.
    """
    if run.seq_len is None:
        yield note("the sequence length is not known, so the fit is not compared with: give --seq-len.")
        return
    ends = []
    for index, stage in enumerate(run.stages):
        if stage.steps == 0:
            continue
        if stage.end_sequence is None:
            yield note(
                f"nothing says where the run ends, so {run.stage(index)} is compared with the fit where it begins. "
                "Give --total-tokens."
            )
        end = (stage.end_sequence or stage.first_sequence) * run.seq_len
        if end > 0:
            ends.append(end)
            batch = stage.batch * run.seq_len
            yield from _below(
                run, index, trends.b_min_vs_tokens, batch, stage.first_sequence * run.seq_len, end
            )
            yield from _above(run, index, trends.b_opt_vs_tokens, cost, batch, end)
    yield from _extrapolation(trends, max(ends, default=0))


def _below(run: Run, index: int, b_min: Trend | None, batch: int, start: int, end: int) -> Iterator[Finding]:
    if b_min is None or batch >= _CLEARLY * b_min.batch_at(end)[0]:
        return
    from_tokens = max(_tokens_at(b_min, batch), start)
    since = "all along" if from_tokens == start else f"from {short(from_tokens)} tokens on"
    yield warning(
        f"{run.stage(index)} is below B_min {since}: at its end, {short(end)} tokens, B_min is "
        f"{_with_band(b_min, end)}. Below it, no number of steps reaches the losses that are due then: raise the batch "
        "earlier."
    )


def _above(
    run: Run, index: int, b_opt: Trend | None, cost: Cost | None, batch: int, end: int
) -> Iterator[Finding]:
    if b_opt is None:
        return
    ratio = batch / b_opt.batch_at(end)[0]
    if ratio <= 1.0:
        return
    more = None if cost is None else math.exp(float(cost.log_cost_at(np.array(math.log(ratio)))))
    if ratio > _FAR if more is None else more > _DEAR:
        costs = "" if more is None else f", which takes {more - 1:.0%} more tokens to the same loss"
        yield warning(
            f"{run.stage(index)} is {ratio:.2g} times B_opt even at its end{costs}: at {short(end)} tokens B_opt is "
            f"{_with_band(b_opt, end)}. A smaller batch reaches the same loss with fewer tokens."
        )


def _extrapolation(trends: PlanTrends, end: int) -> Iterator[Finding]:
    known = [trend.d_high for trend in (trends.b_min_vs_tokens, trends.b_opt_vs_tokens) if trend is not None]
    if known and end > max(known):
        yield note(
            f"the fit was measured up to {short(max(known))} tokens, and the schedule goes to {short(end)}, "
            f"{_times(end / max(known))} times as far: beyond, B_min and B_opt are extrapolated."
        )


def _times(ratio: float) -> str:
    return f"{ratio:.3g}" if ratio < 100.0 else f"{ratio:,.0f}"


def _tokens_at(trend: Trend, batch: int) -> float:
    """Return the tokens at which a rising trend is at ``batch``."""
    if trend.exponent <= 0.0:
        return 0.0
    return float((batch / trend.batch_at(1.0)[0]) ** (1.0 / trend.exponent))


def _with_band(trend: Trend, tokens: int) -> str:
    value, low, high = trend.batch_at(tokens)
    band = f" ({short(low)} to {short(high)})" if math.isfinite(low) and math.isfinite(high) else ""
    return f"{short(value)}{band}"
