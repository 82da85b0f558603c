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

from ebfit.errors import BadInputError
from ebfit.runs.formats.printed_settings import runs_with_settings
from ebfit.runs.formats.text_lines import Rows, nothing_found, number, opening, read_text_log
from ebfit.runs.raw_log import RawLog

NAME = "torchtitan"
TRAINER = "torchtitan"
EXAMPLE = "step: 10  loss:  7.12345  grad_norm:  1.2345  memory: 40.12GiB(42.10%)  tps: 7,012  tflops: 300.10"

_START = re.compile(rb"(?:validate )?step: +\d+ +loss: ")
_ANCHOR = b"step: "
_LINE = re.compile(
    rb"(?P<validate>validate )?step: +(?P<step>\d+) +loss: +(?P<loss>\S+) +"
    rb"(?:grad_norm: +(?P<grad_norm>\S+) +)?memory: +[^ ]+ +(?:tps|wps):(?P<tflops>.* tflops: )?"
)
_SETTINGS = {
    b"global batch size ": re.compile(
        rb"global batch size (?P<batch_sequences>\d+), (?:gradient accumulation steps \d+, )?"
        rb"sequence length (?P<seq_len>\d+), total steps "
    )
}


def sniff(head: bytes, path: Path) -> bool:
    """Claim text that holds a step or a validation of torchtitan."""
    log = opening(head, path)
    return log is not None and any(_LINE.match(record.text) for record in log.records(_START, _ANCHOR))


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
    rows = Rows()
    windows: set[int | Literal["interval"] | None] = set()
    unseen = 0
    for record in log.records(_START, _ANCHOR):
        line = _LINE.match(record.text)
        if line is None:
            continue
        loss = number(line["loss"])
        if loss < 0:
            unseen += 1
            continue
        rows.add(record, {"step": number(line["step"]), "val_loss" if line["validate"] else "loss": loss})
        if not line["validate"]:
            windows.add(1 if line["grad_norm"] else None if line["tflops"] else "interval")
    if unseen and not rows:
        raise BadInputError(
            f"{path}: only ranks that see no loss wrote it (loss: -1), as under pipeline parallelism. Use the log "
            "of a rank of the last stage (LOG_RANK)."
        )
    if not rows:
        raise nothing_found(path, NAME, EXAMPLE)
    warnings = [f"{unseen} lines of ranks that see no loss (-1) were passed over."] if unseen else []
    window = windows.pop() if len(windows) == 1 else None
    return runs_with_settings(rows, log, path, _SETTINGS, train_window=window, warnings=warnings)
