"""Which runs go into one fit: chosen, grouped, and one learning rate of several.

The law holds for runs that differ in batch size alone. A folder may hold more: other learning rates, models, seeds.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from statistics import median_low

from ebfit.errors import BadInputError
from ebfit.runs import Run
from ebfit.text import printable

_ALIKE = 1e-6  # relative difference of equal numbers
_MOST_SHOWN = 6
_SAME_RATE = 1.01
_CLEAN = 0.15  # of a factor: so much first and last losses of batch sizes differ by themselves

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


def differences(runs: Sequence[Run], best_lr: bool) -> list[str]:
    """Return sentences on what runs of one fit differ in besides batch size and seed, and what to do."""
    ways = {
        "lr": ("learning rates", "add --select lr=VALUE, --group-by lr, or --best-lr"),
        "model": ("models", "add --group-by model, or --select model=NAME"),
        "data": ("data", "add --group-by data, or --select data=NAME"),
        "seq_len": ("sequence lengths", "add --group-by seq_len, or --select seq_len=N"),
    }
    if best_lr:
        del ways["lr"]
    sentences = []
    for key, (what, way_out) in ways.items():
        values = _distinct(runs, key)
        if key == "lr" and values and float(values[-1]) <= _SAME_RATE * float(values[0]):
            continue  # one rate, logged with few digits
        if len(values) > 1:
            sentences.append(
                f"the runs have different {what} ({_listed(values)}), and the law holds for runs that differ in batch "
                f"size alone: {way_out}."
            )
    return sentences


def scaled_losses(runs: Sequence[Run]) -> list[str]:
    """Name runs whose losses are a whole multiple of the others' at both ends.

    A known fault of trainers logs the sum over accumulation steps in place of the mean.
    """
    ends = {
        run.name: (float(curve.loss[0]), float(curve.loss[-1]))
        for run in runs
        if (curve := run.train or run.val) is not None and len(curve.loss)
    }
    if len(ends) < 3:
        return []
    first = median_low(start for start, _ in ends.values())
    last = median_low(end for _, end in ends.values())
    found: dict[int, list[str]] = {}
    for name, (start, end) in ends.items():
        if not (start > 0.0 and end > 0.0 and first > 0.0 and last > 0.0):
            continue
        ratios = (start / first, end / last)
        factor = round(math.sqrt(ratios[0] * ratios[1]))
        if factor >= 2 and all(abs(ratio / factor - 1.0) < _CLEAN for ratio in ratios):
            found.setdefault(factor, []).append(name)
    return [
        f"the losses of {_listed(names)} are {factor} times those of the other runs from beginning to end: they seem "
        "to be logged as a sum over accumulation steps. Divide them, or leave these runs out."
        for factor, names in sorted(found.items())
    ]


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


def _distinct(runs: Sequence[Run], key: str) -> list[str]:
    values = {_shown(value) for run in runs if (value := _KEYS[key](run)) is not None}
    return sorted(values, key=_in_order)


def _there_are(runs: Sequence[Run], key: str) -> str:
    values = _distinct(runs, key)
    return f"There are {_listed(values)}." if values else f"No log says its {key}."


def _shown(value: float | str) -> str:
    return printable(value) if isinstance(value, str) else f"{value:.6g}"


def _in_order(text: str) -> tuple[int, float, str]:
    try:
        return 0, float(text), text
    except ValueError:
        return 1, 0.0, text


def _listed(texts: Sequence[str]) -> str:
    more = f" and {len(texts) - _MOST_SHOWN} more" if len(texts) > _MOST_SHOWN else ""
    return ", ".join(texts[:_MOST_SHOWN]) + more
