"""Lightning's CSVLogger: ``<name>/version_N/metrics.csv``.

What it writes, read in lightning 2.6.6 (`loggers/csv_logs.py`, `trainer/connectors/logger_connector/` and
`loops/training_epoch_loop.py` of lightning.pytorch):

- ``step`` counts the optimizer updates made *before* the one that is logged, from 0, whatever the accumulation; a
  record at step 49 is that of update 50. Validations run before the count goes up, so theirs is the same. Every step
  is moved by one here. (With manual optimization the trainer sees no accumulation, and counts every micro-batch.)
- A train loss logged at a step is that of its last micro-batch, on one device unless ``sync_dist`` was given.
  Logged ``on_epoch``, too, it has two columns, ``train_loss_step`` and ``train_loss_epoch``, a mean over the epoch.
- What a validation logs ``on_step`` has the number of the validation batch for a step, and is left out.
- Train losses, validation losses and learning rates stand on rows of their own, which repeat steps.
- A resumed run begins a new ``version_N``, as does every other run with the same ``name``.

LitGPT writes such files with Fabric's CSVLogger, whose step is the caller's: there it counts micro-batches.
"""

import csv
import io
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from ebfit.errors import BadInputError
from ebfit.runs.columns import normalised, surest_column
from ebfit.runs.formats import csv_table
from ebfit.runs.formats.bytes_of import read_bytes, read_head
from ebfit.runs.formats.lightning_steps import count_from_zero
from ebfit.runs.formats.sparse_columns import SparseColumns
from ebfit.runs.formats.versions import (
    HPARAMS,
    TRAINED_AGAIN,
    Beginning,
    End,
    VersionLog,
    about_versions,
    facts_of_hparams,
    number_of,
)
from ebfit.runs.raw_log import RawLog, numbers

NAME = "lightning_csv"
TRAINER = "Lightning (CSVLogger), LitGPT"
EXAMPLE = "<name>/version_0/metrics.csv: epoch,lr-AdamW,step,train_loss,val_loss"
_ENOUGH_BYTES = 4 * 2**10
_ENOUGH_STEPS = 5
_MAX_HEADER_BYTES = 2**20
# What is logged while validating or testing has the number of its batch for a step.
_OF_A_BATCH = re.compile(r"(val|valid|validation|eval|dev|test)_(.*_)?step(_dataloader_idx_\d+)?")
_OF_THE_OPTIMIZER = re.compile(r"lr-.*-(momentum|weight_decay)")


def sniff(head: bytes, path: Path) -> bool:
    """Claim CSV with columns ``epoch`` and ``step``, laid out as Lightning does, whose steps count from 0."""
    rows = _rows_of_head(head)
    epochs = [row["epoch"] for row in rows if row["epoch"]]
    if not epochs or not all(epoch.isdecimal() for epoch in epochs):
        return False
    names = list(rows[0])
    laid_out = names == sorted(names) or any(not cell for row in rows for cell in row.values())
    # Python's csv module, which Lightning uses, ends lines with \r\n.
    return laid_out and count_from_zero(_steps_of_losses(rows), resumed=b"\r\n" in head)


def run_of(path: Path) -> Path:
    """Return the file in which a run begins: that of its first version, see `versions`."""
    return _versions(path.name).first_of(path.parent) / path.name


def belongs(path: Path) -> bool:
    """Tell whether a file holds the hyperparameters or a checkpoint of a run."""
    if path.name == HPARAMS:
        return (path.parent / "metrics.csv").is_file()
    return path.suffix == ".ckpt"


def read(path: Path) -> list[RawLog]:
    """Read one file.

    Raises
    ------
    BadInputError
        If it is no CSV with a column ``step``.
    """
    return read_pieces([path])


