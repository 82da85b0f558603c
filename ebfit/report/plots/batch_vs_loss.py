"""B_min and B_opt against target loss, with their intervals: how the batch size should grow in training."""

from collections.abc import Sequence
from itertools import groupby

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.transforms import ScaledTranslation

from ebfit.files import Estimate, Fit, TargetRecord
from ebfit.report.numbers import confidence_text
from ebfit.report.order import targets_in_order
from ebfit.report.plots import style
from ebfit.report.plots.style import BATCHES, Limits

_ARROW = 1.6  # length of the arrow of a one-sided estimate, as a factor
_FAR = 20.0  # how far beyond the batch sizes an interval is still shown, as a factor


def draw(fit: Fit) -> Figure | None:
    """Draw batch sizes against loss, one panel per group; None where no batch size is identified."""
    if not any(_has_number(e) for target in fit.targets for e in style.estimates(target).values()):
        return None
    ordered = targets_in_order(fit)
    groups = list(dict.fromkeys(target.group for target in ordered))
    has_names = groups != [None]
    alone = len(groups) == 1
    layout = style.Layout(
        width=4.2 if alone else 2.6,
        height=3.0 if alone else 2.2,
        top=0.35 if has_names else 0.15,
        right=0.15,
        between_rows=0.35,
    )
    figure, panels = style.panels(len(groups), layout, _legend(fit.targets, confidence_text(fit)))
    loss_limits = _loss_limits([target.loss for target in fit.targets])
    batch_limits = _batch_limits(fit.targets)
    for panel, group in zip(panels, groups, strict=True):
        axes = panel.axes
        targets = [target for target in ordered if target.group == group]
        axes.set_xlim(loss_limits[1], loss_limits[0])  # training goes from left to right
        style.log_axis(axes.yaxis, *batch_limits, most=7)
        axes.tick_params(labelbottom=panel.is_last_in_column, labelleft=panel.is_first_column)
        if panel.is_last_in_column:
            axes.set_xlabel("target loss (falls as training goes on)")
        if panel.is_first_column:
            axes.set_ylabel("batch size (tokens)")
        if has_names:
            axes.set_title(style.plain(group or "(no group)", 36), fontweight="bold")
        _batches_that_were_run(axes, targets)
        for name in BATCHES:
            _estimates(axes, name, targets)
    return figure


def _batches_that_were_run(axes: Axes, targets: Sequence[TargetRecord]) -> None:
    batches = [point.batch_tokens for target in targets for point in target.points]
    if batches:
        axes.axhspan(min(batches), max(batches), color=style.PALE, linewidth=0, zorder=0, gid="run")


def _estimates(axes: Axes, name: str, targets: Sequence[TargetRecord]) -> None:
    """Draw one batch size: a line with a band where targets side by side are two-sided, arrows for bounds."""
    look = BATCHES[name]
    found = [(target.loss, style.estimates(target).get(name, Estimate())) for target in targets]
    for is_ok, neighbours in groupby(found, key=lambda pair: _is_ok(pair[1])):
        if is_ok:
            _two_sided(axes, look, list(neighbours))
        else:
            for loss, estimate in neighbours:
                _one_sided(axes, look, loss, estimate)


def _two_sided(axes: Axes, look: style.BatchStyle, found: Sequence[tuple[float, Estimate]]) -> None:
    losses = [loss for loss, _ in found]
    values = [estimate.value or 0.0 for _, estimate in found]
    lows = [estimate.low or value for (_, estimate), value in zip(found, values, strict=True)]
    highs = [estimate.high or value for (_, estimate), value in zip(found, values, strict=True)]
    axes.fill_between(losses, lows, highs, color=look.colour, alpha=style.BAND_ALPHA, linewidth=0, zorder=2)
    axes.vlines(losses, lows, highs, color=look.colour, linewidth=1.0, zorder=3)
    axes.plot(losses, values, color=look.colour, marker=look.marker, markersize=3.5, linewidth=1.2, zorder=4)


def _one_sided(axes: Axes, look: style.BatchStyle, loss: float, estimate: Estimate) -> None:
    bound = style.bound(estimate)
    if bound is None:
        return
    end = bound / _ARROW if estimate.status == "upper_bound" else bound * _ARROW
    aside = ScaledTranslation(look.aside_points / 72.0, 0.0, axes.figure.dpi_scale_trans)
    axes.annotate(
        "",
        (loss, end),
        (loss, bound),
        xycoords=axes.transData + aside,
        arrowprops={"arrowstyle": "->", "color": look.colour, "linewidth": 1.0, "shrinkA": 0, "shrinkB": 0},
        zorder=4,
    )
    axes.plot(
        loss,
        bound,
        color=look.colour,
        marker="_",
        markersize=6,
        markeredgewidth=1.4,
        zorder=4,
        transform=axes.transData + aside,
        gid=estimate.status,
    )


def _is_ok(estimate: Estimate) -> bool:
    return estimate.status == "ok" and estimate.value is not None


def _has_number(estimate: Estimate) -> bool:
    return _is_ok(estimate) or style.bound(estimate) is not None


def _legend(targets: Sequence[TargetRecord], confidence: str) -> style.Legend:
    legend: style.Legend = {}
    for name, look in BATCHES.items():
        statuses = {style.estimates(t)[name].status for t in targets if name in style.estimates(t)}
        if "ok" in statuses:
            line = Line2D([], [], color=look.colour, marker=look.marker, markersize=3.5, linewidth=1.2)
            legend[f"{look.symbol}, {confidence} interval"] = (style.band(look.colour), line)
        for status, arrow in (("upper_bound", r"$\downarrow$"), ("lower_bound", r"$\uparrow$")):
            if status in statuses:
                label = f"{status.replace('_', ' ')} of {look.symbol}"
                legend[label] = Line2D(
                    [], [], color=look.colour, marker=arrow, markersize=7, linestyle="none"
                )
    if any(target.points for target in targets):
        legend["batch sizes that were run"] = Patch(facecolor=style.PALE)
    return legend


def _loss_limits(losses: Sequence[float]) -> Limits:
    room = 0.06 * (max(losses) - min(losses)) or 0.05 * abs(losses[0]) or 1.0
    return min(losses) - room, max(losses) + room


def _batch_limits(targets: Sequence[TargetRecord]) -> Limits:
    """Show what was run and every number found; of an interval that leaves both far behind, only a part."""
    shown = [point.batch_tokens for target in targets for point in target.points]
    ends: list[float] = []
    for target in targets:
        for estimate in style.estimates(target).values():
            bound = style.bound(estimate)
            if bound is not None:
                shown.append(bound / _ARROW if estimate.status == "upper_bound" else bound * _ARROW)
            elif _is_ok(estimate) and estimate.value is not None:
                shown.append(estimate.value)
                ends += [end for end in (estimate.low, estimate.high) if end is not None]
    lowest, highest = style.padded(shown, _FAR)
    shown += [min(max(end, lowest), highest) for end in ends]
    return style.padded(shown, 1.3)
