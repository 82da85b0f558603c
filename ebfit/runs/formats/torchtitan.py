"""torchtitan's console log.

A step prints as ``step: 10 loss: 7.12345 grad_norm: 1.2345 memory: .. tps: .. tflops: .. mfu: ..``, a validation as
``validate step: 10 loss: 7.1234 memory: ..``, with colour codes between the fields.

Read in torchtitan 0.3.0 (``components/metrics.py``, ``trainer.py``), in ``train.py`` of May 2025, and in forks of
early 2025. Steps count optimizer updates from 1, and a validation at step N comes after N of them. The loss is the
mean over all tokens of the global batch of that step alone. Before the trainer class of 2025 it was the mean over
all steps since the line before; those lines have no ``tflops``. Lines with ``tflops`` and without ``grad_norm`` are
of the months between, of which we do not know. A rank that sees no loss, under pipeline parallelism, prints -1.

The batch size and the sequence length come from the line "Trainer is initialized with local batch size ..", which
gives the global one, accumulation included. It gives the warmup, too, which is not used: the learning rate is not
printed, torchtitan's default is to lower it from the end of the warmup on, and a run with a warmup and nothing about a
decay would pass for stable to its end.
"""

import re
from pathlib import Path
from typing import Literal

import numpy as np

from ebfit.errors import BadInputError
from ebfit.runs.formats.printed_settings import runs_with_settings
from ebfit.runs.formats.text_lines import nothing_found, opening, read_text_log
from ebfit.runs.formats.text_rows import Rows, first_of, rows_of_matches
from ebfit.runs.raw_log import RawLog

NAME = "torchtitan"
TRAINER = "torchtitan"
EXAMPLE = "step: 10  loss:  7.12345  grad_norm:  1.2345  memory: 40.12GiB(42.10%)  tps: 7,012  tflops: 300.10"

_RECORD = re.compile(
    rb"step: (?<!validate step: ) *(?P<step>\d+) +loss: +(?P<loss>\S+) +(?:grad_norm: +(?P<grad_norm>\S+) +)?"
    rb"memory: +[^ \r\n]+ +(?:tps|wps):(?: *[^ \r\n]+ +tflops: +(?P<tflops>\S+))?"
    rb"|validate step: +(?P<val_step>\d+) +loss: +(?P<val_loss>\S+) +memory: "
)
_ANCHOR = b"step: "
_SETTINGS = {
    b"global batch size ": re.compile(
        rb"global batch size (?P<batch_sequences>\d+), (?:gradient accumulation steps \d+, )?"
        rb"sequence length (?P<seq_len>\d+), total steps "
    )
}


def sniff(head: bytes, path: Path) -> bool:
    """Claim text that holds a step or a validation of torchtitan."""
    log = opening(head, path)
    return log is not None and any(True for _ in log.matches(_RECORD, _ANCHOR))


def read(path: Path) -> list[RawLog]:
    """Read the runs of a log.

    Raises
    ------
    NotALogError
        If there is no step in it.
    BadInputError
        If no rank that wrote to it sees the loss.
    """
    log = read_text_log(path)
    rows = rows_of_matches(log, _RECORD, _ANCHOR)
    seen = np.ones(len(rows), dtype=bool)
    for name in ("loss", "val_loss"):
        if name in rows.columns:
            seen &= ~(rows.columns[name].values < 0)
    unseen = int((~seen).sum())
    rows = rows.take(seen)
    if unseen and not rows:
        raise BadInputError(
            f"{path}: only ranks that see no loss wrote it (loss: -1), as under pipeline parallelism. Use the log "
            "of a rank of the last stage (LOG_RANK)."
        )
    if not rows:
        raise nothing_found(path, NAME, EXAMPLE)
    warnings = [f"{unseen} lines of ranks that see no loss (-1) were passed over."] if unseen else []
    window = _window(rows)
    if "val_step" in rows.columns:
        rows.columns["step"] = first_of(rows.columns["step"], rows.columns.pop("val_step"))
    return runs_with_settings(rows, log, path, _SETTINGS, train_window=window, warnings=warnings)


def _window(rows: Rows) -> int | Literal["interval"] | None:
    """Tell by the fields of its time over how many steps a loss is a mean; these columns go."""
    trained, with_norm, with_tflops = (rows.have(name) for name in ("loss", "grad_norm", "tflops"))
    for name in ("grad_norm", "tflops"):
        rows.columns.pop(name, None)
    if not (trained & ~with_norm).any():
        return 1
    return None if (trained & (with_norm | with_tflops)).any() else "interval"
