"""What ``ebfit compare`` prints: the laws over all targets, their errors per target, and the recommendation."""

from itertools import groupby

from rich import box
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from ebfit.files import ComparedTarget, LawComparison, LawErrors
from ebfit.report.numbers import loss_texts
from ebfit.text import printable

_UNKNOWN = "-"


def print_comparison(comparison: LawComparison) -> None:
    """Print a comparison to stdout; it fits 80 columns."""
    console = Console(highlight=False)
    console.print(_headline(comparison))
    console.print(_law_table(comparison))
    console.print(Text(_LEGEND, "dim"))
    console.print()
    for part in _target_tables(comparison):
        console.print(part)
    console.print(
        Text("Medians per target of the batch sizes between others, and how many these are.", "dim")
    )
    console.print()
    console.print(Text(_recommendation(comparison)))


_LEGEND = (
    "Absolute errors of log S: 0.02 is about 2% of the steps, and 2.3, a factor of 10, the most that counts. mean: "
    "each batch size counts once; p: the chance of being that much worse than the best. median, 90%: of batch sizes "
    "between others. edge, 90%: of the smallest and the largest that reached a target. never: of the sizes that did "
    "not, how many the law says would not have by then. AICc: over the least."
)


def _recommendation(comparison: LawComparison) -> str:
    options = " ".join(f"--{key} {value}" for key, value in comparison.recommendation.options.items())
    return f"Use {options}: {comparison.recommendation.why}"


def _headline(comparison: LawComparison) -> Text:
    counts = comparison.counts
    return Text(
        f"{counts.batch_sizes} batch sizes left out, one at a time, and predicted from the others at "
        f"{len(comparison.targets)} {'target' if len(comparison.targets) == 1 else 'targets'}: {counts.between} points "
        f"between others, {counts.edge} at the edge, {counts.ended} that never reached a target."
    )


def _law_table(comparison: LawComparison) -> Table:
    table = _table("law", *("mean", "p", "median", "90%", "edge", "90%", "never", "AICc"))
    least = min((law.aicc for law in comparison.laws if law.aicc is not None), default=0.0)
    chosen = (comparison.recommendation.law, comparison.recommendation.coupling)
    for law in comparison.laws:
        table.add_row(
            Text(law.name, "bold" if (law.law, law.coupling) == chosen else ""),
            *_cells(law, least, comparison.counts.ended),
        )
    return table


def _cells(law: LawErrors, least: float, ended: int) -> list[str]:
    return [
        _error(law.lobo_mean),
        _chance(law.p_value),
        _error(law.lobo_median),
        _error(law.lobo_p90),
        _error(law.edge_median),
        _error(law.edge_p90),
        _UNKNOWN if law.ended_right is None else f"{law.ended_right}/{ended}",
        _UNKNOWN if law.aicc is None else f"{law.aicc - least:.0f}",
    ]


def _target_tables(comparison: LawComparison) -> list[RenderableType]:
    """Build one table per group under the group's name."""
    losses = iter(loss_texts([target.loss for target in comparison.targets]))
    rendered: list[RenderableType] = []
    for group, targets in groupby(comparison.targets, lambda target: target.group):
        if group is not None:
            rendered.append(Text(printable(group), "italic"))
        table = _table("loss", "sizes", *(law.name for law in comparison.laws), space=0)
        for target in targets:
            errors = [_error(law.lobo_median) for law in target.laws]
            table.add_row(Text(next(losses), "bold"), str(_count(target)), *errors)
        rendered.append(table)
    return rendered


def _count(target: ComparedTarget) -> int:
    return sum(point.between and not point.ended for point in target.left_out)


def _table(*headers: str, space: int = 1) -> Table:
    table = Table(
        box=box.SIMPLE_HEAD, padding=(0, space, 0, 0), show_edge=False, pad_edge=False, header_style="bold"
    )
    for i, header in enumerate(headers):
        table.add_column(header, justify="right" if i else "left", overflow="fold")
    return table


def _chance(p_value: float | None) -> str:
    if p_value is None or p_value == 1.0:
        return _UNKNOWN
    return f"{p_value:.2g}" if p_value >= 0.001 else "<0.001"


def _error(error: float | None) -> str:
    return _UNKNOWN if error is None else f"{error:.3f}"
