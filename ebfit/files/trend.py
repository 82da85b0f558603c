"""Trends over the targets of a fit: batch sizes over tokens and over loss, the loss over tokens."""

from math import exp, hypot, inf, log, nan
from typing import Self

from pydantic import Field, model_validator

from ebfit.files.base import Document, Finite, NotNegative, OverTokens, Positive, Text

# Natural log of the largest batch size that a line is followed to, and of 1 over the smallest: far beyond any batch,
# and ratios of such sizes still are numbers.
_FARTHEST = 150.0

_DISAGREE = 0.05  # p-value below which groups do not share a line


class Trend(Document):
    """A power law over targets, B = k D^exponent, D and B in tokens.

    About the line, errors of its height at the pivot and of its exponent are independent: ln B is known to
    ``quantile`` times sqrt(log_sd_at_pivot^2 + exponent_sd^2 ln(D / pivot_tokens)^2) at the confidence of the fit.
    Single targets scatter about the line by ``scatter_log_sd`` more than their errors explain.
    """

    k: Positive
    exponent: Finite
    exponent_low: Finite | None = None
    exponent_high: Finite | None = None
    d_low: Positive
    d_high: Positive
    pivot_tokens: Positive | None = None
    pivot_batch_tokens: Positive | None = None
    log_sd_at_pivot: NotNegative | None = None
    exponent_sd: NotNegative | None = None
    quantile: Positive | None = None
    scatter_log_sd: NotNegative | None = None
    n_targets: int | None = None

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.d_low > self.d_high:
            raise ValueError("d_low is above d_high")
        low, high = self.exponent_low, self.exponent_high
        if (low is not None and low > self.exponent) or (high is not None and high < self.exponent):
            raise ValueError("the exponent lies outside its interval")
        return self

    def batch_at(self, tokens: float) -> tuple[float, float, float]:
        """Return the line at ``tokens`` consumed, and the ends of its band.

        Parameters
        ----------
        tokens : float
            D, positive; beyond ``d_low`` to ``d_high`` the line is extrapolated and the band widens.

        Returns
        -------
        tuple of float
            Value, low and high, in tokens per step. A file of an earlier version knows only the interval of the
            exponent: the band then pivots on the middle of its D. NaN for ends that nothing tells.
        """
        if (
            self.pivot_tokens is not None
            and self.pivot_batch_tokens is not None
            and self.log_sd_at_pivot is not None
            and self.exponent_sd is not None
            and self.quantile is not None
        ):
            away = log(tokens) - log(self.pivot_tokens)
            value = log(self.pivot_batch_tokens) + self.exponent * away
            reach = self.quantile * hypot(self.log_sd_at_pivot, self.exponent_sd * away)
            return _size(value), _size(value - reach), _size(value + reach)
        value = log(self.k) + self.exponent * log(tokens)
        if self.exponent_low is None or self.exponent_high is None:
            return _size(value), nan, nan
        away = log(tokens) - 0.5 * (log(self.d_low) + log(self.d_high))
        steepest = self.exponent_high if away > 0.0 else self.exponent_low
        flattest = self.exponent_low if away > 0.0 else self.exponent_high
        return (
            _size(value),
            _size(value + (flattest - self.exponent) * away),
            _size(value + (steepest - self.exponent) * away),
        )


def _size(log_batch: float) -> float:
    return exp(min(max(log_batch, -_FARTHEST), _FARTHEST))


def _exp(power: float) -> float:
    try:
        return exp(power)
    except OverflowError:
        return inf


class LossTrend(Document):
    """The loss of the best constant batch size after D tokens, L = l_0 + c D^-exponent.

    An end of the floor's interval is None where the targets bend too little, or lie too near, to hold it on that side.
    """

    l_0: Finite
    l_0_low: Finite | None = None
    l_0_high: Finite | None = None
    c: Positive
    exponent: Positive
    d_low: Positive
    d_high: Positive
    loss_low: Finite
    loss_high: Finite
    n_targets: int

    def loss_at(self, tokens: float) -> float:
        """Return the loss that the best constant batch size has after ``tokens``, one or more."""
        return self.l_0 + self.c * tokens**-self.exponent

    def tokens_at(self, loss: float) -> float:
        """Return the tokens that the best constant batch size needs to ``loss``; infinite at the floor and below."""
        if loss <= self.l_0:
            return inf
        return _exp(log(self.c / (loss - self.l_0)) / self.exponent)


class BatchOfLoss(Document):
    """B_opt against loss, B = k (L - l_0)^-exponent, with the floor l_0 of the `LossTrend`."""

    l_0: Finite
    k: Positive
    exponent: Finite
    exponent_low: Finite | None = None
    exponent_high: Finite | None = None
    loss_low: Finite
    loss_high: Finite
    n_targets: int

    def batch_at(self, loss: float) -> float:
        """Return the batch size at ``loss``, tokens per step; infinite at the floor and below."""
        if loss <= self.l_0:
            return inf
        return _exp(log(self.k) - self.exponent * log(loss - self.l_0))


class GroupTrends(Document):
    """The trends of one group of runs, such as one model size; None where its targets identify none."""

    group: Text | None
    b_opt_vs_tokens: Trend | None = None
    b_min_vs_tokens: Trend | None = None
    loss_vs_tokens: LossTrend | None = None
    b_opt_vs_loss: BatchOfLoss | None = None


class Agreement(Document):
    """Do groups share one line? The likelihood ratio of a line each against one line, and its p-value."""

    statistic: Finite
    degrees_of_freedom: int
    p_value: Finite

    @property
    def is_rejected(self) -> bool:
        """Whether groups on one line would differ so much less than once in twenty times."""
        return self.p_value < _DISAGREE


class Trends(Document):
    """The power laws of a fit; None where fewer than three targets identify one.

    Of several groups, ``groups`` holds those of each, the lines over tokens here are one line through the targets of
    all, and ``agreement`` tells whether that is right. What goes by loss is each group's own.
    """

    b_opt_vs_tokens: Trend | None = None
    b_min_vs_tokens: Trend | None = None
    loss_vs_tokens: LossTrend | None = None
    b_opt_vs_loss: BatchOfLoss | None = None
    groups: list[GroupTrends] = Field(default_factory=list)
    agreement: dict[OverTokens, Agreement] = Field(default_factory=dict)
