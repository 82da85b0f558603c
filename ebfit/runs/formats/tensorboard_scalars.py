"""What TensorBoard calls scalars: values of tags at steps and times; and how they become the rows of runs.

A job that was restarted writes its scalars into another file of the same folder. Of a step that was logged again, the
later time counts. If the steps begin anew, nothing was loaded: another run begins there, see `restarts`.
"""

import re
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ebfit.runs.columns import step_column, surest_column
from ebfit.runs.formats import restarts
from ebfit.runs.formats.lightning_steps import logged_by_lightning
from ebfit.runs.formats.many_columns import columns_to_read

# Megatron logs everything again over the samples so far, in place of the step.
_OVER_SOMETHING_ELSE = re.compile(r".* vs \w+")


@dataclass(frozen=True)
class Scalars:
    """Values of tags.

    Attributes
    ----------
    names : list of str
        Tags; not all need to occur.
    times, steps, values : arrays, shape (scalars,)
        Seconds of the clock, updates, and what was logged.
    tags : array, shape (scalars,)
        Which of `names`.
    files : array, shape (scalars,)
        Number of the file that it stands in.
    """

    names: list[str]
    times: NDArray[np.float64]
    steps: NDArray[np.int64]
    tags: NDArray[np.int32]
    values: NDArray[np.float64]
    files: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.steps)

    def __getitem__(self, which: Any) -> "Scalars":
        """Return some of them, as an array, a mask, or a slice says."""
        columns = (self.times, self.steps, self.tags, self.values, self.files)
        return Scalars(self.names, *(column[which] for column in columns))

    def present(self) -> list[str]:
        """Return the tags that occur, in order of their first scalars."""
        first = first_places(self.tags, len(self.names))
        in_order = np.argsort(first, kind="stable")
        return [self.names[tag] for tag in in_order[first[in_order] < len(self)].tolist()]

    def of(self, tag: str | None) -> NDArray[np.int64]:
        """Return which are of a tag."""
        number = self.names.index(tag) if tag in self.names else -1
        return np.flatnonzero(self.tags == number)


def first_places(numbers: NDArray[np.int32], count: int) -> NDArray[np.int64]:
    """Return where each of the numbers from 0 on first stands, shape (count,); beyond the end where it does not."""
    first = np.full(count, len(numbers))
    first[numbers[::-1]] = np.arange(len(numbers))[::-1]
    return first


class ScalarsRead:
    """Scalars as they are read, piece by piece."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._pieces: list[list[NDArray[Any]]] = []

    def number_of(self, tag: str) -> int:
        """Return the number of a tag, a new one if it is new."""
        return self._numbers.setdefault(tag, len(self._numbers))

    def add(self, file: int, times: Any, steps: Any, tags: Any, values: Any) -> None:
        """Add scalars of a file: arrays, shape (scalars,), of times, steps, numbers of tags, values."""
        kinds = (np.float64, np.int64, np.int32, np.float64)
        columns = [
            np.asarray(cells, kind) for cells, kind in zip((times, steps, tags, values), kinds, strict=True)
        ]
        self._pieces.append([*columns, np.full(len(columns[0]), file, np.int32)])

    def in_time(self) -> Scalars:
        """Return what was added, sorted by time, and forget it; scalars of one time stay in order."""
        columns: list[Any] = []
        for kind in (np.int32, np.float64, np.int32, np.int64, np.float64):
            cells = [piece.pop() for piece in self._pieces]
            columns.append(np.concatenate(cells) if cells else np.array([], kind))
        files, values, tags, steps, times = columns
        scalars = Scalars(list(self._numbers), times, steps, tags, values, files)
        self._pieces = []
        sorted_already = not (np.diff(times) < 0).any()
        return scalars if sorted_already else scalars[np.argsort(times, kind="stable")]


@lru_cache(maxsize=10_000)
def is_wanted(tag: str) -> bool:
    """Tell whether a tag is one over steps, and not the steps themselves."""
    return not _OVER_SOMETHING_ELSE.fullmatch(tag) and step_column([tag]) is None


def runs_of(scalars: Scalars) -> list[Scalars]:
    """Take runs apart that were logged into one folder one after the other.

    Parameters
    ----------
    scalars : Scalars
        Sorted by time.
    """
    at = scalars.of(surest_column("loss", scalars.present()))
    begins = [found[0].first for found in restarts.runs(scalars.steps[at].astype(float))][1:]
    first_of_file = first_places(scalars.files, int(scalars.files.max(initial=-1)) + 1)
    # What was logged ahead of a run's first loss stands in the same file.
    cuts = [0, *sorted(first_of_file[scalars.files[at[begin]]].item() for begin in begins), len(scalars)]
    return [scalars[first:end] for first, end in pairwise(cuts) if end > first]


def rows_of(scalars: Scalars, path: Path) -> tuple[Any, list[str]]:
    """Put the scalars of a step into one row; those of a step that was logged again into another, further down.

    Parameters
    ----------
    scalars : Scalars
        Of one run, sorted by time.
    path : Path
        A file of the run, for messages.

    Returns
    -------
    pyarrow.Table
        A column ``step``, and one for every tag.
    list of str
        What there is to say of it.

    Raises
    ------
    BadInputError
        If there are more tags of losses and the like than any log has.
    """
    present = scalars.present()
    loss = surest_column("loss", present)
    losses = scalars.steps[scalars.of(loss)]
    shift = 1 if logged_by_lightning(scalars.values[scalars.of("epoch")], losses) else 0
    rows, first = _rows(scalars.steps, scalars.tags)
    tags, warnings = columns_to_read(present, len(first), path, "tags")
    if len(tags) < len(present):
        scalars = scalars[np.isin(scalars.names, tags)[scalars.tags]]
        rows, first = _rows(scalars.steps, scalars.tags)
    columns = {"step": pa.array((scalars.steps[first] + shift).astype(float))}
    by_tag = np.argsort(scalars.tags, kind="stable")
    bounds = np.searchsorted(scalars.tags[by_tag], np.arange(len(scalars.names) + 1))
    numbers = {name: number for number, name in enumerate(scalars.names)}
    for tag in tags:
        number = numbers[tag]
        at = by_tag[bounds[number] : bounds[number + 1]]
        values, empty = np.full(len(first), np.nan), np.ones(len(first), dtype=bool)
        values[rows[at]], empty[rows[at]] = scalars.values[at], False
        columns[tag] = pa.array(values, mask=empty, from_pandas=False)
    return pa.table(columns), warnings


def _rows(steps: NDArray[np.int64], tags: NDArray[np.int32]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the row of every scalar, and the first scalar of every row: that of its step, until a tag comes again."""
    order = np.argsort(steps, kind="stable")
    begins = np.ones(len(order), dtype=bool)
    begins[1:] = np.diff(steps[order]) != 0
    places = np.arange(len(order))
    of_step = np.maximum.accumulate(np.where(begins, places, 0))
    alike = np.lexsort((tags[order], of_step))
    again = np.flatnonzero((np.diff(of_step[alike]) == 0) & (np.diff(tags[order][alike]) == 0))
    newest = -1
    for place, before in sorted(zip(alike[again + 1].tolist(), alike[again].tolist(), strict=True)):
        if before >= max(newest, int(of_step[place])):
            begins[place] = True
            newest = place
    first = order[begins]
    rank = np.empty(len(first), np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    rows = np.empty(len(order), np.int64)
    rows[order] = rank[np.cumsum(begins) - 1]
    return rows, np.sort(first)
