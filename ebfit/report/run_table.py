"""The table of runs that `inspect` prints."""

import math
from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ebfit.files import RunRecord

_SOURCES = {"format": "format", "batch size from": "batch_source", "stable phase from": "stable_source"}


def print_runs(runs: Sequence[RunRecord]) -> None:
    """Print a table of runs to stdout; it fits 80 columns. What is the same for all runs is said once below."""
    console = Console(highlight=False)
    shared = {name: _shared([getattr(run, field) for run in runs]) for name, field in _SOURCES.items()}
    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1, 0, 0))
    table.add_column("run", overflow="fold")
    # In two lines, as the names of runs that `ebfit sweep` made take 25 columns.
    table.add_column("batch\ntokens", overflow="fold")
    table.add_column("rows", overflow="fold")
    table.add_column("stable steps", overflow="fold")
    table.add_column("loss, first to last", no_wrap=True, min_width=20)
    for run in runs:
        table.add_row(
            _two_lines(run.name, "" if shared["format"] else run.format),
            _two_lines(_batch(run.batch_tokens), "" if shared["batch size from"] else run.batch_source),
            _two_lines(f"{run.rows:,}", _dropped(run.dropped)),
            _two_lines(
                f"{run.stable_from:,} - {run.stable_to:,}",
                "" if shared["stable phase from"] else run.stable_source,
            ),
            Text(_losses(run)),
        )
    console.print(table)
    for name, source in shared.items():
        if source:
            console.print(Text(f"{name}: {source}"))
    if not any(run.dropped for run in runs):
        console.print("dropped rows: none")
    if any(run.files > 1 for run in runs):
        console.print(Text(f"files: {_files(runs)}"))


def _files(runs: Sequence[RunRecord]) -> str:
    """Say which runs are made of several files, so that a wrong grouping is seen."""
    several = [f"{run.name} of {run.files}" for run in runs if run.files > 1]
    more = f" and {len(several) - 4} more" if len(several) > 4 else ""
    return f"runs made of several: {', '.join(several[:4])}{more}"


def _shared(sources: Sequence[str]) -> str:
    """Return what all runs have in common, where it is worth saying once; else nothing."""
    return sources[0] if len(sources) > 1 and len(set(sources)) == 1 else ""


def _two_lines(first: str, second: str) -> Text:
    return Text.assemble(first, "\n", (second, "dim")) if second else Text(first)


def _batch(tokens: float) -> str:
    return "unknown" if not math.isfinite(tokens) else f"{tokens:,.10g}"


def _dropped(dropped: dict[str, int]) -> str:
    return "\n".join(f"{reason}: {count:,}" for reason, count in dropped.items())


def _losses(run: RunRecord) -> str:
    lines = []
    for kind, first, last in (
        ("train", run.train_loss_first, run.train_loss_last),
        ("val", run.val_loss_first, run.val_loss_last),
    ):
        if first is not None and last is not None:
            lines.append(f"{kind:<5} {_loss(first)} to {_loss(last)}")
    return "\n".join(lines)


def _loss(loss: float) -> str:
    return f"{loss:.3f}" if abs(loss) < 1000 else f"{loss:.1e}"
