"""A plan: the batch size over tokens, with the bands of B_min and B_opt that it follows."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from ebfit.files import Plan, PlanTrends, Trend
from ebfit.report.plots import style
from ebfit.report.plots.style import BATCHES
from ebfit.text import short

_BEFORE = 3.0  # how far the axis begins before the first change of batch size, as a factor
_POINTS = 200


def draw(plan: Plan) -> Figure:
    """Draw the stages of a plan over tokens, both axes logarithmic."""
    legend: style.Legend = {"plan": Line2D([], [], color=style.INK, linewidth=1.6)}
    trends = plan.trends or PlanTrends()
    named = {"b_min": trends.b_min_vs_tokens, "b_opt": trends.b_opt_vs_tokens}
    known = {name: trend for name, trend in named.items() if trend is not None}
    for name in known:
        look = BATCHES[name]
        legend[f"{look.symbol} of the fit"] = (style.band(look.colour), Line2D([], [], color=look.colour))
    start = _first_token(plan)
    measured = (
        max(start, min((trend.d_low for trend in known.values()), default=0.0)),
        min(plan.total_tokens, max((trend.d_high for trend in known.values()), default=0.0)),
    )
    if measured[0] < measured[1]:
        legend["measured"] = Patch(facecolor=style.PALE)
    if plan.decay_start_tokens is not None:
        legend["decay"] = Patch(facecolor="white", edgecolor=style.GREY, hatch="////", linewidth=0)
    layout = style.Layout(width=4.6, height=3.0, top=0.15, right=0.2, between_rows=0.3)
    figure, (panel,) = style.panels(1, layout, legend)
    axes = panel.axes
    style.log_axis(axes.xaxis, start, plan.total_tokens * 1.05, most=8)
    sizes = [stage.batch_tokens for stage in plan.stages]
    lines = [trend.batch_at(tokens)[0] for trend in known.values() for tokens in (start, plan.total_tokens)]
    style.log_axis(axes.yaxis, min([*sizes, *lines]) / 1.5, max([*sizes, *lines]) * 1.5, most=8)
    axes.set_xlabel("tokens consumed")
    axes.set_ylabel("batch size (tokens)")
    if measured[0] < measured[1]:
        axes.axvspan(*measured, color=style.PALE, linewidth=0, zorder=0)
    if plan.decay_start_tokens is not None:
        axes.axvspan(
            plan.decay_start_tokens,
            plan.total_tokens,
            facecolor="none",
            edgecolor=style.GREY,
            hatch="////",
            linewidth=0,
            zorder=0,
        )
    for name, trend in known.items():
        _trend(axes, trend, BATCHES[name].colour, start, plan.total_tokens)
    _stages(axes, plan, start)
    return figure


def _first_token(plan: Plan) -> float:
    """Return where the axis begins: the first stage starts at 0, which no logarithmic axis has."""
    first = plan.stages[0]
    changes = first.steps * first.batch_tokens
    return (
        max(changes / _BEFORE, float(first.batch_tokens))
        if len(plan.stages) > 1
        else plan.total_tokens / 100.0
    )


def _trend(axes: Axes, trend: Trend, colour: str, start: float, end: float) -> None:
    tokens = np.geomspace(start, end, _POINTS)
    value, low, high = np.array([trend.batch_at(float(t)) for t in tokens]).T
    axes.fill_between(tokens, low, high, color=colour, alpha=style.BAND_ALPHA, linewidth=0, zorder=1)
    axes.plot(tokens, value, color=colour, linewidth=1.0, zorder=2)


def _stages(axes: Axes, plan: Plan, start: float) -> None:
    edges = [max(float(stage.start_tokens), start) for stage in plan.stages] + [float(plan.total_tokens)]
    sizes = [stage.batch_tokens for stage in plan.stages]
    axes.step(edges, [*sizes, sizes[-1]], where="post", color=style.INK, linewidth=1.6, zorder=4)
    for left, right, batch in zip(edges, edges[1:], sizes, strict=False):
        axes.annotate(
            short(batch),
            ((left * right) ** 0.5, batch),
            xytext=(0, 3),
            textcoords="offset points",
            ha="center",
            va="bottom",
            fontsize=6.5,
            zorder=5,
        )
