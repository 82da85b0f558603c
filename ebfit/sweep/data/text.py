"""Text files as data: one file, or all the text in a folder."""

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ebfit.errors import BadInputError
from ebfit.sweep.data.parts import Part, part_in_memory, part_of_file
from ebfit.sweep.data.tokenizers import BYTES, Tokenizer

_MAX_BYTES_IN_MEMORY = 4 * 2**30
_HEAD_BYTES = 2**13
_PICKLES = {".pkl", ".pickle", ".pt", ".pth"}


def is_text(path: Path) -> bool:
    """Say whether a file holds text: some bytes, of any encoding, and among the first no zero.

    Raises
    ------
    BadInputError
        If the file cannot be read.
    """
    if path.suffix.lower() in _PICKLES:
        return False
    head = read(path, _HEAD_BYTES)
    return bool(head) and b"\0" not in head


def part_of_text(name: str, files: Sequence[Path], tokenizer: Tokenizer) -> Part:
    """Make one part of text files, with a separator between them.

    The bytes of a single file are mapped into memory; everything else is read.

    Raises
    ------
    BadInputError
        If a file cannot be read, is not UTF-8 where the tokenizer needs that, or all of them are above 4 GiB.
    """
    try:
        size = sum(os.path.getsize(file) for file in files)
    except OSError as error:
        raise BadInputError(f"{error.filename}: cannot be read ({error.strerror}).") from None
    if len(files) == 1 and tokenizer.name == BYTES:
        return part_of_file(files[0], np.dtype(np.uint8), 0, size)
    if size > _MAX_BYTES_IN_MEMORY:
        raise BadInputError(
            f"{name}: {size / 2**30:.1f} GiB of text, more than the 4 GiB that are read into memory. Join the files "
            "into one and take --tokenizer bytes, or save the tokens as .bin or .npy."
        )
    documents = []
    for file in files:
        try:
            documents.append(tokenizer.encode(read(file)))
        except UnicodeDecodeError as error:
            raise BadInputError(
                f"{file}: not UTF-8 at byte {error.start:,}, which --tokenizer {tokenizer.name} needs. Convert it, "
                "or take --tokenizer bytes."
            ) from None
    return part_in_memory(name, tokenizer.join(documents))


def read(path: Path, size: int = -1) -> bytes:
    """Return the first bytes of a file, or all; BadInputError if it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(size)
    except OSError as error:
        raise BadInputError(f"{path}: cannot be read ({error.strerror}).") from None
