"""Parquet: which columns are read, what nested and odd ones become, and damaged or hostile files."""

import random
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ebfit.errors import BadInputError
from ebfit.runs import ReadOptions, read_runs
from ebfit.runs.formats import FORMATS, many_columns, parquet, sniff

ROWS = 40
STEPS = np.arange(10, 10 * ROWS + 1, 10)
LOSS = 4 - STEPS / 1000
QUIET = ReadOptions(warmup_steps=1)


def _write(path: Path, columns: dict[str, object], **options: object) -> Path:
    pq.write_table(pa.table(columns), path, **options)
    return path


def test_a_table_is_read(tmp_path: Path):
    log = _write(tmp_path / "b64.parquet", {"step": STEPS, "loss": LOSS, "lr": np.full(ROWS, 1e-3)})
    [run] = read_runs([log])
    assert (run.format, run.name, run.batch_tokens, run.lr) == ("parquet", "b64", 64, 1e-3)
    assert run.train.steps.tolist() == STEPS.tolist()
    assert run.train.loss.tolist() == LOSS.tolist()


def test_names_of_nested_columns_are_joined(tmp_path: Path):
    train = [{"loss": loss, "more": {"lr": 1e-3}} for loss in LOSS]
    log = _write(tmp_path / "b64.parquet", {"step": STEPS, "train": train, "val.loss": LOSS + 1})
    [raw] = parquet.read(log)
    assert sorted(raw.table.column_names) == ["step", "train/loss", "train/more/lr", "val.loss"]
    [run] = read_runs([log], QUIET)
    assert (run.train.column, run.val.column) == ("train/loss", "val.loss")


@pytest.mark.parametrize(
    "loss",
    [
        pa.array([Decimal(f"{loss:.3f}") for loss in LOSS]),
        pa.array([f"{loss:.3f}" for loss in LOSS]),
        pa.array([f"{loss:.3f}".encode() for loss in LOSS]),
        pa.array([f"{loss:.3f}" for loss in LOSS]).dictionary_encode(),
        pa.array([f"{loss:.3f}" for loss in LOSS], pa.large_string()),
        pa.array(LOSS.round(3), pa.float32()),
    ],
    ids=lambda column: str(column.type),
)
def test_numbers_of_any_type(tmp_path: Path, loss: pa.Array):
    [run] = read_runs([_write(tmp_path / "b64.parquet", {"step": STEPS, "loss": loss})], QUIET)
    assert run.train.loss == pytest.approx(LOSS.round(3), rel=1e-6)


def test_an_empty_cell_is_told_from_one_that_is_no_number(tmp_path: Path):
    values = [f"{loss}" for loss in LOSS]
    values[3], values[7], values[8] = None, "NaN", "diverged"
    log = _write(tmp_path / "b64.parquet", {"step": STEPS, "loss": pa.array(values)})
    [run] = read_runs([log], QUIET)
    assert run.dropped == {"no loss in the row": 1, "loss is not a number": 2}


def test_what_is_no_number_is_passed_over(tmp_path: Path):
    log = _write(
        tmp_path / "b64.parquet",
        {
            "step": STEPS,
            "loss": LOSS,
            "val_loss": [[1.0, 2.0]] * ROWS,
            "note": ["a"] * ROWS,
            "done": [True] * ROWS,
            "at": pa.array(STEPS, pa.timestamp("s")),
        },
    )
    assert parquet.read(log)[0].table.column_names == ["step", "loss"]


def test_several_row_groups(tmp_path: Path):
    loss = pa.array([f"{loss}" for loss in LOSS])
    log = _write(tmp_path / "b64.parquet", {"step": STEPS, "loss": loss}, row_group_size=7)
    [run] = read_runs([log], QUIET)
    assert run.train.loss.tolist() == LOSS.tolist()


def test_a_data_set_beside_the_logs_is_passed_over(tmp_path: Path):
    _write(tmp_path / "b64.parquet", {"step": STEPS, "loss": LOSS})
    _write(tmp_path / "shard_0.parquet", {"input_ids": [[1, 2, 3]] * 9, "url": ["x"] * 9})
    [run] = read_runs([tmp_path], QUIET)
    assert run.path.name == "b64.parquet"
    assert any("shard_0.parquet" in text for text in run.warnings)


