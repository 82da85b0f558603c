"""Every command that a document shows is run, and what it prints is compared with what the document shows.

How documents show commands, and where they run, is said in documents.py.
"""

import re
import subprocess
from pathlib import Path

import pytest
from documents import (
    DOCUMENTS,
    NOT_RUN,
    REPOSITORY,
    Command,
    console_blocks,
    fenced_blocks,
    make_workspace,
    name_of,
    parse_commands,
    run_command,
)
from shown_output import output_matches, refreshed, trimmed

BLOCKS = {document: console_blocks(document) for document in DOCUMENTS}


def problem_of(command: Command, folder: Path) -> str | None:
    """What is wrong with a command that is run in a folder."""
    if command.text in NOT_RUN:
        return None
    if not command.text.startswith("ebfit "):
        return f"`{command.text}` is neither an ebfit command nor listed in NOT_RUN"
    status, printed = run_command(command.text, folder)
    if status:
        return f"`{command.text}` exited with status {status}:\n{printed}"
    shown = trimmed("\n".join(command.shown))
    if shown and not output_matches(shown, trimmed(printed)):
        return f"`{command.text}` does not print what is shown (`make docs` rewrites that), but:\n{printed}"
    return None


@pytest.mark.parametrize(
    "document",
    [document for document in DOCUMENTS if BLOCKS[document]],
    ids=name_of,
)
def test_commands_of_a_document(document: Path, tmp_path: Path):
    """They run in one folder, in the order a reader types them."""
    # Matplotlib writes to stderr when it builds its font cache, once per machine; let that happen here.
    import matplotlib.font_manager  # noqa: F401

    make_workspace(tmp_path)
    problems = [
        f"{block}: {problem}"
        for block in BLOCKS[document]
        for command in block.commands
        if (problem := problem_of(command, tmp_path)) is not None
    ]
    assert not problems, "\n".join(problems)


def test_readme_shows_a_command_that_is_run():
    commands = [command.text for block in BLOCKS[REPOSITORY / "README.md"] for command in block.commands]
    assert [command for command in commands if command not in NOT_RUN]


def test_commands_that_are_not_run_are_all_shown_somewhere():
    shown = {command.text for blocks in BLOCKS.values() for block in blocks for command in block.commands}
    assert shown >= NOT_RUN, f"no document shows {sorted(NOT_RUN - shown)}: take it off the list NOT_RUN"


@pytest.mark.parametrize("command", sorted(text for text in NOT_RUN if text.startswith("make ")))
def test_make_targets_that_are_shown_exist(command: str):
    make = subprocess.run(
        ["make", "--dry-run", *command.split()[1:]],
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


@pytest.mark.parametrize(
    ("shown", "real", "new"),
    [
        (["old"], ["quite", "new"], ["quite", "new"]),
        (["a 1", "...", "c 2"], ["a 3", "b", "c 4"], ["a 3", "...", "c 4"]),
        (["a 1", "..."], ["a 3", "b"], ["a 3", "..."]),
        (["a 1", "...", "c 2"], ["a 3", "b", "d 4"], None),
    ],
)
def test_refreshing_shown_output_keeps_what_is_left_out(
    shown: list[str], real: list[str], new: list[str] | None
):
    assert refreshed(shown, real) == new


def test_a_block_ends_at_its_fence_and_text_after_it_is_not_part_of_it():
    """`make docs` once replaced the text below a block together with its output."""
    text = "before\n```console\n$ a\nb\n```\nbetween\n\n```output\nc\n```\nafter\n"
    assert list(fenced_blocks(text)) == [("console", 3, ["$ a", "b"]), ("output", 9, ["c"])]


def test_a_block_is_split_into_commands_and_their_output():
    lines = ["$ ebfit fit a \\", "    -o b", "one", "$ make demo"]
    assert parse_commands(lines, first_line=10) == [
        Command("ebfit fit a -o b", ["one"], 12),
        Command("make demo", [], 14),
    ]
