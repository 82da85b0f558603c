"""What is seen of a sweep while it runs: bars on a terminal, plain lines elsewhere; both on stderr."""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn
from rich.text import Text

from ebfit.sweep import execution
from ebfit.sweep.estimate import TimeLeft, duration
from ebfit.sweep.execution import Outcome
from ebfit.sweep.folders import PlannedRun
from ebfit.sweep.launch import Watcher
from ebfit.sweep.screen import for_show
from ebfit.text import printable, short

_STOPPING = "stopping: every run makes a checkpoint first; another Ctrl-C does not wait for them"
_LINE_SHARE = 0.1  # of the steps of a run, after which there is a line about it
_LINE_SECONDS = 30.0  # at least so often
_FEWEST_SECONDS = 3.0  # between two lines about a run, however short it is


@contextmanager
def watching(runs: Sequence[PlannedRun], jobs: int) -> Iterator[Watcher]:
    """Show how the runs get on, until the block ends.

    Parameters
    ----------
    runs : sequence of PlannedRun
        All that are to be trained.
    jobs : int
        How many run side by side.
    """
    console = Console(file=for_show(sys.stderr), highlight=False, soft_wrap=True)
    if console.is_terminal and sys.stdout.isatty():
        with _bars(console) as bars:
            yield Bars(runs, jobs, bars)
    else:
        yield Lines(runs, jobs, console)


class _Epochs:
    """Warns of a run once, when it passes over its data a second time."""

    def __init__(self) -> None:
        self._warned: set[str] = set()

    def warning(self, run: PlannedRun, progress: execution.Progress) -> Text | None:
        if progress.epoch is None or progress.epoch <= 1.0 or run.recipe.name in self._warned:
            return None
        self._warned.add(run.recipe.name)
        return Text(
            f"warning: {run.label}: trains on its data a second time; repeated data teach less.", "yellow"
        )


class Bars:
    """A bar for every run under way, and one for the sweep; a run that ends leaves a line.

    Parameters
    ----------
    runs : sequence of PlannedRun
    jobs : int
    bars : rich.progress.Progress
        With the columns of `_bars`.
    """

    def __init__(self, runs: Sequence[PlannedRun], jobs: int, bars: Progress) -> None:
        self._time_left = TimeLeft(runs, jobs)
        self._bars = bars
        self._epochs = _Epochs()
        self._total, self._done = len(runs), 0
        self._sweep = bars.add_task(
            "sweep", total=len(runs), done=f"0/{len(runs)} runs", loss="", rate="", left=""
        )
        self._tasks: dict[str, TaskID] = {}

    def started(self, run: PlannedRun) -> None:
        """Add a bar for the run."""
        self._time_left.started(run.recipe)
        self._tasks[run.recipe.name] = self._bars.add_task(
            run.label,
            total=run.recipe.steps,
            completed=run.steps_done,
            done="starting",
            loss="",
            rate="",
            left="",
        )

    def progressed(self, run: PlannedRun, progress: execution.Progress) -> None:
        """Move the bar of the run."""
        if warning := self._epochs.warning(run, progress):
            self._bars.console.print(warning, soft_wrap=True)
        self._time_left.progressed(run.recipe, progress)
        self._bars.update(
            self._tasks[run.recipe.name],
            completed=progress.step,
            total=progress.steps,
            done=f"{progress.step:,}/{progress.steps:,}",
            loss=_latest_loss(progress),
            rate=f"{short(progress.tokens_per_second)} tok/s",
            left=_left(self._time_left.of_run(run.recipe)),
        )
        self._update_sweep()

    def ended(self, run: PlannedRun, outcome: Outcome) -> None:
        """Take the bar away; what is left of the run is a line."""
        self._time_left.ended(run.recipe)
        self._bars.remove_task(self._tasks.pop(run.recipe.name))
        self._done += outcome.status != "interrupted"
        self._bars.console.print(_end(run, outcome), soft_wrap=True)
        self._update_sweep()

    def stopping(self) -> None:
        """Say so."""
        self._bars.console.print(Text(_STOPPING, "yellow"), soft_wrap=True)

    def _update_sweep(self) -> None:
        self._bars.update(
            self._sweep,
            completed=self._done,
            done=f"{self._done}/{self._total} runs",
            left=_at_most(self._time_left.of_sweep(), "< "),
        )


