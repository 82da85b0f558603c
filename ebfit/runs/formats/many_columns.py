"""Logs of every layer: with more columns than are worth keeping, and of which a run needs a few."""

from collections.abc import Sequence

from ebfit.runs.columns import may_have_a_role


def columns_to_read(
    names: Sequence[str], rows: int, most_cells: int, what: str = "columns"
) -> tuple[list[str], list[str]]:
    """Leave out columns that a run does not need where there are many.

    Parameters
    ----------
    names : sequence of str
        Columns.
    rows : int
        Rows of each.
    most_cells : int
        Beyond so many cells there are many.
    what : str
        What the format calls columns.

    Returns
    -------
    list of str
        Columns to read.
    list of str
        A sentence if some are left out.
    """
    if len(names) * rows <= most_cells:
        return list(names), []
    needed = [name for name in names if may_have_a_role(name)]
    return needed, [f"of many {what} only those were read that a run needs ({len(needed)} of them)."]
