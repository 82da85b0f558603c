"""Which contestant predicts best, and whether that is more than chance.

A batch size counts once, by its mean error over the targets it reached: those are no independent witnesses. Two
contestants are compared by the difference of these means, batch size by batch size. If they were equally good, each
difference could as well have the other sign; the p-value is the share of all choices of signs for which the mean
difference is as large as it is (a paired permutation test).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ebfit.fitting.batched import BoolArray
from ebfit.fitting.comparison.contestants import Contestant
from ebfit.fitting.comparison.left_out import LeftOut
from ebfit.laws import FloatArray

CHANCE = 0.05  # differences with a larger p-value are said to be chance
_MOST_EXACT = 14  # batch sizes up to which all choices of signs are tried
_RANDOM_SIGNS = 9999


@dataclass(frozen=True)
class Verdict:
    """What follows from errors of C contestants at the same left-out batch sizes.

    Attributes
    ----------
    between : ndarray of bool, shape (N,)
        Which predictions all contestants made: of batch sizes between others that reached the target.
    ranked : ndarray of bool, shape (N,)
        Which the choice goes by: these and those at the edges, that interpolation does not make.
    batch_sizes : int
        How many of these there are.
    mean : ndarray, shape (C,)
        Mean over batch sizes of their mean errors; NaN for what does not extrapolate.
    best : int
        The contestant with the smallest mean among those that can be chosen.
    p_value : ndarray, shape (C,)
        How easily chance makes a contestant as much worse than the best as it is; 1 for the best.
    chosen : int
        The first of those that can be chosen, the usual one; the best where that is better beyond chance.
    beaten_by_interpolation : float or None
        The p-value where plain interpolation predicts better than what was chosen, beyond chance.
    """

    between: BoolArray
    ranked: BoolArray
    batch_sizes: int
    mean: FloatArray
    best: int
    p_value: FloatArray
    chosen: int
    beaten_by_interpolation: float | None


def judge(left_out: LeftOut, contestants: Sequence[Contestant]) -> Verdict | None:
    """Choose among contestants; None where nothing was predicted by all of them.

    Parameters
    ----------
    left_out : LeftOut
    contestants : sequence of Contestant, length C
        The usual one first.
    """
    errors = left_out.errors()
    laws = [c for c, contestant in enumerate(contestants) if contestant.extrapolates]
    ranked = np.asarray(np.isfinite(errors[laws]).all(axis=0))
    between = ranked & left_out.between & np.isfinite(errors).all(axis=0)
    if not between.any():
        return None
    by_size = _by_batch_size(left_out.take(ranked), errors[:, ranked])
    mean = by_size.mean(axis=1)
    eligible = [c for c, contestant in enumerate(contestants) if contestant.options is not None]
    best = min(eligible, key=lambda c: mean[c])
    p_value = np.array([_chance(by_size[c] - by_size[best]) for c in range(len(contestants))])
    chosen = eligible[0] if p_value[eligible[0]] > CHANCE else best
    inside = _by_batch_size(left_out.take(between), errors[:, between])
    against = [_chance(inside[chosen] - inside[c]) for c in range(len(contestants)) if c not in laws]
    return Verdict(
        between=between,
        ranked=ranked,
        batch_sizes=by_size.shape[1],
        mean=mean,
        best=best,
        p_value=p_value,
        chosen=chosen,
        beaten_by_interpolation=min((p for p in against if p <= CHANCE), default=None),
    )


def _by_batch_size(left_out: LeftOut, errors: FloatArray) -> FloatArray:
    """Return the mean errors of each group's batch sizes, shape (C, K)."""
    _, owner = np.unique(np.stack([left_out.group, left_out.log_batch]), axis=1, return_inverse=True)
    member = owner.ravel() == np.arange(owner.max() + 1)[:, None]
    return errors @ member.T / member.sum(axis=1)


def _chance(differences: FloatArray) -> float:
    """Return the one-sided p-value of a positive mean of ``differences``, shape (K,); NaN if any is."""
    count = len(differences)
    if np.isnan(differences).any():
        return float("nan")
    if not differences.any():
        return 1.0
    if count <= _MOST_EXACT:
        signs = 1.0 - 2.0 * (np.arange(2**count)[:, None] >> np.arange(count) & 1)
    else:
        signs = np.random.default_rng(0).choice([-1.0, 1.0], size=(_RANDOM_SIGNS + 1, count))
        signs[0] = 1.0  # what was seen is one of the choices
    # sums in another order differ by rounding
    slack = 1e-12 * float(np.abs(differences).sum())
    return float(np.mean(signs @ differences >= differences.sum() - slack))
