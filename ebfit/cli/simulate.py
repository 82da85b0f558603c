"""``ebfit simulate``: the logs of a whole sweep whose B_min and B_opt are known."""

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from ebfit.cli.options import parse_targets, size
from ebfit.cli.sizes import parse_batch_sizes, parse_size
from ebfit.errors import BadInputError
from ebfit.text import short

if TYPE_CHECKING:
    from ebfit.simulate import Sweep, WorldName

_GRID, _LOGS = "Runs", "Logs"
_SEQ_LEN = 1024


def simulate(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="A folder per run goes into this one.", show_default=False)
    ],
    truth: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Write the answer here, as JSON: B_min, B_opt and so on per target."
        ),
    ] = None,
    world: Annotated[
        Literal["exact", "surface", "neither"],
        typer.Option(
            help="Where the losses come from: the revised law, the three-term surface, or what follows neither."
        ),
    ] = "exact",
    noise: Annotated[
        Literal["clean", "realistic", "harsh"],
        typer.Option(help="What stands between the law and the logs."),
    ] = "realistic",
    noise_scale: Annotated[
        float, typer.Option(metavar="FACTOR", help="Multiply all standard deviations of the noise.")
    ] = 1.0,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="Set a parameter of the world, such as b_opt=128Ki, or of the noise, such as seed_sd=0.03; may be "
            "repeated. An unknown name lists them all.",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(metavar="N", help="Same seed, same files.")] = 0,
    targets: Annotated[
        str, typer.Option(metavar="LOSS,...|auto", help="Target losses that runs are long enough for.")
    ] = "auto",
    n_targets: Annotated[int, typer.Option(metavar="N", help="How many targets auto picks.")] = 5,
    batch_sizes: Annotated[
        str | None,
        typer.Option(
            metavar="TOKENS,...",
            help="Tokens per step: 64Ki,128Ki, or 64Ki..4Mi (doubling), or 64Ki..4Mi:10 (ten of them); left out: from "
            "below B_min to far above B_opt.",
            rich_help_panel=_GRID,
        ),
    ] = None,
    n_sizes: Annotated[
        int,
        typer.Option(metavar="N", help="How many batch sizes, if they are left out.", rich_help_panel=_GRID),
    ] = 12,
    seeds: Annotated[int, typer.Option(metavar="N", help="Runs per batch size.", rich_help_panel=_GRID)] = 1,
    seq_len: Annotated[
        int | None,
        typer.Option(
            metavar="TOKENS",
            parser=size,
            help=f"Tokens per sequence; left out: {_SEQ_LEN}.",
            rich_help_panel=_GRID,
        ),
    ] = None,
    max_steps: Annotated[
        int | None,
        typer.Option(
            metavar="STEPS",
            parser=size,
            help="The most steps of a stable phase; left out: 30 S_opt of the lowest target.",
            rich_help_panel=_GRID,
        ),
    ] = None,
    rows_per_doubling: Annotated[
        int,
        typer.Option(metavar="N", help="Rows while the step number doubles.", rich_help_panel=_LOGS),
    ] = 24,
    log_every: Annotated[
        int | None,
        typer.Option(
            metavar="STEPS", parser=size, help="A row every so many steps instead.", rich_help_panel=_LOGS
        ),
    ] = None,
    table: Annotated[
        Literal["jsonl", "csv"],
        typer.Option("--format", help="ebfit's own log, or the same as a table.", rich_help_panel=_LOGS),
    ] = "jsonl",
    json: Annotated[
        bool, typer.Option("--json", help="Print the answer as one JSON document (ebfit.truth/1), no table.")
    ] = False,
) -> None:
    """Write the logs of a sweep whose B_min and B_opt are known, for trying out `ebfit fit`.

    An earlier simulation in DIR is replaced, anything else is left alone.
    """
    wanted = parse_targets(targets)
    given_sizes = parse_batch_sizes(batch_sizes)
    values = _values(settings or ())
    if not 1 <= n_sizes <= 1000 or not 1 <= n_targets <= 1000:
        raise BadInputError("--n-sizes and --n-targets must lie between 1 and 1000.")

    from ebfit import files
    from ebfit.report.lines import working
    from ebfit.report.truth_table import print_truth
    from ebfit.simulate import (
        PRESETS,
        Rows,
        default_batch_tokens,
        default_targets,
        draw_world,
        logs,
    )
    from ebfit.simulate import sweep as simulate_sweep

    logs.check_output(folder, truth)
    seq_len = seq_len or _SEQ_LEN
    parameters, noise_changes = _sorted_out(values, world)
    batch_tokens = [
        size for part in given_sizes for size in ([part] if isinstance(part, int) else part.sizes(seq_len))
    ]
    losses = () if wanted == "auto" else tuple(wanted)
    drawn = draw_world(world, seed, targets=losses, batch_tokens=batch_tokens, parameters=parameters)
    losses = losses or default_targets(drawn, n_targets)
    with working("simulating"):
        swept = simulate_sweep(
            drawn,
            PRESETS[noise].scaled(noise_scale).with_fields(noise_changes),
            targets=losses,
            batch_tokens=batch_tokens or default_batch_tokens(drawn, losses, n_sizes, seq_len),
            seeds=seeds,
            seed=seed,
            seq_len=seq_len,
            max_steps=max_steps,
            rows=Rows(rows_per_doubling, log_every),
        )
        logs.write(swept, folder, truth=truth, table=table)
    answer = logs.truth_of(swept)
    if json:
        typer.echo(files.to_json(answer), nl=False)
        return
    print_truth(_introduction(swept, noise), answer)
    for path in (folder, truth) if truth is not None else (folder,):
        typer.echo(f"wrote {path}")
    listed = ",".join(f"{loss:.10g}" for loss in swept.targets)
    typer.echo(f"next: ebfit fit {shlex.quote(str(folder))} --targets {listed}")


