"""Settings that a trainer prints once, before its records: batch size, sequence length, warmup."""

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from ebfit.runs.facts import Facts, facts_from
from ebfit.runs.formats.text_lines import TextLog, number
from ebfit.runs.formats.text_rows import Rows
from ebfit.runs.raw_log import RawLog

# Text that stands on the line -> what is to be read there. Named groups are those of `Facts`.
Settings = Mapping[bytes, re.Pattern[bytes]]

_MAX_FACTORS = 6


def runs_with_settings(
    rows: Rows,
    log: TextLog,
    path: Path,
    settings: Settings,
    *,
    train_window: int | Literal["interval"] | None = None,
    train_ema: float | None = None,
    warnings: Sequence[str] = (),
) -> list[RawLog]:
    """Make the runs of a console log, each with the settings that are printed ahead of it.

    Parameters
    ----------
    rows : Rows
        All rows of the log.
    log : TextLog
        The log.
    path : Path
        Its file, for messages.
    settings : mapping
        What is printed; see `Settings`.
    train_window, train_ema, warnings
        As `RawLog` has them; the same for all runs.
    """
    runs = rows.runs()
    found = []
    for index, run in enumerate(runs, start=1):
        told = list(warnings)
        facts = printed_settings(log, path, run.openings, settings, told)
        found.append(
            run.raw_log(
                path,
                label=f"run {index}" if len(runs) > 1 else "",
                facts=facts,
                train_window=train_window,
                train_ema=train_ema,
                warnings=told,
            )
        )
    return found


def printed_settings(
    log: TextLog, path: Path, openings: Sequence[tuple[int, int]], settings: Settings, warnings: list[str]
) -> Facts | None:
    """Read the settings out of the openings of a run.

    Parameters
    ----------
    log, path, settings
        As `runs_with_settings` takes them.
    openings : sequence of tuple of int
        Bytes of the log (first, end): a run that goes on after a restart has several.
    warnings : list of str
        Gets a sentence for each setting that is printed with two values; neither is used.

    Returns
    -------
    Facts or None
        None where nothing is printed.
    """
    found: dict[str, set[float]] = {}
    for first, end in openings:
        part = TextLog(log.data[first:end])
        for anchor, pattern in settings.items():
            for line in part.lines_with(anchor):
                for match in pattern.finditer(line):
                    for name, cell in match.groupdict().items():
                        if cell is not None:
                            found.setdefault(name, set()).add(_product(cell))
    for name, values in found.items():
        if len(values) > 1:
            shown = " and ".join(f"{value:,.10g}" for value in sorted(values)[:2])
            warnings.append(
                f"the log gives several values of {name} ({shown}), as after a restart with other settings; none was "
                "used."
            )
    sure = {name: values.pop() for name, values in found.items() if len(values) == 1}
    return facts_from(sure, f"settings printed in {path.name}", strict=False) if sure else None


def _product(cell: bytes) -> float:
    """Read a number, or several multiplied, as ``8*64`` in a Python script."""
    return math.prod(number(factor.strip()) for factor in cell.split(b"*")[:_MAX_FACTORS])
