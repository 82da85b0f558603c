"""Devices and what goes through them at once: choice of device, micro-batches, batches."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ebfit.errors import BadInputError, CannotAnswerError
from ebfit.sweep import micro_batch
from ebfit.sweep.architecture import Architecture
from ebfit.sweep.batches import Batches, micro_batch_sizes
from ebfit.sweep.device import describe, devices_for, peak_flops, precision_for, ran_out_of_memory
from ebfit.sweep.model import Model
from ebfit.sweep.recipe import Recipe

SIZES = Architecture(n_layer=1, d_model=8, n_head=2, n_kv_head=2, d_ff=8, vocab_size=1000)


@pytest.fixture
def machine(monkeypatch):
    """A machine with so many GPUs, whatever this one has."""

    def with_devices(gpus: int, mps: bool = False) -> None:
        monkeypatch.setattr(torch.cuda, "is_available", lambda: gpus > 0)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
        monkeypatch.setattr(torch.backends.mps, "is_available", lambda: mps)

    return with_devices


# --- which device --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("gpus", "choice", "devices"),
    [
        (0, "auto", ["cpu"]),
        (0, "cpu", ["cpu"]),
        (2, "auto", ["cuda:0", "cuda:1"]),
        (2, "cuda", ["cuda:0", "cuda:1"]),
        (2, "cuda:1", ["cuda:1"]),
        (2, "cpu", ["cpu"]),
    ],
)
def test_devices_are_all_gpus_or_the_one_that_was_named(machine, gpus, choice, devices):
    machine(gpus)
    assert devices_for(choice) == devices


def test_the_gpu_of_a_mac_is_used_where_it_is_asked_for(machine):
    machine(0, mps=True)
    assert devices_for("mps") == ["mps"]


@pytest.mark.parametrize(
    ("gpus", "choice", "have"),
    [
        (0, "cuda", "cpu"),
        (0, "mps", "cpu"),
        (0, "gpu", "cpu"),
        (2, "cuda:2", "cpu, cuda:0, cuda:1"),
        (2, "", "cpu, cuda:0, cuda:1"),
    ],
)
def test_a_device_that_is_not_there_is_refused_in_one_sentence(machine, gpus, choice, have):
    machine(gpus)
    with pytest.raises(BadInputError) as refusal:
        devices_for(choice)
    assert str(refusal.value) == f"--device {choice}: this machine has {have}. Choose one of them, or auto."


@pytest.mark.parametrize(
    ("capability", "precision"), [((7, 5), "float32"), ((8, 0), "bfloat16"), ((9, 0), "bfloat16")]
)
def test_bfloat16_is_for_gpus_that_have_it_in_hardware(monkeypatch, capability, precision):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    assert precision_for("cuda:0", None) == precision
    assert precision_for("cuda:0", "float32") == "float32"


def test_a_cpu_computes_in_float32_unless_asked_otherwise():
    assert precision_for("cpu", None) == "float32"
    assert precision_for("cpu", "bfloat16") == "bfloat16"


# --- what a device could do ----------------------------------------------------------------------------------

# What NVIDIA states for bfloat16 without sparsity, accumulated in float32, in 1e12 operations per second.
STATED = {
    "NVIDIA GB200": 2500,
    "NVIDIA B200": 2250,
    "NVIDIA H200": 989,
    "NVIDIA H200 NVL": 836,
    "NVIDIA GH200 480GB": 989,
    "NVIDIA H100 80GB HBM3": 989,
    "NVIDIA H100 PCIe": 756,
    "NVIDIA H100 NVL": 835,
    "NVIDIA A100-SXM4-80GB": 312,
    "NVIDIA A100-SXM4-40GB": 312,
    "NVIDIA A100-PCIE-40GB": 312,
    "NVIDIA A100 80GB PCIe": 312,
    "NVIDIA A40": 149.7,
    "NVIDIA A10G": 70,
    "NVIDIA A10": 125,
    "NVIDIA L40S": 362,
    "NVIDIA L40": 181,
    "NVIDIA L4": 121,
    "NVIDIA GeForce RTX 5090": 209.5,
    "NVIDIA GeForce RTX 4090": 165.2,
    "NVIDIA GeForce RTX 3090": 71,
}


@pytest.mark.parametrize("name", STATED)
def test_peaks_are_those_of_the_data_sheets(name):
    assert peak_flops(name, "bfloat16") == pytest.approx(STATED[name] * 1e12, rel=5e-3)


@pytest.mark.parametrize(
    "name",
    [
        "Tesla T4",  # no bfloat16 in hardware
        "NVIDIA H20",
        "NVIDIA RTX A1000",  # no A100, and no A10
        "NVIDIA GeForce RTX 4090 Laptop GPU",
        "NVIDIA GeForce RTX 4090 D",
        "NVIDIA GeForce RTX 3090 Ti",
        "NVIDIA A100-SXM4-80GB MIG 1g.10gb",
        "NVIDIA L400",
        "AMD Instinct MI300X",
    ],
)
def test_no_peak_is_made_up_for_a_device_whose_name_only_looks_like_one(name):
    assert peak_flops(name, "bfloat16") is None


def test_no_peak_is_stated_for_float32_which_may_run_as_tf32_or_not():
    assert peak_flops("NVIDIA H100 80GB HBM3", "float32") is None


def test_a_gpu_is_described_by_its_name_and_peak(monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "NVIDIA L4")
    assert describe("cuda:1", "bfloat16") == {"type": "cuda", "name": "NVIDIA L4", "peak_flops": 121e12}


def test_a_cpu_is_described_by_its_threads():
    found = describe("cpu", "float32")
    assert (found["type"], found["threads"]) == ("cpu", torch.get_num_threads())
    assert found["name"]


# --- micro-batches -------------------------------------------------------------------------------------------


@given(st.integers(1, 10_000), st.integers(1, 10_000))
def test_micro_batches_add_up_fit_are_few_and_as_equal_as_can_be(batch, largest):
    sizes = micro_batch_sizes(batch, largest)
    assert sum(sizes) == batch
    assert max(sizes) <= largest
    assert min(sizes) >= 1
    assert max(sizes) - min(sizes) <= 1
    assert (len(sizes) - 1) * largest < batch  # one fewer would not do


@pytest.mark.parametrize(
    ("room", "most", "found"),
    [(100, 64, 64), (100, 300, 64), (100, 100, 100), (99, 100, 64), (3, 4096, 2), (1, 7, 1)],
)
def test_on_a_gpu_the_whole_batch_is_tried_then_powers_of_two(monkeypatch, room, most, found):
    tried = []

    def fits(model, seq_len, sequences, precision):
        tried.append(sequences)
        return sequences <= room

    monkeypatch.setattr(micro_batch, "_fits", fits)
    model = Model(SIZES, 8).to("meta")  # stands for a GPU: no memory is taken
    assert micro_batch.largest_micro_batch(model, 8, most, "float32") == found
    assert tried[0] == most
    assert all(size.bit_count() == 1 for size in tried[1:])


def test_a_model_that_fits_with_no_sequence_at_all_is_refused(monkeypatch):
    monkeypatch.setattr(micro_batch, "_fits", lambda *_: False)
    with pytest.raises(CannotAnswerError, match="out of memory with a single sequence"):
        micro_batch.largest_micro_batch(Model(SIZES, 8).to("meta"), 8, 100, "float32")


def test_running_out_of_memory_in_a_trial_is_an_answer_and_leaves_no_gradients(monkeypatch):
    """The second micro-batch of a step needs more than the first, whose gradients are there by then."""
    model = Model(SIZES, 8)

    def loss_of(sequences):
        with_gradients = model.embedding.weight.grad is not None
        if len(sequences) > (2 if with_gradients else 3):
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return Model.loss(model, sequences)

    monkeypatch.setattr(model, "loss", loss_of)
    for sequences, fits in ((4, False), (3, False), (2, True)):
        assert micro_batch._fits(model, 8, sequences, "float32") == fits
        assert all(parameter.grad is None for parameter in model.parameters())


@pytest.mark.parametrize(
    ("error", "is_memory"),
    [
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."), True),
        (MemoryError(), True),
        (
            RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate"),
            True,
        ),
        (RuntimeError("MPS backend out of memory (MPS allocated: 8 GB). Tried to allocate 2 GB"), True),
        (RuntimeError("mat1 and mat2 shapes cannot be multiplied"), False),
        (ValueError("out of memory"), False),
    ],
)
def test_every_device_says_in_its_own_way_that_memory_does_not_suffice(error, is_memory):
    assert ran_out_of_memory(error) == is_memory


@pytest.mark.parametrize("seq_len", [8, 1024, 100_000])
def test_on_a_cpu_a_micro_batch_is_never_more_than_the_batch_nor_nothing(seq_len):
    model = Model(SIZES, 8)
    found = [micro_batch.largest_micro_batch(model, seq_len, most, "float32") for most in (1, 2, 10**6)]
    assert found[0] == 1
    assert found[0] <= found[1] <= min(2, found[2])


# --- batches -------------------------------------------------------------------------------------------------


class NumberedData:
    """Every sequence holds its own number."""

    def sequences(self, seed: int, first: int, count: int) -> np.ndarray:
        return np.repeat(np.arange(first, first + count, dtype=np.int32)[:, None], 9, axis=1) + 1000 * seed


RECIPE = Recipe(
    architecture=SIZES,
    seq_len=8,
    batch_sequences=10,
    seed=3,
    lr=0.01,
    warmup_steps=1,
    steps=10,
    data={},
    val_tokens=8,
)


@pytest.mark.parametrize("micro_batch_sequences", [1, 3, 4, 10, 64])
@pytest.mark.parametrize("steps_done", [0, 7])
def test_batches_take_the_sequences_one_after_another_whatever_the_micro_batch(
    micro_batch_sequences, steps_done
):
    with Batches(NumberedData(), RECIPE, torch.device("cpu"), micro_batch_sequences, steps_done) as batches:
        for step in range(steps_done, steps_done + 3):
            shares, pieces = zip(*batches.next(), strict=True)
            assert sum(shares) == pytest.approx(1.0)
            assert [share * 10 for share in shares] == pytest.approx([len(piece) for piece in pieces])
            assert all(len(piece) <= micro_batch_sequences for piece in pieces)
            batch = torch.cat(pieces)
            assert batch.shape == (10, 9)
            assert batch.dtype == torch.int64
            assert batch[:, 0].tolist() == list(range(3000 + 10 * step, 3010 + 10 * step))


def test_a_batch_size_changes_where_batches_are_cut_and_not_what_comes():
    def first_forty(batch_sequences):
        recipe = replace(RECIPE, batch_sequences=batch_sequences)
        with Batches(NumberedData(), recipe, torch.device("cpu"), 4, 0) as batches:
            pieces = [piece for _ in range(40 // batch_sequences) for _, piece in batches.next()]
        return torch.cat(pieces)

    assert torch.equal(first_forty(5), first_forty(20))
