"""JSON lines: one object per line. Nested objects are flattened, ``{"train": {"loss": 2}}`` to ``train/loss``."""

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.json

from ebfit.errors import BadInputError
from ebfit.runs.formats.bytes_of import as_text, last_line, native_bytes, native_file, open_log, read_bytes
from ebfit.runs.raw_log import RawLog

NAME = "jsonl"
TRAINER = "any that writes JSON lines"
EXAMPLE = '{"step": 10, "train/loss": 3.2, "lr": 0.0003}'
_BLOCK = 4 * 2**20
_MAX_LINE = 64 * 2**20
_MAX_OPENINGS = 1000
_MAX_DEPTH = 50
_BOM = b"\xef\xbb\xbf"
_NOT_NUMBERS = ("NaN", "nan", "Infinity", "-Infinity", "inf", "-inf")


def sniff(head: bytes, path: Path) -> bool:
    """Claim text whose first line is a whole JSON object that looks like one record of several."""
    first = first_record(head)
    if first is None:
        return False
    lines = head.split(b"\n", 2) if head.strip() else []
    more = any(line.strip() for line in lines[1:])
    return more or any(isinstance(value, int | float) for value in first.values())


def first_record(head: bytes) -> dict[str, Any] | None:
    """Return the object on the first line, or None if there is none."""
    if not head.removeprefix(_BOM).lstrip().startswith(b"{") or as_text(head) is None:
        return None
    line = head.removeprefix(_BOM).lstrip().split(b"\n", 1)[0]
    record = _record(line)
    return record if isinstance(record, dict) else None


def read(path: Path) -> list[RawLog]:
    """Read a JSON-lines log.

    Raises
    ------
    BadInputError
        If not one line holds a JSON object.
    """
    dropped: dict[str, int] = {}
    cut = last_line(path)
    if cut.strip() and _record(cut) is None:
        dropped["truncated last line"] = 1  # a killed run leaves it half written
    table = lines = None
    if not dropped and not _may_be_too_deep(path):
        table = _parse_fast(native_file(path))
    if table is None:
        data = read_bytes(path)
        data = data[: len(data) - len(cut)] if dropped else data
        if not _may_be_too_deep(path):
            table = _parse_fast(native_bytes(data)) or _parse_fast(native_bytes(_with_bare_nan(data)))
        if table is None:
            table, lines, bad = _parse_line_by_line(data)
            if bad:
                dropped["not a JSON object"] = bad
    if table.num_rows == 0:
        raise BadInputError(
            f"{path}: no line of it is a whole JSON object. Delete it if the run never started."
        )

    def locate(row: int) -> str:
        return f"line {lines[row] if lines is not None else _line_of_row(read_bytes(path), row)}"

    return [RawLog(table, locate, dropped=dropped)]


def _parse_fast(source: Any) -> Any | None:
    """Parse with pyarrow; None where that is not possible."""
    options = pyarrow.json.ReadOptions(block_size=_BLOCK)
    try:
        return flattened(pyarrow.json.read_json(source, options))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, UnicodeDecodeError):
        return None


def _may_be_too_deep(path: Path) -> bool:
    """Tell whether so many brackets open on a line that pyarrow's parser, which is recursive, may crash."""
    opened = 0
    with open_log(path) as file:
        while piece := file.read(_BLOCK):
            start = 0
            while start < len(piece):
                # A line of so few bytes cannot open too many; the search from the right takes many lines at once.
                end = piece.rfind(b"\n", start, start + _MAX_OPENINGS)
                if end < 0:
                    end = piece.find(b"\n", start)
                    line = piece[start : end if end >= 0 else len(piece)]
                    opened += line.count(b"{") + line.count(b"[")
                    if opened > _MAX_OPENINGS:
                        return True
                if end < 0:
                    break
                opened = 0
                start = end + 1
    return False


def _with_bare_nan(data: bytes) -> bytes:
    """Turn "NaN" and the like, which some writers put as text into number columns, into numbers that are none."""
    for word in _NOT_NUMBERS:
        data = data.replace(f'"{word}"'.encode(), b"NaN")
    return data


def flattened(table: Any) -> Any:
    """Return a table with the fields of nested columns as columns, ``train`` with ``loss`` as ``train/loss``."""
    names: list[str] = []
    columns: list[Any] = []

    def visit(name: str, column: Any) -> None:
        if not pa.types.is_struct(column.type):
            names.append(name)
            columns.append(column)
            return
        for child, part in zip(column.type, column.flatten(), strict=True):
            visit(f"{name}/{child.name}", part)

    for name, column in zip(table.column_names, table.columns, strict=True):
        visit(name, column)
    return pa.table(columns, names=names)


def _parse_line_by_line(data: bytes) -> tuple[Any, list[int], int]:
    """Parse what pyarrow refuses: mixed types, repeated keys, damaged lines. Return table, line numbers, bad lines."""
    records: list[dict[str, Any]] = []
    line_numbers: list[int] = []
    bad = 0
    for number, line in enumerate(data.split(b"\n"), start=1):
        if not line.strip():
            continue
        record = _record(line)
        if isinstance(record, dict):
            records.append(record)
            line_numbers.append(number)
        else:
            bad += 1
    return table_of_records(records), line_numbers, bad


def table_of_records(records: Sequence[Mapping[str, Any]]) -> Any:
    """Make a table of the numbers in a list of JSON objects, nested ones flattened.

    Returns
    -------
    pyarrow.Table
        Of float columns; null where a record does not have the key, NaN where its value is no number.
    """
    columns: dict[str, dict[int, float]] = {}
    for row, record in enumerate(records):
        for name, value in _cells(record):
            columns.setdefault(name, {})[row] = value
    return pa.table({name: _column(cells, len(records)) for name, cells in columns.items()})


def _column(cells: dict[int, float], rows: int) -> Any:
    values = np.full(rows, np.nan)
    empty = np.ones(rows, dtype=bool)
    at = np.fromiter(cells.keys(), dtype=np.int64, count=len(cells))
    values[at] = np.fromiter(cells.values(), dtype=float, count=len(cells))
    empty[at] = False
    return pa.array(values, mask=empty, from_pandas=False)


def _cells(record: Mapping[str, Any], prefix: str = "") -> list[tuple[str, float]]:
    cells = []
    for key, value in record.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict) and prefix.count("/") < _MAX_DEPTH:
            cells += _cells(value, f"{name}/")
        elif isinstance(value, int | float | str) and not isinstance(value, bool):
            cells.append((name, _to_float(value)))
    return cells


def _to_float(value: int | float | str) -> float:
    try:
        return float(value)
    except (ValueError, OverflowError):
        return math.nan


def _record(line: bytes) -> Any:
    """Parse one line; None if it is not JSON."""
    if len(line) > _MAX_LINE:
        return None
    try:
        # Whole numbers as floats: Python refuses to make an int of thousands of digits.
        return json.loads(line.decode("utf-8", errors="replace"), parse_int=float)
    except (ValueError, RecursionError):
        return None


def _line_of_row(data: bytes, row: int) -> int:
    filled = (number for number, line in enumerate(data.split(b"\n"), start=1) if line.strip())
    return next((number for index, number in enumerate(filled) if index == row), 0)
