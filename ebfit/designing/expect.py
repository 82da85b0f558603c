"""What a plan does to intervals: their half-widths, as they are and as they are expected."""

from dataclasses import dataclass

import numpy as np
from scipy.stats import t as student_t

from ebfit.designing.plan import Knowledge, Plan
from ebfit.designing.possible import NUMBERS

_NEAR = float(
    np.log(2.0)
)  # above B_min, within which a batch size must reach the target for B_min to be bracketed
# Intervals shrink by less than the information near each law says, since laws bend, and since the size of the errors is
# not known but estimated: by about this power of it, measured on simulated sweeps (`benchmarks/design_gain.py`).
_COMES_TRUE = 0.7


@dataclass(frozen=True)
class Expected:
    """Of one number at one target.

    Attributes
    ----------
    before : float
        Half-width of the interval, natural log; that of the laws that are possible, where there is no interval.
    after : float
        As it is expected then.
    bracketed : float
        Share, of the laws that are possible, whose B_opt lies within the batch sizes that reach the target then, or
        whose B_min within a factor of two of the smallest.
    """

    before: float
    after: float
    bracketed: float


def expected(
    knowledge: Knowledge, plan: Plan, number: str, t: int, confidence: float, half_width: float | None
) -> Expected:
    """Return what a plan does to the interval of a number at a target.

    Parameters
    ----------
    knowledge : Knowledge
    plan : Plan
    number : {"b_opt", "b_min"}
    t : int
    confidence : float
        Of the intervals.
    half_width : float or None
        Of the interval as it is, natural log; None where the number is not bracketed.
    """
    degrees = float(knowledge.degrees_of_freedom()[t])
    so_far = knowledge.merged.reached_batches(t)
    arrives = [size for size, aim in plan.runs if aim >= t]
    reached = np.unique(np.round(np.concatenate([so_far, np.log(plan.candidates.batch_tokens[arrives])]), 9))
    tail = 0.5 * (1.0 + confidence)
    narrower = float(np.exp(plan.after.log_sd(number, [t])[0] - plan.before.log_sd(number, [t])[0]))
    narrower *= float(
        student_t.ppf(tail, degrees + len(reached) - len(so_far)) / student_t.ppf(tail, degrees)
    )
    values = plan.before.log_numbers[:, t, NUMBERS.index(number)]
    before = float(student_t.ppf(tail, degrees) * np.std(values)) if half_width is None else half_width
    low, high = (values, values + _NEAR) if number == "b_min" else (reached[0], reached[-1])
    inside = reached[0] if number == "b_min" else values
    return Expected(
        before=before,
        after=before * min(narrower, 1.0) ** _COMES_TRUE,
        bracketed=float(np.mean((low < inside) & (inside < high))),
    )
