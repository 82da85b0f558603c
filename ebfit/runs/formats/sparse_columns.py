"""Columns gathered from records of which each may have other keys, as JSON objects have: gaps take no memory."""

import math
from array import array
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from ebfit.runs.formats.many_columns import columns_to_read

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

    def table(self, path: Path) -> tuple[Any, list[str]]:
        """Return the rows as a table, which with all its gaps may be many times as large as the file.

        Parameters
        ----------
        path : Path
            The file, for messages.

        Returns
        -------
        pyarrow.Table
            Of float columns: null where a record does not have the key, NaN where its value is no number.
        list of str
            A sentence if there are so many columns that only those were kept that a run needs.

        Raises
        ------
        BadInputError
            If these are more than any log has.
        """
        names, warnings = columns_to_read(list(self._columns), self.rows, path, "keys")
        return pa.table({name: self._column(name) for name in names}), warnings

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


def table_of_records(records: Iterable[Mapping[str, Any]], path: Path) -> tuple[Any, list[str]]:
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
