"""Sequences cut from a corpus: which are trained on, in which order, and which are for validation.

A sequence is a window of seq_len + 1 tokens. Windows follow each other at a stride of seq_len, so that the last
token of one is the first of the next, and every token but a part's first is predicted in one window only. No window
crosses from one part into another; up to seq_len tokens at the end of a part are left over.

Without validation data of their own, windows spread evenly over the corpus are held out: none of the tokens that are
predicted in them is predicted in training. The last token of such a window is the first input of the next.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from ebfit.errors import BadInputError
from ebfit.sweep.data.parts import Part, check_below, check_not_negative, survey

_MAX_OPEN_FILES = 256  # a mapped file takes one of the 1024 that a process may usually have open
_EPOCHS_KEPT = 2  # a batch may reach from one into the next


class Windows:
    """All windows of some parts, numbered from 0.

    Parameters
    ----------
    parts : sequence of Part
    seq_len : int
        Tokens of a window but one.
    """

    def __init__(self, parts: Sequence[Part], seq_len: int) -> None:
        self.parts = parts
        self.counts = [(part.length - 1) // seq_len for part in parts]
        self.count = sum(self.counts)
        self.survey = survey(parts)
        self._seq_len = seq_len
        self._ends = np.cumsum(self.counts)
        self._of_part = lru_cache(_MAX_OPEN_FILES)(self._open)

    @property
    def tokens(self) -> int:
        """Tokens of all parts."""
        return sum(part.length for part in self.parts)

    def rows(self, numbers: NDArray[np.int64], vocab_size: int) -> NDArray[np.int32]:
        """Return windows by their numbers, shape (len(numbers), seq_len + 1).

        Raises
        ------
        BadInputError
            If a token is outside the vocabulary.
        """
        if len(self.parts) == 1:
            return self._rows_of_part(0, numbers, vocab_size)
        rows = np.empty((len(numbers), self._seq_len + 1), np.int32)
        parts = np.searchsorted(self._ends, numbers, side="right")
        for part in np.unique(parts).tolist():
            chosen = parts == part
            first = int(self._ends[part]) - self.counts[part]
            rows[chosen] = self._rows_of_part(part, numbers[chosen] - first, vocab_size)
        return rows

    def check_vocabulary(self, vocab_size: int) -> None:
        """Refuse a vocabulary that lacks a token that was seen; BadInputError names it."""
        for part, largest in zip(self.parts, self.survey.largest, strict=True):
            check_below(part, largest, vocab_size)

    def _open(self, part: int) -> NDArray[Any]:
        return sliding_window_view(self.parts[part].open(), self._seq_len + 1)[:: self._seq_len]

    def _rows_of_part(self, part: int, numbers: NDArray[np.int64], vocab_size: int) -> NDArray[np.int32]:
        rows = self._of_part(part)[numbers]
        if not self.survey.whole:
            check_not_negative(self.parts[part], rows)
            check_below(self.parts[part], int(rows.max()), vocab_size)
        return rows.astype(np.int32)


class Corpus:
    """Training and validation sequences of a corpus; implements `Data`.

    Parameters
    ----------
    source : str
        What the data are, in a few words.
    facts : dict
        What the fingerprint says besides checksums and sizes.
    training, validation : sequence of Part
        Without validation parts, windows of the training parts are held out.
    seq_len, val_sequences : int
    vocab_size : int or None
        None: room for the largest token seen.
    warnings : list of str

    Raises
    ------
    BadInputError
        If there are too few windows for the validation set and one training sequence.
    """

    def __init__(
        self,
        source: str,
        facts: dict[str, Any],
        *,
        training: Sequence[Part],
        validation: Sequence[Part],
        seq_len: int,
        val_sequences: int,
        vocab_size: int | None,
        warnings: list[str],
    ) -> None:
        self.source = source
        self.warnings = warnings
        self._train = Windows(training, seq_len)
        self._val = Windows(validation, seq_len) if validation else self._train
        self._check_size(source, seq_len, val_sequences)
        numbers = np.arange(val_sequences, dtype=np.int64)
        self._val_numbers = (2 * numbers + 1) * self._val.count // (2 * val_sequences)
        held_out = numbers[:0] if validation else self._val_numbers
        # Training sequence t is window t + h where h windows at or before it are held out.
        self._trained_before = held_out - np.arange(len(held_out))
        self.train_sequences = self._train.count - len(held_out)
        largest = max(self._train.survey.largest + self._val.survey.largest)
        self.vocab_size = vocab_size or proposed_vocab_size(largest)
        self._limit = self.vocab_size
        self._order = lru_cache(_EPOCHS_KEPT)(self._shuffled)
        self.fingerprint: dict[str, Any] = {
            **facts,
            "sha256": self._train.survey.sha256,
            "sha256_covers": "all" if self._train.survey.whole else "a sample",
            "tokens": self._train.tokens,
            "train_tokens": self.train_sequences * seq_len,
            "val_tokens": val_sequences * seq_len,
            "validation": "data of its own" if validation else "held out",
        }
        if validation:
            self.fingerprint["validation_sha256"] = self._val.survey.sha256
        short = [part.name for part, count in zip(training, self._train.counts, strict=True) if count == 0]
        if short:
            self.warnings.append(
                f"{source}: {len(short)} of {len(training)} files are shorter than a sequence of {seq_len} + 1 "
                f"tokens and are not used, such as {short[0]}."
            )

    def sequences(self, seed: int, first: int, count: int) -> NDArray[np.int32]:
        """Return sequences ``first`` to ``first + count - 1`` in the order of this seed, shape (count, seq_len + 1).

        An epoch holds every training sequence once; each has an order of its own.

        Raises
        ------
        BadInputError
            If a token is outside the vocabulary, or a file can no longer be read.
        """
        end = first + count
        pieces = []
        while first < end:
            epoch, offset = divmod(first, self.train_sequences)
            piece = self._order(seed, epoch)[offset : offset + end - first]
            pieces.append(piece)
            first += len(piece)
        trained = np.concatenate(pieces).astype(np.int64)
        windows = trained + np.searchsorted(self._trained_before, trained, side="right")
        return self._train.rows(windows, self._limit)

    def validation(self) -> NDArray[np.int32]:
        """Return the validation sequences, shape (n, seq_len + 1); BadInputError as `sequences`."""
        return self._val.rows(self._val_numbers, self._limit)

    def check_vocabulary(self, vocab_size: int) -> None:
        """Refuse a vocabulary that is too small for the data.

        Tokens that have not been seen yet are checked when they are used.

        Raises
        ------
        BadInputError
            Naming the file and the token.
        """
        self._train.check_vocabulary(vocab_size)
        self._val.check_vocabulary(vocab_size)
        self._limit = vocab_size

    def _shuffled(self, seed: int, epoch: int) -> NDArray[Any]:
        order = np.arange(self.train_sequences, dtype=np.min_scalar_type(self.train_sequences))
        np.random.default_rng([seed, epoch]).shuffle(order)
        return order

    def _check_size(self, source: str, seq_len: int, val_sequences: int) -> None:
        needed, unit = val_sequences, f"{val_sequences * seq_len:,} tokens"
        if self._val is self._train:
            if self._train.count <= needed:
                raise BadInputError(
                    f"{source}: {self._train.tokens:,} tokens are too few for a validation set of {unit} and a "
                    f"training sequence of {seq_len} + 1. Give more data, or a smaller --val-tokens."
                )
            return
        if self._val.count < needed:
            raise BadInputError(
                f"{self._val.parts[0].name}: {self._val.tokens:,} tokens are too few for a validation set of "
                f"{unit}. Give a smaller --val-tokens."
            )
        if self._train.count == 0:
            raise BadInputError(
                f"{source}: {self._train.tokens:,} tokens are too few for a training sequence of {seq_len} + 1. "
                "Give more data, or a shorter --seq-len."
            )


def proposed_vocab_size(largest: int) -> int:
    """Return a vocabulary with room for a token: bytes, GPT-2's padded to 50,304, or the next multiple of 128."""
    if largest < 256:
        return 256
    return max(50_304, -(-(largest + 1) // 128) * 128)
