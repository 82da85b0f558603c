"""Draw the figures of the documents: those of `ebfit fit` and `ebfit schedule` on sample_runs, the stages of the law.

Run as a script (``make docs``).
"""

import io
from collections.abc import Callable
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FixedFormatter, FixedLocator, NullLocator
from PIL import Image

import ebfit
from ebfit.laws import revised
from ebfit.report.plots import figures, style
from ebfit.report.plots import plan as plan_figure

HERE = Path(__file__).parent
SAMPLE_RUNS = HERE.parent.parent / "sample_runs"
# Those of the table in the README, so that its numbers are the figures' too.
TARGETS = [2.6, 2.5, 2.4, 2.3, 2.2]
IN_PANELS = {2.6, 2.4, 2.2}
DPI = 170
COLOURS = 256  # of a palette: line art needs no more, and the files are a third of the size

# Not a fit, but a law whose stages are wide enough to be told apart, in units of S_opt and E_min.
S_MIN, S_1, S_2, B_MIN = 0.2, 0.5, 1.8, 0.35
LAW = {"s_min": S_MIN, "s_1": S_1, "s_opt": 1.0, "s_2": S_2, "c": B_MIN / (2.0 * (S_2 - 1.0)), "e_min": 1.0}
STEPS, TOKENS = (0.15, 9.0), (0.65, 6.5)


def stages() -> Figure:
    """Draw E(S) with its three stages, their borders, the asymptote, and the rays of B_min and B_opt."""
    figure = Figure(figsize=(5.6, 4.0))
    FigureCanvasAgg(figure)
    axes = figure.add_axes((0.11, 0.11, 0.86, 0.86))
    axes.set(xscale="log", yscale="log", xlim=STEPS, ylim=TOKENS)
    axes.set_xlabel("steps $S$")
    axes.set_ylabel("tokens $E$")
    ticks = {S_MIN: r"$S_\mathrm{min}$", S_1: "$S_1$", 1.0: r"$S_\mathrm{opt}$", S_2: "$S_2$"}
    _named_ticks(axes.xaxis, ticks)
    _named_ticks(axes.yaxis, {1.0: r"$E_\mathrm{min}$"})
    for steps in (S_1, 1.0, S_2):
        axes.plot([steps, steps], [TOKENS[0], _tokens(steps)], color=style.GREY, linewidth=0.6, zorder=1)
    axes.plot([STEPS[0], 1.0], [1.0, 1.0], color=style.GREY, linewidth=0.6, zorder=1)
    axes.axvline(S_MIN, color=style.GREY, linewidth=0.9, linestyle=(0, (1, 2)), zorder=1)

    ends = np.array(STEPS)
    axes.plot(ends, ends, color=style.VERMILLION, linewidth=1.3, zorder=2)
    axes.plot(ends, B_MIN * ends, color=style.BLUE, linewidth=1.3, zorder=2)
    for low, high, stroke in (
        (S_MIN * 1.001, S_1, "dashed"),
        (S_1, S_2, "solid"),
        (S_2, STEPS[1], "dashdot"),
    ):
        steps = np.geomspace(low, high, 400)
        axes.plot(
            steps, revised.tokens_at(LAW, steps), color=style.GREEN, linewidth=2.0, linestyle=stroke, zorder=3
        )
    axes.plot(1.0, 1.0, marker="*", markersize=12, color=style.VERMILLION, markeredgecolor="white", zorder=4)

    _say(axes, 0.235, _tokens(0.235), "initial stage\n" + r"$B_{-1}/(S-S_\mathrm{min})+B_0$", (8, 0), "left")
    _say(
        axes, 0.7, 1.05, "transition stage\n" + r"$C\,(S-S_\mathrm{opt})^2+E_\mathrm{min}$", (0, 6), "center"
    )
    _say_along(axes, (3.0, 5.0), _tokens, "asymptotic stage  $A_1 S+A_0$", style.GREEN, 7)
    _say_along(
        axes, (2.6, 3.0), lambda s: s, r"ray $E=B_\mathrm{opt}\,S$: fewest tokens", style.VERMILLION, 6
    )
    _say_along(
        axes, (4.2, 5.0), lambda s: B_MIN * s, r"ray $E=B_\mathrm{min}\,S$: never meets", style.BLUE, -13
    )
    axes.annotate(
        "$S_\\mathrm{min}$: not even the largest\nbatch takes fewer steps",
        (S_MIN, 4.6),
        xytext=(12, 0),
        textcoords="offset points",
        color="#555555",
        fontsize=7.5,
    )
    return figure


def _tokens(steps: float) -> float:
    return float(revised.tokens_at(LAW, np.array([steps]))[0])


def _named_ticks(axis: Axis, names: dict[float, str]) -> None:
    axis.set_major_locator(FixedLocator(list(names)))
    axis.set_major_formatter(FixedFormatter(list(names.values())))
    axis.set_minor_locator(NullLocator())
    axis.set_tick_params(labelsize=9)


def _say(axes: Axes, x: float, y: float, text: str, offset: tuple[float, float], side: str) -> None:
    axes.annotate(text, (x, y), xytext=offset, textcoords="offset points", ha=side, color=style.GREEN)


def _say_along(
    axes: Axes,
    between: tuple[float, float],
    curve: Callable[[float], float],
    text: str,
    colour: str,
    away: float,
) -> None:
    """Write along a curve, centred between two places on it and ``away`` points beside it."""
    low, high = between
    (x_0, y_0), (x_1, y_1) = axes.transData.transform([(low, curve(low)), (high, curve(high))])
    angle = float(np.arctan2(y_1 - y_0, x_1 - x_0))
    middle = float(np.sqrt(low * high))
    axes.annotate(
        text,
        (middle, curve(middle)),
        xytext=(-away * np.sin(angle), away * np.cos(angle)),
        textcoords="offset points",
        rotation=np.degrees(angle),
        rotation_mode="anchor",
        ha="center",
        color=colour,
    )


def draw() -> dict[str, Figure]:
    """Draw all figures, by file name."""
    fit = ebfit.fit(ebfit.read_runs([SAMPLE_RUNS]), targets=TARGETS)
    few = fit.model_copy(update={"targets": [target for target in fit.targets if target.loss in IN_PANELS]})
    plan = ebfit.plan(fit, total_tokens=2_000_000, seq_len=32, decay_tokens=200_000)
    with style.context():
        drawn = {"stages.png": stages(), "plan.png": plan_figure.draw(plan)}
    return drawn | {
        "e_of_s.png": figures(few)["e_of_s.png"],
        "loss_vs_tokens.png": figures(fit)["loss_vs_tokens.png"],
        "batch_vs_loss.png": figures(fit)["batch_vs_loss.png"],
        "batch_vs_tokens.png": figures(fit)["batch_vs_tokens.png"],
    }


def save(figure: Figure, path: Path) -> None:
    """Write a figure as a small PNG file."""
    buffer = io.BytesIO()
    with style.context():
        figure.savefig(buffer, format="png", dpi=DPI)
    picture = Image.open(buffer).convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
    picture.save(path, optimize=True)


if __name__ == "__main__":
    for name, figure in draw().items():
        save(figure, HERE / name)
