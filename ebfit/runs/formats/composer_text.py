"""Console logs of Composer and llm-foundry.

A step prints as ``[batch=10/100]:`` and below it, indented, a line per metric: ``Train loss/train/total: 4.5123``,
``Train time/token: 589824``. An evaluation prints as ``[Eval batch=8/8] Eval on eval data:`` and, below it, ``Eval
metrics/eval/LanguageCrossEntropy: 4.5``.

Read in Composer 0.32 (``loggers/console_logger.py``, ``trainer/trainer.py``) and llm-foundry 0.22. Numbers:

- ``[batch=N/..]`` comes after N updates, and the loss is that of the last of them alone, over all devices. Where the
  duration is in other units, as ``[token=../..]``, the step is that of ``time/batch``, which like ``time/token`` was
  taken *before* the update: both are moved to after it.
- The train loss is ``loss/train/total``; where that is not printed, ``LanguageCrossEntropy``.
- Evaluations do not say their step. They stand at the first multiple of the printed ``eval_interval`` that is not
  before the step printed last; without one, at that step.
- All numbers have 4 decimals, learning rates too.
- Batch size (``global_train_batch_size``) and sequence length are read where the config is printed.
"""

import math
import re
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from ebfit.runs.formats.printed_settings import Settings, runs_with_settings
from ebfit.runs.formats.text_lines import (
    TRUNCATED,
    Record,
    TextLog,
    nothing_found,
    number,
    opening,
    read_text_log,
)
from ebfit.runs.formats.text_rows import RowList, few_digits_warnings
from ebfit.runs.raw_log import RawLog

NAME = "composer_text"
TRAINER = "Composer, llm-foundry"
EXAMPLE = "[batch=10/100]: and below it, indented, Train loss/train/total: 4.5123"
NO_STEP = "step cannot be told"

_START = re.compile(
    rb"\[(?:epoch=(?P<epoch>\d+)\]\[)?(?P<unit>batch|token|sample|second|iteration)=(?P<now>\d+)(?:/(?P<total>\d+))?\]"
    rb"|\[(?P<evaluation>Eval) batch=\d+/\d+\] Eval on "
    rb"|Train (?P<train>loss/train/total|time/(?:batch|token|sample|second|iteration|batch_in_epoch)|lr-[\w./-]+"
    rb"|[\w./-]{0,200}?LanguageCrossEntropy): (?P<value>\S+)"
    rb"|Eval (?P<eval>[\w./-]{0,200}?LanguageCrossEntropy): (?P<eval_value>\S+)"
)
_ANCHOR = b"Train "
_CROSS_ENTROPY = "LanguageCrossEntropy"
_SETTINGS: Settings = {
    f"{name}: ".encode(): re.compile(rf"(?<![\w.]){name}: (?P<{fact}>\d+)(?=\s|$)".encode())
    for name, fact in [
        ("global_train_batch_size", "batch_sequences"),
        ("max_seq_len", "seq_len"),
        ("seed", "seed"),
    ]
}
_EVAL_INTERVAL = re.compile(rb"(?<![\w.])eval_interval: '?(?P<batches>[1-9]\d{0,14})ba\b")


def sniff(head: bytes, path: Path) -> bool:
    """Claim text that holds the header of a step and a metric of training."""
    log = opening(head, path)
    if log is None:
        return False
    seen_step = False
    for record in log.records(_START, _ANCHOR):
        if seen_step and record.start["train"]:
            return True
        seen_step = seen_step or record.start["unit"] is not None
    return False


def read(path: Path) -> list[RawLog]:
    """Read the runs of a log, one after the other.

    Raises
    ------
    NotALogError
        If there is no step with a loss in it.
    """
    log = read_text_log(path)
    found = RowList()
    interval = _eval_interval(log)
    ranks: dict[int | None, _Rank] = {}  # what is printed below a header is that of the same rank
    for record in log.records(_START, _ANCHOR):
        number_of_rank = record.rank
        if number_of_rank not in ranks:
            ranks[number_of_rank] = _Rank(found, interval)
        ranks[number_of_rank].take(record)
    for rank in ranks.values():
        rank.finish_step()
    rows = found.rows()
    if not rows.have("loss").any():
        raise nothing_found(path, NAME, EXAMPLE)
    warnings = few_digits_warnings(rows)
    if interval is None and any(rank.evaluated for rank in ranks.values()):
        warnings.append(
            "evaluations are printed without their step, and no eval_interval is: each was taken to belong to the "
            "step printed before it."
        )
    return runs_with_settings(rows, log, path, _SETTINGS, train_window=1, warnings=warnings)


