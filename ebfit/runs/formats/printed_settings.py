"""Settings that a trainer prints once, before its records: batch size, sequence length, warmup."""

import math
import re
from collections.abc import Mapping
from pathlib import Path

from ebfit.runs.facts import Facts, facts_from
from ebfit.runs.formats.text_lines import TextLog, number

_MAX_FACTORS = 6


def printed_settings(
    log: TextLog, path: Path, patterns: Mapping[bytes, re.Pattern[bytes]], warnings: list[str]
) -> Facts | None:
    """Read the settings out of a console log.

    Parameters
    ----------
    log : TextLog
        The whole log: one that goes on after a restart prints them again.
    path : Path
        The log file, for messages.
    patterns : mapping
        Text that stands on the line (the anchor of `TextLog.records`) -> what is to be read there; its named groups
        are those of `Facts`.
    warnings : list of str
        Gets a sentence for each setting of which the log gives two values; neither is used.

    Returns
    -------
    Facts or None
        None where nothing is printed.
    """
    found: dict[str, set[float]] = {}
    for anchor, pattern in patterns.items():
        for record in log.records(pattern, anchor):
            match = pattern.match(record.text)
            for name, cell in match.groupdict().items() if match and record.whole else ():
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
