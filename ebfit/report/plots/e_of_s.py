"""E against S, one panel per target loss: the law, its three stages, B_min, B_opt, and what was observed."""

from collections.abc import Sequence
from math import exp, log10
from statistics import median

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.typing import LineStyleType
from numpy.typing import NDArray

from ebfit.files import Fit, PointRecord, TargetRecord
from ebfit.laws import LAWS, FloatArray
from ebfit.report.numbers import confidence_text, loss_texts, size
from ebfit.report.order import targets_in_order
from ebfit.report.plots import style
from ebfit.report.plots.style import BATCHES, Limits, Panel

_PANELS_PER_PAGE = 12
_ARROW = 1.35  # how far the arrow of a censored point reaches along its ray, as a factor
_FAINT = 0.35

_STAGES: dict[str, LineStyleType] = {
    "initial stage": "dashed",
    "transition stage": "solid",
    "asymptotic stage": "dashdot",
}
_LAW_COLOUR = style.GREEN
_BOUND_STROKE: LineStyleType = (0, (1, 1.5))
_RAY_LABEL_POINTS, _LINE_POINTS = 11.0, 9.5


def draw(fit: Fit) -> list[Figure]:
    """Draw E against S for every target that has points, twelve to a page."""
    targets = [target for target in targets_in_order(fit) if target.points]
    losses = loss_texts([target.loss for target in targets])
    pages = [slice(start, start + _PANELS_PER_PAGE) for start in range(0, len(targets), _PANELS_PER_PAGE)]
    return [_page(targets[page], losses[page], confidence_text(fit)) for page in pages]


def _page(targets: Sequence[TargetRecord], losses: Sequence[str], confidence: str) -> Figure:
    limits = [_limits(target) for target in targets]
    batches = [_batches([target]) for target in targets]
    shared = _mostly_the_same(batches) and _close(limits)
    if shared:
        batches = [_batches(targets)] * len(targets)
        limits = [(_union([x for x, _ in limits]), _union([y for _, y in limits]))] * len(targets)
    has_groups = any(target.group for target in targets)
    has_two_estimates = any(target.law != "classic" for target in targets)
    lines = 2 + has_groups + has_two_estimates
    title_height = (_RAY_LABEL_POINTS + _LINE_POINTS * lines + 4) / 72
    figure, panels = style.panels(
        len(targets),
        style.Layout(
            width=3.6 if len(targets) == 1 else 2.3,
            height=2.8 if len(targets) == 1 else 2.0,
            top=title_height,
            between_columns=0.2 if shared else 0.85,
            between_rows=title_height if shared else title_height + 0.3,
        ),
        legend=_legend(targets, confidence),
    )
    for panel, target, loss, rays, (x_limits, y_limits) in zip(
        panels, targets, losses, batches, limits, strict=True
    ):
        axes = panel.axes
        style.log_axis(axes.xaxis, *x_limits, most=5)
        style.log_axis(axes.yaxis, *y_limits, most=5)
        _rays(axes, rays)
        _marks(axes, target)
        _curve(axes, target)
        _points(axes, target.points)
        _title(axes, target, loss)
        _edges(panel, rays, shared)
    return figure


# ---- what a panel shows ------------------------------------------------------------------------------


def _rays(axes: Axes, batches: Sequence[float]) -> None:
    steps = np.array(axes.get_xlim())
    width = 0.35 if len(batches) <= 24 else 0.15
    for batch_tokens in batches:
        axes.plot(steps, batch_tokens * steps, color=style.GREY, linewidth=width, zorder=1)


def _marks(axes: Axes, target: TargetRecord) -> None:
    """Draw rays of B_min and B_opt with intervals, one-sided ones dotted, and the point of fewest tokens."""
    steps = np.array(axes.get_xlim())
    for name, estimate in style.estimates(target).items():
        colour = BATCHES[name].colour
        bound = style.bound(estimate)
        if bound is not None:
            axes.plot(steps, bound * steps, color=colour, linewidth=1.2, linestyle=_BOUND_STROKE, zorder=2)
        if estimate.status != "ok" or estimate.value is None:
            continue
        axes.plot(steps, estimate.value * steps, color=colour, linewidth=1.0, zorder=2)
        if estimate.low is not None and estimate.high is not None:
            axes.fill_between(
                steps,
                estimate.low * steps,
                estimate.high * steps,
                color=colour,
                alpha=style.BAND_ALPHA,
                linewidth=0,
                zorder=1.5,
            )
        if name == "b_opt" and target.s_opt is not None and target.e_min is not None:
            axes.plot(
                target.s_opt,
                target.e_min,
                marker="*",
                markersize=9,
                color=colour,
                markeredgecolor="white",
                markeredgewidth=0.5,
                linestyle="none",
                zorder=7 if _is_crowded(target.points) else 4,
                gid="fewest tokens",
            )


