"""The table that `ebfit fit` prints: one line per target loss, and the warnings as numbered notes below."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby
from typing import Literal

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ebfit.files import Estimate, Fit, TargetRecord
from ebfit.report.numbers import confidence_text, estimate_parts, loss_texts
from ebfit.report.order import targets_in_order
from ebfit.text import printable, short

_UNKNOWN = "-"
_NARROW = 80  # columns of the terminal that the table must fit


@dataclass(frozen=True)
class _Column:
    header: str
    cells: list[Text]
    justify: Literal["left", "right"] = "right"

    @property
    def width(self) -> int:
        return max(len(self.header), *(cell.cell_len for cell in self.cells))


def target_table(fit: Fit) -> RenderableType:
    """Show the results of a fit, target by target.

    Parameters
    ----------
    fit : Fit
        What `ebfit fit` found.

    Returns
    -------
    rich renderable
        Losses with B_min and B_opt (B_crit for the law `classic`) and their intervals, S_min, E_min, the
        RMS of the log residuals, how many batch sizes reached the target, and the warnings below. It fits
        80 columns. One-sided results show the bound only.
    """
    if not fit.targets:
        return Text("No target loss was fitted.")
    targets = targets_in_order(fit)
    notes = _Notes(targets)
    return Group(
        *_tables(targets, _columns(targets, notes, confidence_text(fit))),
        Text(_legend(targets), "dim"),
        *notes.render(),
    )


def _legend(targets: list[TargetRecord]) -> str:
    laws = " and ".join(dict.fromkeys(target.law for target in targets))
    return (
        f"Law {laws}. B and E in tokens, S in steps, RMS of the residuals of log S; "
        "reached: how many of the batch sizes."
    )


def _columns(targets: list[TargetRecord], notes: "_Notes", confidence: str) -> list[_Column]:
    columns = [_Column("loss", [Text(text, "bold") for text in loss_texts([t.loss for t in targets])])]
    if any(t.law == "classic" for t in targets):
        columns.append(_Column(f"B_crit [{confidence}]", _estimates(t.b_crit for t in targets), "left"))
    if any(t.law != "classic" for t in targets):
        columns.append(_Column(f"B_min [{confidence}]", _estimates(t.b_min for t in targets), "left"))
        columns.append(_Column(f"B_opt [{confidence}]", _estimates(t.b_opt for t in targets), "left"))
    columns += [
        _Column("S_min", [_number(t.s_min if _s_min_is_inside(t) else None) for t in targets]),
        _Column("E_min", [_number(t.e_min if _e_min_is_inside(t) else None) for t in targets]),
        _Column("RMS", [_rms(t) for t in targets]),
        _Column("reached", [Text(_reached(t)) for t in targets]),
    ]
    if notes.marked:
        columns.append(_Column("note", [Text(notes.mark(t), "yellow") for t in targets], "left"))
    return columns


def _tables(targets: list[TargetRecord], columns: list[_Column]) -> list[RenderableType]:
    """Build one table per group under the group's name, with the same column widths and one header."""
    groups = [
        (name, list(members)) for name, members in groupby(range(len(targets)), lambda i: targets[i].group)
    ]
    if [name for name, _ in groups] == [None]:
        return [_table(columns, groups[0][1], show_header=True)]
    rendered: list[RenderableType] = [_table(columns, [], show_header=True)]
    for name, rows in groups:
        rendered += [
            Text(printable(name or "(no group)"), "italic"),
            _table(columns, rows, show_header=False),
        ]
    return rendered


def _table(columns: list[_Column], rows: list[int], show_header: bool) -> Table:
    wide = sum(column.width for column in columns) + 2 * (len(columns) - 1) <= _NARROW
    table = Table(
        box=box.SIMPLE_HEAD,  # puts one space between columns
        padding=(0, 1 if wide else 0, 0, 0),
        show_header=show_header,
        show_edge=False,
        pad_edge=False,
        header_style="bold",
    )
    for column in columns:
        table.add_column(Text(column.header), justify=column.justify, min_width=column.width, overflow="fold")
    for row in rows:
        table.add_row(*(column.cells[row] for column in columns))
    return table


