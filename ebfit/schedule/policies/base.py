"""What a policy is: a batch size for every number of tokens consumed."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import isfinite
from typing import Literal, Protocol

from ebfit.errors import BadInputError
from ebfit.files import Trend
from ebfit.schedule.source import Source

Bound = Literal["low", "value", "high"]


@dataclass(frozen=True)
class Curve:
    """A batch size over tokens consumed, taken from a trend of the fit.

    Attributes
    ----------
    trend : Trend
    batch_factor : float
        What the trend's batch size is multiplied by.
    level_factor : float
        The trend is read at this multiple of the tokens consumed: at the level that the loss has reached, which is
        the tokens that the best constant batch needs to reach it.
    stay_above : bool
        Whether a plan may never be below it, in place of near it.
    bound : {"low", "value", "high"}
        Which edge of the trend's band.
    """

    trend: Trend
    batch_factor: float = 1.0
    level_factor: float = 1.0
    stay_above: bool = False
    bound: Bound = "value"

    def at_bound(self, bound: Bound) -> "Curve":
        """Return the curve along another edge of the band."""
        return replace(self, bound=bound)

    def level_at(self, tokens: float) -> float:
        """Return the level, in tokens of the best constant batch, that the loss has reached."""
        return self.level_factor * tokens

    def batch_at(self, tokens: float) -> float:
        """Return the batch size in tokens after so many tokens; below the measured range the band is as at its edge."""
        # a batch size that falls is no plan: where the trend does not rise, it is taken as flat
        rises = self.trend.exponent > 0.0
        level = self.level_at(tokens) if rises else self.trend.d_high
        value, _, _ = self.trend.batch_at(level)
        inside, low, high = self.trend.batch_at(max(level, self.trend.d_low))
        edge = {"low": low / inside, "value": 1.0, "high": high / inside}[self.bound]
        return self.batch_factor * value * edge


class Policy(Protocol):
    """One file of this package."""

    name: str
    summary: str  # what it asks for, in a few words
    takes: str | None  # what stands behind a colon in --policy, such as "X" of overhead:X

    def curve(self, source: Source, argument: float | None) -> Curve:
        """Return the batch sizes that the policy asks for.

        Raises
        ------
        CannotAnswerError
            If the fit does not hold what the policy follows.
        """
        ...


def parse(text: str, policies: Mapping[str, Policy]) -> tuple[Policy, float | None]:
    """Split ``overhead:0.05`` into the policy and its number.

    Raises
    ------
    BadInputError
        If there is no such policy, or its number is missing or makes no sense.
    """
    name, colon, number = text.partition(":")
    policy = policies.get(name)
    if policy is None:
        known = ", ".join(p.name + (f":{p.takes}" if p.takes else "") for p in policies.values())
        raise BadInputError(f"--policy {text}: there is no such policy. Choose one of {known}.")
    if policy.takes is None:
        if colon:
            raise BadInputError(f"--policy {text}: {name} takes no number. Write {name}.")
        return policy, None
    try:
        argument = float(number)
    except ValueError:
        argument = 0.0
    if not isfinite(argument) or argument <= 0.0:
        raise BadInputError(
            f"--policy {text}: write {name}:{policy.takes} with a positive number, such as {name}:0.05."
        )
    return policy, argument
