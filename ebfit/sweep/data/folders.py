"""What stands at a path, the files of a folder, and which of them are for training and which for validation."""

import os
import re
import stat
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from ebfit.errors import BadInputError

Role = Literal["train", "val", "test"]

_ROLE_OF_WORD: dict[str, Role] = {
    "train": "train",
    "val": "val",
    "valid": "val",
    "validation": "val",
    "test": "test",
}
# The last word of a name but for numbers: train.bin, tokens_val_000001.bin, wiki.valid.txt, train-00000-of-00010.bin
_ROLE = re.compile(r"(?:.*[^a-z0-9])?(train|val|valid|validation|test)(?:[^a-z]|-of-)*", re.IGNORECASE)
# Source code may well be called train.py without being anybody's training data.
_SUFFIXES_WITH_ROLES = {".bin", ".npy", ".txt", ".jsonl", ".raw", ".tokens"}


@dataclass
class Split:
    """Files by what they are for; without validation files, sequences are held out."""

    training: list[Path]
    validation: list[Path] = field(default_factory=list)
    left_out: list[Path] = field(default_factory=list)


def stands_at(path: Path) -> Literal["file", "folder"]:
    """Say what stands at a path.

    Raises
    ------
    BadInputError
        If nothing does, it cannot be looked at, or it is a pipe or a device, where reading could wait for ever.
    """
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        raise BadInputError(
            f"--data {path}: no such file or folder. Give a path, stdlib, or synthetic."
        ) from None
    except OSError as error:
        raise BadInputError(f"--data {path}: cannot be read ({error.strerror}).") from None
    except ValueError:
        raise BadInputError("--data: a path cannot hold the character 0.") from None
    if stat.S_ISDIR(mode):
        return "folder"
    if stat.S_ISREG(mode):
        return "file"
    raise BadInputError(f"--data {path}: neither a file nor a folder. Save the data to a file.")


def files_of(folder: Path, without: Collection[str] = ()) -> list[Path]:
    """Return the ordinary files of a folder and those below it, in the order of their paths.

    Hidden files and folders and those with a name in ``without`` are left out; links to folders are not followed.

    Raises
    ------
    BadInputError
        If a folder cannot be read.
    """
    files: list[Path] = []
    try:
        for where, folders, names in os.walk(folder, onerror=_raise):
            folders[:] = [name for name in folders if not name.startswith(".") and name not in without]
            found = (Path(where, name) for name in names if not name.startswith(".") and name not in without)
            files += (path for path in found if path.is_file())
    except OSError as error:
        raise BadInputError(f"{error.filename}: cannot be read ({error.strerror}).") from None
    return sorted(files, key=lambda path: os.fsencode(path.relative_to(folder).as_posix()))


def split_by_name(files: Sequence[Path]) -> Split:
    """Tell training from validation files by their names, if some are named for validation.

    Then those named for training are trained on, or if there are none, all that are named for nothing.
    """
    roles = {file: _role(file) for file in files}
    validation = [file for file in files if roles[file] == "val"]
    for wanted in ("train", None):
        training = [file for file in files if roles[file] == wanted]
        if validation and training:
            used = {*training, *validation}
            left_out = [file for file in files if file not in used]
            return Split(training, validation, left_out)
    return Split(list(files))


def split_of_one(file: Path) -> Split:
    """Find the validation files beside a training file: val.bin for train.bin, x_val_0.bin for x_train_1.bin."""
    if _role(file) != "train":
        return Split([file])
    try:
        beside = sorted(
            path for path in file.parent.iterdir() if path.suffix == file.suffix and path.is_file()
        )
    except OSError:  # a folder whose files may be read but not listed
        beside = []
    return Split(
        [file], [path for path in beside if _role(path) == "val" and _dataset(path) == _dataset(file)]
    )


def _role(file: Path) -> Role | None:
    match = _ROLE.fullmatch(file.stem)
    if match is None or file.suffix.lower() not in _SUFFIXES_WITH_ROLES:
        return None
    return _ROLE_OF_WORD[match[1].lower()]


def _dataset(file: Path) -> str:
    """Return what stands before the role in a name."""
    match = _ROLE.fullmatch(file.stem)
    return file.stem[: match.start(1)] if match else file.stem


def _raise(error: OSError) -> None:
    raise error
