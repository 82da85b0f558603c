"""What the events of an event file say: scalars, short texts, and session starts.

Events are messages of protobuf (`event.proto` and `summary.proto` in tensorboard 2.21), and decoded by its library. But
a log is millions of events that differ in time, step, and the four bytes of a value alone. Messages one behind the
other mean what both say; so the time and the step, which come first, are taken off, and what is left but for the value
is decoded once for all events that share it.
"""

import math
import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ebfit.runs.formats.tensorboard_scalars import ScalarsRead, is_wanted
from ebfit.runs.formats.tfrecord import Block, bytes_at

START = "\0start"  # stands among the tags for a session start, and is none
_TEXT = "/text_summary"  # what torch's writer adds to the tag of a text
_MAX_TEXT_BYTES = 256
# Records of a log are no longer. They are checked, whatever they say; of others those that say something.
_SMALL_BYTES = 512
_VALUE = struct.Struct("<f")
_SOME_VALUES = (1.5, -2.5)
_TIME, _STEP = 0x09, 0x10  # how the fields wall_time, a double, and step, a varint, begin
_AFTER_TIME = 9
_MAX_FORMS = 4  # of values: simple, or tensors of one number, whose kind stands behind it
_MAX_STEP_BYTES = 5  # of 35 bits; other steps are left to protobuf
_NOT_KNOWN, _NOT_WANTED, _DECODED = -1, -2, -3
_FIRST_DECODED = 64  # of a block, before it is seen how many others are like those


class _Said(NamedTuple):
    """What an event says."""

    time: float
    step: int
    values: list[tuple[str, float]]  # tags and their scalars
    texts: dict[str, str]


class EventReader:
    """Takes what a run needs out of the records of event files.

    Attributes
    ----------
    scalars : ScalarsRead
        Of all files so far; a session start is one of the tag `START`.
    texts : dict
        Tag -> text.

    Raises
    ------
    ImportError
        If the package `tensorboard` is missing.
    """

    def __init__(self) -> None:
        from google.protobuf.message import DecodeError
        from tensorboard.compat.proto import event_pb2

        self.scalars = ScalarsRead()
        self.texts: dict[str, str] = {}
        self._event: Any = event_pb2.Event
        self._not_an_event = DecodeError
        # By the bytes behind the value: what stands around it -> the number of its tag.
        self._around: dict[int, dict[bytes, int]] = {}

    def take(self, block: Block, file: int) -> int:
        """Keep what the records of a block say.

        Parameters
        ----------
        block : Block
        file : int
            Number of the file that it is of.

        Returns
        -------
        int
            How many of the records are events, as far as is known: large ones that say nothing are not checked.
        """
        times, steps, rests = _beginnings(block)
        tags = np.full(len(rests), _NOT_KNOWN, np.int32)
        places = np.zeros(len(rests), np.int64)
        said: dict[int, _Said] = {}
        wrong: set[int] = set()
        at_once = _FIRST_DECODED
        while True:
            self._recognise(block, rests, tags, places)
            unknown = np.flatnonzero(tags == _NOT_KNOWN)[:at_once].tolist()
            if not unknown:
                break
            for index in unknown:
                tags[index] = _DECODED
                start, end = int(block.starts[index]), int(block.starts[index] + block.lengths[index])
                try:
                    event = self._event.FromString(block.data[start:end])
                except self._not_an_event:
                    wrong.add(index)
                    continue
                said[index] = _said(event)
                if len(event.summary.value) == 1 and end - start <= _SMALL_BYTES:
                    self._learn(block.data[int(rests[index]) : end], event.summary.value[0])
            at_once *= 4
        to_check = block.lengths <= _SMALL_BYTES
        to_check[[index for index, one in said.items() if one.values or one.texts]] = True
        checked = np.flatnonzero(to_check)
        wrong.update(checked[~block.sound(checked)].tolist())
        tags[list(wrong)] = _NOT_WANTED
        alike = np.flatnonzero(tags >= 0)
        values = _shortest(bytes_at(block.data, places[alike], _VALUE.size).view("<f4")[:, 0])
        others = [(index, one) for index, one in said.items() if index not in wrong]
        self._keep(alike, (times[alike], steps[alike], tags[alike], values), others, file)
        return len(block.starts) - len(wrong)

    def _keep(
        self,
        alike: NDArray[np.int64],
        columns: Sequence[NDArray[Any]],
        others: Sequence[tuple[int, _Said]],
        file: int,
    ) -> None:
        """Keep values in the order of their records."""
        rows: list[tuple[int, float, int, int, float]] = []
        for index, one in others:
            self.texts |= one.texts
            rows += [
                (index, one.time, one.step, self.scalars.number_of(tag), value) for tag, value in one.values
            ]
        if rows:
            indices, *more = zip(*rows, strict=True)
            columns = [np.append(column, cells) for column, cells in zip(columns, more, strict=True)]
            order = np.argsort(np.append(alike, indices), kind="stable")
            columns = [column[order] for column in columns]
        self.scalars.add(file, *columns)

    def _recognise(
        self, block: Block, rests: NDArray[np.int64], tags: NDArray[np.int32], places: NDArray[np.int64]
    ) -> None:
        """Fill in the tags of events that are known but for the value, and where that stands."""
        ends = block.starts + block.lengths
        data = block.data
        for behind, around in self._around.items():
            at = ends - behind - _VALUE.size
            here = np.flatnonzero((tags == _NOT_KNOWN) & (block.lengths <= _SMALL_BYTES) & (at >= rests))
            places[here] = at[here]
            tags[here] = [
                around.get(data[rest:value] + data[value + _VALUE.size : end], _NOT_KNOWN)
                for rest, value, end in zip(
                    rests[here].tolist(), at[here].tolist(), ends[here].tolist(), strict=True
                )
            ]

    def _learn(self, rest: bytes, value: Any) -> None:
        """Remember an event but for time, step and value, if the latter is four bytes that mean nothing else."""
        number = _float32(value)
        if number is None:
            return
        at = rest.rfind(_VALUE.pack(number))
        before, after = rest[:at], rest[at + _VALUE.size :]
        if at < 0 or (len(after) not in self._around and len(self._around) == _MAX_FORMS):
            return
        for other in _SOME_VALUES:
            try:
                event = self._event.FromString(before + _VALUE.pack(other) + after)
            except self._not_an_event:
                return
            values = event.summary.value
            same = len(values) == 1 and _float32(values[0]) == other
            if not same or event.step or event.wall_time:
                return
        tag = self.scalars.number_of(value.tag) if is_wanted(value.tag) else _NOT_WANTED
        self._around.setdefault(len(after), {})[before + after] = tag


