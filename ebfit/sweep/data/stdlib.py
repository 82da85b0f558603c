"""The source text of the running Python's own standard library: some 12 MB that every machine has at hand.

It differs between versions of Python, and a little between those who package it.
"""

import sysconfig
from pathlib import Path

from ebfit.errors import BadInputError
from ebfit.sweep.data.folders import files_of

# Tests are left out, as many distributions lack them; so is what an installation adds of its own.
_LEFT_OUT = {
    *("test", "tests", "idle_test", "site-packages", "dist-packages", "lib-dynload", "__pycache__"),
    *("sitecustomize.py", "usercustomize.py"),
}
_LEFT_OUT_BEGINNINGS = ("_sysconfigdata", "config-")


def stdlib_files() -> list[Path]:
    """Return the source files, in the order of their names.

    Raises
    ------
    BadInputError
        If this Python comes without sources.
    """
    root = Path(sysconfig.get_path("stdlib"))
    found = files_of(root, without=_LEFT_OUT) if root.is_dir() else []
    files = [file for file in found if _is_wanted(file.relative_to(root))]
    if not files:
        raise BadInputError(
            "--data stdlib: this Python comes without the sources of its standard library. "
            "Give a text file or folder, or take --data synthetic."
        )
    return files


def _is_wanted(file: Path) -> bool:
    of_this_machine = any(part.startswith(_LEFT_OUT_BEGINNINGS) for part in file.parts)
    return file.suffix == ".py" and not of_this_machine