def read_pieces(paths: Sequence[Path]) -> list[RawLog]:
    """Read the versions of one run.

    Raises
    ------
    BadInputError
        If one is no CSV with a column ``step``.
    """
    paths = sorted(paths, key=lambda path: (number_of(path.parent), path))
    logs = [_read_one(path) for path in paths]
    for index, (earlier, later) in enumerate(pairwise(logs)):
        logs[index] = _until(earlier, later)
    starts = np.cumsum([0, *(log.table.num_rows for log in logs)])

    def locate(row: int) -> str:
        piece = int(np.searchsorted(starts, row, side="right")) - 1
        where = logs[piece].locate(row - int(starts[piece]))
        return where if len(logs) == 1 else f"{paths[piece].parent.name}, {where}"

    dropped: Counter[str] = Counter()
    for log in logs:
        dropped.update(log.dropped)
    warnings = [warning for log in logs for warning in log.warnings]
    warnings += about_versions([path.parent for path in paths], [_begins([path]) for path in paths])
    table = logs[0].table
    if len(logs) > 1:
        table = pa.concat_tables([_as_numbers(log.table) for log in logs], promote_options="default")
    return [replace(logs[-1], table=table, locate=locate, dropped=dict(dropped), warnings=warnings)]


def _rows_of_head(head: bytes) -> list[dict[str, str]]:
    """Return the first rows of a file, enough to tell how it counts; none unless it has steps and epochs."""
    rows = _whole_rows(head[:_ENOUGH_BYTES])
    if len(head) > _ENOUGH_BYTES and rows and len(_steps_of_losses(rows)) < _ENOUGH_STEPS:
        return _whole_rows(head)
    return rows


def _whole_rows(head: bytes) -> list[dict[str, str]]:
    header = csv_table.find_header(head)
    if header is None or header.delimiter != "," or not {"epoch", "step"} <= set(header.names):
        return []
    if len(set(header.names)) < len(header.names):
        return []
    lines = head.decode("utf-8-sig", errors="replace").splitlines()[header.line :]
    if not head.endswith(b"\n"):
        lines = lines[:-1]
    try:
        cells = list(csv.reader(lines))
    except csv.Error:
        return []
    return [dict(zip(header.names, row, strict=True)) for row in cells if len(row) == len(header.names)]


def _steps_of_losses(rows: Sequence[dict[str, str]]) -> list[int]:
    """Return the rising steps of train losses, or of all rows where there are none; none if a step is no step."""
    loss = surest_column("loss", list(rows[0]))
    with_loss = [row for row in rows if loss is not None and row[loss]] or rows
    if not all(row["step"].isdecimal() and len(row["step"]) < 16 for row in with_loss):
        return []
    return sorted({int(row["step"]) for row in with_loss})


@lru_cache
def _versions(name: str) -> VersionLog:
    """Return how the logs of this name in folders of versions are looked at."""

    def files(folder: Path) -> tuple[Path, ...]:
        path = folder / name
        return (path,) if path.is_file() else ()

    return VersionLog(files, _begins, _ends)


def _begins(paths: Sequence[Path]) -> Beginning:
    rows = _rows_of_head(read_head(paths[0])) if paths else []
    return Beginning.of(_steps_of_losses(rows) if rows else [], from_zero=True)


def _ends(paths: Sequence[Path]) -> End | None:
    try:
        steps = numbers(_read_one(paths[0]).table.column("step")).values
    except BadInputError:
        return None
    return End(steps[np.isfinite(steps)].max(initial=0.0))


def _read_one(path: Path) -> RawLog:
    log = _read_rows(path)
    if "step" not in log.table.column_names:
        raise BadInputError(
            f"{path}: no metrics.csv of Lightning: it has no column step. Leave out --format {NAME}."
        )
    if len(set(log.table.column_names)) < len(log.table.column_names):
        raise BadInputError(f"{path}: two columns have the same name. Rename one in the header.")
    table, litgpt = log.table, "iter" in log.table.column_names
    steps = numbers(table.column("step")).values + 1
    of_batches = [name for name in table.column_names if _OF_A_BATCH.fullmatch(normalised(name))]
    for name in of_batches:
        steps[~numbers(table.column(name)).empty] = np.nan
    left_out = [*of_batches, *filter(_OF_THE_OPTIMIZER.fullmatch, table.column_names), "step"]
    if litgpt and {"tokens", "total_tokens"} <= set(table.column_names):
        left_out.append("tokens")  # of one device
    table = table.drop_columns(left_out)
    table = table.append_column("step", pa.array(steps, from_pandas=True))
    warnings = [*log.warnings, _LITGPT] if litgpt else log.warnings
    return replace(
        log, table=table, facts=facts_of_hparams(path.parent), train_window=_window(table), warnings=warnings
    )


