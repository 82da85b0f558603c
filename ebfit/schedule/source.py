"""What a plan takes from a fit: the trends of B_opt and B_min, and what a batch beside B_opt costs."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

from ebfit.errors import BadInputError, CannotAnswerError
from ebfit.files import Fit, GroupTrends, LossTrend, OverTokens, TargetRecord, Trend, Trends
from ebfit.schedule.cost import Cost

_LEAST_TARGETS = 3  # that make a trend
_SYMBOLS: dict[OverTokens, str] = {"b_opt_vs_tokens": "B_opt", "b_min_vs_tokens": "B_min"}


@dataclass(frozen=True)
class Source:
    """One group of a fit, or all of them.

    Attributes
    ----------
    fit : Fit
    name : str
        The fit's file, for messages.
    group : str or None
        Whose trends are used; None for the trends of all.
    """

    fit: Fit
    name: str
    group: str | None = None

    def __post_init__(self) -> None:
        if self.group is not None and self.group not in self._groups():
            known = ", ".join(self._groups()) or "none"
            raise BadInputError(f"{self.name}: has no group {self.group}. Its groups: {known}.")

    def b_opt(self) -> Trend:
        """Return B_opt(D).

        Raises
        ------
        CannotAnswerError
            If too few targets identify it.
        """
        return self._trend("B_opt", self._trends().b_opt_vs_tokens)

    def b_min(self) -> Trend:
        """Return B_min(D).

        Raises
        ------
        CannotAnswerError
            If too few targets identify it.
        """
        return self._trend("B_min", self._trends().b_min_vs_tokens)

    def b_opt_if_known(self) -> Trend | None:
        """Return B_opt(D), or None where too few targets identify it."""
        return self._trends().b_opt_vs_tokens

    def b_min_if_known(self) -> Trend | None:
        """Return B_min(D), or None where too few targets identify it."""
        return self._trends().b_min_vs_tokens

    @property
    def cost(self) -> Cost:
        """What a batch beside B_opt costs."""
        return Cost.of(self.usable_targets())

    def usable_targets(self) -> Sequence[TargetRecord]:
        """Return the targets that identify B_opt.

        Raises
        ------
        CannotAnswerError
            If there is none.
        """
        targets = [target for target in self._targets() if _identifies(target, "b_opt")]
        if not targets:
            raise self._too_few("B_opt", 0)
        return targets

    def loss_trend(self) -> LossTrend | None:
        """Return the loss of the best constant batch over tokens; None where it is not known or groups differ."""
        return self._trends().loss_vs_tokens

    def largest_batch(self) -> float:
        """Return the largest batch size that was run, tokens; infinite where the fit does not say."""
        run = (point.batch_tokens for target in self._targets() for point in target.points)
        return max(run, default=inf)

    def other_sequence_length(self, seq_len: int) -> int | None:
        """Return the sequence length of the runs where it is known, one for all, and another than this."""
        known = {run.seq_len for run in self.fit.runs}
        return next(iter(known)) if len(known) == 1 and not known & {None, seq_len} else None

    def disagreement(self, trend: Trend) -> str | None:
        """Return a sentence where ``trend`` is a line through several groups and they do not share one."""
        key: OverTokens = "b_min_vs_tokens" if trend is self.b_min_if_known() else "b_opt_vs_tokens"
        agreement = self.fit.trends.agreement.get(key)
        if self.group is not None or agreement is None or not agreement.is_rejected:
            return None
        return (
            f"the groups of {self.name} do not share one trend of {_SYMBOLS[key]} (p = {agreement.p_value:.2g}), and "
            f"this plan follows one line through all. Choose one with --group: {', '.join(self._groups())}."
        )

    def _targets(self) -> list[TargetRecord]:
        return [target for target in self.fit.targets if self.group is None or target.group == self.group]

    def _groups(self) -> list[str]:
        return sorted({target.group for target in self.fit.targets if target.group is not None})

    def _trends(self) -> Trends | GroupTrends:
        if self.group is None:
            return self.fit.trends
        if len({target.group for target in self.fit.targets}) == 1:
            return self.fit.trends  # a single group's trends are those of the fit
        of_groups = self.fit.trends.groups
        return next((t for t in of_groups if t.group == self.group), GroupTrends(group=self.group))

    def _trend(self, symbol: str, trend: Trend | None) -> Trend:
        if trend is None:
            key = "b_opt" if symbol == "B_opt" else "b_min"
            raise self._too_few(symbol, sum(_identifies(target, key) for target in self._targets()))
        return trend

    def _too_few(self, symbol: str, known: int) -> CannotAnswerError:
        targets = self._targets()
        if targets and all(target.law == "classic" for target in targets):
            return CannotAnswerError(
                f"{self.name}: was fitted with law classic, which knows no B_opt and no B_min. Fit law revised."
            )
        if known >= _LEAST_TARGETS:
            return CannotAnswerError(
                f"{self.name}: holds no trend of {symbol}, though {known} of its {len(targets)} targets identify it. "
                "They were reached with nearly the same tokens, or the file is of an earlier version: fit targets that "
                "lie further apart."
            )
        return CannotAnswerError(
            f"{self.name}: {known or 'none'} of its {len(targets)} targets "
            f"{'identifies' if known == 1 else 'identify'} {symbol} as a number, and how it grows with tokens takes "
            f"three. See the notes of `ebfit fit` on what to run."
        )


def _identifies(target: TargetRecord, number: str) -> bool:
    estimate = target.b_opt if number == "b_opt" else target.b_min
    return (
        target.law != "classic"
        and estimate is not None
        and estimate.status == "ok"
        and target.e_min is not None
    )
