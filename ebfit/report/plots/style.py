"""What the figures share: fonts and colours, logarithmic axes with readable ticks, grids of panels."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from math import ceil, floor, log10
from typing import Any, Literal, cast

import matplotlib
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backend_bases import RendererBase
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import FixedFormatter, FixedLocator, LogLocator, MaxNLocator, NullFormatter
from matplotlib.transforms import Bbox

from ebfit.files import Estimate, TargetRecord
from ebfit.report.numbers import estimate_text
from ebfit.text import short

# Okabe and Ito's colours (the purple is Paul Tol's): told apart with every common colour vision deficiency
BLUE, VERMILLION, GREEN, PURPLE = "#0072B2", "#D55E00", "#009E73", "#AA4499"
INK, GREY, PALE = "#222222", "#9A9A9A", "#EFEFEF"
BAND_ALPHA = 0.18

_SETTINGS: dict[Any, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 8.0,
    "axes.titlesize": 8.0,
    "axes.labelsize": 8.0,
    "axes.linewidth": 0.6,
    "axes.edgecolor": INK,
    "xtick.labelsize": 7.0,
    "ytick.labelsize": 7.0,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.minor.width": 0.4,
    "ytick.minor.width": 0.4,
    "xtick.minor.size": 1.5,
    "ytick.minor.size": 1.5,
    "legend.fontsize": 7.0,
    "legend.frameon": False,
    "lines.solid_capstyle": "round",
    "savefig.facecolor": "white",
}


@dataclass(frozen=True)
class BatchStyle:
    """How one of the batch sizes that a law is about looks in every figure."""

    symbol: str
    colour: str
    marker: str
    aside_points: float  # where arrows at one loss stand, beside each other


BATCHES = {
    "b_min": BatchStyle(r"$B_\mathrm{min}$", BLUE, "s", -3.0),
    "b_opt": BatchStyle(r"$B_\mathrm{opt}$", VERMILLION, "o", 3.0),
    "b_crit": BatchStyle(r"$B_\mathrm{crit}$", PURPLE, "D", 0.0),
}

Limits = tuple[float, float]
Legend = dict[str, Artist | tuple[Artist, ...]]  # label -> what stands beside it
EdgeLabel = tuple[str, float, float, Literal["top", "right"]]


def band(colour: str) -> Patch:
    """Return the legend's picture of an interval."""
    return Patch(facecolor=colour, alpha=BAND_ALPHA, linewidth=0)


def estimates(target: TargetRecord) -> dict[str, Estimate]:
    """Return the batch sizes that a target's law is about, by their keys in fit.json."""
    if target.law == "classic":
        return {"b_crit": target.b_crit or Estimate()}
    return {"b_min": target.b_min or Estimate(), "b_opt": target.b_opt or Estimate()}


def bound(estimate: Estimate) -> float | None:
    """Return the number that a one-sided estimate gives."""
    return {"upper_bound": estimate.high, "lower_bound": estimate.low}.get(estimate.status)


def estimate_in_symbols(estimate: Estimate) -> str:
    """Write an estimate to stand behind a symbol: ``= 219 [213, 225]``, ``≤ 46``, ``not identified``."""
    text = estimate_text(estimate).replace("<=", "≤").replace(">=", "≥")
    return text if text[0] in "≤≥n" else f"= {text}"


@contextmanager
def context() -> Iterator[None]:
    """Draw with our settings, whatever the user's matplotlibrc says, and put theirs back afterwards."""
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_SETTINGS)
        yield


def plain(text: str, longest: int) -> str:
    """Return a user's text as one line that matplotlib draws as it is, shortened in its middle."""
    line = " ".join(text.split())
    if len(line) > longest:
        tail = (longest - 1) // 3
        line = f"{line[: longest - 1 - tail]}…{line[len(line) - tail :]}"
    return line.replace("$", r"\$")


def tick_text(value: float) -> str:
    """Write a tick with as few digits as it needs: 500, 1K, 2.5M."""
    return short(value, len(Decimal(f"{value:.6g}").normalize().as_tuple().digits))


def log_ticks(low: float, high: float, most: int) -> list[float]:
    """Choose at most about ``most`` round numbers between two positive ones, for a logarithmic axis."""
    decades = range(floor(log10(low)), ceil(log10(high)) + 1)
    for factors in ((1, 2, 5), (1, 3), (1,)):
        ticks = [f * 10.0**d for d in decades for f in factors if low <= f * 10.0**d <= high]
        if 2 < len(ticks) <= most:
            return ticks
        if len(ticks) <= 2:  # too few already: less than a decade, where evenly spaced numbers read better
            evenly = MaxNLocator(nbins=max(most - 1, 2), steps=[1, 2, 2.5, 5, 10]).tick_values(low, high)
            return [float(tick) for tick in evenly if low <= tick <= high and tick > 0.0]
    stride = ceil(len(ticks) / most)
    return ticks[::stride]


