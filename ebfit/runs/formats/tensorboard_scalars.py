"""What TensorBoard calls scalars: values of tags at steps and times; and how they become the rows of runs.

A job that was restarted writes its scalars into another file of the same folder. Of a step that was logged again, the
later time counts. If the steps begin anew, nothing was loaded: another run begins there, see `restarts`.
"""

import re
from collections.abc import Sequence
from itertools import pairwise
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np

from ebfit.runs.columns import step_column, surest_column
from ebfit.runs.formats import restarts
from ebfit.runs.formats.json_lines import table_of_records
from ebfit.runs.formats.lightning_steps import logged_by_lightning
from ebfit.runs.formats.many_columns import columns_to_read

# Megatron logs everything again over the samples so far, in place of the step.
_OVER_SOMETHING_ELSE = re.compile(r".* vs \w+")
# More than this is a log of every layer: then only what a run needs is kept.
MAX_CELLS = 20_000_000


class Scalar(NamedTuple):
    """A value of a tag."""

    wall_time: float
    step: int
    tag: str
    value: float
    file: int = 0  # which of several files it stands in


def is_wanted(tag: str) -> bool:
    """Tell whether a tag is one over steps, and not the steps themselves."""
    return not _OVER_SOMETHING_ELSE.fullmatch(tag) and step_column([tag]) is None


def in_time(scalars: Sequence[Scalar]) -> list[Scalar]:
    """Sort scalars by time; those of one time stay in order."""
    return sorted(scalars, key=attrgetter("wall_time"))


def runs_of(scalars: Sequence[Scalar]) -> list[list[Scalar]]:
    """Take runs apart that were logged into one folder one after the other.

    Parameters
    ----------
    scalars : sequence of Scalar
        Sorted by time.
    """
    loss = surest_column("loss", list(dict.fromkeys(scalar.tag for scalar in scalars)))
    at = [index for index, scalar in enumerate(scalars) if scalar.tag == loss]
    begins = [found[0].first for found in restarts.runs([scalars[index].step for index in at])][1:]
    first_of_file: dict[int, int] = {}
    for index, scalar in enumerate(scalars):
        first_of_file.setdefault(scalar.file, index)
    # What was logged ahead of a run's first loss stands in the same file.
    cuts = [0, *sorted(first_of_file[scalars[at[begin]].file] for begin in begins), len(scalars)]
    return [list(scalars[first:end]) for first, end in pairwise(cuts) if end > first]


def rows_of(scalars: Sequence[Scalar]) -> tuple[Any, list[str]]:
    """Put the scalars of a step into one row; those of a step that was logged again into another, further down.

    Parameters
    ----------
    scalars : sequence of Scalar
        Of one run, sorted by time.

    Returns
    -------
    pyarrow.Table
        A column ``step``, and one for every tag.
    list of str
        What there is to say of it.
    """
    tags = list(dict.fromkeys(scalar.tag for scalar in scalars))
    steps = len({scalar.step for scalar in scalars})
    tags, warnings = columns_to_read(tags, steps, MAX_CELLS, "tags")
    kept = set(tags)
    shift = 1 if _of_lightning(scalars) else 0
    records: list[dict[str, float]] = []
    newest: dict[int, dict[str, float]] = {}
    for scalar in scalars:
        if scalar.tag not in kept:
            continue
        record = newest.get(scalar.step)
        if record is None or scalar.tag in record:
            record = newest[scalar.step] = {"step": scalar.step + shift}
            records.append(record)
        record[scalar.tag] = scalar.value
    return table_of_records(records), warnings


def _of_lightning(scalars: Sequence[Scalar]) -> bool:
    loss = surest_column("loss", list(dict.fromkeys(scalar.tag for scalar in scalars)))
    epochs = np.array([scalar.value for scalar in scalars if scalar.tag == "epoch"])
    return logged_by_lightning(epochs, np.array([scalar.step for scalar in scalars if scalar.tag == loss]))
