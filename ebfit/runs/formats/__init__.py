"""The log formats that are read, one module each.

A format is a module with ``NAME``, ``sniff`` and ``read`` (see `raw_log.LogFormat`) and one line in `FORMATS`;
the first whose ``sniff`` says yes reads the file, so stricter formats stand before looser ones.
"""

from pathlib import Path

from ebfit.errors import BadInputError
from ebfit.runs.formats import csv_table, ebfit_log, json_columns, json_lines
from ebfit.runs.raw_log import LogFormat

FORMATS: tuple[LogFormat, ...] = (ebfit_log, json_lines, json_columns, csv_table)


def format_named(name: str) -> LogFormat:
    """Return a format by its name.

    Raises
    ------
    BadInputError
        If there is none of that name.
    """
    for log_format in FORMATS:
        if name == log_format.NAME:
            return log_format
    known = ", ".join(log_format.NAME for log_format in FORMATS)
    raise BadInputError(f"--format {name}: no such log format; known are {known}.")


def sniff(head: bytes, path: Path) -> LogFormat | None:
    """Return the format that a file's first bytes look like, or None."""
    return next((log_format for log_format in FORMATS if log_format.sniff(head, path)), None)
