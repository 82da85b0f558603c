"""The log formats that are read, one module each.

A format is a module with ``NAME``, ``sniff`` and ``read`` (see `raw_log.LogFormat`) and one line in `FORMATS`;
the first whose ``sniff`` says yes reads the file, so stricter formats stand before looser ones.
"""

from pathlib import Path

from ebfit.errors import BadInputError
from ebfit.runs.formats import (
    composer_text,
    csv_table,
    ebfit_log,
    hf_trainer,
    internevo,
    json_columns,
    json_lines,
    lightning_csv,
    llm_c,
    maxtext,
    megatron,
    mlflow,
    modded_nanogpt,
    nanochat,
    nanogpt,
    nanotron,
    neox,
    olmo_core,
    parquet,
    tensorboard,
    tensorboard_csv,
    torchtitan,
    wandb_panel,
)
from ebfit.runs.raw_log import KeepsOtherFiles, LogFormat

# logs of lines that people read, taken apart in Python
CONSOLE: tuple[LogFormat, ...] = (
    megatron,
    neox,
    composer_text,
    internevo,
    nanotron,
    torchtitan,
    olmo_core,
    maxtext,
    nanochat,
    modded_nanogpt,
    llm_c,
    nanogpt,
)
FORMATS: tuple[LogFormat, ...] = (
    ebfit_log,
    tensorboard,
    parquet,
    hf_trainer,
    mlflow,
    json_lines,
    json_columns,
    *CONSOLE,
    wandb_panel,
    tensorboard_csv,
    lightning_csv,
    csv_table,
)


# found once: asking a protocol takes longer than looking at a file
_KEEPING_OTHER_FILES = tuple(log_format for log_format in FORMATS if isinstance(log_format, KeepsOtherFiles))


def format_named(name: str) -> LogFormat:
    """Return a format by its name.

    Raises
    ------
    BadInputError
        If there is none of that name.
    """
    for log_format in FORMATS:
        if name == log_format.NAME:
            return log_format
    known = ", ".join(log_format.NAME for log_format in FORMATS)
    raise BadInputError(f"--format {name}: no such log format; known are {known}.")


def sniff(head: bytes, path: Path) -> LogFormat | None:
    """Return the format that a file's first bytes look like, or None."""
    # A folder may hold thousands of tables, and they need not be searched for the marks of every trainer.
    is_table = csv_table.is_surely_a_table(head)
    likely = (known for known in FORMATS if not (is_table and known in CONSOLE))
    return next((known for known in likely if known.sniff(head, path)), None)


def belongs_to_a_run(path: Path) -> bool:
    """Tell whether a file lies beside the logs of a run and is none, as its checkpoints do."""
    return any(log_format.belongs(path) for log_format in _KEEPING_OTHER_FILES)
