"""TensorBoard's event files: all those in a folder are the run that it is named after.

Folders that Lightning's TensorBoardLogger made for a run that was resumed are one run, too, see `versions`.

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
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ebfit.errors import BadInputError
from ebfit.runs.columns import surest_column
from ebfit.runs.facts import Facts, facts_from
from ebfit.runs.formats import restarts
from ebfit.runs.formats.bytes_of import open_log
from ebfit.runs.formats.event_values import START, EventReader
from ebfit.runs.formats.lightning_steps import count_from_zero
from ebfit.runs.formats.tensorboard_scalars import Scalars, rows_of, runs_of
from ebfit.runs.formats.tfrecord import TornRecord, blocks, first_record
from ebfit.runs.formats.versions import (
    HPARAMS,
    TRAINED_AGAIN,
    Beginning,
    End,
    VersionLog,
    about_versions,
    facts_of_hparams,
    number_of,
)
from ebfit.runs.raw_log import NotALogError, RawLog

NAME = "tensorboard"
TRAINER = "any that writes TensorBoard's event files; needs the extra ebfit[tensorboard]"
EXAMPLE = "runs/b64/events.out.tfevents.1767225600.node1.4711.0"
_VERSION = b"brain.Event:"
PURGED = "undone by a restart from an earlier step"
DAMAGED = "damaged record"
_HUGGING_FACE = {"train/loss", "train/grad_norm", "train/learning_rate", "train/epoch"}
# What is read to see how a log begins: until so many losses, unless they come late.
_ENOUGH_STEPS = 5
_BEGINNING_PIECE_BYTES = 2**18
_BEGINNING_PIECES = 64


def sniff(head: bytes, path: Path) -> bool:
    """Claim files whose first record is sound and names the version of event files."""
    first = first_record(head)
    return first is not None and _VERSION in first


def run_of(path: Path) -> Path:
    """Return the folder, or the first file in the folder where a run begins that was resumed."""
    first = _VERSIONS.first_of(path.parent)
    return min(_event_files(first)) if number_of(first) >= 0 and _event_files(first) else first


def belongs(path: Path) -> bool:
    """Tell whether a file holds the hyperparameters of a run."""
    return path.name == HPARAMS and bool(_event_files(path.parent))


def read(path: Path) -> list[RawLog]:
    """Read the runs of one file; as `read_pieces`."""
    return read_pieces([path])


def read_pieces(paths: Sequence[Path]) -> list[RawLog]:
    """Read the runs of a folder: one, unless its steps begin anew; or that of several versions.

    Raises
    ------
    BadInputError
        If a file holds no events at all, or the package to read them with is missing.
    NotALogError
        If there are no scalars.
    """
    paths = sorted(paths, key=lambda path: (number_of(path.parent), path))
    found = _Found(len(paths))
    reader = _reader(paths[0])
    for file, path in enumerate(paths):
        _read_file(path, file, reader, found)
    scalars = reader.scalars.in_time()
    folders = list(dict.fromkeys(path.parent for path in paths))
    about: list[str] = []
    if number_of(folders[0]) >= 0:
        version_of = np.array([folders.index(path.parent) for path in paths])
        measured = _measured(scalars)
        steps_of = [
            np.unique(scalars.steps[measured & (version_of[scalars.files] == version)]).tolist()
            for version in range(len(folders))
        ]
        about = about_versions(folders, [_beginning(steps) for steps in steps_of])
        scalars = _until_resumed(scalars, version_of, found)
    scalars = _without_purged(scalars, found)
    runs = runs_of(scalars)
    hardly_begun = 0
    if len(runs) > 1 and len(np.unique(runs[-1].steps)) < restarts.MIN_ROWS:
        hardly_begun = len(np.unique(runs.pop().steps))
    if not runs:
        raise NotALogError(f"{paths[0]}: no scalars over steps in these event files. Name those of a loss.")
    folder = folders[0].absolute()
    name = f"{folder.parent.name}/{folder.name}" if number_of(folder) >= 0 else folder.name
    facts = _facts(reader.texts) or facts_of_hparams(folders[0])
    logs = []
    for index, (run, files) in enumerate(zip(runs, _files_of(runs, len(paths)), strict=True), start=1):
        label = f"run {index}" if len(runs) > 1 else ""
        dropped: Counter[str] = sum((found.dropped[file] for file in files), Counter())
        warnings = [warning for file in files for warning in found.warnings[file]]
        if index == 1:
            warnings += about
        if index == len(runs):
            dropped[restarts.HARDLY_BEGUN] = hardly_begun
        log = _one_run(run, paths[0])
        logs.append(
            replace(
                log,
                facts=facts,
                label=label,
                name=f"{name}/{label}" if label else name,
                dropped=dict(+dropped),
                warnings=[*warnings, *log.warnings],
            )
        )
    return logs


class _Found:
    """What is found in event files beside scalars, by the number of the file."""

    def __init__(self, files: int) -> None:
        self.dropped: list[Counter[str]] = [Counter() for _ in range(files)]
        self.warnings: list[list[str]] = [[] for _ in range(files)]


def _reader(path: Path) -> EventReader:
    try:
        return EventReader()
    except ImportError:
        raise BadInputError(
            f"{path}: an event file of TensorBoard, which needs one more package: pip install 'ebfit[tensorboard]'. Or "
            "download its scalars as CSV in TensorBoard."
        ) from None


def _read_file(path: Path, file: int, reader: EventReader, found: _Found) -> None:
    sound = 0
    with open_log(path) as opened:
        for block in blocks(opened):
            if isinstance(block, TornRecord):
                _say_torn(path, block, found.dropped[file], found.warnings[file])
            else:
                events = reader.take(block, file)
                sound += events
                found.dropped[file][DAMAGED] += len(block.starts) - events
    if not sound:
        raise BadInputError(
            f"{path}: no event file of TensorBoard, or damaged from its beginning on. Remove it."
        )


def _say_torn(path: Path, record: TornRecord, dropped: Counter[str], warnings: list[str]) -> None:
    if not record.lost:
        dropped["truncated last record"] += 1
        return
    dropped[DAMAGED] += 1
    share = 1 - record.at / max(path.stat().st_size, record.at, 1)
    warnings.append(
        f"{path.name} is damaged at byte {record.at:,}, and the {share:.0%} of it from there on cannot be read. Copy "
        "it again if you can."
    )


def _without_purged(scalars: Scalars, found: _Found) -> Scalars:
    """Leave out what a later session start undid."""
    starts = scalars.of(START)
    if not starts.size:
        return scalars
    undone_from = np.full(len(scalars), np.iinfo(np.int64).max)
    undone_from[starts] = scalars.steps[starts]
    undone_from = np.minimum.accumulate(undone_from[::-1])[::-1]
    is_start = np.zeros(len(scalars), dtype=bool)
    is_start[starts] = True
    undone = ~is_start & (scalars.steps >= undone_from)
    _count_steps(scalars[undone], PURGED, found)
    return scalars[~undone & ~is_start]


def _until_resumed(scalars: Scalars, version_of: NDArray[np.int64], found: _Found) -> Scalars:
    """Leave out what a version logged past the checkpoint that a later one went on from."""
    measured = _measured(scalars)
    versions = version_of[scalars.files]
    undone = np.zeros(len(scalars), dtype=bool)
    resumed_at = np.iinfo(np.int64).max
    for version in range(int(version_of.max()), -1, -1):
        here = versions == version
        undone |= here & (scalars.steps >= resumed_at)
        resumed_at = min(resumed_at, scalars.steps[here & measured].min(initial=resumed_at))
    _count_steps(scalars[undone & measured], TRAINED_AGAIN, found)
    return scalars[~undone]


def _measured(scalars: Scalars) -> NDArray[np.bool_]:
    """Return which scalars are a train loss, or a validation loss where there is none."""
    present = scalars.present()
    loss = surest_column("loss", present) or surest_column("val", present)
    return np.isin(np.arange(len(scalars)), scalars.of(loss))


def _count_steps(scalars: Scalars, reason: str, found: _Found) -> None:
    """Count the steps that are dropped of every file."""
    for file in np.flatnonzero(np.bincount(scalars.files)).tolist():
        found.dropped[file][reason] += len(np.unique(scalars.steps[scalars.files == file]))


def _files_of(runs: Sequence[Scalars], files: int) -> list[list[int]]:
    """Return the files of every run: each belongs to the first run that it holds anything of, or to the last."""
    shares: list[list[int]] = [[] for _ in runs]
    held = [np.bincount(run.files, minlength=files) > 0 for run in runs]
    for file in range(files):
        shares[next((index for index, of_run in enumerate(held) if of_run[file]), -1)].append(file)
    return shares


def _one_run(scalars: Scalars, path: Path) -> RawLog:
    table, warnings = rows_of(scalars, path)
    steps = table.column("step").to_numpy()
    return RawLog(
        table,
        lambda row: f"step {steps[row]:g}",
        train_window="interval" if set(table.column_names) >= _HUGGING_FACE else None,
        warnings=warnings,
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


def _event_files(folder: Path) -> tuple[Path, ...]:
    """Return the files in a folder that are named as event files are."""
    return tuple(sorted(path for path in folder.glob("*tfevents*") if path.is_file()))


def _begins(paths: Sequence[Path]) -> Beginning:
    steps: set[int] = set()
    at = math.inf
    for scalars in _first_scalars(paths):
        at = min(at, scalars.times.min(initial=math.inf))
        steps.update(scalars.steps[_measured(scalars)].tolist())
        if len(steps) >= _ENOUGH_STEPS:
            break
    return _beginning(sorted(steps), at)


def _beginning(steps: Sequence[int], at: float | None = None) -> Beginning:
    return Beginning.of(steps, from_zero=count_from_zero(steps, resumed=True), at=at)


def _first_scalars(paths: Sequence[Path]) -> Iterator[Scalars]:
    """Yield the first scalars of event files, piece by piece; none of what cannot be read."""
    with suppress(BadInputError):
        for path in paths:
            reader = _reader(path)
            with open_log(path) as opened:
                for block in islice(blocks(opened, _BEGINNING_PIECE_BYTES), _BEGINNING_PIECES):
                    if not isinstance(block, TornRecord):
                        reader.take(block, 0)
                        yield reader.scalars.in_time()


def _ends(paths: Sequence[Path]) -> End | None:
    reader = _reader(paths[0])
    try:
        for file, path in enumerate(paths):
            _read_file(path, file, reader, _Found(len(paths)))
    except BadInputError:
        return None
    scalars = reader.scalars.in_time()
    steps = scalars.steps[_measured(scalars)]
    if not steps.size:
        return None
    return End(int(steps.max()) + count_from_zero(np.unique(steps), resumed=True), float(scalars.times[-1]))


_VERSIONS = VersionLog(_event_files, _begins, _ends)
