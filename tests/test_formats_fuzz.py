"""Logs of every format that were damaged: a sentence that names the file, or a correct read of what is left."""

import gzip
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ebfit.errors import BadInputError
from ebfit.runs import ReadOptions, Run, read_logs, read_runs
from ebfit.runs.build import NO_LOSS
from ebfit.runs.formats import CONSOLE, FORMATS, sniff
from tests.log_samples import SAMPLES

NAMES = [known.NAME for known in FORMATS]
OPTIONS = ReadOptions(batch_tokens=1000, warmup_steps=1, allow_dropped=True)
DAMAGE = [
    *(b"9" * 5000, b"1e999", b"-1", b"-0.5", b"nan", b"null", b"true", b"1e-320", b"99999999999999999999"),
    *(b"\xff", b"\0", b"\r", b"\n", b"\xef\xbb\xbf", b"\x1b[3", b"|", b": ", b"=", b"#", b",", b";", b"\t"),
    *(b'"', b"{", b"}", b"[", b'{"a":' * 300, b"step", b"loss", b"\xff\xff\xff\xff\xff\xff\xff\x7f"),
]
PACKED = {
    "gzip": gzip.compress,
    "zstd": lambda data: pa.compress(data, "zstd", asbytes=True),
    "CRLF": lambda data: data.replace(b"\n", b"\r\n"),
    "byte order mark": lambda data: b"\xef\xbb\xbf" + data,
    "UTF-16": lambda data: data.decode("latin-1").encode("utf-16"),
    "twice": lambda data: data + data,
}
EDITS = st.lists(
    st.tuples(
        st.floats(0, 1),
        st.sampled_from([0, 0, 1, 8, 400]) | st.just(-1),
        st.sampled_from(DAMAGE) | st.binary(max_size=3) | st.integers(0, 7),
    ),
    max_size=8,
)


def _edited(data: bytes, edits: list[tuple[float, int, bytes | int]]) -> bytes:
    """Put bytes in place of others, cut off the rest (length -1), or turn a bit (a number)."""
    edited = bytearray(data)
    for place, length, put in edits:
        at = int(place * len(edited))
        if isinstance(put, int):
            edited[at : at + 1] = bytes(byte ^ (1 << put) for byte in edited[at : at + 1])
        elif length < 0:
            del edited[at:]
        else:
            edited[at : at + length] = put
    return bytes(edited)


def _interleaved(one: bytes, other: bytes) -> bytes:
    """Two writers to one file, whose buffers of some bytes are written in turn."""
    pieces = [data[at : at + 500] for at in range(0, max(len(one), len(other)), 500) for data in (one, other)]
    return b"".join(pieces)


def _logged(run: Run) -> list[list[float]]:
    """Return steps as they were logged, and losses, of both curves."""
    columns = []
    for curve in (run.train, run.val):
        if curve is not None:
            steps = curve.steps if curve.logged_steps is None else curve.logged_steps
            columns += [steps.tolist(), curve.loss.tolist()]
    return columns


def _check(folder: Path, path: Path, options: ReadOptions) -> list[Run]:
    """Read a log, and check all that must hold of any; return the runs of it."""
    try:
        reading = read_logs([path], options)
        runs, sentences = reading.runs, reading.problems
    except BadInputError as error:
        runs, sentences = [], [str(error)]
    assert runs or sentences
    for sentence in sentences:
        assert str(folder) in sentence
        assert "\n" not in sentence
    for run in runs:
        curves = [curve for curve in (run.train, run.val) if curve is not None]
        assert curves
        for curve in curves:
            assert np.isfinite(curve.loss).all()
            assert (curve.steps > 0).all()
            assert (np.diff(curve.steps) > 0).all()
            # A row is used or dropped, not both.
            assert len(curve.steps) + sum(run.dropped.values()) <= run.rows
    return runs


def test_there_is_a_sample_of_every_format():
    assert set(SAMPLES) == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_samples_are_read_by_the_format_that_they_are_of(tmp_path: Path, name: str):
    path = SAMPLES[name].write(tmp_path)
    log_format = sniff(path.read_bytes(), path)
    assert log_format is not None
    assert name == log_format.NAME
    [run] = _check(tmp_path, path, OPTIONS)
    assert set(run.dropped) <= {NO_LOSS, "step 0"}
    assert len(run.train.steps) >= 20


@settings(max_examples=600)
@given(
    sample=st.sampled_from(NAMES),
    other=st.none() | st.tuples(st.sampled_from(NAMES), st.booleans()),
    edits=EDITS,
    pack=st.none() | st.sampled_from([*PACKED]),
    edits_of_packed=EDITS,
    forced=st.none() | st.sampled_from(NAMES),
)
def test_damage_ends_in_a_sentence_or_a_read(sample, other, edits, pack, edits_of_packed, forced):
    data = SAMPLES[sample].data
    if other is not None:
        name, in_turn = other
        data = _interleaved(data, SAMPLES[name].data) if in_turn else data + SAMPLES[name].data
    data = _edited(data, edits)
    if pack is not None:
        data = _edited(PACKED[pack](data), edits_of_packed)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        path = SAMPLES[sample].write(folder, data)
        options = replace(OPTIONS, format=forced)
        runs = _check(folder, path, options)
        again = _check(folder, path, options)
    assert [(run.name, _logged(run), run.dropped) for run in runs] == [
        (run.name, _logged(run), run.dropped) for run in again
    ]


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=25)
@given(place=st.floats(0, 1))
def test_a_file_that_was_cut_off_gives_the_beginning_of_its_curves(name: str, place: float):
    sample = SAMPLES[name]
    with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as second:
        folder = Path(second).resolve()
        [whole] = read_runs([sample.write(Path(first))], replace(OPTIONS, format=name))
        data = sample.data[: int(place * len(sample.data))]
        runs = _check(folder, sample.write(folder, data), replace(OPTIONS, format=name))
    for run in runs:
        for part, all_of_it in zip(_logged(run), _logged(whole), strict=False):
            # Of a table without a newline at its end, the last cell may be cut, and still be a number.
            sure = len(part) if data.endswith(b"\n") or name not in TABLES else len(part) - 1
            assert part[:sure] == all_of_it[:sure]


TABLES = {"csv", "tensorboard_csv", "lightning_csv"}


@pytest.mark.parametrize("start", [b"train/", b"eval/", b"validation-", b"[Start training]", b"| loss: "])
@pytest.mark.parametrize("name", [known.NAME for known in CONSOLE])
def test_a_line_of_nothing_but_beginnings_does_not_hang(tmp_path: Path, name: str, start: bytes):
    """OLMo-core's took a minute: every beginning was followed to the end of the line."""
    anchors = b"throughput/total eval/ | elapsed time per iteration num_consumed_tokens= | consumed_tokens: Train time/"
    path = tmp_path / "train.log"
    path.write_bytes(start * (400_000 // len(start)) + anchors + b" 1\n")
    with pytest.raises(BadInputError):
        read_runs([path], ReadOptions(format=name))
