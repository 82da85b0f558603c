"""From the rows of one log to a `Run`: columns, curves, stable phase, batch size; each problem in a sentence."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ebfit.errors import BadInputError
from ebfit.runs import names
from ebfit.runs.batch_size import BatchSize, find_batch_size
from ebfit.runs.columns import Columns, pick_columns
from ebfit.runs.curves import Ordered, curve_of, in_step_order, usable_loss
from ebfit.runs.facts import RUN_JSON, Facts, facts_beside
from ebfit.runs.options import ReadOptions
from ebfit.runs.raw_log import NotALogError, RawLog
from ebfit.runs.run import Curve, FloatArray, Run
from ebfit.runs.stable_phase import Known, StablePhase, choose_stable_phase
from ebfit.text import printable

# A curve of fewer rows tells nothing about when a loss was reached.
MIN_ROWS = 5
WARN_DROPPED = 0.05
REFUSE_DROPPED = 0.5
NO_LOSS = "no loss in the row"
_MAX_STEP = 1e15


def build_run(raw: RawLog, path: Path, format_name: str, row: Facts | None, options: ReadOptions) -> Run:
    """Make a run of the rows of a log.

    Parameters
    ----------
    raw : RawLog
        Rows in file order.
    path : Path
        The log file.
    format_name : str
        Name of its format.
    row : Facts or None
        The manifest's row for it.
    options : ReadOptions
        What the user says.

    Returns
    -------
    Run
        With `problems` where it could be read, but has no stable phase or no batch size.

    Raises
    ------
    BadInputError
        If it cannot be read: columns missing, steps that are none, hardly any loss.
    """
    rows = raw.table.num_rows + sum(raw.dropped.values())
    if raw.table.num_rows == 0:
        raise BadInputError(
            f"{path}: no usable row ({_reasons(Counter(raw.dropped)) or 'it has none'}). Correct it, or remove it."
        )
    place = path if raw.folder is None else raw.folder / path.name
    called = raw.label or raw.name
    beside = facts_beside(place)
    written = [facts for facts in (row, beside, raw.facts) if facts is not None]
    try:
        columns = pick_columns(raw.table, options.columns)
        steps, dropped = _steps(raw, columns)
        if options.micro_steps is not None:
            steps = _updates(steps, options.micro_steps)
        averaging = _averaging(raw, written, options)
        train, val, late = _curves(raw, columns, steps, dropped, averaging or _Averaging())
    except NotALogError as error:
        raise NotALogError(f"{path}: {error}") from None
    except BadInputError as error:
        raise BadInputError(f"{path}: {error}") from None
    warnings = [*raw.warnings, *columns.warnings]
    warnings += _dropped_warnings(path, dropped, rows, options.allow_dropped)
    if late:
        warnings.append(
            f"rows out of order: {late}; they were sorted, and of a repeated step the last row was kept."
        )
    seq_len = _first(written[:1] if row else [], "seq_len") or options.seq_len or _first(written, "seq_len")
    warnings += _seq_len_warnings(seq_len, written, options)
    problems: list[str] = []
    phase = _stable_phase(path, columns, steps, written, options, problems)
    batch = _batch_size(path, place, called, columns, steps, phase, row, written, seq_len, options, problems)
    run = Run(
        name=printable(
            _first(written[: 1 if row else 0], "name")
            or (beside.name if beside else None)
            or raw.name
            or names.run_name(place, raw.label)
        ),
        path=path,
        format=format_name,
        batch_tokens=batch.tokens,
        batch_source=batch.source,
        seq_len=seq_len,
        lr=phase.lr if phase.lr is not None else _first(written, "lr") or names.lr_in_name(place, called),
        seed=_seed(columns, written, place, called),
        rows=rows,
        dropped=dict(dropped),
        stable_from=phase.first_step,
        stable_to=phase.last_step,
        stable_source=phase.source,
        train=train,
        val=val,
        warnings=[*warnings, *phase.warnings, *batch.warnings],
        assumptions=[*batch.assumptions, *phase.assumptions],
        problems=problems,
        facts_path=place.parent / RUN_JSON if beside else None,
        model=_first(written, "model"),
        data=_first(written, "data"),
        averaging_known=averaging is not None,
    )
    if not problems:
        problems += _too_few_rows(path, run)
    return run


@dataclass(frozen=True)
class _Averaging:
    """Over which steps a logged train loss is a mean."""

    window: int | Literal["interval"] = 1
    ema: float | None = None


def _averaging(raw: RawLog, written: Sequence[Facts], options: ReadOptions) -> _Averaging | None:
    """Return what the user, else a run.json, else the format says of the train loss; None where nobody does."""
    if options.train_window is not None or options.train_ema is not None:
        return _Averaging(options.train_window or 1, options.train_ema)
    written_window = _first(written, "train_loss_window")
    if written_window is not None:
        return _Averaging(written_window)
    if raw.train_window is not None or raw.train_ema is not None:
        return _Averaging(raw.train_window or 1, raw.train_ema)
    return None


def _steps(raw: RawLog, columns: Columns) -> tuple[FloatArray, Counter[str]]:
    """Return the step of every row, NaN for rows that are no update, and the reasons for dropping rows so far."""
    cells = columns.cells["step"]
    steps = cells.values
    column = columns.names["step"]
    sound = (steps == np.floor(steps)) & (steps >= 0) & (steps <= _MAX_STEP)
    wrong = np.flatnonzero(~sound & ~np.isnan(steps)) if not sound.all() else np.array([], dtype=np.int64)
    if wrong.size:
        value = steps[wrong[0]]
        what = "negative" if value < 0 else "not a whole number" if value < _MAX_STEP else "too large"
        raise BadInputError(
            f"{raw.locate(int(wrong[0]))}: step {value:g} in column '{column}' is {what}. Steps count optimizer "
            "updates; name the right column with --columns step=NAME."
        )
    dropped = Counter(raw.dropped)
    zero = steps == 0
    if zero.any():
        dropped["step 0"] = int(np.count_nonzero(zero & _any_loss(columns, len(steps))))
        steps = np.where(zero, np.nan, steps)
    unknown = ~sound & ~zero
    if unknown.any():
        dropped["no step"] = int(np.count_nonzero(unknown & _any_loss(columns, len(steps))))
    return steps, +dropped


def _updates(micro: FloatArray, micro_steps: int) -> FloatArray:
    """Return the optimizer update that a micro-batch went into; of several logged, the last stands for the update."""
    updates = np.ceil(micro / micro_steps)
    known = np.isfinite(updates)
    last: dict[float, float] = {}
    for update, count in zip(updates[known], micro[known], strict=True):
        last[update] = max(last.get(update, 0.0), count)
    earlier = [known[row] and micro[row] < last[updates[row]] for row in range(len(micro))]
    return np.where(earlier, np.nan, updates)


def _any_loss(columns: Columns, rows: int) -> NDArray[np.bool_]:
    usable = np.zeros(rows, dtype=bool)
    for kind in ("loss", "val"):
        if kind in columns.cells:
            usable |= usable_loss(columns.cells[kind])
    return usable


def _curves(
    raw: RawLog,
    columns: Columns,
    steps: FloatArray,
    dropped: Counter[str],
    averaging: "_Averaging",
) -> tuple[Curve | None, Curve | None, int]:
    """Make the curves, and count the rows that went into none of them."""
    stepped = np.isfinite(steps)
    has_loss = np.zeros(len(steps), dtype=bool)
    broken = np.zeros(len(steps), dtype=bool)
    used = np.zeros(len(steps), dtype=bool)
    ordered: dict[str, Ordered] = {}
    late = 0
    for kind in ("loss", "val"):
        if kind not in columns.cells:
            continue
        usable = usable_loss(columns.cells[kind])
        has_loss |= usable
        broken |= ~usable & ~columns.cells[kind].empty
        ordered[kind] = in_step_order(steps, np.flatnonzero(usable & stepped))
        used[ordered[kind].rows] = True
        late += ordered[kind].late
    dropped["loss is not a number"] += int(np.count_nonzero(stepped & broken & ~has_loss))
    dropped[NO_LOSS] += int(np.count_nonzero(stepped & ~broken & ~has_loss))
    dropped["duplicate step"] += int(np.count_nonzero(stepped & has_loss & ~used))
    for reason in [reason for reason, count in dropped.items() if not count]:
        del dropped[reason]
    rows = max((len(curve.steps) for curve in ordered.values()), default=0)
    if rows < MIN_ROWS:
        reasons = _reasons(dropped)
        raise BadInputError(
            f"only {rows} of the rows have a usable loss{f' ({reasons} dropped)' if reasons else ''}; a run needs "
            f"{MIN_ROWS} or more. Leave it out, or name the right columns with --columns."
        )
    curves: dict[str, Curve] = {}
    for kind, rows_in_order in ordered.items():
        if len(rows_in_order.steps):
            cells, name = columns.cells[kind], columns.names[kind]
            if kind == "loss":
                curves[kind] = curve_of(rows_in_order, cells, name, steps, averaging.window, averaging.ema)
            else:
                curves[kind] = curve_of(rows_in_order, cells, name, steps)
    return curves.get("loss"), curves.get("val"), late


def _dropped_warnings(path: Path, dropped: Counter[str], rows: int, allowed: bool) -> list[str]:
    counted = Counter({reason: count for reason, count in dropped.items() if reason != NO_LOSS})
    share = sum(counted.values()) / max(rows - dropped[NO_LOSS], 1)
    if share > REFUSE_DROPPED and not allowed:
        raise BadInputError(
            f"{path}: {share:.0%} of the rows with a loss cannot be used ({_reasons(counted)}), more than half. "
            "Correct the log, name other columns with --columns, or add --allow-dropped."
        )
    warnings = []
    if dropped["truncated last line"]:
        warnings.append("the last line is cut off, as when a run was killed; the rows before it were used.")
    if share > WARN_DROPPED:
        warnings.append(f"{share:.0%} of the rows were dropped: {_reasons(counted)}.")
    return warnings


def _reasons(dropped: Counter[str]) -> str:
    return ", ".join(f"{reason}: {count}" for reason, count in dropped.most_common())


def _stable_phase(
    path: Path,
    columns: Columns,
    steps: FloatArray,
    written: Sequence[Facts],
    options: ReadOptions,
    problems: list[str],
) -> StablePhase:
    rows = np.flatnonzero(np.isfinite(steps))
    last_step = int(steps[rows].max())
    lr, lr_steps = columns.values("lr"), np.array([])
    if lr is not None:
        ordered = in_step_order(steps, rows[np.isfinite(lr[rows])])
        lr, lr_steps = (lr[ordered.rows], ordered.steps) if len(ordered.steps) else (None, lr_steps)
    given = Known(options.warmup_steps, options.stable_until, _options_in_words(options))
    says = next((f for f in written if f.warmup_steps is not None or f.decay_start_step is not None), None)
    known = Known(says.warmup_steps, says.decay_start_step, says.source) if says else None
    try:
        return choose_stable_phase(
            lr_steps, lr, last_step, given, known, allow_non_stable=options.allow_non_stable
        )
    except BadInputError as error:
        problems.append(f"{path}: {error}")
        return StablePhase(1, last_step, "none: lr never constant", None, [])


def _options_in_words(options: ReadOptions) -> str:
    parts = []
    if options.warmup_steps is not None:
        parts.append(f"--warmup-steps {options.warmup_steps}")
    if options.stable_until is not None:
        parts.append(f"--stable-until {options.stable_until}")
    return " ".join(parts)


def _batch_size(
    path: Path,
    place: Path,
    label: str,
    columns: Columns,
    steps: FloatArray,
    phase: StablePhase,
    row: Facts | None,
    written: Sequence[Facts],
    seq_len: int | None,
    options: ReadOptions,
    problems: list[str],
) -> BatchSize:
    stable = (phase.first_step, phase.last_step)
    try:
        others = [facts for facts in written if facts is not row]
        return find_batch_size(
            place, label, columns, steps, stable, row, others, seq_len, options.batch_tokens
        )
    except BadInputError as error:
        problems.append(f"{path}: {error}")
        return BatchSize(np.nan, str(error).split(",")[0].split(".")[0])


def _too_few_rows(path: Path, run: Run) -> list[str]:
    """Refuse a stable phase that holds next to nothing of the run."""
    curves = (run.stable_curve("train"), run.stable_curve("val"))
    rows = max(len(curve.steps) for curve in curves if curve is not None)
    if rows >= MIN_ROWS:
        return []
    return [
        f"{path}: only {rows} rows lie in the stable phase, steps {run.stable_from} to {run.stable_to} "
        f"({run.stable_source}). Set it with --warmup-steps and --stable-until."
    ]


def _seq_len_warnings(seq_len: int | None, written: Sequence[Facts], options: ReadOptions) -> list[str]:
    said = [(facts.source, facts.seq_len) for facts in written] + [("--seq-len", options.seq_len)]
    return [
        f"the sequence length is taken as {seq_len}, but {source} says {value}."
        for source, value in said
        if value is not None and value != seq_len
    ]


def _seed(columns: Columns, written: Sequence[Facts], path: Path, label: str) -> int | None:
    """Return the seed; of the log's column only a value that is the same in all rows is one."""
    seed: int | None = _first(written, "seed")
    if seed is not None:
        return seed
    values = columns.values("seed")
    if values is not None:
        values = values[np.isfinite(values)]
        if values.size and (values == values[0]).all() and values[0] == int(values[0]):
            return int(values[0])
    return names.seed_in_name(path, label)


def _first(written: Sequence[Facts], fact: str) -> Any:
    """Return what the first source that knows a fact says."""
    return next((value for facts in written if (value := getattr(facts, fact)) is not None), None)
