"""Which batch size to run next, and for how long, so that a target says more: simple rules on what was run already.

Towards small batches, half of the smallest that reached the target, for at most twice the tokens that one took: there
it either gets there or shows that tokens rise. Towards large batches twice the largest, for as many steps as that one
took, since a larger batch never takes more. Where runs stand there that ended too early, those go on, or the gap to
them is halved.
"""

from dataclasses import dataclass

import numpy as np

from ebfit.fitting.observations import Observations
from ebfit.laws import FloatArray

_STRIDE = float(np.log(2.0))  # from one batch size to the next
_TOKENS_BEYOND = float(
    np.log(2.0)
)  # of a smaller batch, beyond those of the smallest that reached the target
_CLOSE = float(np.log(1.2))  # batch sizes with less between them need none between them
_NEAR_ENOUGH = 0.1  # log tokens
_NEAR_B_OPT = float(np.log(4.0))


@dataclass(frozen=True)
class NextRun:
    """A run to make.

    Attributes
    ----------
    log_batch, log_steps : float
        Natural logs of tokens per step and of the steps at which it may end at the latest.
    continues : bool
        Whether it continues a run that was made.
    """

    log_batch: float
    log_steps: float
    continues: bool = False

    @property
    def text(self) -> str:
        """Such as ``512 tokens for 4,800 steps at most``, or ``512 tokens on to 4,800 steps``."""
        size, steps = size_text(self.log_batch), _steps_text(self.log_steps)
        return f"{size} tokens " + (
            f"on to {steps} steps" if self.continues else f"for {steps} steps at most"
        )

    @property
    def order(self) -> str:
        """The text with its verb."""
        return f"{'train' if self.continues else 'run'} {self.text}"


def smaller(data: Observations, t: int) -> NextRun:
    """Return the run that tells most of small batches at target ``t``."""
    log_batch, log_steps = _reached(data, t)
    smallest, most_tokens = log_batch[0], log_batch[0] + log_steps[0] + _TOKENS_BEYOND
    ended = data.censored_batches(t)
    ended = ended[ended < smallest - 1e-9]
    if not len(ended):
        return NextRun(smallest - _STRIDE, most_tokens - smallest + _STRIDE)
    nearest = float(ended[-1])
    last = float(data.log_steps[(data.log_batch == nearest) & data.censored[:, t], t].max())
    if last + nearest < most_tokens and smallest - nearest < 1.5 * _STRIDE:
        return NextRun(nearest, most_tokens - nearest, continues=True)
    middle = _middle(nearest, smallest)
    return NextRun(middle, most_tokens - middle)


def larger(data: Observations, t: int) -> NextRun | None:
    """Return the run that tells most of large batches at target ``t``; None where those that were run do not count."""
    log_batch, log_steps = _reached(data, t)
    beyond = data.log_batch > log_batch[-1] + 1e-9
    ended = data.log_batch[beyond & data.present[:, t]]
    if len(ended):
        return NextRun(float(ended.min()), log_steps[-1], continues=True)
    return None if beyond.any() else NextRun(log_batch[-1] + _STRIDE, log_steps[-1])


def larger_or_lower(data: Observations, t: int) -> str:
    """Say what tells most of large batches at target ``t``: that run, or another target."""
    run = larger(data, t)
    return run.order if run else "choose a lower target, at which the larger ones count"


def between(data: Observations, t: int, log_b_opt: float) -> NextRun:
    """Return a run in the widest gap of the batch sizes that reached target ``t``, those far above B_opt left out."""
    log_batch, log_steps = _reached(data, t)
    gaps = np.where(log_batch[:-1] > log_b_opt + _NEAR_B_OPT, 0.0, np.diff(log_batch))
    widest = int(np.argmax(gaps.round(6)))  # of equal gaps the one at smaller batches, where steps say more
    return NextRun(_middle(*log_batch[widest : widest + 2]), log_steps[widest])


def beside(data: Observations, t: int, size: float) -> NextRun | None:
    """Return a run in the wider gap next to a batch size that reached target ``t``; None where both are narrow."""
    log_batch, log_steps = _reached(data, t)
    place = int(np.argmin(np.abs(log_batch - size)))
    lower = max(
        (i for i in (place - 1, place) if 0 <= i < len(log_batch) - 1), key=lambda i: np.diff(log_batch)[i]
    )
    if log_batch[lower + 1] - log_batch[lower] < 2.0 * _CLOSE:
        return None
    return NextRun(_middle(*log_batch[lower : lower + 2]), log_steps[lower])


def next_to_b_min(data: Observations, t: int, log_b_min: float) -> NextRun | None:
    """Return a run halfway from the smallest batch that reached target ``t`` down to B_min; None where that is near."""
    log_batch, log_steps = _reached(data, t)
    if log_batch[0] - log_b_min < 2.0 * _CLOSE:
        return None
    middle = _rounded(0.5 * (log_batch[0] + log_b_min), _CLOSE)
    return NextRun(middle, log_batch[0] + log_steps[0] + _TOKENS_BEYOND - middle)


def steps_fall_by(data: Observations, t: int) -> float:
    """Return by how much log steps to target ``t`` fall per log batch size, between the two largest that reached it."""
    log_batch, log_steps = _reached(data, t)
    return float((log_steps[-2] - log_steps[-1]) / (log_batch[-1] - log_batch[-2]))


def size_text(log_batch: float) -> str:
    """Write tokens: whole ones in full, as sweeps name them."""
    tokens = float(np.exp(log_batch))
    return f"{tokens:,.0f}" if tokens >= 10.0 else f"{tokens:.3g}"


def _reached(data: Observations, t: int) -> tuple[FloatArray, FloatArray]:
    """Return the distinct batch sizes that reached a target, rising, with their mean steps; logs."""
    log_batch = data.reached_batches(t)
    return log_batch, data.mean_log_tokens(t) - log_batch


def _middle(log_low: float, log_high: float) -> float:
    """Return a batch size about halfway between two: whole halves of the smaller one, if those come near enough."""
    middle = 0.5 * (log_low + log_high)
    halves = log_low + float(np.log(np.round(2.0 * np.exp(middle - log_low)) / 2.0))
    if halves > log_low + _CLOSE and abs(halves - middle) < _NEAR_ENOUGH:
        return halves
    return _rounded(middle, 0.25 * (log_high - log_low))


def _rounded(log_batch: float, allowed: float) -> float:
    """Return the batch size with as few digits, two at least, as keep its logarithm within what it may move."""
    written = (float(np.log(float(f"{np.exp(log_batch):.{digits}g}"))) for digits in range(2, 17))
    return next((value for value in written if abs(value - log_batch) < allowed), log_batch)


def _steps_text(log_steps: float) -> str:
    """Write steps with two digits, rounded up."""
    steps = float(np.exp(log_steps))
    unit = 10.0 ** max(np.floor(np.log10(steps)) - 1.0, 0.0)
    return f"{unit * np.ceil(steps / unit - 1e-9):,.0f}"
