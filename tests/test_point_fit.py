"""The point fit: known answers, published answers, and what censored runs add."""

import numpy as np
import pytest
from hypothesis import given, settings
from strategies import batches_in_every_stage, classic_laws, exact, random_revised_law, revised_laws

from ebfit.fitting import Observations
from ebfit.fitting.point import fit_points
from ebfit.laws import classic, power, revised

SIX = ("s_min", "s_1", "s_opt", "s_2", "c", "e_min")


def test_exact_points_give_back_the_law():
    rng = np.random.default_rng(20260105034)
    for _ in range(60):
        free = random_revised_law(rng)
        log_batch = batches_in_every_stage(free)
        fit = fit_points(revised, exact(log_batch, revised.log_steps(free, log_batch)))
        truth, found = revised.params(free), revised.params(fit.free[0])
        assert {key: found[key] for key in SIX} == pytest.approx({key: truth[key] for key in SIX}, rel=1e-3)
        assert found["a_1"] == pytest.approx(truth["a_1"], rel=1e-4)
        assert found["e_min"] / found["s_opt"] == pytest.approx(truth["e_min"] / truth["s_opt"], rel=1e-4)
        assert fit.rms_log_residual[0] < 1e-6


@settings(max_examples=15)
@given(classic_laws())
def test_exact_points_give_back_a_classic_law(free):
    log_batch = float(free[1] - free[0]) + np.linspace(-2.0, 3.0, 5)
    fit = fit_points(classic, exact(log_batch, classic.log_steps(free, log_batch)))
    np.testing.assert_allclose(fit.free[0], free, atol=1e-6)


@pytest.mark.parametrize("gamma", [0.4, 0.9])
@pytest.mark.parametrize("beta", [0.5, 1.2])
def test_exact_points_give_back_a_three_term_law(beta, gamma):
    free = np.array([7.0, 11.0, np.log(beta), np.log(gamma)])
    log_batch = 11.0 + np.array([0.1, 0.3, 0.6, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0])
    fit = fit_points(power, exact(log_batch, power.log_steps(free, log_batch)))
    np.testing.assert_allclose(fit.free[0], free, atol=1e-4)


@settings(max_examples=8)
@given(revised_laws())
def test_censored_runs_that_agree_with_the_law_change_nothing(free):
    log_batch = batches_in_every_stage(free)
    log_steps = revised.log_steps(free, log_batch)
    log_b_min = float(revised.log_numbers(free)["b_min"])
    # below B_min, where no number of steps is enough, and one that was stopped at half of its steps
    censored = {log_b_min - 0.5: float(log_steps.max()) + 0.5, log_b_min - 1.0: float(log_steps.max())}
    censored[float(log_batch[1]) + 1e-3] = float(log_steps[1]) - 0.7
    without = fit_points(revised, exact(log_batch, log_steps))
    with_them = fit_points(revised, exact(log_batch, log_steps, censored))
    np.testing.assert_allclose(
        revised.log_steps(with_them.free, log_batch), revised.log_steps(without.free, log_batch), atol=1e-5
    )


def test_a_censored_run_pushes_the_law_above_where_it_ended():
    # Points on the flat side alone; the run at the smallest batch size ended far above what they extrapolate to.
    free = revised.free_from_params(
        {"s_min": 100.0, "s_1": 180.0, "s_opt": 400.0, "s_2": 650.0, "c": 2.0, "e_min": 1e6}
    )
    log_batch = np.log(np.geomspace(2000.0, 60000.0, 8))
    noise = 0.01 * np.random.default_rng(3).standard_normal(8)
    log_steps = revised.log_steps(free, log_batch) + noise
    small, ended = np.log(1400.0), np.log(50_000.0)
    unpinned = fit_points(revised, exact(log_batch, log_steps))
    pinned = fit_points(revised, exact(log_batch, log_steps, {small: ended}))
    assert unpinned.free.shape == pinned.free.shape == (1, 6)
    assert float(revised.log_steps(unpinned.free, np.array([[small]]))[0, 0]) < ended - 0.5
    assert float(revised.log_steps(pinned.free, np.array([[small]]))[0, 0]) > ended - 0.1
    b_min = [float(revised.log_numbers(fit.free)["b_min"][0]) for fit in (unpinned, pinned)]
    assert b_min[1] > b_min[0]


