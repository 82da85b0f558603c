"""Files that are damaged or meant to do harm end in a sentence, or are read right; nothing else ever happens."""

import gzip
import json
import os
import pickle
import random
from pathlib import Path

import numpy as np
import pytest

from ebfit.errors import BadInputError
from ebfit.runs import ReadOptions, read_logs, read_runs
from ebfit.runs.formats import bytes_of, csv_table, json_lines

QUIET = ReadOptions(warmup_steps=0)
GOOD_CSV = "step,loss,lr\n" + "".join(f"{s},{5 / s**0.1:.4f},0.1\n" for s in range(1, 61))
GOOD_JSONL = "".join(
    json.dumps({"step": s, "tokens": 64 * s, "lr": 0.1, "train": {"loss": 5 / s**0.1}, "val": 5.0}) + "\n"
    for s in range(1, 61)
)
GOOD_JSON = json.dumps(
    {
        "config": {"seq_len": 32, "seed": 1},
        "history": {"train": {"iter": list(range(1, 31)), "loss": [5 - s / 50 for s in range(1, 31)]}},
    }
)


def refused(path, match):
    with pytest.raises(BadInputError, match=match) as error:
        read_runs([path], QUIET)
    assert path.name in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "the file is empty"),
        (b"\n\n  \n", "the file is empty"),
        (bytes(range(256)) * 20, "a binary file"),
        (b"step,loss\n1,2\n\0\0\0\n", "a binary file"),
        (pickle.dumps({"step": [1, 2], "loss": [3.0, 2.0]}), "a binary file|not recognised"),
        ("step,loss\n1,2\n".encode("utf-16"), "a binary file"),
        (b"\xff\xd8\xff\xe0JFIF" + b"\x80\x91\xa2" * 100, "not recognised as a log"),
        (b"1,2.0\n2,1.9\n", "not recognised as a log. A CSV log needs a header line"),
        (b"step,loss\n", "a header and no rows"),
        (b"step,loss", "a header and no rows"),
        (b"step,lr\n1,0.1\n2,0.1\n", "no loss column among 'step', 'lr'"),
        (b"loss,lr\n1,0.1\n2,0.1\n", "no step column among 'loss', 'lr'"),
        (b"a,b\n1,0.1\n2,0.1\n", "neither a step nor a loss column among 'a', 'b'"),
        (b"step,loss\n" + b"".join(b"%d,\n" % s for s in range(1, 40)), "the column 'loss' is empty"),
        (
            b"step,loss\n" + b"".join(b"%d,nan\n" % s for s in range(1, 40)),
            "only 0 of the rows have a usable loss",
        ),
        (
            b"step,loss\n" + b"".join(b"%d,1e308\n" % s for s in range(1, 40)),
            "only 0 of the rows have a usable loss",
        ),
        (b"step,loss\n-1,3\n-2,2.9\n", "line 2: step -1 in column 'step' is negative"),
        (b'{"step": 1, "loss": 3.0}\n{"step": 2, "lo', "only 1 of the rows.*truncated last line: 1"),
        (b'{"step": 1, "lo', "not valid JSON"),
        (b"[{" * 3, "not valid JSON"),
        (b'{"history": {"step": [1, 2', "not valid JSON .* seems to be cut off"),
        (b'{"a": 1, "b": {"c": 2}}', "neither a step nor a loss"),
        (b'{"name": "x"}', "no lists of numbers"),
        (b'{"a":' * 20_000 + b"1" + b"}" * 20_000 + b"\n", "nested too deep"),
        (b"[" + b'{"a":' * 20_000, "nested too deep|not valid JSON"),
        (b"step,loss\n" + b"1,2,3\n" * 50, "no usable row .wrong number of cells: 50"),
    ],
)
def test_files_that_are_no_logs(tmp_path, content, message):
    path = tmp_path / "b64.csv"
    path.write_bytes(content)
    refused(path, message)


def test_an_unpickled_file_would_have_run_this(tmp_path):
    class Harm:
        def __reduce__(self):
            return (Path.touch, (tmp_path / "harmed",))

    for name in ("b64.csv", "run.json", "b64.pkl"):
        (tmp_path / name).write_bytes(pickle.dumps(Harm()))
        with pytest.raises(BadInputError):
            read_runs([tmp_path / name], QUIET)
    assert not (tmp_path / "harmed").exists()


def test_cells_are_never_evaluated(tmp_path):
    path = tmp_path / "b64.csv"
    path.write_text(GOOD_CSV + "61,__import__('os').system('false'),0.1\n62,=1+1,0.1\n")
    [run] = read_runs([path], QUIET)
    assert run.dropped == {"loss is not a number": 2}


@pytest.mark.parametrize("depth", [900, 3000, 100_000])
def test_one_deeply_nested_record_among_good_ones(tmp_path, depth):
    # pyarrow's parser overruns its stack and takes the whole process with it
    path = tmp_path / "b64.jsonl"
    path.write_text(GOOD_JSONL + '{"a":' * depth + "1" + "}" * depth + "\n" + GOOD_JSONL.splitlines()[0])
    [run] = read_runs([path], QUIET)
    assert len(run.train.steps) == 60
    assert run.dropped["duplicate step"] == 1


