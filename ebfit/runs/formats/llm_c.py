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

import numpy as np

from ebfit.runs.formats.printed_settings import runs_with_settings
from ebfit.runs.formats.text_lines import nothing_found, opening, read_text_log
from ebfit.runs.formats.text_rows import Rows, first_of, rows_of_matches
from ebfit.runs.raw_log import Cells, RawLog

NAME = "llm_c"
TRAINER = "llm.c"
EXAMPLE = "s:10 trl:4.1234 lr:0.000600 norm:0.50"

_RECORD = re.compile(
    # "s:" ends many words, so no letter may stand right before it.
    rb"s:(?<![^\s\d]s:)(?:(?P<index>\d+) trl:(?P<loss>\S+)(?: lr:(?P<lr>\S+))?"
    rb"|(?P<step>\d+) tel:(?P<val_loss>\S+?)(?=\s|s:|$))"
    # The next step on the line has the next slash.
    rb"|step +(?P<console_step>\d+)/\d+(?: \||:) (?:train )?loss (?P<console_loss>[^\s|]+)"
    rb"(?:[^/\r\n]*?\blr (?P<console_lr>[^\s|]+))?"
    rb"|val loss (?P<console_val_loss>\S+)(?=[^\S\n]*(?:\n|$))"
)
_ANCHORS = (b" trl:", b" tel:", b"| loss ", b"train loss ")
_SETTINGS = {
    b"| sequence length T ": re.compile(rb"\| sequence length T +\| (?P<seq_len>\d+)"),
    b"| total batch size ": re.compile(rb"\| total batch size +\| (?P<batch_tokens>\d+)"),
    b"total desired batch size: ": re.compile(rb"total desired batch size: (?P<batch_tokens>\d+)"),
}


def sniff(head: bytes, path: Path) -> bool:
    """Claim text that holds a step of llm.c, in either of its logs."""
    log = opening(head, path)
    return log is not None and any(
        match["console_val_loss"] is None for match in log.matches(_RECORD, *_ANCHORS)
    )


def read(path: Path) -> list[RawLog]:
    """Read the runs of a log.

    Raises
    ------
    NotALogError
        If there is no step in it.
    """
    log = read_text_log(path)
    rows = rows_of_matches(log, _RECORD, *_ANCHORS)
    columns = rows.columns
    for name in ("step", "loss", "lr", "val_loss"):
        console = columns.pop(f"console_{name}", None)
        if console is not None:
            columns[name] = first_of(columns[name], console) if name in columns else console
    rows = _with_steps_of_validations(rows)
    if not rows:
        raise nothing_found(path, NAME, EXAMPLE)
    return runs_with_settings(rows, log, path, _SETTINGS, train_window=1)


def _with_steps_of_validations(rows: Rows) -> Rows:
    """Tell the steps of validations on the console: that ahead of the next step, or the last of a run that ends."""
    steps = rows.columns["step"]
    ends = np.append(
        steps.empty[1:], True
    )  # another validation follows, which begins another run, or nothing
    before = np.append(np.nan, steps.values[:-1])
    after = np.append(steps.values[1:], np.nan)
    told = np.where(ends, before, after - 1)
    rows.columns["step"] = first_of(steps, Cells(told, np.isnan(told)))
    return rows.take(~rows.columns["step"].empty)
