"""``ebfit design``: which runs to train next, so that B_opt or B_min is known better for the fewest tokens."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from ebfit.cli import options
from ebfit.cli.sizes import parse_batch_sizes
from ebfit.errors import BadInputError

_MOST_SIZES = 100


def design(
    fit: Annotated[Path, typer.Argument(metavar="FIT.json", help="What `ebfit fit -o` wrote.")],
    budget: Annotated[
        int,
        typer.Option(metavar="TOKENS", parser=options.size, help="Of all new runs together, such as 20B."),
    ],
    goal: Annotated[
        Literal["b_opt", "b_min"], typer.Option("--for", help="The number that is to be known better.")
    ] = "b_opt",
    target: Annotated[
        float | None,
        typer.Option(metavar="LOSS", help="The target of the fit that counts; all of them if left out."),
    ] = None,
    group: Annotated[
        str | None, typer.Option(metavar="NAME", help="Of the fit, where it has several.")
    ] = None,
    full_length: Annotated[
        bool,
        typer.Option("--full-length", help="Train every run to the lowest target that counts."),
    ] = False,
    batch_sizes: Annotated[
        str | None,
        typer.Option(
            metavar="TOKENS,...",
            help="Choose from these: 64Ki,128Ki, or 64Ki..1Mi (doubling), or 64Ki..1Mi:10 (ten of them).",
        ),
    ] = None,
    seq_len: Annotated[
        int | None,
        typer.Option(
            metavar="TOKENS",
            parser=options.size,
            help="Batch sizes are whole sequences of this length; left out: that of the runs.",
        ),
    ] = None,
    check: Annotated[
        int,
        typer.Option(
            metavar="N", help="Simulate the design so many times, fit each, and show what comes out."
        ),
    ] = 0,
    seed: Annotated[int, typer.Option(metavar="N", help="Same seed, same design.")] = 0,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FILE", help="Write it here too, such as design.json."),
    ] = None,
    json: Annotated[
        bool, typer.Option("--json", help="Print one JSON document (ebfit.design/1), no table.")
    ] = False,
) -> None:
    """Choose batch sizes, seeds and lengths of the next runs, within a budget of tokens.

    Of all that could be run, those that shrink the interval of B_opt or B_min most per token, averaged over the laws
    that the fit leaves possible, with the half-width that is expected then.
    """
    from ebfit.cli.from_fit import give, load
    from ebfit.designing import design as design_runs
    from ebfit.records import input_record
    from ebfit.report.design_table import print_design
    from ebfit.report.lines import working

    source = load(fit, output)
    with working("designing"):
        found = design_runs(
            source,
            budget=budget,
            goal=goal,
            target=target,
            group=group,
            full_length=full_length,
            batch_sizes=_sizes(batch_sizes, seq_len),
            seq_len=seq_len,
            check=check,
            seed=seed,
            name=str(fit),
        )
    settings = {
        "budget": budget,
        "for": goal,
        "target": target,
        "group": group,
        "full_length": full_length,
        "batch_sizes": batch_sizes,
        "seq_len": seq_len,
        "check": check,
        "seed": seed,
    }
    found = found.model_copy(update={"settings": settings, "inputs": [input_record(fit)]})
    give(found, output, json, print_design)


def _sizes(text: str | None, seq_len: int | None) -> list[int]:
    if text is None:
        return []
    sizes: list[int] = []
    for part in parse_batch_sizes(text):
        sizes += [part] if isinstance(part, int) else part.sizes(seq_len or 1)
    if len(sizes) > _MOST_SIZES:
        raise BadInputError(f"--batch-sizes {text}: {len(sizes):,} of them. Give {_MOST_SIZES} at most.")
    return sizes