@pytest.mark.parametrize("depth", [3000, 100_000])
def test_a_deep_record_across_two_blocks(tmp_path, depth):
    path = tmp_path / "b64.jsonl"
    many = "".join(f'{{"step": {s}, "loss": {5 - s / 1e5}}}\n' for s in range(1, 150_000))
    path.write_text(many + "[" * depth + "]" * depth + "\n")
    [run] = read_runs([path], QUIET)
    assert run.dropped == {"not a JSON object": 1}


def test_a_record_longer_than_any_block(tmp_path):
    path = tmp_path / "b64.jsonl"
    path.write_text(
        GOOD_JSONL + json.dumps({"step": 61, "train": {"loss": 3.0}, "text": "x" * 9_000_000}) + "\n"
    )
    [run] = read_runs([path], QUIET)
    assert len(run.train.steps) == 61


def test_a_record_with_a_key_twice(tmp_path):
    path = tmp_path / "b64.jsonl"
    path.write_text(GOOD_JSONL + '{"step": 61, "step": 62, "train": {"loss": 3.0}}\n')
    [run] = read_runs([path], QUIET)
    assert run.train.steps[-1] == 62


def test_a_csv_line_longer_than_any_block(tmp_path):
    path = tmp_path / "b64.csv"
    path.write_text(GOOD_CSV + "61,3.0," + "9" * 5_000_000 + "\n")
    [run] = read_runs([path], QUIET) if not read_logs([path], QUIET).problems else [None]
    if run is None:
        refused(path, "cannot be read as CSV")
    else:
        assert len(run.train.steps) == 61


def test_bytes_of_another_encoding_do_no_harm_outside_the_numbers(tmp_path):
    path = tmp_path / "b64.csv"
    lines = (
        GOOD_CSV.replace("0.1\n", "0.1,Tagesl\xe4nge\n")
        .replace("lr\n", "lr,name\n")
        .splitlines(keepends=True)
    )
    path.write_bytes("".join([*lines, "\xe4\xf6,\xfc\n"]).encode("latin-1"))
    [run] = read_runs([path], QUIET)
    assert (len(run.train.steps), run.dropped) == (60, {"wrong number of cells": 1})


def test_a_quote_that_is_never_closed_does_not_swallow_rows_in_silence(tmp_path):
    path = tmp_path / "b64.csv"
    lines = GOOD_CSV.splitlines(keepends=True)
    path.write_text("".join(lines[:50]) + '50,"3.0,0.1\n' + "".join(lines[51:]))
    reading = read_logs([path], QUIET)
    dropped = reading.runs[0].dropped if reading.runs else {}
    assert sum(dropped.values()) >= 10 or reading.problems


def test_ragged_rows_are_counted(tmp_path):
    path = tmp_path / "b64.csv"
    path.write_text(GOOD_CSV.replace("\n7,", "\n7,7,").replace("\n9,", "\n"))
    [run] = read_runs([path], QUIET)
    assert run.dropped == {"wrong number of cells": 2}
    assert 7 not in run.train.steps


def test_gzip_files_that_are_cut_damaged_or_bombs(tmp_path, monkeypatch):
    packed = gzip.compress(GOOD_CSV.encode())
    path = tmp_path / "b64.csv.gz"
    path.write_bytes(packed[:-20])
    refused(path, "the gzip file ends too early")
    path.write_bytes(packed[:40] + b"\xff" * 40 + packed[80:])
    refused(path, "a damaged gzip file")
    monkeypatch.setattr(bytes_of, "MAX_UNPACKED_BYTES", 100_000)
    path.write_bytes(gzip.compress(GOOD_CSV.encode() + b"61,3,0.1\n" * 100_000))
    refused(path, "unpacks to more than")


def test_things_that_are_no_files(tmp_path):
    (tmp_path / "b64.csv").mkdir()
    (tmp_path / "b64.csv" / "b32.csv").write_text(GOOD_CSV)
    os.mkfifo(tmp_path / "pipe.csv")
    (tmp_path / "gone.csv").symlink_to(tmp_path / "nothing")
    (tmp_path / "self").symlink_to("self")
    [run] = read_runs([tmp_path], QUIET)
    assert run.name == "b32"
    refused(tmp_path / "pipe.csv", "not a regular file")
    refused(tmp_path / "gone.csv", "a link to a file that does not exist")


@pytest.mark.parametrize(
    "name", ["b64 with [brackets].csv", "b64'\"$(touch x).csv", "-b64.csv", "b64\n.csv", "b64é.csv"]
)
def test_odd_names(tmp_path, name):
    (tmp_path / name).write_text(GOOD_CSV)
    [run] = read_runs([tmp_path / name], QUIET)
    [again] = read_runs([tmp_path], QUIET)
    assert run.path == again.path == tmp_path / name


