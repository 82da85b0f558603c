"""The CSV that TensorBoard downloads for a tag of a run: ``Wall time,Step,Value``.

Which run and tag it is stands in the name of the file alone, ``run-RUN-tag-TAG.csv``, with ``_`` for ``/``. The files
of a run in one folder are read together. TensorBoard draws at most 1,000 points of a tag, taken at random, and
these are what it downloads (`DEFAULT_TENSOR_SIZE_GUIDANCE` in tensorboard 2.21, `backend/event_processing`).
"""

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ebfit.errors import BadInputError
from ebfit.runs.formats import csv_table
from ebfit.runs.formats.tensorboard_scalars import ScalarsRead, is_wanted, rows_of
from ebfit.runs.names import stem
from ebfit.runs.raw_log import NotALogError, RawLog, numbers

NAME = "tensorboard_csv"
TRAINER = "TensorBoard, scalars downloaded as CSV"
EXAMPLE = "run-b64-tag-train_loss.csv: Wall time,Step,Value"
_COLUMNS = ["Wall time", "Step", "Value"]
_RESERVOIR = 1000
_MAX_STEP = 1e15
_NAMED = re.compile(r"run-(?P<run>.*)-tag-(?P<tag>.+?)(?: ?\(\d+\))?")


def sniff(head: bytes, path: Path) -> bool:
    """Claim a table whose columns are Wall time, Step and Value."""
    header = csv_table.find_header(head)
    return header is not None and header.names == _COLUMNS


def run_of(path: Path) -> Path:
    """Return the folder with the run's name in it; the file itself if its name says nothing."""
    named = _NAMED.fullmatch(stem(path))
    return path.parent / f"run-{named['run']}" if named else path


def read(path: Path) -> list[RawLog]:
    """Read one tag; as `read_pieces`."""
    return read_pieces([path])


def read_pieces(paths: Sequence[Path]) -> list[RawLog]:
    """Read the tags of a run.

    Raises
    ------
    BadInputError
        If a file has other columns, or the tag is not known.
    NotALogError
        If there is none but tags that are not over steps.
    """
    scalars: dict[tuple[float, int, str, float], None] = {}  # each once, however often it was downloaded
    dropped: Counter[str] = Counter()
    sampled = False
    for path in paths:
        [raw] = csv_table.read_whole(path)
        if list(raw.table.column_names) != _COLUMNS:
            raise BadInputError(
                f"{path}: not what TensorBoard downloads, which has the columns Wall time, Step and Value. Leave "
                f"--format {NAME} out."
            )
        dropped.update(raw.dropped)
        sampled |= raw.table.num_rows == _RESERVOIR
        tag = _tag(path)
        times, steps, values = (numbers(column).values for column in raw.table.columns)
        stepped = (np.floor(steps) == steps) & (np.abs(steps) < _MAX_STEP)
        dropped["no step"] += int(np.count_nonzero(~stepped))
        if is_wanted(tag):
            rows = zip(np.nan_to_num(times)[stepped], steps[stepped], values[stepped], strict=True)
            scalars |= {(float(time), int(step), tag, float(value)): None for time, step, value in rows}
    if not scalars:
        raise NotALogError(f"{paths[0]}: no tag over steps. Download a loss.")
    read = ScalarsRead()
    all_times, all_steps, tags, all_values = zip(*scalars, strict=True)
    read.add(0, all_times, all_steps, [read.number_of(tag) for tag in tags], all_values)
    table, warnings = rows_of(read.in_time(), paths[0])
    if sampled:
        warnings.append(
            f"TensorBoard downloads a sample of {_RESERVOIR} points of a tag; its event files hold all of them."
        )
    steps = table.column("step").to_pylist()
    named = _NAMED.fullmatch(stem(paths[0]))
    return [
        RawLog(
            table,
            lambda row: f"step {steps[row]:g}",
            name=named["run"] if named and named["run"] != "." else paths[0].absolute().parent.name,
            dropped=dict(+dropped),
            warnings=warnings,
        )
    ]


def _tag(path: Path) -> str:
    named = _NAMED.fullmatch(stem(path))
    if named is None:
        raise BadInputError(
            f"{path}: which tag this is stands in the name that TensorBoard gave the file alone. Name it "
            f"'run-{stem(path)}-tag-train_loss.csv', if it is the train loss."
        )
    return named["tag"]