_LITGPT = (
    "the steps of a log with a column 'iter', as LitGPT writes, count micro-batches. If gradients were accumulated, "
    "give --micro-steps, the micro-batches of a device to an update."
)


def _window(table: Any) -> int | None:
    """Return 1 where the train loss is that of a step; None where it may be the mean over an epoch."""
    loss = surest_column("loss", table.column_names)
    if loss is None or "epoch" not in table.column_names:
        return None
    epochs = numbers(table.column("epoch")).values[~numbers(table.column(loss)).empty]
    return 1 if len(epochs) > 2 * len(np.unique(epochs)) else None


def _until(earlier: RawLog, later: RawLog) -> RawLog:
    """Cut off what a version logged past the checkpoint that the next one went on from."""
    steps = numbers(earlier.table.column("step")).values
    others = numbers(later.table.column("step")).values
    first = others[np.isfinite(others)].min(initial=np.inf)
    past = steps >= first
    with_loss = np.zeros(len(steps), dtype=bool)
    for role in ("loss", "val"):
        name = surest_column(role, earlier.table.column_names)
        if name is not None:
            with_loss |= ~numbers(earlier.table.column(name)).empty
    again = int(np.count_nonzero(past & with_loss))
    kept = np.flatnonzero(~past)
    dropped = {**earlier.dropped, TRAINED_AGAIN: again} if again else earlier.dropped
    return replace(
        earlier,
        table=earlier.table.take(kept),
        locate=lambda row: earlier.locate(int(kept[row])),
        dropped=dropped,
    )


def _as_numbers(table: Any) -> Any:
    """Make all columns floats: one that is empty in one file has another type there than in the next."""
    cells = {name: numbers(table.column(name)) for name in table.column_names}
    return pa.table(
        {
            name: pa.array(values, pa.float64(), mask=empty, from_pandas=False)
            for name, (values, empty) in cells.items()
        }
    )


def _read_rows(path: Path) -> RawLog:
    """Read a file as CSV; one in which further header lines follow, part by part."""
    header = csv_table.find_header(read_head(path))
    if header is None or "step" not in header.names:
        (log,) = csv_table.read_whole(path)
        return log
    data = read_bytes(path)
    parts = _parts(data)
    if len(parts) < 2:
        (log,) = csv_table.read_whole(path)
        return log
    columns = SparseColumns()
    lines: list[int] = []
    wrong = 0
    try:
        for first_line, part in parts:
            rows = csv.reader(_lines(part))
            names = next(rows)
            for line, row in enumerate(rows, start=first_line + 1):
                if len(row) != len(names):
                    wrong += bool(row)
                    continue
                columns.add({name: cell for name, cell in zip(names, row, strict=True) if cell})
                lines.append(line)
    except csv.Error as error:
        raise BadInputError(
            f"{path}: cannot be read as CSV ({error}). Copy it again, or correct it."
        ) from None
    table, warnings = columns.table(path)
    return RawLog(
        table,
        lambda row: f"line {lines[row]}",
        dropped={"wrong number of cells": wrong} if wrong else {},
        warnings=warnings,
    )


def _parts(data: bytes) -> list[tuple[int, bytes]]:
    """Return the bytes from each header to the next, with the line number of the header, where there are several."""
    starts: list[int] = []
    at = data.find(b"step")
    while at >= 0:
        start = data.rfind(b"\n", 0, at) + 1
        end = data.find(b"\n", at)
        end = end if end >= 0 else len(data)
        if end - start < _MAX_HEADER_BYTES and b"step" in [
            cell.strip() for cell in data[start:end].split(b",")
        ]:
            starts.append(start)
        at = data.find(b"step", end)
    if len(starts) < 2:
        return []
    parts = []
    line = 1 + data.count(b"\n", 0, starts[0])
    for start, end in pairwise([*starts, len(data)]):
        parts.append((line, data[start:end]))
        line += data.count(b"\n", start, end)
    return parts


def _lines(part: bytes) -> Iterator[str]:
    # Not all at once: as text and as cells they would take many times the file.
    return io.StringIO(part.decode("utf-8-sig", errors="replace").replace("\0", ""), newline=None)
