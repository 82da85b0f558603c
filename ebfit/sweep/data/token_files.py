"""Files of token ids, mapped into memory and never read whole: the formats of common trainers.

========================================  ==============================================================
``.bin``, no header                       nanoGPT: tokens from the first byte on, uint16; uint32 where the
                                          numbers show it
``.bin``, header of 256 int32             llm.c, modded-nanogpt: magic 20240520, version 1: uint16;
                                          magic 20240801, version 7: uint32; then the number of tokens
``.npy``                                  numpy: one dimension, any integer type
========================================  ==============================================================

All little-endian, but for ``.npy``, which says. Pickles are never loaded.
"""

import tokenize
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy_format
from numpy.typing import NDArray

from ebfit.errors import BadInputError
from ebfit.sweep.data.parts import Part, part_of_file

SUFFIXES = (".bin", ".npy")

_HEADER_INTS = 256
_HEADER_BYTES = 4 * _HEADER_INTS
_UINT16, _UINT32 = np.dtype("<u2"), np.dtype("<u4")
_VERSION_AND_DTYPE: dict[int, tuple[int, np.dtype[Any]]] = {20240520: (1, _UINT16), 20240801: (7, _UINT32)}
_EVALUATION_MAGIC = 20240522
_LOOKED_AT = 2**14
_MIN_UINT32 = 256  # tokens, to tell the types apart
_LARGEST_HIGH_HALF = 15  # of a uint32 token: vocabularies are below 2^20


def open_token_file(path: Path) -> tuple[Part, str]:
    """Find the tokens of a file.

    Returns
    -------
    part : Part
    layout : str
        How the file was read, such as "uint16 without header".

    Raises
    ------
    BadInputError
        If the file cannot be read, or is not of a known layout.
    """
    try:
        return _npy(path) if path.suffix.lower() == ".npy" else _bin(path)
    except OSError as error:
        raise BadInputError(f"{path}: cannot be read ({error.strerror}).") from None


def _npy(path: Path) -> tuple[Part, str]:
    try:
        # The header is read as a literal, and an array of Python objects is refused.
        tokens = npy_format.open_memmap(path, mode="r")
    except (ValueError, SyntaxError, tokenize.TokenError, EOFError, OverflowError, MemoryError):
        raise BadInputError(
            f"{path}: not a whole .npy file of integers. Save one with numpy.save; a pickle is not loaded."
        ) from None
    if tokens.ndim != 1 or tokens.dtype.kind not in "iu":
        raise BadInputError(
            f"{path}: holds {tokens.dtype.name} of shape {tokens.shape}; tokens are integers in one dimension."
        )
    if tokens.size == 0:
        raise BadInputError(f"{path}: holds no tokens.")
    part = part_of_file(path, tokens.dtype, tokens.offset, tokens.size)
    return part, f"{tokens.dtype.name} of a .npy file"


def _bin(path: Path) -> tuple[Part, str]:
    size = path.stat().st_size
    if size == 0:
        raise BadInputError(f"{path}: empty.")
    with path.open("rb") as file:
        header = np.frombuffer(file.read(_HEADER_BYTES), np.uint8)
    if len(header) == _HEADER_BYTES and _is_header(header.view("<i4")):
        return _with_header(path, size, header.view("<i4").tolist())
    if size % 2:
        raise BadInputError(
            f"{path}: {size:,} bytes, which is no whole number of uint16 or uint32 tokens. Copy it again, or "
            "save other types as .npy."
        )
    dtype = _UINT32 if size % 4 == 0 and _looks_like_uint32(path, size) else _UINT16
    return part_of_file(path, dtype, 0, size // dtype.itemsize), f"{dtype.name} without header"


def _is_header(numbers: NDArray[np.int32]) -> bool:
    """Say whether 256 numbers begin like one of the known headers, or like a later one of the same kind."""
    is_known = int(numbers[0]) in {*_VERSION_AND_DTYPE, _EVALUATION_MAGIC}
    is_a_date = 20_200_000 < numbers[0] < 21_000_000
    return is_known or bool(is_a_date and not numbers[_HEADER_INTS // 2 :].any())


def _with_header(path: Path, size: int, header: list[int]) -> tuple[Part, str]:
    magic, version, promised = header[:3]
    if magic == _EVALUATION_MAGIC:
        raise BadInputError(f"{path}: questions for an evaluation (header {magic}), not tokens to train on.")
    if magic not in _VERSION_AND_DTYPE or version != _VERSION_AND_DTYPE[magic][0]:
        known = " or ".join(f"{magic} version {known}" for magic, (known, _) in _VERSION_AND_DTYPE.items())
        raise BadInputError(f"{path}: its header says {magic} version {version}; ebfit reads {known}.")
    dtype = _VERSION_AND_DTYPE[magic][1]
    if size - _HEADER_BYTES != promised * dtype.itemsize:
        held = max(0, size - _HEADER_BYTES) // dtype.itemsize
        raise BadInputError(
            f"{path}: its header promises {promised:,} tokens and {held:,} follow. Download or write it again."
        )
    if promised == 0:
        raise BadInputError(f"{path}: holds no tokens.")
    return part_of_file(path, dtype, _HEADER_BYTES, promised), f"{dtype.name} after a header"


def _looks_like_uint32(path: Path, size: int) -> bool:
    """Say whether numbers only make sense as uint32: small high halves beside low halves that are not small.

    Text in uint16 never has a small number in every second place.
    """
    count = min(size // 4, _LOOKED_AT)
    if count < _MIN_UINT32:
        return False
    with path.open("rb") as file:
        for start in (0, size // 2 // 4 * 4, size - 4 * count):
            file.seek(start)
            halves = np.frombuffer(file.read(4 * count), _UINT16)
            low, high = halves[::2], halves[1::2]
            if high.max() > _LARGEST_HIGH_HALF or low.max() <= 4 * _LARGEST_HIGH_HALF:
                return False
    return True
