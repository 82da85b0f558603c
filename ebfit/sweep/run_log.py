"""metrics.jsonl: one line per logged step, readable at any moment and whatever stops the run."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ebfit.errors import BadInputError
from ebfit.writing import write_bytes

Record = Mapping[str, Any]


class RunLog:
    """The log of one run.

    Parameters
    ----------
    path : Path
        The file; it is made with the first records, so that a run which never started leaves none.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def append(self, records: Iterable[Record]) -> None:
        """Write records at the end, whole lines only.

        Raises
        ------
        BadInputError
            If the file cannot be written, as on a full disk.
        """
        lines = "".join(json.dumps(record, allow_nan=False) + "\n" for record in records).encode()
        if not lines:
            return
        try:
            # Unbuffered, in one call: a run that is killed leaves whole lines, a full disk at most one that is not.
            with self.path.open("ab", buffering=0) as file:
                written = file.write(lines)
        except OSError as error:
            raise BadInputError(f"{self.path}: cannot be written ({error.strerror}).") from None
        if written != len(lines):
            raise BadInputError(f"{self.path}: cannot be written any further: the disk is full.")

    def cut_after(self, step: int) -> bool:
        """Remove records after a step, for a run that continues from there; tell whether the log reaches that far.

        Raises
        ------
        BadInputError
            If the file cannot be written.
        """
        kept: list[bytes] = []
        last = 0
        for line in self.path.read_bytes().splitlines(keepends=True) if self.path.is_file() else []:
            try:
                record_step = json.loads(line)["step"]
                beyond = record_step > step or not line.endswith(b"\n")
            except (ValueError, KeyError, TypeError):  # the end of a line that a full disk cut short
                break
            if beyond:
                break
            kept.append(line)
            last = record_step
        if last != step:
            return False
        if kept:
            write_bytes(self.path, b"".join(kept))
        else:
            self.remove()
        return True

    def remove(self) -> None:
        """Remove the file, for a run that starts from the beginning."""
        self.path.unlink(missing_ok=True)
