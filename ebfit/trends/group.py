"""What the trends of a group of runs are made from."""

from collections.abc import Sequence
from dataclasses import dataclass

from ebfit.fitting import TargetFit


@dataclass(frozen=True)
class Group:
    """The fitted targets of one group of runs, such as one model size.

    Attributes
    ----------
    name : str or None
    losses : sequence of float, length T
    fewest_tokens : sequence of float, length T
        The fewest that any run took to the target: E_min is not above it.
    fits : sequence of TargetFit, length T
    """

    name: str | None
    losses: Sequence[float]
    fewest_tokens: Sequence[float]
    fits: Sequence[TargetFit]
