"""``ebfit diff``: two fits compared, for a person who added runs and for CI."""

from pathlib import Path
from typing import Annotated

import typer


def diff(
    old: Annotated[
        Path, typer.Argument(metavar="OLD.json", help="The fit.json whose intervals are the measure.")
    ],
    new: Annotated[Path, typer.Argument(metavar="NEW.json", help="The fit.json to compare with it.")],
    strict: Annotated[
        bool,
        typer.Option(
            "--strict",
            help="Exit with status 1 as well where OLD has a value or a target and NEW has none.",
        ),
    ] = False,
    json: Annotated[
        bool, typer.Option("--json", help="Print one JSON document (ebfit.diff/1), no table.")
    ] = False,
) -> None:
    """Compare two fits: exit status 1 if B_min or B_opt moved out of the intervals.

    A number has moved if its new value lies outside its old interval; or of a bound, if all that it allows does.
    Numbers are B_min and B_opt (B_crit of the law classic) of the targets that both fits hold, and their lines of
    growth with tokens: the exponent, and the batch size at the largest D that both measured. Differences below 0.1%
    never count.
    """
    from ebfit import changes
    from ebfit.files import Fit, to_json
    from ebfit.report.diff_summary import print_diff

    result = changes.diff(Fit.load(old), Fit.load(new), old_path=str(old), new_path=str(new))
    if json:
        typer.echo(to_json(result), nl=False)
    else:
        print_diff(result)
    if result.moved or (strict and (result.lost or result.only_old)):
        raise typer.Exit(1)
