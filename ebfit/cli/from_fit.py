"""What commands do alike that make a document of a fit.json."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import typer

from ebfit import writing
from ebfit.files import Design, Fit, LawComparison, to_json
from ebfit.report.lines import print_lines

_Found = TypeVar("_Found", LawComparison, Design)


def load(fit: Path, output: Path | None) -> Fit:
    """Read a fit.json, once it is sure that the output can be written and would not replace it.

    Raises
    ------
    BadInputError
        If it cannot, or would, or the file is no fit.json.
    """
    if output is not None:
        writing.check_writable(output)
        writing.refuse_overwriting(output, [fit])
    return Fit.load(fit)


def give(found: _Found, output: Path | None, as_json: bool, print_table: Callable[[_Found], None]) -> None:
    """Print what was found, with its warnings, and write it to the output where there is one."""
    print_lines("warning", found.warnings)
    if output is not None:
        found.save(output)
    if as_json:
        typer.echo(to_json(found), nl=False)
        return
    print_table(found)
    if output is not None:
        typer.echo(f"wrote {output}")
