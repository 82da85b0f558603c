"""Input: the batches of a run, in order, on the device, cut into micro-batches."""

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType

import torch
from torch import Tensor

from ebfit.sweep.data import Data
from ebfit.sweep.recipe import Recipe

MicroBatch = tuple[float, Tensor]  # its share of the batch, and its sequences, shape (n, seq_len + 1)


def micro_batch_sizes(batch_sequences: int, largest: int) -> list[int]:
    """Cut a batch into the fewest pieces of at most ``largest`` sequences, as equal as can be."""
    pieces = -(-batch_sequences // largest)
    small, larger = divmod(batch_sequences, pieces)
    return [small + 1] * larger + [small] * (pieces - larger)


class Batches:
    """The batches of a run from some step on; the next one is fetched while the device works on this one.

    Parameters
    ----------
    data : Data
    recipe : Recipe
    device : torch.device
    micro_batch_sequences : int
        The most sequences that go through the model at once.
    steps_done : int
        Batches that the run has consumed already.
    """

    def __init__(
        self, data: Data, recipe: Recipe, device: torch.device, micro_batch_sequences: int, steps_done: int
    ) -> None:
        self._data, self._seed, self._size = data, recipe.seed, recipe.batch_sequences
        self._device = device
        self._sizes = micro_batch_sizes(recipe.batch_sequences, micro_batch_sequences)
        self._first = steps_done * recipe.batch_sequences
        # On the CPU a second thread would only take time from the model. Copies that are not waited for are of pinned
        # memory only: MPS reads what is not pinned even after it was freed (pytorch issue 189690).
        self._ahead = device.type == "cuda"
        self._pool = ThreadPoolExecutor(1) if self._ahead else None
        self._fetched: Future[Tensor] | None = None

    def __enter__(self) -> "Batches":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)

    def next(self) -> Iterator[MicroBatch]:
        """Return the micro-batches of the next step, token ids as 64-bit integers."""
        if self._pool is None:
            batch = self._fetch(self._first)
        else:
            batch = self._fetched.result() if self._fetched is not None else self._fetch(self._first)
            self._fetched = self._pool.submit(self._fetch, self._first + self._size)
        self._first += self._size
        for piece in batch.split(self._sizes):
            on_device = piece.to(self._device, non_blocking=self._ahead).long()
            yield len(piece) / self._size, on_device

    def _fetch(self, first: int) -> Tensor:
        sequences = torch.from_numpy(self._data.sequences(self._seed, first, self._size))
        return sequences.pin_memory() if self._ahead else sequences
