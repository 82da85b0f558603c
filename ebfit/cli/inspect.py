"""``ebfit inspect``: what is read of logs, before anything is fitted to them."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from ebfit.cli import options
from ebfit.errors import BadInputError

if TYPE_CHECKING:
    from ebfit.runs import Run


def inspect(
    paths: options.Paths = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document (ebfit.inspect/1).")] = False,
    formats: Annotated[
        bool, typer.Option("--formats", help="List the formats that are read, with an example of each.")
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
    """Show what is read of logs.

    For every run: the batch size and where it is known from, rows read and dropped, the stable phase, the losses.
    What `fit` would warn of in all of them together is said, too. The exit status is 2 if it would refuse any of them.
    """
    if formats:
        from ebfit.report.format_list import print_formats
        from ebfit.runs.formats import FORMATS

        print_formats([(known.NAME, known.TRAINER, known.EXAMPLE) for known in FORMATS])
        return

    from ebfit import __version__
    from ebfit.files import Inspection, to_json
    from ebfit.records import input_record, run_record
    from ebfit.report.lines import collapsed_warnings, print_lines, working
    from ebfit.report.run_table import print_runs
    from ebfit.runs import files_read, read_logs

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
    with working("reading logs"):
        reading = read_logs(paths or [], reading_options)
    records = [run_record(run) for run in reading.runs]
    assumptions = dict.fromkeys(text for run in reading.runs for text in run.assumptions)
    warnings = [*collapsed_warnings(records), *assumptions, *_mixed(reading.runs)]
    if json:
        inputs = [input_record(path) for path in files_read(reading.runs, reading_options)]
        document = Inspection(
            schema="ebfit.inspect/1",
            ebfit_version=__version__,
            inputs=inputs,
            runs=records,
            warnings=warnings,
            problems=reading.problems,
        )
        typer.echo(to_json(document), nl=False)
    elif records:
        print_runs(records)
    print_lines("warning", warnings)
    print_lines("cannot be used", reading.problems)
    if reading.problems:
        raise typer.Exit(2)


def _mixed(runs: "Sequence[Run]") -> list[str]:
    """Return what `ebfit fit` would say of these runs together."""
    from ebfit.mixed import what_is_mixed
    from ebfit.samples import choose_loss

    usable = [run for run in runs if not run.problems]
    if len(usable) < 2:
        return []
    try:
        kind, _ = choose_loss(usable, None)
    except BadInputError:  # they share no loss, and are not for one fit
        return []
    return what_is_mixed(usable, kind)
