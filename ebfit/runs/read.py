"""Reading logs: from paths to runs in order. Everything a user can get wrong here ends in a sentence."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ebfit.errors import BadInputError
from ebfit.runs.build import build_run
from ebfit.runs.find_logs import LogFile, find_logs
from ebfit.runs.manifest import Manifest, read_manifest
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
        If any log cannot be used; nothing is left out silently.
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
        paths = sorted(manifest.rows)
    if not paths:
        raise BadInputError("no path given. Name log files, or a folder that holds them.")
    found = find_logs(
        [Path(path) for path in paths], options.format, [options.manifest] if options.manifest else []
    )
    runs: list[Run] = []
    problems = list(found.problems)
    others = list(found.others)
    for log in found.logs:
        try:
            runs += _read_log(log, manifest, options)
        except NotALogError as error:
            if log.named:
                problems.append(str(error))
            else:
                others.append(log.path)
        except BadInputError as error:
            problems.append(_with_way_out(str(error), log))
    problems += [problem for run in runs for problem in run.problems]
    if not runs and not problems:
        raise BadInputError(f"{paths[0]}: no logs found there.{_skipped_sentence(others)}")
    common = manifest.unused_warnings() if manifest else []
    if others:
        common.append(_skipped_sentence(others).strip())
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
    """Return the files that made these runs, each once: the logs, run.json files and the manifest."""
    files: dict[Path, None] = {}
    for run in runs:
        files[run.path] = None
        if run.facts_path is not None:
            files[run.facts_path] = None
    if options is not None and options.manifest is not None:
        files[options.manifest] = None
    return sorted(files)


def _read_log(log: LogFile, manifest: Manifest | None, options: ReadOptions) -> list[Run]:
    row = manifest.facts_for(log.path) if manifest else None
    return [
        build_run(raw, log.path, log.log_format.NAME, row, options) for raw in log.log_format.read(log.path)
    ]


def _with_way_out(problem: str, log: LogFile) -> str:
    if log.named:
        return problem
    return f"{problem} (Found in a folder: name the logs to use, or move this one away.)"


def _skipped_sentence(others: Sequence[Path]) -> str:
    if not others:
        return ""
    shown = ", ".join(path.name for path in sorted(others)[:4]) + (" ..." if len(others) > 4 else "")
    files = "1 file that is no log was" if len(others) == 1 else f"{len(others)} files that are no logs were"
    return f" {files} skipped ({shown})."
