"""What ``ebfit design`` prints: the runs to train, what becomes of the intervals, and the commands."""

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ebfit.files import Design, HalfWidths, Rehearsed
from ebfit.report.numbers import loss_texts
from ebfit.text import printable, short

_NAMES = {"b_opt": "B_opt", "b_min": "B_min"}
_STATUS = {"upper_bound": "bound", "lower_bound": "bound", "not_identified": "unknown", "ok": "-"}
_HUGE = 10.0  # half-width in natural log beyond which a percentage is no help


def print_design(design: Design) -> None:
    """Print a design; it fits 80 columns."""
    console = Console(highlight=False)
    console.print(Text(_headline(design)))
    console.print(_runs(design))
    console.print()
    console.print(_widths(design))
    console.print(Text(_legend(design), "dim"))
    if design.commands:
        console.print(Text("\nWith `ebfit sweep`, add its other options as in the first sweep:"))
        for command in design.commands:
            console.print(Text(printable(command)), soft_wrap=True)


def _headline(design: Design) -> str:
    runs = sum(run.seeds for run in design.runs)
    targets = [target for target in design.targets if target.wanted]
    at = f"at {loss_texts([targets[0].loss])[0]}" if len(targets) == 1 else f"at {len(targets)} targets"
    of = "" if design.group is None else f" of {printable(design.group)}"
    return (
        f"{runs} run{'' if runs == 1 else 's'} for {_NAMES[design.goal]} {at}{of}: {short(design.total_tokens)} of "
        f"{short(design.budget_tokens)} tokens"
    )


def _table() -> Table:
    return Table(
        box=box.SIMPLE_HEAD, padding=(0, 2, 0, 0), show_edge=False, pad_edge=False, header_style="bold"
    )


def _runs(design: Design) -> Table:
    table = _table()
    for header in ("batch size", "seeds", "steps", "tokens", "to loss"):
        table.add_column(header, justify="right", no_wrap=True)
    table.add_column("where", overflow="fold")
    losses = dict(
        zip(
            [target.loss for target in design.targets],
            loss_texts([target.loss for target in design.targets]),
            strict=True,
        )
    )
    for run in design.runs:
        seeds = f"{run.seeds} more" if run.seeds_so_far else str(run.seeds)
        table.add_row(
            Text(_batch(run.batch_tokens), "bold"),
            seeds,
            f"{run.steps:,}",
            short(run.tokens),
            losses[run.for_loss],
            run.place,
        )
    return table


def _widths(design: Design) -> Table:
    table = _table()
    table.add_column("loss", justify="right", no_wrap=True)
    for name in _NAMES.values():
        table.add_column(f"{name} now", justify="right", no_wrap=True)
        table.add_column("then", justify="right", no_wrap=True)
        if design.simulations:
            table.add_column("checked", justify="right", no_wrap=True)
    losses = loss_texts([target.loss for target in design.targets])
    for text, target in zip(losses, design.targets, strict=True):
        cells = _cells(target.b_opt, target.rehearsed_b_opt) + _cells(target.b_min, target.rehearsed_b_min)
        table.add_row(Text(text, "bold" if target.wanted else ""), *cells)
    return table


def _cells(widths: HalfWidths, rehearsed: Rehearsed | None) -> list[str]:
    now = _STATUS[widths.status] if widths.before is None else _percent(widths.before)
    cells = [now, _percent(widths.after)]
    if rehearsed is not None:
        half_width = "-" if rehearsed.half_width is None else _percent(rehearsed.half_width)
        cells.append(half_width if rehearsed.ok == 1.0 else f"{half_width} in {100.0 * rehearsed.ok:.0f}%")
    return cells


def _percent(half_width: float) -> str:
    if half_width > _HUGE:
        return "open"
    percent = 100.0 * half_width
    return f"{percent:.1f}%" if percent < 9.95 else f"{percent:.0f}%"


def _legend(design: Design) -> str:
    text = (
        f"Half-widths of the {100.0 * design.confidence:g}% intervals, of the logarithm: 10% is about 10% to either "
        "side; now, and as expected then."
    )
    if design.simulations:
        text += (
            f" Checked: the median of {design.simulations} simulations that were fitted, and where the number was not "
            "known in all of them, in how many."
        )
    return text


def _batch(tokens: float) -> str:
    """Write a batch size in full, as it is to be typed; fractions, where tokens are counted in millions, shorter."""
    return f"{tokens:,.0f}" if tokens.is_integer() else f"{tokens:.6g}"
