"""CSV: a header line and a row per record, separated by commas, semicolons or tabs.

Comment lines begin with ``#``; a header that is itself commented out (``# step loss``) is not one.
"""

import csv
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from ebfit.errors import BadInputError
from ebfit.runs.columns import look_like_a_log, may_have_a_role
from ebfit.runs.formats.bytes_of import (
    as_text,
    last_line,
    native_bytes,
    native_file,
    open_log,
    read_bytes,
)
from ebfit.runs.formats.limits import MAX_COLUMNS
from ebfit.runs.raw_log import NotALogError, RawLog

NAME = "csv"
TRAINER = "any that writes a table, and table exports of W&B"
EXAMPLE = "step,train_loss,val_loss,lr"
_QUOTED = re.compile(r'"[^"]*"')
_LINE = re.compile(rb"[^\r\n]*(?:\r\n|\r|\n|$)")
_PIECE = 2**20
_MAX_HEADER_BYTES = 16 * 2**20
# "nan" is not among them: a loss that is not a number is told apart from a cell with nothing in it.
_EMPTY_CELLS = ["", "null", "NULL", "Null", "None", "none", "NA", "N/A", "n/a", "-"]


@dataclass(frozen=True)
class Header:
    """The line with the names of the columns."""

    names: list[str]
    delimiter: str
    line: int  # its line number, from 1
    quotes: int  # up to its end
    end: int  # byte at which it ends

    @property
    def block_bytes(self) -> int:
        """How much to parse at a time: whole lines, and a row of many columns may be as long as their names."""
        return max(_PIECE, 4 * self.end)


def sniff(head: bytes, path: Path) -> bool:
    """Claim text whose first line that is no comment holds two or more names."""
    return find_header(head) is not None


def is_surely_a_table(head: bytes) -> bool:
    """Tell whether a header of names is followed by a row of as many cells, the first of which is a number."""
    header = find_header(head)
    if header is None:
        return False
    row = next(islice(_LINE.finditer(head), header.line, None), None)
    cells = row[0].decode("utf-8", "replace").rstrip("\r\n").split(header.delimiter) if row else []
    return len(cells) == len(header.names) and _is_number(cells[0].strip().strip('"'))


def read(path: Path) -> list[RawLog]:
    """Read a CSV log, the columns that a run needs now, any other when it is asked for.

    Raises
    ------
    BadInputError
        If there is no header, or the rows cannot be split into cells.
    """
    file = _open(path)
    if file.has_quotes():
        return [_whole(file)]
    try:
        table = _ColumnsOnDemand(file)
    except pa.ArrowInvalid:
        return [_whole(file)]
    return [_raw_log(file, table, {})]


def read_whole(path: Path) -> list[RawLog]:
    """Read a CSV log with all its columns, as a pyarrow.Table.

    Raises
    ------
    BadInputError
        As `read`.
    """
    return [_whole(_open(path))]


def _whole(file: "_File") -> RawLog:
    path = file.path
    ragged: list[str] = []
    try:
        table = _parse(file.source(), file.header)
    except pa.ArrowInvalid:
        try:
            table, ragged = _parse_ragged(path, file.header)
        except pa.ArrowInvalid as error:
            reason = str(error).splitlines()[0][:120]
            raise file.problem(f"{path}: cannot be read as CSV ({reason}).") from None
    return _raw_log(file, table, _count_dropped(path, table, ragged))


def _raw_log(file: "_File", table: Any, dropped: dict[str, int]) -> RawLog:
    path, header = file.path, file.header
    if table.num_rows == 0 and not dropped:
        raise file.problem(f"{path}: a header and no rows. Delete it if the run never started.")

    def locate(row: int) -> str:
        return f"line {_line_of_row(read_bytes(path), header, row)}"

    return RawLog(table, locate, dropped=dropped)


@dataclass(frozen=True)
class _File:
    """A CSV file whose header is known, and all its bytes if they are few."""

    path: Path
    header: Header
    data: bytes | None

    def source(self) -> Any:
        """Open it for pyarrow."""
        return native_file(self.path) if self.data is None else native_bytes(self.data)

    def has_quotes(self) -> bool:
        """Tell whether a cell of any row may be quoted, and so hold a delimiter or a line end."""
        if self.data is not None:
            return self.data.count(b'"') > self.header.quotes
        found = 0
        with open_log(self.path) as file:
            while (piece := file.read(_PIECE)) and found <= self.header.quotes:
                found += piece.count(b'"')
        return found > self.header.quotes

    def problem(self, sentence: str) -> BadInputError:
        """Make the error of a file that cannot be read; prose with a comma in its first line is no log at all."""
        return (BadInputError if look_like_a_log(self.header.names) else NotALogError)(sentence)


