"""Packed logs, formats that are listed, and formats of which several files are one run."""

import gzip
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest

from ebfit.cli.main import main
from ebfit.errors import BadInputError
from ebfit.runs import ReadOptions, files_read, read_runs
from ebfit.runs import formats as formats_module
from ebfit.runs.formats import FORMATS, csv_table
from ebfit.runs.raw_log import RawLog

ROWS = "step,loss,lr\n" + "".join(f"{step},{4 - step / 100},0.1\n" for step in range(1, 41))


def _zstd(text: str) -> bytes:
    return pa.compress(text.encode(), codec="zstd", asbytes=True)


@pytest.mark.parametrize("pack", [_zstd, lambda text: gzip.compress(text.encode())], ids=["zstd", "gzip"])
def test_a_packed_log_is_read_as_the_plain_one(tmp_path: Path, pack):
    plain, packed = tmp_path / "b64.csv", tmp_path / "packed" / "b64.csv.zst"
    packed.parent.mkdir()
    plain.write_text(ROWS)
    packed.write_bytes(pack(ROWS))
    one, other = read_runs([plain])[0], read_runs([packed])[0]
    assert one.name == other.name == "b64"
    assert (one.train.loss == other.train.loss).all()


@pytest.mark.parametrize(
    "damage", [lambda data: data[: len(data) // 2], lambda data: data[:20] + b"\xff" * 40]
)
def test_a_damaged_zstd_file_is_named(tmp_path: Path, damage):
    log = tmp_path / "b64.csv.zst"
    log.write_bytes(damage(_zstd(ROWS * 50)))
    with pytest.raises(
        BadInputError, match=r"b64\.csv\.zst: (a damaged zstd file|the zstd file ends too early|.*dropped)"
    ):
        read_runs([log])


def test_a_zstd_bomb_is_refused(tmp_path: Path):
    log = tmp_path / "b64.csv.zst"
    log.write_bytes(_zstd("step,loss,lr\n" + "1,2.0,0.1\n" * (30 * 2**20)))
    with pytest.raises(BadInputError, match="unpacks to more than 256 MiB"):
        read_runs([log])


def test_every_format_is_listed_with_an_example(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["inspect", "--formats"])
    out = capsys.readouterr().out
    assert not stop.value.code
    for known in FORMATS:
        assert f"{known.NAME}: " in out
        assert known.EXAMPLE in out


def test_pieces_of_a_run_are_read_as_one(tmp_path: Path, monkeypatch):
    """A format whose runs are folders of files: each folder is a run, and all its files are inputs."""

    def read_pieces(paths: Sequence[Path]) -> list[RawLog]:
        tables = [csv_table.read_whole(path)[0].table for path in paths]
        return [RawLog(pa.concat_tables(tables), lambda row: f"row {row}", name=paths[0].parent.name)]

    in_pieces = SimpleNamespace(
        NAME="pieces",
        TRAINER="",
        EXAMPLE="",
        sniff=lambda head, path: head.startswith(b"step"),
        read=csv_table.read,
        run_of=lambda path: path.parent,
        read_pieces=read_pieces,
    )
    monkeypatch.setattr(formats_module, "FORMATS", (in_pieces,))
    header, *lines = ROWS.splitlines(keepends=True)
    for run in ("b64", "b128"):
        (tmp_path / run).mkdir()
        (tmp_path / run / "0.csv").write_text(header + "".join(lines[:20]))
        (tmp_path / run / "1.csv").write_text(header + "".join(lines[20:]))
    runs = read_runs([tmp_path], ReadOptions(warmup_steps=1))
    assert [(run.name, len(run.train.steps), len(run.pieces)) for run in runs] == [
        ("b64", 40, 2),
        ("b128", 40, 2),
    ]
    assert len(files_read(runs)) == 4
