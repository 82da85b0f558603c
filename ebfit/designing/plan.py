"""The runs to train next, from the observations of a sweep: arrays in, a plan out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ebfit.designing.candidates import Candidates, candidates, round_sizes, size_range
from ebfit.designing.choose import Goal, Run, choose, cost, foreseen
from ebfit.designing.foresight import Foresight, foresee
from ebfit.designing.open_sides import OpenSide, is_open, open_sides, runs_past_the_edges
from ebfit.designing.possible import NUMBERS, Possible, possible_laws
from ebfit.fitting.coupling import Coupling
from ebfit.fitting.intervals import Status
from ebfit.fitting.observations import Observations
from ebfit.fitting.seeds import merge_seeds, seed_sd
from ebfit.laws import FloatArray

_LAWS = 48  # that are possible, over which is averaged


@dataclass(frozen=True)
class Knowledge:
    """What a sweep has told.

    Attributes
    ----------
    runs : Observations
        All its runs.
    merged : Observations
        The same, seeds merged.
    coupling : {"none", "pooled", "shared"}
        Of the shapes of targets.
    statuses : mapping
        "b_opt" and "b_min" -> the status of the number at every target.
    possible : list of Possible
        The laws that the sweep allows.
    seed_sd, crossing_sd : ndarray, shape (T,)
        Standard deviations of log steps: between seeds, 0 where none has two; of a typical crossing.
    """

    runs: Observations
    merged: Observations
    coupling: Coupling
    statuses: Mapping[str, Sequence[Status]]
    possible: list[Possible]
    seed_sd: FloatArray
    crossing_sd: FloatArray

    @classmethod
    def of(
        cls, runs: Observations, statuses: Mapping[str, Sequence[Status]], coupling: Coupling, seed: int
    ) -> "Knowledge":
        """Fit the laws to the runs; the seed is that of the laws drawn."""
        merged = merge_seeds(runs)
        se = runs.log_steps_se
        return cls(
            runs=runs,
            merged=merged,
            coupling=coupling,
            statuses=statuses,
            possible=possible_laws(merged, coupling, _LAWS, seed),
            seed_sd=seed_sd(runs),
            crossing_sd=np.array([np.median(se[column, t]) for t, column in enumerate(runs.reached.T)]),
        )

    def sizes(self, goal: Goal, seq_len: int | None) -> FloatArray:
        """Return the batch sizes that a run towards a goal may have, in tokens."""
        numbers = np.concatenate([laws.log_numbers()[0] for laws in self.possible])
        b_min = numbers[:, 0, NUMBERS.index("b_min")]
        above = any(is_open(goal.number, self.statuses[goal.number][t], "above") for t in goal.targets)
        return round_sizes(*size_range(self.merged, b_min, above), seq_len)

    def foresight(self, batch_tokens: FloatArray) -> Foresight:
        """Return what new runs of these batch sizes would tell."""
        return foresee(self.possible, self.merged, self.seed_sd, self.crossing_sd, np.log(batch_tokens))

    def degrees_of_freedom(self) -> FloatArray:
        """Return those of the misfit, averaged over the laws that are possible, shape (T,)."""
        counts = [len(laws.free) for laws in self.possible]
        return np.average([laws.degrees_of_freedom for laws in self.possible], axis=0, weights=counts)


@dataclass(frozen=True)
class Plan:
    """The runs to train next.

    Attributes
    ----------
    candidates : Candidates
        What they were chosen from.
    runs : list of tuple
        Number of the batch size among the candidates, and of the target that it is trained to; the same run twice is
        another seed of it.
    before, after : Foresight
        What is known without, and with them.
    sides : list of OpenSide
        From which what is wanted was not bracketed.
    unpaid : list of tuple
        Those of them that no run goes to, and the tokens that one would take.
    """

    candidates: Candidates
    runs: list[Run]
    before: Foresight
    after: Foresight
    sides: list[OpenSide]
    unpaid: list[tuple[OpenSide, float]]

    @property
    def log_batch(self) -> FloatArray:
        """Of the runs, log tokens per step."""
        return np.log(self.candidates.batch_tokens[[size for size, _ in self.runs]])

    @property
    def log_length(self) -> FloatArray:
        """Of the runs, log steps."""
        return np.array([self.candidates.log_length[run] for run in self.runs])

    @property
    def tokens(self) -> float:
        """Of all runs together."""
        return cost(self.candidates, self.runs)


def options(knowledge: Knowledge, goal: Goal, batch_tokens: FloatArray) -> tuple[Foresight, Candidates]:
    """Return what runs of some batch sizes would tell, and the runs that may be chosen towards a goal."""
    foresight = knowledge.foresight(batch_tokens)
    may_be = candidates(foresight, batch_tokens)
    if goal.full_length:
        may_be = may_be.only(np.arange(foresight.targets) == max(goal.targets))
    return foresight, may_be


def plan(knowledge: Knowledge, goal: Goal, budget: float, batch_tokens: FloatArray) -> Plan:
    """Choose runs.

    Parameters
    ----------
    knowledge : Knowledge
    goal : Goal
    budget : float
        Tokens of all runs together.
    batch_tokens : ndarray
        Batch sizes to choose from, such as those of `Knowledge.sizes`.

    Returns
    -------
    Plan
        Without runs, if the budget is too small for any.
    """
    foresight, may_be = options(knowledge, goal, batch_tokens)
    sides = open_sides(
        goal.number, knowledge.statuses[goal.number], goal.targets, knowledge.merged, foresight
    )
    must, unpaid = runs_past_the_edges(sides, may_be, budget)
    runs = choose(foresight, may_be, goal, budget, must)
    return Plan(may_be, runs, foresight, foreseen(foresight, may_be, runs), sides, unpaid)
