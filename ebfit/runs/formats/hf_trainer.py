"""Hugging Face Trainer: ``trainer_state.json``, in the output folder and in its ``checkpoint-N`` folders.

What the trainer writes, read in `trainer.py` and `trainer_callback.py` of transformers 5.24.0, 5.0.0, 4.50.0, 4.44.0,
4.36.0 and 4.30.0:

- ``step`` is ``global_step``: the updates made so far, accumulation left out. Nothing is shifted.
- ``loss`` is the mean over the steps since the last record with a loss, and over all processes. It was rounded to
  4 decimals before release 5.
- A loss that is NaN or infinite is replaced by the mean so far (``logging_nan_inf_filter``, on unless turned off). So a
  record of nothing but such losses says 0, and one of some of them looks sound.
- A call of ``train()`` ends with a record whose ``train_loss`` is the mean over all its steps: no point of the curve.
- ``num_input_tokens_seen``, where asked for, counts all processes. Those that share their sequences (tensor or context
  parallel) each count them.
- ``train_batch_size`` is that of one process and one micro-batch.
- Every checkpoint holds all records so far, those before a resumption included.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ebfit.errors import BadInputError
from ebfit.runs.facts import Facts
from ebfit.runs.formats.bytes_of import as_text
from ebfit.runs.formats.json_columns import parse_document
from ebfit.runs.formats.sparse_columns import table_of_records
from ebfit.runs.raw_log import RawLog

NAME = "hf_trainer"
STATE = "trainer_state.json"
TRAINER = "Hugging Face Trainer, and trainers built on it (TRL, Axolotl, LLaMA-Factory)"
EXAMPLE = 'trainer_state.json: {"global_step": 20, "log_history": [{"loss": 3.2, "learning_rate": 0.0003, "step": 10}]}'
_HISTORY = re.compile(rb'"log_history"\s*:\s*\[')
_CHECKPOINT = re.compile(r"checkpoint-\d+")


def sniff(head: bytes, path: Path) -> bool:
    """Claim a JSON object with ``global_step`` and a list ``log_history``."""
    text = as_text(head)
    is_object = text is not None and text.lstrip().startswith("{")
    return is_object and b'"global_step"' in head and _HISTORY.search(head) is not None


def run_of(path: Path) -> Path:
    """Return the output folder: the state files of its checkpoints are one run."""
    folder = path.parent
    return folder.parent if _CHECKPOINT.fullmatch(folder.name) else folder


def belongs(path: Path) -> bool:
    """Tell whether a file lies in a checkpoint: weights, tokenizers and configurations do."""
    in_checkpoint = _CHECKPOINT.fullmatch(path.parent.name) is not None
    return in_checkpoint and path.name != STATE and (path.parent / STATE).is_file()


def read(path: Path) -> list[RawLog]:
    """Read the state of one checkpoint, or of the end of a run.

    Raises
    ------
    BadInputError
        If it is not valid JSON, or has no ``log_history``.
    """
    return read_pieces([path])


def read_pieces(paths: Sequence[Path]) -> list[RawLog]:
    """Read the runs that state files of one output folder are of.

    As every file holds all records so far, a run is read from the file with the most. A file that parts from it at
    some record was written before the run went back to an earlier checkpoint, and is left out with a warning. Files
    that share not even the first record are runs of their own.

    Raises
    ------
    BadInputError
        If one is not valid JSON, or has no ``log_history``.
    """
    states = [_State.of(path) for path in paths]
    # Of two that hold the same, the one outside the checkpoints, with the shorter path, is the run's.
    states.sort(key=lambda state: (-len(state.records), len(state.path.parts), str(state.path)))
    longest: list[_State] = []
    for state in states:
        # A checkpoint from before the first record holds none.
        whole = next((other for other in longest if state.shared_with(other) or not state.records), None)
        if whole is None:
            longest.append(state)
        elif state.shared_with(whole) < len(state.records):
            whole.left.append(state.path)
    return [state.raw_log(alone=len(longest) == 1) for state in longest]


@dataclass
class _State:
    """One state file."""

    path: Path
    records: list[dict[str, Any]]
    no_objects: int
    train_batch_size: Any
    left: list[Path] = field(default_factory=list)  # files of the run that went another way

    @classmethod
    def of(cls, path: Path) -> "_State":
        document = parse_document(path)
        history = document.get("log_history") if isinstance(document, dict) else None
        if not isinstance(history, list):
            raise BadInputError(
                f"{path}: no trainer_state.json of the Hugging Face Trainer: it has no list log_history. Leave out "
                f"--format {NAME}."
            )
        records = [record for record in history if isinstance(record, dict)]
        return cls(path, records, len(history) - len(records), document.get("train_batch_size"))

    def shared_with(self, other: "_State") -> int:
        """Count the records that two files have in common from the beginning."""
        pairs = zip(self.records, other.records, strict=False)
        return next(
            (at for at, (one, another) in enumerate(pairs) if one != another),
            min(len(self.records), len(other.records)),
        )

    def raw_log(self, *, alone: bool) -> RawLog:
        path, folder = self.path, run_of(self.path)
        table, warnings = table_of_records(map(_row, self.records), path)
        return RawLog(
            table,
            lambda row: f"record {row + 1} of log_history",
            facts=Facts(path.name, batch_hint=self._batch_hint()),
            name=folder.absolute().name if alone else f"{folder.absolute().name}/{path.parent.name}",
            folder=folder,
            train_window="interval",
            dropped={"not a JSON object": self.no_objects} if self.no_objects else {},
            warnings=[*self._warnings(), *warnings],
        )

    def _batch_hint(self) -> str:
        size = self.train_batch_size
        shown = f" ({size:g})" if isinstance(size, float) else ""
        return (
            f"The train_batch_size{shown} that the Hugging Face Trainer logs leaves out processes and gradient "
            "accumulation: --batch-tokens is their product with it and the sequence length."
        )

    def _warnings(self) -> list[str]:
        warnings = []
        zeros = sum(record.get("loss") == 0 for record in self.records)
        if zeros:
            warnings.append(
                f"{zeros} records have a loss of exactly 0, which is what the Hugging Face Trainer logs where all "
                "losses were NaN or infinite (logging_nan_inf_filter); they were left out."
            )
        if self.left:
            shown = ", ".join(path.parent.name for path in self.left[:3]) + (
                " ..." if len(self.left) > 3 else ""
            )
            warnings.append(
                f"read from {self.path.parent.name}, which holds the most records; {shown} went another way, as before "
                "a run was resumed from an earlier checkpoint. Name the file to use, to decide otherwise."
            )
        return warnings


def _row(record: dict[str, Any]) -> dict[str, Any]:
    """Return a record without what is no measurement at its step."""
    if record.get("loss") == 0:
        return {**record, "loss": "NaN"}
    if "loss" not in record and "total_flos" in record:
        return {key: value for key, value in record.items() if key != "train_loss"}
    return record
