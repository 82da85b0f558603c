"""What JSON lines look like from afar: whether pyarrow's parser can take them.

It is recursive, so that deep nesting overruns its stack and takes the process with it; and it keeps the gaps in
columns, so that records that each have keys of their own fill any memory.
"""

import re
from pathlib import Path

from ebfit.runs.formats.bytes_of import open_log
from ebfit.runs.formats.limits import MAX_CELLS

_PIECE = 4 * 2**20
_MAX_OPENINGS = 1000
_KEY = re.compile(rb'"([^"\\\n]{1,200})"\s?:')
_WINDOW = 512
_EVERY = 32 * _WINDOW  # bytes from one window that is looked at to the next
_MOSTLY_NEW = 0.1  # share of keys not seen before above which there are many more of them
_MOSTLY_GAPS = 0.05  # share of cells that are filled


def is_beyond_pyarrow(path: Path) -> bool:
    """Tell whether too many brackets open on a line, or records have too many keys that others do not have.

    Raises
    ------
    BadInputError
        As `open_log`.
    """
    lines, size = 1, 0
    on_line = _OnLine()
    keys: set[bytes] = set()
    seen = 0
    with open_log(path) as file:
        while piece := file.read(_PIECE):
            if on_line.is_too_deep(piece):
                return True
            for start in range(0, len(piece), _EVERY):
                found = _KEY.findall(piece, start, start + _WINDOW)
                keys.update(found)
                seen += len(found)
            lines += piece.count(b"\n")
            size += len(piece)
    many_more = len(keys) > _MOSTLY_NEW * seen
    columns = max(len(keys) * (_EVERY // _WINDOW if many_more else 1), on_line.most_keys)
    filled = seen * min(_EVERY, size) / _WINDOW
    return lines * columns > MAX_CELLS and filled < _MOSTLY_GAPS * lines * columns


class _OnLine:
    """What opens and is named on lines that are not short, one of which may go on from piece to piece."""

    def __init__(self) -> None:
        self.most_keys = 0
        self._opened = 0
        self._keys = 0

    def is_too_deep(self, piece: bytes) -> bool:
        """Go on with the next bytes of a file."""
        start = 0
        while start < len(piece):
            # A line of so few bytes cannot open too many; the search from the right takes many lines at once.
            end = piece.rfind(b"\n", start, start + _MAX_OPENINGS)
            if end < 0:
                end = piece.find(b"\n", start)
                line = piece[start : end if end >= 0 else len(piece)]
                self._opened += line.count(b"{") + line.count(b"[")
                self._keys += line.count(b'":')
                self.most_keys = max(self.most_keys, self._keys)
                if self._opened > _MAX_OPENINGS:
                    return True
            if end < 0:
                return False
            self._opened = self._keys = 0
            start = end + 1
        return False
