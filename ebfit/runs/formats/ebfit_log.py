"""ebfit's own log: ``<run>/metrics.jsonl`` beside ``<run>/run.json``.

It is JSON lines with fixed keys. The format exists under its own name so that `inspect` says which runs
ebfit itself made; the run.json is read beside any log, see `ebfit.runs.facts`.
"""

from pathlib import Path

from ebfit.runs.formats import json_lines
from ebfit.runs.raw_log import RawLog

NAME = "ebfit"
TRAINER = "ebfit sweep"
EXAMPLE = (
    '<run>/metrics.jsonl: {"step": 10, "tokens": 640, "batch_tokens": 64, "lr": 0.01, "train_loss": 3.2}'
)
_KEYS = {"step", "tokens", "batch_tokens", "lr", "train_loss"}


def sniff(head: bytes, path: Path) -> bool:
    """Claim JSON lines whose first record has all keys of our log."""
    first = json_lines.first_record(head)
    return first is not None and first.keys() >= _KEYS


def read(path: Path) -> list[RawLog]:
    """Read an ebfit log.

    Raises
    ------
    BadInputError
        As `json_lines.read`.
    """
    return json_lines.read(path)
