"""The rows of a console log: columns of numbers, each record once, and the runs that were written one after the other.

Records become rows in one of two ways. `rows_of_matches` takes an expression that describes a record whole, its groups
named after the columns, and is several times faster; `RowList` takes what a function made of each record, for those of
many fields or several lines.
"""

import math
import re
from collections.abc import Mapping, Sequence
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ebfit.runs.facts import Facts
from ebfit.runs.formats import restarts
from ebfit.runs.formats.bytes_of import read_bytes
from ebfit.runs.formats.text_lines import TRUNCATED, Record, TextLog, number
from ebfit.runs.raw_log import Cells, RawLog

# Of an expression's groups, this is a step that counts from 0: number N is printed after the update N + 1.
INDEX = "index"
_BLOCK = 20_000  # records of which the texts of the cells are kept at a time
# Of learning rates that are printed with 4 decimals, those that have one or two digits; smaller ones print otherwise.
_FEW_DIGITS = (1e-4, 1e-2)


class Rows:
    """Rows of a table.

    Parameters
    ----------
    at : numpy.ndarray, shape (rows,)
        The byte of the log at which each record begins.
    columns : dict
        Column name -> cells. ``step`` must be among them.
    dropped : dict, optional
        Reason -> count of records that could not be made rows.

    Attributes
    ----------
    openings : list of tuple of int
        Bytes of the log (first, end) ahead of the first row and of each restart: there trainers print settings.
    """

    def __init__(
        self, at: NDArray[np.int64], columns: dict[str, Cells], dropped: Mapping[str, int] | None = None
    ) -> None:
        self.at = at
        self.columns = {
            name: cells for name, cells in columns.items() if name == "step" or not cells.empty.all()
        }
        self.dropped = dict(dropped or {})
        self.openings: list[tuple[int, int]] = []
        self._repeated = 0

    def __len__(self) -> int:
        return len(self.at)

    def take(self, rows: slice | NDArray[Any]) -> "Rows":
        """Return some of the rows, by a slice, a mask or indices; what was dropped stays with them."""
        columns = {name: Cells(cells.values[rows], cells.empty[rows]) for name, cells in self.columns.items()}
        taken = Rows(self.at[rows], columns, self.dropped)
        taken._repeated = self._repeated
        return taken

    def have(self, name: str) -> NDArray[np.bool_]:
        """Tell which rows have a cell of this column, be it a number or not."""
        return ~self.columns[name].empty if name in self.columns else np.zeros(len(self), dtype=bool)

    def runs(self) -> list["Rows"]:
        """Take the runs of a log apart that were written one after the other, see `restarts`.

        Records that several ranks wrote word for word are counted once.

        Returns
        -------
        list of Rows
            In file order. Of a last run that has hardly begun the rows are dropped.
        """
        return self._without_repeats()._split()

    def _steps(self) -> NDArray[np.float64]:
        return self.columns["step"].values

    def _without_repeats(self) -> "Rows":
        steps, trained = self._steps(), self.have("loss")
        if not trained.any() or not len(self):
            first = np.zeros(len(self), dtype=bool)
        else:
            first = trained & (steps == steps[np.argmax(trained)])
        again = self._same_as_before()
        # At the first step it may be another rank, or another run that began at the same loss.
        maybe = again & first
        kept = self.take(~again | maybe)
        another_rank = _by_another_rank(kept._steps(), kept.have("loss"), maybe[~again | maybe])
        kept = kept.take(~another_rank)
        kept._repeated += int(again.sum() - maybe.sum() + another_rank.sum())
        return kept

    def _same_as_before(self) -> NDArray[np.bool_]:
        """Rows that are the same as the last before them of their step, train losses apart from others."""
        steps, trained = self._steps(), self.have("loss")
        again = np.zeros(len(self), dtype=bool)
        order = np.lexsort((trained, steps))
        before, after = order[:-1], order[1:]
        same = (steps[before] == steps[after]) & (trained[before] == trained[after])
        if same.any():
            before, after = before[same], after[same]
            again[after] = True
            for values, empty in self.columns.values():
                equal = (values[before] == values[after]) | (
                    np.isnan(values[before]) & np.isnan(values[after])
                )
                again[after] &= equal & (empty[before] == empty[after])
        return again

    def _split(self) -> list["Rows"]:
        steps = self._steps()
        train = np.flatnonzero(self.have("loss"))
        found = restarts.runs(steps[train])
        end = len(self)
        if len(found) > 1 and sum(one.end - one.first for one in found[-1]) < restarts.MIN_ROWS:
            end = self._begin(train, found.pop()[0].first)
        begins = [[self._begin(train, stretch.first) for stretch in stretches] for stretches in found]
        begins = begins or [[0]]
        parts = []
        for begun, (first, last) in zip(begins, pairwise([*(rows[0] for rows in begins), end]), strict=True):
            part = self.take(slice(first, last))
            part.openings = [
                (int(self.at[row - 1]) if row else 0, int(self.at[row])) for row in begun if len(self)
            ]
            # What befell the file as a whole is told with its last run: a cut line is that of the last.
            part.dropped, part._repeated = {}, 0
            parts.append(part)
        parts[-1].dropped, parts[-1]._repeated = dict(self.dropped), self._repeated
        if end < len(self):
            parts[-1].dropped[restarts.HARDLY_BEGUN] = len(self) - end
        return parts

    def _begin(self, train: NDArray[np.int64], nth: int) -> int:
        """Return the row at which a stretch begins that has the nth train loss for its first.

        Evaluations ahead of that loss are part of it if they lie before the end of the stretch ahead.
        """
        if nth == 0:
            return 0
        last = train[nth - 1]
        steps = self._steps()
        return int(last + 1 + np.argmax(steps[last + 1 : train[nth] + 1] < steps[last]))

    def raw_log(
        self,
        path: Path,
        *,
        label: str = "",
        facts: Facts | None = None,
        train_window: int | Literal["interval"] | None = None,
        train_ema: float | None = None,
        warnings: Sequence[str] = (),
    ) -> RawLog:
        """Make the run of the rows; the other arguments are those of `RawLog`."""
        at = self.at
        warnings = list(warnings)
        if self._repeated:
            warnings.append(
                f"{self._repeated} records stand there again word for word, as where several ranks write to one "
                "log; each was counted once."
            )

        def locate(row: int) -> str:
            # Reading it again is slow, but spares keeping the whole file in memory.
            return f"line {TextLog(read_bytes(path)).line_number(int(at[row]))}"

        table = pa.table(
            {
                name: pa.array(cells.values, pa.float64(), mask=cells.empty, from_pandas=False)
                for name, cells in self.columns.items()
            }
        )
        return RawLog(
            table,
            locate,
            facts=facts,
            label=label,
            train_window=train_window,
            train_ema=train_ema,
            dropped=self.dropped,
            warnings=warnings,
        )


