"""TensorBoard's event files: all those in a folder are the run that it is named after.

Read with the message types of the `tensorboard` package (2.21), an extra; TensorFlow is not needed, and not imported
where it is installed. Its own readers are not used: they stop at the first damaged record without a word, keep a sample
of the points, and cannot read packed files.

- A scalar is a ``simple_value``, or since TensorFlow 2 a tensor of one number.
- A writer with ``purge_step`` begins with a session start at that step: what earlier files hold from there on does not
  count (`_Purge` in `backend/event_processing/event_accumulator.py`). Nor do values of a step that was logged again.
- Megatron-LM (core 0.18.2, `training/training.py`) logs losses of the logged step alone, counts steps from 1, and has
  its arguments as texts beside them; the Hugging Face Trainer (transformers 5.24, `integrations/`) logs means over its
  interval, and is known by its tags. Of others the files do not say which steps a loss is a mean over.
"""

import math
import re
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ebfit.errors import BadInputError
from ebfit.runs.facts import Facts, facts_from
from ebfit.runs.formats import restarts
from ebfit.runs.formats.bytes_of import open_log
from ebfit.runs.formats.tensorboard_scalars import Scalar, in_time, is_wanted, rows_of, runs_of
from ebfit.runs.formats.tfrecord import Record, TornRecord, first_record, records
from ebfit.runs.raw_log import NotALogError, RawLog

NAME = "tensorboard"
TRAINER = "any that writes TensorBoard's event files; needs the extra ebfit[tensorboard]"
EXAMPLE = "runs/b64/events.out.tfevents.1767225600.node1.4711.0"
_VERSION = b"brain.Event:"
PURGED = "undone by a restart from an earlier step"
DAMAGED = "damaged record"
_START = "\0start"  # stands among the tags for a session start, and is none
_TEXT = "/text_summary"  # what torch's writer adds to the tag of a text
_MAX_TEXT_BYTES = 256
_HUGGING_FACE = {"train/loss", "train/grad_norm", "train/learning_rate", "train/epoch"}
_VERSION_FOLDER = re.compile(r"version_\d+")


def sniff(head: bytes, path: Path) -> bool:
    """Claim files whose first record is sound and names the version of event files."""
    first = first_record(head)
    return first is not None and _VERSION in first


def run_of(path: Path) -> Path:
    """Return the folder."""
    return path.parent


def read(path: Path) -> list[RawLog]:
    """Read the runs of one file; as `read_pieces`."""
    return read_pieces([path])


def read_pieces(paths: Sequence[Path]) -> list[RawLog]:
    """Read the runs of a folder: one, unless its steps begin anew.

    Raises
    ------
    BadInputError
        If a file holds no events at all, or the package to read them with is missing.
    NotALogError
        If there are no scalars.
    """
    found = _Events()
    for number, path in enumerate(paths):
        _read_file(path, number, found)
    scalars = _without_purged(in_time(found.scalars), found.dropped)
    runs = runs_of(scalars)
    if len(runs) > 1 and len({scalar.step for scalar in runs[-1]}) < restarts.MIN_ROWS:
        found.dropped[restarts.HARDLY_BEGUN] += len({scalar.step for scalar in runs.pop()})
    if not runs:
        raise NotALogError(f"{paths[0]}: no scalars over steps in these event files. Name those of a loss.")
    folder = paths[0].absolute().parent
    name = f"{folder.parent.name}/{folder.name}" if _VERSION_FOLDER.fullmatch(folder.name) else folder.name
    return [
        _one_run(run, name, f"run {index}" if len(runs) > 1 else "", found)
        for index, run in enumerate(runs, start=1)
    ]


@dataclass
class _Events:
    """What event files hold."""

    scalars: list[Scalar] = field(default_factory=list)
    texts: dict[str, str] = field(default_factory=dict)
    dropped: Counter[str] = field(default_factory=Counter)
    warnings: list[str] = field(default_factory=list)


def _read_file(path: Path, number: int, found: _Events) -> None:
    try:
        from google.protobuf.message import DecodeError
        from tensorboard.compat.proto import event_pb2
    except ImportError:
        raise BadInputError(
            f"{path}: an event file of TensorBoard, which needs one more package: pip install 'ebfit[tensorboard]'. Or "
            "download its scalars as CSV in TensorBoard."
        ) from None
    sound = 0
    with open_log(path) as file:
        for record in records(file):
            if isinstance(record, TornRecord):
                _say_torn(path, record, found)
                break
            try:
                event = event_pb2.Event.FromString(record.data)
            except DecodeError:
                found.dropped[DAMAGED] += 1
                continue
            sound += _take(event, record, number, found)
    if not sound:
        raise BadInputError(
            f"{path}: no event file of TensorBoard, or damaged from its beginning on. Remove it."
        )