class Lines:
    """A line when a run starts, one now and then while it runs, and one when it ends.

    Parameters
    ----------
    runs : sequence of PlannedRun
    jobs : int
    console : rich.console.Console
    clock : callable
        Returns the time in seconds.
    """

    def __init__(
        self,
        runs: Sequence[PlannedRun],
        jobs: int,
        console: Console,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._time_left = TimeLeft(runs, jobs)
        self._console, self._clock = console, clock
        self._epochs = _Epochs()
        self._total, self._done = len(runs), 0
        # When the last line about a run was printed, and its step.
        self._said: dict[str, tuple[float, int]] = {}

    def started(self, run: PlannedRun) -> None:
        """Say so."""
        self._time_left.started(run.recipe)
        step = run.steps_done
        self._said[run.recipe.name] = self._clock(), step
        self._print(run, f"continues from step {step:,}" if step else "starts")

    def progressed(self, run: PlannedRun, progress: execution.Progress) -> None:
        """Say how far the run is, if the last line about it is old enough."""
        if warning := self._epochs.warning(run, progress):
            self._console.print(warning)
        self._time_left.progressed(run.recipe, progress)
        said_at, said_step = self._said[run.recipe.name]
        share, seconds = (progress.step - said_step) / progress.steps, self._clock() - said_at
        if seconds < _LINE_SECONDS and (seconds < _FEWEST_SECONDS or share < _LINE_SHARE):
            return
        self._said[run.recipe.name] = self._clock(), progress.step
        loss = _latest_loss(progress)
        left = _at_most(self._time_left.of_sweep(), "at most ")
        self._print(
            run,
            f"step {progress.step:,} of {progress.steps:,}",
            f"loss {loss}" if loss else "",
            f"{short(progress.tokens_per_second)} tokens/s",
            f"sweep: {left}" if left else "",
        )

    def ended(self, run: PlannedRun, outcome: Outcome) -> None:
        """Say how."""
        self._time_left.ended(run.recipe)
        self._done += outcome.status != "interrupted"
        self._console.print(Text.assemble(f"[{self._done}/{self._total}] ", _end(run, outcome)))

    def stopping(self) -> None:
        """Say so."""
        self._console.print(Text(_STOPPING))

    def _print(self, run: PlannedRun, *parts: str) -> None:
        self._console.print(Text(f"{run.label}: " + ", ".join(part for part in parts if part)))


def _bars(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=12),
        TextColumn("{task.fields[done]}", justify="right"),
        TextColumn("{task.fields[loss]}", justify="right"),
        TextColumn("{task.fields[rate]}", justify="right"),
        TextColumn("{task.fields[left]}", justify="right"),
        console=console,
    )


def _end(run: PlannedRun, outcome: Outcome) -> Text:
    rate = outcome.tokens_per_second
    parts = [
        f"{outcome.status}: {printable(outcome.reason.removesuffix('.'))}",
        f"step {outcome.step:,}",
        f"loss {outcome.val_loss:.3f}" if outcome.val_loss is not None else "",
        f"{short(rate)} tokens/s" if rate else "",
        f"{outcome.flops_utilisation:.0%} of the device's peak" if outcome.flops_utilisation else "",
    ]
    style = "red" if outcome.status == "failed" else ""
    return Text(f"{run.label}: " + ", ".join(part for part in parts if part), style)


def _latest_loss(progress: execution.Progress) -> str:
    """Write the validation loss, which is less noisy, or before the first one that of training."""
    loss = progress.train_loss if progress.val_loss is None else progress.val_loss
    return "" if loss is None else f"{loss:.3f}"


def _left(seconds: float | None) -> str:
    return "" if seconds is None else f"{duration(seconds)} left"


def _at_most(seconds: float | None, words: str) -> str:
    """Write the time left of a sweep, of whose runs many stop before their planned steps."""
    left = _left(seconds)
    return f"{words}{left}" if left else ""