def _curve(axes: Axes, target: TargetRecord) -> None:
    """Draw E(S), faint where no batch size on both sides reached the target."""
    steps = _sample(axes, target)
    tokens = _tokens_at(target, steps)
    if tokens is None:
        return
    reached = [point.batch_tokens for point in target.points if not point.censored]
    with np.errstate(invalid="ignore"):
        batch = tokens / steps
        inside = (batch >= min(reached, default=np.inf) * 0.999) & (
            batch <= max(reached, default=0.0) * 1.001
        )
    for (label, stroke), in_stage in zip(_strokes(target).items(), _stages(target, steps), strict=True):
        for shown, alpha in ((inside, 1.0), (~inside, _FAINT)):
            axes.plot(
                steps,
                np.where(in_stage & shown, tokens, np.nan),
                color=_LAW_COLOUR,
                linestyle=stroke,
                linewidth=1.6,
                alpha=alpha,
                zorder=6 if _is_crowded(target.points) else 3,
                gid=label,
            )


def _sample(axes: Axes, target: TargetRecord) -> FloatArray:
    """Choose steps that resolve the rise next to S_min and hold the borders of the stages."""
    low, high = axes.get_xlim()
    s_min = target.params.get("s_min", low)
    close = s_min * (1.0 + np.geomspace(1e-6, 1.0, 400))
    borders = [target.params[key] for key in ("s_1", "s_2") if key in target.params]
    steps = np.unique(np.concatenate([np.geomspace(low, high, 1200), close, borders]))
    return np.asarray(steps[(steps >= low) & (steps <= high)])


def _tokens_at(target: TargetRecord, steps: FloatArray) -> FloatArray | None:
    """Evaluate the law; None where it was not fitted."""
    law = LAWS.get(target.law)
    if law is None:
        return None
    try:
        return law.tokens_at(target.params, steps)
    except KeyError:
        return None


def _strokes(target: TargetRecord) -> dict[str, LineStyleType]:
    return dict(_STAGES) if _has_stages(target) else {f"{target.law} law": "solid"}


def _stages(target: TargetRecord, steps: FloatArray) -> list[NDArray[np.bool_]]:
    if not _has_stages(target):
        return [np.ones(len(steps), dtype=bool)]
    s_1, s_2 = target.params["s_1"], target.params["s_2"]
    return [steps <= s_1, (steps >= s_1) & (steps <= s_2), steps >= s_2]


def _has_stages(target: TargetRecord) -> bool:
    return {"s_1", "s_2"} <= target.params.keys()


def _points(axes: Axes, points: Sequence[PointRecord]) -> None:
    crowded = _is_crowded(points)
    width = 0.5 if crowded else 1.4
    for point in points:
        if point.steps_se and not point.censored:
            # an error of the steps moves E = B S with them: the bar lies along the ray
            steps = np.array(_error_bar(point))
            axes.plot(
                steps, point.batch_tokens * steps, color=style.INK, linewidth=width, alpha=0.6, zorder=4
            )
        if point.censored:
            axes.annotate(
                "",
                (point.steps * _ARROW, point.tokens * _ARROW),
                (point.steps, point.tokens),
                arrowprops={
                    "arrowstyle": "->",
                    "linewidth": 0.7,
                    "color": style.INK,
                    "shrinkA": 2,
                    "shrinkB": 0,
                },
                zorder=4,
            )
    for censored in (False, True):
        chosen = [point for point in points if point.censored == censored]
        axes.plot(
            [point.steps for point in chosen],
            [point.tokens for point in chosen],
            linestyle="none",
            marker="o",
            markersize=2.5 if crowded else 3.5,
            markerfacecolor="white" if censored else style.INK,
            markeredgecolor=style.INK,
            markeredgewidth=0.7,
            alpha=0.6 if crowded else 1.0,
            zorder=5,
            gid="censored" if censored else "reached",
        )


def _is_crowded(points: Sequence[PointRecord]) -> bool:
    return len(points) > 40


def _error_bar(point: PointRecord) -> tuple[float, float]:
    relative = (point.steps_se or 0.0) / point.steps
    return point.steps * exp(-relative), point.steps * exp(relative)


def _title(axes: Axes, target: TargetRecord, loss: str) -> None:
    """Write group, loss and the estimates above a panel, clear of the labels of the rays."""
    lines = [
        (f"{BATCHES[name].symbol} {style.estimate_in_symbols(estimate)}", BATCHES[name].colour, "normal")
        for name, estimate in reversed(style.estimates(target).items())
    ]
    lines.append((f"target loss {loss}", style.INK, "bold"))
    if target.group:
        lines.append((style.plain(target.group, 34), style.INK, "bold"))
    for number, (text, colour, weight) in enumerate(lines):
        axes.annotate(
            text,
            (0.0, 1.0),
            xycoords="axes fraction",
            xytext=(0, _RAY_LABEL_POINTS + _LINE_POINTS * number),
            textcoords="offset points",
            fontsize=7.0,
            fontweight=weight,
            color=colour,
            annotation_clip=False,
        )


