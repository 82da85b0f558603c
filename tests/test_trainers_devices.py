"""Formats that count per device: who says how many devices there are, an option or a comment of the file."""

from dataclasses import replace

import pytest
from plans import worked_example

from ebfit.errors import BadInputError
from ebfit.schedule.trainers import TRAINERS, Setup

SETUP = Setup(micro_batch=4, data_parallel=64)
PER_DEVICE = ["maxtext", "internevo", "composer", "lightning"]


def exported(name: str) -> str:
    text = TRAINERS[name].export(worked_example(), SETUP).text
    assert "# data-parallel: 64\n" in text
    return text


def without_comments(text: str) -> str:
    return "".join(line for line in text.splitlines(keepends=True) if not line.startswith("#"))


@pytest.mark.parametrize("name", PER_DEVICE)
def test_options_say_what_comments_say(name: str) -> None:
    text = exported(name)
    assert TRAINERS[name].parse(without_comments(text), 4096, SETUP) == TRAINERS[name].parse(
        text, 4096, Setup()
    )


@pytest.mark.parametrize("name", PER_DEVICE)
def test_an_option_wins_over_a_comment_and_the_contradiction_is_said(name: str) -> None:
    text = exported(name)
    half = replace(SETUP, data_parallel=32)
    read = TRAINERS[name].parse(text, 4096, half)
    as_if_alone = TRAINERS[name].parse(without_comments(text), 4096, half)
    assert (
        read.batch_sequences
        == as_if_alone.batch_sequences
        != TRAINERS[name].parse(text, 4096, SETUP).batch_sequences
    )
    contradiction = set(read.warnings) - set(as_if_alone.warnings)
    assert contradiction == {'the file says "# data-parallel: 64"; it is read with --data-parallel 32.'}


@pytest.mark.parametrize("name", PER_DEVICE)
def test_a_file_that_says_no_devices_wants_the_option(name: str) -> None:
    with pytest.raises(BadInputError, match="give --data-parallel"):
        TRAINERS[name].parse(without_comments(exported(name)), 4096, Setup(micro_batch=4))
