"""B_min at the tokens consumed so far: the least batch that can reach the loss at all."""

from ebfit.schedule.policies.base import Curve
from ebfit.schedule.source import Source

name = "minimum"
summary = "B_min at the tokens consumed so far: the edge below which training stalls"
takes = None


def curve(source: Source, argument: float | None) -> Curve:
    """Return B_min(D), which the batch never is below."""
    return Curve(source.b_min(), stay_above=True)
