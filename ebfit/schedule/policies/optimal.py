"""B_opt at the tokens consumed so far: the scheduler of arXiv 2601.05034."""

from ebfit.schedule.policies.base import Curve
from ebfit.schedule.source import Source

name = "optimal"
summary = "B_opt at the tokens consumed so far, as in the paper"
takes = None


def curve(source: Source, argument: float | None) -> Curve:
    """Return B_opt(D)."""
    return Curve(source.b_opt())
