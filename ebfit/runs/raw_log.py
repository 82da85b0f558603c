"""What every log format hands over: the rows of one run in file order, not yet judged."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol, TypeGuard, runtime_checkable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ebfit.errors import BadInputError
from ebfit.runs.facts import Facts

# Numbers beyond this are what writers and parsers make of an overflow: not a measurement.
MAX_NUMBER = 1e300


class NotALogError(BadInputError):
    """A file that reads well but is no training log; in a folder such files are passed over."""


@dataclass(frozen=True)
class RawLog:
    """One run as its file has it.

    Attributes
    ----------
    table : pyarrow.Table
        A column per quantity, a row per record, in file order. A cell that the record does not have is null;
        one that is there but holds no number is NaN or text.
    locate : callable
        Row index -> where that row stands in the file, in words ("line 12").
    facts : Facts or None
        What a config inside the log says about the run.
    label : str
        Which run this is, where one file holds several.
    name : str
        What to call the run, where the name of its file does not tell.
    folder : Path or None
        The run's own folder, where its files lie deeper: a run.json is looked for there, names are read from there.
    train_window : int, "interval" or None
        The format's train loss is a mean over so many steps, or over all since the row before; 1 where it is that of
        the step alone. None where the format does not tell.
    train_ema : float or None
        The format's train loss is an exponential moving average over rows, with this weight of the past.
    dropped : dict
        Reason -> count of records that could not be made rows.
    warnings : list of str
        Plain sentences about the file.
    """

    table: Any
    locate: Callable[[int], str]
    facts: Facts | None = None
    label: str = ""
    name: str = ""
    folder: Path | None = None
    train_window: int | Literal["interval"] | None = None
    train_ema: float | None = None
    dropped: dict[str, int] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)


class LogFormat(Protocol):
    """A module of this package that reads one log format."""

    NAME: str  # as in --format
    TRAINER: str  # whose logs these are, such as "Megatron-LM, Megatron-Bridge and Megatron-DeepSpeed"
    EXAMPLE: str  # a line of such a log, or what the file looks like

    def sniff(self, head: bytes, path: Path) -> bool:
        """Tell by the first bytes of a file (unpacked) whether it is of this format."""
        ...

    def read(self, path: Path) -> list[RawLog]:
        """Read all runs that a file holds; BadInputError if it is damaged."""
        ...


class LogInPieces(LogFormat, Protocol):
    """A format of which several files are one run, such as a folder of event files."""

    def run_of(self, path: Path) -> Path:
        """Tell which run a file is a piece of: files with the same answer are read together."""
        ...

    def read_pieces(self, paths: Sequence[Path]) -> list[RawLog]:
        """Read the runs that these files, sorted by path, are the pieces of; BadInputError if one is damaged."""
        ...


def in_pieces(log_format: LogFormat) -> TypeGuard[LogInPieces]:
    """Tell whether several files of a format are one run; asking the protocol takes as long as reading a small file."""
    return hasattr(log_format, "read_pieces")


@runtime_checkable
class KeepsOtherFiles(LogFormat, Protocol):
    """A format whose runs keep files that are no logs beside their logs, such as checkpoints and parameters."""

    def belongs(self, path: Path) -> bool:
        """Tell whether a file that was found in a folder is such a file: nobody needs to hear of it."""
        ...


class Cells(NamedTuple):
    """A column as numbers: NaN where there is none; `empty` tells apart cells with nothing in them."""

    values: NDArray[np.float64]
    empty: NDArray[np.bool_]


def numbers(column: Any) -> Cells:
    """Read a column as numbers.

    Parameters
    ----------
    column : pyarrow.ChunkedArray
        Of any type; text is parsed, and what is no number becomes NaN.
    """
    kind = column.type
    if pa.types.is_boolean(kind) or pa.types.is_null(kind):
        return Cells(np.full(len(column), np.nan), np.ones(len(column), dtype=bool))
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        values = column if pa.types.is_float64(kind) else column.cast(pa.float64(), safe=False)
    elif pa.types.is_string(kind) or pa.types.is_binary(kind):
        values = pa.chunked_array([_parsed(column)])
    else:
        return Cells(np.full(len(column), np.nan), np.zeros(len(column), dtype=bool))
    if column.null_count:
        empty = pc.is_null(column).to_numpy()
        values = pc.fill_null(values, float("nan"))
    else:
        empty = np.zeros(len(column), dtype=bool)
    array = values.to_numpy()
    if len(array) and not (array.max() < MAX_NUMBER and array.min() > -MAX_NUMBER):  # so that NaN counts, too
        with np.errstate(invalid="ignore"):
            array = np.where(np.abs(array) < MAX_NUMBER, array, np.nan)
    return Cells(array, empty)


def _parsed(column: Any) -> Any:
    # As bytes: text of another encoding than UTF-8 must not stop the reading.
    cells = column.cast(pa.binary()).to_pylist()
    return pa.array(
        [None if cell is None else _to_float(cell) for cell in cells], pa.float64(), from_pandas=False
    )


def _to_float(cell: bytes) -> float:
    try:
        return float(cell)
    except ValueError:
        return math.nan
