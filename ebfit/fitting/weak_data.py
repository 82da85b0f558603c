"""What is weak about the data of a target, in words, and what to run next.

Statuses say what is known; the sentences here say why no more is, and the way out.
"""

from collections.abc import Mapping

import numpy as np

from ebfit.fitting import next_run
from ebfit.fitting.enough import WANTED_FOR_REVISED, counts, sizes
from ebfit.fitting.intervals import Interval
from ebfit.fitting.leverage import LeftOut
from ebfit.fitting.observations import Observations
from ebfit.fitting.result import SecondOpinion

_SECOND_LAW_WINS = 0.9  # weight of the second law from which the user is told
_HANGS_ON = float(
    np.log(1.5)
)  # change without a batch size that is worth a word, if it leaves the interval too
_STILL_FALLING = 0.25  # fall of log steps per log batch size; 1 is no plateau at all, 0 is one
_NAMES = {"b_min": "B_min", "b_opt": "B_opt"}


def missing_data(data: Observations, t: int, b_min: Interval, b_opt: Interval) -> list[str]:
    """Say what a target lacks for numbers that the data bracket, and what to run."""
    warnings = []
    reached, tried = counts(data, t)
    # where B_opt is not bracketed, a sentence of its own says what to run
    gap = None if b_opt.value is None else next_run.between(data, t, float(np.log(b_opt.value)))
    if tried < WANTED_FOR_REVISED:
        warnings.append(
            f"only {sizes(tried)} for a law of six parameters: weak assumptions on its shape stand in for the "
            f"missing ones. Run at least {WANTED_FOR_REVISED}{f', next {gap.text}' if gap else ''}."
        )
    elif reached < WANTED_FOR_REVISED:
        warnings.append(
            f"only {sizes(reached)} reached this loss, the others ended above it: train those longer or add sizes "
            f"between{f', such as {gap.text}' if gap else ''}, until {WANTED_FOR_REVISED} reach it."
        )
    return warnings + not_bracketed(data, t, b_min, b_opt)


def not_bracketed(data: Observations, t: int, b_min: Interval, b_opt: Interval) -> list[str]:
    """Say why a number is not known from both sides, and what to run."""
    edges = data.reached_batches(t)
    smallest, largest = next_run.size_text(edges[0]), next_run.size_text(edges[-1])
    below, above = next_run.smaller(data, t).order, next_run.larger_or_lower(data, t)
    if b_opt.status == "upper_bound":
        return [
            f"tokens to the target fall all the way to the smallest batch, {smallest} tokens, so B_min and B_opt may "
            f"lie anywhere below: {below}. Not getting there would tell as much."
        ]
    if b_opt.status == "not_identified":
        return [
            f"no fewest tokens within the batch sizes that reached this loss, {smallest} to {largest} tokens: "
            f"{below}, and {above}."
        ]
    warnings = []
    if b_opt.status == "lower_bound":
        warnings.append(
            f"tokens to the target fall all the way to the largest batch, {largest} tokens: {above}."
        )
    if b_min.status == "upper_bound":
        warnings.append(
            f"no batch size was run near B_min: the smallest that reached the target is {smallest} tokens. For B_min "
            f"{below}; not getting there would tell as much."
        )
    return warnings


def no_plateau(data: Observations, t: int, b_opt: Interval) -> list[str]:
    """Say what would show S_min, which is not known, if steps still fall where the batch sizes end."""
    above = next_run.larger(data, t)
    if b_opt.status != "ok" or above is None or next_run.steps_fall_by(data, t) < _STILL_FALLING:
        return []
    largest = next_run.size_text(data.reached_batches(t)[-1])
    return [f"steps still fall at the largest batch, {largest} tokens: who needs S_min may {above.order}."]


def hangs_on_one_size(
    data: Observations, without: LeftOut, t: int, numbers: Mapping[str, Interval]
) -> list[str]:
    """Say which number would be quite another one without one of the batch sizes, and what would make sure of it."""
    warnings = []
    for name, number in numbers.items():
        if number.value is None or number.low is None or number.high is None:
            continue
        changed = np.log(number.value) + without.log_change[name][:, t]
        far = (changed < np.log(number.low)) | (changed > np.log(number.high))
        change = np.where(far, np.abs(changed - np.log(number.value)), 0.0)
        worst = int(np.argmax(change))
        if change[worst] < _HANGS_ON:
            continue
        size = float(without.log_batch[worst])
        other = next_run.next_to_b_min(data, t, float(np.log(number.value))) if name == "b_min" else None
        other = other or next_run.beside(data, t, size)
        warnings.append(
            f"{_NAMES[name]} hangs on one batch size, {next_run.size_text(size)} tokens: without it, it would be "
            f"{next_run.size_text(float(changed[worst]))}, outside of its interval. Repeat that size with another "
            f"seed{f', and {other.order}' if other else ''}."
        )
    return warnings


def other_law(opinion: SecondOpinion) -> list[str]:
    """Say that the second law has the greater part in the numbers, where it has."""
    if opinion.weight < _SECOND_LAW_WINS:
        return []
    return [
        "another law, the three-term surface, describes these runs better than the revised law: it has "
        f"{100 * opinion.weight:.0f}% of the weight in B_min and B_opt."
    ]
