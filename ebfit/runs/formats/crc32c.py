"""CRC-32C (RFC 3720), of many pieces of a file at once.

A checksum is a sum without carries over the bytes of a message, of what each byte adds by its distance from the end.
So it is taken byte by byte for all messages at once, and not for one message after the other.
"""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

_POLYNOMIAL = 0x82F63B78  # bits reversed
_ALL_ONES = 0xFFFFFFFF
# What is longer is rare, and taken byte by byte.
_MANY_UP_TO_BYTES = 512


def crc32c(data: bytes) -> int:
    """Return the checksum of one message."""
    crc = _ALL_ONES
    for byte in data:
        crc = crc >> 8 ^ _TABLE[(crc ^ byte) & 0xFF]
    return crc ^ _ALL_ONES


def crc32c_of_many(data: bytes, starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.uint32]:
    """Return the checksums of pieces of data.

    Parameters
    ----------
    data : bytes
    starts, lengths : arrays, shape (pieces,)

    Returns
    -------
    array, shape (pieces,)
    """
    found = np.zeros(len(starts), np.uint32)
    for index in np.flatnonzero(lengths > _MANY_UP_TO_BYTES):
        found[index] = crc32c(data[starts[index] : starts[index] + lengths[index]])
    longest_first = np.argsort(-lengths, kind="stable")
    longest_first = longest_first[lengths[longest_first] <= _MANY_UP_TO_BYTES]
    if not longest_first.size:
        return found
    sizes = lengths[longest_first]
    last = (starts[longest_first] + sizes) - 1
    by_distance, of_length = _tables()
    crc = of_length[sizes]
    everything = np.frombuffer(data, np.uint8)
    # how many pieces are longer than so many bytes
    longer = np.searchsorted(-sizes, -np.arange(sizes[0]), side="left")
    for distance, count in enumerate(longer.tolist()):
        crc[:count] ^= by_distance[distance][everything[last[:count] - distance]]
    found[longest_first] = crc ^ np.uint32(_ALL_ONES)
    return found


def _table() -> tuple[int, ...]:
    table = []
    for crc in range(256):
        for _ in range(8):
            crc = crc >> 1 ^ (_POLYNOMIAL if crc & 1 else 0)
        table.append(crc)
    return tuple(table)


_TABLE = _table()


@lru_cache(maxsize=1)
def _tables() -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
    """Return what a byte adds by its distance from the end, shape (distances, 256), and what so many zeros are."""
    table = np.array(_TABLE, np.uint32)
    by_distance = np.empty((_MANY_UP_TO_BYTES, 256), np.uint32)
    by_distance[0] = table
    of_length = np.empty(_MANY_UP_TO_BYTES + 1, np.uint32)
    of_length[0] = _ALL_ONES
    for size in range(_MANY_UP_TO_BYTES):
        of_length[size + 1] = of_length[size] >> 8 ^ table[of_length[size] & 0xFF]
        if size:
            by_distance[size] = by_distance[size - 1] >> 8 ^ table[by_distance[size - 1] & 0xFF]
    return by_distance, of_length
