"""``ebfit sweep``: many small WSD runs over batch sizes, for `ebfit fit` to read."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from ebfit.cli.options import size, steps
from ebfit.cli.sizes import parse_batch_sizes
from ebfit.errors import BadInputError

if TYPE_CHECKING:
    from ebfit.sweep.grid import GridOptions
    from ebfit.sweep.session import Session

_MODEL, _DATA, _TRAINING, _GRID, _MACHINE = "Model", "Data", "Training", "Grid", "Machine"
_MOST_AT_ONCE = 10**9
_FEWEST_SIZES_TO_FIT = 5  # which ebfit.fitting asks for, and takes a second to load


def sweep(
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="DIR", help="A folder per run goes into this one.")
    ] = Path("runs"),
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the runs with tokens, steps and time; train nothing.")
    ] = False,
    preset: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="tiny, 10m, 60m, 125m, 350m or 1b: the model, with proposals for all below.",
            rich_help_panel=_MODEL,
        ),
    ] = "tiny",
    overrides: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="Change a size of the model, such as n_layer=8; may be repeated.",
            rich_help_panel=_MODEL,
        ),
    ] = None,
    seq_len: Annotated[
        int | None,
        typer.Option(metavar="TOKENS", parser=size, help="Tokens per sequence.", rich_help_panel=_MODEL),
    ] = None,
    data: Annotated[
        str,
        typer.Option(
            metavar="stdlib|synthetic|PATH",
            help="The source code of Python's standard library, a random process of known entropy, or files: text, "
            "token ids as .bin or .npy.",
            rich_help_panel=_DATA,
        ),
    ] = "stdlib",
    tokenizer: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="For text: bytes, or an encoding of tiktoken such as gpt2.",
            rich_help_panel=_DATA,
        ),
    ] = "bytes",
    val_tokens: Annotated[
        int | None,
        typer.Option(
            metavar="TOKENS",
            parser=size,
            help="Size of the validation set, which is the same for all runs.",
            rich_help_panel=_DATA,
        ),
    ] = None,
    batch_sizes: Annotated[
        str | None,
        typer.Option(
            metavar="TOKENS,...",
            help="Tokens per step: 64,128,256, or 64..32Ki (doubling), or 64..32Ki:10 (ten of them).",
            rich_help_panel=_GRID,
        ),
    ] = None,
    seeds: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Runs per batch size, with seeds from 0, or from --first-seed.",
            rich_help_panel=_GRID,
        ),
    ] = None,
    first_seed: Annotated[
        int,
        typer.Option(metavar="N", help="For more seeds than were run before.", rich_help_panel=_GRID),
    ] = 0,
    lr: Annotated[
        float | None,
        typer.Option(
            "--lr",
            metavar="LR",
            help="Learning rate of the stable phase, for all batch sizes.",
            rich_help_panel=_GRID,
        ),
    ] = None,
    lrs: Annotated[
        str | None,
        typer.Option(
            "--lrs",
            metavar="LR,...",
            help="Train every batch size at each of these.",
            rich_help_panel=_GRID,
        ),
    ] = None,
    lr_rule: Annotated[
        Literal["none", "sqrt", "linear"],
        typer.Option(
            help="How the learning rate grows with the batch size.",
            rich_help_panel=_GRID,
        ),
    ] = "none",
    lr_batch: Annotated[
        int | None,
        typer.Option(
            metavar="TOKENS",
            parser=size,
            help="The batch size that --lr holds at under a rule; left out: the preset's middle one.",
            rich_help_panel=_GRID,
        ),
    ] = None,
    warmup_steps: Annotated[
        int | None,
        typer.Option(
            metavar="STEPS",
            parser=steps,
            help="Steps of linear warmup.",
            rich_help_panel=_TRAINING,
        ),
    ] = None,
    max_tokens: Annotated[
        int | None,
        typer.Option(
            metavar="TOKENS",
            parser=size,
            help="The most tokens that a run consumes.",
            rich_help_panel=_TRAINING,
        ),
    ] = None,
    max_steps: Annotated[
        int | None,
        typer.Option(
            metavar="STEPS",
            parser=size,
            help="The most steps that a run takes.",
            rich_help_panel=_TRAINING,
        ),
    ] = None,
    until_loss: Annotated[
        float | None,
        typer.Option(
            metavar="LOSS",
            help="End the stable phase of a run once its validation loss is below this.",
            rich_help_panel=_TRAINING,
        ),
    ] = None,
    stop_when_level: Annotated[
        bool,
        typer.Option(
            help="End the stable phase of a run whose loss falls no more.", rich_help_panel=_TRAINING
        ),
    ] = True,
    decay_fraction: Annotated[
        float,
        typer.Option(
            metavar="SHARE",
            help="Share of the steps, at the end, that the learning rate decays in; 0: none.",
            rich_help_panel=_TRAINING,
        ),
    ] = 0.0,
    decay_shape: Annotated[
        Literal["linear", "1-sqrt"],
        typer.Option(help="How it decays.", rich_help_panel=_TRAINING),
    ] = "linear",
    beta1: Annotated[
        float,
        typer.Option("--beta1", metavar="BETA", help="Of AdamW.", rich_help_panel=_TRAINING),
    ] = 0.9,
    beta2: Annotated[
        float,
        typer.Option("--beta2", metavar="BETA", help="Of AdamW.", rich_help_panel=_TRAINING),
    ] = 0.95,
    weight_decay: Annotated[
        float,
        typer.Option(metavar="RATE", help="Of AdamW; norms are not decayed.", rich_help_panel=_TRAINING),
    ] = 0.1,
    clip_norm: Annotated[
        float,
        typer.Option(
            metavar="NORM", help="The largest global norm of a gradient.", rich_help_panel=_TRAINING
        ),
    ] = 1.0,
    evaluations_per_doubling: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Validations while the step number doubles.",
            rich_help_panel=_TRAINING,
        ),
    ] = None,
    log_every: Annotated[
        int,
        typer.Option(
            metavar="STEPS",
            help="Steps per record of the train loss, their mean.",
            rich_help_panel=_TRAINING,
        ),
    ] = 1,
    device: Annotated[
        str,
        typer.Option(
            metavar="auto|cpu|cuda|cuda:1|mps",
            help="auto: all GPUs, or the CPU where there is none.",
            rich_help_panel=_MACHINE,
        ),
    ] = "auto",
    jobs: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Runs side by side; left out: one per GPU, or as many as the cores serve well.",
            rich_help_panel=_MACHINE,
        ),
    ] = None,
    precision: Annotated[
        Literal["auto", "float32", "bfloat16"],
        typer.Option(
            help="Of matrix products; auto: bfloat16 on GPUs that have it.",
            rich_help_panel=_MACHINE,
        ),
    ] = "auto",
    micro_batch: Annotated[
        int | None,
        typer.Option(
            metavar="SEQUENCES",
            help="Sequences that go through the model at once; left out: as many as fit.",
            rich_help_panel=_MACHINE,
        ),
    ] = None,
    compile_model: Annotated[
        Literal["auto", "on", "off"],
        typer.Option("--compile", help="Compile the model; auto: where that pays.", rich_help_panel=_MACHINE),
    ] = "auto",
    checkpoint_seconds: Annotated[
        float,
        typer.Option(metavar="S", help="Time between checkpoints.", rich_help_panel=_MACHINE),
    ] = 60.0,
    tokens_per_second: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            parser=size,
            help="With --dry-run: plan for a machine where one run trains at this speed.",
            rich_help_panel=_MACHINE,
        ),
    ] = None,
) -> None:
    """Train small models at many batch sizes, for `ebfit fit` to read.

    Every run warms up, then keeps its learning rate; Ctrl-C stops the sweep.
    The same command again skips finished runs and continues interrupted ones.
    """
    from ebfit.sweep.execution import Execution
    from ebfit.sweep.grid import GridOptions
    from ebfit.sweep.recipe import Optimizer

    if tokens_per_second is not None and not dry_run:
        raise BadInputError("--tokens-per-second only plans: give --dry-run too.")
    for name, value in (("--jobs", jobs), ("--micro-batch", micro_batch)):
        if value is not None and not 0 < value <= _MOST_AT_ONCE:
            raise BadInputError(f"{name} {value}: must be above 0, and at most 10^9.")
    if not 0 <= checkpoint_seconds < float("inf"):
        raise BadInputError(f"--checkpoint-seconds {checkpoint_seconds}: must be 0 or above.")
    grid = GridOptions(
        preset=preset,
        overrides=tuple(overrides or ()),
        data=data,
        tokenizer=tokenizer,
        seq_len=seq_len,
        val_tokens=val_tokens,
        batch_sizes=parse_batch_sizes(batch_sizes),
        seeds=seeds,
        first_seed=first_seed,
        lr=lr,
        lrs=_learning_rates(lrs),
        lr_rule=lr_rule,
        lr_batch_tokens=lr_batch,
        warmup_steps=warmup_steps,
        max_tokens=max_tokens,
        max_steps=max_steps,
        until_loss=until_loss,
        stop_when_level=stop_when_level,
        decay_fraction=decay_fraction,
        decay_shape=decay_shape,
        optimizer=Optimizer(beta1=beta1, beta2=beta2, weight_decay=weight_decay, clip_norm=clip_norm),
        precision=None if precision == "auto" else precision,
        log_every=log_every,
        evaluations_per_doubling=evaluations_per_doubling,
    )
    if tokens_per_second is not None:
        _plan_for_another_machine(grid, tokens_per_second, jobs)
        return

    from ebfit.report.lines import working
    from ebfit.sweep.screen import output_for_show
    from ebfit.sweep.session import prepare

    with working("planning"):
        session = prepare(
            grid,
            output,
            Execution(device, micro_batch, compile_model, checkpoint_seconds),
            jobs=jobs,
        )
    if dry_run:
        _show_plan(session)
    else:
        with output_for_show():
            _carry_out(session)


def _learning_rates(text: str | None) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in text.split(",")) if text is not None else ()
    except ValueError:
        raise BadInputError(f"--lrs {text}: give learning rates such as 0.01,0.003.") from None


def _plan_for_another_machine(grid: "GridOptions", tokens_per_second: int, jobs: int | None) -> None:
    from ebfit.files import RunOutcome
    from ebfit.report.lines import print_lines
    from ebfit.sweep.estimate import Speed
    from ebfit.sweep.folders import PlannedRun
    from ebfit.sweep.grid import plan_runs
    from ebfit.sweep.tables import print_grid, print_model

    plan = plan_runs(grid)
    print_lines("warning", plan.warnings)
    runs = [PlannedRun(recipe, Path(recipe.name), "new", RunOutcome()) for recipe in plan.recipes]
    print_model(runs, plan.data.source)
    source = f"those of {tokens_per_second:,} tokens per second for each run, validation included"
    print_grid(runs, Speed(0.0, 1 / tokens_per_second, source), jobs or 1)


def _introduce(session: "Session") -> None:
    from ebfit.report.lines import print_lines
    from ebfit.sweep.tables import print_model

    print_lines("warning", session.warnings)
    print_model(session.runs, session.source, session.places)


def _show_plan(session: "Session") -> None:
    from ebfit.report.lines import working
    from ebfit.sweep.estimate import measured_speed
    from ebfit.sweep.tables import print_grid

    _introduce(session)
    place = session.places[0]
    with working("timing a few steps"):
        speed = measured_speed(session.runs[0].recipe, place.device, place.threads)
    print_grid(session.runs, speed, len(session.places))


def _carry_out(session: "Session") -> None:
    from ebfit.report.lines import print_lines
    from ebfit.sweep.progress import watching
    from ebfit.sweep.session import carry_out
    from ebfit.sweep.tables import print_summary

    _introduce(session)
    runs, ended = carry_out(session, watching)
    print_summary(runs, ended.outcomes)
    if ended.signal is not None:
        print_lines("stopped", ["the same command continues the sweep where it was."])
        raise typer.Exit(128 + ended.signal)
    failed = {name: outcome for name, outcome in ended.outcomes.items() if outcome.status == "failed"}
    print_lines("failed", [f"{session.output / name}: {outcome.reason}" for name, outcome in failed.items()])
    sizes = {run.recipe.batch_tokens for run in runs}
    output = shlex.quote(str(session.output))
    if len(sizes) >= _FEWEST_SIZES_TO_FIT:
        print(f"next: ebfit fit {output}", flush=True)
    else:
        print(
            f"next: ebfit inspect {output}, or more batch sizes: ebfit fit wants {_FEWEST_SIZES_TO_FIT} or more"
        )
    if failed:
        raise typer.Exit(1)