def log_axis(axis: Axis, low: float, high: float, most: int) -> None:
    """Make an axis logarithmic from ``low`` to ``high``, its ticks labelled as 1K, 10K, 1M."""
    axes = axis.axes
    if axis is axes.xaxis:
        axes.set_xscale("log")
        axes.set_xlim(low, high)
    else:
        axes.set_yscale("log")
        axes.set_ylim(low, high)
    ticks = log_ticks(low, high, most)
    axis.set_major_locator(FixedLocator(ticks))
    axis.set_major_formatter(FixedFormatter([tick_text(tick) for tick in ticks]))
    axis.set_minor_locator(LogLocator(base=10.0, subs=range(1, 10), numticks=100))
    axis.set_minor_formatter(NullFormatter())


def padded(values: Sequence[float], factor: float) -> tuple[float, float]:
    """Return limits that leave a factor of room on both sides of positive values."""
    return min(values) / factor, max(values) * factor


@dataclass(frozen=True)
class Layout:
    """Sizes in inches of a grid of panels: of one panel, around the grid, and between panels."""

    width: float
    height: float
    left: float = 0.62
    right: float = 0.45
    top: float = 0.5
    bottom: float = 0.5
    between_columns: float = 0.2
    between_rows: float = 0.5


@dataclass(frozen=True)
class Panel:
    """One panel, and whether it stands at the edges of its grid."""

    axes: Axes
    is_first_row: bool
    is_first_column: bool
    is_last_in_row: bool
    is_last_in_column: bool


def columns_for(count: int) -> int:
    """Return how many columns a grid of ``count`` panels has: wider than tall, four at most."""
    return {1: 1, 2: 2, 3: 3, 4: 2}.get(count, 3 if count <= 6 or count == 9 else 4)


def panels(count: int, layout: Layout, legend: Legend) -> tuple[Figure, list[Panel]]:
    """Make a figure with a grid of panels, a legend below them, and nothing drawn yet."""
    columns = columns_for(count)
    rows = ceil(count / columns)
    width = (
        layout.left
        + columns * (layout.width + layout.between_columns)
        - layout.between_columns
        + layout.right
    )
    grid_height = (
        layout.top + rows * (layout.height + layout.between_rows) - layout.between_rows + layout.bottom
    )
    figure = Figure(figsize=(width, grid_height))
    FigureCanvasAgg(figure)
    legend_height = _add_legend(figure, legend, width)
    height = grid_height + legend_height
    figure.set_size_inches(width, height)

    made = []
    for index in range(count):
        row, column = divmod(index, columns)
        x = layout.left + column * (layout.width + layout.between_columns)
        y = height - layout.top - (row + 1) * layout.height - row * layout.between_rows
        axes = figure.add_axes((x / width, y / height, layout.width / width, layout.height / height))
        made.append(
            Panel(
                axes,
                is_first_row=row == 0,
                is_first_column=column == 0,
                is_last_in_row=column == columns - 1 or index == count - 1,
                is_last_in_column=index + columns >= count,
            )
        )
    return figure, made


def _add_legend(figure: Figure, entries: Legend, width: float) -> float:
    """Add a legend at the foot of a figure in as few rows as fit, and return its height in inches."""
    for rows in range(1, len(entries) + 1):
        legend = figure.legend(
            handles=list(entries.values()),
            labels=list(entries),
            loc="lower center",
            ncols=ceil(len(entries) / rows),
            borderaxespad=0.3,
            handlelength=2.6,
            columnspacing=1.6,
        )
        extent = legend.get_window_extent(renderer(figure))
        if extent.width <= width * figure.dpi or rows == len(entries):
            return float(extent.height / figure.dpi) + 0.05
        legend.remove()
    return 0.0


def renderer(figure: Figure) -> RendererBase:
    """Return what measures the text in a figure made by `panels`."""
    canvas = figure.canvas
    assert isinstance(canvas, FigureCanvasAgg)
    return cast(RendererBase, canvas.get_renderer())  # type: ignore[no-untyped-call]


def label_edges(axes: Axes, places: Sequence[EdgeLabel]) -> None:
    """Write small labels just outside the edges of axes, leaving out those that would touch an earlier one.

    Parameters
    ----------
    axes : Axes
        With its limits set.
    places : sequence of (text, x, y, edge)
        Data coordinates of points on the edge.
    """
    figure = axes.get_figure(root=True)
    assert figure is not None
    labels = [
        axes.annotate(
            text,
            (x, y),
            xytext=(0, 2) if edge == "top" else (3, 0),
            textcoords="offset points",
            ha="center" if edge == "top" else "left",
            va="bottom" if edge == "top" else "center",
            fontsize=6.0,
            color="#666666",
            annotation_clip=False,
        )
        for text, x, y, edge in places
    ]
    boxes = [label.get_window_extent(renderer(figure)).padded(2.0) for label in labels]
    widest = max((box.width for box in boxes), default=0.0)
    taken: list[Bbox] = []
    for label, box in zip(labels, boxes, strict=True):
        # as wide as the widest: evenly spaced values are then thinned evenly, however long their names
        box = box.padded((widest - box.width) / 2.0, 0.0)
        if any(box.overlaps(other) for other in taken):
            label.remove()
        else:
            taken.append(box)


def apart(values: Sequence[float], most: int) -> list[float]:
    """Return the values that lie at least 1 / ``most`` of their logarithmic range after the one before."""
    least = log10(values[-1] / values[0]) / most
    chosen: list[float] = []
    for value in values:
        if not chosen or log10(value / chosen[-1]) >= least:
            chosen.append(value)
    return chosen
