"""CSV: a header line and a row per record, separated by commas, semicolons or tabs.

Comment lines begin with ``#``; a header that is itself commented out (``# step loss``) is not one.
"""

import csv
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from ebfit.errors import BadInputError
from ebfit.runs.columns import look_like_a_log
from ebfit.runs.formats.bytes_of import (
    HEAD_BYTES,
    as_text,
    last_line,
    native_bytes,
    native_file,
    open_log,
    read_bytes,
)
from ebfit.runs.raw_log import NotALogError, RawLog

NAME = "csv"
TRAINER = "any that writes a table, and table exports of W&B"
EXAMPLE = "step,train_loss,val_loss,lr"
_MAX_HEADER_BYTES = 16 * 2**20
# "nan" is not among them: a loss that is not a number is told apart from a cell with nothing in it.
_EMPTY_CELLS = ["", "null", "NULL", "Null", "None", "none", "NA", "N/A", "n/a", "-"]


@dataclass(frozen=True)
class Header:
    """The line with the names of the columns."""

    names: list[str]
    delimiter: str
    line: int  # its line number, from 1


def sniff(head: bytes, path: Path) -> bool:
    """Claim text whose first line that is no comment holds two or more names."""
    return find_header(head) is not None


def is_surely_a_table(head: bytes) -> bool:
    """Tell whether a header of names is followed by a row of as many cells, the first of which is a number."""
    header = find_header(head)
    if header is None:
        return False
    row = next(iter(head.splitlines()[header.line : header.line + 1]), b"").decode("utf-8", "replace")
    cells = row.split(header.delimiter)
    return len(cells) == len(header.names) and _is_number(cells[0].strip().strip('"'))


def read(path: Path) -> list[RawLog]:
    """Read a CSV log.

    Raises
    ------
    BadInputError
        If there is no header, or the rows cannot be split into cells.
    """
    header = _read_header(path)
    if header is None:
        raise BadInputError(
            f"{path}: no header line with column names, separated by commas, semicolons or tabs."
        )
    # Prose with a comma in its first line looks like a header, too.
    problem = BadInputError if look_like_a_log(header.names) else NotALogError
    ragged: list[str] = []
    try:
        table = _parse(native_file(path), header, None)
    except pa.ArrowInvalid:
        try:
            table, ragged = _parse_ragged(path, header)
        except pa.ArrowInvalid as error:
            raise problem(f"{path}: cannot be read as CSV ({str(error).splitlines()[0][:120]}).") from None
    if table.num_rows == 0 and not ragged:
        raise problem(f"{path}: a header and no rows. Delete it if the run never started.")

    def locate(row: int) -> str:
        return f"line {_line_of_row(read_bytes(path), header, row)}"

    return [RawLog(table, locate, dropped=_count_dropped(path, table, ragged))]


def _parse(source: Any, header: Header, on_invalid_row: Callable[[Any], str] | None) -> Any:
    return pyarrow.csv.read_csv(
        source,
        pyarrow.csv.ReadOptions(column_names=header.names, skip_rows=header.line),
        pyarrow.csv.ParseOptions(delimiter=header.delimiter, invalid_row_handler=on_invalid_row),
        pyarrow.csv.ConvertOptions(null_values=_EMPTY_CELLS, strings_can_be_null=True),
    )


def _parse_ragged(path: Path, header: Header) -> tuple[Any, list[str]]:
    """Parse a file in which some rows, comments among them, have another number of cells; return those, too."""
    ragged: list[str] = []

    def skip(row: Any) -> str:
        if not row.text.lstrip().startswith("#"):
            ragged.append(row.text)
        return "skip"

    data = read_bytes(path)
    if len(data.splitlines()) <= header.line:
        return pa.table({}), []
    # Bytes of another encoding become question marks: `skip` could not be handed such a row.
    data = data if data.isascii() else data.decode("utf-8", "replace").encode("ascii", "replace")
    return _parse(native_bytes(data), header, skip), ragged


def _read_header(path: Path) -> Header | None:
    """Find the header, however long it is: tables exported from W&B have thousands of columns."""
    size = HEAD_BYTES
    while True:
        with open_log(path) as file:
            head = file.read(size)
        header = find_header(head)
        if header is None or head.count(b"\n") >= header.line or len(head) < size or size > _MAX_HEADER_BYTES:
            return header
        size *= 8


def find_header(head: bytes) -> Header | None:
    """Return the first line that is no comment, if it holds two or more names."""
    if as_text(head) is None:
        return None
    for number, line in enumerate(head.splitlines(), start=1):
        shown = line.decode("utf-8-sig", errors="replace")
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
        return Header(names, delimiter, number)
    return None


def _count_dropped(path: Path, table: Any, ragged: list[str]) -> dict[str, int]:
    dropped: dict[str, int] = {}
    if ragged:
        cut = last_line(path).decode("utf-8", "replace").strip()
        if cut in (text.strip() for text in ragged):
            ragged.remove(next(text for text in ragged if text.strip() == cut))
            dropped["truncated last line"] = 1
    if ragged:
        # A quote that is never closed makes one row of many lines.
        dropped["wrong number of cells"] = sum(1 + text.strip().count("\n") for text in ragged)
    # Or one cell, and they would vanish without a trace.
    inside = sum(
        pc.sum(pc.count_substring(column, "\n")).as_py() or 0
        for column in table.columns
        if pa.types.is_string(column.type) or pa.types.is_binary(column.type)
    )
    if inside:
        dropped["line inside a quoted cell"] = inside
    return dropped


def _line_of_row(data: bytes, header: Header, row: int) -> int:
    """Count lines again, now that a message needs one: slow, but only on the way out."""
    lines = data.splitlines()[header.line :]
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
