"""Loss against tokens for all runs: where the curves of different batch sizes cross."""

from collections.abc import Sequence

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Colormap, ListedColormap, LogNorm
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from ebfit.files import CurveRecord, Fit
from ebfit.laws import FloatArray
from ebfit.report.numbers import loss_texts, size
from ebfit.report.plots import style
from ebfit.report.plots.style import Limits

_KINDS = {"train": "train loss", "val": "validation loss"}
_TARGET_COLOUR = "#777777"
_LAYOUT = style.Layout(width=4.6, height=3.2, right=1.15, top=0.15)


def draw(fit: Fit) -> Figure | None:
    """Draw the loss curves of a fit; None where it holds none, as with a points table."""
    curves = [(run.batch_tokens, run.curve) for run in fit.runs if run.curve is not None and run.curve.steps]
    if not curves:
        return None
    targets = sorted({target.loss for target in fit.targets})
    loss_limits = _loss_limits([curve for _, curve in curves], targets)
    batches = sorted({batch_tokens for batch_tokens, _ in curves})
    colours = ListedColormap(colormaps["viridis"](np.linspace(0.0, 0.92, 256)))
    norm = LogNorm(batches[0] / 1.1, batches[-1] * 1.1)

    figure, (panel,) = style.panels(1, _LAYOUT, _legend([curve for _, curve in curves], targets))
    axes = panel.axes
    style.log_axis(axes.xaxis, *_token_limits(curves, loss_limits[1]), most=7)
    axes.set_ylim(*loss_limits)
    axes.set_xlabel("tokens E")
    kinds = {curve.kind for _, curve in curves}
    axes.set_ylabel(_KINDS[kinds.pop()] if len(kinds) == 1 else "loss")

    for batch_tokens, curve in sorted(curves, key=lambda pair: pair[0]):
        _curve(axes, batch_tokens, curve, colours(norm(batch_tokens)))
    _target_lines(axes, targets)
    _colour_bar(figure, norm, colours, batches)
    return figure


def _curve(axes: Axes, batch_tokens: float, curve: CurveRecord, colour: tuple[float, ...]) -> None:
    tokens = np.array(curve.steps) * batch_tokens
    smooth = _smooth(curve)
    if smooth is None:
        axes.plot(tokens, curve.loss, color=colour, linewidth=1.2, marker=".", markersize=3, zorder=3)
        return
    axes.plot(
        tokens,
        curve.loss,
        linestyle="none",
        marker=".",
        markersize=2.5,
        markeredgewidth=0,
        color=colour,
        alpha=0.35,
        zorder=2,
    )
    axes.plot(tokens, smooth, color=colour, linewidth=1.3, zorder=3)


def _smooth(curve: CurveRecord) -> FloatArray | None:
    """Return the smooth line with NaN where it is unknown, or None where there is none at all."""
    smooth = np.array(curve.smooth, dtype=float)
    return smooth if len(smooth) == len(curve.steps) and np.isfinite(smooth).any() else None


def _target_lines(axes: Axes, targets: Sequence[float]) -> None:
    low, high = axes.get_ylim()
    right = axes.get_xlim()[1]
    places: list[style.EdgeLabel] = []
    for loss, text in zip(targets, loss_texts(targets), strict=True):
        if low <= loss <= high:
            axes.axhline(loss, color=_TARGET_COLOUR, linewidth=0.5, linestyle=(0, (4, 2)), zorder=1)
            places.append((text, right, loss, "right"))
    style.label_edges(axes, places)


def _colour_bar(figure: Figure, norm: LogNorm, colours: Colormap, batches: Sequence[float]) -> None:
    width, height = figure.get_size_inches()
    plot = figure.axes[0].get_position()
    axes = figure.add_axes((plot.x1 + 0.42 / width, plot.y0, 0.11 / width, plot.height))
    bar = figure.colorbar(ScalarMappable(norm, colours), cax=axes)
    bar.outline.set_linewidth(0.6)
    fitting = style.apart(batches, most=int(plot.height * height / 0.16))
    bar.set_ticks(fitting, labels=[size(batch_tokens) for batch_tokens in fitting])
    bar.ax.minorticks_off()
    bar.set_label("batch size (tokens)")


def _legend(curves: Sequence[CurveRecord], targets: Sequence[float]) -> style.Legend:
    legend: style.Legend = {}
    if any(_smooth(curve) is not None for curve in curves):
        legend["logged"] = Line2D(
            [], [], linestyle="none", marker=".", markersize=3, color=style.INK, alpha=0.5
        )
    legend["smoothed" if legend else "logged"] = Line2D([], [], color=style.INK, linewidth=1.3)
    if targets:
        legend["target losses"] = Line2D([], [], color=_TARGET_COLOUR, linewidth=0.5, linestyle=(0, (4, 2)))
    return legend


def _loss_limits(curves: Sequence[CurveRecord], targets: Sequence[float]) -> Limits:
    """Show all losses, or, where targets are known, the losses around and below them: there curves cross."""
    losses = np.concatenate([curve.loss for curve in curves])
    lowest, highest = float(losses.min()), float(losses.max())
    if targets:
        above = max(0.5 * (targets[-1] - lowest), 0.15 * abs(targets[-1]))
        highest = min(highest, targets[-1] + above)
        lowest = min(lowest, targets[0])
    room = 0.04 * (highest - lowest) or 0.1
    return lowest - room, highest + room


def _token_limits(curves: Sequence[tuple[float, CurveRecord]], highest_loss: float) -> Limits:
    tokens = np.concatenate([batch_tokens * np.array(curve.steps) for batch_tokens, curve in curves])
    shown = tokens[np.concatenate([curve.loss for _, curve in curves]) <= highest_loss]
    return style.padded([float(shown.min()), float(shown.max())], 1.15)
