"""How long runs take: before they start, from the speed of the machine, and while they run, from their own pace."""

import heapq
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ebfit.sweep.execution import Progress
from ebfit.sweep.folders import PlannedRun
from ebfit.sweep.recipe import Recipe

# A step costs as much as so many tokens besides those of its batch; a rough value, for what has not been measured.
_OVERHEAD_TOKENS = 500.0
_VALIDATION_COST = 1 / 3  # of a validation token, in training tokens: the forward pass alone


@dataclass(frozen=True)
class Speed:
    """What training costs on some machine.

    Attributes
    ----------
    seconds_per_step : float
        Of an optimizer step, whatever its batch size.
    seconds_per_token : float
        Added to it for every token of the batch.
    source : str
        Where these are known from, in words.
    """

    seconds_per_step: float
    seconds_per_token: float
    source: str

    def seconds(self, recipe: Recipe, steps_done: int = 0) -> float:
        """Return the time that a run takes to its planned end, validation included."""
        steps = max(recipe.steps - steps_done, 0)
        share_left = steps / recipe.steps
        validation_tokens = share_left * _evaluations(recipe) * recipe.val_tokens * _VALIDATION_COST
        tokens = steps * recipe.batch_tokens + validation_tokens
        return steps * self.seconds_per_step + tokens * self.seconds_per_token


# Only to tell longer runs from shorter ones, before the first of them has shown its pace.
ROUGH = Speed(_OVERHEAD_TOKENS, 1.0, "assumed")


def measured_speed(recipe: Recipe, device: str, threads: int) -> Speed:
    """Take a few training steps, and return what they cost.

    Parameters
    ----------
    recipe : Recipe
        Its model and precision are timed.
    device : str
    threads : int
        CPU threads that the steps may use.

    Raises
    ------
    CannotAnswerError
        If not even one sequence fits in memory.
    """
    import torch

    from ebfit.sweep.trial import seconds_per_step

    torch.set_num_threads(threads)
    per_step, per_token = seconds_per_step(recipe.architecture, recipe.seq_len, device, recipe.precision)
    return Speed(per_step, per_token, "from a few steps taken just now, one run alone")


def _evaluations(recipe: Recipe) -> float:
    """Return about how many validations there are: after every step at first, then evenly spaced on a log axis."""
    every_step = min(recipe.evaluations_per_doubling / math.log(2), recipe.steps)
    return every_step + recipe.evaluations_per_doubling * math.log2(recipe.steps / every_step)


def time_side_by_side(seconds: Sequence[float], jobs: int, busy: Sequence[float] = ()) -> float:
    """Return the time until all runs are done, when each job that gets free takes the longest one that waits.

    Parameters
    ----------
    seconds : sequence of float
        Of every waiting run.
    jobs : int
    busy : sequence of float
        Time left of the runs that are under way already.
    """
    idle = min(jobs - len(busy), len(seconds))  # no more than there is work for
    ends = [*busy, *[0.0] * idle]
    heapq.heapify(ends)
    for run in sorted(seconds, reverse=True):
        heapq.heappush(ends, heapq.heappop(ends) + run)
    return max(ends, default=0.0)


class TimeLeft:
    """The time left of a sweep that is under way, from the pace that its runs have shown.

    Parameters
    ----------
    runs : sequence of PlannedRun
        All that are to be trained.
    jobs : int
        How many run side by side.
    clock : callable
        Returns the time in seconds.
    """

    def __init__(
        self, runs: Sequence[PlannedRun], jobs: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._waiting = {run.recipe.name: run.recipe for run in runs}
        self._jobs = jobs
        self._clock = clock
        self._first: dict[str, tuple[float, int]] = {}  # time and step of the first that was heard of a run
        self._under_way: dict[str, Recipe] = {}
        self._seconds: dict[str, float] = {}  # time left of those of them that have shown a pace
        self._pace: dict[int, float] = {}  # seconds per step, by batch size in tokens

    def started(self, recipe: Recipe) -> None:
        """Note that a run is under way."""
        self._under_way[recipe.name] = self._waiting.pop(recipe.name)

    def progressed(self, recipe: Recipe, progress: Progress) -> None:
        """Note how far a run is."""
        now = self._clock()
        began, first_step = self._first.setdefault(recipe.name, (now, progress.step))
        if progress.step > first_step:
            pace = (now - began) / (progress.step - first_step)
            self._pace[recipe.batch_tokens] = pace
            self._seconds[recipe.name] = pace * (progress.steps - progress.step)

    def ended(self, recipe: Recipe) -> None:
        """Note that a run is under way no longer."""
        del self._under_way[recipe.name]
        self._seconds.pop(recipe.name, None)

    def of_run(self, recipe: Recipe) -> float | None:
        """Return the seconds left of a run; None before it has shown a pace."""
        return self._seconds.get(recipe.name)

    def of_sweep(self) -> float | None:
        """Return the seconds left of the sweep; None before any run has shown a pace."""
        if not self._pace:
            return None
        waiting = [self._like_the_nearest(recipe) for recipe in self._waiting.values()]
        busy = [
            self._seconds[name] if name in self._seconds else self._like_the_nearest(recipe)
            for name, recipe in self._under_way.items()
        ]
        return time_side_by_side(waiting, self._jobs, busy)

    def _like_the_nearest(self, recipe: Recipe) -> float:
        """Return what a run will take, judged by the run of the nearest batch size that has shown a pace."""
        nearest = min(self._pace, key=lambda tokens: abs(math.log(tokens / recipe.batch_tokens)))
        growth = (recipe.batch_tokens + _OVERHEAD_TOKENS) / (nearest + _OVERHEAD_TOKENS)
        return recipe.steps * self._pace[nearest] * growth


def duration(seconds: float) -> str:
    """Write a duration for people: ``48 s``, ``3 min 20 s``, ``2 h 5 min``, ``4 d 3 h``."""
    rest = round(seconds)
    for unit, length, smaller, smaller_length in (
        ("d", 86_400, "h", 3600),
        ("h", 3600, "min", 60),
        ("min", 60, "s", 1),
    ):
        if rest >= length:
            return f"{rest // length} {unit} {rest % length // smaller_length} {smaller}"
    return f"{rest} s"
