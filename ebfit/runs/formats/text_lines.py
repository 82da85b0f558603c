"""Console logs: from the bytes of a text file to the records in it, whatever else trainers and launchers print.

A format says how its records *start*, as a regular expression. `TextLog.records` finds such starts wherever they
stand on a line: after a timestamp, a rank (``[rank0]:``, ``3:``), a progress bar, or another record whose newline
was lost. Colour codes are gone by then, also those within fields. Searching the file for *anchors*, plain texts,
rather than splitting it into lines is what makes it fast: most lines are no records, and are never looked at.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, NamedTuple

import pyarrow as pa

from ebfit.runs.facts import Facts
from ebfit.runs.formats import restarts
from ebfit.runs.formats.bytes_of import HEAD_BYTES, as_text, open_log, read_bytes
from ebfit.runs.raw_log import NotALogError, RawLog

TRUNCATED = "truncated last line"
HARDLY_BEGUN = "of a run that has hardly begun"
# Megatron prints hundreds of arguments and warnings of every rank before it trains.
_OPENING_BYTES = 4 * 2**20
_MAX_RECORD = 64 * 2**10  # no trainer writes more of a record on one line
_MAX_BEFORE = 200
_COLOURS = re.compile(
    rb"\x1b(?:\[[0-?]*[ -/]*[@-~]"  # colours and cursor moves
    rb"|\][^\x07\x1b\n]*(?:\x07|\x1b\\)"  # window titles and links
    rb"|[@-Z\\^_])"
)
# Copied from a web page or a pager, the escape character is gone, or spelt out.
_BARE_COLOURS = re.compile(rb"(?:\^\[|\\x1b|\\033|#033)?\[(?:\d{1,3};){0,4}\d{1,3}m")
_RANK = re.compile(rb"\s*(?:\[[a-z_-]*(\d+)\]:?|(\d+):)(?=\s|\[|$)")


class Record(NamedTuple):
    """A record on its line.

    Attributes
    ----------
    start : re.Match
        What matched as its start, in the bytes of the `TextLog`.
    text : bytes
        From its start to the end of the line, or to the next record on it.
    before : bytes
        The beginning of the line, ahead of the record (at most 200 bytes): timestamps and ranks.
    whole : bool
        False on a last line without a newline: the writer may have been stopped in the middle of a number.
    """

    start: re.Match[bytes]
    text: bytes
    before: bytes
    whole: bool

    @property
    def rank(self) -> int | None:
        """The rank that wrote the line, by the prefix of torchrun or srun; None without one."""
        found = _RANK.match(self.before)
        return int(found[1] or found[2]) if found else None


class TextLog:
    """The bytes of a console log without colour codes.

    Parameters
    ----------
    data : bytes
        As they stand in the file.
    """

    def __init__(self, data: bytes) -> None:
        self.data = _without_colours(data)

    def records(self, start: re.Pattern[bytes], *anchors: bytes) -> Iterator[Record]:
        """Find the records of a log, in file order.

        Parameters
        ----------
        start : re.Pattern
            What records begin with; it must not match across lines.
        *anchors : bytes
            Texts of which every record holds at least one: lines without any are not looked at.

        Yields
        ------
        Record
            Its text begins with the start. Texts longer than 64 KiB are cut there.
        """
        data = self.data
        nowhere = len(data)

        def place(anchor: bytes, after: int) -> int:
            at = data.find(anchor, after)
            return at if at >= 0 else nowhere

        places = [place(anchor, 0) for anchor in anchors]
        while (first := min(places)) < nowhere:
            line_start = data.rfind(b"\n", 0, first) + 1
            line_end = data.find(b"\n", first)
            whole = line_end >= 0
            if not whole:
                line_end = nowhere
            places = [
                at if at > first else place(anchor, first + 1)
                for anchor, at in zip(anchors, places, strict=True)
            ]
            match = start.search(data, line_start, line_end)
            if min(places) < line_end:
                places = [
                    at if at >= line_end else place(anchor, line_end)
                    for anchor, at in zip(anchors, places, strict=True)
                ]
                following = start.search(data, match.end(), line_end) if match else None
            else:
                following = None
            while match:
                end = following.start() if following else line_end
                yield self._record(match, line_start, end, whole or end < line_end)
                match = following
                following = start.search(data, match.end(), line_end) if match else None

    def _record(self, start: re.Match[bytes], line_start: int, end: int, whole: bool) -> Record:
        at = start.start()
        text = self.data[at : min(end, at + _MAX_RECORD)]
        # A progress bar goes back to the beginning of the line and writes over it.
        text, back, _ = text.partition(b"\r")
        before = self.data[line_start : min(at, line_start + _MAX_BEFORE)]
        return Record(start, text, before, whole or back != b"" or end - at > _MAX_RECORD)

    def line_number(self, at: int) -> int:
        """Return the number of the line, from 1, that a byte stands on."""
        return self.data.count(b"\n", 0, at) + 1


class Rows:
    """Rows of a table in the making: cells by column name, and where each row came from.

    Attributes
    ----------
    dropped : dict
        Reason -> count of records that could not be made rows.
    openings : list of tuple of int
        Bytes of the log (first, end) ahead of the first row and of each restart: there trainers print settings.
    """

    def __init__(self) -> None:
        self.dropped: dict[str, int] = {}
        self.openings: list[tuple[int, int]] = []
        self._cells: list[Mapping[str, float]] = []
        self._at: list[int] = []
        self._latest: dict[tuple[float, bool], Mapping[str, float]] = {}
        self._first_step: float | None = None
        self._repeated = 0
        self._maybe_repeated: list[int] = []

    def __len__(self) -> int:
        return len(self._cells)

    def __getitem__(self, row: int) -> Mapping[str, float]:
        return self._cells[row]

    def add(self, record: Record, cells: Mapping[str, float]) -> None:
        """Add a row, unless its line may be cut off (counted), or another rank wrote the very same.

        Parameters
        ----------
        record : Record
            Where the row stands.
        cells : mapping
            Column name -> number, NaN for what is there and no number. ``step`` must be among them.
        """
        if not record.whole:
            self.drop(TRUNCATED)
            return
        key = (cells["step"], "loss" in cells)
        if self._latest.get(key) == cells:
            if "loss" not in cells or cells["step"] != self._first_step:
                self._repeated += 1
                return
            self._maybe_repeated.append(len(self))
        self._latest[key] = cells
        if "loss" in cells and self._first_step is None:
            self._first_step = cells["step"]
        self._cells.append(cells)
        self._at.append(record.start.start())

    def drop(self, reason: str) -> None:
        """Count a record that cannot be made a row."""
        self.dropped[reason] = self.dropped.get(reason, 0) + 1

    def runs(self) -> list["Rows"]:
        """Take the runs of a log apart that were written one after the other, see `restarts`.

        Returns
        -------
        list of Rows
            In file order. Of a last run that has hardly begun the rows are dropped.
        """
        self._settle_first_steps()
        train = [row for row, cells in enumerate(self._cells) if "loss" in cells]
        found = restarts.runs([self._cells[row]["step"] for row in train])
        if len(found) > 1 and sum(one.end - one.first for one in found[-1]) < restarts.MIN_ROWS:
            hardly_begun = len(self) - self._begin(train, found[-1][0].first)
            found.pop()
        else:
            hardly_begun = 0
        begins = [[self._begin(train, stretch.first) for stretch in stretches] for stretches in found] or [
            [0]
        ]
        firsts = [*(rows[0] for rows in begins), len(self) - hardly_begun]
        parts = []
        for index, (first, end) in enumerate(pairwise(firsts)):
            part = Rows()
            part._cells, part._at = self._cells[first:end], self._at[first:end]
            part.openings = [
                (self._at[row - 1] if row else 0, self._at[row]) for row in begins[index] if self._at
            ]
            parts.append(part)
        # What befell the file as a whole is told with its last run: a cut line is that of the last.
        parts[-1].dropped, parts[-1]._repeated = self.dropped, self._repeated
        if hardly_begun:
            parts[-1].dropped[HARDLY_BEGUN] = hardly_begun
        return parts

    def _settle_first_steps(self) -> None:
        """Tell whether another rank wrote the first step again, or another run began at the same loss.

        After another rank's, the log goes on with a step that nobody wrote before.
        """
        highest = -math.inf
        repeated = set()
        waiting: set[int] = set()
        maybe = set(self._maybe_repeated)
        for row, cells in enumerate(self._cells if maybe else ()):
            if row in maybe:
                waiting.add(row)
            elif "loss" in cells:
                if cells["step"] > highest:
                    repeated |= waiting
                waiting = set()
                highest = max(highest, cells["step"])
        repeated |= waiting
        self._repeated += len(repeated)
        self._maybe_repeated = []
        if repeated:
            kept = [row for row in range(len(self)) if row not in repeated]
            self._cells, self._at = [self._cells[row] for row in kept], [self._at[row] for row in kept]

    def _begin(self, train: Sequence[int], nth: int) -> int:
        """Return the row at which a stretch begins that has the nth train loss for its first.

        Evaluations ahead of that loss are part of it if they lie before the end of the stretch ahead.
        """
        if nth == 0:
            return 0
        last = train[nth - 1]
        return next(
            row
            for row in range(last + 1, train[nth] + 1)
            if self._cells[row]["step"] < self._cells[last]["step"]
        )

    def raw_log(
        self,
        path: Path,
        *,
        label: str = "",
        facts: Facts | None = None,
        train_window: int | Literal["interval"] | None = None,
        train_ema: float | None = None,
        warnings: list[str] | None = None,
    ) -> RawLog:
        """Make the run of the rows; the other arguments are those of `RawLog`."""
        at = self._at
        warnings = list(warnings or [])
        if self._repeated:
            warnings.append(
                f"{self._repeated} records stand there again word for word, as where several ranks write to one "
                "log; each was counted once."
            )

        def locate(row: int) -> str:
            # Reading it again is slow, but spares keeping the whole file in memory.
            return f"line {TextLog(read_bytes(path)).line_number(at[row])}"

        return RawLog(
            self._table(),
            locate,
            facts=facts,
            label=label,
            train_window=train_window,
            train_ema=train_ema,
            dropped=self.dropped,
            warnings=warnings,
        )

    def _table(self) -> Any:
        names = dict.fromkeys(name for cells in self._cells for name in cells)
        return pa.table(
            {
                name: pa.array([cells.get(name) for cells in self._cells], pa.float64(), from_pandas=False)
                for name in names
            }
        )


def read_text_log(path: Path) -> TextLog:
    """Read a console log; BadInputError as `bytes_of.open_log`."""
    return TextLog(read_bytes(path))


def opening(head: bytes, path: Path) -> TextLog | None:
    """Return the beginning of a file to sniff at: more than its first bytes, as first steps come late.

    Parameters
    ----------
    head : bytes
        The first bytes of the file, as `sniff` gets them.
    path : Path
        The file; it is read only if `head` is not all of it.

    Returns
    -------
    TextLog or None
        None if the file is no text.
    """
    return _opening(head, path)


@lru_cache(maxsize=1)  # every text format asks for the same file in turn
def _opening(head: bytes, path: Path) -> TextLog | None:
    if as_text(head) is None:
        return None
    if len(head) < HEAD_BYTES:
        return TextLog(head)
    with open_log(path) as file:
        return TextLog(file.read(_OPENING_BYTES))


def number(cell: bytes) -> float:
    """Read a number as trainers print it, ``1,234`` and ``2.31,`` included; NaN for what is none."""
    try:
        value = float(cell)
    except ValueError:
        try:
            value = float(cell.replace(b",", b""))
        except ValueError:
            return math.nan
    # One NaN for all, so that repeated records are equal.
    return value if value == value else math.nan


def _without_colours(data: bytes) -> bytes:
    if b"\x1b" in data:
        return _COLOURS.sub(b"", data)
    if b"[0m" in data or b"[39m" in data:
        return _BARE_COLOURS.sub(b"", data)
    return data


def nothing_found(path: Path, name: str, example: str) -> NotALogError:
    """Return the error of a file that was read as a format, and holds no record of it."""
    return NotALogError(
        f"{path}: no records of the format {name} in it, such as '{example}'. Name another --format."
    )
