"""What a file or folder name says about a run, and giving every run a name of its own."""

import os
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

_MULTIPLES = {"": 1, "k": 10**3, "m": 10**6, "ki": 2**10, "mi": 2**20, "gi": 2**30}
_SIZE = r"(?P<number>\d+(?:\.\d+)?)(?P<multiple>k|m|ki|mi|gi)?"
_UNIT = r"[-_]?(?P<unit>seqs?|sequences|tok|toks|tokens)"
# A batch size stands between separators, so that gb200, web64 and lab2 hold none.
_BATCH_FIRST = re.compile(
    r"(?<![a-z0-9])(?:global[-_]?)?(?:b|bs|bsz|gbs|batch|batch[-_]?size|batch[-_]?tokens|batch[-_]?sequences)"
    rf"[-_=]?{_SIZE}(?:{_UNIT})?(?![a-z0-9])",
    re.IGNORECASE,
)
_NUMBER_FIRST = re.compile(rf"(?<![a-z0-9.]){_SIZE}{_UNIT}(?![a-z0-9])", re.IGNORECASE)
_LR = re.compile(
    r"(?<![a-z0-9])(?:lr|learning[-_]?rate)[-_=]?(\d*\.?\d+(?:e[-+]?\d+)?)(?![a-z0-9])", re.IGNORECASE
)
_SEED = re.compile(r"(?<![a-z0-9])seed[-_=]?(\d+)(?![a-z0-9])", re.IGNORECASE)

# File names that say what kind of file it is, not which run.
_GENERIC = {
    "metrics",
    "log",
    "logs",
    "history",
    "train",
    "train_log",
    "training",
    "loss",
    "output",
    "data",
    "run",
    "results",
}
# TensorBoard's event files are named after the machine, and `dgx-b200` is no batch size.
_OF_A_HOST = re.compile(r"events\.out\.tfevents\.")
# The folders that Lightning's loggers make say nothing of a run.
_OF_A_LOGGER = re.compile(r"lightning_logs|version_\d+")
_SUFFIXES = {".csv", ".tsv", ".txt", ".json", ".jsonl", ".ndjson", ".log", ".parquet", ".gz", ".zst"}


@dataclass(frozen=True)
class NamedBatch:
    """A batch size found in a name, in the unit it is given in (None: the name does not tell)."""

    size: float
    unit: str | None
    text: str


def stem(path: Path) -> str:
    """Return a file name without the suffixes of log files; ``b64_lr0.01`` keeps its ``.01``."""
    name = path.name
    while (parts := os.path.splitext(name))[1].lower() in _SUFFIXES:
        name = parts[0]
    return name


def batch_in_name(path: Path, label: str = "") -> NamedBatch | None:
    """Find a batch size in the label of a run, else in its file's name, else in the names of the two folders above.

    A name that holds several different ones, as ``b1_0.9_b2_0.95`` does, says nothing.
    """
    for name in _names(path, label):
        matches = [*_BATCH_FIRST.finditer(name), *_NUMBER_FIRST.finditer(name)]
        found = {_named_batch(match) for match in matches}
        sizes = {(batch.size, batch.unit) for batch in found}
        if len({size for size, _ in sizes}) == 1 and found:
            return max(found, key=lambda batch: (batch.unit is not None, batch.text))
    return None


def lr_in_name(path: Path, label: str = "") -> float | None:
    """Find a learning rate such as ``lr3e-4`` in a label, a file or a folder name."""
    return next((float(match[1]) for name in _names(path, label) if (match := _LR.search(name))), None)


def seed_in_name(path: Path, label: str = "") -> int | None:
    """Find a seed such as ``seed3`` in a label, a file or a folder name."""
    found = (match for name in _names(path, label) if (match := _SEED.search(name)))
    return next((int(match[1]) for match in found if len(match[1]) < 19), None)


def run_name(path: Path, label: str = "") -> str:
    """Name a run after its file, or after its folder where the file name is the same for all runs."""
    own = stem(path)
    folder = path.absolute().parent.name
    name = folder if own.lower() in _GENERIC and folder else own
    name = os.fsencode(name).decode(
        "utf-8", "replace"
    )  # a name of other bytes can be neither printed nor saved
    return f"{name}/{label}" if label else name


def unique_names(names: Sequence[str], paths: Sequence[Path]) -> list[str]:
    """Put folders in front of names that occur more than once, as many as it takes."""
    unique = list(names)
    folders = [list(path.absolute().parent.parts[1:]) for path in paths]
    shared = Counter(zip(names, (path.absolute().parent for path in paths), strict=True))
    for index, path in enumerate(paths):
        parent = path.absolute().parent
        if names[index] != parent.name:
            continue
        folders[index].pop()  # the name is the folder's already
        if shared[names[index], parent] > 1:
            unique[index] = f"{parent.name}/{stem(path)}"
    while clashes := {name for name, count in Counter(unique).items() if count > 1}:
        longer = False
        for index, name in enumerate(unique):
            if name in clashes and folders[index]:
                unique[index] = f"{folders[index].pop()}/{name}"
                longer = True
        if not longer:
            return [f"{name} #{index + 1}" if name in clashes else name for index, name in enumerate(unique)]
    return unique


def _names(path: Path, label: str) -> list[str]:
    own = [] if _OF_A_HOST.match(path.name) else [stem(path)]
    folders = (name for name in reversed(path.absolute().parts[:-1]) if not _OF_A_LOGGER.fullmatch(name))
    return [label, *own, *islice(folders, 2)]


def _named_batch(match: re.Match[str]) -> NamedBatch:
    unit = match["unit"]
    multiple = _MULTIPLES[(match["multiple"] or "").lower()]
    text = match[0].lower()
    if unit is None and "tokens" in text:
        unit = "tokens"
    elif unit is None and "sequences" in text:
        unit = "sequences"
    elif unit is not None:
        unit = "tokens" if unit.lower().startswith("tok") else "sequences"
    return NamedBatch(float(match["number"]) * multiple, unit, match[0])
