"""The CSV that a chart of W&B downloads ("Export panel"): a column per run and metric, each with its range beside it.

The header reads ``"Step","RUN - train/loss","RUN - train/loss__MIN","RUN - train/loss__MAX"``; a run's name may hold
" - " itself, so that it is split from the right. Every run becomes a log of its own, with the metrics that the chart
shows. Charts downloaded into several files stay apart: metrics that belong together want to be in one chart.

A chart holds a sample of what was logged. Runs that were grouped are one line, their mean, named ``Group: VALUE`` or
``KEY: VALUE``.
"""

import csv
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ebfit.errors import BadInputError
from ebfit.runs.columns import WANDB_STEP, look_like_a_log, normalised, step_column
from ebfit.runs.formats import csv_table
from ebfit.runs.formats.bytes_of import as_text
from ebfit.runs.raw_log import NotALogError, RawLog, numbers

NAME = "wandb_panel"
TRAINER = "charts of W&B, downloaded as CSV"
EXAMPLE = '"Step","bs64-lr3e-4 - train/loss","bs64-lr3e-4 - train/loss__MIN","bs64-lr3e-4 - train/loss__MAX"'
_BETWEEN = " - "
_LEAST, _MOST = "__MIN", "__MAX"
_NO_STEP = re.compile(r"(.*_)?(time|runtime|timestamp|epochs?)(_wall|_process)?")
_GROUP = re.compile(r"[^:]{1,80}: ")
# Of a line with more points a chart draws this many; it depends on the settings.
_SAMPLES = (500, 1500)


class _Line(NamedTuple):
    """A line of the chart: which run and metric, and its column."""

    run: str
    metric: str
    column: int
    range: tuple[int, int]


def sniff(head: bytes, path: Path) -> bool:
    """Claim a header in which a column "RUN - METRIC" has its __MIN and __MAX beside it."""
    first = head.split(b"\n", 1)[0]
    if _LEAST.encode() not in first or as_text(head) is None:
        return False
    try:
        names = next(csv.reader([first.decode("utf-8-sig", "replace")]), [])
    except csv.Error:
        return False
    return bool(_lines(names))


def read(path: Path) -> list[RawLog]:
    """Read the runs of a chart.

    Raises
    ------
    BadInputError
        If the header is not that of a chart, its X axis is a time, or the rows cannot be read.
    NotALogError
        If none of its metrics is a loss or a step.
    """
    [raw] = csv_table.read_whole(path)
    names = list(raw.table.column_names)
    lines = _lines(names)
    if not lines:
        raise BadInputError(
            f"{path}: not the CSV of a W&B chart, which has columns such as 'RUN - train/loss' and "
            "'RUN - train/loss__MIN'. Leave --format out, or name another."
        )
    if not look_like_a_log([line.metric for line in lines]):
        raise NotALogError(
            f"{path}: a W&B chart of '{lines[0].metric}', which is no loss. Export another chart."
        )
    runs: dict[str, list[_Line]] = {}
    for line in lines:
        runs.setdefault(line.run, []).append(line)
    _check_axis(path, names[0], runs)
    return [_one_run(raw, names[0], run, its_lines) for run, its_lines in runs.items()]


def _lines(names: list[str]) -> list[_Line]:
    """Find the lines of a chart in its header; runs of the same name are numbered."""
    where: dict[str, list[int]] = {}
    for index, name in enumerate(names):
        where.setdefault(name, []).append(index)
    seen: Counter[str] = Counter()
    lines = []
    for index, name in enumerate(names[1:], start=1):
        run, between, metric = name.rpartition(_BETWEEN)
        nth = seen[name]
        seen[name] += 1
        least, most = where.get(name + _LEAST, []), where.get(name + _MOST, [])
        if between and run and nth < len(least) and nth < len(most):
            label = f"{run} #{nth + 1}" if len(where[name]) > 1 else run
            lines.append(_Line(label, metric, index, (least[nth], most[nth])))
    return lines


def _check_axis(path: Path, axis: str, runs: dict[str, list[_Line]]) -> None:
    if not _NO_STEP.fullmatch(normalised(axis)):
        return
    if any(step_column([line.metric for line in lines]) is None for lines in runs.values()):
        raise BadInputError(
            f"{path}: the X axis of this chart is '{axis}', which tells no steps. Set it to the trainer's own step, "
            "else to Step, and export the chart again."
        )


def _one_run(raw: RawLog, axis: str, run: str, lines: list[_Line]) -> RawLog:
    """Take the rows in which a run has a value, and its columns."""
    filled = [~pc.is_null(raw.table.column(line.column)).to_numpy() for line in lines]
    rows = np.flatnonzero(np.logical_or.reduce(filled))
    columns = {WANDB_STEP if axis == "Step" else axis: raw.table.column(0).take(pa.array(rows))}
    for line in lines:
        columns[line.metric] = raw.table.column(line.column).take(pa.array(rows))

    def locate(row: int) -> str:
        return raw.locate(int(rows[row]))

    about = _what_the_points_are(raw, run, lines, len(rows))
    return replace(
        raw, table=pa.table(columns), locate=locate, label=run, name=run, warnings=[*raw.warnings, *about]
    )


def _what_the_points_are(raw: RawLog, run: str, lines: list[_Line], rows: int) -> list[str]:
    if _GROUP.match(run):
        return [
            f"'{run}' looks like a group of runs, of which a chart draws the mean; ungrouped, they show how far they "
            "differ."
        ]
    if any(_spread(raw, line) for line in lines):
        return [
            "the points of this chart are means over stretches of the run; the run's history has what was logged."
        ]
    if any(0.9 * size <= rows <= size for size in _SAMPLES):
        return [
            f"a W&B chart holds a sample of a long run, here {rows} points; the run's history has all of them."
        ]
    return []


def _spread(raw: RawLog, line: _Line) -> bool:
    """Tell whether a line's points have a range."""
    least, most = (numbers(raw.table.column(index)).values for index in line.range)
    return bool((least < most).any())
