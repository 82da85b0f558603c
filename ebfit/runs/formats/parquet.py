"""Parquet: tables such as the history of a W&B run, in the artifact of that name or saved with pandas.

Numbers are read, and text in columns that a run needs; names of nested columns are joined, ``train.loss`` to
``train/loss``. Lists, pictures and the like are passed over.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ebfit.errors import BadInputError
from ebfit.runs.columns import look_like_a_log, may_have_a_role
from ebfit.runs.formats.bytes_of import native_file
from ebfit.runs.formats.json_lines import flattened
from ebfit.runs.formats.limits import MAX_TEXT_BYTES
from ebfit.runs.formats.many_columns import columns_to_read
from ebfit.runs.raw_log import NotALogError, RawLog, numbers

NAME = "parquet"
TRAINER = "any that writes a table; histories of W&B runs"
EXAMPLE = "history.parquet"
_MAGIC = b"PAR1"
_OF_NUMBERS = {"FLOAT", "DOUBLE", "INT32", "INT64"}
_NUMBERS = {"NONE", "INT", "DECIMAL", "UNKNOWN"}
_TEXT = {"NONE", "STRING", "JSON"}


def sniff(head: bytes, path: Path) -> bool:
    """Claim what begins as Parquet."""
    return head.startswith(_MAGIC)


def read(path: Path) -> list[RawLog]:
    """Read a Parquet file.

    Raises
    ------
    BadInputError
        If it is damaged, encrypted, or holds more than any log does.
    NotALogError
        If none of its columns is a step or a loss.
    """
    try:
        return [_read(path)]
    except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
        reason = " ".join(str(error).split())[:120] or type(error).__name__
        raise BadInputError(
            f"{path}: cannot be read as Parquet ({reason}). Save it again, or remove it."
        ) from None


def _read(path: Path) -> RawLog:
    # Sizes of single columns are not asked for: in a damaged file that takes the whole process with it.
    file = pq.ParquetFile(native_file(path))
    numeric, text = _leaves(file.schema)
    if not look_like_a_log(numeric + text):
        raise NotALogError(f"{path}: a Parquet file without a step or a loss among its columns. Name a log.")
    rows = file.metadata.num_rows
    wanted, warnings = columns_to_read(numeric + text, rows, path)
    if rows == 0:
        raise BadInputError(f"{path}: no rows. Delete it if the run never started.")
    unpacked = sum(
        file.metadata.row_group(index).total_byte_size for index in range(file.metadata.num_row_groups)
    )
    if set(wanted) & set(text) and unpacked > MAX_TEXT_BYTES:
        raise BadInputError(
            f"{path}: '{text[0][:60]}' is text, in a file that unpacks to {unpacked:,} bytes. Save it as numbers, "
            "without the other columns."
        )
    # Text stays packed: what is repeated a million times takes no more room than once.
    file = pq.ParquetFile(native_file(path), read_dictionary=text)
    table = file.read(columns=wanted)
    table.validate(full=bool(text))  # of packed text, as its places are not checked as they are read
    table = flattened(table)
    columns = [_as_numbers(column) for column in table.columns]
    return RawLog(
        pa.table(columns, names=table.column_names), lambda row: f"row {row + 1}", warnings=warnings
    )


def _leaves(schema: Any) -> tuple[list[str], list[str]]:
    """Return the paths of columns of numbers, and of those of text that play a role."""
    numeric, text = [], []
    for column in (schema.column(index) for index in range(len(schema))):
        if column.max_repetition_level:
            continue  # a list in every cell
        physical, logical = column.physical_type, column.logical_type.type
        if logical in _NUMBERS if physical in _OF_NUMBERS else logical in ("DECIMAL", "FLOAT16"):
            numeric.append(column.path)
        elif physical == "BYTE_ARRAY" and logical in _TEXT and may_have_a_role(column.path):
            text.append(column.path)
    return numeric, text


def _as_numbers(column: Any) -> Any:
    """Turn a column into one of floats; null where there is none, NaN where there is something else."""
    if pa.types.is_decimal(column.type):
        return column.cast(pa.float64())
    if not pa.types.is_dictionary(column.type):
        return column
    chunks = []
    for chunk in column.chunks:
        values = numbers(pa.chunked_array([chunk.dictionary])).values
        index = chunk.indices.fill_null(0).to_numpy()
        cells = values[index] if len(values) else np.full(len(index), np.nan)
        chunks.append(pa.array(cells, mask=~chunk.is_valid().to_numpy(False), from_pandas=False))
    return pa.chunked_array(chunks, pa.float64())