# ---- around the panels -------------------------------------------------------------------------------


def _edges(panel: Panel, batches: Sequence[float], shared: bool) -> None:
    """Label axes and rays: every panel's where they differ, the outer ones where they are shared."""
    axes = panel.axes
    axes.tick_params(
        labelbottom=panel.is_last_in_column or not shared, labelleft=panel.is_first_column or not shared
    )
    if panel.is_last_in_column:
        axes.set_xlabel("steps S")
    if panel.is_first_column:
        axes.set_ylabel("tokens E")

    low, high = axes.get_xlim()
    bottom, top = axes.get_ylim()
    places: list[style.EdgeLabel] = []
    for batch_tokens in reversed(batches):
        if low <= top / batch_tokens <= high:
            if panel.is_first_row or not shared:
                places.append((size(batch_tokens), top / batch_tokens, top, "top"))
        elif bottom <= batch_tokens * high <= top and (panel.is_last_in_row or not shared):
            places.append((size(batch_tokens), high, batch_tokens * high, "right"))
    style.label_edges(axes, places)


def _legend(targets: Sequence[TargetRecord], confidence: str) -> style.Legend:
    """Explain what the page shows, and only that."""
    legend: style.Legend = {}
    points = [point for target in targets for point in target.points]
    if any(not point.censored for point in points):
        error = " (bar: 1 s.e.)" if any(point.steps_se for point in points) else ""
        legend[f"reached{error}"] = _dot(style.INK)
    if any(point.censored for point in points):
        legend["not reached"] = _dot("white")
    legend["batch sizes (tokens)"] = Line2D([], [], color=style.GREY, linewidth=0.5)
    for target in targets:
        if target.params:
            for label, stroke in _strokes(target).items():
                legend[label] = Line2D([], [], color=_LAW_COLOUR, linewidth=1.6, linestyle=stroke)
            legend["extrapolated"] = Line2D([], [], color=_LAW_COLOUR, linewidth=1.6, alpha=_FAINT)
    for name, look in BATCHES.items():
        statuses = {style.estimates(t)[name].status for t in targets if name in style.estimates(t)}
        if "ok" in statuses:
            line = Line2D([], [], color=look.colour, marker="*" if name == "b_opt" else None, markersize=7)
            legend[f"{look.symbol}, {confidence} interval"] = (style.band(look.colour), line)
        if statuses & {"upper_bound", "lower_bound"}:
            legend[f"bound of {look.symbol}"] = Line2D([], [], color=look.colour, linestyle=_BOUND_STROKE)
    return legend


def _dot(face: str) -> Line2D:
    return Line2D(
        [], [], linestyle="none", marker="o", markersize=3.5, markerfacecolor=face, markeredgecolor=style.INK
    )


# ---- limits ------------------------------------------------------------------------------------------


def _limits(target: TargetRecord) -> tuple[Limits, Limits]:
    """Return the steps and the tokens that a panel must show."""
    steps = [point.steps for point in target.points]
    tokens = [point.tokens for point in target.points]
    steps += [_ARROW * point.steps for point in target.points if point.censored]
    tokens += [_ARROW * point.tokens for point in target.points if point.censored]
    if _opt_is_inside(target) and target.s_opt is not None and target.e_min is not None:
        steps.append(target.s_opt)
        tokens.append(target.e_min)
    return style.padded(steps, 1.25), style.padded(tokens, 1.35)


def _close(limits: Sequence[tuple[Limits, Limits]]) -> bool:
    """Say whether panels can share their axes without leaving most of each empty."""
    return all(
        _decades(_union([pair[axis] for pair in limits]))
        <= 2.2 * median(_decades(pair[axis]) for pair in limits)
        for axis in (0, 1)
    )


def _union(limits: Sequence[Limits]) -> Limits:
    return min(low for low, _ in limits), max(high for _, high in limits)


def _decades(limits: Limits) -> float:
    return log10(limits[1] / limits[0])


def _batches(targets: Sequence[TargetRecord]) -> list[float]:
    return sorted({point.batch_tokens for target in targets for point in target.points})


def _mostly_the_same(batches: Sequence[Sequence[float]]) -> bool:
    """Say whether the rays of all panels together crowd none of them."""
    together = {batch_tokens for each in batches for batch_tokens in each}
    return all(2 * len(each) >= len(together) for each in batches)


def _opt_is_inside(target: TargetRecord) -> bool:
    return target.b_opt is not None and target.b_opt.status == "ok"