# Steps to a C4 loss, batch size in sequences of 512 tokens; github hlzhang109/critical-batch-size,
# plots/chinchilla.ipynb (MIT licence), with the fit that its authors print: log S on S_min + E_min / B.
C4_SEQUENCES = 64 * 2 ** np.arange(9)
C4_STEPS = {
    "85M": [46000, 23000, 13282, 7000, 3840, 2528, 1917, 1600, 1600],
    "151M": [96000, 49000, 24000, 12000, 7128, 4350, 2940, 2400, 2300],
}


@pytest.mark.parametrize(
    ("model", "s_min", "e_min_sequences"),
    [("85M", 1293.82687, 2834258.089), ("151M", 1752.42120, 5677478.783)],
)
def test_classic_is_the_published_fit_to_c4(model, s_min, e_min_sequences):
    data = exact(np.log(C4_SEQUENCES * 512.0), np.log(np.array(C4_STEPS[model], dtype=float)))
    found = classic.params(fit_points(classic, data).free[0])
    assert found["s_min"] == pytest.approx(s_min, rel=1e-4)
    assert found["e_min"] == pytest.approx(e_min_sequences * 512, rel=1e-4)


def _noisy(seed, noise, targets=1, standard_error=0.0, size=10):
    """The same exact law at every target, with errors of its own at each."""
    rng = np.random.default_rng(seed)
    free = revised.free_from_params(
        {"s_min": 100.0, "s_1": 200.0, "s_opt": 400.0, "s_2": 600.0, "c": 2.0, "e_min": 1e6}
    )
    log_b_min = float(revised.log_numbers(free)["b_min"])
    log_batch = log_b_min + np.linspace(0.15, 4.0, size)
    log_steps = revised.log_steps(free, log_batch)[:, None] + noise * rng.standard_normal((size, targets))
    return Observations(
        log_batch,
        log_steps,
        np.zeros((size, targets), dtype=bool),
        standard_error**2 * np.broadcast_to(np.eye(targets), (size, targets, targets)),
    )


def test_the_misfit_measures_the_scatter():
    found = [fit_points(revised, _noisy(seed, 0.03, size=14)).misfit_sd[0] for seed in range(12)]
    assert 0.7 * 0.03 < np.median(found) < 1.4 * 0.03


def test_scatter_that_the_crossings_explain_is_no_misfit():
    explained = [
        fit_points(revised, _noisy(seed, 0.03, standard_error=0.05)).misfit_sd[0] for seed in range(6)
    ]
    half = [fit_points(revised, _noisy(seed, 0.03, standard_error=0.0)).misfit_sd[0] for seed in range(6)]
    assert np.median(explained) < 0.1 * np.median(half)


def test_a_point_with_a_small_error_weighs_more():
    data = _noisy(1, 0.0)
    trusted = np.full(10, 0.2)
    trusted[4] = 0.001
    log_steps = data.log_steps.copy()
    log_steps[4] += 0.1
    pulled = Observations(data.log_batch, log_steps, data.censored, (trusted**2)[:, None, None])
    equal = Observations(data.log_batch, log_steps, data.censored, np.full((10, 1, 1), 0.2**2))
    at = data.log_batch[4:5]
    residual = {
        name: float(revised.log_steps(fit_points(revised, each).free, at[None])[0, 0] - log_steps[4, 0])
        for name, each in (("trusted", pulled), ("equal", equal))
    }
    assert abs(residual["trusted"]) < 0.01
    assert residual["equal"] < -0.04


def test_degrees_of_freedom_count_what_the_data_determine():
    five, many = (fit_points(revised, _noisy(5, 0.02, size=size)) for size in (5, 14))
    assert five.effective_parameters[0] <= 5.0 + 1e-6  # of six: the prior holds the rest
    assert five.degrees_of_freedom[0] >= 1.0
    assert 4.0 < many.effective_parameters[0] <= 6.0 + 1e-6
    assert many.degrees_of_freedom[0] == pytest.approx(14.0 - many.effective_parameters[0], abs=1.0)


def test_targets_fitted_together_lend_each_other_the_size_of_the_misfit_and_nothing_else():
    data = _noisy(7, 0.03, targets=4)
    together = fit_points(revised, data)
    alone = [fit_points(revised, data.take_targets([t])) for t in range(4)]
    spread_alone = np.ptp(np.log([fit.misfit_sd[0] for fit in alone]))
    assert np.ptp(np.log(together.misfit_sd)) < spread_alone
    b_opt = np.array([fit.free[0, 1] for fit in alone])
    np.testing.assert_allclose(together.free[:, 1], b_opt, atol=0.1)
