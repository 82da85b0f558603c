"""What happens at which step of a run: learning rate, update, validation, and an early end."""

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from strategies import between
from torch import nn

from ebfit.sweep.architecture import Architecture
from ebfit.sweep.evaluation import Validation, evaluation_steps
from ebfit.sweep.learning_rate import WarmupStableDecay
from ebfit.sweep.model import Model
from ebfit.sweep.optimizer import make_optimizer
from ebfit.sweep.recipe import Optimizer
from ebfit.sweep.stopping import reason_to_stop

# --- learning rate -------------------------------------------------------------------------------------------


@st.composite
def _schedules(draw: st.DrawFn) -> WarmupStableDecay:
    warmup = draw(st.integers(0, 200))
    return WarmupStableDecay(
        lr=draw(between(1e-5, 1.0)),
        warmup_steps=warmup,
        decay_start_step=warmup + draw(st.integers(1, 200)),
        decay_steps=draw(st.integers(1, 200)),
        decay_shape=draw(st.sampled_from(["linear", "1-sqrt"])),
    )


@given(_schedules())
def test_the_rate_rises_stays_and_falls_and_is_never_above_its_full_value_nor_zero(schedule):
    warmup, stable = schedule.warmup_steps, schedule.decay_start_step
    rates = np.array([schedule.at(step) for step in range(1, stable + schedule.decay_steps + 1)])
    assert np.all(rates > 0)
    assert np.all(np.diff(rates[:warmup]) > 0)
    # To the last bit, from the last step of the warmup on: readers of logs tell the stable phase by it.
    assert np.all(rates[max(warmup - 1, 0) : stable] == schedule.lr)
    assert np.all(np.diff(rates[stable - 1 :]) < 0)


@given(_schedules())
def test_the_warmup_rises_by_equal_steps_from_zero(schedule):
    rates = [schedule.at(step) for step in range(1, schedule.warmup_steps + 1)]
    rises = np.diff([0.0, *rates])
    np.testing.assert_allclose(rises, schedule.lr / max(schedule.warmup_steps, 1), rtol=1e-9)


@given(_schedules())
def test_the_step_after_the_last_would_be_taken_with_nothing(schedule):
    assert schedule.at(schedule.decay_start_step + schedule.decay_steps + 1) == 0


@given(_schedules(), st.integers(1, 10**7))
def test_without_a_decay_the_rate_never_falls(schedule, later):
    endless = WarmupStableDecay(schedule.lr, schedule.warmup_steps)
    assert endless.at(schedule.warmup_steps + later) == schedule.lr


@pytest.mark.parametrize(
    ("shape", "shares"),
    [("linear", (0.75, 0.5, 0.25)), ("1-sqrt", (0.5, 1 - math.sqrt(0.5), 1 - math.sqrt(0.75)))],
)
def test_both_shapes_at_a_quarter_half_and_three_quarters_of_the_decay(shape, shares):
    schedule = WarmupStableDecay(0.02, 10, decay_start_step=100, decay_steps=39, decay_shape=shape)
    assert [schedule.at(step) for step in (110, 120, 130)] == pytest.approx(
        [0.02 * share for share in shares]
    )


# --- optimizer -----------------------------------------------------------------------------------------------


def test_updates_are_those_of_adamw_and_gains_are_not_decayed():
    """arXiv 1711.05101, algorithm 2, with the schedule multiplier in the learning rate."""
    settings = Optimizer(beta1=0.8, beta2=0.9, eps=1e-3, weight_decay=0.3)
    rng = np.random.default_rng(0)
    expected = {"matrix": rng.normal(size=(3, 4)), "gain": rng.normal(size=5)}
    decays = {"matrix": 0.3, "gain": 0.0}
    trained = {
        name: nn.Parameter(torch.tensor(value, dtype=torch.float32)) for name, value in expected.items()
    }
    optimizer = make_optimizer(trained.values(), settings)
    first = {name: np.zeros_like(value) for name, value in expected.items()}
    second = {name: np.zeros_like(value) for name, value in expected.items()}
    for step in range(1, 7):
        lr = 0.1 / step
        for group in optimizer.param_groups:
            group["lr"] = lr
        for name, value in expected.items():
            gradient = rng.normal(size=value.shape)
            trained[name].grad = torch.tensor(gradient, dtype=torch.float32)
            first[name] = 0.8 * first[name] + 0.2 * gradient
            second[name] = 0.9 * second[name] + 0.1 * gradient**2
            unbiased = first[name] / (1 - 0.8**step), second[name] / (1 - 0.9**step)
            expected[name] = value * (1 - lr * decays[name]) - lr * unbiased[0] / (
                np.sqrt(unbiased[1]) + 1e-3
            )
        optimizer.step()
    for name, value in expected.items():
        np.testing.assert_allclose(trained[name].detach(), value, atol=1e-6)


