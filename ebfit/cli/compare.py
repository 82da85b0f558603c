"""``ebfit compare``: laws side by side, by how well they predict a batch size that they have not seen."""

from pathlib import Path
from typing import Annotated

import typer

from ebfit.errors import BadInputError


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
    losses = None if targets is None else _parse_targets(targets)

    from ebfit import comparing, files, writing
    from ebfit.files import Fit
    from ebfit.records import input_record
    from ebfit.report.comparison_table import print_comparison
    from ebfit.report.lines import print_lines, working

    if output is not None:
        writing.check_writable(output)
        writing.refuse_overwriting(output, [fit])
    source = Fit.load(fit)
    with working("leaving out batch sizes"):
        found = comparing.compare(source, targets=losses, name=str(fit))
    found = found.model_copy(update={"settings": {"targets": losses or "all"}, "inputs": [input_record(fit)]})
    print_lines("warning", found.warnings)
    if output is not None:
        found.save(output)
    if json:
        typer.echo(files.to_json(found), nl=False)
    else:
        print_comparison(found)
        if output is not None:
            typer.echo(f"wrote {output}")


def _parse_targets(text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise BadInputError(f"--targets {text}: give losses such as 2.4,2.2.") from None
