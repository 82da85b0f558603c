"""Logs of every layer: with more columns than are worth keeping, and of which a run needs a few."""

from collections.abc import Sequence
from pathlib import Path

from ebfit.errors import BadInputError
from ebfit.runs.columns import may_have_a_role
from ebfit.runs.formats.limits import MAX_CELLS


def columns_to_read(
    names: Sequence[str], rows: int, path: Path, what: str = "columns"
) -> tuple[list[str], list[str]]:
    """Leave out columns that a run does not need where there are many.

    Parameters
    ----------
    names : sequence of str
        Columns.
    rows : int
        Rows of each.
    path : Path
        The log, for messages.
    what : str
        What the format calls columns.

    Returns
    -------
    list of str
        Columns to read.
    list of str
        A sentence if some are left out.

    Raises
    ------
    BadInputError
        If those that a run needs are more than any log has.
    """
    if len(names) * rows <= MAX_CELLS:
        return list(names), []
    needed = [name for name in names if may_have_a_role(name)]
    if len(needed) * rows > MAX_CELLS:
        raise BadInputError(
            f"{path}: {rows:,} rows of {len(needed):,} {what} that are losses, steps and the like, more than any log "
            "has. Save those of the run alone, and a row per logged step."
        )
    return needed, [f"of many {what} only those were read that a run needs ({len(needed)} of them)."]
