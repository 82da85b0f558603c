"""One JSON document with a list per column, as exports of a W&B run have it.

The lists stand at the top, under ``history``, or in groups under ``history`` (``train``, ``val``), each group
with steps of its own; ``config`` beside them says how the run was set up. An array of records is read too.
"""

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from ebfit.errors import BadInputError
from ebfit.runs.columns import step_column
from ebfit.runs.facts import Facts, facts_from
from ebfit.runs.formats.bytes_of import as_text, open_log
from ebfit.runs.formats.limits import MAX_DOCUMENT_BYTES, MAX_DOCUMENT_VALUES
from ebfit.runs.formats.many_columns import columns_to_read
from ebfit.runs.formats.sparse_columns import table_of_records, to_float
from ebfit.runs.raw_log import NotALogError, RawLog

NAME = "json_columns"
TRAINER = "exports of a W&B run as one JSON document"
EXAMPLE = '{"history": {"train": {"iter": [10, 20], "loss": [3.2, 3.1]}}}'
_STEP = "step"


def sniff(head: bytes, path: Path) -> bool:
    """Claim text that opens a JSON object or an array of objects."""
    text = as_text(head)
    start = "".join((text or "").split())[:2]
    return start in ('{"', "{}", "[{")


def read(path: Path) -> list[RawLog]:
    """Read a run out of one JSON document.

    Raises
    ------
    BadInputError
        If it is not valid JSON.
    NotALogError
        If it holds no lists of numbers.
    """
    document = parse_document(path)
    config = document.get("config") if isinstance(document, dict) else None
    history = document.get("history", document) if isinstance(document, dict) else document
    if isinstance(history, list) and any(isinstance(record, dict) for record in history):
        table, warnings = table_of_records((record for record in history if isinstance(record, dict)), path)
        return [RawLog(table, lambda row: f"record {row + 1}", facts=_facts(config, path), warnings=warnings)]
    groups = dict(_groups(history)) if isinstance(history, dict) else {}
    if not groups:
        raise NotALogError(f"{path}: JSON, but it holds no lists of numbers. Name a log.")
    tables, skipped = [], []
    for name, lists in groups.items():
        table, unequal = _group_table(name, lists)
        tables.append(table)
        skipped += unequal
    names = list(dict.fromkeys(name for table in tables for name in table.column_names))
    wanted, warnings = columns_to_read(names, sum(table.num_rows for table in tables), path, "lists")
    if skipped:
        shown = ", ".join(skipped[:3]) + (" ..." if len(skipped) > 3 else "")
        warnings.append(f"lists that are not as long as their steps were left out ({shown}).")
    starts = [0]
    for table in tables:
        starts.append(starts[-1] + table.num_rows)

    def locate(row: int) -> str:
        group = max(index for index, start in enumerate(starts[:-1]) if start <= row)
        return f"entry {row - starts[group] + 1} of {list(groups)[group] or 'the lists'}"

    kept = set(wanted)
    tables = [table.select([name for name in table.column_names if name in kept]) for table in tables]
    table = pa.concat_tables(tables, promote_options="permissive")
    return [RawLog(table, locate, facts=_facts(config, path), warnings=warnings)]


def parse_document(path: Path) -> Any:
    """Parse a file that is one JSON document, all its numbers as floats.

    Raises
    ------
    BadInputError
        If it is not valid JSON, or more than is read at once (see `limits`).
    """
    with open_log(path) as file:
        data = file.read(MAX_DOCUMENT_BYTES + 1)
    if len(data) > MAX_DOCUMENT_BYTES:
        raise BadInputError(
            f"{path}: one JSON document of more than {MAX_DOCUMENT_BYTES // 2**20} MiB. Log less often, or write JSON "
            "lines."
        )
    if data.count(b",") > MAX_DOCUMENT_VALUES:
        raise BadInputError(
            f"{path}: more than {MAX_DOCUMENT_VALUES // 10**6} million values in one JSON document. Log less often, or "
            "write JSON lines."
        )
    try:
        return json.loads(data.decode("utf-8-sig", errors="replace"), parse_int=float)
    except json.JSONDecodeError as error:
        cut = " It seems to be cut off." if error.pos >= len(error.doc.rstrip()) - 1 else ""
        raise BadInputError(
            f"{path}, line {error.lineno}: not valid JSON ({error.msg}).{cut} Export it again, or remove it."
        ) from None
    except RecursionError:
        raise BadInputError(f"{path}: JSON nested too deep to be a training log.") from None
    except ValueError as error:
        raise BadInputError(f"{path}: not valid JSON ({str(error)[:80]}).") from None


def _groups(history: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, list[Any]]]]:
    flat = {name: values for name, values in history.items() if _is_column(values)}
    if flat:
        yield "", flat
    for name, part in history.items():
        if isinstance(part, dict):
            lists = {key: values for key, values in part.items() if _is_column(values)}
            if lists:
                yield name, lists


def _is_column(values: Any) -> bool:
    if not isinstance(values, list) or not values:
        return False
    return all(value is None or isinstance(value, int | float | str) for value in values[:100])


def _group_table(group: str, lists: dict[str, list[Any]]) -> tuple[Any, list[str]]:
    """Make rows of the lists of one group; return them and the names of lists that do not fit its steps."""
    steps = step_column(list(lists))
    length = len(lists[steps]) if steps is not None else max(map(len, lists.values()))
    fitting = {
        (_STEP if name == steps else f"{group}/{name}" if group else name): values
        for name, values in lists.items()
        if len(values) == length
    }
    unequal = [
        f"{group}/{name}" if group else name for name, values in lists.items() if len(values) != length
    ]
    return pa.table({name: _column(values) for name, values in fitting.items()}), unequal


def _column(values: list[Any]) -> Any:
    """Make a column of a list: NaN where a text is no number, null where there is neither."""
    empty = [isinstance(value, bool) or not isinstance(value, int | float | str) for value in values]
    cells = [math.nan if skip else to_float(value) for value, skip in zip(values, empty, strict=True)]
    return pa.array(cells, pa.float64(), mask=np.array(empty), from_pandas=False)


def _facts(config: Any, path: Path) -> Facts | None:
    if not isinstance(config, dict):
        return None
    plain = {
        key: value["value"] if isinstance(value, dict) and "value" in value else value
        for key, value in config.items()
    }
    return facts_from(plain, f"the config in {path.name}", strict=False)
