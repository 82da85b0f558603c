"""Reading logs: from paths to runs in order. Everything a user can get wrong here ends in a sentence."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ebfit.errors import BadInputError
from ebfit.runs.each_log import read_each
from ebfit.runs.facts import how_far
from ebfit.runs.find_logs import LogFile, find_logs
from ebfit.runs.manifest import read_manifest
from ebfit.runs.names import unique_names
from ebfit.runs.options import ReadOptions
from ebfit.runs.raw_log import NotALogError
from ebfit.runs.run import Run


@dataclass(frozen=True)
class Reading:
    """What came of reading.

    Attributes
    ----------
    runs : list of Run
        By batch size, then name; also those that cannot be used (`Run.problems`).
    problems : list of str
        All reasons for which `read_runs` would refuse, those of the runs included.
    """

    runs: list[Run]
    problems: list[str]


def read_runs(paths: str | Path | Sequence[str | Path], options: ReadOptions | None = None) -> list[Run]:
    """Read training runs from logs.

    Parameters
    ----------
    paths : str, Path, or sequence of them
        Files, folders (searched with all they hold) and globs. None at all means those of the manifest.
    options : ReadOptions, optional
        What the logs do not say themselves.

    Returns
    -------
    list of Run
        By batch size, then name, whatever the order of the paths.

    Raises
    ------
    BadInputError
        If any log cannot be used; nothing is left out silently. Runs of a sweep that are not finished, found in a
        folder, are left out with a warning where there is too little of them.
    """
    reading = read_logs(paths, options)
    if len(reading.problems) > 1:
        raise BadInputError(
            f"{reading.problems[0]} (And {len(reading.problems) - 1} more problems, which `ebfit inspect` lists.)"
        )
    if reading.problems:
        raise BadInputError(reading.problems[0])
    return reading.runs


def read_logs(paths: str | Path | Sequence[str | Path], options: ReadOptions | None = None) -> Reading:
    """Read training runs, and say of each what stands in the way of using it, rather than stop at the first.

    Parameters
    ----------
    paths, options
        As `read_runs` takes them.

    Raises
    ------
    BadInputError
        If the paths lead to no log at all, or an option is wrong.
    """
    options = options or ReadOptions()
    paths = [paths] if isinstance(paths, str | Path) else list(paths)
    manifest = read_manifest(options.manifest) if options.manifest is not None else None
    if not paths and manifest is not None:
        paths = [*manifest.logs()]
    if not paths:
        raise BadInputError("no path given. Name log files, or a folder that holds them.")
    found = find_logs(
        [Path(path) for path in paths], options.format, [options.manifest] if options.manifest else []
    )
    runs: list[Run] = []
    problems = list(found.problems)
    others = list(found.others)
    too_short: list[str] = []
    for log, outcome in zip(found.logs, read_each(found.logs, manifest, options), strict=True):
        if manifest is not None:
            manifest.used |= outcome.rows_used
        refused = outcome.error is not None or any(run.problems for run in outcome.runs)
        if isinstance(outcome.error, NotALogError) and not log.named:
            others.append(log.path)
        elif refused and (unfinished := _unfinished(log)):
            too_short.append(unfinished)
        elif outcome.error is None:
            runs += outcome.runs
        elif log.named:
            problems.append(str(outcome.error))
        else:
            problems.append(
                f"{outcome.error} (Found in a folder: name the logs to use, or move this one away.)"
            )
    problems += [problem for run in runs for problem in run.problems]
    if not runs and not problems:
        nothing_yet = f" {_too_short_sentence(too_short)}" if too_short else ""
        raise BadInputError(f"{paths[0]}: no logs found there.{nothing_yet}{_skipped_sentence(others)}")
    common = manifest.unused_warnings() if manifest else []
    if others:
        common.append(_skipped_sentence(others).strip())
    if too_short:
        common.append(_too_short_sentence(too_short))
    named = unique_names([run.name for run in runs], [run.path for run in runs])
    runs = [
        replace(run, name=name, warnings=run.warnings + common) for run, name in zip(runs, named, strict=True)
    ]
    # NaN, a batch size that is not known, compares with nothing: such runs come last.
    runs.sort(
        key=lambda run: (not run.batch_tokens > 0, run.batch_tokens if run.batch_tokens > 0 else 0, run.name)
    )
    return Reading(runs, problems)


def files_read(runs: Sequence[Run], options: ReadOptions | None = None) -> list[Path]:
    """Return the files that made these runs, each once: the logs, run.json files and the manifest.

    A run that was made in memory, as by `ebfit.simulate`, has none.
    """
    files: dict[Path, None] = {}
    for run in runs:
        files |= dict.fromkeys(run.pieces)
        if run.facts_path is not None:
            files[run.facts_path] = None
    if options is not None and options.manifest is not None:
        files[options.manifest] = None
    return sorted(files)


def _unfinished(log: LogFile) -> str | None:
    """Return name and state of a run that a sweep has not finished; None of others, and of logs named by the user."""
    status = None if log.named else how_far(log.path)
    return f"{log.path.parent.name} ({status})" if status else None


def _too_short_sentence(runs: Sequence[str]) -> str:
    """Say which runs of a sweep that is not over, or whose runs failed, are left out."""
    shown = ", ".join(runs[:4]) + (f" and {len(runs) - 4} more" if len(runs) > 4 else "")
    are = "is left out, its log does" if len(runs) == 1 else "are left out, their logs do"
    return f"{shown} {are} not hold enough of a stable phase yet."


def _skipped_sentence(others: Sequence[Path]) -> str:
    if not others:
        return ""
    shown = ", ".join(path.name for path in sorted(others)[:4]) + (" ..." if len(others) > 4 else "")
    files = "1 file that is no log was" if len(others) == 1 else f"{len(others)} files that are no logs were"
    return f" {files} skipped ({shown})."
