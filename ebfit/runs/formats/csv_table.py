"""CSV: a header line and a row per record, separated by commas, semicolons or tabs.

Comment lines begin with ``#``; a header that is itself commented out (``# step loss``) is not one.
"""

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv

from ebfit.errors import BadInputError
from ebfit.runs.formats.bytes_of import HEAD_BYTES, as_text, read_bytes
from ebfit.runs.raw_log import RawLog

NAME = "csv"
# "nan" is not among them: a loss that is not a number is told apart from a cell with nothing in it.
_EMPTY_CELLS = ["", "null", "NULL", "Null", "None", "none", "NA", "N/A", "n/a", "-"]


@dataclass(frozen=True)
class _Header:
    names: list[str]
    delimiter: str
    end: int  # byte offset of the line after the header
    line: int  # its line number, from 1


def sniff(head: bytes, path: Path) -> bool:
    """Claim text whose first line that is no comment holds two or more names."""
    return _find_header(head) is not None


def read(path: Path) -> list[RawLog]:
    """Read a CSV log.

    Raises
    ------
    BadInputError
        If there is no header, or the rows cannot be split into cells.
    """
    data = read_bytes(path)
    header = _find_header(data[:HEAD_BYTES])
    if header is None:
        raise BadInputError(
            f"{path}: no header line with column names, separated by commas, semicolons or tabs."
        )
    body = memoryview(data)[header.end :]
    ragged: list[str] = []

    def skip(row: Any) -> str:
        if not row.text.lstrip().startswith("#"):
            ragged.append(row.text)
        return "skip"

    try:
        table = pyarrow.csv.read_csv(
            pa.BufferReader(pa.py_buffer(body)),
            pyarrow.csv.ReadOptions(column_names=header.names),
            pyarrow.csv.ParseOptions(delimiter=header.delimiter, invalid_row_handler=skip),
            pyarrow.csv.ConvertOptions(null_values=_EMPTY_CELLS, strings_can_be_null=True, check_utf8=False),
        )
    except pa.ArrowInvalid as error:
        if not body.tobytes().strip():
            raise BadInputError(
                f"{path}: a header and no rows. Delete it if the run never started."
            ) from None
        raise BadInputError(f"{path}: cannot be read as CSV ({_short(error)}).") from None
    if table.num_rows == 0 and not ragged:
        raise BadInputError(f"{path}: a header and no rows. Delete it if the run never started.")
    dropped = _count_dropped(data, header, table.num_rows, ragged)

    def locate(row: int) -> str:
        return f"line {_line_of_row(data, header, row)}"

    return [RawLog(table, locate, dropped=dropped)]


def _find_header(head: bytes) -> _Header | None:
    text = as_text(head)
    if text is None:
        return None
    end = 0
    for number, line in enumerate(head.splitlines(keepends=True), start=1):
        end += len(line)
        shown = line.decode("utf-8-sig", errors="replace").strip("\r\n")
        if not shown.strip() or shown.lstrip().startswith("#"):
            continue
        delimiter = max(",;\t", key=shown.count)
        try:
            names = [name.strip() for name in next(csv.reader([shown], delimiter=delimiter))]
        except csv.Error:
            return None
        looks_like_json = shown.lstrip()[:1] in "{["
        if len(names) < 2 or looks_like_json or any(_is_number(name) for name in names):
            return None
        return _Header(names, delimiter, end, number)
    return None


def _count_dropped(data: bytes, header: _Header, rows: int, ragged: list[str]) -> dict[str, int]:
    dropped: dict[str, int] = {}
    last = data[data.rfind(b"\n", 0, len(data) - 1) + 1 :].decode("utf-8", "replace").strip()
    if ragged and not data.endswith(b"\n") and last in (text.strip() for text in ragged[-1:]):
        ragged.pop()
        dropped["truncated last line"] = 1
    if ragged:
        dropped["wrong number of cells"] = len(ragged)
    if data.find(b'"', header.end) >= 0:
        # A quote that is never closed makes one cell of many lines, which would vanish without a trace.
        lines = sum(
            1 for line in data[header.end :].splitlines() if line.strip() and not line.startswith(b"#")
        )
        inside = lines - rows - sum(dropped.values())
        if inside > 0:
            dropped["line inside a quoted cell"] = inside
    return dropped


def _line_of_row(data: bytes, header: _Header, row: int) -> int:
    """Count lines again, now that a message needs one: slow, but only on the way out."""
    lines = data[header.end :].splitlines()
    cells = [
        next(csv.reader([line.decode("utf-8", "replace")], delimiter=header.delimiter), []) for line in lines
    ]
    rows = [number for number, found in enumerate(cells, start=1) if len(found) == len(header.names)]
    return header.line + rows[min(row, len(rows) - 1)]


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _short(error: Exception) -> str:
    return str(error).splitlines()[0][:120]