@dataclass
class _Rank:
    """What one rank printed, as far as it was read."""

    rows: RowList
    eval_interval: int | None
    evaluated: bool = False
    _header: Record | None = None
    _metrics: dict[str, float] = field(default_factory=dict)
    _last_step: float = 0.0
    _total: float = math.inf
    _counted: tuple[float, float] = (0.0, 0.0)  # batches and tokens, as printed last

    def take(self, record: Record) -> None:
        """Take a header or a metric."""
        start = record.start
        if not (start["train"] or start["eval"]):
            self.finish_step()
            self._header = record if start["unit"] else None
        elif not record.whole:
            self.rows.drop(TRUNCATED)
        elif start["train"]:
            self._metrics[start["train"].decode()] = number(start["value"])
        else:
            self._add_evaluation(record)

    def finish_step(self) -> None:
        """Make a row of the metrics below the last header."""
        header, metrics = self._header, self._metrics
        self._header, self._metrics = None, {}
        if header is None or not metrics:
            return
        cells: dict[str, float] = {}
        loss = metrics.get("loss/train/total", _ending(metrics, _CROSS_ENTROPY))
        lr = next((value for name, value in metrics.items() if name.startswith("lr-")), None)
        step = _step(header, metrics)
        if step is None:
            self.rows.drop(NO_STEP)
            return
        tokens = self._tokens(header, metrics, step)
        for column, value in (("loss", loss), ("lr", lr), ("tokens", tokens)):
            if value is not None:
                cells[column] = value
        if header.start["unit"] == b"batch" and not header.start["epoch"] and header.start["total"]:
            self._total = number(header.start["total"])
        self._last_step = step
        if cells:
            self.rows.add(header, {"step": step, **cells})

    def _tokens(self, header: Record, metrics: dict[str, float], step: float) -> float | None:
        """Return the tokens consumed after a step; printed are those before its batch."""
        if header.start["unit"] == b"token":
            return number(header.start["now"])
        batches, tokens = metrics.get("time/batch"), metrics.get("time/token")
        if batches is None or tokens is None:
            return None
        before = self._counted if self._counted[0] < batches else (0.0, 0.0)
        self._counted = (batches, tokens)
        if step == batches:
            return tokens
        return tokens + (tokens - before[1]) / (batches - before[0]) if batches > 0 else None

    def _add_evaluation(self, record: Record) -> None:
        name = record.start["eval"].decode().removeprefix("metrics/").rpartition("/")[0]
        column = "val_loss" if name in ("", "eval") else f"{name}/loss"
        step = self._last_step
        if self.eval_interval is not None:
            step = min(np.ceil(step / self.eval_interval) * self.eval_interval, self._total)
        self.evaluated = True
        self.rows.add(record, {"step": step, column: number(record.start["eval_value"])})


def _step(header: Record, metrics: dict[str, float]) -> float | None:
    """Return the updates made when a header was printed; None if it does not tell."""
    now, epoch, unit = number(header.start["now"]), header.start["epoch"], header.start["unit"].decode()
    if unit == "batch" and epoch is None:
        return now
    batches = metrics.get("time/batch")
    if batches is not None:
        # At the very end Composer prints the counts again, after the last batch.
        after = metrics.get("time/batch_in_epoch" if epoch else f"time/{unit}") == now
        return batches if after else batches + 1
    if epoch and header.start["total"]:
        return (number(epoch) - 1) * number(header.start["total"]) + now
    return None


def _eval_interval(log: TextLog) -> int | None:
    lines = log.lines_with(b"eval_interval: ")
    found = {int(match["batches"]) for line in lines for match in _EVAL_INTERVAL.finditer(line)}
    return found.pop() if len(found) == 1 else None


def _ending(metrics: dict[str, float], name: str) -> float | None:
    return next((value for full, value in metrics.items() if full.endswith(name)), None)
