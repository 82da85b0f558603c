"""What ``ebfit inspect --formats`` prints."""

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text


def print_formats(formats: Sequence[tuple[str, str, str]]) -> None:
    """Print the formats of logs to stdout: for each its name, whose logs they are, and an example below."""
    console = Console(highlight=False)
    for name, trainer, example in formats:
        console.print(Text.assemble((name, "bold"), f": {trainer}"))
        console.print(Text(f"    {example}", "dim"), soft_wrap=True)
