"""From a loss curve to steps at a target: against curves whose crossings are known."""

import numpy as np
import pytest
from hypothesis import given, settings
from strategies import between

from ebfit import crossings

FLOOR, SCALE, EXPONENT = 1.5, 6.0, 0.35  # loss = FLOOR + SCALE * step^-EXPONENT
TARGETS = [2.6, 2.5, 2.3, 2.15]
GRIDS = {
    "thinning": np.unique(np.round(np.geomspace(100, 20_000, 200))),
    "every 10": np.arange(100.0, 20_001.0, 10.0),
    "few rows": np.unique(np.round(np.geomspace(100, 20_000, 60))),
}


def _loss(steps):
    return FLOOR + SCALE * steps**-EXPONENT


def _log_steps_at(targets):
    return -np.log((np.array(targets) - FLOOR) / SCALE) / EXPONENT


def _cross(steps, loss, targets=TARGETS):
    return crossings.find(crossings.smooth(steps, loss), targets)


def _se(found):
    return np.sqrt(np.diag(found.covariance))


# --- known answers -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("steps", GRIDS.values(), ids=GRIDS)
def test_a_curve_without_noise_is_crossed_where_it_is(steps):
    found = _cross(steps, _loss(steps))
    assert found.outcome == ("reached",) * 4
    np.testing.assert_allclose(found.log_steps, _log_steps_at(TARGETS), atol=1e-3)


@settings(max_examples=15)
@given(between(0.15, 0.8), between(0.5, 3.0), between(50.0, 2000.0))
def test_any_smooth_curve_is_crossed_where_it_is(exponent, floor, start):
    steps = np.unique(np.round(np.geomspace(start, 100 * start, 150)))
    loss = floor + (steps / start) ** -exponent
    at = np.log(start) + np.log(100.0) * np.array([0.2, 0.5, 0.8])
    found = _cross(steps, loss, list(np.interp(at, np.log(steps), loss)))
    np.testing.assert_allclose(found.log_steps, at, atol=2e-3)


def test_the_end_of_warmup_does_not_blur_a_crossing():
    # seven times as steep before step 300: a bend, as curves have where the learning rate stops rising
    steps = GRIDS["thinning"]
    loss = np.where(steps < 300, _loss(300.0) + 2.0 * np.log(300.0 / steps), _loss(steps))
    rng = np.random.default_rng(0)
    found = _cross(steps, loss + 0.005 * rng.standard_normal(len(steps)), [2.6, 2.4, 2.25])
    before = np.log(300.0) - (np.array([2.6, 2.4]) - _loss(300.0)) / 2.0
    np.testing.assert_allclose(found.log_steps, [*before, *_log_steps_at([2.25])], atol=0.02)


# --- errors --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["thinning", "every 10"])
def test_errors_are_as_large_as_they_are_said_to_be(name):
    steps, truth = GRIDS[name], _log_steps_at(TARGETS)
    standardised = []
    for seed in range(15):
        noise = 0.03 * np.random.default_rng(seed).standard_normal(len(steps))
        found = _cross(steps, _loss(steps) + noise)
        standardised.append((found.log_steps - truth) / _se(found))
    z = np.array(standardised)
    assert 0.75 < z.std() < 1.35
    assert np.all(np.abs(z.mean(axis=0)) < 1.0)
    assert np.mean(np.abs(z) < 2.0) > 0.88


def test_more_noise_and_fewer_rows_are_larger_errors():
    def typical(steps, noise):
        draws = [noise * np.random.default_rng(seed).standard_normal(len(steps)) for seed in range(4)]
        return np.median([_se(_cross(steps, _loss(steps) + draw, [2.15])) for draw in draws])

    often, seldom = np.arange(100.0, 20_001.0, 5.0), np.arange(100.0, 20_001.0, 80.0)
    assert 2.0 < typical(often, 0.1) / typical(often, 0.03) < 6.0
    assert typical(often, 0.03) < 0.6 * typical(seldom, 0.03)


