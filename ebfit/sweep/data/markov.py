"""A random process over 256 symbols that a small model learns bit by bit, and whose entropy is known.

The next symbol depends on the two before it::

    p(x_t | x_{t-1}, x_{t-2}) = share A[x_{t-1}] + (1 - share) B[x_{t-2}]

Each row of A and B is a Zipf-like distribution over the symbols, the likeliest first in an order that comes from
integer features of both symbols: a popularity that all rows share, then features of falling weight. So there is
something to learn at every stage of a training run, down to rare symbols. All of this is our own choice.

The same symbols come out on every machine. Probabilities are integers out of 2^24, symbols are drawn by Walker's
alias method in integers, and the random bits are those of the Philox generator, which is fixed by its paper (Salmon
et al. 2011). Floating-point numbers find the stationary distribution, by sums of a fixed order, and state entropies.
"""

import hashlib
import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

SYMBOLS = 256
UNITS = 2**24  # of probability in a row
SHARE = 160  # of A in the mixture, out of 256
_COLUMN_UNITS = UNITS // SYMBOLS  # of probability in a column of an alias table
_FEATURES = 16
_POPULARITY = 40_000_000  # makes its standard deviation six tenths of that of what the features add up to
_MARGINAL_ROW = 2 * SYMBOLS

# Random numbers of one kind never serve as another.
TABLES_STREAM, TRAINING_STREAM, VALIDATION_STREAM = 0, 1, 2

Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class MarkovProcess:
    """The process, by its seed; see the head of this file.

    Attributes
    ----------
    one_back, two_back : ndarray of int, shape (256, 256)
        A and B: row, the symbol that is looked back at; column, the next symbol; out of 2^24.
    marginal : ndarray of int, shape (256,)
        Stationary distribution of one symbol, out of 2^24.
    """

    one_back: Integers
    two_back: Integers
    marginal: Integers
    _alias: NDArray[np.uint32]

    @classmethod
    @lru_cache(maxsize=2)  # with its entropies it takes half a second
    def of_seed(cls, seed: int) -> "MarkovProcess":
        """Make the process with this seed, from 0 to 2^62 - 1."""
        zipf = _zipf_weights()
        thresholds, aliases = alias_table(zipf)
        order = _orders(seed)  # (512, 256): the symbols of each row, the likeliest first
        rows = np.empty((2 * SYMBOLS, SYMBOLS), np.int64)
        np.put_along_axis(rows, order, np.broadcast_to(zipf, order.shape), axis=1)
        packed = np.empty((2 * SYMBOLS + 1, SYMBOLS), np.int64)
        np.put_along_axis(packed[:_MARGINAL_ROW], order, (thresholds << 8) | order[:, aliases], axis=1)
        one_back, two_back = rows[:SYMBOLS], rows[SYMBOLS:]
        marginal = _stationary(one_back, two_back)
        thresholds, aliases = alias_table(marginal)
        packed[_MARGINAL_ROW] = (thresholds << 8) | aliases
        return cls(one_back, two_back, marginal, packed.astype(np.uint32))

    @property
    def sha256(self) -> str:
        """Checksum of all probabilities."""
        tables = np.concatenate([self.one_back.ravel(), self.two_back.ravel(), self.marginal, [SHARE]])
        return hashlib.sha256(tables.astype("<u4").tobytes()).hexdigest()

    def sample(self, bits: NDArray[np.uint32]) -> NDArray[np.int32]:
        """Turn random bits into sequences.

        Each starts with two independent symbols of the stationary distribution, of which the first is not shown:
        then every symbol of a sequence has that distribution.

        Parameters
        ----------
        bits : ndarray of uint32, shape (count, length + 1)

        Returns
        -------
        ndarray of int32, shape (count, length)
        """
        # Bits 0-7 choose a column of the alias table, 8-23 between its two symbols, 24-31 between A and B.
        by_step = np.ascontiguousarray(bits.T)
        columns = by_step & 0xFF
        heights = (by_step >> 8) & 0xFFFF
        looks_one_back = (by_step >> 24) < SHARE
        symbols = np.empty(by_step.shape, np.uint32)
        flat = self._alias.ravel()
        for step, column in enumerate(columns):
            if step < 2:
                cell = column + np.uint32(_MARGINAL_ROW * SYMBOLS)
            else:
                row = np.where(
                    looks_one_back[step], symbols[step - 1], symbols[step - 2] + np.uint32(SYMBOLS)
                )
                cell = (row << 8) | column
            entry = flat[cell]
            symbols[step] = np.where(heights[step] < entry >> 8, column, entry & 0xFF)
        return np.ascontiguousarray(symbols[1:].T).astype(np.int32)

    def entropies(self, targets: int) -> tuple[float, float]:
        """Return the least possible loss, in nats per token.

        The first target of a sequence is predicted from one symbol, the others from two or more.

        Returns
        -------
        window : float
            Mean over a sequence of that many targets.
        rate : float
            Far from the start: the entropy rate of the process.
        """
        losses = self._least_losses
        later = max(0, targets - len(losses))
        return (sum(losses[:targets]) + later * losses[-1]) / targets, losses[-1]

    @cached_property
    def _least_losses(self) -> list[float]:
        """Least possible loss at the first target of a sequence, the second, and so on until it no longer changes."""
        share = SHARE / 256
        one_back, two_back, marginal = (
            table / UNITS for table in (self.one_back, self.two_back, self.marginal)
        )
        first = share * one_back + (1 - share) * (marginal @ two_back)
        of_next = np.array([_entropy(share * one_back + (1 - share) * row) for row in two_back])
        # [x_{t-2}, x_{t-1}] where t is the first target: the symbol that is not shown, and the first one.
        pairs = np.outer(marginal, marginal)
        losses = [float(marginal @ _entropy(first))]
        while len(losses) < 3 or abs(losses[-1] - losses[-2]) > 1e-12:
            pairs = share * pairs.sum(axis=0)[:, None] * one_back + (1 - share) * pairs.T @ two_back
            losses.append(float((pairs * of_next).sum()))
        return losses


