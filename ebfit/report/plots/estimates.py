"""Estimates of batch sizes as the figures show them: the legend, arrows for bounds, and how far an axis reaches."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.transforms import ScaledTranslation

from ebfit.files import Estimate, TargetRecord
from ebfit.report.plots import style
from ebfit.report.plots.style import BATCHES, Limits

_ARROW = 1.6  # length of the arrow of a one-sided estimate, as a factor
_FAR = 20.0  # how far beyond the batch sizes an interval is still shown, as a factor


def one_sided(axes: Axes, look: style.BatchStyle, x: float, estimate: Estimate) -> None:
    """Draw a bound as a short stroke with an arrow to where the batch size lies; nothing for other estimates."""
    bound = style.bound(estimate)
    if bound is None:
        return
    end = bound / _ARROW if estimate.status == "upper_bound" else bound * _ARROW
    aside = ScaledTranslation(look.aside_points / 72.0, 0.0, axes.figure.dpi_scale_trans)
    axes.annotate(
        "",
        (x, end),
        (x, bound),
        xycoords=axes.transData + aside,
        arrowprops={"arrowstyle": "->", "color": look.colour, "linewidth": 1.0, "shrinkA": 0, "shrinkB": 0},
        zorder=4,
    )
    axes.plot(
        x,
        bound,
        color=look.colour,
        marker="_",
        markersize=6,
        markeredgewidth=1.4,
        zorder=4,
        transform=axes.transData + aside,
        gid=estimate.status,
    )


def is_ok(estimate: Estimate) -> bool:
    """Whether an estimate is two-sided."""
    return estimate.status == "ok" and estimate.value is not None


def has_number(estimate: Estimate) -> bool:
    """Whether an estimate gives anything to draw."""
    return is_ok(estimate) or style.bound(estimate) is not None


def legend_of(targets: Sequence[TargetRecord], confidence: str) -> style.Legend:
    """Return the legend of the estimates of some targets."""
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
    return legend


def batch_limits(targets: Sequence[TargetRecord]) -> Limits:
    """Show what was run and every number found; of an interval that leaves both far behind, only a part."""
    shown = [point.batch_tokens for target in targets for point in target.points]
    ends: list[float] = []
    for target in targets:
        for estimate in style.estimates(target).values():
            bound = style.bound(estimate)
            if bound is not None:
                shown.append(bound / _ARROW if estimate.status == "upper_bound" else bound * _ARROW)
            elif is_ok(estimate) and estimate.value is not None:
                shown.append(estimate.value)
                ends += [end for end in (estimate.low, estimate.high) if end is not None]
    lowest, highest = style.padded(shown, _FAR)
    shown += [min(max(end, lowest), highest) for end in ends]
    return style.padded(shown, 1.3)