def test_noise_that_wanders_is_a_larger_error_than_noise_that_does_not():
    steps = GRIDS["thinning"]
    ratios = []
    for seed in range(8):
        white = np.random.default_rng(seed).standard_normal(len(steps) + 4)
        wander = np.convolve(white, np.ones(5), mode="valid") / np.sqrt(5.0)
        ratios.append(
            _se(_cross(steps, _loss(steps) + 0.03 * wander))
            / _se(_cross(steps, _loss(steps) + 0.03 * white[4:]))
        )
    assert np.median(ratios) > 1.25


def test_the_covariance_is_one_and_neighbours_err_together():
    steps = GRIDS["thinning"]
    targets = [2.5, 2.48, 2.15]
    errors, claimed = [], []
    for seed in range(20):
        noise = 0.03 * np.random.default_rng(100 + seed).standard_normal(len(steps))
        found = _cross(steps, _loss(steps) + noise, targets)
        np.testing.assert_allclose(found.covariance, found.covariance.T, rtol=1e-12)
        assert np.linalg.eigvalsh(found.covariance).min() >= -1e-12 * np.trace(found.covariance)
        se = _se(found)
        errors.append(found.log_steps)
        claimed.append((found.covariance / np.outer(se, se))[0])
    neighbour, far = np.mean(claimed, axis=0)[1:]
    actual = np.corrcoef(np.array(errors).T)[0]
    assert neighbour > 0.6
    assert abs(far) < 0.3
    assert neighbour == pytest.approx(actual[1], abs=0.3)


# --- what is sustained, and what is not ------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["thinning", "every 10"])
@pytest.mark.parametrize("height", [5.0, -5.0], ids=["spike", "hole"])
def test_a_narrow_spike_moves_no_crossing(name, height):
    steps = GRIDS[name]
    noise = 0.01 * np.random.default_rng(4).standard_normal(len(steps))
    clean = _cross(steps, _loss(steps) + noise)
    for target in (1, 2, 3):
        place = int(np.argmin(np.abs(np.log(steps) - clean.log_steps[target])))
        spiked = _loss(steps) + noise
        spiked[place : place + 2] += height
        found = _cross(steps, spiked)
        assert found.outcome[target] == "reached"
        assert abs(found.log_steps[target] - clean.log_steps[target]) < _se(clean)[target]


def test_a_dip_below_the_target_that_does_not_last_does_not_count():
    steps = GRIDS["thinning"]
    log_steps = np.log(steps)
    truth = _log_steps_at([2.3])[0]
    # the curve comes down to the target a whole unit of log step too early, and goes back up
    dip = np.where(np.abs(log_steps - (truth - 1.0)) < 0.08, 2.28 - _loss(steps), 0.0)
    assert np.any(_loss(steps) + dip < 2.3)
    found = _cross(steps, _loss(steps) + dip, [2.3])
    assert found.outcome == ("reached",)
    assert abs(found.log_steps[0] - truth) < 0.15


def test_a_curve_that_hovers_crosses_in_the_middle_of_its_hovering_and_not_at_its_first_touch():
    steps = GRIDS["every 10"]
    noise = 0.1 * np.random.default_rng(8).standard_normal(len(steps))
    first_touch = np.log(steps[np.argmax(_loss(steps) + noise <= 2.0)])
    truth = _log_steps_at([2.0])[0]
    found = _cross(steps, _loss(steps) + noise, [2.0])
    assert first_touch < truth - 0.3
    assert abs(found.log_steps[0] - truth) < 0.15


def test_a_diverging_run_is_cut_where_it_turns():
    steps = GRIDS["thinning"]
    loss = _loss(steps) + 0.005 * np.random.default_rng(5).standard_normal(len(steps))
    turn = 120
    loss[turn:] = loss[turn] + np.linspace(0.2, 4.0, len(steps) - turn)
    curve = crossings.smooth(steps, loss)
    assert steps[turn - 25] <= curve.diverged_after <= steps[turn + 10]
    assert crossings.find(curve, [2.1]).log_steps[0] == pytest.approx(_log_steps_at([2.1])[0], abs=0.03)
    # without the turn it would have come to 1.75: all that is known is that it had not come there before
    found = crossings.find(curve, [1.75])
    assert found.outcome == ("censored",)
    assert found.log_steps[0] == pytest.approx(np.log(curve.diverged_after), abs=1e-9)


