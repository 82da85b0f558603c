"""The largest batch whose token cost is at most (1 + X) times the least: for those who have many devices."""

from ebfit.schedule.policies.base import Curve
from ebfit.schedule.source import Source

name = "overhead"
summary = "the largest batch that needs at most (1 + X) times the fewest tokens"
takes = "X"


def curve(source: Source, argument: float | None) -> Curve:
    """Return r B_opt(D), where E(r B_opt) = (1 + X) E_min on the side of large batches (DESIGN 3.1).

    The ratio r is the median of the targets' revised laws, as the curves of different targets nearly are translations
    of each other in log-log axes.
    """
    assert argument is not None, "parse has seen to it"
    return Curve(source.b_opt(), batch_factor=source.cost.largest_ratio(1.0 + argument))
