"""A simulated sweep as the log files that `ebfit fit` reads, and its truth.

A folder is made whole under another name and then renamed, so that one that is there is a whole sweep. A folder of an
earlier simulation is replaced; one that holds anything else is left alone.
"""

import csv
import hashlib
import io
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

from ebfit import __version__
from ebfit.errors import BadInputError
from ebfit.files import RunDocument, RunOutcome, Truth, TruthRecord, to_json
from ebfit.simulate.curves import SimulatedRun
from ebfit.simulate.sweep import Sweep
from ebfit.writing import check_folder, check_writable, make_folder

Table = Literal["jsonl", "csv"]

_RUN_JSON = "run.json"
_LOGS = ("metrics.jsonl", "metrics.csv")
_COLUMNS = ("step", "tokens", "batch_tokens", "lr", "train_loss", "val_loss")
_KIND = "simulated"
_HEAD_BYTES = 200  # of a truth.json, which begins with its schema


def truth_of(sweep: Sweep) -> Truth:
    """Return the world, the noise and the answer at every target of a sweep."""
    return Truth(
        schema="ebfit.truth/1",
        ebfit_version=__version__,
        world=sweep.world.name,
        parameters=dict(sweep.world.parameters),
        tokens_exponent=sweep.world.tokens_exponent,
        noise=asdict(sweep.noise),
        seed=sweep.seed,
        batch_tokens=sweep.batch_tokens,
        seeds=len({run.course.seed for run in sweep.runs}),
        seq_len=sweep.seq_len,
        targets=[
            TruthRecord(**asdict(answer), sizes_reaching=sweep.sizes_reaching(answer.loss))
            for answer in sweep.truth
        ],
    )


def check_output(folder: Path, truth: Path | None) -> None:
    """Refuse early what could not be written, or what would be lost.

    Raises
    ------
    BadInputError
        If the folder holds what no simulation wrote, or a path cannot be written.
    """
    check_folder(folder)
    real = _real(folder)
    here = _real(Path.cwd())
    if real in (here, *here.parents):
        raise BadInputError(f"{folder}: is the folder you are in, or above it. Name a new one.")
    check_folder(real.parent)
    if real.is_dir() and (other := _not_ours(real)) is not None:
        raise BadInputError(
            f"{folder}: holds {other}, which no `ebfit simulate` wrote. Choose a new folder, or move that away."
        )
    if truth is not None and not _goes_inside(real, truth):
        check_writable(truth)


def write(sweep: Sweep, folder: Path, *, truth: Path | None = None, table: Table = "jsonl") -> None:
    """Write a folder per run, and truth.json where that is asked for.

    Parameters
    ----------
    sweep : Sweep
    folder : Path
        Made if need be; a simulation that is in it is replaced.
    truth : Path, optional
        Where the answer goes, which may be in the folder.
    table : {"jsonl", "csv"}
        How the rows are written.

    Raises
    ------
    BadInputError
        As `check_output`, or if the disk is full; what was there is then left as it was.
    """
    check_output(folder, truth)
    real = _real(folder)
    make_folder(real.parent)
    staging = None
    try:
        staging = Path(tempfile.mkdtemp(prefix=f".{real.name}.", dir=real.parent))
        _fill(sweep, staging / "new", table)
        document = truth_of(sweep)
        if truth is not None and _goes_inside(real, truth):
            _write_text(staging / "new" / truth.name, to_json(document))
        if real.is_dir():
            os.rename(real, staging / "old")
        os.rename(staging / "new", real)
    except OSError as error:
        raise BadInputError(f"{folder}: cannot be written ({error.strerror}).") from None
    finally:  # an interrupt between the two renames is no reason to lose the old one either
        if staging is not None:
            if (staging / "old").exists() and not real.exists():
                os.rename(staging / "old", real)
            shutil.rmtree(staging, ignore_errors=True)
    if truth is not None and not _goes_inside(real, truth):
        document.save(truth)


def _fill(sweep: Sweep, folder: Path, table: Table) -> None:
    folder.mkdir()
    for run in sweep.runs:
        place = folder / run.name
        place.mkdir()
        _write_text(place / f"metrics.{table}", _json_lines(run) if table == "jsonl" else _csv(run))
        _write_text(place / _RUN_JSON, to_json(_document(sweep, run)))


