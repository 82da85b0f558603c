"""Every command that a document shows is run, and what it prints is compared with what the document shows.

Documents hold commands in fenced blocks marked ``console``: ``$ `` begins a command, the lines below it are
its output, a line ``...`` stands for any lines. A command without output below it only has to succeed. The
commands of one document run in order, in one folder that holds copies of sample_runs and docs.
"""

import math
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parent.parent
DOCUMENTS = sorted(
    [*REPOSITORY.glob("*.md"), *REPOSITORY.glob("docs/**/*.md"), *REPOSITORY.glob("sample_runs/*.md")]
)

# Commands that are shown but not run here: they need the network or change the environment of the tests. Each
# is listed in full, so that adding one is a decision. CI runs the make targets themselves.
NOT_RUN = {
    "make demo",
    "make test",
    "make update-expected",
    "make all",
}

# Shown numbers are rounded and interval ends come from a bootstrap, so another platform may print a number
# that differs in its last digit or by the tolerance of interval ends in tests/expected.py.
NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?")
NUMBER_TOLERANCE = 2e-2


@dataclass(frozen=True)
class Command:
    """A command line and the output shown below it."""

    text: str
    shown: list[str]


@dataclass(frozen=True)
class Block:
    """A console block of a document."""

    document: str
    line: int
    commands: list[Command] = field(hash=False)

    def __str__(self) -> str:
        return f"{self.document}:{self.line}"


def fenced_blocks(text: str) -> Iterator[tuple[str, int, list[str]]]:
    """Language, number of the first line and lines of every fenced block."""
    language, start, lines = None, 0, []
    for number, line in enumerate(text.splitlines(), start=1):
        fence = re.fullmatch(r"```(\S*)\s*", line)
        if not fence:
            lines.append(line)
        elif language is None:
            language, start, lines = fence[1], number + 1, []
        else:
            yield language, start, lines
            language = None


def parse_commands(lines: list[str]) -> list[Command]:
    """Commands of a console block; a command goes on in the next line after a backslash."""
    commands: list[Command] = []
    continued = False
    for line in lines:
        if continued:
            text = commands.pop().text.removesuffix("\\") + line.strip()
            commands.append(Command(text, []))
        elif line.startswith("$ "):
            commands.append(Command(line[2:].strip(), []))
        else:
            commands[-1].shown.append(line)
            continue
        continued = commands[-1].text.endswith("\\")
    return commands


def console_blocks(document: Path) -> list[Block]:
    """The console blocks of a document, in order."""
    name = document.relative_to(REPOSITORY).as_posix()
    return [
        Block(name, line, parse_commands(lines))
        for language, line, lines in fenced_blocks(document.read_text(encoding="utf-8"))
        if language == "console"
    ]


BLOCKS = {document: console_blocks(document) for document in DOCUMENTS}


