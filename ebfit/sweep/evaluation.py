"""Validation: on the same tokens for every run of a sweep, at steps that lie evenly on a log axis."""

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ebfit.sweep.device import products_in
from ebfit.sweep.recipe import Precision

_PER_DOUBLING_IN_WARMUP = 2  # no target is read off there


def evaluation_steps(warmup_steps: int, last_step: int, per_doubling: int) -> NDArray[np.int64]:
    """Return the steps to validate after: 1, the last, and ``per_doubling`` while the step number doubles.

    During the warmup they are few, and do not depend on how long the run is.
    """
    steps = _geometric(last_step, per_doubling)
    early = _geometric(warmup_steps, _PER_DOUBLING_IN_WARMUP)
    return np.unique(np.concatenate((early[early <= last_step], steps[steps > warmup_steps], [last_step])))


def _geometric(last: int, per_doubling: int) -> NDArray[np.int64]:
    exponents = np.arange(np.ceil(per_doubling * np.log2(max(last, 1))) + 1) / per_doubling
    steps = np.rint(2.0**exponents).astype(np.int64)
    return np.unique(steps[steps <= last])


class Validation:
    """The validation set on the device.

    Parameters
    ----------
    sequences : ndarray of int, shape (n, seq_len + 1)
    device : torch.device
    micro_batch_sequences : int
        The most sequences that go through the model at once.
    """

    def __init__(
        self, sequences: NDArray[np.int32], device: torch.device, micro_batch_sequences: int
    ) -> None:
        self._device = device
        self._pieces = torch.from_numpy(sequences).to(device).split(micro_batch_sequences)
        self._count = len(sequences)

    def loss(self, loss_of: Callable[[Tensor], Tensor], precision: Precision) -> float:
        """Return the mean loss over the whole set, in nats per token."""
        with torch.no_grad(), products_in(precision, self._device):
            total = sum(loss_of(piece.long()) * len(piece) for piece in self._pieces)
        return float(total) / self._count
