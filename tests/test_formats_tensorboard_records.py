"""Records of event files: what is decoded of them, against protobuf; damaged ones, and files that still grow."""

import math
from pathlib import Path

import numpy as np
import pytest
from event_files import record_offsets, scalar, write_events
from hypothesis import given
from hypothesis import strategies as st
from tensorboard.compat.proto import event_pb2, summary_pb2
from tensorboard.summary.writer.record_writer import RecordWriter
from tensorboard.util import tensor_util

from ebfit.runs import ReadOptions, read_runs
from ebfit.runs.formats.crc32c import crc32c, crc32c_of_many
from ebfit.runs.formats.event_values import EventReader
from ebfit.runs.formats.tfrecord import Block, TornRecord, blocks

QUIET = ReadOptions(warmup_steps=1)
STEPS = range(10, 401, 10)


def test_the_checksum_of_the_standard():
    assert crc32c(b"123456789") == 0xE3069283  # RFC 3720 and every catalogue
    assert crc32c(bytes(32)) == 0x8A9136AA
    assert crc32c(b"\xff" * 32) == 0x62A8AB43


@given(st.binary(max_size=1500), st.lists(st.tuples(st.integers(0, 1500), st.integers(0, 1500)), max_size=20))
def test_checksums_of_many_pieces_are_those_of_each(data: bytes, pieces: list[tuple[int, int]]):
    bounds = [sorted((min(first, len(data)), min(end, len(data)))) for first, end in pieces]
    starts = np.array([first for first, _ in bounds], np.int64)
    lengths = np.array([end - first for first, end in bounds], np.int64)
    expected = [crc32c(data[first:end]) for first, end in bounds]
    assert crc32c_of_many(data, starts, lengths).tolist() == expected


TAGS = st.sampled_from(["train/loss", "lr", "a tag \u00e9", "x" * 200, ""])
STEPS_OF_ALL_SIZES = st.one_of(st.just(0), st.integers(-(2**63), 2**63 - 1), st.integers(1, 2**35))
SINGLE = st.floats(width=32)


@st.composite
def _values(draw) -> summary_pb2.Summary.Value:
    kind = draw(st.sampled_from(["simple", "float", "content", "double", "int", "histogram"]))
    value = summary_pb2.Summary.Value(tag=draw(TAGS))
    if kind == "simple":
        value.simple_value = draw(SINGLE)
    elif kind == "histogram":
        value.histo.num = draw(SINGLE)
    elif kind == "float":
        value.tensor.dtype = 1
        value.tensor.float_val.append(draw(SINGLE))
    else:
        number = draw(st.integers(-(2**31), 2**31 - 1)) if kind == "int" else draw(SINGLE)
        kinds = {"content": np.float32, "double": np.float64, "int": np.int32}
        value.tensor.CopyFrom(tensor_util.make_tensor_proto(kinds[kind](number)))
        if kind == "content":
            value.tensor.ClearField("float_val")
            value.tensor.tensor_content = np.float32(number).tobytes()
    if draw(st.booleans()):
        value.metadata.plugin_data.plugin_name = "scalars"
    return value


@st.composite
def _events(draw) -> event_pb2.Event:
    values = draw(st.lists(_values(), min_size=1, max_size=draw(st.sampled_from([1, 1, 3]))))
    event = event_pb2.Event(summary=summary_pb2.Summary(value=values))
    event.step = draw(STEPS_OF_ALL_SIZES)
    event.wall_time = draw(st.one_of(st.just(0.0), st.floats(1, 2e9), st.just(math.inf)))
    return event


def _as_protobuf_says(event: event_pb2.Event) -> list[tuple[float, int, str, str]]:
    time = event.wall_time if math.isfinite(event.wall_time) else 0.0
    rows = []
    for value in event.summary.value:
        if value.HasField("simple_value"):
            number = np.float32(value.simple_value)
        elif value.HasField("tensor"):
            number = tensor_util.make_ndarray(value.tensor)[()]
        else:
            continue
        rows.append((time, event.step, value.tag, str(float(str(number)))))
    return rows


