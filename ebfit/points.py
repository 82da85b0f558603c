"""Reading a points table: steps to target losses that somebody has measured already, one row per run and target."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from ebfit.errors import BadInputError
from ebfit.fitting import Observations
from ebfit.samples import Sample

_KNOWN = (
    "target_loss",
    "batch_tokens",
    "batch_sequences",
    "seq_len",
    "steps",
    "steps_se",
    "seed",
    "censored",
    "group",
)
_SMALLEST, _LARGEST = 1e-12, 1e18  # of steps and tokens
LARGEST_RELATIVE_SE = 10.0
_TRUE = {"1", "true", "yes", "y", "t"}
_FALSE = {"", "0", "false", "no", "n", "f", "nan"}
_WANTED = "Wanted: target_loss, batch_tokens (or batch_sequences and seq_len), steps"


@dataclass(frozen=True)
class PointsTable:
    """The samples of a points table, one per group, and what to say about the reading."""

    path: Path
    samples: list[Sample]
    warnings: list[str]


@dataclass(frozen=True)
class _Row:
    group: str | None
    target: float
    batch_tokens: float
    steps: float
    steps_se: float
    seed: int | None
    censored: bool


def read_points(path: str | Path) -> PointsTable:
    """Read a points table.

    Parameters
    ----------
    path : str or Path
        CSV with target_loss, batch_tokens (or batch_sequences and seq_len) and steps; optional steps_se (in
        steps), seed, censored (the run ended at ``steps`` above the target) and group. Steps and batch sizes may
        be fractional.

    Returns
    -------
    PointsTable

    Raises
    ------
    BadInputError
        If the file cannot be read, a column is missing, or a cell is not what its column holds; the line is named.
    """
    path = Path(path)
    cells = _read_cells(path)
    missing = [name for name in ("target_loss", "steps") if name not in cells]
    if "batch_tokens" not in cells and not {"batch_sequences", "seq_len"} <= set(cells):
        missing.append("batch_tokens")
    if missing:
        raise BadInputError(
            f"{path}: no column {', '.join(missing)} among {', '.join(map(repr, cells.columns[:8]))}. {_WANTED}."
        )
    table = cells.to_dict("list")
    rows = [
        _parse_row(path, line, {str(name): str(column[i]) for name, column in table.items()})
        for i, line in enumerate(cells.index)
    ]
    if not rows:
        raise BadInputError(f"{path}: a header and no rows. {_WANTED}.")
    warnings = []
    unknown = [name for name in cells.columns if name not in _KNOWN]
    if unknown:
        warnings.append(f"{path}: columns not used: {', '.join(unknown)}.")
    groups = sorted({row.group for row in rows}, key=lambda name: name or "")
    return PointsTable(
        path, [_sample(group, [r for r in rows if r.group == group]) for group in groups], warnings
    )


def is_measured(value: float) -> bool:
    """Whether steps or tokens of this size can have been measured, whatever they are counted in."""
    return _SMALLEST <= value <= _LARGEST


def _read_cells(path: Path) -> pd.DataFrame:
    """Return the cells as text; the index is the line of the file."""
    try:
        is_there = path.exists()
    except OSError as error:
        raise BadInputError(f"{path}: cannot be a file ({error.strerror}).") from None
    if not is_there:
        raise BadInputError(f"{path}: no such file.")
    if not path.is_file():
        raise BadInputError(f"{path}: not an ordinary file. --points takes one CSV file.")
    try:
        # The header is read like any row: pandas would rename repeated names, and cut rows that are longer than it.
        rows = pd.read_csv(
            path,
            header=None,
            dtype=str,
            keep_default_na=False,
            encoding="utf-8-sig",
            skip_blank_lines=False,
        )
    except pd.errors.EmptyDataError:
        raise BadInputError(f"{path}: empty. {_WANTED}.") from None
    except (pd.errors.ParserError, UnicodeError, ValueError) as error:
        raise BadInputError(f"{path}: not a CSV table ({str(error).strip()}). {_WANTED}.") from None
    except OSError as error:
        raise BadInputError(f"{path}: cannot be read ({error.strerror}).") from None
    rows = rows.fillna("").apply(lambda column: column.str.strip())
    cells = rows.iloc[1:].set_axis([name.lower() for name in rows.iloc[0]], axis="columns")
    nameless = cells.columns == ""
    if (cells.loc[:, nameless] != "").any(axis=None):
        raise BadInputError(f"{path}: a column without a name holds cells. Name it, or remove it.")
    cells = cells.loc[:, ~nameless]
    repeated = [name for name, count in Counter(cells.columns).items() if count > 1]
    if repeated:
        raise BadInputError(f"{path}: column {repeated[0]} stands in the header twice. Remove one.")
    cells.index = pd.RangeIndex(2, len(cells) + 2)
    return cells[(cells != "").any(axis=1)]


def _parse_row(path: Path, line: int, cell: dict[str, str]) -> _Row:
    if cell.get("batch_tokens") or "batch_sequences" not in cell:
        batch_tokens = _number(path, line, cell, "batch_tokens")
    else:
        batch_tokens = _number(path, line, cell, "batch_sequences") * _number(path, line, cell, "seq_len")
    steps = _number(path, line, cell, "steps")
    for what, value in (("a batch size", batch_tokens), ("steps", steps)):
        if not is_measured(value):
            raise BadInputError(
                f"{path}, line {line}: {what} of {value:g} is nothing that was measured. Correct it."
            )
    flag = cell.get("censored", "").lower()
    if flag not in _TRUE | _FALSE:
        raise BadInputError(f"{path}, line {line}: censored is {flag!r}. Write true or false.")
    seed = cell.get("seed", "")
    return _Row(
        group=cell.get("group") or None,
        target=_number(path, line, cell, "target_loss"),
        batch_tokens=batch_tokens,
        steps=steps,
        steps_se=_steps_se(path, line, cell, steps) if cell.get("steps_se") else 0.0,
        seed=_seed(path, line, cell) if seed else None,
        censored=flag in _TRUE,
    )


def _steps_se(path: Path, line: int, cell: dict[str, str], steps: float) -> float:
    value = _number(path, line, cell, "steps_se", zero_allowed=True)
    if value > LARGEST_RELATIVE_SE * steps:
        raise BadInputError(
            f"{path}, line {line}: steps_se is {value:g}, many times the steps ({steps:g}). Leave such a point out."
        )
    return value


def _seed(path: Path, line: int, cell: dict[str, str]) -> int:
    value = _number(path, line, cell, "seed", zero_allowed=True)
    if value != int(value) or value > 2**63:
        raise BadInputError(f"{path}, line {line}: seed is {cell['seed']!r}. Write a whole number.")
    return int(value)


def _number(path: Path, line: int, cell: dict[str, str], column: str, zero_allowed: bool = False) -> float:
    text = cell.get(column, "")
    try:
        value = float(text)
    except ValueError:
        value = np.nan
    if not np.isfinite(value) or value < 0 or (value == 0 and not zero_allowed):
        wanted = "a number that is not negative" if zero_allowed else "a positive number"
        raise BadInputError(f"{path}, line {line}: {column} is {text!r}, where {wanted} is wanted.")
    return value


def _sample(group: str | None, rows: Sequence[_Row]) -> Sample:
    """Arrange rows as runs x targets; rows of one batch size and seed are one run seen at several targets."""
    targets = sorted({row.target for row in rows}, reverse=True)
    # Rows that share target, batch size and seed are replicates that cannot be told apart: each is its own run.
    repeats = Counter((row.target, row.batch_tokens, row.seed) for row in rows)
    ambiguous = {key[1:] for key, count in repeats.items() if count > 1}
    members: dict[tuple[object, ...], list[_Row]] = {}
    for position, row in enumerate(rows):
        key: tuple[object, ...] = (row.batch_tokens, row.seed)
        members.setdefault((*key, position) if key in ambiguous else key, []).append(row)

    shape = (len(members), len(targets))
    log_steps, censored = np.full(shape, np.nan), np.zeros(shape, dtype=bool)
    covariance = np.zeros((*shape, len(targets)))
    for r, run in enumerate(members.values()):
        for row in run:
            t = targets.index(row.target)
            log_steps[r, t], censored[r, t] = np.log(row.steps), row.censored
            covariance[r, t, t] = (row.steps_se / row.steps) ** 2
    first = [run[0] for run in members.values()]
    return Sample(
        group=group,
        targets=targets,
        observations=Observations(
            np.log([row.batch_tokens for row in first]), log_steps, censored, covariance
        ),
        batch_tokens=[row.batch_tokens for row in first],
        run_names=_names(first),
        seeds=[row.seed for row in first],
    )


def _names(rows: Sequence[_Row]) -> list[str]:
    """Return a name per run; replicates without a seed are numbered."""
    plain = [f"B={row.batch_tokens:.10g}" + ("" if row.seed is None else f" seed={row.seed}") for row in rows]
    total, seen = Counter(plain), Counter[str]()
    names = []
    for name in plain:
        seen[name] += 1
        names.append(name if total[name] == 1 else f"{name} #{seen[name]}")
    return names
