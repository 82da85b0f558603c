"""``ebfit compare``: laws side by side, by how well they predict a batch size that they have not seen."""

from pathlib import Path
from typing import Annotated

import typer

from ebfit.cli.options import parse_losses


def compare(
    fit: Annotated[Path, typer.Argument(metavar="FIT.json", help="What `ebfit fit -o` wrote.")],
    targets: Annotated[
        str | None,
        typer.Option(
            metavar="LOSS,...", help="Some of the file's targets, such as 2.4,2.2; all if left out."
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FILE", help="Write it here too, as comparison.json."),
    ] = None,
    json: Annotated[
        bool, typer.Option("--json", help="Print one JSON document (ebfit.compare/1), no table.")
    ] = False,
) -> None:
    """Compare laws by how well they predict each batch size from the others, and recommend one.

    Every batch size is left out once, with all its runs at all targets; each law is fitted to the rest, and its steps
    at the batch size are compared with those that were measured.
    """
    losses = None if targets is None else parse_losses(targets)

    from ebfit import comparing
    from ebfit.cli.from_fit import give, load
    from ebfit.records import input_record
    from ebfit.report.comparison_table import print_comparison
    from ebfit.report.lines import working

    source = load(fit, output)
    with working("leaving out batch sizes"):
        found = comparing.compare(source, targets=losses, name=str(fit))
    found = found.model_copy(update={"settings": {"targets": losses or "all"}, "inputs": [input_record(fit)]})
    give(found, output, json, print_comparison)
