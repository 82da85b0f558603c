"""Console logs: from the bytes of a text file to the records in it, whatever else trainers and launchers print.

A format says how its records *start*, as a regular expression. `TextLog.records` finds such starts wherever they
stand on a line: after a timestamp, a rank (``[rank0]:``, ``3:``), a progress bar, or another record whose newline
was lost. Colour codes are gone by then, also those within fields. The file is not split into lines: most of them are
no records, and searching for the starts goes past them. That is fast if an expression begins with letters, or is a
choice of such; one that begins with a boundary, a look-behind or an option takes several times as long.
"""

import io
import math
import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from ebfit.runs.formats.bytes_of import HEAD_BYTES, as_text, open_log, read_bytes
from ebfit.runs.raw_log import NotALogError

TRUNCATED = "truncated last line"
CUT_OFF = "line cut off by another"
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
_COLOURED_BYTES = 2**20  # taking colours out of more at once takes many times as much memory
_RANK = re.compile(rb"\s*(?:\[[a-z_-]*(\d+)\]:?|(\d+):)(?=\s|\[|$)")
_END_OF_LINE = re.compile(rb"[\r\n]")


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

    def matches(self, pattern: re.Pattern[bytes], *anchors: bytes) -> Iterator[re.Match[bytes]]:
        """Search an expression, unless none of the anchors stands in the log: that is many times faster to tell."""
        found = any(anchor in self.data for anchor in anchors) or not anchors
        return pattern.finditer(self.data) if found else iter(())

    def records(self, start: re.Pattern[bytes], *anchors: bytes) -> Iterator[Record]:
        """Find the records of a log, in file order.

        Parameters
        ----------
        start : re.Pattern
            What records begin with; it must not match across lines.
        *anchors : bytes
            Texts of which every record holds at least one: a log without any is not searched, as when it is asked of
            each format in turn whether it knows a file.

        Yields
        ------
        Record
            Its text begins with the start. Texts longer than 64 KiB are cut there.
        """
        data = self.data
        line_start = line_end = 0
        ended = True
        starts = self.matches(start, *anchors)
        match = next(starts, None)
        while match:
            following = next(starts, None)
            at = match.start()
            if at >= line_end:
                line_start = data.rfind(b"\n", line_end, at) + 1
                line_end = data.find(b"\n", at)
                ended = line_end >= 0
                if not ended:
                    line_end = len(data)
            cut = following is not None and following.start() < line_end
            end = following.start() if following and cut else line_end
            # A progress bar goes back to the beginning of the line and writes over it.
            text, back, _ = data[at : min(end, at + _MAX_RECORD)].partition(b"\r")
            whole = ended or cut or back != b"" or end - at > _MAX_RECORD
            yield Record(match, text, data[line_start : min(at, line_start + _MAX_BEFORE)], whole)
            match = following

    def blocks(self, start: re.Pattern[bytes], *anchors: bytes) -> Iterator[Record]:
        """Find records of several lines, as `records` does those of one: their text goes to the next record.

        The last is not whole if the file ends without a newline.
        """
        data = self.data
        starts = self.matches(start, *anchors)
        match = next(starts, None)
        while match:
            following = next(starts, None)
            at, end = match.start(), following.start() if following else len(data)
            whole = following is not None or data.endswith((b"\n", b"\r"))
            yield Record(match, data[at : min(end, at + _MAX_RECORD)], b"", whole)
            match = following

    def is_whole(self, at: int) -> bool:
        """Tell whether the line that this byte stands on was ended."""
        return _END_OF_LINE.search(self.data, at) is not None

    def lines_with(self, text: bytes) -> Iterator[bytes]:
        """Find the lines that hold a text, many times faster than an expression is searched."""
        data = self.data
        at = data.find(text)
        while at >= 0:
            end = data.find(b"\n", at)
            end = end if end >= 0 else len(data)
            yield data[data.rfind(b"\n", 0, at) + 1 : end]
            at = data.find(text, end)

    def line_number(self, at: int) -> int:
        """Return the number of the line, from 1, that a byte stands on."""
        return self.data.count(b"\n", 0, at) + 1


def read_text_log(path: Path) -> TextLog:
    """Read a console log; BadInputError as `bytes_of.open_log`."""
    return TextLog(read_bytes(path))


@lru_cache(maxsize=1)  # every text format asks for the same file in turn
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
    if as_text(head) is None:
        return None
    if len(head) < HEAD_BYTES:
        return TextLog(head)
    with open_log(path) as file:
        return TextLog(file.read(_OPENING_BYTES))


def number(cell: bytes) -> float:
    """Read a number as trainers print it, ``1,234`` and ``2.31,`` included; NaN for what is none."""
    try:
        return float(cell.replace(b",", b"") if b"," in cell else cell)
    except ValueError:
        return math.nan


def _without_colours(data: bytes) -> bytes:
    if b"\x1b" in data:
        colours = _COLOURS
    elif b"[0m" in data or b"[39m" in data:
        colours = _BARE_COLOURS
    else:
        return data
    without = io.BytesIO()
    first = 0
    while first < len(data):
        at_most = first + 2 * _COLOURED_BYTES  # whether a line ends there or not
        end = data.find(b"\n", first + _COLOURED_BYTES, at_most) + 1 or at_most
        without.write(colours.sub(b"", data[first:end]))
        first = end
    return without.getvalue()


def nothing_found(path: Path, name: str, example: str) -> NotALogError:
    """Return the error of a file that was read as a format, and holds no record of it."""
    return NotALogError(
        f"{path}: no records of the format {name} in it, such as '{example}'. Name another --format."
    )