def test_a_name_that_is_not_utf_8(tmp_path):
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/b64_\xff.csv"))
    path.write_text(GOOD_CSV)
    [run] = read_runs([tmp_path], QUIET)
    assert run.batch_tokens == 64


TOKENS = [
    *(
        b"NaN",
        b"1e308",
        b"-1",
        b'"',
        b"\n",
        b",",
        b"{",
        b"}",
        b"[",
        b"null",
        b"\xff",
        b"\0",
        b"1" * 400,
        b"1e999",
    ),
    *(
        b"-0.5",
        b"#",
        b"\r",
        b'{"a":' * 300,
        b"true",
        b";",
        b"\t",
        b"1e-320",
        b"99999999999999999999",
        b"step",
    ),
]


def mutated(content, rng):
    """Flip bits, cut, insert and repeat, as a broken disk and two writers to one file do."""
    data = bytearray(content)
    for _ in range(rng.choice([1, 2, 5, 20])):
        at = rng.randrange(len(data) + 1)
        kind = rng.random()
        if kind < 0.3 and at < len(data):
            data[at] ^= 1 << rng.randrange(8)
        elif kind < 0.75:
            data[at : at + rng.choice([0, 1, 8])] = rng.choice(TOKENS)
        elif kind < 0.85:
            del data[at:]
        else:
            data[at:at] = content[: rng.randrange(300)]
    return bytes(data)


@pytest.mark.parametrize("content", [GOOD_CSV, GOOD_JSONL, GOOD_JSON], ids=["csv", "jsonl", "json"])
@pytest.mark.parametrize("seed", range(4))
def test_mutated_logs_are_read_or_refused(tmp_path, content, seed):
    rng = random.Random(f"{seed}")
    for number in range(60):
        path = tmp_path / f"b64_{number}.csv"
        path.write_bytes(mutated(content.encode(), rng))
        window = rng.choice([None, 10, "interval"])
        options = ReadOptions(seq_len=rng.choice([None, 32]), train_window=window, allow_non_stable=True)
        reading = read_logs([path], options)
        assert reading.runs or reading.problems
        for run in reading.runs:
            assert sum(run.dropped.values()) <= run.rows
            for curve in (run.train, run.val):
                if curve is not None:
                    assert np.isfinite(curve.loss).all()
                    assert (curve.steps > 0).all()
                    assert (np.diff(curve.steps) > 0).all()


@pytest.mark.parametrize("becomes", ["gone", "a folder"])
def test_a_file_that_is_taken_away_while_it_is_read(tmp_path, monkeypatch, becomes):
    """It ended in a traceback if that happened just before the parser opened it."""
    path = tmp_path / "b64.jsonl"
    path.write_text(GOOD_JSONL)

    def take_away(path):
        path.unlink()
        if becomes == "a folder":
            path.mkdir()
        return False

    monkeypatch.setattr(json_lines, "is_beyond_pyarrow", take_away)
    refused(path, "cannot be read|not a regular file")


def test_a_log_that_does_not_fit_into_memory(tmp_path, monkeypatch):
    def too_much(path):
        raise MemoryError

    monkeypatch.setattr(csv_table, "read", too_much)
    (tmp_path / "b64.csv").write_text(GOOD_CSV)
    refused(tmp_path / "b64.csv", "more than fits into memory")


def test_a_name_that_no_file_can_have(tmp_path):
    """It ended in the error of the operating system."""
    refused(tmp_path / ("b64" * 100), "no such file or folder")


@pytest.mark.parametrize("status", ["[1]", "{}", "1", "null"])
def test_a_run_json_whose_status_is_no_text_beside_an_empty_log(tmp_path, status):
    (tmp_path / "b64.csv").touch()
    (tmp_path / "run.json").write_text(f'{{"outcome": {{"status": {status}}}}}')
    refused(tmp_path / "b64.csv", "the file is empty")
    with pytest.raises(BadInputError, match=r"b64\.csv: the file is empty"):
        read_runs([tmp_path], QUIET)


def test_a_run_json_that_is_a_pipe_beside_an_empty_log(tmp_path):
    """To read it waited for ever."""
    (tmp_path / "b64.csv").touch()
    os.mkfifo(tmp_path / "run.json")
    with pytest.raises(BadInputError, match=r"b64\.csv: the file is empty"):
        read_runs([tmp_path], QUIET)


def test_gzip_files_of_nothing_but_headers(tmp_path):
    """Python's gzip reads them byte by byte: a megabyte took a second, and a file may have any number of them."""
    path = tmp_path / "b64.csv.gz"
    path.write_bytes(gzip.compress(b"") * 10_000 + gzip.compress(GOOD_CSV.encode()))
    [run] = read_runs([path], QUIET)
    assert len(run.train.steps) == 60
    path.write_bytes(b"\x1f\x8b\x08\x08" + b"\0" * 6 + b"n" * 1_000_000)  # a name that never ends
    refused(path, "the gzip file ends too early")
