"""From what the user names - files, folders, globs - to the log files to read."""

import glob
import os
import re
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ebfit.errors import BadInputError
from ebfit.runs.facts import RUN_JSON, how_far
from ebfit.runs.formats import belongs_to_a_run, format_named, sniff
from ebfit.runs.formats.bytes_of import read_head
from ebfit.runs.names import stem
from ebfit.runs.raw_log import LogFormat, RawLog, in_pieces

# A file of such a name in a folder is meant to be a log: not to recognise it is an error, not a reason to skip it.
_LOG_SUFFIXES = {".csv", ".tsv", ".jsonl", ".ndjson"}
# What ebfit wrote itself, such as fit.json, often lies beside the logs: no reason for a warning.
_OWN_DOCUMENT = re.compile(rb'\s*\{\s*"schema"\s*:\s*"ebfit\.')


@dataclass(frozen=True)
class LogFile:
    """A log to read.

    Attributes
    ----------
    path : Path
        As the user would name it.
    log_format : LogFormat
        The format to read it with.
    named : bool
        Whether the user named it, rather than a folder that it was found in.
    pieces : tuple of Path
        All files of the run, sorted, of a format that writes several; else the path alone.
    """

    path: Path
    log_format: LogFormat
    named: bool
    pieces: tuple[Path, ...] = ()

    def read(self) -> list[RawLog]:
        """Read the runs that it holds; BadInputError if it is damaged."""
        if in_pieces(self.log_format):
            return self.log_format.read_pieces(self.pieces)
        return self.log_format.read(self.path)


@dataclass
class Found:
    """What a search found: logs, files that are none, and sentences about files that cannot be used."""

    logs: list[LogFile]
    others: list[Path]
    problems: list[str]


def find_logs(paths: Sequence[Path], format_name: str | None = None, but_not: Sequence[Path] = ()) -> Found:
    """Find the logs among files, folders and globs.

    Parameters
    ----------
    paths : sequence of Path
        Folders are searched with all they hold, hidden files left out.
    format_name : str or None
        Read every file as this format, whatever it looks like.
    but_not : sequence of Path
        Files that are known to be no logs (a manifest), where they are found in a folder.

    Raises
    ------
    BadInputError
        If a path does not exist, a glob matches nothing, or a folder cannot be listed.
    """
    forced = format_named(format_name) if format_name is not None else None
    skip = {_real(path) for path in but_not}
    found = Found([], [], [])
    files: dict[tuple[int, int], tuple[Path, bool]] = {}
    for path, named in _expanded(paths):
        if not named and (
            path.name == RUN_JSON or path.suffix.lower() == ".md" or (skip and _real(path) in skip)
        ):
            continue
        status = _status(path, named)
        if status is None or not (named or stat.S_ISREG(status.st_mode)):
            found.others.append(path)
            continue
        key = (status.st_dev, status.st_ino)
        known = files.get(key)
        # The same file through two paths is read once, under the shorter one, whatever the order.
        if known is None or (len(str(path)), str(path)) < (len(str(known[0])), str(known[0])):
            files[key] = (path, named or (known is not None and known[1]))
        elif named:
            files[key] = (known[0], True)
    for path, named in sorted(files.values()):
        try:
            head = read_head(path)
            if not named and (_OWN_DOCUMENT.match(head) or belongs_to_a_run(path)):
                continue
            log_format = forced or sniff(head, path)
        except BadInputError as error:
            found.problems.append(str(error))
            continue
        if log_format is not None:
            found.logs.append(LogFile(path, log_format, named, (path,)))
        elif not named and not head.strip() and how_far(path) is not None:
            found.others.append(path)
        elif named or _meant_to_be_a_log(path):
            found.problems.append(_unrecognised(path))
        else:
            found.others.append(path)
    found.logs = _together(found.logs)
    return found


def _together(logs: Sequence[LogFile]) -> list[LogFile]:
    """Put files that are pieces of one run together."""
    runs: dict[tuple[str, Path], LogFile] = {}
    for log in logs:
        run = log.log_format.run_of(log.path) if in_pieces(log.log_format) else log.path
        key = (log.log_format.NAME, run)
        first = runs.get(key, log)
        pieces = tuple(sorted({*first.pieces, log.path}))
        # The file that a format names a run by stands for it.
        path = run if run in pieces else pieces[0]
        runs[key] = LogFile(path, log.log_format, first.named or log.named, pieces)
    return list(runs.values())


def _expanded(paths: Sequence[Path]) -> Iterator[tuple[Path, bool]]:
    for path in paths:
        path = _at_home(path)
        # Not Path.is_dir, which raises if a folder above may not be looked into, or the name is too long.
        if os.path.isdir(path):
            yield from ((file, False) for file in _files_in(path))
        elif os.path.lexists(path):
            yield path, True
        elif glob.has_magic(str(path)):
            matches = sorted(glob.glob(str(path), recursive=True))
            if not matches:
                raise BadInputError(f"{path}: the pattern matches no file. Check it, or name a folder.")
            for match in map(Path, matches):
                if os.path.isdir(match):
                    yield from ((file, False) for file in _files_in(match))
                else:
                    yield match, False
        else:
            raise BadInputError(f"{path}: no such file or folder. Check the path.")


def _at_home(path: Path) -> Path:
    """Replace ``~`` by the home folder, where there is such a home."""
    try:
        return path.expanduser()
    except RuntimeError:
        return path


def _files_in(folder: Path) -> Iterator[Path]:
    """Walk a folder; links to folders are followed once, and never to a folder that they lie in."""

    def stop(error: OSError) -> None:
        raise BadInputError(f"{error.filename}: the folder cannot be listed ({error.strerror}).") from None

    seen: set[Path] = set()
    for place, folders, files in os.walk(folder, onerror=stop, followlinks=True):
        real = _real(Path(place))
        seen.add(real)
        folders[:] = sorted(
            name
            for name in folders
            if not name.startswith(".")
            and (target := _real(real / name)) not in seen
            and target not in (real, *real.parents)
        )
        yield from (Path(place) / name for name in sorted(files) if not name.startswith("."))


def _real(path: Path) -> Path:
    # Not Path.resolve, which raises on a link to itself.
    return Path(os.path.realpath(path))


def _status(path: Path, named: bool) -> os.stat_result | None:
    try:
        return path.stat()
    except OSError as error:
        if named:
            broken = "a link to a file that does not exist" if path.is_symlink() else error.strerror
            raise BadInputError(f"{path}: cannot be read ({broken}). Check the path.") from None
        return None


def _meant_to_be_a_log(path: Path) -> bool:
    suffixes = {suffix.lower() for suffix in path.suffixes} - {".gz", ".zst"}
    return bool(suffixes & _LOG_SUFFIXES) and stem(path) != path.name


def _unrecognised(path: Path) -> str:
    head = read_head(path)
    if not head.strip():
        return f"{path}: the file is empty. Remove it if the run never started."
    if b"\0" in head:
        return f"{path}: a binary file, not a text log. Name a CSV or JSON log, or remove it from the folder."
    return (
        f"{path}: not recognised as a log. A CSV log needs a header line with column names, a JSON-lines log an "
        "object on every line; --format NAME reads it all the same."
    )
