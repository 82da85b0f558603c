"""Event files as TensorBoard's own writer writes them, for tests."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np
from tensorboard.compat.proto import event_pb2, summary_pb2
from tensorboard.summary.writer.event_file_writer import EventFileWriter
from tensorboard.util import tensor_util


def scalar(tag: str, value: float, step: int, at: float, *, tensor: bool = False) -> event_pb2.Event:
    """Return the event of a scalar, logged at a time."""
    if tensor:
        one = summary_pb2.Summary.Value(tag=tag, tensor=tensor_util.make_tensor_proto(np.float32(value)))
        one.metadata.plugin_data.plugin_name = "scalars"
    else:
        one = summary_pb2.Summary.Value(tag=tag, simple_value=value)
    return event_pb2.Event(wall_time=at, step=step, summary=summary_pb2.Summary(value=[one]))


def write_events(folder: Path, events: Iterable[event_pb2.Event], suffix: str = "") -> Path:
    """Write an event file into a folder; return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    before = set(folder.iterdir())
    writer = EventFileWriter(str(folder), filename_suffix=suffix)
    for event in events:
        writer.add_event(event)
    writer.close()
    [path] = set(folder.iterdir()) - before
    return path


def record_offsets(data: bytes) -> list[int]:
    """Return where each record begins."""
    offsets, at = [], 0
    while at < len(data):
        offsets.append(at)
        at += 16 + int.from_bytes(data[at : at + 8], "little")
    return offsets
