"""Points tables: what is read, and what is refused with the line it stands on."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ebfit
from ebfit.errors import BadInputError
from ebfit.points import read_points

HEADER = "target_loss,batch_tokens,steps"


def _table(folder, text, name="points.csv"):
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def _read_one(folder, text):
    [sample] = read_points(_table(folder, text)).samples
    return sample


# --- what is read ----------------------------------------------------------------------------------------------


_size = st.floats(1.0, 1e9, allow_nan=False)
_rows = st.lists(
    st.tuples(st.sampled_from([3.0, 2.5, 2.25]), _size, _size, st.booleans()),
    min_size=1,
    max_size=12,
    unique_by=lambda row: row[:2],
)


@settings(max_examples=40)
@given(rows=_rows)
def test_a_table_comes_back_as_it_was_written(rows, tmp_path_factory):
    lines = [HEADER + ",censored", *(f"{t!r},{b!r},{s!r},{str(c).lower()}" for t, b, s, c in rows)]
    sample = _read_one(tmp_path_factory.mktemp("table"), "\n".join(lines) + "\n")
    data = sample.observations
    found = {
        (sample.targets[t], float(data.log_batch[r])): (
            float(data.log_steps[r, t]),
            bool(data.censored[r, t]),
        )
        for r, t in np.argwhere(data.present)
    }
    assert found == {(t, float(np.log(b))): (float(np.log(s)), c) for t, b, s, c in rows}
    assert sample.targets == sorted({row[0] for row in rows}, reverse=True)


def test_sequences_times_their_length_are_tokens(tmp_path):
    tokens = _read_one(tmp_path, f"{HEADER}\n3.1,32768,100.5\n3.1,98304,40\n")
    sequences = _read_one(
        tmp_path, "target_loss,batch_sequences,seq_len,steps\n3.1,64,512,100.5\n3.1,192,512,40\n"
    )
    np.testing.assert_array_equal(tokens.observations.log_batch, sequences.observations.log_batch)
    np.testing.assert_array_equal(tokens.observations.log_steps, sequences.observations.log_steps)


def test_sequences_fill_in_where_tokens_are_empty(tmp_path):
    sample = _read_one(
        tmp_path, f"{HEADER},batch_sequences,seq_len\n3.1,1000,50,,\n3.1,,40,8,256\n3.1,3000,30,8,256\n"
    )
    assert np.exp(sample.observations.log_batch) == pytest.approx([1000, 2048, 3000])


def test_fractions_are_kept(tmp_path):
    sample = _read_one(tmp_path, f"{HEADER}\n3.1,1000.25,99.75\n")
    assert np.exp(sample.observations.log_batch[0]) == pytest.approx(1000.25, rel=1e-12)
    assert np.exp(sample.observations.log_steps[0, 0]) == pytest.approx(99.75, rel=1e-12)


def test_steps_se_is_in_steps(tmp_path):
    sample = _read_one(tmp_path, f"{HEADER},steps_se\n3.1,1000,200,10\n3.1,2000,100,\n3.1,3000,100,0\n")
    assert sample.observations.log_steps_se[:, 0] == pytest.approx([0.05, 0.0, 0.0])


@pytest.mark.parametrize(
    ("text", "censored"),
    [
        *[(text, True) for text in ("true", "True", "TRUE", "1", "yes", " y ", "t")],
        *[(text, False) for text in ("false", "0", "no", "", "N", "F")],
    ],
)
def test_censored_in_all_spellings(tmp_path, text, censored):
    sample = _read_one(tmp_path, f"{HEADER},censored\n3.1,1000,100,{text}\n")
    assert bool(sample.observations.censored[0, 0]) is censored
    assert bool(sample.observations.reached[0, 0]) is not censored


def test_groups_are_samples_of_their_own(tmp_path):
    table = read_points(
        _table(tmp_path, f"group,{HEADER}\nsmall,3.1,1000,100\nlarge,2.9,1000,100\nsmall,3.0,2000,90\n")
    )
    assert {sample.group: sample.targets for sample in table.samples} == {"large": [2.9], "small": [3.1, 3.0]}


def test_a_run_seen_at_two_targets_is_one_run(tmp_path):
    sample = _read_one(tmp_path, f"{HEADER}\n3.1,1000,100\n3.0,1000,180\n3.0,2000,90\n")
    assert sample.observations.log_steps.shape == (2, 2)
    assert np.isnan(sample.observations.log_steps[1, 0])


def test_seeds_are_replicates(tmp_path):
    sample = _read_one(
        tmp_path,
        f"{HEADER},seed\n3.1,1000,100,1\n3.1,1000,110,2\n3.0,1000,200,2\n3.0,1000,190,1\n",
    )
    assert sample.seeds == [1, 2]
    np.testing.assert_allclose(np.exp(sample.observations.log_steps), [[100, 190], [110, 200]])
    assert len(sample.observations.reached_batches(0)) == 1


def test_replicates_without_a_seed_all_count(tmp_path):
    sample = _read_one(tmp_path, f"{HEADER}\n3.1,1000,100\n3.1,1000,110\n3.1,2000,60\n")
    steps = np.exp(sample.observations.log_steps[:, 0])
    assert sorted(steps) == pytest.approx([60, 100, 110])


def test_columns_in_any_order_and_case_blank_lines_bom_and_crlf(tmp_path):
    path = tmp_path / "excel.csv"
    path.write_bytes(
        "\ufeffSteps , Target_Loss,BATCH_TOKENS\r\n100,3.1,1000\r\n,,\r\n\r\n50, 3.1 ,2000\r\n".encode()
    )
    [sample] = read_points(path).samples
    assert sample.targets == [3.1]
    assert np.exp(sample.observations.log_steps[:, 0]) == pytest.approx([100, 50])


def test_empty_columns_without_a_name_are_left_out(tmp_path):
    sample = _read_one(tmp_path, "target_loss,,batch_tokens,steps,,\n3.1,,1000,100,,\n")
    assert np.exp(sample.observations.log_steps[:, 0]) == pytest.approx([100])


def test_columns_that_are_not_known_are_named_in_a_warning(tmp_path):
    table = read_points(_table(tmp_path, f"{HEADER},comment\n3.1,1000,100,good run\n"))
    assert table.warnings == [f"{table.path}: columns not used: comment."]


# --- what is refused ---------------------------------------------------------------------------------------------


BAD_CELLS = {
    "steps are no number": ("3.1,1000,many", "steps is 'many'"),
    "steps are negative": ("3.1,1000,-5", "steps is '-5'"),
    "steps are zero": ("3.1,1000,0", "steps is '0'"),
    "steps are missing": ("3.1,1000,", "steps is ''"),
    "steps are infinite": ("3.1,1000,inf", "steps is 'inf'"),
    "steps are nan": ("3.1,1000,nan", "steps is 'nan'"),
    "batch is negative": ("3.1,-1000,100", "batch_tokens is '-1000'"),
    "batch is zero": ("3.1,0,100", "batch_tokens is '0'"),
    "batch is missing": ("3.1,,100", "batch_"),
    "batch has a suffix that is none": ("3.1,10Q,100", "batch_tokens is '10Q'"),
    "target is no number": ("low,1000,100", "target_loss is 'low'"),
    "target is missing": (",1000,100", "target_loss is ''"),
    "se is negative": ("3.1,1000,100,-1", "steps_se is '-1'"),
    "se is no number": ("3.1,1000,100,small", "steps_se is 'small'"),
    "censored is no flag": ("3.1,1000,100,,maybe", "censored is 'maybe'"),
    "seed is no number": ("3.1,1000,100,,,first", "seed is 'first'"),
    "a cell too few": ("3.1,1000", "steps is ''"),
}


@pytest.mark.parametrize(("row", "says"), BAD_CELLS.values(), ids=BAD_CELLS)
def test_a_bad_cell_is_named_with_its_file_and_line(tmp_path, row, says):
    path = _table(tmp_path, f"{HEADER},steps_se,censored,seed\n3.1,500,100,,,\n\n{row}\n")
    with pytest.raises(BadInputError) as error:
        read_points(path)
    assert str(error.value).startswith(f"{path}, line 4: ")
    assert says in str(error.value)


BAD_FILES = {
    "empty": (b"", "empty"),
    "header alone": (HEADER.encode() + b"\n", "no rows"),
    "no steps": (b"target_loss,batch_tokens\n3.1,1000\n", "no column steps"),
    "no target": (b"batch_tokens,steps\n1000,100\n", "no column target_loss"),
    "no batch size": (b"target_loss,steps\n3.1,100\n", "no column batch_tokens"),
    "sequences without their length": (b"target_loss,batch_sequences,steps\n3.1,8,100\n", "batch_tokens"),
    "a column twice": (HEADER.encode() + b",steps\n3.1,1000,100,200\n", "twice"),
    "a column without a name": (HEADER.encode() + b",\n3.1,1,500,100\n", "without a name"),
    "binary": (b"\x80\x04\x95\x00\xff\xfe\x00\x01" * 20, "not a CSV table"),
    "nul bytes": (b"\x00" * 64, ""),
    "latin-1": ("target_loss,batch_tokens,steps,note\n3.1,1000,100,caf\xe9\n".encode("latin-1"), "not a CSV"),
}


@pytest.mark.parametrize(("content", "says"), BAD_FILES.values(), ids=BAD_FILES)
def test_a_bad_file_is_named(tmp_path, content, says):
    path = tmp_path / "points.csv"
    path.write_bytes(content)
    with pytest.raises(BadInputError, match=r"points\.csv") as error:
        read_points(path)
    assert says in str(error.value)
    assert len(str(error.value)) < 600


def test_a_file_that_is_not_there_and_a_folder(tmp_path):
    with pytest.raises(BadInputError, match="no such file"):
        read_points(tmp_path / "gone.csv")
    with pytest.raises(BadInputError, match="not an ordinary file"):
        read_points(tmp_path)


def test_too_many_cells_are_not_cut_off_in_silence(tmp_path):
    # 1,000 typed with a comma shifts every cell behind it
    for rows in ("3.1,500,100\n3.1,1,000,100\n", "3.1,1,500,100\n3.1,1,700,80\n"):
        with pytest.raises(BadInputError, match=r"points\.csv"):
            read_points(_table(tmp_path, f"{HEADER}\n{rows}"))


def test_read_points_is_part_of_the_api():
    assert ebfit.read_points is read_points
