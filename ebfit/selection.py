"""Which runs go into one fit: chosen and grouped.

The law holds for runs that differ in batch size alone. A folder may hold more: other learning rates, models, seeds.
"""

import math
from collections.abc import Callable, Mapping, Sequence

from ebfit.errors import BadInputError
from ebfit.runs import Run
from ebfit.text import listed, printable

_ALIKE = 1e-6  # relative difference of equal numbers

_KEYS: dict[str, Callable[[Run], float | str | None]] = {
    "lr": lambda run: run.lr,
    "seed": lambda run: run.seed,
    "batch_tokens": lambda run: run.batch_tokens,
    "seq_len": lambda run: run.seq_len,
    "model": lambda run: run.model,
    "data": lambda run: run.data,
    "format": lambda run: run.format,
    "name": lambda run: run.name,
}
GROUP_KEYS = ("model", "data", "lr", "seq_len")


def select(runs: Sequence[Run], wanted: Mapping[str, str]) -> list[Run]:
    """Return the runs that have all the values wanted.

    Parameters
    ----------
    runs : sequence of Run
    wanted : mapping
        Key -> value as text: ``{"lr": "0.001"}``; several values are joined by ``|``. Numbers are compared as numbers.

    Raises
    ------
    BadInputError
        If there is no such key, or no run has the value, naming those that runs have.
    """
    chosen = list(runs)
    for key, text in wanted.items():
        value_of = _key(key, "--select", _KEYS)
        values = [part.strip() for part in text.split("|")]
        kept = [run for run in chosen if any(_equal(value_of(run), value) for value in values)]
        if not kept:
            raise BadInputError(f"--select {key}={text}: no run has that. {_there_are(chosen, key)}")
        chosen = kept
    return chosen


def group_by(runs: Sequence[Run], key: str) -> dict[str, list[Run]]:
    """Return the runs by what they have of ``key``: numbers rising, then names in alphabetical order.

    Raises
    ------
    BadInputError
        If runs cannot be grouped by that, or one of them does not say what it has.
    """
    value_of = _key(key, "--group-by", {name: _KEYS[name] for name in GROUP_KEYS})
    groups: dict[str, list[Run]] = {}
    for run in runs:
        value = value_of(run)
        if value is None:
            raise BadInputError(
                f"{run.path}: --group-by {key}: nothing says the {key} of {run.name}. Put it into a --manifest."
            )
        groups.setdefault(_shown(value), []).append(run)
    return {name: groups[name] for name in sorted(groups, key=_in_order)}


def _key(
    key: str, option: str, keys: Mapping[str, Callable[[Run], float | str | None]]
) -> Callable[[Run], float | str | None]:
    if key not in keys:
        raise BadInputError(f"{option} {key}: runs are told apart by {', '.join(keys)}.")
    return keys[key]


def _equal(value: float | str | None, text: str) -> bool:
    if value is None:
        return False
    if isinstance(value, str):
        return value == text
    try:
        return math.isclose(float(text), value, rel_tol=_ALIKE)
    except ValueError:
        return False


def distinct(runs: Sequence[Run], key: str) -> list[str]:
    """Return the values that runs have of a key of `select`, as text: numbers rising, then names."""
    values = {_shown(value) for run in runs if (value := _KEYS[key](run)) is not None}
    return sorted(values, key=_in_order)


def _there_are(runs: Sequence[Run], key: str) -> str:
    values = distinct(runs, key)
    return f"There are {listed(values)}." if values else f"No log says its {key}."


def _shown(value: float | str) -> str:
    return printable(value) if isinstance(value, str) else f"{value:.6g}"


def _in_order(text: str) -> tuple[int, float, str]:
    try:
        return 0, float(text), text
    except ValueError:
        return 1, 0.0, text
