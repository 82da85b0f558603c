"""The tables of a sweep: what it is going to do, and what came of it. Both fit 80 columns."""

from collections.abc import Mapping, Sequence
from itertools import groupby

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ebfit.files import RunOutcome
from ebfit.sweep.estimate import Speed, duration, time_side_by_side
from ebfit.sweep.execution import Outcome
from ebfit.sweep.folders import PlannedRun, unfinished
from ebfit.sweep.launch import Place
from ebfit.sweep.recipe import Recipe
from ebfit.text import printable, short


def print_model(runs: Sequence[PlannedRun], data: str, places: Sequence[Place] = ()) -> None:
    """Print what is trained, on what, and where, if that is known, to stdout."""
    recipe = runs[0].recipe
    model = recipe.architecture
    facts = {
        "model": f"{short(model.parameters)} parameters, {short(model.parameters_without_embeddings)} without "
        f"embeddings; {_counted(model.n_layer, 'layer')}, width {model.d_model:,}, vocabulary {model.vocab_size:,}",
        "data": f"{printable(data)}; sequences of {recipe.seq_len:,} tokens, {recipe.val_tokens:,} for validation",
    }
    if places:
        devices = ", ".join(dict.fromkeys(place.device for place in places))
        facts["device"] = (
            f"{devices}, {recipe.precision}; {_counted(len(places), 'run')} at a time, "
            f"{_counted(places[0].threads, 'CPU thread')} each"
        )
    grid = Table.grid(padding=(0, 2, 0, 0))
    for name, text in facts.items():
        grid.add_row(Text(name, "dim"), Text(text))
    _console().print(grid)


def print_grid(runs: Sequence[PlannedRun], speed: Speed, jobs: int) -> None:
    """Print the runs of a sweep with tokens, steps and estimated time, one line per batch size and learning rate.

    Parameters
    ----------
    runs : sequence of PlannedRun
        By batch size and learning rate.
    speed : Speed
    jobs : int
        How many run at a time.
    """
    console = _console()
    waiting = unfinished(runs)
    seconds = [speed.seconds(run.recipe, run.steps_done) for run in waiting]
    table = _table()
    some_done = len(waiting) < len(runs)
    done = ["done"] if some_done else []
    for header in ("batch tokens", "sequences", "lr", "runs", *done, "steps", "tokens", "time each"):
        table.add_column(header, justify="right")
    for (tokens, lr), alike in groupby(runs, key=lambda run: (run.recipe.batch_tokens, run.recipe.lr)):
        same = list(alike)
        recipe = same[0].recipe
        table.add_row(
            f"{tokens:,}",
            f"{recipe.batch_sequences:,}",
            f"{lr:g}",
            str(len(same)),
            *([str(sum(run.state == "finished" for run in same))] if some_done else []),
            f"{recipe.steps:,}",
            short(recipe.tokens),
            duration(speed.seconds(recipe)),
        )
    console.print(table)
    if not waiting:
        console.print("All runs are finished.")
        return
    tokens_left = sum(run.recipe.tokens - run.steps_done * run.recipe.batch_tokens for run in waiting)
    total = duration(time_side_by_side(seconds, jobs))
    at_a_time = f", {jobs} at a time" if jobs > 1 else ""
    to_train = f"{_counted(len(waiting), 'run')} to train, {short(tokens_left)} tokens"
    console.print(Text(f"{to_train}: about {total}{at_a_time}", "bold"))
    console.print(Text(f"Times are {speed.source}.{_earlier(waiting[0].recipe)}"))


def _earlier(recipe: Recipe) -> str:
    reasons = []
    if recipe.until_loss is not None:
        reasons.append(f"their loss is below {recipe.until_loss:g}")
    if recipe.stop_when_level:
        reasons.append("their loss levels off")
    return f" Runs stop earlier once {' or '.join(reasons)}." if reasons else ""


def print_summary(runs: Sequence[PlannedRun], outcomes: Mapping[str, Outcome]) -> None:
    """Print what came of every run of the grid, with its last validation loss; finished ones are among them.

    Parameters
    ----------
    runs : sequence of PlannedRun
    outcomes : mapping of str to Outcome
        Of the runs that were trained now, by name.
    """
    console = _console()
    table = _table()
    table.add_column("run", no_wrap=True)
    for header in ("steps", "tokens", "loss"):
        table.add_column(header, justify="right", no_wrap=True)
    table.add_column("ended", overflow="fold")
    for header in ("time", "tok/s"):
        table.add_column(header, justify="right", no_wrap=True)
    for run in runs:
        outcome: Outcome | RunOutcome = outcomes.get(run.recipe.name, run.outcome)
        never = run.state == "new" and run.recipe.name not in outcomes
        table.add_row(
            run.label,
            f"{outcome.step:,}",
            short(outcome.tokens),
            "-" if outcome.val_loss is None else f"{outcome.val_loss:.3f}",
            "not started" if never else _why(outcome),
            duration(outcome.seconds),
            short(outcome.tokens_per_second) if outcome.tokens_per_second else "-",
        )
    console.print(table)
    used = [o.flops_utilisation for o in outcomes.values() if o.flops_utilisation is not None]
    if used:
        console.print(f"model FLOPs utilisation: {min(used):.0%} to {max(used):.0%}")


def _why(outcome: Outcome | RunOutcome) -> Text:
    if outcome.status == "finished":
        return Text(printable(outcome.reason))
    return Text(
        f"{outcome.status}: {printable(outcome.reason)}", "red" if outcome.status == "failed" else "yellow"
    )


def _console() -> Console:
    return Console(highlight=False, soft_wrap=False)


def _counted(count: int, thing: str) -> str:
    return f"{count:,} {thing}" if count == 1 else f"{count:,} {thing}s"


def _table() -> Table:
    return Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 2, 0, 0))
