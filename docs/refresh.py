"""Run what the documents show, and write what it prints into them, in place of the output shown before.

Run as a script (``make docs``); documents can be named, all are refreshed otherwise. Only numbers should differ
in the diff: where the words do, the sentences around the output want to be read again.
"""

import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from documents import (
    DOCUMENTS,
    NOT_RUN,
    console_blocks,
    make_workspace,
    name_of,
    python_blocks,
    run_code,
    run_command,
)
from shown_output import refreshed, trimmed

# Where in a document which output was shown, and what is printed now.
Change = tuple[int, list[str], list[str]]


def refresh(document: Path) -> list[str]:
    """Rewrite the output shown in one document; return what could not be done, in words."""
    with tempfile.TemporaryDirectory() as folder:
        make_workspace(Path(folder))
        changes, problems = _commands(document, Path(folder))
    with tempfile.TemporaryDirectory() as folder:
        make_workspace(Path(folder))
        changes += _code(document, Path(folder))
    lines = document.read_text(encoding="utf-8").splitlines()
    for line, shown, printed in sorted(
        changes, reverse=True
    ):  # from the end, so that line numbers stay right
        new = refreshed(shown, printed)
        if new is None:
            problems.append(f"{name_of(document)}:{line}: lines around a `...` are gone; choose new ones")
        else:
            lines[line - 1 : line - 1 + len(shown)] = new
    document.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return problems


def _commands(document: Path, folder: Path) -> tuple[list[Change], list[str]]:
    changes: list[Change] = []
    problems = []
    for command in [command for block in console_blocks(document) for command in block.commands]:
        if command.text in NOT_RUN:
            continue
        status, printed = run_command(command.text, folder)
        if status:
            problems.append(f"{name_of(document)}: `{command.text}` exited with status {status}:\n{printed}")
        elif trimmed("\n".join(command.shown)):
            shown = command.shown
            while not shown[-1].strip():  # empty lines between this output and the next command stay
                shown = shown[:-1]
            changes.append((command.shown_at, shown, trimmed(printed)))
    return changes, problems


def _code(document: Path, folder: Path) -> list[Change]:
    names: dict[str, Any] = {"__name__": "__main__"}
    printed = [(code, run_code(document, code, folder, names)) for code in python_blocks(document)]
    return [(code.shown_at, code.shown, trimmed(text)) for code, text in printed if code.shown is not None]


if __name__ == "__main__":
    found = [
        problem
        for document in ([Path(name).resolve() for name in sys.argv[1:]] or DOCUMENTS)
        for problem in refresh(document)
    ]
    if found:
        sys.exit("\n".join(found))
