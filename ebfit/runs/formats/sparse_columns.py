"""Columns gathered from records of which each may have other keys, as JSON objects have: gaps take no memory."""

import math
from array import array
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from ebfit.errors import BadInputError
from ebfit.runs.columns import may_have_a_role
from ebfit.runs.formats.limits import MAX_CELLS

_MAX_DEPTH = 50


class SparseColumns:
    """The numbers of records, row by row; those of ``{"train": {"loss": 2}}`` in a column ``train/loss``."""

    def __init__(self) -> None:
        self.rows = 0
        self._columns: dict[str, tuple[array[int], array[float]]] = {}

    def add(self, record: Mapping[str, Any]) -> None:
        """Add a row."""
        self._add(record, "", 0)
        self.rows += 1

    def table(self, path: Path) -> Any:
        """Return the rows as a pyarrow.Table of float columns.

        Null where a record does not have the key, NaN where its value is no number. With gaps and all, they may be
        many times as large as the file: then those that a run needs are kept, and of others the fullest.

        Raises
        ------
        BadInputError
            If it is too large even so. `path` is the file that it names.
        """
        names = list(self._columns)
        at_most = MAX_CELLS // max(self.rows, 1)
        if len(names) > at_most:
            needed = {name for name in names if may_have_a_role(name)}
            if len(needed) > at_most:
                raise BadInputError(
                    f"{path}: {len(needed):,} different keys of losses and the like in {self.rows:,} records, more "
                    "than any log has. Write those of the run into a file of their own."
                )
            names.sort(key=lambda name: (name not in needed, -len(self._columns[name][0])))
            names = names[:at_most]
        return pa.table({name: self._column(name) for name in names})

    def _add(self, record: Mapping[str, Any], prefix: str, depth: int) -> None:
        for key, value in record.items():
            name = f"{prefix}{key}"
            if isinstance(value, dict) and depth < _MAX_DEPTH:
                self._add(value, f"{name}/", depth + 1)
            elif isinstance(value, int | float | str) and not isinstance(value, bool):
                column = self._columns.get(name)
                if column is None:
                    column = self._columns[name] = (array("q"), array("d"))
                column[0].append(self.rows)
                column[1].append(to_float(value))

    def _column(self, name: str) -> Any:
        at, cells = (np.asarray(part) for part in self._columns[name])
        values = np.full(self.rows, np.nan)
        empty = np.ones(self.rows, dtype=bool)
        values[at], empty[at] = cells, False
        return pa.array(values, mask=empty, from_pandas=False)


def table_of_records(records: Iterable[Mapping[str, Any]], path: Path) -> Any:
    """Make a table of the numbers in JSON objects; as `SparseColumns.table`."""
    columns = SparseColumns()
    for record in records:
        columns.add(record)
    return columns.table(path)


def to_float(value: int | float | str) -> float:
    """Return a number, written as text or not; NaN if it is none."""
    try:
        return float(value)
    except (ValueError, OverflowError):
        return math.nan
