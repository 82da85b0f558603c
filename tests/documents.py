"""The documents: their fenced blocks, what these show, and running them.

Commands stand in blocks marked ``console``: ``$ `` begins a command, the lines below it are its output, a line
``...`` stands for any lines. A command without output below it only has to succeed. Code stands in blocks marked
``python``; a block marked ``output`` right below one shows what it prints. The blocks of one document run in order,
in one folder of its own. Code that needs a trainer stands in blocks marked ``py``: tests/interop runs those.
"""

import contextlib
import csv
import io
import json
import os
import re
import shutil
import subprocess
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).parent.parent
DOCUMENTS = sorted(
    [*REPOSITORY.glob("*.md"), *REPOSITORY.glob("docs/**/*.md"), *REPOSITORY.glob("sample_runs/*.md")]
)

# Commands that are shown but not run here: they need the network, change the environment of the tests, or take
# minutes. Each is listed in full, so that adding one is a decision. CI runs the make targets themselves.
SWEPT = "--until-loss 2.0 --max-steps 15000 --log-every 1000 --evaluations-per-doubling 24"  # for minutes
NOT_RUN = {
    "make demo",
    "make test",
    "make update-expected",
    "make all",
    "make docs",
    "make build",
    "pip install .",
    "pip install '.[sweep]'",
    "pip install dist/*.whl",
    "ebfit sweep",
    f"ebfit sweep -o sample_runs {SWEPT}",
    f"ebfit sweep -o sample_runs/with_decay --batch-sizes 1536 --seeds 1 --decay-fraction 0.2 {SWEPT}",
    "ebfit fit runs",
}


@dataclass(frozen=True)
class Command:
    """A command line, the output shown below it, and the line of the document at which that output begins."""

    text: str
    shown: list[str]
    shown_at: int


@dataclass(frozen=True)
class Code:
    """A block of Python, the line at which it begins, and the output shown below it, None where none is."""

    text: str
    line: int
    shown: list[str] | None
    shown_at: int


@dataclass(frozen=True)
class Block:
    """A console block of a document."""

    document: str
    line: int
    commands: list[Command] = field(hash=False)

    def __str__(self) -> str:
        return f"{self.document}:{self.line}"


def name_of(document: Path) -> str:
    """The path of a document in the repository."""
    return document.relative_to(REPOSITORY).as_posix()


def fenced_blocks(text: str) -> Iterator[tuple[str, int, list[str]]]:
    """Language, number of the first line and lines of every fenced block."""
    open_block: tuple[str, int, list[str]] | None = None
    for number, line in enumerate(text.splitlines(), start=1):
        fence = re.fullmatch(r"```(\S*)\s*", line)
        if fence and open_block is None:
            open_block = fence[1], number + 1, []
        elif fence and open_block is not None:
            yield open_block
            open_block = None
        elif open_block is not None:
            open_block[2].append(line)


def parse_commands(lines: list[str], first_line: int = 1) -> list[Command]:
    """Commands of a console block; a command goes on in the next line after a backslash."""
    commands: list[Command] = []
    continued = False
    for number, line in enumerate(lines, start=first_line):
        if continued:
            text = commands.pop().text.removesuffix("\\") + line.strip()
        elif line.startswith("$ "):
            text = line[2:].strip()
        else:
            commands[-1].shown.append(line)
            continue
        commands.append(Command(text, [], number + 1))
        continued = text.endswith("\\")
    return commands


def console_blocks(document: Path) -> list[Block]:
    """The console blocks of a document, in order."""
    return [
        Block(name_of(document), line, parse_commands(lines, line))
        for language, line, lines in fenced_blocks(document.read_text(encoding="utf-8"))
        if language == "console"
    ]


def python_blocks(document: Path) -> list[Code]:
    """The Python blocks of a document, in order."""
    text = document.read_text(encoding="utf-8")
    found: list[Code] = []
    after_code = False
    for language, line, lines in fenced_blocks(text):
        if language == "python":
            found.append(Code("\n".join(lines), line, None, 0))
        elif language == "output":
            assert after_code, f"{name_of(document)}:{line}: output that no Python block stands above"
            found[-1] = Code(found[-1].text, found[-1].line, lines, line)
        after_code = language == "python"
    return found


def make_workspace(folder: Path) -> None:
    """Fill a folder with what documents use: sample_runs, docs, and my_runs, one seed of them as a user may have it."""
    for name in ("sample_runs", "docs"):
        shutil.copytree(REPOSITORY / name, folder / name)
    (folder / "my_runs").mkdir()
    for log in sorted((REPOSITORY / "sample_runs").glob("*-s0-*/metrics.jsonl")):
        records = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
        rows = [record for record in records if "val_loss" in record]
        sequences = rows[0]["batch_tokens"] // json.loads((log.parent / "run.json").read_text())["seq_len"]
        with (folder / "my_runs" / f"bs{sequences}.csv").open("w", newline="") as file:
            table = csv.writer(file)
            table.writerow(["step", "lr", "val_loss"])
            table.writerows([row["step"], row["lr"], row["val_loss"]] for row in rows)


def run_command(text: str, folder: Path) -> tuple[int, str]:
    """Run a command in a terminal of 80 columns; return its exit status and all it prints."""
    process = subprocess.run(
        ["bash", "-o", "pipefail", "-c", text],
        cwd=folder,
        env=_environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return process.returncode, process.stdout


def run_code(document: Path, code: Code, folder: Path, names: dict[str, Any]) -> str:
    """Run a block of Python in ``folder`` with the ``names`` that blocks before it made; return what it prints.

    Warnings are errors, and a traceback names the line of the document.
    """
    compiled = compile("\n" * (code.line - 1) + code.text, name_of(document), "exec")
    printed = io.StringIO()
    with contextlib.chdir(folder), contextlib.redirect_stdout(printed), warnings.catch_warnings():
        warnings.simplefilter("error")
        exec(compiled, names)
    return printed.getvalue()


def _environment() -> dict[str, str]:
    """Return the environment of a plain terminal, 80 columns wide, in which `ebfit` is the one under test."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    unbuffered = {"PYTHONUNBUFFERED": "1"}  # keeps stdout and stderr in the order in which a reader sees them
    return os.environ | {"PATH": path, "COLUMNS": "80", "TERM": "dumb", "NO_COLOR": "1"} | unbuffered
