"""Leave one batch size out, refit, and predict what it took: of every batch size, at every target.

All runs of the batch size leave, at all targets, so that nothing of what they measured is in the fits that predict it:
not through a shape that targets share, nor through the scatter of seeds. No fit starts from one that has seen them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from ebfit.fitting.batched import BoolArray
from ebfit.fitting.comparison.contestants import Contestant, Refit
from ebfit.fitting.enough import why_not_fitted
from ebfit.fitting.observations import Observations
from ebfit.fitting.seeds import merge_seeds
from ebfit.laws import FloatArray
from ebfit.processes import in_processes

_NEEDED_BY = "revised"  # the law that takes most: what is left must do for it, and so for all
_WORTH_PROCESSES = 60  # batch sizes times targets: some seconds, when other processes take one to start
MISS = float(
    np.log(10.0)
)  # the largest error that counts, and that of predicting never: a factor of 10 in steps


@dataclass(frozen=True)
class LeftOut:
    """N predictions of a batch size that was left out at a target.

    Attributes
    ----------
    group : ndarray of int, shape (N,)
        The group, by position.
    target : ndarray of int, shape (N,)
        The target, by position in the group.
    log_batch : ndarray, shape (N,)
    observed : ndarray, shape (N,)
        Log steps: the mean over the seeds that reached the target, or the longest run where none did.
    ended : ndarray of bool, shape (N,)
        Where no seed reached the target: steps are more than ``observed``.
    between : ndarray of bool, shape (N,)
        Whether other batch sizes on both sides reached the target.
    predicted : ndarray, shape (C, N)
        Log steps by each contestant; +inf for never, NaN for no prediction.
    """

    group: NDArray[np.intp]
    target: NDArray[np.intp]
    log_batch: FloatArray
    observed: FloatArray
    ended: BoolArray
    between: BoolArray
    predicted: FloatArray

    def errors(self) -> FloatArray:
        """Return absolute errors of log steps, shape (C, N), at most `MISS`; NaN where there is none to tell."""
        with np.errstate(invalid="ignore"):
            errors = np.minimum(np.abs(self.predicted - self.observed), MISS)
        return np.where(self.ended, np.nan, errors)

    def says_more(self) -> BoolArray:
        """Whether each contestant, shape (C, N), predicts more steps than ``observed``."""
        return self.predicted > self.observed

    def take(self, index: BoolArray) -> "LeftOut":
        """Return some of the predictions."""
        return LeftOut(
            self.group[index],
            self.target[index],
            self.log_batch[index],
            self.observed[index],
            self.ended[index],
            self.between[index],
            self.predicted[:, index],
        )


def leave_one_out(
    data: Observations, losses: Sequence[float], contestants: Sequence[Contestant], group: int = 0
) -> LeftOut:
    """Predict every batch size of a group from the others.

    Parameters
    ----------
    data : Observations
        Runs of equal ``log_batch`` are seeds.
    losses : sequence of float, length T
    contestants : sequence of Contestant, length C
    group : int
        Position of the group among those that are compared.

    Returns
    -------
    LeftOut
        Of every batch size and target where the revised law can still be fitted without it; perhaps none.

    Raises
    ------
    BadInputError
        If a process that refits laws is killed.
    """
    sizes = np.unique(data.log_batch).tolist()
    leave_out = partial(_leave_out, data=data, losses=losses, contestants=contestants, group=group)
    if len(sizes) * len(losses) < _WORTH_PROCESSES:
        return joined([leave_out(size) for size in sizes])
    killed = (
        "a process that refits the laws was killed, as for lack of memory. Compare them at fewer targets."
    )
    return joined(in_processes(leave_out, sizes, if_killed=killed))


def joined(parts: Sequence[LeftOut]) -> LeftOut:
    """Return the predictions of several batch sizes, or groups, as one; at least one."""
    return LeftOut(
        group=np.concatenate([part.group for part in parts]),
        target=np.concatenate([part.target for part in parts]),
        log_batch=np.concatenate([part.log_batch for part in parts]),
        observed=np.concatenate([part.observed for part in parts]),
        ended=np.concatenate([part.ended for part in parts]),
        between=np.concatenate([part.between for part in parts]),
        predicted=np.concatenate([part.predicted for part in parts], axis=1),
    )


def _leave_out(
    log_batch: float,
    data: Observations,
    losses: Sequence[float],
    contestants: Sequence[Contestant],
    group: int,
) -> LeftOut:
    """Predict one batch size from the others, at every target where the law that takes most can still be fitted."""
    here = data.log_batch == log_batch
    rest = data.take_runs(np.flatnonzero(~here))
    able = [
        t
        for t in range(len(losses))
        if data.present[here, t].any() and why_not_fitted(_NEEDED_BY, rest, t) is None
    ]
    left = data.take_runs(np.flatnonzero(here))
    ended = np.array([not left.reached[:, t].any() for t in able], dtype=bool)
    others = [rest.reached_batches(t) for t in able]
    return LeftOut(
        group=np.full(len(able), group),
        target=np.array(able, dtype=np.intp),
        log_batch=np.full(len(able), log_batch),
        observed=np.array([_observed(left, t) for t in able], dtype=float),
        ended=ended,
        between=np.array([reached[0] < log_batch < reached[-1] for reached in others], dtype=bool),
        predicted=_predictions(rest, losses, able, contestants, log_batch),
    )


def _observed(left: Observations, t: int) -> float:
    """Return the mean log steps of the runs that reached a target, or those of the longest where none did."""
    reached, present = left.reached[:, t], left.present[:, t]
    return float(left.log_steps[reached, t].mean() if reached.any() else left.log_steps[present, t].max())


def _predictions(
    rest: Observations,
    losses: Sequence[float],
    able: Sequence[int],
    contestants: Sequence[Contestant],
    log_batch: float,
) -> FloatArray:
    """Return the log steps that each contestant predicts at each target in ``able``, shape (C, len(able))."""
    predicted = np.full((len(contestants), len(able)), np.nan)
    if not able:
        return predicted
    refit = Refit(merge_seeds(rest.take_targets(able)), [losses[t] for t in able])
    for c, contestant in enumerate(contestants):
        fitted = contestant.fit(refit)
        if fitted is not None:
            predicted[c] = fitted.log_steps(np.array([log_batch]))[:, 0]
    return predicted
