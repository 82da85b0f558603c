"""Console logs written in tests, and what the format that claims them makes of their lines."""

from pathlib import Path

from ebfit.runs.formats import sniff
from ebfit.runs.raw_log import RawLog


def runs_in(folder: Path, text: str, name: str) -> list[RawLog]:
    """The runs of a log, which must be recognised as of this format by what it holds."""
    path = folder / "out.txt"
    path.write_text(text)
    log_format = sniff(path.read_bytes()[: 64 * 1024], path)
    assert log_format is not None, text[:200]
    assert name == log_format.NAME
    return log_format.read(path)


def the_run_in(folder: Path, text: str, name: str) -> RawLog:
    (run,) = runs_in(folder, text, name)
    return run


def curve(run: RawLog, column: str) -> list[tuple[float, float]]:
    """(step, value) of the rows that have this column, in file order."""
    steps, values = run.table.column("step").to_pylist(), run.table.column(column).to_pylist()
    return [(step, value) for step, value in zip(steps, values, strict=True) if value is not None]