def _beginnings(block: Block) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.int64]]:
    """Return times and steps that stand first in the records, zeros where there are none, and where the rest begins."""
    times, steps = np.zeros(len(block.starts)), np.zeros(len(block.starts), np.int64)
    rests = block.starts.copy()
    room = 1 + _MAX_STEP_BYTES
    long_enough = np.flatnonzero(block.lengths >= _AFTER_TIME + room)
    head = bytes_at(block.data, block.starts[long_enough], _AFTER_TIME + room)
    step = np.zeros(len(head), np.int64)
    size = np.zeros(len(head), np.int64)
    stepped = head[:, _AFTER_TIME] == _STEP
    goes_on = stepped.copy()
    for place in range(_MAX_STEP_BYTES):
        byte = head[:, _AFTER_TIME + 1 + place].astype(np.int64)
        step += np.where(goes_on, (byte & 0x7F) << 7 * place, 0)
        size += goes_on
        goes_on &= byte >= 0x80
    usual = (head[:, 0] == _TIME) & ~goes_on
    at = long_enough[usual]
    time = np.ascontiguousarray(head[usual, 1:_AFTER_TIME]).view("<f8")[:, 0]
    times[at] = np.where(np.isfinite(time), time, 0.0)
    steps[at] = step[usual]
    rests[at] += _AFTER_TIME + (stepped + size)[usual]
    return times, steps, rests


def _shortest(values: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return numbers of the fewest digits that mean the same in 32 bits: a learning rate of 0.001 is 0.001."""
    numbers: NDArray[np.float64] = pa.array(values).cast(pa.string()).cast(pa.float64()).to_numpy()
    return numbers


def _said(event: Any) -> _Said:
    time = event.wall_time if math.isfinite(event.wall_time) else 0.0
    values: list[tuple[str, float]] = []
    texts: dict[str, str] = {}
    for value in event.summary.value:
        number = _number(value)
        if number is not None:
            if is_wanted(value.tag):
                values.append((value.tag, number))
        elif value.tag.endswith(_TEXT) and (text := _text(value)) is not None:
            texts[value.tag.removesuffix(_TEXT)] = text
    if event.session_log.status == event.session_log.START:
        values.append((START, math.nan))
    return _Said(time, event.step, values, texts)


def _float32(value: Any) -> float | None:
    """Return a scalar of 32 bits; None if the value is something else."""
    if value.HasField("simple_value"):
        return float(value.simple_value)
    tensor = value.tensor
    if not value.HasField("tensor") or tensor.dtype != _types().DT_FLOAT or tensor.tensor_shape.dim:
        return None
    if len(tensor.float_val) == 1 and not tensor.tensor_content:
        return float(tensor.float_val[0])
    content = tensor.tensor_content
    return float(_VALUE.unpack(content)[0]) if len(content) == _VALUE.size and not tensor.float_val else None


def _number(value: Any) -> float | None:
    """Return a scalar; None if the value is something else."""
    number = _float32(value)
    if number is not None:
        return float(str(np.float32(number)))
    if not value.HasField("tensor"):
        return None
    from tensorboard.util import tensor_util

    types, tensor = _types(), value.tensor
    numeric = (types.DT_DOUBLE, types.DT_HALF, types.DT_INT32, types.DT_INT64, types.DT_FLOAT)
    # A shape of thousands of numbers could stand there with one of them.
    if tensor.dtype not in numeric or tensor.tensor_shape.dim:
        return None
    try:
        return float(str(tensor_util.make_ndarray(tensor)))
    except (ValueError, TypeError, OverflowError):
        return None


def _types() -> Any:
    from tensorboard.compat.proto import types_pb2

    return types_pb2


def _text(value: Any) -> str | None:
    if not value.HasField("tensor") or len(value.tensor.string_val) != 1:
        return None
    text = value.tensor.string_val[0]
    return text.decode("utf-8", "replace") if len(text) <= _MAX_TEXT_BYTES else None
