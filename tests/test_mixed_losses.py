"""Losses of one fit in different units are named; batch sizes, learning rates, seeds and late logs are no units."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sweeps import NEW_MODEL, cut, run_of, sweep, with_loss

from ebfit.mixed.losses import mixed_loss_units
from ebfit.runs import read_runs

SAMPLE_RUNS = Path(__file__).parent.parent / "sample_runs"


@pytest.fixture(scope="module")
def sample_runs():
    return read_runs([SAMPLE_RUNS])


def _scaled(runs, names, factor: float):
    return [with_loss(run, factor * run.train.loss) if run.name in names else run for run in runs]


# --- sweeps in one unit ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["train", "val"])
@pytest.mark.parametrize("first_step", [1, 10, 30, 100, 300])
def test_the_sample_runs_are_in_one_unit(sample_runs, kind, first_step: int):
    """Also those with a decay, and wherever their logs begin."""
    assert mixed_loss_units([cut(run, first_step) for run in sample_runs], kind) == []


@pytest.mark.parametrize("first_step", [1, 50, 1000])
def test_batch_sizes_over_three_decades_and_seeds_are_no_units(first_step: int):
    assert mixed_loss_units(sweep(seeds=3, first_step=first_step), "train") == []


@pytest.mark.parametrize("first_step", [1, 50, 1000])
def test_learning_rates_that_differ_by_eight_are_no_units(first_step: int):
    runs = [
        run
        for lr in (0.00125, 0.0025, 0.005, 0.01)
        for run in sweep(lr=lr, speed=lr / 0.01, first_step=first_step)
    ]
    assert mixed_loss_units(runs, "train") == []


def test_runs_of_equal_tokens_are_no_units():
    """Those of large batches end after few steps, where those of small ones have hardly begun."""
    runs = [
        run_of(size, last_step=max(40_000_000 // size, 60)) for size in (512, 2048, 8192, 32_768, 131_072)
    ]
    assert mixed_loss_units(runs, "train") == []


@pytest.mark.parametrize("first_step", [1, 200])
def test_a_run_that_diverged_or_never_learned_is_in_no_other_unit(first_step: int):
    runs = sweep(first_step=first_step)
    loss = runs[4].train.loss.copy()
    loss[40:] = 1.3 * NEW_MODEL
    stuck = np.full(len(loss), NEW_MODEL)
    assert mixed_loss_units([*runs[:4], with_loss(runs[4], loss), *runs[5:]], "train") == []
    assert mixed_loss_units([*runs[:4], with_loss(runs[4], stuck), *runs[5:]], "train") == []


def test_a_run_that_only_begins_high_is_no_multiple():
    runs = sweep()
    loss = runs[3].train.loss.copy()
    loss[:5] *= 2
    assert mixed_loss_units([*runs[:3], with_loss(runs[3], loss), *runs[4:]], "train") == []


def test_runs_that_all_count_bits_per_byte_are_in_one_unit():
    runs = [with_loss(run, 0.33 * run.train.loss, "train_bpb") for run in sweep()]
    assert mixed_loss_units(runs, "train") == []


def test_models_and_data_that_differ_are_not_compared():
    runs = sweep(model="small", data="c4")
    for other in ({"model": "large"}, {"data": "code"}):
        odd = replace(with_loss(runs[4], 0.5 * runs[4].train.loss), **other)
        assert mixed_loss_units([*runs[:4], odd, *runs[5:]], "train") == []


def test_two_runs_are_too_few_to_say_which_is_odd():
    runs = sweep([1024, 2048])
    assert mixed_loss_units(_scaled(runs, {runs[0].name}, 8.0), "train") == []


# --- units that differ -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("first_step", [1, 100])
@pytest.mark.parametrize(
    ("factor", "said"),
    [
        (
            2.0,
            "2 times those of the other runs from beginning to end: they seem to be logged as a sum over accumu",
        ),
        (
            8.0,
            "8 times those of the other runs from beginning to end: they seem to be logged as a sum over accumu",
        ),
        (1 / np.log(2), "from beginning to end: as losses in bits are of those in nats."),
        (np.log(2), "from beginning to end: as losses in nats are of those in bits."),
        (0.36, "from beginning to end: they may be per byte, not per token."),
        (1 / 0.36, "from beginning to end: those of the others may be per byte, not per token."),
        (
            0.25,
            "those of the others seem to be logged as a sum over accumulation steps, or they may be per byte",
        ),
    ],
)
def test_a_factor_is_named_with_what_makes_it(factor: float, said: str, first_step: int):
    runs = sweep(first_step=first_step)
    for odd in (runs[0], runs[4], runs[-1]):
        (sentence,) = mixed_loss_units(_scaled(runs, {odd.name}, factor), "train")
        assert sentence.startswith(f"the train losses of {odd.name} are ")
        assert said in sentence
        assert sentence.endswith("Convert them to one unit, or leave these runs out.")
        shown = float(sentence.split(" times ")[0].rsplit(" ", 1)[1])
        assert shown == pytest.approx(factor, rel=0.1)


def test_the_fewer_runs_are_named_wherever_in_the_sweep_they_lie():
    runs = sweep(seeds=2)
    for odd in (runs[:8], runs[12:], runs[::5], runs[6:10]):
        names = {run.name for run in odd}
        (sentence,) = mixed_loss_units(_scaled(runs, names, 0.33), "train")
        assert odd[0].name in sentence
        assert not any(run.name in sentence for run in runs if run.name not in names)


def test_the_order_of_runs_changes_nothing(sample_runs):
    runs = _scaled(sample_runs, {run.name for run in sample_runs[3:9]}, 1 / np.log(2))
    assert mixed_loss_units(runs, "train") == mixed_loss_units(runs[::-1], "train") != []


def test_a_factor_shows_in_real_runs_of_either_loss(sample_runs):
    odd = sample_runs[11]
    for kind in ("train", "val"):
        curve = replace(odd.curve(kind), loss=0.33 * odd.curve(kind).loss)
        runs = [replace(run, **{kind: curve}) if run is odd else run for run in sample_runs]
        (sentence,) = mixed_loss_units(runs, kind)
        assert odd.name in sentence
        assert "0.33" in sentence


@pytest.mark.parametrize("first_step", [1, 100])
def test_perplexities_are_told_from_losses(first_step: int):
    runs = sweep(first_step=first_step)
    odd = {runs[2].name, runs[5].name}
    perplexities = [with_loss(run, np.exp(run.train.loss)) for run in runs]
    (one,) = mixed_loss_units(
        [p if run.name in odd else run for run, p in zip(runs, perplexities, strict=True)], "train"
    )
    assert one.startswith(
        f"the train losses of {runs[2].name}, {runs[5].name} are about e to the power of those"
    )
    (other,) = mixed_loss_units(
        [run if run.name in odd else p for run, p in zip(runs, perplexities, strict=True)], "train"
    )
    assert other.startswith(
        f"the train losses of {runs[2].name}, {runs[5].name} are about the logarithm of those"
    )


@pytest.mark.parametrize(
    ("column", "unit"),
    [("val/bpb", "bits per byte"), ("valPPL ppl", "perplexities"), ("eval_bits_per_token", "bits per token")],
)
def test_columns_of_another_unit_are_named(column: str, unit: str):
    runs = sweep()
    odd = with_loss(runs[4], runs[4].train.loss, column)
    (sentence,) = mixed_loss_units([*runs[:4], odd, *runs[5:]], "train")
    assert sentence.startswith(
        f"by the names of their columns the train losses of {odd.name} are {unit}, those of {runs[0].name}, "
    )
    assert "--columns" in sentence
