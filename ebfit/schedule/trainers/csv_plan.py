"""The plan as a table, one row per stage: for spreadsheets, and for loops that read CSV.

Everything that a training loop needs is in it; the warnings, which are sentences for the reader of a plan, are not.
"""

import csv
import io
from dataclasses import asdict
from reprlib import repr as shortened
from typing import Any

from ebfit.batch_plan import SCHEMA, BatchPlan
from ebfit.errors import BadInputError
from ebfit.schedule.trainers.base import Export, ReadSchedule, Setup
from ebfit.schedule.trainers.divisible import check_divisible
from ebfit.schedule.trainers.plan_text import plan_of, schedule_of

name = "csv"
reader = "spreadsheets, and training loops that read a table of stages"
unit = "batch in tokens and in sequences, from tokens and steps on"
suffix = ".csv"

_OF_A_STAGE: dict[str, type] = {
    "start_tokens": int,
    "start_step": int,
    "batch_tokens": int,
    "batch_sequences": int,
    "steps": int,
    "lr_scale": float,
    "start_loss": float,
}
_OF_THE_PLAN: dict[str, type] = {  # the same in every row
    "total_tokens": int,
    "seq_len": int,
    "warmup_tokens": int,
    "decay_start_tokens": int,
    "policy": str,
}
_MAY_BE_EMPTY = ("start_loss", "decay_start_tokens")


def export(plan: BatchPlan, setup: Setup) -> Export:
    """Write the stages as a table; what is None is an empty cell.

    Raises
    ------
    BadInputError
        If a stage does not fill the devices of ``setup``.
    """
    check_divisible(plan, setup)
    text = io.StringIO()
    table = csv.DictWriter(text, [*_OF_A_STAGE, *_OF_THE_PLAN], lineterminator="\n")
    table.writeheader()
    whole = {column: getattr(plan, column) for column in _OF_THE_PLAN}
    table.writerows(asdict(stage) | whole for stage in plan.stages)
    return Export(text=text.getvalue(), as_run=plan)


def parse(text: str, seq_len: int | None, setup: Setup) -> ReadSchedule:
    """Read the table back.

    Raises
    ------
    BadInputError
        If it is no plan.
    """
    return schedule_of(whole_plan(text))


def whole_plan(text: str) -> BatchPlan:
    """Return the plan that a table holds, but for its warnings.

    Raises
    ------
    BadInputError
        If it holds none, naming the line.
    """
    table = csv.DictReader(io.StringIO(text), strict=True)
    try:
        missing = sorted({*_OF_A_STAGE, *_OF_THE_PLAN}.difference(table.fieldnames or ()))
        if missing:
            raise BadInputError(f"line 1: no table of stages, the column {missing[0]} is missing.")
        rows = [
            {column: _cell(row[column], column, kind, table.line_num) for column, kind in _columns()}
            for row in table
        ]
    except csv.Error as error:
        raise BadInputError(f"line {table.line_num}: no CSV ({error}).") from None
    if not rows:
        raise BadInputError("the table has no stages.")
    for column in _OF_THE_PLAN:
        if len({row[column] for row in rows}) > 1:
            raise BadInputError(f"the column {column} must be the same in all rows.")
    whole = {column: rows[0][column] for column in _OF_THE_PLAN}
    return plan_of({"schema": SCHEMA, "stages": rows} | whole)


def _columns() -> list[tuple[str, type]]:
    return [*_OF_A_STAGE.items(), *_OF_THE_PLAN.items()]


def _cell(cell: str | None, column: str, kind: type, line: int) -> Any:
    if not cell:
        if column in _MAY_BE_EMPTY:
            return None
        raise BadInputError(f"line {line}: {column} is empty.")
    try:
        return kind(cell)
    except ValueError:
        raise BadInputError(f"line {line}: {column} is {shortened(cell)}, no number.") from None
