"""What all console logs go through on the way from their text to columns of numbers."""

import math
import re

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ebfit.runs.formats.text_lines import TextLog, number
from ebfit.runs.formats.text_rows import RowList, Rows, numbers_of, rows_of_matches

NUMBERS = [
    "1",
    "2.5",
    "-3e-4",
    "1,234",
    "12,345.5",
    "nan",
    "-inf",
    "1e999",
    "+1",
    " 7",
    "1_000",
    "abc",
    "0x1",
    "",
]
STEP = re.compile(
    rb"step (?P<step>\d+) loss (?P<loss>\S+?)(?=\s|step |$)|eval (?P<index>\d+) loss (?P<val_loss>\S+)"
)


def rows_in(text: bytes) -> Rows:
    return rows_of_matches(TextLog(text), STEP)


def cells(rows: Rows, name: str) -> list[float | None]:
    values, empty = rows.columns[name]
    return [None if missing else value for value, missing in zip(values.tolist(), empty, strict=True)]


@given(st.lists(st.none() | st.sampled_from(NUMBERS).map(str.encode) | st.binary(max_size=6), max_size=5))
def test_cells_of_a_column_are_read_as_each_by_itself(texts: list[bytes | None]):
    values, empty = numbers_of(texts)
    assert empty.tolist() == [text is None for text in texts]
    expected = [math.nan if text is None else number(text) for text in texts]
    np.testing.assert_array_equal(values, np.array(expected, dtype=float))


def test_an_index_counts_from_zero_and_a_step_from_one():
    rows = rows_in(b"step 1 loss 9.5\neval 1 loss 9\nstep 2 loss nan\n")
    assert cells(rows, "step") == [1, 2, 2]
    assert cells(rows, "loss")[:2] == [9.5, None]
    assert math.isnan(cells(rows, "loss")[2])
    assert cells(rows, "val_loss") == [None, 9, None]


def test_more_records_than_are_read_at_a_time():
    rows = rows_in(b"".join(b"step %d loss 1.5 and more\n" % step for step in range(1, 45_001)))
    assert cells(rows, "step") == list(range(1, 45_001))
    assert rows.at[-1] == rows.at[-2] + len("step 44999 loss 1.5 and more\n")


def test_only_a_last_record_without_an_end_of_line_is_cut_off():
    assert cells(rows_in(b"step 1 loss 9\rstep 2 loss 8step 3 loss 7.\r"), "step") == [1, 2, 3]
    rows = rows_in(b"step 1 loss 9\rstep 2 loss 8step 3 loss 7.")
    assert (cells(rows, "step"), rows.dropped) == ([1, 2], {"truncated last line": 1})


def test_what_several_ranks_wrote_counts_once_and_another_loss_of_the_step_stays():
    text = b"".join(b"step %d loss 9.%d\n" % (step, step) * 2 for step in range(1, 8)) + b"step 7 loss 9.8\n"
    (run,) = rows_in(text).runs()
    assert cells(run, "step") == [1, 2, 3, 4, 5, 6, 7, 7]
    assert cells(run, "loss")[-2:] == [9.7, 9.8]


def test_a_missing_cell_is_another_than_one_that_is_no_number():
    found = RowList()
    log = TextLog(b"a\na\na\n")
    added: list[dict[str, float]] = [{"step": 1}, {"step": 1, "lr": math.nan}, {"step": 1, "lr": math.nan}]
    for record, one in zip(log.records(re.compile(b"a")), added, strict=True):
        found.add(record, one)
    (run,) = found.rows().runs()
    assert len(run) == 2


def test_a_log_whose_steps_go_back_all_the_time_does_not_hang():
    """Two runs at once in one log, one a step behind the other: every other line is a restart."""
    text = b"".join(b"step %d loss 1\nstep %d loss 2\n" % (step + 1, step) for step in range(1, 20_001))
    (run,) = rows_in(text).runs()
    assert len(run) == 40_000
