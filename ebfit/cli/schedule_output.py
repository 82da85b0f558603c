"""What `ebfit schedule` does with a plan once it is there: show it, write it, check somebody else's."""

import json
import re
from pathlib import Path

import typer
from rich import box
from rich.console import Console
from rich.table import Table

from ebfit import writing
from ebfit.batch_plan import SCHEMA, PlanError
from ebfit.errors import BadInputError
from ebfit.files import Plan, to_json
from ebfit.report.lines import print_lines
from ebfit.report.plan_summary import print_plan
from ebfit.schedule.trainers import TRAINERS, Setup, Trainer
from ebfit.schedule.trainers.divisible import check_divisible


def print_formats() -> None:
    """Print what `--format` takes, with who reads it."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")
    for header in ("--format", "read by", "batch sizes and where they change"):
        table.add_column(header, overflow="fold")
    for trainer in TRAINERS.values():
        table.add_row(trainer.name, trainer.reader, trainer.unit)
    Console(highlight=False).print(table)


def trainer_named(name: str) -> Trainer:
    """Return a trainer of `--format`.

    Raises
    ------
    BadInputError
        If there is none of this name.
    """
    trainer = TRAINERS.get(name)
    if trainer is None:
        raise BadInputError(
            f"--format {name}: not known{_formats_for(name)}. `ebfit schedule --format list` shows what is."
        )
    return trainer


def _formats_for(trainer: str) -> str:
    """Name the formats that a trainer of this name reads: whoever uses torchtitan asks for torchtitan first."""
    asked = trainer.lower()
    formats = [
        name for name, known in TRAINERS.items() if asked in re.findall(r"[\w-]+", known.reader.lower())
    ]
    return f"; {trainer} reads {' or '.join(formats)}" if formats else ""


def is_plan(path: Path) -> bool:
    """Say whether a file is a plan.json and not a fit.json."""
    try:
        document = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return False  # what is wrong with it is said by whoever reads it as a fit
    return isinstance(document, dict) and document.get("schema") == SCHEMA


def load_plan(path: Path) -> Plan:
    """Read plan.json and check that its stages follow one another.

    Raises
    ------
    BadInputError
        If they do not, or the file is no plan.
    """
    plan = Plan.load(path)
    try:
        stages = plan.batch_plan()
    except PlanError as error:
        raise BadInputError(f"{path}: {error}") from None
    said, is_so = (plan.total_steps, plan.leftover_tokens), (stages.total_steps, stages.leftover_tokens)
    if said != is_so:
        raise BadInputError(
            f"{path}: says {said[0]} steps with {said[1]} tokens left over, and its stages are {is_so[0]} steps with "
            f"{is_so[1]} left over. Correct total_steps and leftover_tokens, or plan anew."
        )
    return plan


def deliver(
    plan: Plan, format_name: str | None, setup: Setup, output: Path | None, plots: Path | None
) -> None:
    """Show a plan and write it.

    Parameters
    ----------
    plan : Plan
    format_name : str or None
        None where the user named no format: then the plan is only shown if there is no ``output``.
    setup : Setup
    output, plots : Path or None

    Raises
    ------
    BadInputError
        If the format is not known, cannot express the plan, or a file cannot be written.
    """
    text, notes = _text(plan, "json" if format_name is None else format_name, setup)
    written = []
    if output is not None:
        writing.write_text(output, text)
        written.append(output)
    if plots is not None:
        from ebfit.report.plots import write_plan_plot

        written.append(write_plan_plot(plan, plots))
    print_lines("warning", plan.warnings)
    print_lines("note", notes)
    is_printed = output is None and format_name is not None
    console = Console(stderr=is_printed, highlight=False)
    print_plan(plan, console)
    for path in written:
        console.print(f"wrote {path}", markup=False, soft_wrap=True)
    if is_printed:
        typer.echo(text, nl=False)
    elif output is None:
        console.print("The plan was not kept; -o plan.json would.")


def _text(plan: Plan, format_name: str, setup: Setup) -> tuple[str, list[str]]:
    if format_name == "json":
        check_divisible(plan.batch_plan(), setup)
        plan = plan.model_copy(
            update={"micro_batch": setup.micro_batch, "data_parallel": setup.data_parallel}
        )
        return to_json(plan), []
    exported = trainer_named(format_name).export(plan.batch_plan(), setup)
    return exported.text, exported.notes
