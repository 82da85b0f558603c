"""The framing of TensorFlow's records: length, checksum of the length, data, checksum of the data.

The checksum is CRC-32C (RFC 3720), rotated and shifted by a constant.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO

# What no record of numbers is larger than; images and histograms may be.
MAX_RECORD_BYTES = 16 * 2**20
_HEADER = struct.Struct("<QI")
_CHECKSUM = struct.Struct("<I")
_PIECE = 2**20
_POLYNOMIAL = 0x82F63B78  # of CRC-32C, bits reversed


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
class Record:
    """A record.

    Attributes
    ----------
    data : bytes
        Its data, unchecked, as most of a file may be images: see `sound`.
    checksum : int
        What the data was when it was written.
    """

    data: bytes
    checksum: int

    def sound(self) -> bool:
        """Tell whether the data is what was written."""
        return masked_crc(self.data) == self.checksum


def first_record(head: bytes) -> bytes | None:
    """Return the first record of a file by its first bytes; None if they are no sound record."""
    if len(head) < _HEADER.size:
        return None
    length, checksum = _HEADER.unpack_from(head)
    end = _HEADER.size + length
    if end + _CHECKSUM.size > len(head) or masked_crc(head[:8]) != checksum:
        return None
    record = Record(head[_HEADER.size : end], *_CHECKSUM.unpack_from(head, end))
    return record.data if record.sound() else None


def records(file: IO[bytes]) -> Iterator[Record | TornRecord]:
    """Read the records of a file; those beyond `MAX_RECORD_BYTES` are passed over.

    A `TornRecord`, if there is one, is the last.
    """
    at = 0
    while header := _exactly(file, _HEADER.size):
        if len(header) < _HEADER.size:
            yield TornRecord(at, lost=False)
            return
        length, checksum = _HEADER.unpack(header)
        if masked_crc(header[:8]) != checksum:
            yield TornRecord(at, lost=True)
            return
        data = _exactly(file, length) if length <= MAX_RECORD_BYTES else b""
        whole = len(data) == length or _skip(file, length)
        end = _exactly(file, _CHECKSUM.size) if whole else b""
        if len(end) < _CHECKSUM.size:
            yield TornRecord(at, lost=False)
            return
        if length <= MAX_RECORD_BYTES:
            yield Record(data, *_CHECKSUM.unpack(end))
        at += _HEADER.size + length + _CHECKSUM.size


def _exactly(file: IO[bytes], size: int) -> bytes:
    """Read so many bytes, fewer only at the end of the file."""
    data = file.read(size)
    while len(data) < size and (more := file.read(size - len(data))):
        data += more
    return data


def _skip(file: IO[bytes], length: int) -> bool:
    """Pass over bytes; False if the file has fewer."""
    if length <= MAX_RECORD_BYTES:
        return False
    while length:
        skipped = len(file.read(min(length, _PIECE)))
        if not skipped:
            return False
        length -= skipped
    return True


def _table() -> tuple[int, ...]:
    table = []
    for crc in range(256):
        for _ in range(8):
            crc = crc >> 1 ^ (_POLYNOMIAL if crc & 1 else 0)
        table.append(crc)
    return tuple(table)


_TABLE = _table()


def masked_crc(data: bytes) -> int:
    """Return the checksum of data as it stands in the records."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ _TABLE[(crc ^ byte) & 0xFF]
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
