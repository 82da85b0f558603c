"""Console logs of Megatron-LM, Megatron-Bridge and Megatron-DeepSpeed.

An interval prints as `` iteration 100/ 1000 | consumed samples: 51200 | .. | learning rate: 1.0E-04 | global batch
size: 512 | lm loss: 2.3E+00 | ..``, behind a timestamp in newer versions; an evaluation as `` validation loss at
iteration 1000 | lm loss value: 2.3E+00 | ..``.

Read in megatron-core 0.17 to 0.19 (``training_log`` and ``evaluate_and_print_results`` in ``training/training.py``),
megatron-bridge 0.6 (``training/utils/train_utils.py``, ``training/eval.py``), and logs of Megatron-DeepSpeed of 2021
to 2024. Iterations count from 1, an iteration whose update was skipped for an overflow included. The loss is the
mean over all iterations since the line before, skipped ones left out.

- A loss that is not a number is not printed at all: a whole line without one is a NaN. An interval in which every
  update was skipped has a loss of zero, or none: no measurement.
- Tokens are "consumed tokens" where Megatron-DeepSpeed prints them, else consumed samples times the sequence length
  of the arguments printed at the start. Both are right while the batch size is ramped up.
- Losses on the test set, after training, are left out; of several validation sets each has its column.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from ebfit.runs.formats.printed_settings import Settings, runs_with_settings
from ebfit.runs.formats.text_lines import (
    CUT_OFF,
    TRUNCATED,
    Record,
    TextLog,
    nothing_found,
    number,
    opening,
    read_text_log,
)
from ebfit.runs.formats.text_rows import RowList, Rows
from ebfit.runs.raw_log import RawLog, numbers

NAME = "megatron"
TRAINER = "Megatron-LM, Megatron-Bridge and Megatron-DeepSpeed"
EXAMPLE = (
    "iteration 100/ 1000 | consumed samples: 51200 | .. | learning rate: 1.0E-04 | global batch size: 512 | "
    "lm loss: 2.3E+00 | .."
)
SAMPLES = "consumed_samples"

# It begins with one word, that of both kinds of lines, which is searched five times as fast as a choice of words.
START = re.compile(rb"iteration (?: *(?P<step>\d+)/ *\d+|(?P<val_step>\d+)(?: on (?P<part>\w+) set)?) \|")
_VALIDATION = re.compile(rb"validation(?:-(?P<set>\S{1,100}))? (?:loss|results) at $")
_LONGEST_VALIDATION = 130
_TIME = b"| elapsed time per iteration"  # all iterations have it
ANCHORS = (_TIME, b" at iteration ")
_COLUMNS = {
    b"| consumed samples:": SAMPLES,
    b"| consumed tokens:": "tokens",
    b"| learning rate:": "lr",
    b"| global batch size:": "batch_sequences",
    b"| lm loss:": "loss",
}
_OTHER_LOSSES = {b"| lm_loss:": "loss", b"| loss:": "loss", b"| reduced_train_loss:": "loss"}
_SKIPPED = {b"| number of skipped iterations:": "skipped"}  # the last field but one
_VAL_LOSS = re.compile(rb"\| (?:lm[ _])?loss value: *(\S+) \|")


def setting(name: str, fact: str, number: str = r"[\d.]*\d(?:[eE][-+]?\d+)?") -> Settings:
    """Return where an argument is printed.

    ``  name ....... 4096`` by Megatron-LM, ``  name: 4096`` by Megatron-Bridge, ``  name ... 4096...updated`` by NeoX.
    """
    pattern = re.compile(
        rf" {name}(?: \.+|:) +(?P<{fact}>{number})(?=\.*(?:updated|default)?(?:\s|$))".encode()
    )
    return {f" {name} .".encode(): pattern, f" {name}: ".encode(): pattern}


_SETTINGS: Settings = {
    **setting("seq_length", "seq_len"),
    **setting("lr", "lr"),
    **setting("seed", "seed"),
    # It is zero where warmup is given in samples or as a share.
    **setting("lr_warmup_iters", "warmup_steps", r"[1-9]\d*"),
}


def sniff(head: bytes, path: Path) -> bool:
    """Claim text with an iteration that counts samples or tokens."""
    log = opening(head, path)
    return log is not None and any(
        is_iteration(record) and counts_samples(record) for record in log.records(START, *ANCHORS)
    )


def is_iteration(record: Record) -> bool:
    """Tell whether a record is of training, and of this trainer."""
    return record.start["step"] is not None and _TIME in record.text


def counts_samples(record: Record) -> bool:
    """Tell whether an iteration counts what it consumed, as GPT-NeoX does not."""
    return b"| consumed samples:" in record.text or b"| consumed tokens:" in record.text


def read(path: Path) -> list[RawLog]:
    """Read the runs of a log, one after the other.

    Raises
    ------
    NotALogError
        If there is no iteration in it.
    """
    log = read_text_log(path)
    rows = iterations(log)
    if not rows:
        raise nothing_found(path, NAME, EXAMPLE)
    return runs_of(rows, log, path, _SETTINGS)


def iterations(log: TextLog) -> Rows:
    """Read iterations and evaluations."""
    rows = RowList()
    for record in log.records(START, *ANCHORS):
        if record.start["step"]:
            cells = _train_cells(record)
            if cells is None:
                rows.drop(CUT_OFF if record.whole else TRUNCATED)
            else:
                rows.add(record, cells)
        elif record.start["part"] != b"test" and (loss := _VAL_LOSS.search(record.text)):
            at = record.start.start()
            if validation := _VALIDATION.search(log.data, max(0, at - _LONGEST_VALIDATION), at):
                name = validation["set"]
                column = f"validation/{name.decode('utf-8', 'replace')}/loss" if name else "val_loss"
                rows.add(record, {"step": number(record.start["val_step"]), column: number(loss[1])})
    return rows.rows()


def runs_of(rows: Rows, log: TextLog, path: Path, settings: Settings) -> list[RawLog]:
    """Make the runs of a log, with the arguments printed ahead of each."""
    return [
        _with_tokens(raw) for raw in runs_with_settings(rows, log, path, settings, train_window="interval")
    ]


def _train_cells(record: Record) -> dict[str, float] | None:
    """Return the cells of an iteration; None if its line is not whole."""
    cells = {"step": number(record.start["step"])}
    _read_fields(record.text, _COLUMNS, cells)
    if "loss" not in cells:
        _read_fields(record.text, _OTHER_LOSSES, cells)
    loss = cells.get("loss", math.nan)
    if math.isnan(loss):
        end: dict[str, float] = {}
        _read_fields(record.text, _SKIPPED, end)
        if not end:
            return None
        if end["skipped"] == 0:
            cells["loss"] = math.nan
    elif loss == 0:
        del cells["loss"]
    return cells


def _read_fields(text: bytes, columns: Mapping[bytes, str], cells: dict[str, float]) -> None:
    """Read the numbers between these names and the next bar; several times faster than a regular expression."""
    for name, column in columns.items():
        at = text.find(name)
        if at >= 0:
            at += len(name)
            end = text.find(b"|", at)
            if end >= 0:
                cells[column] = number(text[at:end])


def _with_tokens(raw: RawLog) -> RawLog:
    """Add the tokens consumed, where the log counts samples and gives the sequence length."""
    names = raw.table.column_names
    if raw.facts is None or raw.facts.seq_len is None or "tokens" in names or SAMPLES not in names:
        return raw
    samples = numbers(raw.table[SAMPLES])
    tokens = pa.array(samples.values * raw.facts.seq_len, mask=samples.empty, from_pandas=False)
    return replace(raw, table=raw.table.append_column("tokens", tokens))
