"""Files that would take more memory or time than any log does are refused in a sentence, before they have taken it."""

import json
import tracemalloc
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from event_files import scalar, write_events

from ebfit.errors import BadInputError
from ebfit.runs import ReadOptions, read_runs
from ebfit.runs.formats import csv_table, json_columns, json_lines, lightning_csv, parquet
from ebfit.runs.formats.limits import MAX_CELLS
from ebfit.runs.formats.text_lines import TextLog

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


RECORDS = range(1, 10_001)


def _log(path: Path, more: dict[int, str] | None = None, key: str = "") -> Path:
    """Write JSON lines or a list of records, each with a key of its own if one is given, and further keys in some."""
    lines = [
        f'{{"step": {n}, "loss": {4 - n / 1e5}'
        + (f', "{key % n}": 1.5' if key else "")
        + (more or {}).get(n, "")
        + "}"
        for n in RECORDS
    ]
    path.write_text("[" + ",\n".join(lines) + "]" if path.suffix == ".json" else "\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize("name", ["b64.jsonl", "b64.json"])
def test_records_that_each_have_a_key_of_their_own(tmp_path: Path, name: str):
    """Columns with all their gaps were 5 GB of a file of 300 KB; with more records they filled any memory."""
    path = _log(tmp_path / name, key="sample_%d")
    [run] = read_runs([path], QUIET)
    assert run.train.steps.tolist() == list(RECORDS)
    assert run.train.loss.tolist() == [4 - n / 1e5 for n in RECORDS]
    [raw] = (json_lines if name.endswith("l") else json_columns).read(path)
    assert sorted(raw.table.column_names) == ["loss", "step"]
    assert any(
        "of many keys only those were read that a run needs (2 of them)" in text for text in run.warnings
    )


def test_a_loss_of_another_name_in_every_record(tmp_path: Path):
    with pytest.raises(BadInputError, match=r"b64\.jsonl: 10,000 rows of 10,002 keys that are losses"):
        read_runs([_log(tmp_path / "b64.jsonl", key="val_%d_loss")], QUIET)


def test_one_record_of_very_many_keys_among_others(tmp_path: Path):
    """Each of its keys became a column as long as the log."""
    many = "".join(f', "layers.{index}.norm": 1.5' for index in range(60_000))
    path = _log(tmp_path / "b64.jsonl", {5000: many})
    [run] = read_runs([path], QUIET)
    assert run.train.steps.tolist() == list(RECORDS)
    assert not run.dropped
    [raw] = json_lines.read(path)
    assert len(raw.table.column_names) * len(RECORDS) <= MAX_CELLS


def test_a_document_larger_than_is_parsed_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(json_columns, "MAX_DOCUMENT_BYTES", 2**20)
    state = {"global_step": 1, "log_history": [{"step": n, "loss": 4.0, "note": "x" * 99} for n in RECORDS]}
    for name, content in (
        ("b64.json", [{"step": n, "loss": 4.0, "note": "x" * 99} for n in RECORDS]),
        ("s.json", state),
    ):
        path = tmp_path / name
        path.write_text(json.dumps(content))
        with pytest.raises(BadInputError, match=rf"{name}: one JSON document of more than 1 MiB"):
            read_runs([path], QUIET)


def test_a_document_of_more_values_than_a_log_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A list of 2 bytes a number takes thirty times its size."""
    monkeypatch.setattr(json_columns, "MAX_DOCUMENT_VALUES", 10**6)
    path = tmp_path / "b64.json"
    path.write_text('{"step": [' + "1," * 10**6 + '1], "loss": [1]}')
    with pytest.raises(BadInputError, match=r"b64\.json: more than 1 million values"):
        read_runs([path], QUIET)


def test_a_cell_longer_than_the_parser_allows_in_a_table_with_two_headers(tmp_path: Path):
    path = tmp_path / "metrics.csv"
    path.write_text("step,loss\n1,2.0\nstep,loss,lr\n2,1.9," + "9" * 200_000 + "\n")
    with pytest.raises(BadInputError, match=r"metrics\.csv: cannot be read as CSV \(field larger"):
        lightning_csv.read(path)


def test_colour_codes_on_a_line_of_megabytes(tmp_path: Path):
    """They were taken out of the whole line at once, and each piece between two of them was an object."""
    data = b"[0m[1mx" * 2**19
    tracemalloc.start()
    text = TextLog(data).data
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert text.count(b"x") == 2**19
    assert text.count(b"m") <= 8  # where a code was cut in two
    assert peak < 40 * len(data)


def test_json_lines_that_begin_with_a_byte_order_mark_and_hold_a_damaged_line(tmp_path: Path):
    """The first record was lost with the mark."""
    path = tmp_path / "b64.jsonl"
    lines = [f'{{"step": {step}, "loss": {4 - step / 100}}}' for step in range(1, 41)]
    path.write_bytes(b"\xef\xbb\xbf" + "\n".join([*lines, '{"step": oops}', ""]).encode())
    [run] = read_runs([path], QUIET)
    assert run.train.steps.tolist() == list(range(1, 41))
    assert run.dropped == {"not a JSON object": 1}


def test_a_table_that_is_nothing_but_headers_and_single_rows(tmp_path: Path):
    """Counting the lines before each of them took a minute for two million."""
    path = tmp_path / "metrics.csv"
    path.write_text("".join(f"epoch,step,loss\n0,{step},{4 - step / 100}\n" for step in range(40)))
    [raw] = lightning_csv.read(path)
    assert raw.table.column("step").to_pylist() == list(range(1, 41))
    assert raw.locate(39) == "line 80"


def test_event_files_with_a_loss_of_another_tag_at_every_step(tmp_path: Path):
    """A row for every step and a column for every tag filled the memory of any machine."""
    write_events(tmp_path / "b64", [scalar(f"val_{step}/loss", 3.0, step, 1.0) for step in range(1, 8001)])
    with pytest.raises(BadInputError, match=r"b64.*: 8,000 rows of 8,000 tags that are losses"):
        read_runs([tmp_path], QUIET)


def test_groups_of_lists_with_losses_of_their_own(tmp_path: Path):
    """Put below each other they were a table of a million rows and a thousand columns."""
    groups = {f"val_{index}": {"step": [1.0] * 800, "loss": [3.0] * 800} for index in range(1000)}
    path = tmp_path / "b64.json"
    path.write_text(json.dumps({"history": groups}))
    with pytest.raises(BadInputError, match=r"b64\.json: 800,000 rows of 1,001 lists that are losses"):
        read_runs([path], QUIET)


def test_numbers_as_text_of_megabytes_in_a_small_parquet_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Packed into 30 KB, 200 of them took 3 GB, and more of them any memory."""
    monkeypatch.setattr(parquet, "MAX_TEXT_BYTES", 2**20)
    path = tmp_path / "b64.parquet"
    table = pa.table({"step": range(40), "loss": ["9" * 50_000] * 40})
    pq.write_table(table, path, use_dictionary=False, compression="zstd")
    assert path.stat().st_size < 10_000
    with pytest.raises(
        BadInputError, match=r"b64\.parquet: 'loss' is text, in a file that unpacks to 2,000,"
    ):
        read_runs([path], QUIET)
