"""Lines on stderr: warnings, equal ones once, and what is being worked on."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.text import Text

from ebfit.files import RunRecord
from ebfit.text import printable


def collapsed_warnings(runs: Sequence[RunRecord]) -> list[str]:
    """Return every warning once, with the runs that it is about in front."""
    names: dict[str, list[str]] = {}
    for run in runs:
        for warning in dict.fromkeys(run.warnings):
            names.setdefault(warning, []).append(run.name)
    return [f"{_listed(about, len(runs))}: {warning}" for warning, about in names.items()]


def print_lines(kind: str, sentences: Sequence[str]) -> None:
    """Print sentences to stderr, each with its kind in front."""
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    for sentence in sentences:
        console.print(Text.assemble((f"{kind}: ", "yellow"), printable(sentence)))


def _listed(names: Sequence[str], runs: int) -> str:
    if len(names) == runs > 1:
        return "all runs"
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


@contextmanager
def working(on: str) -> Iterator[None]:
    """Say on stderr what is being done while it takes; nothing where stderr is no terminal."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield
        return
    with console.status(on):
        yield
