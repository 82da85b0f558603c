"""Endless data that a random process makes: nothing repeats, and the least possible loss is known."""

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ebfit.errors import BadInputError
from ebfit.sweep.data.markov import (
    SYMBOLS,
    TRAINING_STREAM,
    VALIDATION_STREAM,
    MarkovProcess,
    random_words,
)

_BLOCK_TOKENS = 2**16
_MAX_SEED = 2**62


class Synthetic:
    """Sequences of a Markov process; implements `Data`.

    Every sequence has random numbers of its own, counted from the start of its run's stream, so that any can be made
    without the ones before it.
    """

    train_sequences = None
    vocab_size = SYMBOLS

    def __init__(self, process_seed: int, seq_len: int, val_sequences: int) -> None:
        self._process = MarkovProcess.of_seed(process_seed)
        self._process_seed = process_seed
        self._seq_len = seq_len
        self._val_sequences = val_sequences
        # A token takes half a word, and Philox makes four words at a time.
        self._words = -(-(seq_len + 2) // 8) * 4
        self._block = max(64, _BLOCK_TOKENS // (seq_len + 1))
        self._made: tuple[tuple[int, int], NDArray[np.int32]] | None = None
        self.source = f"synthetic data of seed {process_seed}"
        self.warnings: list[str] = []
        window, rate = self._process.entropies(seq_len)
        self.fingerprint: dict[str, Any] = {
            "kind": "synthetic",
            "seed": process_seed,
            "sha256": self._process.sha256,
            "entropy_nats_per_token": round(window, 6),
            "entropy_rate_nats_per_token": round(rate, 6),
        }

    def sequences(self, seed: int, first: int, count: int) -> NDArray[np.int32]:
        """Return sequences ``first`` to ``first + count - 1`` of this seed, shape (count, seq_len + 1)."""
        if count >= self._block:
            return self._make(seed, TRAINING_STREAM, first, count)
        # A few at a time are cut from a block: a call of numpy costs as much for 2 sequences as for 100.
        end = first + count
        pieces = []
        while first < end:
            number, offset = divmod(first, self._block)
            piece = self._block_of(seed, number)[offset : offset + end - first]
            pieces.append(piece)
            first += len(piece)
        return np.concatenate(pieces)

    def validation(self) -> NDArray[np.int32]:
        """Return the validation sequences, shape (n, seq_len + 1)."""
        return self._make(0, VALIDATION_STREAM, 0, self._val_sequences)

    def check_vocabulary(self, vocab_size: int) -> None:
        """Refuse a vocabulary that lacks some of the 256 symbols."""
        if vocab_size < SYMBOLS:
            raise BadInputError(
                f"synthetic: holds token {SYMBOLS - 1}, but the model's vocabulary is {vocab_size}. "
                f"Give the model at least {SYMBOLS}."
            )

    def _block_of(self, seed: int, number: int) -> NDArray[np.int32]:
        made = self._made
        if made is None or made[0] != (seed, number):
            made = (seed, number), self._make(seed, TRAINING_STREAM, number * self._block, self._block)
            self._made = made
        return made[1]

    def _make(self, seed: int, stream: int, first: int, count: int) -> NDArray[np.int32]:
        made = np.empty((count, self._seq_len + 1), np.int32)
        for start in range(0, count, self._block):  # as many at a time as the processor's cache holds
            rows = made[start : start + self._block]
            first_word = (first + start) * self._words
            words = random_words((seed, self._process_seed), stream, first_word, len(rows) * self._words)
            halves = words.astype("<u8", copy=False).view("<u4").reshape(len(rows), 2 * self._words)
            rows[:] = self._process.sample(halves[:, : self._seq_len + 2])
        return made


def open_synthetic(name: str, seq_len: int, val_sequences: int) -> Synthetic:
    """Open ``synthetic`` or ``synthetic:SEED``.

    Raises
    ------
    BadInputError
        If the seed is none.
    """
    seed = name.partition(":")[2] or "0"
    if name.endswith(":") or not re.fullmatch("[0-9]{1,19}", seed) or int(seed) >= _MAX_SEED:
        raise BadInputError(f"--data {name}: the seed must be a whole number from 0 to 2^62 - 1.")
    return Synthetic(int(seed), seq_len, val_sequences)