def _values(texts: Sequence[str]) -> dict[str, str]:
    values: dict[str, str] = {}
    for text in texts:
        name, equals, value = (part.strip() for part in text.partition("="))
        if not equals or not value:
            raise BadInputError(f"--set {text}: write NAME=VALUE, such as b_opt=128Ki.")
        if name in values:
            raise BadInputError(f"--set {name}: given twice.")
        values[name] = value
    return values


def _sorted_out(
    values: Mapping[str, str], world: "WorldName"
) -> tuple[dict[str, float], dict[str, float | str]]:
    """Tell the parameters of the world from those of the noise."""
    from ebfit.simulate import NOISE_FIELDS, PARAMETERS

    parameters: dict[str, float] = {}
    noise: dict[str, float | str] = {}
    for name, text in values.items():
        if name in PARAMETERS[world]:
            parameters[name] = _number(name, text)
        elif name in NOISE_FIELDS:
            noise[name] = text if (name, text) == ("window", "interval") else _number(name, text)
        else:
            raise BadInputError(
                f"--set {name}: no such setting. The world {world} has {', '.join(PARAMETERS[world])}; "
                f"the noise has {', '.join(NOISE_FIELDS)}."
            )
    return parameters, noise


def _number(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        pass
    try:
        return float(parse_size(text))
    except BadInputError:
        raise BadInputError(f"--set {name}={text}: give a number, such as 0.03 or 128Ki.") from None


def _introduction(swept: "Sweep", noise: str) -> str:
    sizes = swept.batch_tokens
    rows = sum(len(run.steps) for run in swept.runs)
    return (
        f"{len(swept.runs)} runs at {len(sizes)} batch sizes from {short(sizes[0])} to {short(sizes[-1])} tokens, "
        f"{rows:,} rows; world {swept.world.name}, noise {noise}, seed {swept.seed}."
    )
