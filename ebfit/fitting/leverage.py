"""What becomes of B_min and B_opt without one of the batch sizes."""

from dataclasses import dataclass, replace

import numpy as np

from ebfit.fitting.batched import solve_from_each
from ebfit.fitting.coupled_fit import without_each_size
from ebfit.fitting.coupling import Fitted
from ebfit.fitting.observations import Observations
from ebfit.fitting.point import PointFit
from ebfit.laws import FloatArray


@dataclass(frozen=True)
class LeftOut:
    """Each of the k batch sizes of a sweep left out in turn, at T targets.

    Attributes
    ----------
    log_batch : ndarray, shape (k,)
        Rising.
    log_change : dict
        name -> change of the natural logs of b_min and b_opt, shape (k, T); NaN where the size did not reach a target.
    """

    log_batch: FloatArray
    log_change: dict[str, FloatArray]


def leave_out(data: Observations, fitted: Fitted) -> LeftOut:
    """Refit all targets without each batch size, from the minima of the fit with all of them.

    Targets that share a shape share what is left of it.
    """
    free = (
        without_each_size(data, fitted.coupled[0][0]) if fitted.coupled else _each_by_itself(data, fitted.own)
    )
    law, whole = fitted.point.problems.law, fitted.point.free
    without, with_all = law.log_numbers(free), law.log_numbers(whole)
    sizes = np.unique(data.log_batch)
    reached = np.array([data.reached[data.log_batch == size].any(axis=0) for size in sizes])
    return LeftOut(
        sizes,
        {name: np.where(reached, without[name] - with_all[name], np.nan) for name in ("b_min", "b_opt")},
    )


def _each_by_itself(data: Observations, point: PointFit) -> FloatArray:
    """Return the free parameters without each batch size, shape (k, T, p)."""
    sizes, targets = np.unique(data.log_batch), len(point.free)
    stays = data.log_batch != sizes[:, None]
    free = np.empty((len(sizes), *point.free.shape))
    for t in range(targets):
        problems = point.problems.take(np.full(len(sizes), t))
        problems = replace(problems, present=problems.present & stays)
        free[:, t] = solve_from_each(problems, point.minima[t]).free
    return free
