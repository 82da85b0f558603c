"""Comment lines of an export: what it is for, and the devices that it was made for.

Several formats count per device, or in micro-batches, and do not say how many devices there are. Their exports say it
in two comment lines, which are also how somebody else's file can be read back:

    # data-parallel: 64
    # micro-batch: 8
"""

import re

from ebfit.errors import BadInputError
from ebfit.schedule.trainers.base import Setup


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
    if setup.data_parallel is None:
        raise BadInputError(
            f"the format {name} counts per device: give --data-parallel, the number of devices (or groups of them) "
            "that each see other sequences."
        )
    return setup.data_parallel


def micro_batch_of(setup: Setup, name: str) -> int:
    """Return ``setup.micro_batch``.

    Raises
    ------
    BadInputError
        If it is not given, naming the format that needs it.
    """
    if setup.micro_batch is None:
        raise BadInputError(
            f"the format {name} counts in micro-batches: give --micro-batch, the sequences per device and forward pass."
        )
    return setup.micro_batch


def devices_lines(setup: Setup) -> str:
    """Return the comment lines that say what is given of ``setup``."""
    given = {"data-parallel": setup.data_parallel, "micro-batch": setup.micro_batch}
    return "".join(f"# {key}: {value}\n" for key, value in given.items() if value is not None)


def read_devices(text: str, key: str) -> int:
    """Return what such a comment line says; ``key`` is ``data-parallel`` or ``micro-batch``.

    Raises
    ------
    BadInputError
        If there is no such line, or it says 0.
    """
    found = re.search(rf"^\s*#\s*{key}:\s*([0-9]{{1,9}})\s*$", text, re.MULTILINE)
    if found is None or int(found[1]) == 0:
        raise BadInputError(
            f'the file does not say the number behind its sizes: add the comment line "# {key}: N" to it, '
            "N being a positive whole number."
        )
    return int(found[1])
