"""How many sequences go through the model at once, so that a batch of any size fits in memory."""

import torch

from ebfit.errors import CannotAnswerError
from ebfit.sweep.device import products_in, ran_out_of_memory
from ebfit.sweep.model import Model
from ebfit.sweep.recipe import Precision

# On a CPU memory is rarely short, but larger pieces fall out of the caches. Measured for `tiny`: 8192 tokens at once
# train 1.4 times as fast as 32768.
_CPU_TOKENS = 8192
# On a GPU the trial begins here: larger pieces fill no device any better.
_GPU_TOKENS = 2**17


def largest_micro_batch(model: Model, seq_len: int, most: int, precision: Precision) -> int:
    """Return the most sequences to take at once, of at most ``most``.

    On a CPU it is about what the caches hold. On a GPU it is found by trial, from 131,072 tokens down.

    Raises
    ------
    CannotAnswerError
        If not even a single sequence fits.
    """
    device = next(model.parameters()).device
    if device.type == "cpu":
        return max(1, min(most, _CPU_TOKENS // seq_len))
    size = max(1, min(most, _GPU_TOKENS // seq_len))
    while True:
        if _fits(model, seq_len, size, precision):
            return size
        if size == 1:
            raise CannotAnswerError(
                "out of memory with a single sequence: take a smaller model or --seq-len."
            )
        size = 1 << ((size - 1).bit_length() - 1)


def _fits(model: Model, seq_len: int, sequences: int, precision: Precision) -> bool:
    try:
        _try(model, seq_len, sequences, precision)
        return True
    except (RuntimeError, MemoryError) as error:
        if not ran_out_of_memory(error):
            raise
        return False
    finally:
        model.zero_grad(set_to_none=True)
        device = next(model.parameters()).device
        if device.type != "cpu":
            torch.get_device_module(device).empty_cache()


def _try(model: Model, seq_len: int, sequences: int, precision: Precision) -> None:
    """Take as much memory as a step does: what the optimizer keeps, and gradients while a micro-batch goes through."""
    parameters = list(model.parameters())
    device = parameters[0].device
    moments = [torch.empty_like(parameter) for parameter in parameters * 2]
    tokens = torch.zeros((sequences, seq_len + 1), dtype=torch.int64, device=device)
    for _ in range(2):  # the gradients of the first micro-batch are there when the second comes
        with products_in(precision, device):
            loss = model.loss(tokens)
        loss.backward()
    del moments
