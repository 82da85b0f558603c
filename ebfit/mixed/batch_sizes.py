"""Batch sizes of one fit in different units: sequences taken for tokens, one device for all, micro-steps for steps.

By what is known of them, or by the losses: at the same steps and learning rate a larger batch is ahead, on
`sample_runs` and another sweep by 2 percent or more where it is 4 times as large. So one that is behind, beside most
others, is not as large as it says.

Measured as in `losses`: nothing was named in the 72 cases, nor in 600 surface sweeps; in 300 with a diverged run or two
each, a run was named in 2. Of one run of a sweep, drawn by chance, whose batch was divided by 2,048, 58 percent were
named, multiplied by it, 34 percent; with eight steps counted for one, 14 percent; of batches an eighth of what they
are, none: a run may be in its place all the same, and a factor of 8 in batch size makes little difference to the loss.
"""

from collections.abc import Sequence

import numpy as np

from ebfit.mixed.common_steps import BoolArray, CommonSteps
from ebfit.mixed.settings import may_be_compared, same_rate
from ebfit.runs import LossKind, Run
from ebfit.runs.batch_size import NAMED_IN_TOKENS
from ebfit.text import listed

_GAP = 2.0  # of the widest gap within either set of batch sizes: so far sets in one unit do not lie apart
_LEAST_GAP = 4.0
_FAR = 4.0  # ratio of batch sizes of which the larger one is ahead
_BEHIND = 0.05  # of the loss
_LEAST_WRONG = 2
_LEAST_ROWS = 12
_LEAST_FALL = 0.02  # of the loss, from the first quarter of the rows to the last


def mixed_batch_units(runs: Sequence[Run], kind: LossKind) -> list[str]:
    """Name runs whose batch sizes seem to be in another unit than those of the others.

    Parameters
    ----------
    runs : sequence of Run
    kind : {"train", "val"}
        The loss to judge batch sizes by: at the same steps and learning rate a larger batch is ahead.
    """
    runs = sorted(runs, key=lambda run: (run.batch_tokens, run.name))
    sentences = []
    for find in (_less_than_a_sequence, _named_among_known):
        named, said = find(runs)
        sentences += said
        runs = [run for run in runs if run.name not in {one.name for one in named}]
    return sentences + _out_of_order(runs, kind)


def _less_than_a_sequence(runs: Sequence[Run]) -> tuple[list[Run], list[str]]:
    lengths = {run.seq_len: run.name for run in reversed(runs) if run.seq_len is not None}
    if not lengths:
        return [], []
    shortest = min(lengths)
    less = [run for run in runs if run.batch_tokens < (run.seq_len or shortest)]
    if not less:
        return [], []
    example = less[0]
    of = "" if example.seq_len else f", as {lengths[shortest]} has it"
    return less, [
        f"the batch sizes of {_with_sizes(less)} are fewer tokens than one sequence "
        f"({example.seq_len or shortest:,}{of}): they seem to count sequences. Give --seq-len, or batch_sequences and "
        "seq_len in a --manifest."
    ]


def _named_among_known(runs: Sequence[Run]) -> tuple[list[Run], list[str]]:
    """Tell sizes in names that were taken for tokens and lie apart from those that are known to be tokens."""
    named = [run for run in runs if NAMED_IN_TOKENS in run.assumptions]
    known = [run for run in runs if NAMED_IN_TOKENS not in run.assumptions]
    if not named or not known:
        return [], []
    gap = known[0].batch_tokens / named[-1].batch_tokens
    if gap < max(_LEAST_GAP, _GAP * _widest_gap(named), _GAP * _widest_gap(known)):
        return [], []
    return named, [
        f"the batch sizes of {_with_sizes(named)} were taken from names as tokens, and lie far below those of "
        f"{_with_sizes(known)} ({known[0].batch_source}): the names seem to count sequences. Give --seq-len."
    ]


def _widest_gap(runs: Sequence[Run]) -> float:
    sizes = np.unique([run.batch_tokens for run in runs])
    return float((sizes[1:] / sizes[:-1]).max(initial=1.0))


def _out_of_order(runs: Sequence[Run], kind: LossKind) -> list[str]:
    """Name runs that are ahead of most runs of far larger batches, or behind most of far smaller ones."""
    if len(runs) <= _LEAST_WRONG:
        return []
    compared, ahead = _orders(runs, kind)
    left = np.ones(len(runs), dtype=bool)
    found: dict[bool, list[Run]] = {True: [], False: []}
    while True:
        wrong = (ahead | ahead.T)[:, left].sum(axis=1) * left
        share = wrong / np.maximum(compared[:, left].sum(axis=1), 1)
        odd = np.flatnonzero((wrong >= _LEAST_WRONG) & (share >= 0.5))
        if not odd.size:
            break
        worst = int(max(odd, key=lambda r: (share[r], wrong[r], -r)))
        found[bool(ahead[worst, left].sum() * 2 >= wrong[worst])].append(runs[worst])
        left[worst] = False
    sentences = []
    if found[True]:
        sentences.append(
            f"at the same steps and learning rate the losses of {_with_sizes(found[True])} are below those of runs "
            "with far larger batches: the batch sizes may count sequences, or leave out devices or accumulation. Check "
            "them, and give --seq-len or a --manifest."
        )
    if found[False]:
        sentences.append(
            f"at the same steps and learning rate the losses of {_with_sizes(found[False])} are above those of runs "
            "with far smaller batches: the batch sizes may be too large, as tokens taken for sequences, or the steps "
            "count micro-batches. Check them, and give a --manifest or --micro-steps."
        )
    return sentences


def _orders(runs: Sequence[Run], kind: LossKind) -> tuple[BoolArray, BoolArray]:
    """Return which runs can be compared, and which are ahead of one with a far larger batch, shape (R, R) both."""
    curves = CommonSteps([run.stable_curve(kind) if _falls(run, kind) else None for run in runs])
    sizes = np.array([run.batch_tokens for run in runs])
    compared, ahead = np.zeros((2, len(runs), len(runs)), dtype=bool)
    alike = may_be_compared(runs) & same_rate(runs)
    for i in range(len(runs)):
        ends = curves.compare_with_all(i)
        behind = ends.last - ends.other_last
        larger, smaller = sizes > _FAR * 0.99 * sizes[i], sizes < sizes[i] / (_FAR * 0.99)
        compared[i] = alike[i] & (larger | smaller) & np.isfinite(behind)
        ahead[i] = compared[i] & larger & (behind < -_BEHIND)
    return compared, ahead


def _falls(run: Run, kind: LossKind) -> bool:
    """Tell whether a loss falls to the end: one that diverged, or never learned, tells nothing of its batch."""
    curve = run.stable_curve(kind)
    if curve is None or len(curve.loss) < _LEAST_ROWS:
        return False
    quarters = [float(np.median(part)) for part in np.array_split(curve.loss, 4)]
    end = float(np.median(curve.loss[-max(3, len(curve.loss) // 20) :]))
    return end < (1 + _BEHIND) * min(quarters) and end < (1 - _LEAST_FALL) * quarters[0]


def _with_sizes(runs: Sequence[Run]) -> str:
    return listed([f"{run.name} ({run.batch_tokens:,.6g} tokens)" for run in runs])
