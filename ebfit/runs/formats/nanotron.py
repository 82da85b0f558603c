"""Console logs of nanotron.

A step prints as ``iteration: 100 / 1000 | consumed_tokens: 52.4M | .. | global_batch_size: 256 | lm_loss: 4.52 | lr:
0.0003 | ..``.

Read in nanotron 0.4 and its repository of 2025 (``trainer.py``, ``logging.py``). Iterations count updates from 1. The
loss is that of the step alone, the mean over all devices. All but the iteration is printed with three digits, tokens
as ``52.4M``; ``global_batch_size`` counts sequences in older versions and tokens in newer ones, and is not used. The
line "[Start training]" has the exact batch size in sequences and the sequence length. Where the printed tokens
agree with these, they are computed anew.
"""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from ebfit.runs.facts import Facts
from ebfit.runs.formats.printed_settings import runs_with_settings
from ebfit.runs.formats.text_lines import nothing_found, number, opening, read_text_log
from ebfit.runs.formats.text_rows import RowList
from ebfit.runs.raw_log import RawLog, numbers

NAME = "nanotron"
TRAINER = "nanotron"
EXAMPLE = "iteration: 100 / 1000 | consumed_tokens: 52.4M | .. | lm_loss: 4.52 | lr: 0.0003 | .."

_START = re.compile(rb"iteration: (?P<step>\d+) / \d+ \| (?=consumed_tokens: )")
_ANCHOR = b"| consumed_tokens: "
_FIELD = re.compile(rb"\b(?P<name>consumed_tokens|lm_loss|lr): (?P<value>[^ |]+)")
_COLUMNS = {b"consumed_tokens": "tokens", b"lm_loss": "loss", b"lr": "lr"}
_SETTINGS = {
    b"[Start training]": re.compile(
        rb"\[Start training\](?=.{0,1000}?\bglobal_batch_size: (?P<batch_sequences>\d+)\b)"
        rb"(?:(?=.{0,1000}?\bsequence_length: (?P<seq_len>\d+)\b))?"
    )
}
_UNITS = {b"K": 1e3, b"M": 1e6, b"G": 1e9, b"B": 1e9, b"T": 1e12, b"P": 1e15}
_ROUNDING = 0.005  # of three digits, relative


def sniff(head: bytes, path: Path) -> bool:
    """Claim text that holds an iteration of nanotron."""
    log = opening(head, path)
    return log is not None and any(True for _ in log.records(_START, _ANCHOR))


def read(path: Path) -> list[RawLog]:
    """Read the runs of a log, one after the other.

    Raises
    ------
    NotALogError
        If there is no iteration in it.
    """
    log = read_text_log(path)
    found = RowList()
    for record in log.records(_START, _ANCHOR):
        fields = {_COLUMNS[name]: _number(value) for name, value in _FIELD.findall(record.text)}
        found.add(record, {"step": number(record.start["step"]), **fields})
    rows = found.rows()
    if not rows:
        raise nothing_found(path, NAME, EXAMPLE)
    runs = runs_with_settings(rows, log, path, _SETTINGS, train_window=1)
    return [_with_exact_tokens(raw, raw.facts) for raw in runs]


def _number(cell: bytes) -> float:
    unit = _UNITS.get(cell[-1:], 1.0)
    return number(cell[:-1]) * unit if unit > 1 else number(cell)


def _with_exact_tokens(raw: RawLog, facts: Facts | None) -> RawLog:
    """Replace tokens of three digits by batch size times steps, where the two agree."""
    if facts is None or facts.batch_sequences is None or facts.seq_len is None:
        return raw
    exact = numbers(raw.table["step"]).values * facts.batch_sequences * facts.seq_len
    shown = numbers(raw.table["tokens"]).values
    if (np.abs(shown - exact) > 1.01 * _ROUNDING * exact).any():
        return raw
    at = raw.table.column_names.index("tokens")
    return replace(raw, table=raw.table.set_column(at, "tokens", pa.array(exact)))