def _estimates(estimates: Iterable[Estimate | None]) -> list[Text]:
    """Write estimates so that values end, and intervals begin, at the same place in every row."""
    parts = [estimate_parts(estimate) for estimate in estimates]
    value_width = max((len(value) for value, interval in parts if interval), default=0)
    return [
        Text.assemble((value.rjust(value_width), "bold"), f" {interval}")
        if interval
        else Text(value, "yellow")
        for value, interval in parts
    ]


def _number(value: float | None) -> Text:
    return Text(_UNKNOWN if value is None else short(value))


def _rms(target: TargetRecord) -> Text:
    return Text(_UNKNOWN if target.rms_log_residual is None else f"{target.rms_log_residual:.3f}")


def _s_min_is_inside(target: TargetRecord) -> bool:
    """Say whether S_min may be shown: not where the classic law has collapsed."""
    return target.law != "classic" or _is_ok(target.b_crit)


def _e_min_is_inside(target: TargetRecord) -> bool:
    """Say whether E_min may be shown: not where the fewest tokens lie outside what was run."""
    return _is_ok(target.b_crit if target.law == "classic" else target.b_opt)


def _is_ok(estimate: Estimate | None) -> bool:
    return estimate is not None and estimate.status == "ok"


def _reached(target: TargetRecord) -> str:
    tried = {point.batch_tokens for point in target.points}
    reached = {point.batch_tokens for point in target.points if not point.censored}
    return f"{len(reached)}/{len(tried)}"


# a number that stands alone: not a part of a name such as B_1 or 85M
_NUMBER = re.compile(r"(?<![\w.,])\d+(?:,\d{3})*(?:\.\d+)?(?!\w)")


class _Notes:
    """The warnings of all targets; those that differ in numbers only are one note with the range of each number.

    A note that holds for every target gets no number of its own.
    """

    def __init__(self, targets: list[TargetRecord]) -> None:
        alike: dict[str, list[str]] = {}
        for target in targets:
            for warning in target.warnings:
                alike.setdefault(_kind(warning), []).append(warning)
        of_target = [{_kind(warning) for warning in target.warnings} for target in targets]
        everywhere = {
            kind for kind in alike if len(targets) > 1 and all(kind in kinds for kinds in of_target)
        }
        self.everywhere = [_merged(alike[kind]) for kind in alike if kind in everywhere]
        numbered = [kind for kind in alike if kind not in everywhere]
        self.numbers = {kind: number for number, kind in enumerate(numbered, start=1)}
        self.numbered = [_merged(alike[kind]) for kind in numbered]

    @property
    def marked(self) -> bool:
        return bool(self.numbers)

    def mark(self, target: TargetRecord) -> str:
        """Return a target's note numbers, runs of them joined: ``1,3-5``."""
        kinds = {_kind(warning) for warning in target.warnings}
        numbers = sorted(self.numbers[kind] for kind in kinds if kind in self.numbers)
        runs: list[list[int]] = []
        for number in numbers:
            if runs and number == runs[-1][-1] + 1:
                runs[-1].append(number)
            else:
                runs.append([number])
        return ",".join(f"{run[0]}-{run[-1]}" if len(run) > 2 else ",".join(map(str, run)) for run in runs)

    def render(self) -> list[RenderableType]:
        if not self.numbers and not self.everywhere:
            return []
        grid = Table.grid(padding=(0, 1))
        grid.add_column(justify="right", style="yellow", no_wrap=True)
        grid.add_column(overflow="fold")
        for warning in self.everywhere:
            grid.add_row("all:", Text(warning))
        for number, warning in enumerate(self.numbered, start=1):
            grid.add_row(f"{number}.", Text(warning))
        return [Text(""), grid]


def _kind(warning: str) -> str:
    return _NUMBER.sub("0", warning)


def _merged(alike: list[str]) -> str:
    """Write sentences that differ in numbers only as one: ``only 5 to 6 batch sizes``."""
    columns = zip(*(_NUMBER.findall(warning) for warning in alike), strict=True)
    ranges = iter([_range(sorted(set(column), key=_value)) for column in columns])
    return _NUMBER.sub(lambda _: next(ranges), alike[0])


def _range(numbers: list[str]) -> str:
    return numbers[0] if len(numbers) == 1 else f"{numbers[0]} to {numbers[-1]}"


def _value(number: str) -> float:
    return float(number.replace(",", ""))
