"""``ebfit fit``: from logs, or a table of steps to target losses, to B_min and B_opt with intervals."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, cast

import typer

from ebfit.cli import options
from ebfit.errors import BadInputError

if TYPE_CHECKING:
    from ebfit.files import SkippedTarget

LossChoice = Literal["auto", "train", "val"]


def fit(
    paths: options.Paths = None,
    points: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="In place of logs, a CSV of measured points: target_loss, batch_tokens (or batch_sequences and "
            "seq_len), steps; optional steps_se, seed, censored, group.",
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FILE", help="Write the result here, such as fit.json."),
    ] = None,
    targets: Annotated[
        str, typer.Option(metavar="LOSS,...|auto", help="Target losses, such as 2.4,2.2, or auto.")
    ] = "auto",
    n_targets: Annotated[int, typer.Option(metavar="N", help="How many targets auto picks.")] = 8,
    law: Annotated[
        Literal["revised", "classic", "surface", "auto"],
        typer.Option(
            help="The law to fit: per target, or, the surface, to all targets at once. auto: the one that predicts "
            "left-out batch sizes best."
        ),
    ] = "revised",
    coupling: Annotated[
        Literal["none", "pooled", "shared"],
        typer.Option(
            help="Whether target losses share the shape of the revised law: not at all, nearly, or one shape for all."
        ),
    ] = "pooled",
    loss: Annotated[
        LossChoice,
        typer.Option(help="The loss that targets are of; auto: validation where it is dense enough."),
    ] = "auto",
    bootstrap: Annotated[
        int, typer.Option(metavar="N", help="Refits per target behind the intervals.")
    ] = 1000,
    confidence: Annotated[float, typer.Option(metavar="C", help="Of the intervals.")] = 0.95,
    seed: Annotated[int, typer.Option(metavar="N", help="Of the bootstrap: same seed, same result.")] = 0,
    select: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=VALUE",
            help="Only the runs with this lr, seed, batch_tokens, seq_len, model, data, format or name; a|b for "
            "several.",
        ),
    ] = None,
    group_by: Annotated[
        str | None,
        typer.Option(metavar="KEY", help="Fit runs with another model, data, lr or seq_len by themselves."),
    ] = None,
    best_lr: Annotated[
        bool,
        typer.Option(
            "--best-lr",
            help="Of several learning rates keep, per batch size and target, the one with fewest steps.",
        ),
    ] = False,
    plots: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Draw the figures into this folder, made if need be.")
    ] = None,
    json: Annotated[
        bool, typer.Option("--json", help="Print one JSON document (ebfit.fit/1), no table.")
    ] = False,
    manifest: options.ManifestFile = None,
    columns: options.ColumnNames = None,
    format_name: options.FormatName = None,
    seq_len: options.SeqLen = None,
    batch_tokens: options.BatchTokens = None,
    warmup_steps: options.WarmupSteps = None,
    stable_until: options.StableUntil = None,
    allow_non_stable: options.AllowNonStable = False,
    micro_steps: options.MicroSteps = None,
    allow_dropped: options.AllowDropped = False,
    train_window: options.TrainWindow = None,
    train_ema: options.TrainEma = None,
) -> None:
    """Fit B_min and B_opt to loss curves, or to a table of steps to a target.

    B_min: below it the target loss is not reached in any number of steps.
    B_opt: the batch size that reaches it with the fewest tokens.
    """
    if (points is None) == (not paths and manifest is None):
        raise BadInputError("give either logs (PATH..., or a --manifest that names them) or --points FILE.")
    target_losses = options.parse_targets(targets)

    from ebfit import api, files, writing
    from ebfit.points import PointsTable, read_points
    from ebfit.report.fit_summary import print_fit
    from ebfit.report.lines import collapsed_warnings, print_lines, working
    from ebfit.runs import Run, files_read, read_runs

    if output is not None:
        writing.check_writable(output)
    if plots is not None:
        writing.check_folder(plots)
    reading_options = options.read_options(
        manifest=manifest,
        columns=columns,
        format_name=format_name,
        seq_len=seq_len,
        batch_tokens=batch_tokens,
        warmup_steps=warmup_steps,
        stable_until=stable_until,
        allow_non_stable=allow_non_stable,
        micro_steps=micro_steps,
        allow_dropped=allow_dropped,
        train_window=train_window,
        train_ema=train_ema,
    )
    source: list[Run] | PointsTable
    with working("reading"):
        source = read_points(points) if points is not None else read_runs(paths or [], reading_options)
    if output is not None:
        read = [points] if points is not None else files_read(cast(list[Run], source), reading_options)
        writing.refuse_overwriting(output, read)
    with working("fitting"):
        result = api.fit(
            source,
            targets=target_losses,
            n_targets=n_targets,
            law=law,
            coupling=coupling,
            loss=None if loss == "auto" else loss,
            bootstrap=bootstrap,
            confidence=confidence,
            seed=seed,
            select=_selected(select or ()),
            group_by=group_by,
            best_lr=best_lr,
            read_options=reading_options,
        )
    print_lines("warning", collapsed_warnings(result.runs) + result.warnings)
    print_lines("target skipped", [_skipped(item) for item in result.skipped_targets])
    written = []
    if output is not None:
        result.save(output)
        written.append(output)
    if plots is not None:
        from ebfit.report.plots import write_plots

        written += write_plots(result, plots)
    if json:
        typer.echo(files.to_json(result), nl=False)
    else:
        print_fit(result)
        for path in written:
            typer.echo(f"wrote {path}")
        if output is None:
            typer.echo("The result was not kept; -o fit.json would.")


def _selected(texts: Sequence[str]) -> dict[str, str]:
    selected: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not value.strip():
            raise BadInputError(f"--select {text}: write KEY=VALUE, such as lr=0.001.")
        if key.strip() in selected:
            raise BadInputError(
                f"--select {key.strip()}: given twice. Write several values as {key.strip()}=a|b."
            )
        selected[key.strip()] = value
    return selected


def _skipped(item: "SkippedTarget") -> str:
    group = f"group {item.group}, " if item.group else ""
    return f"{group}{item.loss:g}: {item.reason}."