def test_every_parameter_of_a_model_is_updated_once_and_all_but_gains_decayed():
    sizes = Architecture(n_layer=2, d_model=16, n_head=2, n_kv_head=1, d_ff=16, qk_norm=True)
    model = Model(sizes, 8)
    decayed, kept = make_optimizer(model.parameters(), Optimizer(weight_decay=0.1)).param_groups
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    found = [names[id(p)] for group in (decayed, kept) for p in group["params"]]
    assert sorted(found) == sorted(names.values())
    assert decayed["weight_decay"] == 0.1
    assert kept["weight_decay"] == 0
    assert all(names[id(p)].endswith("gain") for p in kept["params"])
    assert not any(names[id(p)].endswith("gain") for p in decayed["params"])


# --- validation ----------------------------------------------------------------------------------------------

STEP_GRIDS = st.integers(0, 2000), st.integers(1, 100_000), st.integers(1, 32)


@given(*STEP_GRIDS)
def test_validation_comes_after_the_first_step_and_the_last_and_in_order(warmup, last, per_doubling):
    steps = evaluation_steps(warmup, last, per_doubling)
    assert steps[0] == 1
    assert steps[-1] == last
    assert np.all(np.diff(steps) > 0)


@given(*STEP_GRIDS, st.integers(1, 100_000))
def test_a_longer_run_is_validated_where_a_shorter_one_is(warmup, last, per_doubling, more):
    """So that curves of runs of different lengths can be compared, and an early end moves nothing."""
    short = evaluation_steps(warmup, last, per_doubling)
    long = evaluation_steps(warmup, last + more, per_doubling)
    assert set(short) - {last} <= set(long)
    assert set(long[long < last]) <= set(short)


@given(*STEP_GRIDS)
def test_validations_lie_evenly_over_the_logarithm_of_the_step(warmup, last, per_doubling):
    steps = evaluation_steps(warmup, last, per_doubling)
    ratio = 2 ** (1 / per_doubling)
    for before, after in itertools.pairwise(steps[:-1]):
        if before > warmup:  # a step has to be a whole number
            assert before * ratio - 1.5 <= after <= before * ratio + 1.5


def test_the_step_number_doubles_in_as_many_validations_as_were_asked_for():
    steps = evaluation_steps(warmup_steps=100, last_step=2**16, per_doubling=16)
    for start in (256, 1024, 3000, 2**15):
        assert np.sum((steps > start) & (steps <= 2 * start)) == 16


def test_validations_in_the_warmup_are_few():
    steps = evaluation_steps(warmup_steps=1000, last_step=5000, per_doubling=16)
    assert steps[steps <= 1000].tolist() == [
        1,
        2,
        3,
        4,
        6,
        8,
        11,
        16,
        23,
        32,
        45,
        64,
        91,
        128,
        181,
        256,
        362,
        512,
        724,
    ]


@pytest.mark.parametrize("micro_batch", [1, 3, 4, 10, 99])
def test_validation_loss_is_the_mean_over_all_sequences_whatever_the_micro_batch(micro_batch):
    losses = np.array([1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0])
    sequences = np.repeat(np.arange(10, dtype=np.int32)[:, None], 5, axis=1)
    taken = []

    def loss_of(piece):
        assert piece.dtype == torch.int64
        taken.append(len(piece))
        return torch.tensor(losses[piece[:, 0]].mean())

    validation = Validation(sequences, torch.device("cpu"), micro_batch)
    assert validation.loss(loss_of, "float32") == pytest.approx(losses.mean(), rel=1e-6)
    assert max(taken) <= micro_batch