def test_it_is_claimed_by_this_format_alone(tmp_path: Path):
    log = _write(tmp_path / "b64.parquet", {"step": STEPS, "loss": LOSS})
    assert sniff(log.read_bytes(), log) is parquet
    assert [known.NAME for known in FORMATS if known.sniff(log.read_bytes(), log)] == ["parquet"]


def test_more_rows_than_any_log_has_in_a_small_file(tmp_path: Path):
    zeros = pa.array(np.zeros(30_000_000, dtype=np.int8))
    log = _write(tmp_path / "b64.parquet", {"step": zeros, "loss": zeros})
    assert log.stat().st_size < 2**20
    with pytest.raises(BadInputError, match=r"30,000,000 rows of 2 columns .*, more than any log has"):
        read_runs([log], QUIET)


def test_of_a_log_of_every_layer_what_a_run_needs_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(many_columns, "MAX_CELLS", 4 * ROWS)
    layers = {f"layer_{index}": LOSS for index in range(9)}
    [run] = read_runs([_write(tmp_path / "b64.parquet", {"step": STEPS, **layers, "loss": LOSS})], QUIET)
    assert run.train.loss.tolist() == LOSS.tolist()
    assert any("only those were read that a run needs (2 of them)" in text for text in run.warnings)


def test_a_long_text_that_is_repeated_takes_no_more_room_than_once(tmp_path: Path):
    rows = 200_000
    text = pa.DictionaryArray.from_arrays(
        np.zeros(rows, dtype=np.int32), ["9" * 100_000]
    )  # 20 GB if unpacked
    log = _write(tmp_path / "b64.parquet", {"step": np.arange(1, rows + 1), "loss": text})
    with pytest.raises(BadInputError, match="only 0 of the rows have a usable loss"):
        read_runs([log], QUIET)


@pytest.mark.parametrize("content", [b"PAR1", b"PAR1" * 20, b"PAR1" + b"\xff" * 200 + b"PAR1"])
def test_what_only_begins_like_one(tmp_path: Path, content: bytes):
    log = tmp_path / "b64.parquet"
    log.write_bytes(content)
    with pytest.raises(BadInputError, match=r"b64\.parquet: cannot be read as Parquet"):
        read_runs([log], QUIET)


def test_a_file_without_rows(tmp_path: Path):
    log = _write(
        tmp_path / "b64.parquet", {"step": pa.array([], pa.int64()), "loss": pa.array([], pa.float64())}
    )
    with pytest.raises(BadInputError, match="no rows"):
        read_runs([log], QUIET)


# In a process of its own, as a damaged file could take the process with it.
_READ_ALL = """
import sys
from pathlib import Path
from ebfit.errors import BadInputError
from ebfit.runs.formats import parquet
for path in sorted(Path(sys.argv[1]).iterdir()):
    try:
        parquet.read(path)
    except BadInputError as error:
        assert path.name in str(error)
print("all read")
"""


def test_damaged_files_end_in_a_sentence(tmp_path: Path):
    text = pa.array([f"{loss:.1f}" for loss in LOSS])
    whole = _write(tmp_path / "whole", {"step": STEPS, "loss": LOSS, "lr": text}).read_bytes()
    (tmp_path / "damaged").mkdir()
    rng = random.Random(0)
    for number in range(600):
        data = bytearray(whole)
        at = rng.randrange(4, len(data))
        if number % 3 == 0:
            data[at] ^= 1 << rng.randrange(8)
        elif number % 3 == 1:
            del data[at : at + rng.randrange(1, 200)]
        else:
            data[at:at] = data[at : at + rng.randrange(1, 200)]
        (tmp_path / "damaged" / f"{number}.parquet").write_bytes(data)
    run = subprocess.run(
        [sys.executable, "-c", _READ_ALL, tmp_path / "damaged"], capture_output=True, text=True
    )
    assert (run.stdout, run.returncode) == ("all read\n", 0), run.stderr
