"""From text to tokens: bytes as they are, or one of tiktoken's encodings where that is installed."""

import importlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ebfit.errors import BadInputError

BYTES = "bytes"
_PIECE_CHARACTERS = 2**20


@dataclass(frozen=True)
class Tokenizer:
    """A way to turn text into tokens.

    Attributes
    ----------
    name : str
    vocab_size : int
    separator : int
        The token between two documents.
    encode : callable
        Takes the bytes of a document and gives its tokens; raises UnicodeDecodeError if it needs UTF-8 and this is
        none.
    """

    name: str
    vocab_size: int
    separator: int
    encode: Callable[[bytes], NDArray[Any]]

    def join(self, documents: Sequence[NDArray[Any]]) -> NDArray[Any]:
        """Return documents one after another, with a separator between them."""
        pieces = [documents[0]]
        for document in documents[1:]:
            pieces += [np.array([self.separator], document.dtype), document]
        return np.concatenate(pieces)


def tokenizer_named(name: str) -> Tokenizer:
    """Return a tokenizer.

    Raises
    ------
    BadInputError
        If it needs tiktoken and that is not installed, does not know it, or cannot download it.
    """
    if name == BYTES:
        # No text holds the byte 0.
        return Tokenizer(
            BYTES, vocab_size=256, separator=0, encode=lambda text: np.frombuffer(text, np.uint8)
        )
    try:
        tiktoken: Any = importlib.import_module("tiktoken")
    except ImportError:
        raise BadInputError(
            f"--tokenizer {name}: needs tiktoken, which is not installed. Install it (pip install tiktoken), or "
            "take --tokenizer bytes."
        ) from None
    if name not in tiktoken.list_encoding_names():
        known = ", ".join([BYTES, *tiktoken.list_encoding_names()])
        raise BadInputError(f"--tokenizer {name}: there is none. Choose one of {known}.")
    try:
        encoding = tiktoken.get_encoding(name)
    except (
        Exception
    ) as error:  # whatever its download of the vocabulary meets: no network, a proxy, a full disk
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:120]
        raise BadInputError(
            f"--tokenizer {name}: tiktoken could not load its vocabulary ({reason}). Run once where there is "
            "internet, with TIKTOKEN_CACHE_DIR set, or take --tokenizer bytes."
        ) from None

    def encode(text: bytes) -> NDArray[Any]:
        pieces = [np.array(encoding.encode_ordinary(piece), np.uint32) for piece in _pieces(text.decode())]
        return np.concatenate(pieces)

    # Padded, as matrices of odd sizes are slow on a GPU.
    padded = -(-encoding.n_vocab // 128) * 128
    return Tokenizer(name, padded, encoding.eot_token, encode)


def _pieces(text: str) -> Iterator[str]:
    """Cut a long text after newlines: tiktoken's memory grows with what it is given at once."""
    start = 0
    while start < len(text):
        newline = text.find("\n", start + _PIECE_CHARACTERS)
        end = len(text) if newline < 0 else newline + 1
        yield text[start:end]
        start = end
