"""What ``ebfit schedule`` prints: the stages, steps against constant batches, and how far the plan gets."""

from typing import Literal

from rich import box
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from ebfit.files import FAR, Plan, PlanComparison, StageRecord
from ebfit.report.numbers import estimate_text
from ebfit.text import printable, short

_CONSTANT = {"best_constant": "best constant", "first_stage": "first stage", "last_stage": "last stage"}


def print_plan(plan: Plan, console: Console) -> None:
    """Print a plan; it fits 80 columns."""
    console.print(_headline(plan))
    console.print(stage_table(plan))
    for sentence in (_whole_run(plan), _constant_batches(plan), _prediction(plan)):
        if sentence:
            console.print(Text(sentence))


def stage_table(plan: Plan) -> RenderableType:
    """Show the stages of a plan, one line each.

    Parameters
    ----------
    plan : Plan

    Returns
    -------
    rich renderable
        Where each stage starts, in tokens and steps, its batch size in tokens and sequences, its steps; the scale of
        the learning rate where it is not 1 throughout; and of a fitted plan what the fit says of B_opt at its end, and
        how many times its end lies beyond the largest measured D, in red from ten on.
    """
    table = Table(
        box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False, pad_edge=False, header_style="bold"
    )
    fitted = any(stage.b_opt_at_end is not None for stage in plan.stages)
    scaled = any(stage.lr_scale != 1.0 for stage in plan.stages)
    _column(table, "#")
    _column(table, "token")
    _column(table, "step")
    _column(table, "batch")
    _column(table, "sequences")
    _column(table, "steps")
    if scaled:
        _column(table, "lr x")
    if fitted:
        _column(table, "B_opt at its end", "left")
        _column(table, "beyond D")
    for number, stage in enumerate(plan.stages, start=1):
        cells: list[Text] = [
            Text(str(number)),
            Text(short(stage.start_tokens)),
            Text(_count(stage.start_step)),
            Text(short(stage.batch_tokens), "bold"),
            Text(_count(stage.batch_sequences)),
            Text(_count(stage.steps)),
        ]
        if scaled:
            cells.append(Text(f"{stage.lr_scale:.3g}"))
        if fitted:
            cells += [Text(estimate_text(stage.b_opt_at_end)), _beyond(stage)]
        table.add_row(*cells)
    return Group(table, Text(_legend(fitted), "dim"))


def _count(number: int) -> str:
    """Write a count; from millions on shortened, as a column that is cut off at the edge tells less."""
    return f"{number:,}" if number < 1_000_000 else short(number, 4)


def _column(table: Table, header: str, justify: Literal["left", "right"] = "right") -> None:
    table.add_column(header, justify=justify, no_wrap=True)


def _legend(fitted: bool) -> str:
    text = "token, step: where a stage starts. batch: tokens per optimizer step."
    return f"{text} beyond D: its end over the largest measured D." if fitted else text


def _beyond(stage: StageRecord) -> Text:
    if stage.beyond_measured is None:
        return Text("")
    if stage.beyond_measured <= 1.0:
        return Text("measured")
    digits = f"{stage.beyond_measured:.2g}" if stage.beyond_measured < 100.0 else short(stage.beyond_measured)
    return Text(f"{digits}x", "bold red" if stage.beyond_measured > FAR else "")


def _headline(plan: Plan) -> Text:
    edge = "" if plan.bound == "value" else f", {plan.bound} end of its interval"
    text = f"Policy {printable(plan.policy)}{edge}: {short(plan.total_tokens)} tokens in sequences of {plan.seq_len:,}"
    if plan.warmup_tokens:
        text += f", warmup {short(plan.warmup_tokens)}"
    if plan.decay_start_tokens is not None:
        text += f", decay from {short(plan.decay_start_tokens)}"
    return Text(f"{text}.")


def _whole_run(plan: Plan) -> str:
    left = f"{plan.leftover_tokens:,} tokens, less than one batch, are left over."
    return f"{plan.total_steps:,} steps in all; {left if plan.leftover_tokens else 'no token is left over.'}"


def _constant_batches(plan: Plan) -> str:
    alike: dict[int, list[PlanComparison]] = {}
    for item in plan.comparison:
        alike.setdefault(item.batch_tokens, []).append(item)
    parts = [
        f"{items[0].steps:,} at {short(batch)} ({' and '.join(_CONSTANT[item.name] for item in items)})"
        for batch, items in alike.items()
    ]
    return f"Steps with one batch size all along: {', '.join(parts)}." if parts else ""


def _prediction(plan: Plan) -> str:
    prediction = plan.prediction
    if prediction is None:
        return ""
    slow, fast = prediction.same_loss_by_loss, prediction.same_loss_by_steps
    if slow.value is None or slow.low is None or fast.value is None or fast.high is None:
        return ""
    where = "where the stable phase ends" if plan.decay_start_tokens is not None else "at its end"
    loss = ""
    if prediction.loss_low is not None and prediction.loss_high is not None:
        loss = f", loss {prediction.loss_low:.3f} to {prediction.loss_high:.3f} of the model that was fitted"
    band = f"[{short(slow.low)}, {short(fast.high)}] tokens{loss}."
    at = f"after {short(prediction.at_tokens)} tokens, {where}"
    said = f"Predicted: {at}, the plan is as far as the best constant batch"
    if len(plan.stages) == 1:
        return f"{said} after {short(slow.value)} {band}"
    return (
        f"{said} after {short(slow.value)} to {short(fast.value)} {band} "
        "The range is what a run may or may not remember of its earlier, smaller batches."
    )