def test_a_sound_run_has_not_diverged():
    steps = GRIDS["thinning"]
    loss = _loss(steps) + 0.1 * np.random.default_rng(6).standard_normal(len(steps))
    loss[150:153] += 3.0
    assert crossings.smooth(steps, loss).diverged_after is None


# --- outcomes ------------------------------------------------------------------------------------------------


def test_above_the_end_below_the_start_and_between():
    steps = GRIDS["thinning"]
    found = _cross(steps, _loss(steps), [2.3, 1.6, 3.5])
    assert found.outcome == ("reached", "censored", "before_start")
    assert found.log_steps[0] == pytest.approx(_log_steps_at([2.3])[0], abs=1e-3)
    assert found.log_steps[1] == pytest.approx(np.log(steps[-1]), abs=1e-9)
    assert np.isnan(found.log_steps[2])
    assert np.count_nonzero(found.covariance[1:]) == np.count_nonzero(found.covariance[:, 1:]) == 0


def test_the_last_step_looked_at_is_that_of_the_log_even_where_rows_are_averaged():
    steps = np.arange(1000.0, 2001.0)
    found = _cross(steps, _loss(steps), [1.6])
    assert found.log_steps[0] == pytest.approx(np.log(2000.0), abs=3e-3)


def test_targets_are_taken_in_any_order():
    steps = GRIDS["thinning"]
    loss = _loss(steps) + 0.03 * np.random.default_rng(1).standard_normal(len(steps))
    falling, rising = _cross(steps, loss), _cross(steps, loss, TARGETS[::-1])
    np.testing.assert_array_equal(falling.log_steps, rising.log_steps[::-1])
    np.testing.assert_allclose(falling.covariance, rising.covariance[::-1, ::-1], rtol=1e-9)


def test_a_level_curve_that_never_gets_there_is_censored():
    steps = GRIDS["thinning"]
    found = _cross(steps, np.full(len(steps), 3.0), [2.5])
    assert found.outcome == ("censored",)


def test_five_rows_are_enough_and_four_are_not():
    steps = np.array([100.0, 200.0, 400.0, 800.0, 1600.0])
    found = _cross(steps, _loss(steps), [2.3])
    assert found.log_steps[0] == pytest.approx(_log_steps_at([2.3])[0], abs=0.1)
    with pytest.raises(ValueError, match="5 are needed"):
        crossings.smooth(steps[:4], _loss(steps[:4]))


# --- invariances ---------------------------------------------------------------------------------------------


@settings(max_examples=5)
@given(between(0.01, 1000.0))
def test_scaling_steps_shifts_log_crossings(factor):
    steps = GRIDS["thinning"]
    loss = _loss(steps) + 0.02 * np.random.default_rng(2).standard_normal(len(steps))
    one, scaled = _cross(steps, loss), _cross(steps * factor, loss)
    np.testing.assert_allclose(scaled.log_steps, one.log_steps + np.log(factor), atol=1e-7)
    np.testing.assert_allclose(scaled.covariance, one.covariance, rtol=1e-5)


@settings(max_examples=5)
@given(between(0.1, 10.0), between(-5.0, 5.0))
def test_the_unit_and_the_zero_of_loss_do_not_matter(unit, zero):
    steps = GRIDS["thinning"]
    loss = _loss(steps) + 0.02 * np.random.default_rng(2).standard_normal(len(steps))
    # not the threshold for divergence, which is in nats and does not act here
    one, other = _cross(steps, loss), _cross(steps, unit * loss + zero, [unit * t + zero for t in TARGETS])
    np.testing.assert_allclose(other.log_steps, one.log_steps, atol=1e-6)
    np.testing.assert_allclose(other.covariance, one.covariance, rtol=1e-4)
