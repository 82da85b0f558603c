"""Checkpoints: whole or none, whatever happened to the file."""

import pickle
import random
from dataclasses import asdict
from pathlib import Path

import pytest
import torch
from full_disk import disk_full_after, needs_limits

from ebfit.errors import BadInputError
from ebfit.sweep.checkpoint import Checkpoint


def _checkpoint(**changes) -> Checkpoint:
    weight = torch.randn(20, 30, generator=torch.Generator().manual_seed(0))
    moments = {"step": torch.tensor(7.0), "exp_avg": weight / 3}
    settings = {
        "key": "k",
        "step": 7,
        "decay_start_step": None,
        "why_done": "all steps done",
        "seconds": 1.25,
        "model": {"weight": weight, "gain": torch.ones(3)},
        "optimizer": {
            "state": {0: moments},
            "param_groups": [{"lr": 0.1, "betas": (0.9, 0.95), "params": [0]}],
        },
        "unlogged": [(2.5, 0.3)],
        "validations": [(1, 5.5), (4, 1 / 3)],
    }
    return Checkpoint(**settings | changes)


@pytest.fixture
def saved(tmp_path) -> Path:
    """A checkpoint in a file."""
    path = tmp_path / ".checkpoint.pt"
    _checkpoint().save(path)
    return path


def _plain(value):
    """Tensors as numbers, which can be compared."""
    if isinstance(value, torch.Tensor):
        return str(value.dtype), value.tolist()
    return {key: _plain(inner) for key, inner in value.items()} if isinstance(value, dict) else value


def _assert_same(found: Checkpoint | None, expected: Checkpoint) -> None:
    assert found is not None
    assert _plain(asdict(found)) == _plain(asdict(expected))


def test_a_checkpoint_comes_back_to_the_last_bit(saved):
    _assert_same(Checkpoint.load(saved, "k"), _checkpoint())


def test_a_checkpoint_of_another_recipe_is_none(saved):
    assert Checkpoint.load(saved, "other") is None


def test_no_checkpoint_is_none(tmp_path):
    assert Checkpoint.load(tmp_path / "none", "k") is None
    assert Checkpoint.load(tmp_path, "k") is None


def test_a_checkpoint_damaged_anywhere_is_none_or_unharmed(saved):
    """torch itself does not look at its checksums: it loads other weights without a word."""
    whole = saved.read_bytes()
    rng = random.Random(0)
    refused = 0
    for _ in range(60):
        damaged = bytearray(whole)
        damaged[rng.randrange(len(whole))] ^= 1 << rng.randrange(8)
        saved.write_bytes(damaged)
        found = Checkpoint.load(saved, "k")
        refused += found is None
        if found is not None:  # a bit of padding, or of a date
            _assert_same(found, _checkpoint())
    assert refused > 30


@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 0.99])
def test_a_checkpoint_cut_short_is_none(saved, share):
    whole = saved.read_bytes()
    saved.write_bytes(whole[: int(share * len(whole))])
    assert Checkpoint.load(saved, "k") is None


class Bomb:
    """Runs code when it is unpickled."""

    def __init__(self, crater: Path) -> None:
        self.crater = crater

    def __reduce__(self):
        return Path.touch, (self.crater,)


@pytest.mark.parametrize("write", [pickle.dump, torch.save], ids=["a bare pickle", "a file of torch"])
@pytest.mark.parametrize("inside", [False, True], ids=["as a whole", "inside"])
def test_code_in_a_checkpoint_is_not_executed(tmp_path, write, inside):
    crater, path = tmp_path / "crater", tmp_path / ".checkpoint.pt"
    bomb = Bomb(crater)
    with path.open("wb") as file:
        write(asdict(_checkpoint()) | {"why_done": bomb} if inside else bomb, file)
    assert Checkpoint.load(path, "k") is None
    assert not crater.exists()


@pytest.mark.parametrize("content", [{"key": "k"}, ["k"], {"weight": torch.ones(2)}, None])
def test_a_file_of_torch_that_holds_something_else_is_none(tmp_path, content):
    torch.save(content, tmp_path / ".checkpoint.pt")
    assert Checkpoint.load(tmp_path / ".checkpoint.pt", "k") is None


@needs_limits
def test_a_checkpoint_that_cannot_be_written_leaves_the_one_before(saved):
    with disk_full_after(1000), pytest.raises(BadInputError, match=r"\.checkpoint\.pt: cannot be written"):
        _checkpoint(step=8).save(saved)
    _assert_same(Checkpoint.load(saved, "k"), _checkpoint())
    assert list(saved.parent.iterdir()) == [saved]


def test_a_new_checkpoint_takes_the_place_of_the_one_before(saved):
    _checkpoint(step=8).save(saved)
    _assert_same(Checkpoint.load(saved, "k"), _checkpoint(step=8))
    assert list(saved.parent.iterdir()) == [saved]
