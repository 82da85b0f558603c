"""What ``ebfit diff`` prints: what went in, the numbers that differ side by side, and which have moved."""

import json
from collections.abc import Iterator, Sequence
from math import isclose
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ebfit.files import ROUNDING, Diff, DiffSide, Estimate, GrowthChange, LoneTarget, NumberChange
from ebfit.report.numbers import NOT_IDENTIFIED, estimate_text, loss_texts
from ebfit.text import printable, short

_LINES = {"b_opt_vs_tokens": "B_opt", "b_min_vs_tokens": "B_min"}
_WORDS = {
    "moved": "the new value, or all that the new bound allows, lies outside the old interval",
    "lost": "no value any more",
    "found": "no value before",
    "sharper": "the new value lies in the old interval, the old one outside the new interval",
}
_COLOURS = {"moved": "bold red", "lost": "yellow", "found": "green", "sharper": ""}
_MOST_NAMED = 3  # files, losses
_LONGEST = 40  # characters of a setting
_WIDEST_PLACE = 20  # columns


def print_diff(diff: Diff) -> None:
    """Print what differs between two fits; it fits 80 columns."""
    console = Console(highlight=False)
    for line in _about(diff):
        console.print(Text(line))
    rows = list(_rows(diff))
    shown = [row for row in rows if not _is_unchanged(row[2])]
    if shown:
        console.print(_table(diff, shown))
        words = dict.fromkeys(word for *_, number in shown if (word := _word(number)))
        console.print(Text(_legend(words, len(rows) - len(shown)), "dim"))
    for line in _lone(diff):
        console.print(Text(line))
    console.print(_verdict(diff, rows, len(shown)))


def _about(diff: Diff) -> Iterator[str]:
    yield f"old: {_side(diff.old)}"
    yield f"new: {_side(diff.new)}"
    files = {
        "added": diff.inputs.added,
        "removed": diff.inputs.removed,
        "changed": diff.inputs.changed,
        "renamed": [f"{item.old} to {item.new}" for item in diff.inputs.renamed],
    }
    for what, names in files.items():
        if names:
            yield f"{len(names)} input{'s' if len(names) > 1 else ''} {what}: {_listed(names)}"
    for key, setting in diff.settings.items():
        yield f"setting {printable(key)}: {_value(setting.old)} -> {_value(setting.new)}"
    laws = {(target.old_law, target.new_law) for target in diff.targets if target.old_law != target.new_law}
    for old, new in sorted(laws):
        yield f"law of targets: {printable(old)} -> {printable(new)}"


def _side(side: DiffSide) -> str:
    return f"{printable(side.path or 'a fit')}, by ebfit {printable(side.ebfit_version)}"


def _value(value: Any) -> str:
    if value is None:
        return "none"
    text = value if isinstance(value, str) else json.dumps(value)
    text = printable(text)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def _listed(names: Sequence[str]) -> str:
    told = ", ".join(printable(name) for name in names[:_MOST_NAMED])
    return told + (f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else "")


def _rows(diff: Diff) -> Iterator[tuple[str, str, NumberChange]]:
    """Yield of every number the target or line it belongs to, its name, and what became of it."""
    losses = loss_texts([target.loss for target in diff.targets])
    for text, target in zip(losses, diff.targets, strict=True):
        place = text if target.group is None else f"{text} {printable(target.group)}"
        for name, number in (("B_min", target.b_min), ("B_opt", target.b_opt), ("B_crit", target.b_crit)):
            if number is not None:
                yield place, name, number
    for line in diff.growth:
        yield _line(line), "exponent", line.exponent
        if line.batch_tokens is not None and line.at_tokens is not None:
            yield _line(line), f"at D = {short(line.at_tokens)}", line.batch_tokens


def _line(line: GrowthChange) -> str:
    of = "" if line.group is None else f" {printable(line.group)}"
    return f"{_LINES[line.line]}(D){of}"


def _table(diff: Diff, rows: Sequence[tuple[str, str, NumberChange]]) -> Table:
    table = Table(
        box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False, pad_edge=False, header_style="bold"
    )
    table.add_column("loss", overflow="fold", max_width=_WIDEST_PLACE)
    for header in ("", f"old [{_percent(diff.old)}]", f"new [{_percent(diff.new)}]"):
        table.add_column(header, no_wrap=True)
    table.add_column("new/old", justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    before = None
    for place, name, number in rows:
        is_exponent = name == "exponent"
        word = _word(number)
        table.add_row(
            Text("" if place == before else place, "bold"),
            name,
            _estimate(number.old, is_exponent),
            _estimate(number.new, is_exponent),
            "" if number.ratio is None else f"{number.ratio:.3g}",
            Text(word, _COLOURS.get(word, "")),
        )
        before = place
    return table


def _percent(side: DiffSide) -> str:
    return f"{100.0 * side.confidence:g}%"


def _estimate(estimate: Estimate, is_exponent: bool) -> str:
    if not is_exponent:
        return estimate_text(estimate)
    if estimate.value is None:
        return NOT_IDENTIFIED
    ends = ["?" if end is None else f"{end:.2f}" for end in (estimate.low, estimate.high)]
    return f"{estimate.value:.2f} [{ends[0]}, {ends[1]}]"


def _word(number: NumberChange) -> str:
    words = {
        "moved": number.moved,
        "lost": number.lost,
        "found": number.found,
        "sharper": number.old_outside_new,
    }
    return next((word for word, holds in words.items() if holds), "")


def _is_unchanged(number: NumberChange) -> bool:
    old, new = number.old, number.new
    return old.status == new.status and all(
        a == b or (a is not None and b is not None and isclose(a, b, rel_tol=ROUNDING))
        for a, b in ((old.value, new.value), (old.low, new.low), (old.high, new.high))
    )


def _legend(words: Sequence[str] | dict[str, None], hidden: int) -> str:
    parts = [f"{word}: {_WORDS[word]}" for word in words]
    if hidden:
        parts.append(
            f"{hidden} number{'s that differ' if hidden > 1 else ' that differs'} by less than 0.1% left out"
        )
    return f"{'. '.join(parts)}." if parts else "B in tokens, D: tokens to the target."


def _lone(diff: Diff) -> Iterator[str]:
    for which, targets in (("old", diff.only_old), ("new", diff.only_new)):
        if targets:
            told = [_lone_target(target) for target in targets[:_MOST_NAMED]]
            more = f" and {len(targets) - _MOST_NAMED} more" if len(targets) > _MOST_NAMED else ""
            yield f"only in {which}: {', '.join(told)}{more}"


def _lone_target(target: LoneTarget) -> str:
    group = "" if target.group is None else f" {printable(target.group)}"
    why = "" if target.skipped is None else f" (skipped in the other: {printable(target.skipped)})"
    return f"{target.loss:.5g}{group}{why}"


def _verdict(diff: Diff, rows: Sequence[tuple[str, str, NumberChange]], shown: int) -> Text:
    compared = f"{diff.compared} number{'' if diff.compared == 1 else 's'} compared"
    if diff.moved:
        moved = [f"{name} of {place}" for place, name, number in rows if number.moved]
        return Text.assemble(
            ("moved", "bold red"), f" out of the old interval: {_listed(moved)}; {compared}."
        )
    if not shown:
        return Text(f"Nothing differs by more than 0.1%; {compared}.")
    return Text(f"Nothing moved out of its old interval; {compared}.")
