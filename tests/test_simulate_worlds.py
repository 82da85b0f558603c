"""The truth of simulated worlds, against what is found on their noise-free loss surfaces without knowing the law."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq, minimize_scalar

from ebfit.errors import BadInputError
from ebfit.laws import revised
from ebfit.simulate import PARAMETERS, WORLDS, World, draw_world

SEEDS = range(2)
EXACT = {
    "loss": 3.0,
    "loss_floor": 2.0,
    "b_opt": 1e5,
    "s_opt": 8e3,
    "batch_exponent": 1.4,
    "steps_exponent": 1.8,
    "m": 0.4,
    "u": 0.3,
    "v": 0.6,
    "w": 0.5,
}


def _loss(world, log_batch, log_steps):
    return float(world.loss(np.asarray(log_batch), np.asarray(log_steps)))


def _steps_to(world, loss, log_batch):
    """Log steps to a loss, by search on the loss surface."""
    middle = math.log(world.truth_at(loss).s_opt)
    return brentq(lambda log_s: _loss(world, log_batch, log_s) - loss, middle - 12, middle + 30, xtol=1e-12)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", WORLDS)
@pytest.mark.parametrize("above_floor", [0.4, 1.0, 1.8])
def test_the_truth_is_what_is_found_on_the_loss_surface(name, seed, above_floor):
    world = draw_world(name, seed)
    loss = world.loss_floor + above_floor * (world.parameters["loss"] - world.loss_floor)
    truth = world.truth_at(loss)
    near = math.log(truth.b_opt)

    # the fewest tokens to the loss, over all batch sizes that reach it
    fewest = minimize_scalar(
        lambda log_b: log_b + _steps_to(world, loss, log_b),
        bounds=(math.log(truth.b_min) + 1e-3, near + 5),
        method="bounded",
        options={"xatol": 1e-8},
    )
    assert fewest.x == pytest.approx(near, abs=2e-4)  # the minimum is flat
    assert fewest.fun == pytest.approx(math.log(truth.e_min), abs=1e-7)
    assert truth.e_min == pytest.approx(truth.b_opt * truth.s_opt, rel=1e-9)

    # the smallest batch that reaches it in next to infinitely many steps, and the fewest steps of next to infinite ones
    forever, huge = math.log(truth.s_opt) + 60, near + 60
    least = brentq(lambda log_b: _loss(world, log_b, forever) - loss, near - 8, near, xtol=1e-12)
    assert least == pytest.approx(math.log(truth.b_min), abs=1e-6)
    shortest = brentq(lambda log_s: _loss(world, huge, log_s) - loss, forever - 80, forever, xtol=1e-12)
    assert shortest == pytest.approx(math.log(truth.s_min), abs=1e-6)


def test_the_surface_is_the_sum_of_three_terms():
    beta, gamma, floor = 0.8, 0.5, 1.7
    world = World(
        "surface",
        {"loss": 2.9, "loss_floor": floor, "b_opt": 1e5, "s_opt": 6e3, "beta": beta, "gamma": gamma},
    )
    # at the minimum of B S on L, beta b B^-beta = gamma c S^-gamma
    b = 1.2 * gamma / (beta + gamma) * 1e5**beta
    c = 1.2 * beta / (beta + gamma) * 6e3**gamma
    batch = np.geomspace(1e3, 1e8, 30)[:, None]
    steps = np.geomspace(10, 1e6, 40)
    expected = floor + b * batch**-beta + c * steps**-gamma
    assert world.loss(np.log(batch), np.log(steps)) == pytest.approx(expected, rel=1e-11)


@pytest.mark.parametrize("loss", [2.3, 3.0, 4.5])
def test_the_level_sets_of_the_exact_world_are_the_revised_law(loss):
    """Steps come off the loss surface, tokens from the three pieces of E(S) as DESIGN 3.1 writes them."""
    world = World("exact", EXACT)
    truth = world.truth_at(loss)
    r2 = 1.0 + 2.0 * 0.3 * (1.0 / 0.4 - 1.0)
    pieces = {
        "s_min": 0.6 * 0.5 * truth.s_opt,
        "s_1": 0.6 * truth.s_opt,
        "s_opt": truth.s_opt,
        "s_2": r2 * truth.s_opt,
        "e_min": truth.e_min,
        "c": 0.4 / (2.0 * (r2 - 1.0)) * truth.e_min / truth.s_opt**2,
    }
    for log_batch in np.log(truth.b_min) + np.array([0.01, 0.2, 0.6, 1.0, 2.0, 5.0]):
        steps = math.exp(_steps_to(world, loss, log_batch))
        tokens = float(revised.tokens_at(pieces, np.asarray(steps)))
        assert tokens == pytest.approx(math.exp(log_batch) * steps, rel=1e-8)


@given(
    st.sampled_from(WORLDS),
    st.integers(0, 30),
    st.floats(6.0, 20.0),
    st.floats(1.0, 16.0),
    st.floats(1e-3, 3.0),
)
def test_more_steps_and_larger_batches_never_make_the_loss_worse(name, seed, log_batch, log_steps, more):
    world = draw_world(name, seed)
    here = _loss(world, log_batch, log_steps)
    assert here > world.loss_floor
    assert _loss(world, log_batch, log_steps + more) <= here
    assert _loss(world, log_batch + more, log_steps) <= here


@given(st.sampled_from(WORLDS), st.integers(0, 30), st.floats(0.2, 3.0), st.floats(0.01, 6.0))
def test_steps_to_a_loss_and_the_loss_after_steps_undo_each_other(name, seed, above_floor, above_b_min):
    world = draw_world(name, seed)
    loss = world.loss_floor + above_floor
    log_batch = math.log(world.truth_at(loss).b_min) + above_b_min
    log_steps = world.log_steps(loss, log_batch)
    assert _loss(world, log_batch, log_steps) == pytest.approx(loss, abs=1e-9)


@pytest.mark.parametrize("name", WORLDS)
def test_batches_up_to_b_min_never_reach_the_loss(name):
    world = draw_world(name, 5)
    truth = world.truth_at(world.parameters["loss"])
    log_batch = np.log(truth.b_min * np.array([0.2, 0.9, 0.999999, 1.000001, 1.1]))
    assert np.isfinite(world.log_steps(truth.loss, log_batch)).tolist() == [False, False, False, True, True]


@pytest.mark.parametrize("name", WORLDS)
def test_b_opt_and_b_min_grow_with_the_data_by_the_stated_power(name):
    world = draw_world(name, 2)
    early, late = (world.truth_at(world.loss_floor + excess) for excess in (1.3, 0.4))
    growth = late.e_min / early.e_min
    assert late.b_opt / early.b_opt == pytest.approx(growth**world.tokens_exponent, rel=1e-9)
    assert late.b_min / early.b_min == pytest.approx(growth**world.tokens_exponent, rel=1e-9)


@pytest.mark.parametrize("name", WORLDS)
def test_setting_a_parameter_leaves_the_others_as_they_were_drawn(name):
    drawn = dict(draw_world(name, 7).parameters)
    for key in set(PARAMETERS[name]) - {"loss"}:  # the floor is drawn below the loss
        value = 0.9 * drawn[key]
        assert draw_world(name, 7, parameters={key: value}).parameters == drawn | {key: value}


@pytest.mark.parametrize("name", WORLDS)
def test_worlds_are_drawn_for_the_targets_and_batch_sizes_that_are_given(name):
    for seed in range(20):
        world = draw_world(name, seed, targets=[1.4, 1.1], batch_tokens=[64, 128, 32768])
        assert 0.5 <= world.loss_floor < 1.1
        assert 64 < world.truth_at(1.25).b_opt < 32768


@pytest.mark.parametrize(
    ("name", "parameters", "says"),
    [
        ("exact", {"m": 1.0}, "m=1: must lie between 0 and 1"),
        ("exact", {"u": math.nan}, "u=nan"),
        ("exact", {"b_opt": -5.0}, "b_opt=-5"),
        ("exact", {"s_opt": math.inf}, "s_opt=inf"),
        ("exact", {"beta": 1.0}, "the world exact has no parameter 'beta'. It has loss, loss_floor"),
        ("surface", {"gamma": 1e-9}, "gamma=1e-09: must lie between 0.05 and 20"),
        ("neither", {"loss": 2.0, "loss_floor": 2.5}, "loss_floor=2.5 must lie below loss=2"),
        ("flat", {}, "there is no world 'flat'. Choose exact, surface, neither"),
    ],
)
def test_parameters_without_sense_are_refused(name, parameters, says):
    with pytest.raises(BadInputError) as error:
        draw_world(name, 0, parameters=parameters)
    assert says in str(error.value)


@pytest.mark.parametrize("loss", [2.0, 1.0, math.nan, math.inf])
def test_there_is_no_truth_where_no_run_ever_comes(loss):
    with pytest.raises(BadInputError, match="never reached"):
        World("exact", EXACT).truth_at(loss)
