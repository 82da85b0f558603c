"""The runs that a design chooses from: round batch sizes, each trained just long enough to reach a target."""

from dataclasses import dataclass

import numpy as np

from ebfit.designing.foresight import Foresight
from ebfit.fitting.batched import BoolArray
from ebfit.fitting.observations import Observations
from ebfit.laws import FloatArray

# Round batch sizes are a power of two times one of these; the fewest that leave few enough sizes to choose from.
_MANTISSAS = ((4, 5, 6, 7), (2, 3), (1,))
_MOST_SIZES = 40
_BEYOND = 4.0  # factor by which an open side is explored past the batch sizes that reached a target
_LIKELY = 2.0 / 3.0  # of the laws that are possible, in which a run is long enough
_MARGIN, _MARGIN_IN_SD = (
    0.05,
    3.0,
)  # by which a run is longer: log steps, or errors of a run if these are more


@dataclass(frozen=True)
class Candidates:
    """C batch sizes, each of which may be trained to any of T targets.

    Attributes
    ----------
    batch_tokens : ndarray, shape (C,)
    log_length : ndarray, shape (C, T)
        Log of the steps that a run takes if it is made for a target: whole numbers; infinite where the laws that are
        possible do not agree that it gets there.
    tokens : ndarray, shape (C, T)
        What it costs.
    """

    batch_tokens: FloatArray
    log_length: FloatArray
    tokens: FloatArray

    @property
    def steps(self) -> FloatArray:
        """Steps that a run takes, shape (C, T)."""
        return np.exp(self.log_length)

    def only(self, wanted: BoolArray) -> "Candidates":
        """Return it with runs that are not wanted, shape (C, T), out of reach."""
        return Candidates(
            self.batch_tokens,
            np.where(wanted, self.log_length, np.inf),
            np.where(wanted, self.tokens, np.inf),
        )


def round_sizes(low: float, high: float, seq_len: int | None) -> FloatArray:
    """Return round batch sizes in tokens from ``low`` to ``high``: powers of two times small whole numbers.

    Parameters
    ----------
    low, high : float
        Tokens.
    seq_len : int or None
        Sizes are whole multiples of it; without one they are of one token, and fractions below.

    Returns
    -------
    ndarray
        Rising, about forty at most; empty if no round size lies between.
    """
    unit = seq_len or 1
    for mantissas in _MANTISSAS:
        powers = np.arange(np.floor(np.log2(low / unit)) - 3, np.ceil(np.log2(high / unit)) + 1)
        sizes = np.unique(np.outer(2.0**powers, mantissas))
        if seq_len:
            sizes = sizes[sizes == np.round(sizes)]
        sizes = unit * sizes
        sizes = sizes[(sizes >= low * (1 - 1e-9)) & (sizes <= high * (1 + 1e-9))]
        if len(sizes) <= _MOST_SIZES:
            break
    return sizes


def size_range(data: Observations, b_min: FloatArray, open_above: bool) -> tuple[float, float]:
    """Return the smallest and the largest batch size worth a thought, in tokens.

    Parameters
    ----------
    data : Observations
    b_min : ndarray
        Log B_min of the highest target at the laws that are possible.
    open_above : bool
        Whether what is wanted may lie beyond the largest batch size that reached a target.
    """
    reached = data.log_batch[data.reached.any(axis=1)]
    smallest, largest = float(reached.min()), float(reached.max())
    # below B_min no run gets anywhere; what lies between it and the smallest size that got there tells of it
    low = np.clip(np.quantile(b_min, 1.0 - _LIKELY), smallest - np.log(_BEYOND), smallest)
    high = largest + (np.log(_BEYOND) if open_above else 0.0)
    return float(np.exp(low)), float(np.exp(high))


def candidates(foresight: Foresight, batch_tokens: FloatArray) -> Candidates:
    """Return the runs that may be chosen, at batch sizes (C,) that the foresight is of."""
    margin = np.maximum(_MARGIN, _MARGIN_IN_SD * foresight.total_sd.mean(axis=0))
    likely = np.quantile(foresight.log_steps, _LIKELY, axis=0, method="higher") + margin
    with np.errstate(over="ignore"):
        steps = np.ceil(np.exp(likely))
    return Candidates(batch_tokens, np.log(steps), batch_tokens[:, None] * steps)