class RowList:
    """Rows in the making, one record after the other."""

    def __init__(self) -> None:
        self.dropped: dict[str, int] = {}
        self._at: list[int] = []
        self._cells: list[Mapping[str, float]] = []

    def add(self, record: Record, cells: Mapping[str, float]) -> None:
        """Add a row, unless its line may be cut off; that is counted.

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
        self._at.append(record.start.start())
        self._cells.append(cells)

    def drop(self, reason: str) -> None:
        """Count a record that cannot be made a row."""
        self.dropped[reason] = self.dropped.get(reason, 0) + 1

    def rows(self) -> Rows:
        """Return the rows so far."""
        names = dict.fromkeys(name for cells in self._cells for name in cells)
        columns = {
            name: _cells(
                pa.array([cells.get(name) for cells in self._cells], pa.float64(), from_pandas=False)
            )
            for name in names or ["step"]
        }
        return Rows(np.array(self._at, dtype=np.int64), columns, self.dropped)


def rows_of_matches(log: TextLog, record: re.Pattern[bytes], *anchors: bytes) -> Rows:
    """Make rows of records that an expression describes whole.

    Parameters
    ----------
    log : TextLog
        The log.
    record : re.Pattern
        A record. Its groups are all named, after columns; the group ``index`` is a step that counts from 0. It must
        not match across lines, nor into the next record on a line.
    *anchors : bytes
        As `TextLog.records` takes them.
    """
    names = list(record.groupindex)
    at: list[NDArray[np.int64]] = []
    blocks: list[list[Cells]] = []
    matches = log.matches(record, *anchors)
    while True:
        # One list of all cells: a million small tuples would keep the garbage collector busy.
        places: list[int] = []
        texts: list[bytes | None] = []
        for match in islice(matches, _BLOCK):
            places.append(match.start())
            texts.extend(match.groups())
        if not places and at:
            break
        at.append(np.array(places, dtype=np.int64))
        blocks.append([numbers_of(texts[column :: len(names)]) for column in range(len(names))])
    columns = {
        name: Cells(*map(np.concatenate, zip(*cells, strict=True)))
        for name, cells in zip(names, zip(*blocks, strict=True), strict=True)
    }
    if INDEX in columns:
        index = columns.pop(INDEX)
        step = Cells(index.values + 1, index.empty)
        columns["step"] = first_of(step, columns["step"]) if "step" in columns else step
    rows = Rows(np.concatenate(at), columns)
    if len(rows) and not log.is_whole(int(rows.at[-1])):
        rows = rows.take(slice(-1))
        rows.dropped[TRUNCATED] = 1
    return rows


def numbers_of(texts: Sequence[bytes | None]) -> Cells:
    """Read cells as `number` does, and None as an empty one."""
    array = pa.array(texts, pa.binary())
    try:
        return _cells(array.cast(pa.string()).cast(pa.float64()))
    except pa.ArrowInvalid:
        numbers = [None if text is None else number(text) for text in texts]
        return _cells(pa.array(numbers, pa.float64(), from_pandas=False))


def first_of(some: Cells, others: Cells) -> Cells:
    """Return some cells, and where they are empty the others."""
    return Cells(np.where(some.empty, others.values, some.values), some.empty & others.empty)


def few_digits_warnings(rows: Rows) -> list[str]:
    """Warn of learning rates that are printed with 4 decimals, if that is too few to tell their phases apart."""
    rates = rows.columns["lr"].values if "lr" in rows.columns else np.zeros(0)
    highest = float(np.max(rates, where=~np.isnan(rates), initial=0.0))
    if not _FEW_DIGITS[0] <= highest < _FEW_DIGITS[1]:
        return []
    return [
        "the learning rate is printed with 4 decimals, too few to see where warmup ends and decay begins. Give "
        "--warmup-steps and --stable-until."
    ]


def _cells(array: Any) -> Cells:
    empty = array.is_null().to_numpy(zero_copy_only=False)
    return Cells(array.fill_null(math.nan).to_numpy(zero_copy_only=False), empty)


def _by_another_rank(
    steps: NDArray[np.float64], trained: NDArray[np.bool_], maybe: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Tell whether another rank wrote the first step again, or another run began at the same loss.

    After another rank's, the log goes on with a step that nobody wrote before.
    """
    found = np.zeros(len(steps), dtype=bool)
    if not maybe.any():
        return found
    highest = -math.inf
    waiting: list[int] = []
    for row in np.flatnonzero(trained).tolist():
        if maybe[row]:
            waiting.append(row)
            continue
        if steps[row] > highest:
            found[waiting] = True
        waiting = []
        highest = max(highest, steps[row])
    found[waiting] = True
    return found
