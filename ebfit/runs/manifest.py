"""The manifest: a CSV in which the user says what the logs do not, one row per log or run in it."""

import csv
import os
from dataclasses import dataclass, field
from pathlib import Path

from ebfit.errors import BadInputError
from ebfit.runs.facts import Facts, facts_from

_KNOWN = {
    "path",
    "run",
    "batch_tokens",
    "batch_sequences",
    "seq_len",
    "seed",
    "lr",
    "name",
    "warmup_steps",
    "decay_start_step",
    "model",
    "data",
}


@dataclass
class Manifest:
    """Facts by log file, or by folder for all logs below it, and by run where a file holds several ("": all)."""

    path: Path
    rows: dict[tuple[Path, str], Facts] = field(default_factory=dict)
    used: set[tuple[Path, str]] = field(default_factory=set)

    def facts_for(self, log: Path, run: str = "") -> Facts | None:
        """Return the row of a run, else of its log, or of the nearest folder above it that has one."""
        log = Path(os.path.realpath(log))
        for key in ((place, name) for place in (log, *log.parents) for name in dict.fromkeys((run, ""))):
            if key in self.rows:
                self.used.add(key)
                return self.rows[key]
        return None

    def logs(self) -> list[Path]:
        """Return the paths of all rows, each once."""
        return sorted({path for path, _ in self.rows})

    def unused_warnings(self) -> list[str]:
        """Name the rows whose path was not among the logs read."""
        unused = sorted((str(path), run) for path, run in self.rows.keys() - self.used)
        if not unused:
            return []
        named = [f"{Path(path).name}, run {run}" if run else Path(path).name for path, run in unused]
        shown = ", ".join(named[:3]) + (" ..." if len(unused) > 3 else "")
        return [f"the manifest {self.path} names logs that were not read ({shown})."]


def read_manifest(path: Path) -> Manifest:
    """Read a manifest.

    Parameters
    ----------
    path : Path
        CSV with a header; paths in it are relative to its own folder.

    Raises
    ------
    BadInputError
        If it cannot be read, lacks a column, or a row is not usable; the line is named.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file)
            columns = {(name or "").strip() for name in reader.fieldnames or ()}
            _check_columns(path, columns)
            manifest = Manifest(path)
            for row in reader:
                _add_row(manifest, row, f"manifest {path}, line {reader.line_num}")
    except OSError as error:
        raise BadInputError(f"{path}: the manifest cannot be read ({error.strerror}).") from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise BadInputError(f"{path}: the manifest is not a CSV file ({error}).") from None
    return manifest


def _check_columns(path: Path, columns: set[str]) -> None:
    if "path" not in columns:
        found = ", ".join(sorted(columns)) or "none"
        raise BadInputError(f"{path}: a manifest needs a column 'path'; columns found: {found}.")
    if unknown := columns - _KNOWN - {""}:
        raise BadInputError(
            f"{path}: unknown column {sorted(unknown)[0]!r} in the manifest; "
            f"known are {', '.join(sorted(_KNOWN))}."
        )


def _add_row(manifest: Manifest, row: dict[str, str], place: str) -> None:
    if None in row:
        raise BadInputError(f"{place}: more cells than the header has. Quote cells that hold a comma.")
    cells = {key.strip(): value.strip() for key, value in row.items() if key and value and value.strip()}
    if not cells:
        return
    if "path" not in cells:
        raise BadInputError(f"{place}: the path is empty. Name a log in it, or delete the line.")
    log = Path(os.path.realpath(manifest.path.parent / Path(cells["path"]).expanduser()))
    key = (log, cells.pop("run", ""))
    if key in manifest.rows:
        raise BadInputError(
            f"{place}: {cells['path']} is named twice in the manifest. Delete one of the rows."
        )
    manifest.rows[key] = facts_from(cells, place, strict=True)
