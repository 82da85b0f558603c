"""Losses of one fit in different units: sums over accumulation steps, bits, per byte, perplexities.

A unit is a factor at the same steps, from the first to the last. Batch sizes and learning rates part at one loss, that
of a new model; where logs begin later they have parted already, but batch sizes next to each other not far, and at one
learning rate the larger one is ahead.

Measured on `sample_runs` and another sweep of ten batch sizes, logs cut to begin at steps 1 to 1,000 or at 50,000 to
1,000,000 tokens, or with every second to fourth batch size: the smaller log ratio of both ends is at most 0.02 where
logs begin at step 1, else 0.17 between batch sizes that differ by a factor of 2, 0.26 by 4, 0.36 by 16, 0.44 by 256.
Bits in place of nats are 0.37, all else is more. Nothing was named in these 72 cases, nor in 900 sweeps of a three-term
surface over three decades of batch sizes with noise, seeds, four learning rates over a factor of 8, and runs that
diverge. Of runs put into another unit by a factor of 2 or more, and of perplexities, all were named where logs begin by
step 10, and 93 percent where later (elsewhere too few rows are left to compare); of bits, 100 and 90 percent. Where
learning rates differ bits are mostly missed, and where batch sizes lie 8 times apart.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np
from scipy.sparse.csgraph import connected_components

from ebfit.mixed.common_steps import BoolArray, CommonSteps, Ends
from ebfit.mixed.settings import may_be_compared, same_rate
from ebfit.runs import LossKind, Run
from ebfit.runs.columns import normalised
from ebfit.runs.run import FloatArray
from ebfit.text import listed

_LEAST_RUNS = 3
_APART = 0.15  # log ratio of losses in one unit
_APART_PER_OCTAVE = 0.08  # so much more of batch sizes
_APART_BY_RATE = 0.3
_MOST_PER_OCTAVE = 0.15
_ONE_FACTOR = 0.15  # by which the logs of one factor may differ
_LEAST_FACTOR = 0.25  # log of a factor that is named
_STEADY = 0.35  # by which the log ratio may differ from one end to the other
_FALL_ALIKE = 0.25  # of the falls of two losses: the ratio of the smaller to the larger, at least
_LEAST_FALL = 0.01
_EXPONENTIAL = 0.3
_NEIGHBOURS = 2  # batch sizes on either side
_WHOLE = 0.05  # of a factor
_PER_BYTE = (1.6, 5.5)  # bytes per token times ln 2 if in bits: 2.5 to 5.5 bytes

_WHAT = {"train": "train losses", "val": "validation losses"}
_UNITS = {
    "bits per byte": re.compile(r"(?:^|_)(?:bpb|bpc|bits_per_(?:byte|char|character))(?:_|$)"),
    "perplexities": re.compile(r"(?:^|_)(?:ppl|perplexity)(?:_|$)"),
    "bits per token": re.compile(r"(?:^|_)(?:bpt|bits_per_token|bits)(?:_|$)"),
}
_NO_UNIT = "losses"
_WAY_OUT = "Convert them to one unit, or leave these runs out."


def mixed_loss_units(runs: Sequence[Run], kind: LossKind) -> list[str]:
    """Name runs whose losses are in another unit than those of the others, by their column or by their size.

    Parameters
    ----------
    runs : sequence of Run
        Compared with each other where nothing says that they are of different models or data.
    kind : {"train", "val"}
        The loss to look at.
    """
    by_unit: dict[str, list[Run]] = {}
    for run in sorted(runs, key=lambda run: (run.batch_tokens, run.name)):
        curve = run.curve(kind)
        if curve is not None and len(curve.loss):
            by_unit.setdefault(_unit(curve.column), []).append(run)
    sentences = _by_column(by_unit, kind)
    for members in by_unit.values():
        sentences += _by_size(members, kind)
    return sentences


def _unit(column: str) -> str:
    name = normalised(column)
    return next((unit for unit, pattern in _UNITS.items() if pattern.search(name)), _NO_UNIT)


def _by_column(by_unit: dict[str, list[Run]], kind: LossKind) -> list[str]:
    if len(by_unit) < 2:
        return []
    usual, *others = sorted(by_unit, key=lambda unit: (-len(by_unit[unit]), unit))
    return [
        f"by the names of their columns the {_WHAT[kind]} of {listed([run.name for run in by_unit[unit]])} are {unit}, "
        f"those of {listed([run.name for run in by_unit[usual]])} {usual}. Choose columns of one unit with --columns, "
        "convert them, or leave these runs out."
        for unit in others
    ]


def _by_size(runs: Sequence[Run], kind: LossKind) -> list[str]:
    if len(runs) < _LEAST_RUNS:
        return []
    pairs = _compare(runs, kind)
    count, unit_of = connected_components(pairs.same, directed=False)
    sizes = np.bincount(unit_of, minlength=count)
    by_factor: list[tuple[float, list[int]]] = []
    perplexities: list[int] = []
    logarithms: list[int] = []
    # Of runs in different units the fewer are named; of as many, those of the larger batches.
    for unit in range(count):
        mine = unit_of == unit
        between = np.ix_(
            mine, (sizes[unit_of] > sizes[unit]) | ((sizes[unit_of] == sizes[unit]) & (unit_of < unit))
        )
        members = np.flatnonzero(mine).tolist()
        log_factor = _log_factor(pairs.log_ratio[between], pairs.octaves[between], pairs.factor[between])
        if abs(log_factor) > _LEAST_FACTOR:
            by_factor.append((log_factor, members))
        elif pairs.perplexity[between].any():
            perplexities += members
        elif pairs.perplexity.T[between].any():
            logarithms += members
    sentences = [
        f"{_losses(runs, members, kind)} {_in_words(factor)} times those of the other runs from beginning to "
        f"end{_reason(factor)}. {_WAY_OUT}"
        for factor, members in _of_one_factor(by_factor)
    ]
    if perplexities:
        sentences.append(
            f"{_losses(runs, perplexities, kind)} about e to the power of those of the other runs, and seem to be "
            f"perplexities. {_WAY_OUT}"
        )
    if logarithms:
        sentences.append(
            f"{_losses(runs, logarithms, kind)} about the logarithm of those of the other runs, which seem to be "
            f"perplexities. {_WAY_OUT}"
        )
    return sentences


def _log_factor(log_ratio: FloatArray, octaves: FloatArray, chosen: BoolArray) -> float:
    """Return the log ratio of losses at equal batch sizes, by a line through pairs of unequal ones; 0 without any."""
    y, x = log_ratio[chosen], octaves[chosen]
    if not len(y):
        return 0.0
    spread = float(((x - x.mean()) ** 2).sum())
    slope = float(((x - x.mean()) * (y - y.mean())).sum()) / spread if spread > 0 else 0.0
    return float(np.median(y - np.clip(slope, 0.0, _MOST_PER_OCTAVE) * x))


def _of_one_factor(units: Sequence[tuple[float, list[int]]]) -> list[tuple[float, list[int]]]:
    """Put runs together that differ from the others by nearly one factor, though no runs lie between that show it."""
    together: list[tuple[list[float], list[int]]] = []
    for log_factor, members in sorted(units):
        if not together or log_factor - together[-1][0][-1] > _ONE_FACTOR:
            together.append(([], []))
        together[-1][0].append(log_factor)
        together[-1][1].extend(members)
    return [(math.exp(median(logs)), sorted(members)) for logs, members in together]


def _losses(runs: Sequence[Run], members: Sequence[int], kind: LossKind) -> str:
    return f"the {_WHAT[kind]} of {listed([runs[r].name for r in members])} are"


def _is_whole(factor: float) -> bool:
    return factor > 1.5 and abs(factor / round(factor) - 1) < _WHOLE


def _in_words(factor: float) -> str:
    return str(round(factor)) if _is_whole(factor) else f"{factor:.2g}"


@dataclass(frozen=True)
class _Pairs:
    """How the losses of every run compare with those of every other, shape (R, R) each.

    Attributes
    ----------
    log_ratio : ndarray
        Log of the ratio where their common steps begin; NaN where they have none.
    octaves : ndarray
        By which the second run's batch is the larger one.
    same : ndarray of bool
        They are in one unit.
    factor : ndarray of bool
        They differ by a factor from beginning to end. Neither this nor `same` where it cannot be told.
    perplexity : ndarray of bool
        That of the first is e to the power of the second.
    """

    log_ratio: FloatArray
    octaves: FloatArray
    same: BoolArray
    factor: BoolArray
    perplexity: BoolArray


def _compare(runs: Sequence[Run], kind: LossKind) -> _Pairs:
    curves = CommonSteps([run.curve(kind) for run in runs])
    log_batch = np.log2([run.batch_tokens for run in runs])
    octaves = log_batch - log_batch[:, None]
    rank = np.unique(log_batch, return_inverse=True)[1]
    same, factor, perplexity = np.zeros((3, len(runs), len(runs)), dtype=bool)
    log_ratio = np.full(same.shape, np.nan)
    comparable, one_rate = may_be_compared(runs), same_rate(runs)
    for i in range(len(runs)):
        near = comparable[i] & (np.abs(rank - rank[i]) <= _NEIGHBOURS)
        ends = curves.compare_with_all(i)
        first, last = ends.first - ends.other_first, ends.last - ends.other_last
        low, high = _honest(octaves[i], one_rate[i])
        large = ((first > high) & (last > high)) | ((first < low) & (last < low))
        falls = np.sort([ends.first - ends.last, ends.other_first - ends.other_last], axis=0)
        alike = (falls[0] > _LEAST_FALL) & (falls[0] > _FALL_ALIKE * falls[1])
        log_ratio[i] = first
        same[i] = near & ~large & np.isfinite(first)
        factor[i] = near & large & alike & (np.abs(first - last) < _STEADY)
        perplexity[i] = near & large & ~factor[i] & _is_perplexity(ends)
    return _Pairs(log_ratio, octaves, same, factor, perplexity)


def _honest(octaves: FloatArray, one_rate: BoolArray) -> tuple[FloatArray, FloatArray]:
    """Return between which bounds the log ratio of losses in one unit lies.

    Parameters
    ----------
    octaves : ndarray, shape (R,)
        By which the other run's batch is the larger one; so much is it ahead, at the same learning rate.
    one_rate : ndarray of bool, shape (R,)
        Whether both have the same learning rate.
    """
    far = _APART + _APART_PER_OCTAVE * np.abs(octaves)
    other_rate = np.maximum(far, _APART_BY_RATE)
    high = np.where(one_rate, np.where(octaves >= 0, far, _APART), other_rate)
    low = -np.where(one_rate, np.where(octaves <= 0, far, _APART), other_rate)
    return low, high


def _is_perplexity(ends: Ends) -> BoolArray:
    """Tell whether the one loss is e to the power of the other at both ends."""
    with np.errstate(invalid="ignore", divide="ignore"):
        off = [
            np.log(mine) - other
            for mine, other in ((ends.first, ends.other_first), (ends.last, ends.other_last))
        ]
        return np.abs(off).max(axis=0) < _EXPONENTIAL


def _reason(factor: float) -> str:
    """Say what makes such a factor."""
    larger = max(factor, 1 / factor)
    above = factor > 1
    reasons = []
    if abs(larger * math.log(2) - 1) < _WHOLE:
        reasons.append(
            "as losses in bits are of those in nats" if above else "as losses in nats are of those in bits"
        )
    if _is_whole(larger):
        sums = "they seem" if above else "those of the others seem"
        reasons.append(f"{sums} to be logged as a sum over accumulation steps")
    if _PER_BYTE[0] < larger < _PER_BYTE[1]:
        per_byte = "those of the others" if above else "they"
        reasons.append(f"{per_byte} may be per byte, not per token")
    return f": {', or '.join(reasons)}" if reasons else ""
