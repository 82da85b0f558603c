"""Which runs to train: the most information per token first, then exchanged for better ones."""

from collections import Counter
from dataclasses import dataclass

import numpy as np

from ebfit.designing.candidates import Candidates
from ebfit.designing.foresight import Foresight

MOST_RUNS = 48
_MOST_EXCHANGES = 12
_LESS_THRIFTY = (0.5, 0.0)  # powers of the tokens by which what a run tells is divided, where tokens abound
_WORTH_IT = 1e-4  # of the log standard deviation that an exchange must gain

# A run: number of its batch size, and of the target that it is trained to.
Run = tuple[int, int]


@dataclass(frozen=True)
class Goal:
    """What is to be known: B_opt or B_min, at some of the targets.

    Attributes
    ----------
    number : {"b_opt", "b_min"}
    targets : list of int
    full_length : bool
        Whether every run is long enough for the lowest of these targets; otherwise some stop at a higher one, which
        costs less and tells of the shape that targets share.
    """

    number: str
    targets: list[int]
    full_length: bool = False


def choose(
    foresight: Foresight, candidates: Candidates, goal: Goal, budget: float, must: list[Run] | None = None
) -> list[Run]:
    """Choose runs within a budget.

    Parameters
    ----------
    foresight : Foresight
    candidates : Candidates
    goal : Goal
    budget : float
        Tokens, of all runs together.
    must : list of Run, optional
        Runs that are chosen whatever they tell by the law, within the budget.

    Returns
    -------
    list of Run
        The same run twice is another seed of it.
    """
    must = list(must or [])
    runs = _filled(foresight, candidates, goal, budget, must)
    for thrift in _LESS_THRIFTY:
        if len(runs) < MOST_RUNS:
            break
        # There are not runs enough to spend all the tokens: dearer ones, if these tell more.
        dearer = _filled(foresight, candidates, goal, budget, must, thrift)
        runs = min(runs, dearer, key=lambda some: _objective(foreseen(foresight, candidates, some), goal))
    return _exchanged(foresight, candidates, goal, budget, must, runs)


def cost(candidates: Candidates, runs: list[Run]) -> float:
    """Return the tokens that runs take."""
    return float(sum(candidates.tokens[run] for run in runs))


def foreseen(foresight: Foresight, candidates: Candidates, runs: list[Run]) -> Foresight:
    """Return what is known once runs are trained."""
    return foresight.after_all([(size, float(candidates.log_length[size, aim])) for size, aim in runs])


def _objective(foresight: Foresight, goal: Goal) -> float:
    return foresight.spread(goal.number, goal.targets)


def _filled(
    foresight: Foresight,
    candidates: Candidates,
    goal: Goal,
    budget: float,
    runs: list[Run],
    thrift: float = 1.0,
) -> list[Run]:
    """Add runs while the budget lasts, each time the one that tells most per token; per less, with less thrift."""
    runs = list(runs)
    left = budget - cost(candidates, runs)
    known = foreseen(foresight, candidates, runs)
    while len(runs) < MOST_RUNS:
        gains = known.gains(goal.number, goal.targets, candidates.log_length)
        per_token = np.where(candidates.tokens <= left, gains / candidates.tokens**thrift, 0.0)
        best = np.unravel_index(np.argmax(per_token), per_token.shape)
        if per_token[best] <= 0.0:
            break
        size, aim = int(best[0]), int(best[1])
        runs.append((size, aim))
        left -= float(candidates.tokens[size, aim])
        known = known.after(size, float(candidates.log_length[size, aim]))
    return runs


def _exchanged(
    foresight: Foresight,
    candidates: Candidates,
    goal: Goal,
    budget: float,
    must: list[Run],
    runs: list[Run],
) -> list[Run]:
    """Take out one kind of run after the other, fill the budget anew, and keep what is better."""
    lowest = _objective(foreseen(foresight, candidates, runs), goal)
    tried: set[Run] = set()
    for _ in range(_MOST_EXCHANGES):
        free = Counter(runs) - Counter(must)
        out = next((run for run in free if run not in tried), None)
        if out is None:
            break
        tried.add(out)
        rest = list(runs)
        rest.remove(out)
        trial = _filled(foresight, candidates, goal, budget, rest)
        reached = _objective(foreseen(foresight, candidates, trial), goal)
        if reached < lowest - _WORTH_IT:
            runs, lowest = trial, reached
    return runs
