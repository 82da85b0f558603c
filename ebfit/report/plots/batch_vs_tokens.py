"""B_min and B_opt against tokens: the targets, their power laws with bands, and the exponents that others published."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from ebfit.files import Estimate, Fit, GroupTrends, OverTokens, TargetRecord, Trend, Trends
from ebfit.report.numbers import confidence_text
from ebfit.report.order import targets_in_order
from ebfit.report.plots import style
from ebfit.report.plots.estimates import batch_limits, is_ok, legend_of, one_sided
from ebfit.report.plots.style import BATCHES, Limits
from ebfit.report.published import PUBLISHED, PublishedExponent

_TRENDS: dict[str, OverTokens] = {"b_min": "b_min_vs_tokens", "b_opt": "b_opt_vs_tokens"}
_BEFORE, _BEYOND = 1.6, 12.0  # how far the axis reaches before the first and beyond the last D, as factors
_SAMPLES = 100
_ALIKE = 0.02  # published exponents this close share a label
_LABEL_POINTS = 8.5  # height of a line of a label


def draw(fit: Fit) -> Figure | None:
    """Draw batch sizes against tokens, one panel per group; None where no trend was found."""
    if not any(_trends_of(fit.trends)):
        return None
    ordered = targets_in_order(fit)
    groups = list(dict.fromkeys(target.group for target in ordered))
    alone = len(groups) == 1
    own = {group.group: group for group in fit.trends.groups}
    has_names = groups != [None]
    layout = style.Layout(
        width=4.4 if alone else 2.9,
        height=3.1 if alone else 2.3,
        top=0.35 if has_names else 0.15,
        right=1.15 if alone else 0.15,
        between_rows=0.35,
    )
    figure, panels = style.panels(len(groups), layout, _legend(fit, alone))
    tokens_limits = _tokens_limits(fit)
    shown_batches = _batch_limits(fit, tokens_limits)
    for panel, group in zip(panels, groups, strict=True):
        axes = panel.axes
        style.log_axis(axes.xaxis, *tokens_limits, most=6)
        style.log_axis(axes.yaxis, *shown_batches, most=7)
        axes.tick_params(labelbottom=panel.is_last_in_column, labelleft=panel.is_first_column)
        if panel.is_last_in_column:
            axes.set_xlabel(r"tokens $D$ = $E_\mathrm{min}$ of a target")
        if panel.is_first_column:
            axes.set_ylabel("batch size (tokens)")
        if has_names:
            axes.set_title(style.plain(group or "(no group)", 36), fontweight="bold")
        for name, key in _TRENDS.items():
            trend = getattr(fit.trends if alone else own.get(group, Trends()), key)
            if trend is not None:
                _line(axes, trend, BATCHES[name].colour, tokens_limits)
            joint = None if alone else getattr(fit.trends, key)
            if joint is not None:
                _joint(axes, joint, BATCHES[name].colour, tokens_limits)
            _estimates(axes, name, [target for target in ordered if target.group == group])
        if alone and fit.trends.b_opt_vs_tokens is not None:
            _published(axes, fit.trends.b_opt_vs_tokens, tokens_limits)
    return figure


def _trends_of(trends: Trends | GroupTrends) -> list[Trend]:
    found = [getattr(trends, key) for key in _TRENDS.values()]
    more = [trend for group in getattr(trends, "groups", []) for trend in _trends_of(group)]
    return [trend for trend in found if trend is not None] + more


def _tokens_of(target: TargetRecord) -> float | None:
    """Return the D of a target: E_min, or where B_opt is a bound the fewest tokens that a run took."""
    reached = [point.tokens for point in target.points if not point.censored]
    return target.e_min or min(reached, default=None)


def _estimates(axes: Axes, name: str, targets: Sequence[TargetRecord]) -> None:
    look = BATCHES[name]
    for target in targets:
        tokens = _tokens_of(target)
        estimate = style.estimates(target).get(name, Estimate())
        if tokens is None:
            continue
        if is_ok(estimate) and estimate.value is not None:
            ends = [estimate.low or estimate.value], [estimate.high or estimate.value]
            axes.vlines([tokens], *ends, color=look.colour, linewidth=1.0, zorder=4)
            axes.plot(
                tokens,
                estimate.value,
                color=look.colour,
                marker=look.marker,
                markersize=4.0,
                markeredgecolor="white",
                markeredgewidth=0.5,
                linestyle="none",
                zorder=5,
                gid="estimate",
            )
        else:
            one_sided(axes, look, tokens, estimate)


def _line(axes: Axes, trend: Trend, colour: str, limits: Limits) -> None:
    """Draw a power law with its band: a full line where it was measured, a dashed one beyond."""
    tokens = np.geomspace(*limits, _SAMPLES)
    value, low, high = np.array([trend.batch_at(float(d)) for d in tokens]).T
    axes.fill_between(tokens, low, high, color=colour, alpha=style.BAND_ALPHA, linewidth=0, zorder=2)
    axes.plot(tokens, value, color=colour, linewidth=0.9, linestyle=(0, (4, 2)), zorder=3)
    measured = [trend.d_low, trend.d_high]
    axes.plot(
        measured, [trend.batch_at(d)[0] for d in measured], color=colour, linewidth=1.4, zorder=3, gid="trend"
    )


def _joint(axes: Axes, trend: Trend, colour: str, limits: Limits) -> None:
    ends = list(limits)
    axes.plot(
        ends,
        [trend.batch_at(d)[0] for d in ends],
        color=colour,
        linewidth=0.8,
        linestyle="dotted",
        zorder=3,
        gid="joint",
    )


def _published(axes: Axes, trend: Trend, limits: Limits) -> None:
    """Draw the published exponents through the pivot of B_opt, and label them outside the right edge."""
    pivot = trend.pivot_tokens or float(np.sqrt(trend.d_low * trend.d_high))
    batch = trend.batch_at(pivot)[0]
    labels: list[tuple[float, str]] = []
    for together in _alike():
        for item in together:
            ends = [batch * (d / pivot) ** item.exponent for d in limits]
            axes.plot(limits, ends, color=style.GREY, linewidth=0.7, zorder=1, gid="published")
        place = batch * (limits[1] / pivot) ** float(np.mean([item.exponent for item in together]))
        labels.append((place, "\n".join(_label(item) for item in reversed(together))))
    _beside(axes, labels)


def _alike() -> list[list[PublishedExponent]]:
    """Return the published exponents, rising, those together whose lines nobody could tell apart."""
    found: list[list[PublishedExponent]] = []
    for item in sorted(PUBLISHED, key=lambda item: item.exponent):
        if found and item.exponent - found[-1][-1].exponent < _ALIKE:
            found[-1].append(item)
        else:
            found.append([item])
    return found


def _label(item: PublishedExponent) -> str:
    sources = ",\n".join(item.arxiv)
    return f"{item.number.replace('about ', '≈ ')}: {sources}"


def _beside(axes: Axes, labels: Sequence[tuple[float, str]]) -> None:
    """Write labels outside the right edge at rising places, moved up where they would touch."""
    height = axes.get_window_extent().height * 72.0 / axes.figure.dpi
    free_from = -np.inf
    for place, text in sorted(labels):
        lines = text.count("\n") + 1
        at = float(axes.transAxes.inverted().transform(axes.transData.transform((1.0, place)))[1]) * height
        middle = max(at, free_from + 0.5 * lines * _LABEL_POINTS)
        free_from = middle + 0.5 * lines * _LABEL_POINTS + 1.0
        axes.annotate(
            text,
            (1.0, at / height),
            xytext=(1.03, middle / height),
            xycoords="axes fraction",
            textcoords="axes fraction",
            arrowprops={
                "arrowstyle": "-",
                "color": style.GREY,
                "linewidth": 0.4,
                "shrinkA": 1,
                "relpos": (0, 0.5),
            },
            fontsize=6.0,
            color="#666666",
            va="center",
            annotation_clip=False,
        )


def _legend(fit: Fit, alone: bool) -> style.Legend:
    confidence = confidence_text(fit)
    legend = legend_of(fit.targets, confidence)
    for name, key in _TRENDS.items():
        look = BATCHES[name]
        trend: Trend | None = getattr(fit.trends, key)
        if alone and trend is not None:
            line = Line2D([], [], color=look.colour, linewidth=1.4)
            legend[f"{look.symbol} ~ $D^{{{trend.exponent:.2f}}}$, {confidence} band"] = (
                style.band(look.colour),
                line,
            )
    if alone:
        legend["beyond what was measured"] = Line2D(
            [], [], color=style.INK, linewidth=0.9, linestyle=(0, (4, 2))
        )
        if fit.trends.b_opt_vs_tokens is not None:
            legend["published: arXiv numbers, from secondary sources"] = Line2D(
                [], [], color=style.GREY, linewidth=0.7
            )
    else:
        legend[f"the group's own line, {confidence} band"] = (
            Patch(facecolor=style.INK, alpha=style.BAND_ALPHA, linewidth=0),
            Line2D([], [], color=style.INK, linewidth=1.4),
        )
        legend["one line for all groups"] = Line2D([], [], color=style.INK, linewidth=0.8, linestyle="dotted")
    return legend


def _tokens_limits(fit: Fit) -> Limits:
    shown = [tokens for target in fit.targets if (tokens := _tokens_of(target)) is not None]
    ends = [end for trend in _trends_of(fit.trends) for end in (trend.d_low, trend.d_high)]
    return min([*shown, *ends]) / _BEFORE, max([*shown, *ends]) * _BEYOND


def _batch_limits(fit: Fit, tokens_limits: Limits) -> Limits:
    """Show every target and every line to the ends of the axis; of the bands, what fits."""
    low, high = batch_limits(fit.targets)
    lines = [trend.batch_at(end)[0] for trend in _trends_of(fit.trends) for end in tokens_limits]
    return min([low, *lines]) / 1.1, max([high, *lines]) * 1.1
