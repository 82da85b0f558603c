"""A part is a run of tokens that lie one after another: a file of them, or text joined in memory."""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ebfit.errors import BadInputError

READ_WHOLE_BYTES = 2**30
_SAMPLED_BLOCKS = 1024  # over all parts, when they are too many bytes to read
_MIN_BLOCKS_PER_PART = 4
_BLOCK_BYTES = 2**16
_LARGEST_VOCABULARY = 2**31 - 2**10  # tokens are 32-bit integers; some room is left for padding


@dataclass(frozen=True)
class Part:
    """Tokens that lie one after another.

    Attributes
    ----------
    name : str
        For messages: the path of a file, or what the text is.
    length : int
        Tokens.
    dtype : numpy dtype
        An integer.
    open : callable
        Returns the tokens, shape (length,); a file is mapped into memory, not read.
    """

    name: str
    length: int
    dtype: np.dtype[Any]
    open: Callable[[], NDArray[Any]]


@dataclass(frozen=True)
class Survey:
    """What is known of parts after a look at their tokens.

    Attributes
    ----------
    sha256 : str
        Checksum of lengths, types and the tokens that were read.
    largest : tuple of int
        Largest token of each part, among those read.
    whole : bool
        Whether every token was read. Of data above 1 GiB, evenly spaced blocks are.
    """

    sha256: str
    largest: tuple[int, ...]
    whole: bool


def part_in_memory(name: str, tokens: NDArray[Any]) -> Part:
    """Make a part of tokens that are in memory."""
    return Part(name, len(tokens), tokens.dtype, lambda: tokens)


def part_of_file(path: Path, dtype: np.dtype[Any], offset_bytes: int, length: int) -> Part:
    """Make a part of a file that holds nothing but tokens after an offset."""

    def open_file() -> NDArray[Any]:
        try:
            return np.asarray(np.memmap(path, dtype, "r", offset_bytes, (length,)))
        except (OSError, ValueError) as error:  # ValueError: shorter than it was when the run began
            raise BadInputError(f"{path}: can no longer be read ({error}).") from None

    return Part(str(path), length, dtype, open_file)


def survey(parts: Sequence[Part]) -> Survey:
    """Read all tokens, or evenly spaced blocks of them where they are more than 1 GiB.

    Raises
    ------
    BadInputError
        If a token is negative or too large to be one, or a file cannot be read.
    """
    whole = sum(part.length * part.dtype.itemsize for part in parts) <= READ_WHOLE_BYTES
    blocks_per_part = max(_MIN_BLOCKS_PER_PART, _SAMPLED_BLOCKS // len(parts))
    checksum = hashlib.sha256()
    largest = []
    for part in parts:
        checksum.update(f"{part.length} {part.dtype.name}\n".encode())
        tokens = part.open()
        top = 0
        for block in _blocks(tokens, None if whole else blocks_per_part):
            check_not_negative(part, block)
            top = max(top, int(block.max()))
            check_small(part, top)
            checksum.update(block.astype(part.dtype.newbyteorder("<"), copy=False).data)
        largest.append(top)
    return Survey(checksum.hexdigest(), tuple(largest), whole)


def check_not_negative(part: Part, tokens: NDArray[Any]) -> None:
    """Refuse tokens of which one is negative.

    Raises
    ------
    BadInputError
        Naming the token.
    """
    if part.dtype.kind == "i" and (lowest := int(tokens.min())) < 0:
        raise BadInputError(f"{part.name}: holds token {lowest}; tokens are 0 or above.")


def check_small(part: Part, largest: int) -> None:
    """Refuse a number that cannot be a token.

    Raises
    ------
    BadInputError
        Naming it.
    """
    if largest >= _LARGEST_VOCABULARY:
        raise BadInputError(f"{part.name}: holds {largest}, which is no token: no vocabulary is that large.")


def check_below(part: Part, largest: int, vocab_size: int) -> None:
    """Refuse a token that the model does not know.

    Raises
    ------
    BadInputError
        Naming it and the vocabulary.
    """
    if largest >= vocab_size:
        raise BadInputError(
            f"{part.name}: holds token {largest}, but the model's vocabulary is {vocab_size}: set vocab_size "
            f"to at least {largest + 1}, or give data made with another tokenizer."
        )


def _blocks(tokens: NDArray[Any], at_most: int | None) -> Iterator[NDArray[Any]]:
    """Cut tokens into blocks; all of them, or so many evenly spaced ones, the first and the last included."""
    size = _BLOCK_BYTES // tokens.dtype.itemsize
    count = -(-len(tokens) // size)
    if at_most is None or count <= at_most:
        yield from (tokens[start : start + size] for start in range(0, len(tokens), size))
        return
    for number in range(at_most):
        start = (len(tokens) - size) * number // (at_most - 1)
        yield tokens[start : start + size]