class _ColumnsOnDemand:
    """The columns of a table without quotes, as RawLog has them, each parsed when it is asked for.

    A run needs a handful of columns, and a table may have thousands. Those that may play a role are parsed at once;
    what `--columns` names may be any other.

    Raises
    ------
    pyarrow.ArrowInvalid
        If a row has another number of cells than the header.
    """

    def __init__(self, file: _File) -> None:
        self.column_names = file.header.names
        self._file = file
        likely = [index for index, name in enumerate(self.column_names) if may_have_a_role(name)]
        self._columns = self._parsed(likely or [0])
        self.num_rows = min(len(column) for column in self._columns.values())

    def column(self, index: int) -> Any:
        """Return a column; a row that was written since the first was parsed is left out."""
        if index not in self._columns:
            self._columns |= self._parsed([index])
        return self._columns[index][: self.num_rows]

    def _parsed(self, indices: Sequence[int]) -> dict[int, Any]:
        try:
            table = _parse_numbers(self._file.source(), self._file.header, indices)
        except pa.ArrowInvalid:  # there is text among the numbers
            table = _parse(self._file.source(), self._file.header, indices)
        return dict(zip(indices, table.columns, strict=True))


def _parse(
    source: Any,
    header: Header,
    indices: Sequence[int] | None = None,
    on_invalid_row: Callable[[Any], str] | None = None,
) -> Any:
    """Parse columns, all by default, of whatever kind they are."""
    names = [f"{index}" for index in range(len(header.names))]  # names may be the same
    table = pyarrow.csv.read_csv(
        source,
        pyarrow.csv.ReadOptions(column_names=names, skip_rows=header.line, block_size=header.block_bytes),
        pyarrow.csv.ParseOptions(delimiter=header.delimiter, invalid_row_handler=on_invalid_row),
        pyarrow.csv.ConvertOptions(
            null_values=_EMPTY_CELLS,
            strings_can_be_null=True,
            include_columns=None if indices is None else [names[index] for index in indices],
        ),
    )
    return table.rename_columns(
        header.names if indices is None else [header.names[index] for index in indices]
    )


def _parse_numbers(source: Any, header: Header, indices: Sequence[int]) -> Any:
    """Parse columns of numbers, piece by piece: what is not kept takes no memory."""
    names = [f"{index}" for index in range(len(header.names))]
    wanted = [names[index] for index in indices]
    with pyarrow.csv.open_csv(
        source,
        pyarrow.csv.ReadOptions(
            column_names=names, skip_rows=header.line, block_size=header.block_bytes, use_threads=False
        ),
        pyarrow.csv.ParseOptions(delimiter=header.delimiter),
        pyarrow.csv.ConvertOptions(
            null_values=_EMPTY_CELLS,
            include_columns=wanted,
            column_types=dict.fromkeys(wanted, pa.float64()),
        ),
    ) as batches:
        return batches.read_all()


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
    return _parse(native_bytes(data), header, on_invalid_row=skip), ragged


def _open(path: Path) -> _File:
    """Find the header, however long it is: tables exported from W&B have thousands of columns."""
    size = _PIECE
    while True:
        with open_log(path) as file:
            head = file.read(size)
        header = find_header(head)
        if header is None:
            raise BadInputError(
                f"{path}: no header line with column names, separated by commas, semicolons or tabs."
            )
        if len(header.names) > MAX_COLUMNS:
            raise BadInputError(
                f"{path}: more than {MAX_COLUMNS:,} columns. Export those that a run needs: steps, losses, learning "
                "rate, batch size."
            )
        whole = len(head) < size
        if whole or head.count(b"\n") >= header.line or size > _MAX_HEADER_BYTES:
            return _File(path, header, head if whole else None)
        size *= 8


@lru_cache(maxsize=2)  # several formats are tables, and ask in turn, for the whole head or part of it
def find_header(head: bytes) -> Header | None:
    """Return the first line that is no comment, if it holds two or more names."""
    if as_text(head) is None:
        return None
    for number, line in enumerate(_LINE.finditer(head), start=1):
        shown = line[0].decode("utf-8-sig", errors="replace")
        if not shown.strip() or shown.lstrip().startswith("#"):
            continue
        delimiter = max(",;\t", key=_QUOTED.sub("", shown).count)
        try:
            names = [name.strip() for name in next(csv.reader([shown], delimiter=delimiter))]
        except csv.Error:
            return None
        looks_like_json = shown.lstrip()[:1] in "{["
        if len(names) < 2 or looks_like_json or any(_is_number(name) for name in names):
            return None
        return Header(names, delimiter, number, head.count(b'"', 0, line.end()), line.end())
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
