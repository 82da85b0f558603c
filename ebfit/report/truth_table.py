"""The table that `ebfit simulate` prints: the answer at every target loss. It fits 80 columns."""

from rich import box
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from ebfit.files import Truth
from ebfit.report.numbers import loss_texts
from ebfit.text import short

_COLUMNS = ("loss", "B_min", "B_opt", "S_min", "E_min", "S_opt", "reached")


def truth_table(truth: Truth) -> RenderableType:
    """Show the true numbers of a simulated sweep."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")
    for name in _COLUMNS:
        table.add_column(name, justify="right")
    sizes = len(truth.batch_tokens)
    for loss, target in zip(loss_texts([t.loss for t in truth.targets]), truth.targets, strict=True):
        numbers = (target.b_min, target.b_opt, target.s_min, target.e_min, target.s_opt)
        table.add_row(Text(loss, "bold"), *map(short, numbers), f"{target.sizes_reaching}/{sizes}")
    return Group(
        table,
        Text(
            "The truth: B and E in tokens, S in steps; reached: how many of the batch sizes get there in their "
            "stable phase, but for noise.",
            "dim",
        ),
        Text(f"B_opt and B_min grow as D^{truth.tokens_exponent:.2f}, D being E_min."),
    )


def print_truth(introduction: str, truth: Truth) -> None:
    """Print a sentence on a simulated sweep, and its answer, to stdout."""
    console = Console(highlight=False)
    console.print(Text(introduction))
    console.print(truth_table(truth))
