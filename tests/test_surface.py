"""The three-term surface: the law over all targets at once, and its fit."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq, minimize_scalar
from strategies import between, write_points

from ebfit.cli.main import main
from ebfit.files import Fit
from ebfit.fitting import Observations, fit_targets
from ebfit.fitting.surface import draw_surfaces, fit_surface
from ebfit.laws import power, revised, surface

LOSSES = np.array([2.6, 2.4, 2.2, 2.1])
PARAMS = {"l_0": 1.7, "b": 30.0, "beta": 0.5, "c": 8.0, "gamma": 0.4}


@st.composite
def surfaces(draw):
    return np.array(
        [
            draw(between(np.log(1e2), np.log(1e6))),
            draw(between(np.log(1e3), np.log(1e8))),
            draw(between(np.log(0.3), np.log(2.0))),
            draw(between(np.log(0.2), np.log(1.5))),
            draw(between(-1.5, 3.0)),
        ]
    )


def sweep(params=PARAMS, losses=LOSSES, sizes=10, noise=0.0, seed=0, last=1e7, shared=0.7):
    """One run per batch size, its errors of log steps partly shared between targets; runs end after ``last``."""
    free = surface.free_from_params(params, losses)
    log_batch = surface.log_numbers(free, losses)["b_min"].min() + np.linspace(0.3, 7.5, sizes)
    rng = np.random.default_rng(seed)
    own = rng.standard_normal((sizes, len(losses)))
    luck = np.sqrt(shared) * rng.standard_normal((sizes, 1)) + np.sqrt(1.0 - shared) * own
    log_steps = surface.log_steps(free, losses, log_batch).T + noise * luck
    censored = log_steps > np.log(last)
    return Observations(
        log_batch,
        np.where(censored, np.log(last), log_steps),
        censored,
        np.zeros((sizes, len(losses), len(losses))),
    )


# --- the law -------------------------------------------------------------------------------------------------


@given(surfaces())
def test_steps_solve_the_three_terms_at_every_loss(free):
    params = surface.params(free, LOSSES)
    log_batch = float(free[1]) + np.array([0.5, 2.0, 6.0])
    log_steps = surface.log_steps(free, LOSSES, log_batch)
    for t, loss in enumerate(LOSSES):
        for batch, found in zip(log_batch, log_steps[t], strict=True):

            def above(log_s, loss=loss, batch=batch):
                return float(surface.loss_at(params, np.exp(batch), np.exp(log_s))) - loss

            if np.isposinf(found):
                assert params["l_0"] + params["b"] * np.exp(-params["beta"] * batch) >= loss - 1e-9
            else:
                assert found == pytest.approx(brentq(above, found - 30.0, found + 30.0, xtol=1e-12), abs=1e-6)


@given(surfaces())
def test_the_numbers_of_every_loss_are_where_a_search_finds_them(free):
    numbers = surface.log_numbers(free, LOSSES)
    for t in range(len(LOSSES)):
        low = float(numbers["b_min"][t]) + 1e-9

        def log_tokens(log_batch, t=t):
            return log_batch + float(surface.log_steps(free, LOSSES, np.array([log_batch]))[t, 0])

        found = minimize_scalar(
            log_tokens, bounds=(low, low + 15.0), method="bounded", options={"xatol": 1e-10}
        )
        assert found.fun == pytest.approx(float(numbers["e_min"][t]), abs=1e-8)
        assert found.x == pytest.approx(float(numbers["b_opt"][t]), abs=1e-3)


@given(surfaces())
def test_the_jacobian_is_that_of_finite_differences(free):
    log_batch = surface.log_numbers(free, LOSSES)["b_min"].max() + np.geomspace(0.05, 6.0, 7)
    log_s, jacobian = surface.log_steps_jacobian(free, LOSSES, log_batch)
    np.testing.assert_allclose(log_s, surface.log_steps(free, LOSSES, log_batch), rtol=1e-13)
    h = 1e-5
    for i, e in enumerate(np.eye(5)):
        numeric = (
            surface.log_steps(free + h * e, LOSSES, log_batch)
            - surface.log_steps(free - h * e, LOSSES, log_batch)
        ) / (2 * h)
        np.testing.assert_allclose(jacobian[..., i], numeric, rtol=1e-3, atol=1e-4)


@given(surfaces())
def test_parameters_and_free_parameters_are_each_others_inverse(free):
    back = surface.free_from_params(surface.params(free, LOSSES), LOSSES)
    np.testing.assert_allclose(back, free, atol=1e-8)


@pytest.mark.parametrize("change", [{"b": 0.0}, {"gamma": -0.1}, {"l_0": 2.1}])
def test_what_is_no_surface_is_refused(change):
    with pytest.raises(ValueError, match="no surface"):
        surface.free_from_params(PARAMS | change, LOSSES)


# --- the point fit -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("change", [{}, {"beta": 1.1, "b": 9e3}, {"gamma": 0.9, "c": 200.0}, {"l_0": -0.4}])
def test_exact_points_give_back_the_surface(change):
    truth = PARAMS | change
    fit = fit_surface(sweep(truth), LOSSES)
    assert fit.params == pytest.approx(truth, rel=1e-6)
    expected = surface.at_losses(surface.free_from_params(truth, LOSSES), LOSSES)
    np.testing.assert_allclose(fit.free, expected, atol=1e-6)
    assert fit.rms_log_residual.max() < 1e-7


def test_two_targets_are_enough():
    fit = fit_surface(sweep(losses=LOSSES[:2]), LOSSES[:2])
    assert fit.params == pytest.approx(PARAMS, rel=1e-4)


def test_equal_targets_are_refused():
    data = sweep()
    with pytest.raises(ValueError, match="two different"):
        fit_surface(data, [2.2] * 4)


def test_neither_the_order_of_runs_nor_of_targets_changes_the_fit():
    data = sweep(noise=0.02, last=3e5)
    assert data.censored.any()
    fit = fit_surface(data, LOSSES)
    rng = np.random.default_rng(4)
    runs = fit_surface(data.take_runs(rng.permutation(10)), LOSSES)
    np.testing.assert_allclose(runs.free, fit.free, atol=1e-7)
    order = [2, 0, 3, 1]
    targets = fit_surface(data.take_targets(order), LOSSES[order])
    np.testing.assert_allclose(targets.free, fit.free[order], atol=1e-7)


@settings(max_examples=5, deadline=None)
@given(tokens=between(-20.0, 20.0), steps=between(-5.0, 5.0), loss=between(0.1, 10.0))
def test_other_units_scale_the_fit(tokens, steps, loss):
    data = sweep(noise=0.02)
    moved = Observations(data.log_batch + tokens, data.log_steps + steps, data.censored, data.covariance)
    one, other = fit_surface(data, LOSSES), fit_surface(moved, loss * LOSSES)
    shift = np.array([steps, tokens, 0.0, 0.0])
    np.testing.assert_allclose(other.free, one.free + shift, atol=1e-6)
    assert other.params["l_0"] == pytest.approx(loss * one.params["l_0"], rel=1e-5)


def test_the_misfit_is_measured_with_what_targets_share_of_it():
    found = [fit_surface(sweep(noise=0.03, seed=seed, shared=0.7), LOSSES).error for seed in range(8)]
    assert 0.02 < np.median([error.tau for error in found]) < 0.04
    apart = [fit_surface(sweep(noise=0.03, seed=seed, shared=0.0), LOSSES).error for seed in range(8)]
    assert np.median([e.log_reach for e in apart]) < np.median([e.log_reach for e in found])


# --- replicates ----------------------------------------------------------------------------------------------


def test_replicates_are_the_same_for_the_same_seed_alone():
    fit = fit_surface(sweep(noise=0.02), LOSSES)
    one, same, other = (draw_surfaces(fit, 100, seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one, same)
    assert not np.array_equal(one, other)


def test_perfect_data_give_tiny_intervals():
    fit = fit_surface(sweep(), LOSSES)
    draws = surface.log_numbers(draw_surfaces(fit, 100, 0), LOSSES)
    assert np.ptp(draws["b_opt"], axis=0).max() < 1e-6


# --- B_min and B_opt of every target -----------------------------------------------------------------------------


def fit_all(data, losses=LOSSES, **more):
    options = {"replicates": 200, "confidence": 0.95, "seed": 0} | more
    return fit_targets("surface", data, losses=list(losses), **options)


def test_intervals_hold_the_truth_and_are_narrower_than_those_of_a_target_by_itself():
    truth = surface.log_numbers(surface.free_from_params(PARAMS, LOSSES), LOSSES)
    held = []
    for seed in range(10):
        for t, fit in enumerate(fit_all(sweep(noise=0.02, seed=seed, last=3e6))):
            for name in ("b_min", "b_opt"):
                number, true = fit.numbers[name], np.exp(truth[name][t])
                assert (number.low or 0.0) < (number.high or np.inf)
                held.append((number.low or 0.0) <= true <= (number.high or np.inf))
            alone = fit.numbers["b_opt"]
            assert np.log(alone.high / alone.low) < 0.1
    assert np.mean(held) > 0.85


def test_the_numbers_of_a_target_belong_together():
    for fit in fit_all(sweep(noise=0.02)):
        p = fit.params
        loss_above = p["b"] * p["b_min"] ** -p["beta"]
        assert p["c"] * p["s_min"] ** -p["gamma"] == pytest.approx(loss_above, rel=1e-9)
        assert fit.s_min == pytest.approx(p["s_min"])
        assert fit.e_min == pytest.approx(fit.numbers["b_opt"].value * fit.s_opt, rel=1e-9)
        np.testing.assert_allclose(fit.free, power.free_from_params(p), atol=1e-9)
        assert power.tokens_at(p, np.array([fit.s_opt]))[0] == pytest.approx(fit.e_min, rel=1e-9)


def test_counting_in_billions_changes_no_interval():
    data = sweep(noise=0.02, last=3e6)
    billions = Observations(data.log_batch - np.log(1e9), data.log_steps, data.censored, data.covariance)
    for one, other in zip(fit_all(data), fit_all(billions), strict=True):
        for name, number in one.numbers.items():
            assert other.numbers[name].status == number.status
            for end in ("value", "low", "high"):
                was, now = getattr(number, end), getattr(other.numbers[name], end)
                assert now == (None if was is None else pytest.approx(was / 1e9, rel=1e-6))


def test_batch_sizes_above_b_opt_alone_give_upper_bounds():
    data = sweep(noise=0.01, sizes=12)
    b_opt = surface.log_numbers(surface.free_from_params(PARAMS, LOSSES), LOSSES)["b_opt"]
    large = data.take_runs(np.flatnonzero(data.log_batch > b_opt.max() + 0.3))
    for t, fit in enumerate(fit_all(large)):
        assert fit.numbers["b_opt"].status == "upper_bound"
        assert fit.numbers["b_opt"].high > np.exp(b_opt[t])
        assert fit.e_min is None
        assert any("all the way to the smallest batch" in text for text in fit.warnings)


def test_runs_of_the_revised_law_are_not_described_and_it_is_said():
    targets = [np.array([6.0 + 0.5 * t, 9.0 + 0.5 * t, 0.5, -1.0, 0.3, 0.0]) for t in range(3)]
    log_batch = np.linspace(9.0, 14.0, 12)
    log_steps = np.stack([revised.log_steps(free, log_batch) for free in targets], axis=1)
    log_steps += 0.002 * np.random.default_rng(0).standard_normal((12, 1))
    seen = np.isfinite(log_steps)
    data = Observations(log_batch, np.where(seen, log_steps, 9.0), ~seen, np.zeros((12, 3, 3)))
    fits = fit_all(data, [2.4, 2.2, 2.0])
    assert all(any("does not describe" in text for text in fit.warnings) for fit in fits)
    assert not any("does not describe" in text for fit in fit_all(sweep(noise=0.02)) for text in fit.warnings)


def test_a_floor_below_zero_is_named():
    fits = fit_all(sweep(PARAMS | {"l_0": -3.0, "b": 300.0}, noise=0.002))
    assert all(any("below zero" in text for text in fit.warnings) for fit in fits)


def test_the_losses_are_needed():
    with pytest.raises(ValueError, match="give those of the targets"):
        fit_targets("surface", sweep(), replicates=100, confidence=0.95, seed=0)


# --- through the command ------------------------------------------------------------------------------------------


def points_rows(data, losses=LOSSES):
    return [
        {
            "target_loss": float(losses[t]),
            "batch_tokens": float(np.exp(data.log_batch[r])),
            "steps": float(np.exp(data.log_steps[r, t])),
            "censored": int(data.censored[r, t]),
        }
        for t in range(len(losses))
        for r in range(len(data.log_batch))
    ]


def status_of(*arguments):
    with pytest.raises(SystemExit) as stop:
        main([str(argument) for argument in arguments])
    return stop.value.code


def test_fit_writes_the_surface_and_a_plan_follows_from_it(tmp_path, capsys):
    table = write_points(tmp_path / "points.csv", points_rows(sweep(noise=0.01, last=3e6)))
    result = tmp_path / "fit.json"
    assert status_of("fit", "--points", table, "--law", "surface", "-o", result, "--bootstrap", 200) == 0
    printed = capsys.readouterr().out
    assert "Law surface." in printed
    assert "Surface: L = 1." in printed
    fit = Fit.load(result)
    for target in fit.targets:
        assert target.law == "surface"
        assert target.b_opt.status == "ok"
        assert target.params["gamma"] == pytest.approx(PARAMS["gamma"], rel=0.1)
        assert target.params["l_0"] == pytest.approx(PARAMS["l_0"], abs=0.1)
    # over an exact surface B_opt grows with D as gamma / (beta + gamma)
    assert fit.trends.b_opt_vs_tokens.exponent == pytest.approx(4 / 9, abs=0.05)
    tokens = int(3 * fit.trends.b_opt_vs_tokens.d_high)
    assert status_of("schedule", result, "--total-tokens", tokens, "--seq-len", 128) == 0
    assert "Policy optimal" in capsys.readouterr().out


def test_one_target_cannot_tell_the_floor(tmp_path, capsys):
    table = write_points(tmp_path / "points.csv", points_rows(sweep(noise=0.01)))
    assert status_of("fit", "--points", table, "--law", "surface", "--targets", 2.2) == 1
    assert "at least 2 targets" in capsys.readouterr().err


@pytest.mark.parametrize("data", ["one batch size", "all censored"])
def test_what_cannot_be_fitted_is_refused_in_words(data, tmp_path, capsys):
    rows = points_rows(sweep(noise=0.01))
    if data == "one batch size":
        rows = [row | {"batch_tokens": 4096.0} for row in rows]
    else:
        rows = [row | {"censored": 1} for row in rows]
    table = write_points(tmp_path / "points.csv", rows)
    assert status_of("fit", "--points", table, "--law", "surface") == 1
    message = capsys.readouterr().err
    assert "batch size" in message if data == "one batch size" else "no run reaches it" in message