@given(st.lists(_events(), max_size=30), st.integers(1, 200))
def test_scalars_are_those_that_protobuf_decodes(
    tmp_path_factory: pytest.TempPathFactory, events: list[event_pb2.Event], piece_bytes: int
):
    """Whatever the size of the pieces that the file is read in; like events are recognised in those after the first."""
    path = tmp_path_factory.mktemp("events") / "events"
    events += [scalar("train/loss", 0.1 * number, number, 9.0) for number in range(5)] + events
    with path.open("wb") as file:
        writer = RecordWriter(file)
        for event in events:
            writer.write(event.SerializeToString())
    reader = EventReader()
    with path.open("rb") as file:
        assert sum(reader.take(block, 0) for block in blocks(file, piece_bytes)) == len(events)
    read = reader.scalars.in_time()
    names = [read.names[tag] for tag in read.tags]
    rows = zip(read.times.tolist(), read.steps.tolist(), names, map(str, read.values.tolist()), strict=True)
    expected = sorted((row for event in events for row in _as_protobuf_says(event)), key=lambda row: row[0])
    assert list(rows) == expected


def _losses(folder: Path) -> Path:
    return write_events(folder, [scalar("train/loss", 4 - step / 1000, step, 1.0 + step) for step in STEPS])


def test_a_damaged_scalar_is_counted_also_where_it_looks_like_nothing(tmp_path: Path):
    """Every bit of a record: whatever it decodes to then, it is a row that is missing."""
    path = _losses(tmp_path / "b64")
    data = path.read_bytes()
    at, end = record_offsets(data)[20:22]
    for bit in range(8 * (at + 12), 8 * end, 5):
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        [run] = read_runs([tmp_path], QUIET)
        assert (len(run.train.steps), run.dropped) == (39, {"damaged record": 1})


def test_damaged_records_here_and_there_and_a_torn_end(tmp_path: Path):
    path = _losses(tmp_path / "b64")
    data = bytearray(path.read_bytes())
    offsets = record_offsets(bytes(data))
    for index in (5, 6, 20):
        data[offsets[index] + 30] ^= 8
    path.write_bytes(data[: offsets[-1] + 9])
    [run] = read_runs([tmp_path], QUIET)
    assert len(run.train.steps) == 36
    assert run.dropped == {"damaged record": 3, "truncated last record": 1}


def test_a_histogram_that_is_damaged_is_no_row_that_is_missing(tmp_path: Path):
    histogram = summary_pb2.Summary.Value(tag="weights", histo=summary_pb2.HistogramProto(bucket=[1.0] * 100))
    event = event_pb2.Event(step=5, summary=summary_pb2.Summary(value=[histogram]))
    losses = [scalar("train/loss", 4 - step / 1000, step, 1.0 + step) for step in STEPS]
    path = write_events(tmp_path / "b64", [event, *losses])
    data = bytearray(path.read_bytes())
    data[record_offsets(bytes(data))[1] + 500] ^= 1
    path.write_bytes(data)
    [run] = read_runs([tmp_path], QUIET)
    assert (len(run.train.steps), run.dropped) == (40, {})


def test_a_file_that_still_grows_has_what_was_written_so_far(tmp_path: Path):
    """Cut off at every byte of a record: the whole ones are read, and a part of one is counted once."""
    path = _losses(tmp_path / "b64")
    data = path.read_bytes()
    begin, end = record_offsets(data)[30:32]
    for size in range(begin, end):
        path.write_bytes(data[:size])
        [run] = read_runs([tmp_path], QUIET)
        assert len(run.train.steps) == 29  # the first record is the version
        assert run.dropped == ({"truncated last record": 1} if size > begin else {})


def test_what_is_damaged_is_held_against_the_run_that_it_is_of(tmp_path: Path):
    first = _losses(tmp_path / "b64")
    events = [scalar("train/loss", 3 - step / 1000, step, 9000.0 + step) for step in STEPS]
    second = write_events(tmp_path / "b64", events, ".second")
    for path, indices in ((first, (5,)), (second, (9, 12))):
        data = bytearray(path.read_bytes())
        for index in indices:
            data[record_offsets(bytes(data))[index] + 30] ^= 8
        path.write_bytes(data)
    runs = read_runs([tmp_path], QUIET)
    assert [run.dropped for run in runs] == [{"damaged record": 1}, {"damaged record": 2}]


def test_records_are_found_whatever_the_size_of_the_pieces(tmp_path: Path):
    data = _losses(tmp_path / "b64").read_bytes()[:-2]
    path = tmp_path / "cut"
    path.write_bytes(data)
    for piece_bytes in (1, 7, 64, 10**6):
        with path.open("rb") as file:
            found = list(blocks(file, piece_bytes))
        lengths = [length for block in found if isinstance(block, Block) for length in block.lengths.tolist()]
        assert len(lengths) == 40
        assert found[-1] == TornRecord(record_offsets(data)[40], lost=False)
