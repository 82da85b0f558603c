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
from ebfit.runs.formats.text_lines import (
    CUT_OFF,
    TRUNCATED,
    Record,
    nothing_found,
    number,
    opening,
    read_text_log,
)
from ebfit.runs.formats.text_rows import RowList
from ebfit.runs.raw_log import RawLog

NAME = "internevo"
TRAINER = "InternEvo, InternLM"
EXAMPLE = (
    "tflops=63.2 step=10 loss=4.5 tgs (tokens/gpu/second)=1424.9 lr=0.0001 .. num_consumed_tokens=720896 .."
)

_START = re.compile(
    rb"step=(?<![\w/]step=)(?P<step>\d+)[ ,]+(?=loss=)|Validation on (?P<set>[^:\n]{1,100}): step=(?P<val_step>\d+) "
)
_TOKENS = b"num_consumed_tokens="  # all steps have it
_ANCHORS = (_TOKENS, b"Validation on ")
_FIELD = re.compile(rb"[ ,](?P<name>loss|lr|num_consumed_tokens)=(?P<value>[^ ,]+)")
_COLUMNS = {b"loss": "loss", b"lr": "lr", b"num_consumed_tokens": "tokens"}
_VAL_LOSS = re.compile(rb" val/[^ =]+_loss=(?P<value>[^ ,]+)")


def sniff(head: bytes, path: Path) -> bool:
    """Claim text that holds a step of InternEvo."""
    log = opening(head, path)
    return log is not None and any(_is_step(record) for record in log.records(_START, *_ANCHORS))


def _is_step(record: Record) -> bool:
    return record.start["step"] is not None and _TOKENS in record.text


def read(path: Path) -> list[RawLog]:
    """Read the runs of a log, one after the other.

    Raises
    ------
    NotALogError
        If there is no step in it.
    """
    log = read_text_log(path)
    found = RowList()
    for record in log.records(_START, *_ANCHORS):
        if _is_step(record):
            fields = {_COLUMNS[name]: number(value) for name, value in _FIELD.findall(record.text)}
            found.add(record, {"step": number(record.start["step"]) + 1, **fields})
        elif record.start["step"]:
            found.drop(CUT_OFF if record.whole else TRUNCATED)
        elif loss := _VAL_LOSS.search(record.text):
            column = f"val/{record.start['set'].decode('utf-8', 'replace')}/loss"
            found.add(record, {"step": number(record.start["val_step"]), column: number(loss["value"])})
    rows = found.rows()
    if not rows:
        raise nothing_found(path, NAME, EXAMPLE)
    return runs_with_settings(rows, log, path, {}, train_window=1)
