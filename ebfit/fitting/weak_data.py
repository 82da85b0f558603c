"""What is weak about the data of a target, in words, and what to run next.

Statuses say what is known; the sentences here say why no more is, and the way out.
"""

import numpy as np

from ebfit.fitting.enough import WANTED_FOR_REVISED, counts, sizes
from ebfit.fitting.intervals import Interval
from ebfit.fitting.observations import Observations
from ebfit.fitting.result import SecondOpinion

_SECOND_LAW_WINS = 0.9  # weight of the second law from which the user is told


def missing_data(data: Observations, t: int, b_min: Interval, b_opt: Interval) -> list[str]:
    """Say what a target lacks for numbers that the data bracket, and what to run."""
    warnings = []
    reached, tried = counts(data, t)
    if tried < WANTED_FOR_REVISED:
        warnings.append(
            f"only {sizes(tried)} for a law of six parameters: weak assumptions on its shape stand in for the "
            f"missing ones. Run at least {WANTED_FOR_REVISED}."
        )
    elif reached < WANTED_FOR_REVISED:
        warnings.append(
            f"only {sizes(reached)} reached this loss, the others ended above it: train the smaller ones longer "
            f"or add sizes between, until {WANTED_FOR_REVISED} reach it."
        )
    return warnings + not_bracketed(data, t, b_min, b_opt)


def not_bracketed(data: Observations, t: int, b_min: Interval, b_opt: Interval) -> list[str]:
    """Say why a number is not known from both sides, and what to run."""
    warnings = []
    edges = data.reached_batches(t)
    smallest, largest = (f"{np.exp(edge):,.0f}" for edge in (edges[0], edges[-1]))
    if b_opt.status == "upper_bound":
        warnings.append(
            f"tokens to the target fall all the way to the smallest batch, {smallest} tokens: add smaller."
        )
    elif b_opt.status == "lower_bound":
        warnings.append(
            f"tokens to the target fall all the way to the largest batch, {largest} tokens: add larger."
        )
    elif b_opt.status == "not_identified":
        warnings.append(
            f"no fewest tokens within the batch sizes that reached this loss, {smallest} to {largest} tokens: "
            "add smaller and larger ones."
        )
    if b_min.status == "upper_bound":
        warnings.append(
            f"no batch size was run near B_min: the smallest that reached the target is {smallest} tokens."
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
