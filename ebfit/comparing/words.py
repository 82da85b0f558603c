"""A comparison of laws in words: which to use, how well it predicts, and what is no more than chance."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ebfit.files import LawErrors
from ebfit.fitting.comparison import CHANCE, Contestant, Verdict


@dataclass(frozen=True)
class ScoredLaw:
    """A contestant and its errors."""

    contestant: Contestant
    errors: LawErrors

    @property
    def name(self) -> str:
        """Of the contestant."""
        return self.contestant.name


def percent(error: float | None) -> str:
    """Write an error of log steps as one of steps: ``2.6%``, or ``a factor of 2.1``."""
    if error is None:
        return "nothing"
    ratio = float(np.exp(error))
    return f"{100.0 * (ratio - 1.0):.2g}%" if ratio < 1.5 else f"a factor of {ratio:.2g}"


def why_chosen(scored: Sequence[ScoredLaw], verdict: Verdict) -> str:
    """Return what speaks for the law that was chosen, sentences of which the first begins with "it"."""
    chosen, best = scored[verdict.chosen], scored[verdict.best]
    sentences = [
        f"it predicts a left-out batch size between others within {percent(chosen.errors.lobo_median)} of its steps "
        f"(median; {percent(chosen.errors.lobo_p90)} nine times in ten), and is off by "
        f"{percent(chosen.errors.lobo_mean)} on average, edges included."
    ]
    if best is not chosen:
        sentences.append(
            f"{best.name} is off by {percent(best.errors.lobo_mean)}, but that is not better by more than chance "
            f"explains (p = {chosen.errors.p_value:.2g} over {verdict.batch_sizes} batch sizes)."
        )
    others = [law for law in scored if law.contestant.extrapolates and law is not chosen and law is not best]
    alike = [law for law in others if _p(law) > CHANCE]
    if alike:
        sentences.append(f"As good within chance: {_listed(alike)}.")
    worse = [law for law in others if _p(law) <= CHANCE]
    if worse:
        sentences.append(f"Worse than chance explains: {_listed(worse)}.")
    lines = [law for law in scored if not law.contestant.extrapolates]
    sentences += [
        f"Between others, {law.name} from point to point: {percent(law.errors.lobo_median)} (median)."
        for law in lines
    ]
    return " ".join(sentences)


def beaten(chosen: ScoredLaw, p_value: float | None) -> list[str]:
    """Return a warning where straight lines predict better than the law that was chosen."""
    if p_value is None:
        return []
    return [
        "straight lines between neighbouring batch sizes predict left-out ones better than "
        f"{chosen.name} does (p = {p_value:.2g}): these runs follow none of the laws well. Look for runs that differ "
        "in more than batch size, and take B_min and B_opt with care."
    ]


def _listed(laws: Sequence[ScoredLaw]) -> str:
    return ", ".join(f"{law.name} {percent(law.errors.lobo_mean)}" for law in laws)


def _p(law: ScoredLaw) -> float:
    return 1.0 if law.errors.p_value is None else law.errors.p_value
