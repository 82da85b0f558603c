"""The framing of TensorFlow's records: length, checksum of the length, data, checksum of the data.

The checksum is CRC-32C, rotated and shifted by a constant. Records are found one after the other, as one says where the
next begins; what is checked is checked for all records of a block of the file at once.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO

import numpy as np
from numpy.typing import NDArray

from ebfit.runs.formats.crc32c import crc32c, crc32c_of_many
from ebfit.runs.formats.limits import MAX_RECORD_BYTES

_HEADER = struct.Struct("<QI")
_LENGTH = struct.Struct("<Q")
_CHECKSUM = struct.Struct("<I")
_AROUND = _HEADER.size + _CHECKSUM.size
_SKIPPED_AT_ONCE = 2**20


@dataclass(frozen=True)
class TornRecord:
    """What is found in place of a record.

    Attributes
    ----------
    at : int
        Byte of the file at which it begins.
    lost : bool
        Its length is not known, so that nothing after it can be found; otherwise the file ends within it.
    """

    at: int
    lost: bool


@dataclass(frozen=True)
class Block:
    """The records of a piece of a file.

    Attributes
    ----------
    data : bytes
        The piece.
    starts, lengths : arrays, shape (records,)
        Where in it the data of each record stands. It is unchecked, as most of a file may be images: see `sound`.
    """

    data: bytes
    starts: NDArray[np.int64]
    lengths: NDArray[np.int64]

    def sound(self, which: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Tell whether the data of some records, by index, is what was written."""
        starts, lengths = self.starts[which], self.lengths[which]
        written = _checksums(self.data, starts + lengths)
        return _masked(crc32c_of_many(self.data, starts, lengths)) == written


def first_record(head: bytes) -> bytes | None:
    """Return the first record of a file by its first bytes; None if they are no sound record."""
    if len(head) < _HEADER.size:
        return None
    length, checksum = _HEADER.unpack_from(head)
    end = _HEADER.size + length
    if end + _CHECKSUM.size > len(head) or masked_crc(head[: _LENGTH.size]) != checksum:
        return None
    data = head[_HEADER.size : end]
    return data if masked_crc(data) == _CHECKSUM.unpack_from(head, end)[0] else None


def blocks(file: IO[bytes], piece_bytes: int = 2**22) -> Iterator[Block | TornRecord]:
    """Read the records of a file; those beyond `MAX_RECORD_BYTES` are passed over.

    Parameters
    ----------
    file : file
    piece_bytes : int
        How much of it is read at once.

    Yields
    ------
    Block or TornRecord
        The latter, if there is one, is the last.
    """
    at = 0  # where `data` begins in the file
    data = b""
    while piece := file.read(piece_bytes):
        data += piece
        block, end = _records_of(data)
        if len(block.starts):
            yield block
        data = data[end:]
        at += end
        if len(data) < _HEADER.size:
            continue
        length, checksum = _HEADER.unpack_from(data)
        if masked_crc(data[: _LENGTH.size]) != checksum:
            yield TornRecord(at, lost=True)
            return
        if length > MAX_RECORD_BYTES:
            if not _skip(file, length + _AROUND - len(data)):
                break
            at += length + _AROUND
            data = b""
    if data:
        yield TornRecord(at, lost=False)


def masked_crc(data: bytes) -> int:
    """Return the checksum of data as it stands in the records."""
    return int(_masked(np.array([crc32c(data)], np.uint32))[0])


def _masked(crc: NDArray[np.uint32]) -> NDArray[np.uint32]:
    rotated = np.bitwise_or(crc >> np.uint32(15), crc << np.uint32(17))
    return np.add(rotated, np.uint32(0xA282EAD8), dtype=np.uint32)


def _records_of(data: bytes) -> tuple[Block, int]:
    """Return the records that stand in a piece of a file from its beginning on, and where they end."""
    begin = []
    at, last = 0, len(data) - _AROUND
    while at <= last:
        begin.append(at)
        at += _AROUND + _LENGTH.unpack_from(data, at)[0]
    if at > len(data):
        at = begin.pop()
    bounds = np.array([*begin, at], np.int64)
    headers = bounds[:-1]
    written = _checksums(data, headers + _LENGTH.size)
    sound = _masked(crc32c_of_many(data, headers, np.full(len(headers), _LENGTH.size))) == written
    count = len(headers) if sound.all() else int(np.argmin(sound))
    lengths = np.diff(bounds[: count + 1]) - _AROUND
    return Block(data, headers[:count] + _HEADER.size, lengths), int(bounds[count])


def _checksums(data: bytes, starts: NDArray[np.int64]) -> NDArray[np.uint32]:
    numbers: NDArray[np.uint32] = bytes_at(data, starts, _CHECKSUM.size).view(np.uint32)[:, 0]
    return numbers


def bytes_at(data: bytes, starts: NDArray[np.int64], size: int) -> NDArray[np.uint8]:
    """Return so many bytes at some places, shape (places, size)."""
    if not len(starts):  # of data that may be shorter than that
        return np.zeros((0, size), np.uint8)
    everything = np.frombuffer(data, np.uint8)
    return np.lib.stride_tricks.sliding_window_view(everything, size)[starts]


def _skip(file: IO[bytes], length: int) -> bool:
    """Pass over bytes; False if the file has fewer."""
    while length > 0:
        skipped = len(file.read(min(length, _SKIPPED_AT_ONCE)))
        if not skipped:
            return False
        length -= skipped
    return True
