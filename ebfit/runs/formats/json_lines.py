"""JSON lines: one object per line. Nested objects are flattened, ``{"train": {"loss": 2}}`` to ``train/loss``."""

import io
import json
from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.json

from ebfit.errors import BadInputError
from ebfit.runs.formats.bytes_of import as_text, last_line, native_bytes, native_file, read_bytes
from ebfit.runs.formats.json_shape import is_beyond_pyarrow
from ebfit.runs.formats.sparse_columns import SparseColumns
from ebfit.runs.raw_log import RawLog

NAME = "jsonl"
TRAINER = "any that writes JSON lines"
EXAMPLE = '{"step": 10, "train/loss": 3.2, "lr": 0.0003}'
_BLOCK = 4 * 2**20
_MAX_LINE = 64 * 2**20
_BLANK = b" \t\r\n"
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
    warnings: list[str] = []
    beyond_pyarrow = is_beyond_pyarrow(path)
    if not dropped and not beyond_pyarrow:
        table = _parse_fast(native_file(path))
    if table is None:
        data = read_bytes(path).removeprefix(_BOM)
        data = data[: len(data) - len(cut)] if dropped else data
        if not beyond_pyarrow:
            table = _parse_fast(native_bytes(data)) or _parse_fast(native_bytes(_with_bare_nan(data)))
        if table is None:
            table, warnings, lines, bad = _parse_line_by_line(data, path)
            if bad:
                dropped["not a JSON object"] = bad
    if table.num_rows == 0:
        raise BadInputError(
            f"{path}: no line of it is a whole JSON object. Delete it if the run never started."
        )

    def locate(row: int) -> str:
        return f"line {lines[row] if lines is not None else _line_of_row(read_bytes(path), row)}"

    return [RawLog(table, locate, dropped=dropped, warnings=warnings)]


def _parse_fast(source: Any) -> Any | None:
    """Parse with pyarrow; None where that is not possible."""
    options = pyarrow.json.ReadOptions(block_size=_BLOCK)
    try:
        return flattened(pyarrow.json.read_json(source, options))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, UnicodeDecodeError):
        return None


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


def _parse_line_by_line(data: bytes, path: Path) -> tuple[Any, list[str], Sequence[int], int]:
    """Parse what pyarrow refuses: mixed types, repeated keys, damaged lines.

    Returns
    -------
    pyarrow.Table
    list of str
        What there is to say of it.
    sequence of int
        Line numbers of its rows.
    int
        Lines that are no records.
    """
    columns = SparseColumns()
    line_numbers = array("q")
    bad = 0
    for number, line in enumerate(io.BytesIO(data), start=1):
        if not line.strip():
            continue
        record = _record(line)
        if isinstance(record, dict):
            columns.add(record)
            line_numbers.append(number)
        else:
            bad += 1
    return *columns.table(path), line_numbers, bad


def _record(line: bytes) -> Any:
    """Parse one line; None if it is no JSON object."""
    # Text of another kind is told at a glance: to parse it would take a hundred times as long.
    if len(line) > _MAX_LINE or not line.lstrip(_BLANK).startswith(b"{"):
        return None
    try:
        # Whole numbers as floats: Python refuses to make an int of thousands of digits.
        return json.loads(line.decode("utf-8", errors="replace"), parse_int=float)
    except (ValueError, RecursionError):
        return None


def _line_of_row(data: bytes, row: int) -> int:
    filled = (number for number, line in enumerate(data.split(b"\n"), start=1) if line.strip())
    return next((number for index, number in enumerate(filled) if index == row), 0)