def _write_text(path: Path, text: str) -> None:
    """Write a file that is on the disk before the folder that it is in gets its name."""
    with path.open("w", encoding="utf-8", newline="") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def _records(run: SimulatedRun) -> Iterator[dict[str, Any]]:
    batch = run.course.batch_tokens
    columns = (run.steps, run.lr, run.train_loss, run.val_loss)
    for step, lr, train, val in zip(*(column.tolist() for column in columns), strict=True):
        record = {"step": step, "tokens": step * batch, "batch_tokens": batch, "lr": float(f"{lr:.6g}")}
        record["train_loss"] = train
        if val == val:  # not NaN: validated
            record["val_loss"] = val
        yield record


def _json_lines(run: SimulatedRun) -> str:
    return "".join(json.dumps(record, allow_nan=False) + "\n" for record in _records(run))


def _csv(run: SimulatedRun) -> str:
    text = io.StringIO()
    rows = csv.DictWriter(text, _COLUMNS, restval="", lineterminator="\n")
    rows.writeheader()
    rows.writerows(_records(run))
    return text.getvalue()


def _document(sweep: Sweep, run: SimulatedRun) -> RunDocument:
    course = run.course
    recipe = {
        "world": sweep.world.name,
        "parameters": dict(sweep.world.parameters),
        "noise": asdict(sweep.noise),
        "sweep_seed": sweep.seed,
        "course": asdict(course),
    }
    validated = run.val_loss[run.val_loss == run.val_loss]
    step = int(run.steps[-1])
    return RunDocument(
        schema="ebfit.run/1",
        name=run.name,
        key=hashlib.sha256(json.dumps(recipe, sort_keys=True).encode()).hexdigest(),
        seq_len=sweep.seq_len,
        batch_tokens=course.batch_tokens,
        batch_sequences=course.batch_tokens // sweep.seq_len,
        lr=course.lr,
        warmup_steps=course.warmup_steps,
        decay_start_step=run.decay_start_step,
        seed=course.seed,
        train_loss_window=run.window,
        parameters=0,
        parameters_without_embeddings=0,
        model={"kind": _KIND, "world": sweep.world.name},
        data={"kind": _KIND},
        recipe=recipe,
        device={},
        versions={"ebfit": __version__, "numpy": version("numpy")},
        outcome=RunOutcome(
            status=run.status,
            reason=run.reason,
            step=step,
            tokens=step * course.batch_tokens,
            val_loss=float(validated[-1]) if len(validated) else None,
        ),
    )


def _goes_inside(real: Path, truth: Path) -> bool:
    """Tell whether the truth goes into the folder of the runs, right under it.

    Raises
    ------
    BadInputError
        If it would be in the way of them.
    """
    place = _real(truth.parent)
    if _real(truth) == real or real in place.parents:
        raise BadInputError(f"{truth}: is where the runs go. Name another file for the truth.")
    if place != real:
        return False
    if truth.suffix != ".json":
        raise BadInputError(f"{truth}: give a file among the runs a name that ends in .json.")
    return True


def _not_ours(folder: Path) -> str | None:
    """Return the name of something in a folder that no simulation wrote, or None."""
    for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
        path = Path(entry.path)
        if entry.is_dir(follow_symlinks=False):
            extra = set(os.listdir(path)) - {_RUN_JSON, *_LOGS}
            if extra or not _is_simulated(path / _RUN_JSON):
                return entry.name
        elif not _is_truth(path):
            return entry.name
    return None


def _is_simulated(run_json: Path) -> bool:
    if not run_json.is_file():  # reading a pipe could wait for ever
        return False
    try:
        document = json.loads(run_json.read_bytes())
        return bool(document["data"] == {"kind": _KIND})
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return False


def _is_truth(path: Path) -> bool:
    if path.suffix != ".json" or not path.is_file():
        return False
    with path.open("rb") as file:
        return b'"ebfit.truth/' in file.read(_HEAD_BYTES)


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))  # not Path.resolve, which raises on a link to itself
