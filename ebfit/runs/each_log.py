"""Reading the logs that were found: one after the other, or in several processes where that pays.

pyarrow parses tables on all cores by itself. The lines of console logs are taken apart in Python, a core for each log.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from ebfit.errors import BadInputError
from ebfit.processes import in_processes
from ebfit.runs.build import build_run
from ebfit.runs.find_logs import LogFile
from ebfit.runs.formats import CONSOLE
from ebfit.runs.manifest import Manifest
from ebfit.runs.options import ReadOptions
from ebfit.runs.run import Run

# Read in two seconds; other processes take one to start.
_WORTH_PROCESSES_BYTES = 100 * 10**6


@dataclass(frozen=True)
class Outcome:
    """What came of one log: its runs, or why it has none.

    Attributes
    ----------
    runs : list of Run
    error : BadInputError or None
    rows_used : set
        Keys of the rows of the manifest that were used.
    """

    runs: list[Run] = field(default_factory=list)
    error: BadInputError | None = None
    rows_used: set[tuple[Path, str]] = field(default_factory=set)


def read_each(logs: Sequence[LogFile], manifest: Manifest | None, options: ReadOptions) -> list[Outcome]:
    """Read logs; the outcomes are in their order.

    Raises
    ------
    BadInputError
        If a process that reads some of them is killed.
    """
    read = partial(_read_one, manifest=manifest, options=options)
    if not _worth_processes(logs):
        return [read(log) for log in logs]
    largest = max(logs, key=lambda log: _size(log.path)).path
    return in_processes(
        read,
        logs,
        if_killed=f"{largest}: a process that read it or another of the {len(logs)} logs was killed, as for lack of "
        "memory. Name fewer logs at once.",
    )


def _worth_processes(logs: Sequence[LogFile]) -> bool:
    sizes = [_size(log.path) for log in logs if log.log_format in CONSOLE]
    # What stands beside the largest is what other processes can take off this one.
    return len(sizes) > 1 and sum(sizes) - max(sizes) > _WORTH_PROCESSES_BYTES / 2


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:  # it is gone since it was found, and reading it says so
        return 0


def _read_one(log: LogFile, manifest: Manifest | None, options: ReadOptions) -> Outcome:
    runs = []
    error = None
    try:
        for raw in log.read():
            row = manifest.facts_for(log.path, raw.label) if manifest else None
            run = build_run(raw, log.path, log.log_format.NAME, row, options)
            runs.append(replace(run, pieces=log.pieces))
    except BadInputError as raised:
        error = raised
    except OSError as raised:  # as when it is taken away while it is read
        error = BadInputError(f"{log.path}: cannot be read ({raised.strerror or raised}).")
    except MemoryError:
        error = BadInputError(f"{log.path}: more than fits into memory. Cut it into runs, or log less often.")
    return Outcome([] if error else runs, error, manifest.used if manifest else set())