def random_words(seeds: tuple[int, int], stream: int, first: int, count: int) -> NDArray[np.uint64]:
    """Return 64-bit random words ``first`` to ``first + count - 1`` of a stream.

    Parameters
    ----------
    seeds : tuple of int
        Of the run, below 2^64, and of the process, below 2^62.
    stream : int
        What the numbers are for.
    first : int
        A multiple of 4: Philox makes four words at a time.
    count : int
    """
    run_seed, process_seed = seeds
    key = np.array([run_seed, 4 * process_seed + stream], np.uint64)
    words: Any = np.random.Philox(key=key, counter=first // 4).random_raw(count)
    return words


def _zipf_weights() -> Integers:
    """Return integers that add up to 2^24 and fall as 1 / rank^2."""
    raw = [10**12 // rank**2 for rank in range(1, SYMBOLS + 1)]
    weights = [UNITS * weight // sum(raw) for weight in raw]
    weights[0] += UNITS - sum(weights)
    return np.array(weights, np.int64)


def _orders(seed: int) -> Integers:
    """Return the symbols of each row, the likeliest first: the rows of A, then those of B."""
    words = random_words((0, seed), TABLES_STREAM, 0, 4 * SYMBOLS * _FEATURES)
    # The sum of a word's four quarters: nearly normal.
    quarters = words[:, None] >> np.array([0, 16, 32, 48], np.uint64) & np.uint64(0xFFFF)
    features = (quarters.astype(np.int64).sum(axis=1) - 2 * 0xFFFF).reshape(4, SYMBOLS, _FEATURES)
    looked_back_at, following, popularity = features[:2], features[2], features[3, :, 0]
    weights = np.array([math.isqrt(10**6 // number) for number in range(1, _FEATURES + 1)])
    scores = (looked_back_at * weights) @ following.T + _POPULARITY * popularity
    return np.argsort(-scores.reshape(2 * SYMBOLS, SYMBOLS), axis=1, kind="stable")


def alias_table(weights: Integers) -> tuple[Integers, Integers]:
    """Return for every column how much of it is its own symbol's, of 2^16, and whose symbol the rest is.

    Vose's construction (1991), in integers.
    """
    left = weights.tolist()
    thresholds, aliases = [_COLUMN_UNITS] * SYMBOLS, list(range(SYMBOLS))
    small = [symbol for symbol in range(SYMBOLS) if left[symbol] < _COLUMN_UNITS]
    large = [symbol for symbol in range(SYMBOLS) if left[symbol] > _COLUMN_UNITS]
    while small and large:
        symbol, donor = small.pop(), large[-1]
        thresholds[symbol], aliases[symbol] = left[symbol], donor
        left[donor] -= _COLUMN_UNITS - left[symbol]
        if left[donor] <= _COLUMN_UNITS:
            large.pop()
            if left[donor] < _COLUMN_UNITS:
                small.append(donor)
    return np.array(thresholds, np.int64), np.array(aliases, np.int64)


def _stationary(one_back: Integers, two_back: Integers) -> Integers:
    """Return the stationary distribution of one symbol: that of a chain with the mixture of both tables.

    Sums run symbol by symbol, so that the result does not depend on how a machine orders a dot product.
    """
    mixture = (SHARE * one_back + (256 - SHARE) * two_back) / (256.0 * UNITS)
    distribution = np.full(SYMBOLS, 1.0 / SYMBOLS)
    for _ in range(200):
        after = np.zeros(SYMBOLS)
        for probability, row in zip(distribution, mixture, strict=True):
            after += probability * row
        moved = np.abs(after - distribution).max()
        distribution = after
        if moved < 1e-15:
            break
    units = np.rint(distribution * UNITS).astype(np.int64)
    units[np.argmax(units)] += UNITS - units.sum()
    return units


def _entropy(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    return -(rows * np.log(rows)).sum(axis=-1)
