"""How long steps take on this machine, by taking a few."""

import time

import torch

from ebfit.sweep.architecture import Architecture
from ebfit.sweep.device import products_in
from ebfit.sweep.micro_batch import largest_micro_batch
from ebfit.sweep.model import Model
from ebfit.sweep.optimizer import make_optimizer
from ebfit.sweep.recipe import Optimizer, Precision

_TIMED_SECONDS = 0.5
_MOST_STEPS = 20
_LARGE_TOKENS = 8192


def seconds_per_step(
    sizes: Architecture, seq_len: int, device: str, precision: Precision
) -> tuple[float, float]:
    """Time optimizer steps of a small and a large batch.

    Parameters
    ----------
    sizes : Architecture
    seq_len : int
        Tokens per sequence.
    device : str
        Such as ``cpu`` or ``cuda:0``.
    precision : {"float32", "bfloat16"}

    Returns
    -------
    per_step, per_token : float
        Seconds: a step of ``n`` tokens takes about ``per_step + n * per_token``.

    Raises
    ------
    CannotAnswerError
        If not even a single sequence fits in memory.
    """
    model = Model(sizes, seq_len).to(device)
    model.initialise(0)
    large = largest_micro_batch(model, seq_len, max(2, _LARGE_TOKENS // seq_len), precision)
    optimizer = make_optimizer(model.parameters(), Optimizer())
    seconds_small = _seconds(model, optimizer, seq_len, 1, precision)
    if large == 1:
        return 0.0, seconds_small / seq_len
    seconds_large = _seconds(model, optimizer, seq_len, large, precision)
    per_token = max(seconds_large - seconds_small, 0.0) / ((large - 1) * seq_len)
    return max(seconds_small - per_token * seq_len, 0.0), max(per_token, 1e-12)


def _seconds(
    model: Model, optimizer: torch.optim.Optimizer, seq_len: int, sequences: int, precision: Precision
) -> float:
    """Return the time of one step, the first one left out unless it took long by itself."""
    device = next(model.parameters()).device
    tokens = torch.zeros((sequences, seq_len + 1), dtype=torch.int64, device=device)

    def step() -> None:
        with products_in(precision, device):
            loss = model.loss(tokens)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        loss.item()  # waits for the device

    started = time.perf_counter()
    step()
    first = time.perf_counter() - started
    if first > _TIMED_SECONDS:
        return first
    started = time.perf_counter()
    done = 0
    while done < _MOST_STEPS and time.perf_counter() - started < _TIMED_SECONDS:
        step()
        done += 1
    return (time.perf_counter() - started) / done
