"""Writing files so that none is ever half there, and refusing early what could not be written."""

import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from ebfit.errors import BadInputError


def check_writable(path: Path) -> None:
    """Refuse an output path early, before minutes of work are spent on it.

    Raises
    ------
    BadInputError
        If the path is a folder, or its folder does not exist or is not writable.
    """
    try:
        is_there = path.exists()
        path.resolve()
    except RuntimeError:
        raise BadInputError(f"{path}: is a link to itself. Name another.") from None
    except OSError as error:
        raise BadInputError(f"{path}: cannot be a file ({error.strerror}). Choose another path.") from None
    if path.is_dir():
        raise BadInputError(f"{path}: is a folder. Name a file to write, such as {path / 'fit.json'}.")
    if is_there and not path.is_file():
        raise BadInputError(f"{path}: is no ordinary file, and would be replaced by one. Name another.")
    folder = path.parent
    if not folder.is_dir():
        raise BadInputError(f"{folder}: no such folder to write {path.name} into. Create it first.")
    if not os.access(folder, os.W_OK) or (is_there and not os.access(path, os.W_OK)):
        raise BadInputError(f"{path}: not writable. Choose another path, or change its permissions.")


def refuse_overwriting(path: Path, inputs: Iterable[Path]) -> None:
    """Refuse an output path that is one of the files that were read.

    Raises
    ------
    BadInputError
        Naming the input.
    """
    real = os.path.realpath(path)
    for file in inputs:
        if os.path.realpath(file) == real:
            raise BadInputError(
                f"{path}: is one of the files that were read, and would be lost. Name another output."
            )


def check_folder(path: Path) -> None:
    """Refuse a folder for output that neither exists nor can be made, without making it.

    Raises
    ------
    BadInputError
        If a file stands in its way or it is not writable.
    """
    try:
        nearest = next(place for place in (path, *path.absolute().parents) if os.path.lexists(place))
    except OSError as error:
        raise BadInputError(f"{path}: cannot be a folder ({error.strerror}). Choose another.") from None
    if not nearest.is_dir() or not os.access(nearest, os.W_OK):
        raise BadInputError(f"{path}: {nearest} is no folder that can be written to. Choose another.")


def make_folder(path: Path) -> None:
    """Make a folder for output, with the folders above it.

    Raises
    ------
    BadInputError
        If a file stands in its place or it cannot be made.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInputError(f"{path}: cannot be made a folder ({error.strerror}). Choose another.") from None


def write_text(path: Path, text: str) -> None:
    """Write a whole file or nothing: to a temporary name in the same folder, then renamed."""
    write_bytes(path, text.encode())


def write_bytes(path: Path, data: bytes) -> None:
    """Write a whole file or nothing, as `write_text` does.

    Raises
    ------
    BadInputError
        If the file cannot be written; an older file of that name is then left as it was.
    """
    with whole_file(path) as file:
        file.write(data)


@contextmanager
def whole_file(path: Path) -> Iterator[IO[bytes]]:
    """Open a file to be written piece by piece; it takes its name once it is whole.

    Raises
    ------
    BadInputError
        If the file cannot be written; an older file of that name is then left as it was.
    """
    check_writable(path)
    target = path.resolve()  # a link stays a link: the file behind it is what gets replaced
    temporary = None
    try:
        handle, temporary = tempfile.mkstemp(prefix=_temporary_prefix(target), dir=target.parent)
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        mode = target.stat().st_mode & 0o777 if target.exists() else 0o666 & ~_umask()
        os.chmod(temporary, mode)
        os.replace(temporary, target)
    except OSError as error:
        raise BadInputError(f"{path}: cannot be written ({error.strerror}).") from None
    finally:  # an interrupt is no reason to leave half a file lying about either
        if temporary is not None and os.path.exists(temporary):
            os.unlink(temporary)


def remove_leftovers(path: Path) -> None:
    """Remove what writers of this file left behind that were killed; no one may be writing it now."""
    for name in os.listdir(path.parent):
        leftover = path.parent / name
        if name.startswith(_temporary_prefix(path)) and leftover.is_file():
            leftover.unlink(missing_ok=True)


def _temporary_prefix(path: Path) -> str:
    return f".{path.name}."


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
