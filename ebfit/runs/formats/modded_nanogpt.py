"""The log of KellerJordan/modded-nanogpt, and of scripts made from it, such as those of the parameter golf.

A validation prints as ``step:125/1750 val_loss:4.1234 train_time:..``, a step as ``step:1/1750 train_loss:10.8258
train_time:..``. The script itself stands at the top of its log.

Read in ``train_gpt.py`` of modded-nanogpt (2024 to 2026) and in logs of its records. Steps count optimizer updates
from 1; a validation at step N comes after N of them. The train loss is that of the last micro-batch of the first
process alone: noisier than that of the batch, not biased. Since December 2024 steps print no loss, only their time,
and validations are all there is. The learning rate is not printed.

The batch size is known where a line gives it (``train_batch_tokens:524288 train_seq_len:1024``), or where the script
at the top does in the words of 2024 (``batch_size : int = 8*64 # batch size, in sequences, across all devices``).
Scripts of 2025 and later raise it during the run.
"""

import re
from pathlib import Path

from ebfit.runs.formats.printed_settings import runs_with_settings
from ebfit.runs.formats.text_lines import nothing_found, opening, read_text_log
from ebfit.runs.formats.text_rows import rows_of_matches
from ebfit.runs.raw_log import RawLog

NAME = "modded_nanogpt"
TRAINER = "modded-nanogpt"
EXAMPLE = "step:125/1750 val_loss:4.1234 train_time:10012ms step_avg:80.10ms"

_RECORD = re.compile(
    rb"step:(?P<step>\d+)/\d+ (?:train_loss:(?P<loss>\S+?)|val_loss:(?P<val_loss>\S+?))(?=\s|step:|$)"
)
_ANCHORS = (b" train_loss:", b" val_loss:")
_SETTINGS = {
    b"train_batch_tokens:": re.compile(
        rb"train_batch_tokens:(?P<batch_tokens>\d+)(?: train_seq_len:(?P<seq_len>\d+))?"
    ),
    b"batch_size : int = ": re.compile(
        rb"batch_size : int = (?P<batch_sequences>[\d* ]+?) *# batch size, in sequences, across all devices"
    ),
    b"sequence_length : int = ": re.compile(rb"sequence_length : int = (?P<seq_len>[\d* ]+?) *#"),
}


def sniff(head: bytes, path: Path) -> bool:
    """Claim text that holds a step with a loss as modded-nanogpt prints it."""
    log = opening(head, path)
    return log is not None and any(True for _ in log.matches(_RECORD, *_ANCHORS))


def read(path: Path) -> list[RawLog]:
    """Read the runs of a log.

    Raises
    ------
    NotALogError
        If there is no step with a loss in it.
    """
    log = read_text_log(path)
    rows = rows_of_matches(log, _RECORD, *_ANCHORS)
    if not rows:
        raise nothing_found(path, NAME, EXAMPLE)
    return runs_with_settings(rows, log, path, _SETTINGS, train_window=1)
