"""The console logs of OLMo-core and of OLMo, its predecessor: records of several lines.

A record begins with ``[step=10/1000,epoch=1]`` (OLMo: ``[step=10/1000]``), and its metrics follow, indented, one a
line: ``train/CE loss=3.456``, ``throughput/total tokens=41,943,040``.

Read in OLMo-core 3.0.0 (``train/callbacks/console_logger.py``, ``train/trainer.py``, ``utils.py``) and in
``olmo/train.py`` of OLMo (2024). Steps count optimizer updates from 1. The loss is the cross entropy of that step
alone, a mean over all ranks; a loss that is not finite stops the run before it is printed.

Numbers are rounded: losses to 3 decimals, a learning rate from 0.0001 up to 4 decimals, and OLMo-core's token counts
from a billion up to 4 digits or so (``1.234B``). Tokens below are exact; where all of them are one number times the
step, and the rounded ones agree, the rounded ones are computed from that.

OLMo-core prints evaluations without the step that they belong to, and later than steps that were made after them, so
they are left out, unless the console logger was told to print ``eval/*``: then they stand in the record. OLMo prints
them after the record of the step, if ``eval_interval`` is a multiple of ``console_log_interval``; else they are
taken for some steps too early, by less than ``console_log_interval``.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ebfit.runs.formats.printed_settings import runs_with_settings
from ebfit.runs.formats.text_lines import (
    Record,
    Rows,
    TextLog,
    nothing_found,
    number,
    opening,
    read_text_log,
)
from ebfit.runs.raw_log import RawLog

NAME = "olmo_core"
TRAINER = "OLMo-core and OLMo"
EXAMPLE = "[step=10/1000,epoch=1] and below it, indented, train/CE loss=3.456"

_INDENT = b"    "
_EVALUATION_WITHOUT_STEP = b"evals in "
_START = re.compile(rb"\[step=\d|(?:train|throughput|optim|eval)/[^=\n]{0,200}=|evals in ")
_ANCHORS = (
    b"[step=",
    b"train/CE loss=",
    b"train/CrossEntropyLoss=",
    b"throughput/total",
    b"optim/LR (group 0)=",
    b"eval/",
    _EVALUATION_WITHOUT_STEP,
)
_STEP = re.compile(rb"\[step=(?P<step>\d+)/(?:\d+|\?\?\?)(?:,epoch=\d+[^\]]*)?\]")
_METRIC = re.compile(rb"(?P<name>[^=]+)=(?P<value>\S+)\s*$")
_COLUMNS = {
    b"train/CE loss": "loss",
    b"train/CrossEntropyLoss": "loss",
    b"throughput/total tokens": "tokens",
    b"throughput/total_tokens": "tokens",
    b"optim/LR (group 0)": "lr",
}
_LOSS_NAMES = (b"CE loss", b"CrossEntropyLoss")
_FINISHED = re.compile(rb"evals in [\d.]+ seconds\. Metrics:")
_UNITS = {b"B": 1e9, b"T": 1e12, b"P": 1e15, b"E": 1e18}
_FOUR_DECIMALS = (1e-4, 1e-2)  # learning rates that are printed with one or two digits
_SINGLE = 1e-6  # metrics pass through single precision


@dataclass
class _Step:
    """A record in the making."""

    record: Record
    cells: dict[str, float]
    rounding: float = 0.0  # by how much its tokens may be off
    whole: bool = True


@dataclass
class _Found:
    steps: list[_Step] = field(default_factory=list)
    evaluations_without_step: int = 0


def sniff(head: bytes, path: Path) -> bool:
    """Claim text in which a metric of OLMo-core or OLMo follows a step."""
    log = opening(head, path)
    if log is None or not any(_STEP.match(record.text) for record in log.records(_STEP, b"[step=")):
        return False
    return b"    train/CE loss=" in log.data or b"    train/CrossEntropyLoss=" in log.data


def read(path: Path) -> list[RawLog]:
    """Read the runs of a log.

    Raises
    ------
    NotALogError
        If there is no step with a loss in it.
    """
    log = read_text_log(path)
    found = _find(log)
    steps = [step for step in found.steps if len(step.cells) > 1]
    if not steps:
        raise nothing_found(path, NAME, EXAMPLE)
    _compute_rounded_tokens(steps)
    rows = Rows()
    for step in steps:
        rows.add(step.record._replace(whole=step.record.whole and step.whole), step.cells)
    warnings = []
    if found.evaluations_without_step:
        warnings.append(
            f"{found.evaluations_without_step} evaluations are printed without their step and were left out. The log "
            "of W&B or the metrics file has them, or let the console logger print 'eval/*'."
        )
    if _FOUR_DECIMALS[0] <= max(step.cells.get("lr", 0.0) for step in steps) < _FOUR_DECIMALS[1]:
        warnings.append(
            "the learning rate is printed with 4 decimals, too few to see where warmup ends and decay begins. Give "
            "--warmup-steps and --stable-until."
        )
    return runs_with_settings(rows, log, path, {}, train_window=1, warnings=warnings)


def _find(log: TextLog) -> _Found:
    found = _Found()
    for record in log.records(_START, *_ANCHORS):
        if line := _STEP.match(record.text):
            found.steps.append(_Step(record, {"step": number(line["step"])}))
        elif record.text.startswith(_EVALUATION_WITHOUT_STEP):
            found.evaluations_without_step += _FINISHED.match(record.text) is not None
        elif found.steps and record.before.endswith(_INDENT) and (line := _METRIC.match(record.text)):
            _add_metric(found.steps[-1], line["name"], line["value"], record.whole)
    return found


def _add_metric(step: _Step, name: bytes, value: bytes, whole: bool) -> None:
    column = _COLUMNS.get(name)
    if column is None:
        if not name.endswith(_LOSS_NAMES):
            return
        column = name.decode("utf-8", errors="replace")
    step.whole = step.whole and whole
    if column == "tokens" and value[-1:] in _UNITS:
        unit, digits = _UNITS[value[-1:]], value[:-1]
        step.cells[column] = number(digits) * unit
        step.rounding = unit * 10.0 ** -len(digits.partition(b".")[2])
    else:
        step.cells[column] = number(value)


def _compute_rounded_tokens(steps: Sequence[_Step]) -> None:
    """Replace rounded token counts by batch size times step, if that is what all of them say."""
    counted = [step for step in steps if "tokens" in step.cells]
    exact = [step.cells for step in counted if not step.rounding]
    if not exact or len(exact) == len(counted):
        return
    batch_tokens = exact[0]["tokens"] / exact[0]["step"] if exact[0]["step"] else 0.0
    if all(
        abs(step.cells["tokens"] - batch_tokens * step.cells["step"])
        <= max(step.rounding, _SINGLE * step.cells["tokens"])
        for step in counted
    ):
        for step in counted:
            step.cells["tokens"] = batch_tokens * step.cells["step"]
