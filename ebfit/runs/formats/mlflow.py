"""MLflow's file store: ``mlruns/<experiment>/<run>/metrics/<key>``, a file per metric.

What it holds, read in mlflow-skinny 3.17.2 (`store/tracking/file_store.py`):

- A line per value: ``timestamp value step``, the time in milliseconds, and name and digest of a data set where one was
  given. Lines of two fields are of an early release, and of step 0. Keys may hold ``/``: they are folders then.
- ``params/<key>`` and ``tags/<key>``, a file per value; ``meta.yaml`` with the run's name.
- A deleted run keeps its files; its meta.yaml says so.
- What is logged on a model has lines of its own under ``models``, and the run's id in each; they repeat the run's.

The step is that of whoever logged: the Hugging Face Trainer counts updates from 1, Lightning from 0 (see
`lightning_csv`), which shows, and is moved by one here.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.csv
from numpy.typing import NDArray

from ebfit.errors import BadInputError
from ebfit.runs.columns import surest_column
from ebfit.runs.facts import Facts, facts_from
from ebfit.runs.formats.bytes_of import as_text, native_bytes, read_bytes
from ebfit.runs.formats.lightning_steps import logged_by_lightning
from ebfit.runs.formats.many_columns import columns_to_read
from ebfit.runs.formats.yaml_mapping import read_mapping
from ebfit.runs.raw_log import NotALogError, RawLog

NAME = "mlflow"
TRAINER = "any that logs to MLflow's file store"
EXAMPLE = "mlruns/<experiment>/<run>/metrics/loss: 1767225600000 3.2 10"
METRICS, PARAMS, META = "metrics", "params", "meta.yaml"
_LINE = re.compile(rb"\d{12,14} \S+(?: -?\d+(?: \S+ \S+)?)?\r?")
_BESIDE = {PARAMS, "tags", "inputs", "outputs"}
_MAX_PARAM_BYTES = 64 * 2**10
_MAX_PARAMS = 10_000
# Steps of these count measurements of the machine.
_OF_THE_MACHINE = "system/"
# A run whose metrics have fewer values was no training, but an evaluation.
_MIN_VALUES = 5
_MOSTLY = 0.8
_LINES_LOOKED_AT = 20
_BATCH_SIZE = re.compile(
    r"\w*batch_size\w*|gradient_accumulation_steps|accumulate_grad_batches|world_size|devices"
)


def sniff(head: bytes, path: Path) -> bool:
    """Claim text of lines of a time in milliseconds, a value and a step, a few damaged ones aside."""
    if as_text(head) is None or b"\n" not in head:
        return False
    lines = head.split(b"\n", _LINES_LOOKED_AT)[:-1]
    ours = sum(_LINE.fullmatch(line) is not None and _number(line.split()[1]) is not None for line in lines)
    return ours >= _MOSTLY * len(lines)


def run_of(path: Path) -> Path:
    """Return the folder of the run that a metric is of."""
    folder = _run_folder(path)
    return folder if folder is not None else path.parent


def belongs(path: Path) -> bool:
    """Tell whether a file describes a run or an experiment, or is a parameter or tag."""
    if path.name == META:
        return "experiment_id" in read_mapping(path)
    return any(
        place.name in _BESIDE and (place.parent / META).is_file() and (place.parent / METRICS).is_dir()
        for place in path.parents
    )


def read(path: Path) -> list[RawLog]:
    """Read one metric; the run needs them all.

    Raises
    ------
    BadInputError
        If no line of it is one of a metric.
    """
    return read_pieces([path])


def read_pieces(paths: Sequence[Path]) -> list[RawLog]:
    """Read the metrics of a run, a row per step.

    Raises
    ------
    BadInputError
        If no line of a file is one of a metric.
    NotALogError
        If the run was deleted, or none of its metrics has more than a few values.
    """
    folder = run_of(paths[0])
    meta = read_mapping(folder / META)
    if meta.get("lifecycle_stage") == "deleted":
        raise NotALogError(f"{folder}: a run that was deleted in MLflow. Restore it, or leave it out.")
    metrics: dict[str, _Metric] = {}
    dropped: Counter[str] = Counter()
    for path in paths:
        key = _key(path)
        if not key.startswith(_OF_THE_MACHINE):
            metrics[key] = _read_metric(path, dropped)
    if max((len(metric.steps) for metric in metrics.values()), default=0) < _MIN_VALUES:
        raise NotALogError(
            f"{folder}: a run of MLflow whose metrics have less than {_MIN_VALUES} values each."
        )
    shift = 1 if _of_lightning(metrics) else 0
    table, steps, warnings = _table(metrics, shift, folder)
    return [
        RawLog(
            table,
            lambda row: f"step {steps[row]:.0f}",
            facts=_facts(folder),
            name=_run_name(folder, meta),
            folder=folder,
            dropped=dict(dropped),
            warnings=warnings,
        )
    ]


class _Metric(NamedTuple):
    """The values of a metric in file order, each shape (lines,)."""

    steps: NDArray[np.float64]
    values: NDArray[np.float64]


def _read_metric(path: Path, dropped: Counter[str]) -> _Metric:
    whole, _, rest = read_bytes(path).rpartition(b"\n")
    if rest.strip():
        dropped["truncated last line"] += 1  # a killed run may leave half a number
    with suppress(pa.ArrowInvalid):
        return _parsed(whole)
    steps: list[float] = []
    values: list[float] = []
    lines = whole.split(b"\n") if whole else []
    for line in lines:
        fields = line.split()
        value = _number(fields[1]) if len(fields) in (2, 3, 5) else None
        step = _step(fields[2]) if len(fields) > 2 else 0
        if value is None or step is None:
            dropped["not a line of a metric"] += bool(line.strip())
            continue
        steps.append(step)
        values.append(value)
    if lines and not steps:
        raise BadInputError(
            f"{path}: no metric of MLflow: no line of it is a time, a value and a step. Leave out --format {NAME}."
        )
    return _Metric(np.array(steps), np.array(values))


def _parsed(lines: bytes) -> _Metric:
    """Parse lines of three fields; pyarrow.ArrowInvalid where there are others."""
    names = ("time", "value", "step")
    table = pyarrow.csv.read_csv(
        native_bytes(lines),
        pyarrow.csv.ReadOptions(column_names=names),
        pyarrow.csv.ParseOptions(delimiter=" ", quote_char=False),
        pyarrow.csv.ConvertOptions(
            column_types=dict(zip(names, (pa.int64(), pa.float64(), pa.int64()), strict=True)), null_values=[]
        ),
    )
    return _Metric(table["step"].to_numpy().astype(float), table["value"].to_numpy())


def _table(
    metrics: Mapping[str, _Metric], shift: int, folder: Path
) -> tuple[Any, NDArray[np.float64], list[str]]:
    """Put the values of all metrics at a step into one row; values of a step that was logged again into another.

    Returns
    -------
    pyarrow.Table
    array, shape (rows,)
        Steps as they were logged.
    list of str
        What there is to say of it.
    """
    places = {key: _nth_of_its_step(metric.steps) for key, metric in metrics.items()}
    rows = sorted(
        {place for key, metric in metrics.items() for place in zip(places[key], metric.steps, strict=True)}
    )
    index = {place: row for row, place in enumerate(rows)}
    steps = np.array([step for _, step in rows])
    columns = {"step": pa.array(steps + shift)}
    kept, warnings = columns_to_read(list(metrics), len(rows), folder, "metrics")
    for key in kept:
        metric = metrics[key]
        at = [index[place] for place in zip(places[key], metric.steps, strict=True)]
        values = np.full(len(rows), np.nan)
        empty = np.ones(len(rows), dtype=bool)
        values[at], empty[at] = metric.values, False
        name = key if key != "step" else "step (metric)"
        columns[name] = pa.array(values, mask=empty, from_pandas=False)
    return pa.table(columns), steps, warnings


def _nth_of_its_step(steps: NDArray[np.float64]) -> list[int]:
    if len(np.unique(steps)) == len(steps):
        return [0] * len(steps)
    seen: Counter[float] = Counter()
    places = []
    for step in steps.tolist():
        places.append(seen[step])
        seen[step] += 1
    return places


def _of_lightning(metrics: Mapping[str, _Metric]) -> bool:
    loss = surest_column("loss", list(metrics))
    if loss is None or "epoch" not in metrics:
        return False
    return logged_by_lightning(metrics["epoch"].values, metrics[loss].steps)


def _facts(folder: Path) -> Facts:
    """Return what the parameters say."""
    params = dict(_params(folder / PARAMS))
    if (_number(params.get("warmup_ratio", "0").encode()) or 0) > 0:
        params.pop("warmup_steps", None)  # the Hugging Face Trainer has 0 there, then
    sizes = [f"{key}={params[key][:20]}" for key in sorted(params) if _BATCH_SIZE.fullmatch(key)]
    hint = (
        f"The parameters in MLflow say {', '.join(sizes[:4])}; the tokens of an update, over all devices and "
        "accumulation, are --batch-tokens."
    )
    facts = facts_from(params, "the parameters in MLflow", strict=False)
    return replace(facts, batch_hint=hint if sizes else None)


def _params(folder: Path) -> Iterator[tuple[str, str]]:
    files = sorted(folder.rglob("*"))[:_MAX_PARAMS] if folder.is_dir() else []
    for file in files:
        if file.is_file() and file.stat().st_size <= _MAX_PARAM_BYTES:
            yield file.relative_to(folder).as_posix(), read_bytes(file).decode("utf-8", "replace").strip()


def _run_name(folder: Path, meta: Mapping[str, Any]) -> str:
    name = meta.get("run_name")
    return name if isinstance(name, str) and name else folder.absolute().name


def _run_folder(path: Path) -> Path | None:
    """Return the folder that holds the metrics and the description of a run, above a metric."""
    above = [place.parent for place in path.parents if place.name == METRICS]
    return next((folder for folder in above if (folder / META).is_file()), above[-1] if above else None)


def _key(path: Path) -> str:
    folder = _run_folder(path)
    return path.name if folder is None else path.relative_to(folder / METRICS).as_posix()


def _step(field: bytes) -> int | None:
    return int(field) if re.fullmatch(rb"-?\d{1,18}", field) else None


def _number(field: bytes) -> float | None:
    try:
        return float(field)
    except ValueError:
        return None
