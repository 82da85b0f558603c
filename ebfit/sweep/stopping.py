"""When the stable phase of a run may end before its planned steps: more of it would tell nothing more."""

from collections.abc import Sequence

import numpy as np

ValidationLoss = tuple[int, float]  # step, loss in nats per token

_SMOOTHED_OVER = 4  # validations in a mean that must lie below the loss to stop at
_LEVEL_OVER = 4.0  # a loss is level if it is so while the step number grows by this factor
_LEVEL_NATS = 0.01  # per doubling of the steps; twice the cost for less is not worth it
_LEAST_ROWS = 16  # validations in that stretch; with fewer a slope is not known
_AFTER_WARMUPS = 20  # no curve is level so early; it may rest on a plateau before training takes hold


def reason_to_stop(
    validations: Sequence[ValidationLoss], warmup_steps: int, until_loss: float | None, stop_when_level: bool
) -> str | None:
    """Tell why the stable phase may end now, in words; None if it should go on.

    Parameters
    ----------
    validations : sequence of (step, loss)
        Of the run so far, in order of the steps.
    warmup_steps : int
    until_loss : float or None
        Stop once the mean of the last few losses is below this.
    stop_when_level : bool
        Stop once the loss falls by less than 0.01 nats per doubling of the steps, by more than the error of that slope.
    """
    recent = [loss for step, loss in validations[-_SMOOTHED_OVER:] if step > warmup_steps]
    if until_loss is not None and len(recent) == _SMOOTHED_OVER and np.mean(recent) < until_loss:
        return f"loss < {until_loss:g}"
    last_step = validations[-1][0] if validations else 0
    if stop_when_level and last_step >= _LEVEL_OVER * _AFTER_WARMUPS * max(warmup_steps, 1):
        stretch = [(step, loss) for step, loss in validations if step * _LEVEL_OVER >= last_step]
        if len(stretch) >= _LEAST_ROWS:
            fall, error = _fall_per_doubling(stretch)
            if fall + error < _LEVEL_NATS:
                return "levelled off"
    return None


def _fall_per_doubling(stretch: Sequence[ValidationLoss]) -> tuple[float, float]:
    """Return how fast the loss falls per doubling of the steps, and the standard error of that."""
    doublings = np.log2([step for step, _ in stretch])
    losses = np.array([loss for _, loss in stretch])
    centred = doublings - doublings.mean()
    slope = float(centred @ losses / (centred @ centred))
    residuals = losses - losses.mean() - slope * centred
    error = float(np.sqrt(residuals @ residuals / (len(losses) - 2) / (centred @ centred)))
    return -slope, error