def test_validation_keeps_no_gradients_and_runs_in_the_given_precision():
    model = Model(Architecture(n_layer=1, d_model=16, n_head=2, n_kv_head=2, d_ff=16), 8)
    model.initialise(0)
    validation = Validation(np.ones((4, 9), dtype=np.int32), torch.device("cpu"), 2)
    seen = []

    def loss_of(sequences):
        loss = model.loss(sequences)
        seen.append((loss.requires_grad, model(sequences[:, :-1]).dtype))
        return loss

    validation.loss(loss_of, torch.autocast("cpu", torch.bfloat16))
    assert seen == [(False, torch.bfloat16)] * 2


# --- an early end --------------------------------------------------------------------------------------------

WARMUP = 50
LAST = 20_000


def _stops_at(curve, noise=0.0, seed=0, warmup=WARMUP, last=LAST, until_loss=None, when_level=True):
    """Follow a run whose validation loss is the curve and noise; return where it stops, and why."""
    rng = np.random.default_rng(seed)
    validations: list[tuple[int, float]] = []
    for step in evaluation_steps(warmup, last, 16).tolist():
        validations.append((step, float(curve(step)) + noise * rng.standard_normal()))
        reason = reason_to_stop(validations, warmup, until_loss, when_level)
        if reason is not None:
            return step, reason
    return None, None


@pytest.mark.parametrize("seed", range(20))
def test_a_curve_that_still_falls_by_a_twentieth_per_doubling_goes_on(seed):
    alpha = 0.1
    size = 0.05 / (LAST**-alpha * (1 - 2**-alpha))  # the last doubling would bring 0.05 nats
    assert _stops_at(lambda step: 1.5 + size * step**-alpha, noise=0.02, seed=seed) == (None, None)


@pytest.mark.parametrize("seed", range(20))
def test_a_curve_at_its_floor_stops_soon(seed):
    floor_from = 500
    step, reason = _stops_at(lambda step: 2.0 + max(0.0, np.log(floor_from / step)), noise=0.02, seed=seed)
    # The floor must fill the stretch that is looked at; noise may ask for a second one.
    assert 4 * floor_from < step <= 16 * floor_from
    assert reason == "levelled off"


def test_a_curve_at_its_floor_goes_on_where_that_was_asked_for():
    assert _stops_at(lambda step: 2.0, noise=0.02, when_level=False) == (None, None)


@pytest.mark.parametrize("noise", [0.0, 0.02])
def test_a_plateau_before_training_takes_hold_is_no_floor(noise):
    def curve(step):
        return 5.5 - max(0.0, 0.3 * np.log2(step / (20 * WARMUP)))

    assert _stops_at(curve, noise=noise) == (None, None)


def test_too_few_validations_tell_of_no_floor():
    validations = [(step, 2.0) for step in (1, 10, 100, 1000, 5000, 10_000, 12_000, 15_000, 20_000)]
    assert reason_to_stop(validations, 1, None, stop_when_level=True) is None


def test_a_run_stops_once_the_mean_of_four_losses_is_below_the_one_asked_for():
    losses = [3.0, 2.1, 1.8, 2.3, 2.1, 1.7, 1.8, 1.6]  # means of four: 2.3, 2.075, 1.975
    validations = [(100 + step, loss) for step, loss in enumerate(losses)]
    reasons = [reason_to_stop(validations[:count], 50, 2.0, False) for count in range(1, len(losses) + 1)]
    assert reasons == [None] * 5 + ["loss < 2"] * 3


def test_three_losses_are_no_mean_of_four_and_those_of_the_warmup_do_not_count():
    low = [(step, 1.0) for step in (10, 20, 30, 40, 51, 52, 53)]
    assert reason_to_stop(low, 50, 2.0, False) is None
    assert reason_to_stop([*low, (54, 1.0)], 50, 2.0, False) == "loss < 2"


def test_a_run_without_validations_goes_on():
    assert reason_to_stop([], 0, 2.0, True) is None


def test_without_a_warmup_a_floor_is_still_not_believed_at_once():
    step, _ = _stops_at(lambda step: 2.0, warmup=0)
    assert step is not None
    assert step >= 80
