"""What a run is trained on: sequences of tokens in an order that a seed decides, and a fixed validation set.

The order of the sequences knows nothing of batch sizes: a run takes them one after another, so two runs with the
same seed see the same tokens in the same order, whatever their batch size and micro-batch.
"""

import platform
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ebfit.errors import BadInputError
from ebfit.sweep.data.corpus import Corpus
from ebfit.sweep.data.folders import Split, files_of, split_by_name, split_of_one, stands_at
from ebfit.sweep.data.stdlib import stdlib_files
from ebfit.sweep.data.synthetic import open_synthetic
from ebfit.sweep.data.text import is_text, part_of_text
from ebfit.sweep.data.token_files import SUFFIXES as TOKEN_SUFFIXES
from ebfit.sweep.data.token_files import open_token_file
from ebfit.sweep.data.tokenizers import BYTES, tokenizer_named

__all__ = ["Data", "open_data"]


class Data(Protocol):
    """What a run is trained on."""

    @property
    def source(self) -> str:
        """What the data are, in a few words for people; not part of the fingerprint."""

    @property
    def fingerprint(self) -> dict[str, Any]:
        """What decides the tokens, fit for JSON: kind, checksum, sizes. Moving or renaming files leaves it as it is."""

    @property
    def vocab_size(self) -> int:
        """Proposed size of the model's vocabulary."""

    @property
    def train_sequences(self) -> int | None:
        """Sequences per epoch; None for data without end."""

    @property
    def warnings(self) -> list[str]:
        """What the user should know about the data."""

    def check_vocabulary(self, vocab_size: int) -> None:
        """Refuse a model's vocabulary that is too small for the data; later tokens are held against it, too.

        Raises
        ------
        BadInputError
            Naming the file and the token.
        """

    def sequences(self, seed: int, first: int, count: int) -> NDArray[np.int32]:
        """Return training sequences ``first`` to ``first + count - 1`` (from 0) in the endless order of a seed.

        Without replacement within an epoch, and in a new order every epoch; sequence ``i`` is of epoch
        ``i // train_sequences``. Any ``first`` may be asked for at any time.

        Returns
        -------
        ndarray of int32, shape (count, seq_len + 1)
            Every sequence holds one token more than it has predictions.

        Raises
        ------
        BadInputError
            If a token is outside the vocabulary, or a file can no longer be read.
        """

    def validation(self) -> NDArray[np.int32]:
        """Return the validation sequences, shape (n, seq_len + 1): the same for every seed, never trained on."""


def open_data(name: str, *, seq_len: int, val_tokens: int, tokenizer: str = BYTES) -> Data:
    """Open data to train on.

    Parameters
    ----------
    name : str
        ``stdlib``, ``synthetic``, ``synthetic:SEED``, or the path of a file or folder of text or tokens.
    seq_len : int
        Tokens per sequence.
    val_tokens : int
        Size of the validation set, a multiple of ``seq_len``.
    tokenizer : str
        For text: ``bytes``, or the name of an encoding of tiktoken.

    Raises
    ------
    BadInputError
        If the data cannot be read, are too few, or an option does not fit.
    """
    if seq_len < 1:
        raise BadInputError(f"--seq-len {seq_len}: must be above 0.")
    if val_tokens < seq_len or val_tokens % seq_len:
        raise BadInputError(
            f"--val-tokens {val_tokens}: must be a multiple of the sequence length {seq_len}, and above 0."
        )
    if not name:
        raise BadInputError("--data: give a path, stdlib, or synthetic.")
    val_sequences = val_tokens // seq_len
    if name.partition(":")[0] == "synthetic":
        _refuse_tokenizer(name, tokenizer)
        data: Data = open_synthetic(name, seq_len, val_sequences)
    elif name == "stdlib":
        data = _open_text(
            f"standard library of Python {platform.python_version()}",
            {"kind": "stdlib", "python": platform.python_version()},
            Split(stdlib_files()),
            seq_len,
            val_sequences,
            tokenizer,
        )
    else:
        return _open_path(Path(name), seq_len, val_sequences, tokenizer)
    if Path(name).exists():
        data.warnings.append(
            f"--data {name}: taken as the {data.source}; for the file or folder of that name, write ./{name}."
        )
    return data


def _open_path(path: Path, seq_len: int, val_sequences: int, tokenizer: str) -> Corpus:
    if stands_at(path) == "folder":
        beside = files_of(path)
        files = [file for file in beside if file.parent == path and _holds_tokens(file)]
        if not files:
            files = [file for file in beside if not _holds_tokens(file) and is_text(file)]
        if not files:
            raise BadInputError(
                f"--data {path}: no text and no {' or '.join(TOKEN_SUFFIXES)} files in this folder. Name the folder "
                "or the file that holds the data."
            )
        split = split_by_name(files)
    else:
        split = split_of_one(path)
    warnings = _warnings(path, split)
    if _holds_tokens(split.training[0]):
        _refuse_tokenizer(str(path), tokenizer)
        return _open_tokens(str(path), split, seq_len, val_sequences, warnings)
    for file in split.training + split.validation:
        if not is_text(file):
            raise BadInputError(
                f"{file}: empty, or no text. Unpack it if it is compressed, save it as UTF-8 if it is UTF-16, and "
                f"save tokens as {' or '.join(TOKEN_SUFFIXES)}."
            )
    return _open_text(str(path), {"kind": "text"}, split, seq_len, val_sequences, tokenizer, warnings)


def _open_text(
    source: str,
    facts: dict[str, Any],
    split: Split,
    seq_len: int,
    val_sequences: int,
    tokenizer_name: str,
    warnings: list[str] | None = None,
) -> Corpus:
    tokenizer = tokenizer_named(tokenizer_name)
    return Corpus(
        source,
        {**facts, "tokenizer": tokenizer.name},
        training=[part_of_text(source, split.training, tokenizer)],
        validation=[part_of_text(source, split.validation, tokenizer)] if split.validation else [],
        seq_len=seq_len,
        val_sequences=val_sequences,
        vocab_size=tokenizer.vocab_size,
        warnings=warnings or [],
    )


def _open_tokens(source: str, split: Split, seq_len: int, val_sequences: int, warnings: list[str]) -> Corpus:
    training = [open_token_file(file) for file in split.training]
    validation = [open_token_file(file) for file in split.validation]
    layouts = sorted({layout for _, layout in training + validation})
    return Corpus(
        source,
        {"kind": "tokens", "layout": ", ".join(layouts)},
        training=[part for part, _ in training],
        validation=[part for part, _ in validation],
        seq_len=seq_len,
        val_sequences=val_sequences,
        vocab_size=None,
        warnings=warnings,
    )


def _warnings(path: Path, split: Split) -> list[str]:
    warnings = []
    if not split.validation:
        warnings.append(
            f"{path}: no validation file, so sequences spread evenly over the data are held out for validation."
        )
    if split.left_out:
        warnings.append(
            f"{path}: {len(split.left_out)} files are neither named train nor val and are left out, such as "
            f"{split.left_out[0].name}."
        )
    json_lines = [file for file in split.training if file.suffix == ".jsonl"]
    if json_lines:
        warnings.append(f"{json_lines[0]}: taken as plain text, with all of its JSON.")
    return warnings


def _holds_tokens(file: Path) -> bool:
    return file.suffix.lower() in TOKEN_SUFFIXES


def _refuse_tokenizer(name: str, tokenizer: str) -> None:
    if tokenizer != BYTES:
        raise BadInputError(f"--tokenizer {tokenizer}: is for text, and --data {name} are tokens already.")
