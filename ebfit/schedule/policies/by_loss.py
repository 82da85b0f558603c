"""B_opt at the loss that the schedule itself will have reached.

Suppose that the loss depends on the steps taken and on the present batch size, not on the batch sizes before. Then a
schedule that is at the loss of level ell (which the best constant batch reaches after ell tokens) with B = B_opt(ell)
has taken S_opt(ell) = ell / B_opt(ell) steps. With B_opt = k ell^g its tokens are

    D = int B_opt dS_opt = (1 - g) ell,     and so     B(D) = B_opt(D / (1 - g)).

It is at a lower loss than any constant batch at D tokens, and asks for larger batches by the factor (1 - g)^-g. The
supposition and the solution are ours, not the paper's.
"""

from ebfit.errors import CannotAnswerError
from ebfit.schedule.policies.base import Curve
from ebfit.schedule.source import Source

name = "loss"
summary = "B_opt at the loss that the schedule itself will have reached by then"
takes = None

_STEEPEST = 0.9  # beyond it the level is more than ten times the tokens consumed, and says nothing


def curve(source: Source, argument: float | None) -> Curve:
    """Return B_opt(D / (1 - g)) for B_opt(D) = k D^g.

    Raises
    ------
    CannotAnswerError
        If B_opt grows nearly as fast as the tokens, or faster.
    """
    trend = source.b_opt()
    exponent = max(trend.exponent, 0.0)
    if exponent > _STEEPEST:
        raise CannotAnswerError(
            f"{source.name}: B_opt grows as D^{exponent:.2f}, too steeply for policy loss, which needs an exponent of "
            f"{_STEEPEST} or less. Use policy optimal."
        )
    return Curve(trend, level_factor=1.0 / (1.0 - exponent))
