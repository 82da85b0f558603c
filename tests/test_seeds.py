"""Seeds of one batch size: replicates of the noise, one witness of the law."""

import numpy as np
import pytest

from ebfit.fitting import Observations, fit_targets
from ebfit.fitting.seeds import merge_seeds
from ebfit.laws import revised

LAW = np.array([7.0, 10.0, -0.4, -2.0, 1.0, 0.0])  # S_opt 1100 steps, B_opt 22K tokens, a common shape
SIZES = np.log([1e3, 2e3, 4e3, 8e3, 16e3, 32e3, 64e3, 128e3])


def _runs(log_steps, log_batch=None, censored=None):
    log_steps = np.asarray(log_steps, dtype=float)
    log_batch = np.repeat(SIZES, len(log_steps) // len(SIZES)) if log_batch is None else np.asarray(log_batch)
    targets = log_steps.shape[1]
    none = np.zeros(log_steps.shape, dtype=bool)
    return Observations(
        log_batch,
        log_steps,
        none if censored is None else censored,
        np.zeros((len(log_steps), targets, targets)),
    )


def test_seeds_become_their_mean_with_the_error_of_a_mean():
    rng = np.random.default_rng(0)
    noise = rng.multivariate_normal([0.0, 0.0], [[4e-4, 3e-4], [3e-4, 9e-4]], size=8 * 500)
    level = np.repeat(10.0 - SIZES / 3, 500)[:, None]
    merged = merge_seeds(_runs(level + noise))
    assert merged.log_batch == pytest.approx(SIZES)
    assert merged.log_steps == pytest.approx((10.0 - SIZES / 3)[:, None].repeat(2, axis=1), abs=6e-3)
    typical = merged.covariance.mean(axis=0) * 500
    assert typical == pytest.approx(np.array([[4e-4, 3e-4], [3e-4, 9e-4]]), rel=0.1)


def test_without_seeds_nothing_changes():
    rng = np.random.default_rng(1)
    data = _runs(rng.normal(size=(8, 2)))
    merged = merge_seeds(data)
    assert np.array_equal(merged.log_steps, data.log_steps)
    assert np.array_equal(merged.covariance, data.covariance)


def test_a_batch_size_that_scatters_more_gets_the_larger_error():
    rng = np.random.default_rng(2)
    sd = np.repeat([0.2, *[0.01] * 7], 20)
    merged = merge_seeds(_runs(7.0 + sd[:, None] * rng.standard_normal((160, 1))))
    se = merged.log_steps_se[:, 0]
    assert se[0] > 5 * se[1:].max()


def test_the_scatter_of_others_stands_in_for_a_single_seed():
    log_batch = np.append(np.repeat(SIZES[1:], 3), SIZES[0])
    rng = np.random.default_rng(3)
    merged = merge_seeds(_runs(5.0 + 0.03 * rng.standard_normal((22, 1)), log_batch))
    se = merged.log_steps_se[:, 0]
    assert 0.02 < se[0] < 0.05
    assert se[0] > 1.2 * np.median(se[1:])


def test_seeds_that_ended_above_the_target_stay_one_sided_beside_those_that_reached_it():
    log_batch = np.repeat(SIZES, 2)
    log_steps = np.full((16, 1), 6.0)
    log_steps[1] = 7.5
    censored = np.zeros((16, 1), dtype=bool)
    censored[1] = True
    merged = merge_seeds(_runs(log_steps, log_batch, censored))
    assert len(merged.log_batch) == 9
    assert merged.log_steps[merged.censored[:, 0], 0] == pytest.approx([7.5])
    assert merged.log_steps[~merged.censored[:, 0], 0] == pytest.approx(np.full(8, 6.0))


def test_copies_of_a_run_do_not_narrow_the_interval():
    """Misfit of the law is common to seeds: copying every run three times is no new information about it."""
    rng = np.random.default_rng(4)
    log_b_min = float(revised.log_numbers(LAW)["b_min"])
    log_batch = np.linspace(log_b_min + 0.1, LAW[1] + 3.5, 10)
    log_steps = (revised.log_steps(LAW, log_batch) + 0.03 * rng.standard_normal(10))[:, None]
    once = fit_targets("revised", _runs(log_steps, log_batch), replicates=400, confidence=0.95, seed=0)[0]
    thrice = fit_targets(
        "revised",
        _runs(log_steps.repeat(3, axis=0), log_batch.repeat(3)),
        replicates=400,
        confidence=0.95,
        seed=0,
    )[0]
    for name in ("b_min", "b_opt"):
        one, three = once.numbers[name], thrice.numbers[name]
        assert (three.low, three.high) == pytest.approx((one.low, one.high), rel=0.02)


def test_rms_is_over_runs_and_not_over_means():
    rng = np.random.default_rng(5)
    log_batch = np.linspace(float(revised.log_numbers(LAW)["b_min"]) + 0.1, LAW[1] + 3.5, 8).repeat(20)
    log_steps = (revised.log_steps(LAW, log_batch) + 0.05 * rng.standard_normal(160))[:, None]
    fit = fit_targets("revised", _runs(log_steps, log_batch), replicates=100, confidence=0.95, seed=0)[0]
    assert fit.rms_log_residual == pytest.approx(0.05, rel=0.2)
