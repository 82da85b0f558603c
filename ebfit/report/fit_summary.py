"""What ``ebfit fit`` prints: what was fitted, the table of targets, and how batch sizes grow with tokens."""

from rich.console import Console
from rich.text import Text

from ebfit.files import Fit
from ebfit.report.numbers import size
from ebfit.report.surface_summary import surface_lines
from ebfit.report.tables import target_table
from ebfit.report.trend_summary import trend_lines


def print_fit(fit: Fit) -> None:
    """Print a fit to stdout; it fits 80 columns."""
    console = Console(highlight=False)
    console.print(_headline(fit))
    if fit.settings.get("law_reason"):
        console.print(Text(str(fit.settings["law_reason"])))
    console.print(target_table(fit))
    for line in [*surface_lines(fit), *trend_lines(fit.trends)]:
        console.print(line)


def _headline(fit: Fit) -> Text:
    sizes = sorted({point.batch_tokens for target in fit.targets for point in target.points})
    runs = {(target.group, point.run) for target in fit.targets for point in target.points}
    text = f"{len(runs)} runs at {len(sizes)} batch sizes from {size(sizes[0])} to {size(sizes[-1])} tokens"
    loss = fit.settings.get("loss_reason")
    return Text(f"{text}; {loss}." if loss else f"{text}.")
