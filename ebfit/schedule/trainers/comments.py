"""Comment lines of an export: what it is for, and the devices that it was made for.

Several formats count per device, or in micro-batches, and do not say how many devices there are. Their exports say it
in two comment lines, so that they can be read back without being told:

    # data-parallel: 64
    # micro-batch: 8
"""

import re
from dataclasses import replace
from typing import Any

from ebfit.errors import BadInputError
from ebfit.schedule.trainers.base import Setup

_FIELDS = {
    "data-parallel": "data_parallel",
    "micro-batch": "micro_batch",
}  # of `Setup`, by their names in comments


def heading(reader: str, unit: str) -> str:
    """Return the first lines of an export whose comments begin with ``#``."""
    return f"# Written by ebfit schedule for {reader}.\n# Units: {unit}.\n"


def devices_of(setup: Setup, name: str) -> int:
    """Return ``setup.data_parallel``.

    Raises
    ------
    BadInputError
        If it is not given, naming the format that needs it.
    """
    return _given(
        setup.data_parallel,
        f"the format {name} counts per device: give --data-parallel, the number of devices (or groups of them) that "
        "each see other sequences.",
    )


def micro_batch_of(setup: Setup, name: str) -> int:
    """Return ``setup.micro_batch``.

    Raises
    ------
    BadInputError
        If it is not given, naming the format that needs it.
    """
    return _given(
        setup.micro_batch,
        f"the format {name} counts in micro-batches: give --micro-batch, the sequences per device and forward pass.",
    )


def devices_lines(setup: Setup) -> str:
    """Return the comment lines that say what is given of ``setup``."""
    given = {key: getattr(setup, field) for key, field in _FIELDS.items()}
    return "".join(f"# {key}: {value}\n" for key, value in given.items() if value is not None)


def with_comments(setup: Setup, text: str) -> tuple[Setup, list[str]]:
    """Return ``setup`` with what only the comment lines of a file say, and a warning where the two contradict."""
    found_only_there: dict[str, Any] = {}
    warnings = []
    for key, field in _FIELDS.items():
        found = re.search(rf"^\s*#\s*{key}:\s*([0-9]{{1,9}})\s*$", text, re.MULTILINE)
        in_file = 0 if found is None else int(found[1])
        given = getattr(setup, field)
        if given is None and in_file:
            found_only_there[field] = in_file
        elif given is not None and found is not None and in_file != given:
            warnings.append(f'the file says "# {key}: {in_file}"; it is read with --{key} {given}.')
    return replace(setup, **found_only_there), warnings


def _given(number: int | None, way_out: str) -> int:
    if number is None:
        raise BadInputError(way_out)
    return number
