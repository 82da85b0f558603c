"""The bytes of a log file: unpacked, within reason, and errors as sentences."""

import io
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import IO, Any, cast

import pyarrow as pa

from ebfit.errors import BadInputError
from ebfit.runs.formats.limits import MAX_LOG_BYTES, MAX_UNPACKED_BYTES

HEAD_BYTES = 64 * 2**10
_GZIP_MAGIC = b"\x1f\x8b"
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_LOOKED_AT = 8 * 2**10
_CONTROL = bytes(byte for byte in range(32) if byte not in b"\t\n\r\f\x1b")


@contextmanager
def open_log(path: Path) -> Iterator[IO[bytes]]:
    """Open a log to read its bytes, unpacked.

    Raises
    ------
    BadInputError
        If it is no regular file, cannot be read, is a broken gzip or zstd file, or holds more than any log does.
    """
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            # Opening a pipe or a device could wait for ever.
            raise BadInputError(f"{path}: not a regular file. Save the log to a file and name that.")
        if status.st_size > MAX_LOG_BYTES:
            raise BadInputError(f"{path}: larger than 8 GiB. Log less often, or cut the file into runs.")
        # Without a buffer: the rest of a file would be put behind it, which takes a second copy of the file.
        with path.open("rb", buffering=0) as file:
            magic = file.read(4)
            file.seek(0)
            if magic.startswith(_GZIP_MAGIC):
                yield cast(IO[bytes], _Limited(path, _Unpacked(path, file, "gzip")))
            elif magic == _ZSTD_MAGIC:
                yield cast(IO[bytes], _Limited(path, _Unpacked(path, file, "zstd")))
            else:
                yield io.BufferedReader(file)
    except OSError as error:
        raise BadInputError(f"{path}: cannot be read ({error.strerror or error}).") from None


def read_head(path: Path) -> bytes:
    """Return the first bytes of a file; BadInputError as `open_log`."""
    with open_log(path) as file:
        return file.read(HEAD_BYTES)


def read_bytes(path: Path) -> bytes:
    """Return all bytes of a file; BadInputError as `open_log`."""
    with open_log(path) as file:
        return file.read()


def last_line(path: Path) -> bytes:
    """Return what stands after the last newline: nothing, unless the writer was stopped in mid-line."""
    with open_log(path) as file:
        if not isinstance(file, _Limited):
            size = file.seek(0, io.SEEK_END)
            file.seek(max(0, size - HEAD_BYTES))
            tail = file.read()
            if b"\n" in tail or size <= HEAD_BYTES:
                return tail[tail.rfind(b"\n") + 1 :]
            file.seek(0)
        data = file.read()
        return data[data.rfind(b"\n") + 1 :]


def native_file(path: Path) -> Any:
    """Open a log as a file that pyarrow reads without coming back to Python.

    Its reading threads live on after a parse. One that asks a Python file for bytes while the interpreter shuts
    down takes the process with it ("terminate called"), once in a hundred runs.
    """
    with open_log(path) as file:
        # pyarrow cannot open a name that is not UTF-8 either.
        if isinstance(file, _Limited) or not os.fsencode(path).isascii():
            return native_bytes(file.read())
        return pa.OSFile(str(path), "rb")


def native_bytes(data: bytes) -> Any:
    """Copy bytes to where pyarrow may keep them as long as it likes; see `native_file`."""
    stream = pa.BufferOutputStream()
    stream.write(data)
    return pa.BufferReader(stream.getvalue())


@lru_cache(maxsize=2)  # every format asks, for the whole head or part of it
def as_text(head: bytes) -> str | None:
    """Decode the first bytes of a file; None if they are not text.

    Bytes of another encoding are let pass, as they may stand in comments or a run's name.
    """
    if b"\0" in head:
        return None
    head = head[:_LOOKED_AT]
    text = head.decode("utf-8-sig", errors="replace")
    strange = text.count("\ufffd") + len(head) - len(head.translate(None, _CONTROL))
    return None if strange > 1 + len(text) // 4 else text


class _Unpacked:
    """The unpacked bytes of a gzip or zstd file; its errors are told from those of the disk.

    Python's gzip module reads headers byte by byte, and a file may consist of them.
    """

    def __init__(self, path: Path, file: IO[bytes], kind: str) -> None:
        self._path = path
        self._kind = kind
        self._stream = pa.CompressedInputStream(pa.PythonFile(file, "r"), kind)

    def read(self, size: int) -> bytes:
        try:
            data: bytes = self._stream.read(size)
        except (OSError, pa.ArrowException) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise
            what = (
                f"the {self._kind} file ends too early"
                if "Truncated" in str(error)
                else f"a damaged {self._kind} file"
            )
            raise BadInputError(f"{self._path}: {what}. Copy it again, or unpack what is left.") from None
        return data


class _Limited(io.RawIOBase):
    """An unpacked file that refuses to grow without end, as a decompression bomb does."""

    def __init__(self, path: Path, file: Any) -> None:
        self._path = path
        self._file = file
        self._left = MAX_UNPACKED_BYTES

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        data: bytes = self._file.read(min(size, self._left + 1) if size >= 0 else self._left + 1)
        self._left -= len(data)
        if self._left < 0:
            raise BadInputError(
                f"{self._path}: unpacks to more than 256 MiB. Unpack it yourself if it is a log."
            )
        return data
