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
from pathlib import Path

import numpy as np

from ebfit.runs.formats.printed_settings import runs_with_settings
from ebfit.runs.formats.text_lines import Record, nothing_found, number, opening, read_text_log
from ebfit.runs.formats.text_rows import RowList, Rows, few_digits_warnings
from ebfit.runs.raw_log import Cells, RawLog

NAME = "olmo_core"
TRAINER = "OLMo-core and OLMo"
EXAMPLE = "[step=10/1000,epoch=1] and below it, indented, train/CE loss=3.456"

_STEP = re.compile(rb"\[step=(?P<step>\d+)/(?:\d+|\?\?\?)(?:,epoch=\d+[^\]\n]*)?\]")
_ANCHOR = b"[step="
_METRIC = re.compile(
    rb"    (?P<name>train/CE loss|train/CrossEntropyLoss|throughput/total[ _]tokens|optim/LR \(group 0\)"
    rb"|eval/[^=\n]{0,200}(?:CE loss|CrossEntropyLoss))=(?P<value>[^\s\[]+)(?=[\s\[]|$)"
)
_COLUMNS = {
    b"train/CE loss": "loss",
    b"train/CrossEntropyLoss": "loss",
    b"throughput/total tokens": "tokens",
    b"throughput/total_tokens": "tokens",
    b"optim/LR (group 0)": "lr",
}
_EVALUATION_WITHOUT_STEP = re.compile(rb"evals in [\d.]+ seconds\. Metrics:")
_UNITS = {b"B": 1e9, b"T": 1e12, b"P": 1e15, b"E": 1e18}
_ROUNDING = "rounding"  # by how much the tokens of a row may be off
_SINGLE = 1e-6  # metrics pass through single precision


def sniff(head: bytes, path: Path) -> bool:
    """Claim text in which a metric of OLMo-core or OLMo follows a step."""
    log = opening(head, path)
    if log is None or not any(True for _ in log.matches(_STEP, _ANCHOR)):
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
    found = RowList()
    for record in log.blocks(_STEP, _ANCHOR):
        cells = _cells(record)
        if len(cells) > 1:
            # The last line of the file only matters if it holds a metric.
            cut = not record.whole and _METRIC.search(record.text, record.text.rfind(b"\n") + 1)
            found.add(record._replace(whole=not cut), cells)
    rows = found.rows()
    if not rows:
        raise nothing_found(path, NAME, EXAMPLE)
    _compute_rounded_tokens(rows)
    warnings = few_digits_warnings(rows)
    without_step = sum(1 for _ in log.matches(_EVALUATION_WITHOUT_STEP))
    if without_step:
        warnings.append(
            f"{without_step} evaluations are printed without their step and were left out. The log of W&B or the "
            "metrics file has them, or let the console logger print 'eval/*'."
        )
    return runs_with_settings(rows, log, path, {}, train_window=1, warnings=warnings)


def _cells(record: Record) -> dict[str, float]:
    cells = {"step": number(record.start["step"])}
    for name, value in _METRIC.findall(record.text):
        column = _COLUMNS.get(name) or name.decode("utf-8", errors="replace")
        if column == "tokens" and value[-1:] in _UNITS:
            unit, digits = _UNITS[value[-1:]], value[:-1]
            cells[column] = number(digits) * unit
            cells[_ROUNDING] = unit * 10.0 ** -len(digits.partition(b".")[2])
        else:
            cells[column] = number(value)
    return cells


def _compute_rounded_tokens(rows: Rows) -> None:
    """Replace rounded token counts by batch size times step, if that is what all of them say."""
    rounding = rows.columns.pop(_ROUNDING, None)
    counted = rows.have("tokens")
    if rounding is None or not (counted & rounding.empty).any():
        return
    tokens, steps = rows.columns["tokens"].values, rows.columns["step"].values
    exact = int(np.argmax(counted & rounding.empty))
    computed = steps * (tokens[exact] / steps[exact] if steps[exact] else 0.0)
    may_be_off = np.maximum(np.where(rounding.empty, 0.0, rounding.values), _SINGLE * tokens)
    if (np.abs(tokens - computed) <= may_be_off)[counted].all():
        rows.columns["tokens"] = Cells(computed, ~counted)