def _say_torn(path: Path, record: TornRecord, found: _Events) -> None:
    if not record.lost:
        found.dropped["truncated last record"] += 1
        return
    found.dropped[DAMAGED] += 1
    share = 1 - record.at / max(path.stat().st_size, record.at, 1)
    found.warnings.append(
        f"{path.name} is damaged at byte {record.at:,}, and the {share:.0%} of it from there on cannot be read. Copy "
        "it again if you can."
    )


def _take(event: Any, record: Record, number: int, found: _Events) -> bool:
    """Keep what an event says; False if it is damaged."""
    time = event.wall_time if math.isfinite(event.wall_time) else 0.0
    kind = event.WhichOneof("what")
    starts = kind == "session_log" and event.session_log.status == event.session_log.START
    if kind != "summary" and not starts:
        return True
    scalars: list[Scalar] = []
    texts: dict[str, str] = {}
    for value in event.summary.value:
        number_or_none = _number(value)
        if number_or_none is not None:
            if is_wanted(value.tag):
                scalars.append(Scalar(time, event.step, sys.intern(value.tag), number_or_none, number))
        elif value.tag.endswith(_TEXT) and (text := _text(value)) is not None:
            texts[value.tag.removesuffix(_TEXT)] = text
    if not (scalars or texts or starts):
        return True  # such as a histogram, which is not worth the checking
    if not record.sound():
        found.dropped[DAMAGED] += 1
        return False
    if starts:
        scalars.append(Scalar(time, event.step, _START, math.nan, number))
    found.scalars += scalars
    found.texts |= texts
    return True


def _number(value: Any) -> float | None:
    """Return a scalar; None if the value is something else."""
    if value.HasField("simple_value"):
        # Of 32 bits: the fewest digits that mean the same, so that a learning rate of 0.001 is 0.001.
        return float(str(np.float32(value.simple_value)))
    if not value.HasField("tensor"):
        return None
    from tensorboard.compat.proto import types_pb2
    from tensorboard.util import tensor_util

    tensor = value.tensor
    numeric = (
        types_pb2.DT_FLOAT,
        types_pb2.DT_DOUBLE,
        types_pb2.DT_HALF,
        types_pb2.DT_INT32,
        types_pb2.DT_INT64,
    )
    # A shape of thousands of numbers could stand there with one of them.
    if tensor.dtype not in numeric or len(tensor.tensor_shape.dim) > 0:
        return None
    try:
        return float(str(tensor_util.make_ndarray(tensor)))
    except (ValueError, TypeError, OverflowError):
        return None


def _text(value: Any) -> str | None:
    if not value.HasField("tensor") or len(value.tensor.string_val) != 1:
        return None
    text = value.tensor.string_val[0]
    return text.decode("utf-8", "replace") if len(text) <= _MAX_TEXT_BYTES else None


def _without_purged(scalars: Sequence[Scalar], dropped: Counter[str]) -> list[Scalar]:
    """Leave out what a later session start undid."""
    kept: list[Scalar] = []
    purged: set[tuple[int, int]] = set()
    undone_from = math.inf
    for scalar in reversed(scalars):
        if scalar.tag == _START:
            undone_from = min(undone_from, scalar.step)
        elif scalar.step >= undone_from:
            purged.add((scalar.file, scalar.step))
        else:
            kept.append(scalar)
    if purged:
        dropped[PURGED] = len(purged)
    return kept[::-1]


def _one_run(scalars: Sequence[Scalar], name: str, label: str, found: _Events) -> RawLog:
    table, warnings = rows_of(scalars)
    steps = table.column("step").to_pylist()
    return RawLog(
        table,
        lambda row: f"step {steps[row]:g}",
        facts=_facts(found.texts),
        label=label,
        train_window="interval" if set(table.column_names) >= _HUGGING_FACE else None,
        name=f"{name}/{label}" if label else name,
        dropped=dict(found.dropped),
        warnings=[*found.warnings, *warnings],
    )


def _facts(texts: Mapping[str, str]) -> Facts | None:
    """Return what the arguments say that Megatron writes as texts."""
    if not texts:
        return None
    settings: dict[str, str] = dict(texts)
    # A batch size that is raised during the run is none.
    if "global_batch_size" in texts and texts.get("rampup_batch_size", "None") == "None":
        settings["batch_sequences"] = texts["global_batch_size"]
    return facts_from(settings, "the arguments in the event files", strict=False)
