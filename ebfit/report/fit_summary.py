"""What ``ebfit fit`` prints: what was fitted, the table of targets, and how batch sizes grow with tokens."""

from rich.console import Console
from rich.text import Text

from ebfit.files import Fit, Trend
from ebfit.report.numbers import size
from ebfit.report.tables import target_table
from ebfit.text import short


def print_fit(fit: Fit) -> None:
    """Print a fit to stdout; it fits 80 columns."""
    console = Console(highlight=False)
    console.print(_headline(fit))
    console.print(target_table(fit))
    for name, trend in (("B_opt", fit.trends.b_opt_vs_tokens), ("B_min", fit.trends.b_min_vs_tokens)):
        if trend is not None:
            console.print(_trend_sentence(name, trend))


def _headline(fit: Fit) -> Text:
    sizes = sorted({point.batch_tokens for target in fit.targets for point in target.points})
    runs = {(target.group, point.run) for target in fit.targets for point in target.points}
    text = f"{len(runs)} runs at {len(sizes)} batch sizes from {size(sizes[0])} to {size(sizes[-1])} tokens"
    loss = fit.settings.get("loss_reason")
    return Text(f"{text}; {loss}." if loss else f"{text}.")


def _trend_sentence(name: str, trend: Trend) -> Text:
    interval = ""
    if trend.exponent_low is not None and trend.exponent_high is not None:
        interval = f" [{trend.exponent_low:.2f}, {trend.exponent_high:.2f}]"
    return Text(
        f"{name} grows as D^{trend.exponent:.2f}{interval} from D = {short(trend.d_low)} to "
        f"{short(trend.d_high)} tokens"
    )
