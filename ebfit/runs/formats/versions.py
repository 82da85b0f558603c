"""Folders ``version_0``, ``version_1`` and so on, which Lightning's loggers make: one for every run, and one more for
every time that a run is resumed.

Versions stand side by side for different runs, and for a run that was resumed. One that begins with the first steps is
a run of its own. One that begins later goes on from an earlier version that reached its first step, if only one run did
so, if the hyperparameters beside the two are the same, and, where the clock is known, if the one began after the other
had ended.
"""

import re
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any

from ebfit.runs.facts import Facts, facts_from
from ebfit.runs.formats.yaml_mapping import read_mapping

HPARAMS = "hparams.yaml"
TRAINED_AGAIN = "trained again after a resumption"
_VERSION = re.compile(r"version_(\d{1,9})")


@dataclass(frozen=True)
class Beginning:
    """How the log of a version begins.

    Attributes
    ----------
    update : int
        The first update with a train loss, from 1.
    gap : int or None
        Updates from one train loss to the next; None if there are too few to tell.
    at : float or None
        Seconds of the clock when it was begun, where the log says so.
    """

    update: int
    gap: int | None
    at: float | None = None

    @property
    def late(self) -> bool:
        """Whether updates before it must have been made elsewhere: the first record would have been earlier."""
        return self.gap is not None and self.update > self.gap

    @staticmethod
    def of(steps: Sequence[int], *, from_zero: bool, at: float | None = None) -> "Beginning":
        """Describe a log by the first steps of its train losses, rising, which count from 0 or from 1."""
        gaps = [after - before for before, after in pairwise(steps)]
        return Beginning(steps[0] + from_zero if steps else 1, statistics.mode(gaps) if gaps else None, at)


@dataclass(frozen=True)
class End:
    """How far the log of a version goes: its last update, and when that was made, where the log says so."""

    update: float
    at: float | None = None


@dataclass(frozen=True)
class VersionLog:
    """What a format tells of the log in the folder of a version.

    Attributes
    ----------
    files : callable
        Folder -> the files of the log in it, none if there is no log.
    begins : callable
        These files -> how the log begins.
    ends : callable
        These files -> how far it goes; None if they cannot be read.
    """

    files: Callable[[Path], tuple[Path, ...]]
    begins: Callable[[Sequence[Path]], Beginning]
    ends: Callable[[Sequence[Path]], End | None]

    def first_of(self, folder: Path) -> Path:
        """Return the folder of the version in which the run of a version begins."""
        number = number_of(folder)
        if number < 0 or not self.begins(self.files(folder)).late:
            return folder
        beside = sorted(folder.parent.glob("version_*"), key=number_of)
        logs = {version: self.files(version) for version in beside if 0 <= number_of(version) <= number}
        as_they_are = tuple(
            (version, files, tuple(map(_state, (version / HPARAMS, *files))))
            for version, files in logs.items()
            if files
        )
        return _firsts(self, as_they_are).get(folder, folder)


@lru_cache(maxsize=100)  # every version asks
def _firsts(
    log: VersionLog, versions: tuple[tuple[Path, tuple[Path, ...], tuple[tuple[int, int], ...]], ...]
) -> dict[Path, Path]:
    """Return where the run of each version begins: folders, the files of their logs, and how all files were found."""
    files = {version: those for version, those, _ in versions}
    begins = {version: log.begins(those) for version, those in files.items()}
    ends: dict[Path, End | None] = {}
    hparams = {version: read_hparams(version) for version in files}
    first: dict[Path, Path] = {}
    for version, begin in begins.items():
        roots = set()
        for earlier, root in first.items() if begin.late else ():
            if begins[earlier].update < begin.update and hparams[earlier] == hparams[version]:
                if earlier not in ends:
                    ends[earlier] = log.ends(files[earlier])
                if _goes_on(begin, ends[earlier]):
                    roots.add(root)
        first[version] = roots.pop() if len(roots) == 1 else version
    return first


def _goes_on(begin: Beginning, end: End | None) -> bool:
    """Tell whether a log begins where another had come to, or before its end."""
    if end is None or begin.update > end.update + (begin.gap or 1):
        return False
    return begin.at is None or end.at is None or begin.at >= end.at


def _state(file: Path) -> tuple[int, int]:
    try:
        status = file.stat()
    except OSError:
        return (0, 0)
    return (status.st_mtime_ns, status.st_size)


def number_of(folder: Path) -> int:
    """Return the number of a version, -1 if the folder is none."""
    version = _VERSION.fullmatch(folder.name)
    return int(version[1]) if version else -1


def about_versions(folders: Sequence[Path], begins: Sequence[Beginning]) -> list[str]:
    """Say which versions were taken for one run, in the order of their numbers, and if what came before is missing."""
    said = []
    if begins[0].late:
        said.append(
            f"the log begins at step {begins[0].update:,}, as that of a run that was resumed. What came before is "
            "missing: no earlier version beside it is clearly of the same run."
        )
    later = [
        f"{folder.name} from step {begin.update:,}"
        for folder, begin in zip(folders[1:], begins[1:], strict=True)
    ]
    if later:
        said.append(
            f"{folders[0].name} goes on in {', in '.join(later)}: taken for one run that was resumed."
        )
    return said


def facts_of_hparams(folder: Path) -> Facts | None:
    """Return what the hyperparameters that the module saved say, if there are any."""
    hparams = read_hparams(folder)
    if not hparams:
        return None
    size = hparams.get("batch_size")
    hint = (
        f"The batch_size ({size}) in {HPARAMS} may leave out devices and accumulation: give --batch-tokens."
        if isinstance(size, int)
        else None
    )
    return replace(facts_from(hparams, HPARAMS, strict=False), batch_hint=hint)


def read_hparams(folder: Path) -> Mapping[str, Any]:
    """Return the hyperparameters that lie beside the log of a version; empty if there are none."""
    return read_mapping(folder / HPARAMS)
