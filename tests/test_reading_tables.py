"""Tables of which only the columns that a run needs are parsed: as if all had been."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ebfit.errors import BadInputError
from ebfit.runs import ReadOptions, read_runs
from ebfit.runs.formats import csv_table
from ebfit.runs.raw_log import numbers

OPTIONS = ReadOptions(batch_tokens=64, warmup_steps=1)
ROWS = "".join(f"{step},x{step},{5 - step / 100},{6 - step / 100}\n" for step in range(1, 61))


def _write(folder: Path, text: str) -> Path:
    path = folder / "b64.csv"
    path.write_text(text)
    return path


def test_any_column_can_be_named(tmp_path: Path):
    path = _write(tmp_path, "step,note,train_loss,mine\n" + ROWS)
    [run] = read_runs([path], ReadOptions(batch_tokens=64, warmup_steps=1, columns={"loss": "mine"}))
    assert run.train.loss[0] == 5.99
    with pytest.raises(BadInputError, match="only 0 of the rows have a usable loss"):
        read_runs([path], ReadOptions(batch_tokens=64, columns={"loss": "note"}))


def test_columns_of_the_same_name_are_told_apart(tmp_path: Path):
    raw = csv_table.read(_write(tmp_path, "step,a,a,loss\n" + ROWS))[0]
    assert [raw.table.column(index)[0].as_py() for index in range(4)] == [1, "x1", 4.99, 5.99]


def test_rows_that_a_running_trainer_adds_in_between_are_left_for_the_next_time(tmp_path: Path):
    path = tmp_path / "b64.csv"
    # longer than what is kept in memory
    lines = [f"{step},{5 - step / 1e6},{6 - step / 1e6:.12f}\n" for step in range(1, 60_000)]
    path.write_text("step,loss,mine\n" + "".join(lines))
    table = csv_table.read(path)[0].table
    with path.open("a") as file:
        file.write("60000,1.0,2.0\n")
    assert table.num_rows == len(table.column(2)) == len(lines)


@pytest.mark.parametrize("cell", ["diverged", "nan", "", "1e400", "True", '"3.0"', "2026-01-01"])
@pytest.mark.parametrize("long", [False, True])
def test_one_cell_that_is_no_number(tmp_path: Path, cell: str, long: bool):
    rows = ROWS + "".join(f"{step},x,4.0,5.0\n" for step in range(61, 100_000)) if long else ROWS
    path = _write(tmp_path, "step,note,train_loss,mine\n" + rows + f"100000,x,{cell},5.0\n")
    [run] = read_runs([path], OPTIONS)
    good = cell == '"3.0"'
    assert (run.train.steps[-1] == 100_000) == good
    assert run.dropped == (
        {} if good else {"no loss in the row": 1} if cell == "" else {"loss is not a number": 1}
    )


CELLS = st.sampled_from(
    ["1", "2.5", "", "nan", "NaN", "inf", "-1e-3", "x", "true", "NA", " 3", "1_0", "'4'", '"5"', '"6,7"']
)


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    rows=st.lists(st.tuples(CELLS, CELLS, CELLS), min_size=1, max_size=8),
    names=st.sampled_from(["step,loss,lr", "a,step,loss", "loss,loss,b", "x,y,z"]),
    delimiter=st.sampled_from([",", ";", "\t"]),
)
def test_parsing_on_demand_gives_the_numbers_of_parsing_all(tmp_path: Path, rows, names: str, delimiter: str):
    lines = [names, *(",".join(cells) for cells in rows)]
    path = _write(tmp_path, "\n".join(line.replace(",", delimiter) for line in lines) + "\n")
    try:
        whole = csv_table.read_whole(path)[0]
    except BadInputError as error:
        with pytest.raises(type(error)):
            csv_table.read(path)
        return
    some = csv_table.read(path)[0]
    assert some.table.num_rows == whole.table.num_rows
    assert list(some.table.column_names) == list(whole.table.column_names)
    assert some.dropped == whole.dropped
    for index in range(3):
        one, other = numbers(some.table.column(index)), numbers(whole.table.column(index))
        np.testing.assert_array_equal(one.values, other.values)
        np.testing.assert_array_equal(one.empty, other.empty)