class Workspace:
    """A folder in which the commands of one document run, each once, in the document's order."""

    def __init__(self, folder: Path, blocks: list[Block]) -> None:
        self.folder = folder
        self._blocks = blocks
        self._done: list[list[str | None]] = []
        for name in ("sample_runs", "docs"):
            shutil.copytree(REPOSITORY / name, folder / name)

    def problems(self, block: Block) -> list[str | None]:
        """What is wrong with each command of a block; blocks before it that have not run are run first."""
        index = self._blocks.index(block)
        for waiting in self._blocks[len(self._done) : index + 1]:
            self._done.append([self._run(command) for command in waiting.commands])
        return self._done[index]

    def _run(self, command: Command) -> str | None:
        if command.text in NOT_RUN:
            return None
        if not command.text.startswith("ebfit "):
            return f"`{command.text}` is neither an ebfit command nor listed in NOT_RUN"
        process = subprocess.run(
            ["bash", "-o", "pipefail", "-c", command.text],
            cwd=self.folder,
            env=_environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if process.returncode:
            return f"`{command.text}` exited with status {process.returncode}:\n{process.stdout}"
        shown = _trimmed(command.shown)
        if shown and not output_matches(shown, _trimmed(process.stdout.splitlines())):
            return f"`{command.text}` does not print what is shown, but:\n{process.stdout}"
        return None


def _environment() -> dict[str, str]:
    """Return the environment of a plain terminal, 80 columns wide, in which `ebfit` is the one under test."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    unbuffered = {"PYTHONUNBUFFERED": "1"}  # keeps stdout and stderr in the order in which a reader sees them
    return os.environ | {"PATH": path, "COLUMNS": "80", "TERM": "dumb", "NO_COLOR": "1"} | unbuffered


def _trimmed(lines: list[str]) -> list[str]:
    return "\n".join(line.rstrip() for line in lines).strip("\n").splitlines()


def output_matches(shown: list[str], real: list[str]) -> bool:
    """Whether the real output is what is shown, where a shown line ``...`` stands for any number of lines."""
    if "..." not in shown:
        return _same_lines(shown, real)
    cut = shown.index("...")
    head, rest = shown[:cut], shown[cut + 1 :]
    if not _same_lines(head, real[:cut]):
        return False
    return any(output_matches(rest, real[start:]) for start in range(cut, len(real) + 1))


def _same_lines(shown: list[str], real: list[str]) -> bool:
    return len(shown) == len(real) and all(map(_same_line, shown, real))


def _same_line(shown: str, real: str) -> bool:
    numbers = list(zip(NUMBER.findall(shown), NUMBER.findall(real), strict=False))
    return _words(shown) == _words(real) and all(_same_number(a, b) for a, b in numbers)


def _words(line: str) -> str:
    """Return a line with numbers masked and without padding, which depends on how long the numbers are."""
    return re.sub(r"─+", "─", "".join(NUMBER.sub("#", line).split()))


def _same_number(shown: str, real: str) -> bool:
    decimals = len(shown.partition("e")[0].partition(".")[2])
    last_digit = 10.0**-decimals if decimals else 0.0
    a, b = (float(number.replace(",", "")) for number in (shown, real))
    return math.isclose(a, b, rel_tol=NUMBER_TOLERANCE, abs_tol=1.001 * last_digit)


@pytest.fixture(scope="module")
def workspaces(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Workspace]:
    # Matplotlib writes to stderr when it builds its font cache, once per machine; let that happen here.
    import matplotlib.font_manager  # noqa: F401

    return {
        blocks[0].document: Workspace(tmp_path_factory.mktemp("document"), blocks)
        for blocks in BLOCKS.values()
        if blocks
    }


@pytest.mark.parametrize(
    "block",
    [
        pytest.param(block, id=str(block), marks=pytest.mark.xdist_group(block.document))
        for blocks in BLOCKS.values()
        for block in blocks
    ],
)
def test_commands_of_a_block(block: Block, workspaces: dict[str, Workspace]):
    problems = [problem for problem in workspaces[block.document].problems(block) if problem]
    assert not problems, "\n".join([f"{block}:", *problems])


def test_readme_shows_a_command_that_is_run():
    commands = [command.text for block in BLOCKS[REPOSITORY / "README.md"] for command in block.commands]
    assert [command for command in commands if command not in NOT_RUN]


def test_commands_that_are_not_run_are_all_shown_somewhere():
    shown = {command.text for blocks in BLOCKS.values() for block in blocks for command in block.commands}
    assert shown >= NOT_RUN, f"no document shows {sorted(NOT_RUN - shown)}: take it off the list NOT_RUN"


@pytest.mark.parametrize("target", sorted(NOT_RUN))
def test_make_targets_that_are_shown_exist(target: str):
    make = subprocess.run(
        ["make", "--dry-run", *target.split()[1:]],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    assert make.returncode == 0, make.stderr


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_no_command_hides_in_a_block_that_is_not_run(document: Path):
    """Blocks marked otherwise, or not at all, would let a command rot unseen."""
    hidden = [
        f"{document.name}:{start + offset}"
        for language, start, lines in fenced_blocks(document.read_text(encoding="utf-8"))
        if language in {"", "sh", "bash", "shell", "text"}
        for offset, line in enumerate(lines)
        if re.match(r"(\$ )?(ebfit|make|pip|git) ", line)
    ]
    assert not hidden, f"mark these blocks `console` and begin their commands with `$ `: {hidden}"


@pytest.mark.parametrize(
    ("shown", "real", "same"),
    [
        (["a", "b"], ["a", "b"], True),
        (["a", "b"], ["a", "b", "c"], False),
        (["a", "..."], ["a", "b", "c"], True),
        (["...", "c"], ["a", "b", "c"], True),
        (["a", "...", "c"], ["a", "c"], True),
        (["a", "...", "c", "...", "e"], ["a", "c", "b", "c", "d", "e"], True),
        (["a", "...", "c"], ["a", "b"], False),
        (["| 2.2 | 1.34k |"], ["| 2.2 |  1.35k |"], True),
        (["| 2.2 | 1.34k |"], ["| 2.2 | 1.43k |"], False),
        (["10 runs"], ["11 runs"], False),
        (["11,800 tokens"], ["11,810 tokens"], True),
        (["1 of 2"], ["1 of two"], False),
    ],
)
def test_comparison_of_shown_and_real_output(shown: list[str], real: list[str], same: bool):
    assert output_matches(shown, real) is same


def test_a_block_is_split_into_commands_and_their_output():
    lines = ["$ ebfit fit a \\", "    -o b", "one", "$ make demo"]
    assert parse_commands(lines) == [Command("ebfit fit a -o b", ["one"]), Command("make demo", [])]
