"""B_min and B_opt against target loss, with their intervals: how the batch size should grow in training."""

from collections.abc import Sequence
from itertools import groupby

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from ebfit.files import Estimate, Fit, TargetRecord
from ebfit.report.numbers import confidence_text
from ebfit.report.order import targets_in_order
from ebfit.report.plots import style
from ebfit.report.plots.estimates import batch_limits, has_number, is_ok, legend_of, one_sided
from ebfit.report.plots.style import BATCHES, Limits


def draw(fit: Fit) -> Figure | None:
    """Draw batch sizes against loss, one panel per group; None where no batch size is identified."""
    if not any(has_number(e) for target in fit.targets for e in style.estimates(target).values()):
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
    figure, panels = style.panels(len(groups), layout, _legend(fit))
    loss_limits = _loss_limits([target.loss for target in fit.targets])
    shown_batches = batch_limits(fit.targets)
    for panel, group in zip(panels, groups, strict=True):
        axes = panel.axes
        targets = [target for target in ordered if target.group == group]
        axes.set_xlim(loss_limits[1], loss_limits[0])  # training goes from left to right
        style.log_axis(axes.yaxis, *shown_batches, most=7)
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
    for two_sided, neighbours in groupby(found, key=lambda pair: is_ok(pair[1])):
        if two_sided:
            _two_sided(axes, look, list(neighbours))
        else:
            for loss, estimate in neighbours:
                one_sided(axes, look, loss, estimate)


def _two_sided(axes: Axes, look: style.BatchStyle, found: Sequence[tuple[float, Estimate]]) -> None:
    losses = [loss for loss, _ in found]
    values = [estimate.value or 0.0 for _, estimate in found]
    lows = [estimate.low or value for (_, estimate), value in zip(found, values, strict=True)]
    highs = [estimate.high or value for (_, estimate), value in zip(found, values, strict=True)]
    axes.fill_between(losses, lows, highs, color=look.colour, alpha=style.BAND_ALPHA, linewidth=0, zorder=2)
    axes.vlines(losses, lows, highs, color=look.colour, linewidth=1.0, zorder=3)
    axes.plot(losses, values, color=look.colour, marker=look.marker, markersize=3.5, linewidth=1.2, zorder=4)


def _legend(fit: Fit) -> style.Legend:
    legend = legend_of(fit.targets, confidence_text(fit))
    if any(target.points for target in fit.targets):
        legend["batch sizes that were run"] = Patch(facecolor=style.PALE)
    return legend


def _loss_limits(losses: Sequence[float]) -> Limits:
    room = 0.06 * (max(losses) - min(losses)) or 0.05 * abs(losses[0]) or 1.0
    return min(losses) - room, max(losses) + room
