"""Megatron-LM's console log, and those of Megatron-Bridge, Megatron-DeepSpeed and GPT-NeoX, which print the same
fields.

An iteration prints as `` iteration 100/ 1000 | consumed samples: 51200 | .. | learning rate: 1.000000E-04 | global
batch size: 512 | lm loss: 2.345678E+00 | ..``, a validation as `` validation loss at iteration 100 | lm loss value:
2.4E+00 | ..`` (GPT-NeoX: ``validation results at``).

Read in ``megatron/training/training.py`` of megatron-core 0.19.2 and ``training/utils/train_utils.py`` of
Megatron-Bridge 0.6.2. Iterations count optimizer updates from 1; skipped ones count. The loss is the mean over the
iterations since the line before that were not skipped; where all were, or one was NaN, the field is missing or NaN.
Evaluations on the test set come after training and are left out.

``global batch size`` is that of the iteration, in sequences, so a ramp shows. ``consumed samples`` times the
sequence length, which Megatron prints among its arguments ("seq_length ... 4096"), are the tokens. GPT-NeoX prints
neither; its argument ``train_batch_size`` is the batch of all devices with accumulation, in sequences.
"""

import re
from pathlib import Path

from ebfit.runs.formats.printed_settings import runs_with_settings
from ebfit.runs.formats.text_lines import Record, Rows, TextLog, nothing_found, number, opening, read_text_log
from ebfit.runs.raw_log import RawLog

NAME = "megatron"
TRAINER = "Megatron-LM, Megatron-Bridge, Megatron-DeepSpeed, GPT-NeoX"
EXAMPLE = " iteration      100/    1000 | consumed samples:        51200 | .. | lm loss: 2.345678E+00 | .."

_START = re.compile(rb"iteration +\d+/ *\d+ \||validation (?:loss|results) at iteration +\d+")
_ANCHORS = (b"iteration ",)
_ITERATION = re.compile(rb"iteration +(?P<step>\d+)/ *\d+ \|")
_VALIDATION = re.compile(rb"validation (?:loss|results) at iteration +(?P<step>\d+)(?P<which>[^|]*)\|")
_FIELD = re.compile(rb" *(?P<name>[^:|]+?)(?P<value_of> value)?: +(?P<value>[^ |]+) *\|")
_COLUMNS = {
    b"lm loss": "loss",
    b"lm_loss": "loss",
    b"learning rate": "lr",
    b"global batch size": "batch_sequences",
    b"consumed tokens": "tokens",
    b"consumed samples": "consumed_samples",
}


def _argument(name: str, fact: str) -> re.Pattern[bytes]:
    """Return what finds an argument as Megatron prints it, ``  seq_length ........ 4096``; NeoX adds "updated"."""
    return re.compile(rf"  {name} \.{{2,}} ?(?P<{fact}>\d{{1,15}})(?:updated|default)?\s*$".encode())


_SETTINGS = {
    b"  seq_length .": _argument("seq_length", "seq_len"),
    b"  train_batch_size .": _argument("train_batch_size", "batch_sequences"),
    b"  seed .": _argument("seed", "seed"),
}


def sniff(head: bytes, path: Path) -> bool:
    """Claim text that holds an iteration with Megatron's fields."""
    log = opening(head, path)
    return log is not None and any(
        _ITERATION.match(record.text) and b"elapsed time per iteration" in record.text
        for record in log.records(_START, *_ANCHORS)
    )


def read(path: Path) -> list[RawLog]:
    """Read the runs of a log.

    Raises
    ------
    NotALogError
        If there is no iteration in it.
    """
    log = read_text_log(path)
    seq_len = _sequence_length(log)
    rows = Rows()
    for record in log.records(_START, *_ANCHORS):
        if cells := _iteration(record, seq_len) or _validation(record):
            rows.add(record, cells)
    if not rows:
        raise nothing_found(path, NAME, EXAMPLE)
    return runs_with_settings(rows, log, path, _SETTINGS, train_window="interval")


def _sequence_length(log: TextLog) -> int | None:
    """Return the sequence length where the log prints one, the same in all its arguments."""
    anchor, pattern = next(iter(_SETTINGS.items()))
    found = {record.start["seq_len"] for record in log.records(pattern, anchor)}
    return int(found.pop()) if len(found) == 1 else None


def _iteration(record: Record, seq_len: int | None) -> dict[str, float]:
    line = _ITERATION.match(record.text)
    if line is None:
        return {}
    cells = {"step": float(line["step"])} | {
        _COLUMNS[field["name"]]: number(field["value"])
        for field in _FIELD.finditer(record.text, line.end())
        if field["name"] in _COLUMNS
    }
    samples = cells.pop("consumed_samples", None)
    if samples is not None and seq_len is not None:
        cells.setdefault("tokens", samples * seq_len)
    return cells


def _validation(record: Record) -> dict[str, float]:
    line = _VALIDATION.match(record.text)
    if line is None or b"test" in line["which"]:
        return {}
    for field in _FIELD.finditer(record.text, line.end()):
        if field["value_of"] and _COLUMNS.get(field["name"]) == "loss":
            return {"step": float(line["step"]), "val_loss": number(field["value"])}
    return {}
