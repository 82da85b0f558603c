"""Files that would take more memory or time than any log does are refused in a sentence, before they have taken it."""

from pathlib import Path

import pytest

from ebfit.errors import BadInputError
from ebfit.runs import ReadOptions, read_runs
from ebfit.runs.formats import csv_table

QUIET = ReadOptions(batch_tokens=64, warmup_steps=1)


def _table(path: Path, others: int, rows: int = 20) -> Path:
    """Write a table with so many columns beside step and loss, whose names alone are megabytes."""
    names = ["step", "loss", *(f"layers.{index}.grad_norm" for index in range(others))]
    lines = [",".join([f"{step}", f"{4 - step / 100}", *["0.125"] * others]) for step in range(1, rows + 1)]
    path.write_text("\n".join([",".join(names), *lines]) + "\n")
    return path


def test_a_table_whose_header_is_longer_than_a_block_of_the_parser(tmp_path: Path):
    """It was refused with "header is larger than block size"."""
    [run] = read_runs([_table(tmp_path / "b64.csv", 60_000)], QUIET)
    assert len(run.train.steps) == 20


def test_a_table_with_a_column_for_every_letter_of_a_book(tmp_path: Path):
    """The parser took the whole process with it: for every column it keeps buffers."""
    path = _table(tmp_path / "b64.csv", csv_table.MAX_COLUMNS, rows=6)
    with pytest.raises(BadInputError, match=r"b64\.csv: more than 100,000 columns\. Export those"):
        read_runs([path], QUIET)
