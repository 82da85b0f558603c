"""The logs of karpathy/llm.c: ``main.log`` and the console.

``main.log`` has a line ``s:10 trl:4.1234 lr:0.000600 norm:0.50`` per step and ``s:250 tel:3.2345`` per validation
(``eval:`` is an accuracy). The console has ``step 11/19560 | loss 4.123400 (+1.20z)| norm 0.5000 (-0.10z)| lr
6.00e-04 | ..`` and ``val loss 3.234500``.

Read in ``llmc/logger.h`` and ``train_gpt2.cu`` of llm.c (2024), and in logs of its ``train_gpt2.py``. In
``main.log`` steps count from 0: that of number N is the update N + 1, and becomes step N + 1; the console prints N +
1. A validation at step N comes after N updates; on the console, which does not print N, it comes right before the
step N + 1, or after the last one. The loss is the mean over the batch of that step alone, over all micro-batches and
processes. An update that was skipped as an outlier counts as a step all the same.

The console prints the batch size, in tokens over all devices and accumulation, and the sequence length; ``main.log``
does not.
"""

import re
from pathlib import Path

from ebfit.runs.formats.printed_settings import runs_with_settings
from ebfit.runs.formats.text_lines import Record, Rows, nothing_found, number, opening, read_text_log
from ebfit.runs.raw_log import RawLog

NAME = "llm_c"
TRAINER = "llm.c"
EXAMPLE = "s:10 trl:4.1234 lr:0.000600 norm:0.50"

_START = re.compile(rb"s:\d+ t|step +\d+/\d+(?: \||:) |val loss ")
_ANCHORS = (b" trl:", b" tel:", b" loss ")
_LOGGED = re.compile(
    rb"s:(?P<step>\d+) (?:tel:(?P<val>\S+)|trl:(?P<loss>\S+)(?: lr:(?P<lr>\S+))?(?: norm:\S+)?)\s*$"
)
_STEP = re.compile(
    rb"step +(?P<step>\d+)/\d+(?: \||:) (?:train )?loss (?P<loss>[^\s|]+)(?:.*?\blr (?P<lr>[^\s|]+))?"
)
_VALIDATION = re.compile(rb"val loss (?P<val>\S+)\s*$")
_SETTINGS = {
    b"| sequence length T ": re.compile(rb"\| sequence length T +\| (?P<seq_len>\d+)"),
    b"| total batch size ": re.compile(rb"\| total batch size +\| (?P<batch_tokens>\d+)"),
    b"total desired batch size: ": re.compile(rb"total desired batch size: (?P<batch_tokens>\d+)"),
}


def sniff(head: bytes, path: Path) -> bool:
    """Claim text that holds a step of llm.c, in either of its logs."""
    log = opening(head, path)
    return log is not None and any(
        (_LOGGED.match(record.text) and not record.before.strip()) or _STEP.match(record.text)
        for record in log.records(_START, *_ANCHORS)
    )


def read(path: Path) -> list[RawLog]:
    """Read the runs of a log.

    Raises
    ------
    NotALogError
        If there is no step in it.
    """
    log = read_text_log(path)
    rows = Rows()
    last_step = 0.0
    # A validation of the console, until the next step tells that of it.
    waiting: tuple[Record, float] | None = None
    for record in log.records(_START, *_ANCHORS):
        if line := _STEP.match(record.text):
            last_step = number(line["step"])
            if waiting:
                rows.add(waiting[0], {"step": last_step - 1, "val_loss": waiting[1]})
                waiting = None
            rows.add(record, _train_cells(last_step, line))
        elif record.before.strip():
            continue  # "s:" ends many words
        elif line := _LOGGED.match(record.text):
            if line["val"]:
                rows.add(record, {"step": number(line["step"]), "val_loss": number(line["val"])})
            else:
                rows.add(record, _train_cells(number(line["step"]) + 1, line))
        elif line := _VALIDATION.match(record.text):
            if waiting and last_step:  # the last of a run that another one follows
                rows.add(waiting[0], {"step": last_step, "val_loss": waiting[1]})
            waiting = record, number(line["val"])
    if waiting and last_step:
        rows.add(waiting[0], {"step": last_step, "val_loss": waiting[1]})
    if not rows:
        raise nothing_found(path, NAME, EXAMPLE)
    return runs_with_settings(rows, log, path, _SETTINGS, train_window=1)


def _train_cells(step: float, line: re.Match[bytes]) -> dict[str, float]:
    cells = {"step": step, "loss": number(line["loss"])}
    if line["lr"]:
        cells["lr"] = number(line["lr"])
    return cells
