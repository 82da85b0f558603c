"""``ebfit schedule``: from a fit to a batch-size plan, and from a plan to what trainers read."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from ebfit.cli.options import size
from ebfit.cli.sizes import parse_size
from ebfit.errors import BadInputError

if TYPE_CHECKING:
    from ebfit.files import Plan

_STAGES, _RATE, _EXPORT, _CHECK = "Stages", "Learning rate", "Export", "Checking a schedule that you have"


def _size_or_none(text: str) -> int:
    return 0 if text.strip() == "0" else size(text)


def schedule(
    context: typer.Context,
    source: Annotated[
        Path | None,
        typer.Argument(
            metavar="FIT.json|PLAN.json",
            help="What `ebfit fit -o` wrote; or a plan, to be exported as it is.",
            show_default=False,
        ),
    ] = None,
    total_tokens: Annotated[
        int | None, typer.Option(metavar="TOKENS", parser=size, help="Of the whole run: 2T.")
    ] = None,
    seq_len: Annotated[
        int | None, typer.Option(metavar="TOKENS", parser=size, help="Tokens per sequence.")
    ] = None,
    policy: Annotated[
        str,
        typer.Option(
            metavar="POLICY",
            help="optimal: B_opt at the tokens so far. loss: B_opt at the loss that the plan has reached by then. "
            "minimum: B_min. overhead:0.05: the largest batch that costs at most 5% more tokens.",
        ),
    ] = "optimal",
    bound: Annotated[
        Literal["low", "value", "high"], typer.Option(help="Which end of the policy's interval to follow.")
    ] = "value",
    group: Annotated[
        str | None, typer.Option(metavar="NAME", help="Of a fit of several groups: whose trend to follow.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="Write the plan or the export here.")
    ] = None,
    plots: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Draw plan.png into this folder, made if need be.")
    ] = None,
    sizes: Annotated[
        str | None,
        typer.Option(
            metavar="TOKENS,...", help="The batch sizes to use: 2Mi,4Mi,6Mi.", rich_help_panel=_STAGES
        ),
    ] = None,
    step_factor: Annotated[
        float | None,
        typer.Option(metavar="X", help="From one size to the next; 2 if left out.", rich_help_panel=_STAGES),
    ] = None,
    stages: Annotated[
        str | None,
        typer.Option(
            metavar="START:TOKENS,...",
            help="A plan of your own, with or without a fit to judge it by: 0:2Mi,125B:4Mi,250B:5Mi.",
            rich_help_panel=_STAGES,
        ),
    ] = None,
    min_batch: Annotated[
        int | None, typer.Option(metavar="TOKENS", parser=size, help="No less.", rich_help_panel=_STAGES)
    ] = None,
    max_batch: Annotated[
        int | None, typer.Option(metavar="TOKENS", parser=size, help="No more.", rich_help_panel=_STAGES)
    ] = None,
    batch_multiple: Annotated[
        int | None,
        typer.Option(
            metavar="TOKENS", parser=size, help="Sizes are multiples of this.", rich_help_panel=_STAGES
        ),
    ] = None,
    power_of_two: Annotated[
        bool,
        typer.Option(
            "--round-to-power-of-two",
            help="Sizes are powers of two, counted in sequences.",
            rich_help_panel=_STAGES,
        ),
    ] = False,
    max_stages: Annotated[
        int | None, typer.Option(metavar="N", help="At most so many.", rich_help_panel=_STAGES)
    ] = None,
    min_stage_tokens: Annotated[
        int | None,
        typer.Option(
            metavar="TOKENS",
            parser=_size_or_none,
            help="No stage is shorter; a hundredth of all tokens if left out.",
            rich_help_panel=_STAGES,
        ),
    ] = None,
    warmup_tokens: Annotated[
        int | None,
        typer.Option(
            metavar="TOKENS",
            parser=_size_or_none,
            help="While the learning rate rises, the batch stays put.",
            rich_help_panel=_RATE,
        ),
    ] = None,
    decay_tokens: Annotated[
        int | None,
        typer.Option(
            metavar="TOKENS",
            parser=_size_or_none,
            help="While it falls at the end, too.",
            rich_help_panel=_RATE,
        ),
    ] = None,
    decay_fraction: Annotated[
        float | None,
        typer.Option(metavar="X", help="The same as a part of all tokens: 0.1.", rich_help_panel=_RATE),
    ] = None,
    lr_rule: Annotated[
        Literal["none", "sqrt", "linear"],
        typer.Option(
            help="How the learning rate follows the batch size. none: not at all, as in the paper, whose B_opt holds "
            "at one learning rate.",
            rich_help_panel=_RATE,
        ),
    ] = "none",
    format_name: Annotated[
        str,
        typer.Option(
            "--format",
            metavar="NAME|list",
            help="What to write: json (plan.json), or what a trainer reads; list names them all.",
            rich_help_panel=_EXPORT,
        ),
    ] = "json",
    micro_batch: Annotated[
        int | None,
        typer.Option(
            metavar="SEQUENCES",
            min=1,
            help="Per device and forward pass: sizes are multiples of it times --data-parallel.",
            rich_help_panel=_EXPORT,
        ),
    ] = None,
    data_parallel: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=1, help="Devices that see different sequences.", rich_help_panel=_EXPORT
        ),
    ] = None,
    strict: Annotated[
        bool,
        typer.Option(
            "--strict",
            help="Refuse a plan that the trainer cannot follow exactly, in place of the nearest.",
            rich_help_panel=_EXPORT,
        ),
    ] = False,
    check: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Say what is wrong in a schedule of yours, in the --format it is written in.",
            rich_help_panel=_CHECK,
        ),
    ] = None,
) -> None:
    """Make a batch-size plan of a fit, and write it as your trainer reads it.

    Without -o nothing is kept: the plan is shown, or with --format the text for the trainer printed.
    """
    given = {
        parameter.opts[0]: parameter.name
        for parameter in context.command.params
        if parameter.name and _is_given(context, parameter.name)
    }

    from ebfit import writing
    from ebfit.cli import schedule_output
    from ebfit.schedule.trainers import Setup

    if format_name == "list":
        schedule_output.print_formats()
        return
    if output is not None:
        writing.check_writable(output)
        writing.refuse_overwriting(output, [path for path in (source, check) if path is not None])
    if plots is not None:
        writing.check_folder(plots)
    if group is not None and source is None:
        raise BadInputError(f"--group {group}: there is no fit whose group it could be. Give a fit.json.")
    if check is not None:
        from ebfit.cli.schedule_check import check_file
        from ebfit.files import Fit
        from ebfit.schedule.source import Source

        _allow(given, "--check", _SETUP | {"--check", "--group", "--total-tokens", "--seq-len"})
        if "--format" not in given:
            raise BadInputError(
                f"--check {check}: say with --format what it is written for, such as megatron."
            )
        if source is not None and schedule_output.is_plan(source):
            raise BadInputError(
                f"{source}: is a plan, and --check compares with a fit. Give the fit.json, or leave it out."
            )
        setup = Setup(micro_batch, data_parallel)
        fit = None if source is None else Source(Fit.load(source), str(source), group)
        raise typer.Exit(check_file(check, format_name, fit, seq_len, total_tokens, setup))
    if source is not None and schedule_output.is_plan(source):
        _allow(given, f"{source}, which is a plan", _SETUP | _OUTPUT)
        plan = schedule_output.load_plan(source)
    else:
        plan = _new_plan(given, source, context.params)
    schedule_output.deliver(
        plan,
        format_name=format_name if "--format" in given else None,
        setup=Setup(micro_batch or plan.micro_batch, data_parallel or plan.data_parallel, strict),
        output=output,
        plots=plots,
    )


def _is_given(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


_SETUP = {"source", "--format", "--micro-batch", "--data-parallel"}
_OUTPUT = {"-o", "--plots", "--strict"}
_FOLLOWING = {
    "--policy",
    "--bound",
    "--sizes",
    "--step-factor",
    "--min-batch",
    "--max-batch",
    "--max-stages",
    "--min-stage-tokens",
    "--round-to-power-of-two",
}


def _new_plan(given: Iterable[str], source: Path | None, values: dict[str, Any]) -> "Plan":
    """Make a plan of a fit, or of the stages that the user gives."""
    from ebfit.files import Fit
    from ebfit.records import input_record
    from ebfit.schedule.planning import Wanted, given_plan, make_plan
    from ebfit.schedule.source import Source
    from ebfit.schedule.stage_options import StageOptions

    if source is None and values["stages"] is None:
        raise BadInputError("give a fit.json that `ebfit fit -o` wrote, or a plan of your own with --stages.")
    fit = None if source is None else Source(Fit.load(source), str(source), values["group"])
    for option in ("--total-tokens", "--seq-len"):
        if option not in given:
            raise BadInputError(f"{option} is missing: the tokens of the {_NEEDED[option]}.")
    if "--decay-tokens" in given and "--decay-fraction" in given:
        raise BadInputError("--decay-tokens and --decay-fraction say the same. Give one of them.")
    sizes = values["sizes"]
    options = StageOptions(
        total_tokens=values["total_tokens"],
        seq_len=values["seq_len"],
        warmup_tokens=values["warmup_tokens"] or 0,
        decay_tokens=_decay_tokens(values),
        batch_multiple=values["batch_multiple"],
        micro_batch=values["micro_batch"],
        data_parallel=values["data_parallel"],
        min_batch=values["min_batch"],
        max_batch=values["max_batch"],
        step_factor=values["step_factor"],
        sizes=None if sizes is None else [_size("--sizes", part) for part in sizes.split(",")],
        max_stages=values["max_stages"],
        min_stage_tokens=values["min_stage_tokens"],
        power_of_two=values["power_of_two"],
    )
    wanted = Wanted(policy=values["policy"], bound=values["bound"], lr_rule=values["lr_rule"])
    if values["stages"] is not None:
        _allow([option for option in given if option in _FOLLOWING], "--stages, which is a whole plan", set())
        plan = given_plan(_stages(values["stages"]), options, wanted, fit)
    else:
        assert fit is not None, "said above"
        plan = make_plan(fit, options, wanted)
    if source is not None:
        plan.inputs = [input_record(source)]
    return plan


_NEEDED = {"--total-tokens": "whole run, such as 2T", "--seq-len": "sequence, such as 4096"}


def _allow(given: Iterable[str], what: str, allowed: set[str]) -> None:
    """Refuse options that would have no effect."""
    useless = [option for option in given if option not in allowed]
    if useless:
        raise BadInputError(f"{', '.join(useless)} cannot be used with {what}. Leave it out.")


def _decay_tokens(values: dict[str, Any]) -> int:
    fraction = values["decay_fraction"]
    if fraction is None:
        return values["decay_tokens"] or 0
    if not 0.0 <= fraction < 1.0:
        raise BadInputError(f"--decay-fraction {fraction:g}: give a part of all tokens, such as 0.1.")
    return round(fraction * values["total_tokens"])


def _stages(text: str) -> list[tuple[int, int]]:
    stages = []
    for part in text.split(","):
        start, colon, batch = part.partition(":")
        if not colon:
            raise BadInputError(f"--stages {part}: write START:BATCH in tokens, such as 125B:4Mi.")
        stages.append((0 if start.strip() == "0" else _size("--stages", start), _size("--stages", batch)))
    return stages


def _size(option: str, text: str) -> int:
    try:
        return parse_size(text)
    except BadInputError as error:
        raise BadInputError(f"{option}: {error}") from None
