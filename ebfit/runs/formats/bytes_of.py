"""The bytes of a log file: unpacked, within reason, and errors as sentences."""

import gzip
import stat
import zlib
from pathlib import Path

from ebfit.errors import BadInputError

HEAD_BYTES = 256 * 2**10
MAX_LOG_BYTES = 8 * 2**30
MAX_UNPACKED_BYTES = 2 * 2**30
_GZIP_MAGIC = b"\x1f\x8b"
_CHUNK = 16 * 2**20


def read_head(path: Path) -> bytes:
    """Return the first bytes of a file, unpacked.

    Raises
    ------
    BadInputError
        If it is no regular file, cannot be read, or is a broken gzip file.
    """
    return _read(path, HEAD_BYTES)


def read_bytes(path: Path) -> bytes:
    """Return all bytes of a file, unpacked.

    Raises
    ------
    BadInputError
        As `read_head`, and if there are more of them than any training log has.
    """
    return _read(path, None)


def _read(path: Path, limit: int | None) -> bytes:
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            # Opening a pipe or a device could wait for ever.
            raise BadInputError(f"{path}: not a regular file. Save the log to a file and name that.")
        if status.st_size > MAX_LOG_BYTES:
            raise BadInputError(f"{path}: larger than 8 GiB. Log less often, or cut the file into runs.")
        with path.open("rb") as file:
            packed = file.read(2) == _GZIP_MAGIC
            file.seek(0)
            if not packed:
                return file.read() if limit is None else file.read(limit)
            with gzip.open(file) as unpacked:
                return _unpack(path, unpacked, limit)
    except EOFError:
        raise BadInputError(
            f"{path}: the gzip file ends too early. Copy it again, or unpack what is left."
        ) from None
    except (gzip.BadGzipFile, zlib.error):
        raise BadInputError(f"{path}: a damaged gzip file. Copy it again, or unpack what is left.") from None
    except OSError as error:
        raise BadInputError(f"{path}: cannot be read ({error.strerror}).") from None


def _unpack(path: Path, file: gzip.GzipFile, limit: int | None) -> bytes:
    if limit is not None:
        return file.read(limit)
    chunks, size = [], 0
    while chunk := file.read(_CHUNK):
        chunks.append(chunk)
        size += len(chunk)
        if size > MAX_UNPACKED_BYTES:
            raise BadInputError(f"{path}: unpacks to more than 2 GiB. Unpack it yourself if it is a log.")
    return b"".join(chunks)


def as_text(head: bytes) -> str | None:
    """Decode the first bytes of a file; None if they are not text.

    A stray byte of another encoding is let pass, as it may stand in a comment or a run's name.
    """
    if b"\0" in head:
        return None
    text = head.decode("utf-8-sig", errors="replace")
    strange = sum(1 for char in text if char == "�" or (char < " " and char not in "\t\n\r\f\x1b"))
    return None if strange > 1 + len(text) // 50 else text
