"""Logs of InternEvo and InternLM, on the console and in ``RUN/<job>/<time>/logs``.

A step prints as ``.. in record_current_batch_training_metrics -- tflops=.. step=10 loss=4.5 tgs (tokens/gpu/second)=..
lr=0.0001 .. num_consumed_tokens=720896 ..``, in versions of 2023 with commas in place of spaces; an evaluation as
``Validation on en: step=100 val/en_loss=4.5 ..``.

Read in InternEvo 0.5.2 (``train/pipeline.py``, ``eval/evaluation.py``) and logs of InternLM of 2023. Steps count
batches from 0, so number N becomes step N + 1; a batch whose update was skipped is not printed. Evaluations count
updates, and stand where they are. The loss is that of the step alone, the mean over the share of the batch that the
logging rank saw: noisier than that of the batch, not biased. ``num_consumed_tokens`` counts up to and including the
step, over all data-parallel ranks; batch sizes are printed per rank only, and not used.
"""

import re
from pathlib import Path

from ebfit.runs.formats.printed_settings import runs_with_settings
from ebfit.runs.formats.text_lines import Rows, nothing_found, number, opening, read_text_log
from ebfit.runs.raw_log import RawLog

NAME = "internevo"
TRAINER = "InternEvo, InternLM"
EXAMPLE = (
    "tflops=63.2 step=10 loss=4.5 tgs (tokens/gpu/second)=1424.9 lr=0.0001 .. num_consumed_tokens=720896 .."
)

_START = re.compile(
    rb"(?<![\w/])step=(?P<step>\d+)[ ,]+(?=loss=)|\bValidation on (?P<set>[^:\n]{1,100}): step=(?P<val_step>\d+) "
)
_ANCHORS = (b"num_consumed_tokens=", b"Validation on ")
_FIELD = re.compile(rb"[ ,](?P<name>loss|lr|num_consumed_tokens)=(?P<value>[^ ,]+)")
_COLUMNS = {b"loss": "loss", b"lr": "lr", b"num_consumed_tokens": "tokens"}
_VAL_LOSS = re.compile(rb" val/[^ =]+_loss=(?P<value>[^ ,]+)")


def sniff(head: bytes, path: Path) -> bool:
    """Claim text that holds a step of InternEvo."""
    log = opening(head, path)
    return log is not None and any(record.start["step"] for record in log.records(_START, *_ANCHORS))


def read(path: Path) -> list[RawLog]:
    """Read the runs of a log, one after the other.

    Raises
    ------
    NotALogError
        If there is no step in it.
    """
    log = read_text_log(path)
    rows = Rows()
    for record in log.records(_START, *_ANCHORS):
        if record.start["step"]:
            fields = {_COLUMNS[name]: number(value) for name, value in _FIELD.findall(record.text)}
            rows.add(record, {"step": number(record.start["step"]) + 1, **fields})
        elif loss := _VAL_LOSS.search(record.text):
            column = f"val/{record.start['set'].decode('utf-8', 'replace')}/loss"
            rows.add(record, {"step": number(record.start["val_step"]), column: number(loss["value"])})
    if not rows:
        raise nothing_found(path, NAME, EXAMPLE)
    return runs_with_settings(rows, log, path, {}, train_window=1)
