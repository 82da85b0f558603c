"""Intervals and statuses: what the data bracket is bracketed, and nothing else is printed as if it were."""

import numpy as np
import pytest
from strategies import exact

from ebfit.fitting import Observations, fit_targets, why_not_fitted
from ebfit.fitting.intervals import b_min_is_near, beyond, two_sided, unrisen_sides
from ebfit.laws import classic, revised

FREE = revised.free_from_params(
    {"s_min": 100.0, "s_1": 200.0, "s_opt": 400.0, "s_2": 600.0, "c": 2.0, "e_min": 1e6}
)
B_MIN, B_OPT = 800.0, 2500.0  # of that law: 2 C (S_2 - S_opt), and E_min / S_opt
SEEDS = pytest.mark.parametrize("seed", [0, 1, 2])


def _fit(
    batches, *, seed=0, noise=0.01, censored=None, law="revised", confidence=0.95, free=FREE, model=revised
):
    """Fit one target of the law above with independent errors of log steps; ``censored``: tokens -> last step."""
    log_batch = np.log(batches)
    log_steps = model.log_steps(free, log_batch) + noise * np.random.default_rng(seed).standard_normal(
        len(batches)
    )
    ended = {float(np.log(b)): float(np.log(s)) for b, s in (censored or {}).items()}
    data = exact(log_batch, log_steps, ended)
    return fit_targets(law, data, replicates=200, confidence=confidence, seed=0)[0]


def _between(low, high, count):
    return np.geomspace(low, high, count)


def test_the_law_of_these_tests_has_the_numbers_that_they_name():
    p = revised.params(FREE)
    assert (p["a_1"], p["e_min"] / p["s_opt"]) == pytest.approx((B_MIN, B_OPT))


# --- coverage ------------------------------------------------------------------------------------------------


def test_intervals_hold_the_truth():
    held = {"b_opt": [], "b_min": []}
    for seed in range(25):
        fit = _fit(_between(1.1 * B_MIN, 50 * B_MIN, 10), seed=100 + seed, noise=0.02)
        for name, truth in (("b_opt", B_OPT), ("b_min", B_MIN)):
            number = fit.numbers[name]
            assert number.status == "ok"
            assert number.low <= number.value <= number.high
            held[name].append(number.low <= truth <= number.high)
    assert np.mean(held["b_opt"]) >= 0.8
    assert np.mean(held["b_min"]) >= 0.8


def test_intervals_say_something():
    fit = _fit(_between(1.1 * B_MIN, 50 * B_MIN, 10), noise=0.02)
    assert fit.numbers["b_opt"].high / fit.numbers["b_opt"].low < 2.5
    assert fit.numbers["b_min"].high / fit.numbers["b_min"].low < 1.5


def test_intervals_widen_with_noise_and_with_confidence():
    def width(**more):
        number = _fit(_between(1.1 * B_MIN, 50 * B_MIN, 10), **more).numbers["b_opt"]
        return np.log(number.high / number.low)

    assert width(noise=0.003) < width(noise=0.02)
    assert width(confidence=0.5) < width(confidence=0.9) < width(confidence=0.99)


# --- statuses of B_opt ------------------------------------------------------------------------------------------


@SEEDS
def test_batch_sizes_above_b_opt_alone_give_an_upper_bound(seed):
    b_opt = _fit(_between(1.35 * B_OPT, 40 * B_OPT, 8), seed=seed).numbers["b_opt"]
    assert (b_opt.status, b_opt.value, b_opt.low) == ("upper_bound", None, None)
    assert B_OPT < b_opt.high < 2 * B_OPT


@SEEDS
def test_batch_sizes_below_b_opt_alone_give_a_lower_bound(seed):
    b_opt = _fit(_between(1.1 * B_MIN, 0.78 * B_OPT, 7), seed=seed).numbers["b_opt"]
    assert (b_opt.status, b_opt.value, b_opt.high) == ("lower_bound", None, None)
    assert 0.5 * B_OPT < b_opt.low < B_OPT


@SEEDS
def test_batch_sizes_on_both_sides_bracket_b_opt(seed):
    b_opt = _fit(_between(1.1 * B_MIN, 50 * B_MIN, 10), seed=seed).numbers["b_opt"]
    assert b_opt.status == "ok"


def test_sides_are_open_where_tokens_were_not_seen_to_rise():
    valley, falling, rising = np.array([3, 1, 2, 4.0]), np.array([4, 3, 2, 1.0]), np.array([1, 2, 3, 4.0])
    assert unrisen_sides(valley, 0.1, censored_below=False) == set()
    assert unrisen_sides(falling, 0.1, censored_below=False) == {"above"}
    assert unrisen_sides(rising, 0.1, censored_below=False) == {"below"}
    # a smaller batch that never got there is as good as a rise
    assert unrisen_sides(rising, 0.1, censored_below=True) == set()


def test_a_rise_within_the_noise_is_none():
    """Tokens that do not depend on the batch size gave B_opt with an interval, from rounding errors."""
    assert unrisen_sides(np.array([1.1, 1.0, 1.1, 3.0]), 0.1, censored_below=False) == {"below"}
    flat = np.log(1e6) + 1e-15 * np.array([2, 0, 1, 3])
    assert unrisen_sides(flat, 1e-9, censored_below=False) == {"below", "above"}


def test_sides_are_open_where_estimate_or_replicates_lie_beyond_the_batch_sizes():
    reached, inside = np.array([1.0, 2.0, 3.0, 4.0]), np.full(100, 2.4)
    assert beyond(2.4, inside, reached, 0.95) == set()
    assert beyond(0.9, inside, reached, 0.95) == {"below"}
    assert beyond(4.1, inside, reached, 0.95) == {"above"}
    wandering = np.where(np.arange(100) % 4 == 0, 4.5, 2.4)
    assert beyond(2.4, wandering, reached, 0.95) == {"above"}
    assert beyond(2.4, 5.0 - wandering, reached, 0.95) == {"below"}
    # few replicates, but far beyond: an interval that ends where nothing was run is none
    few = np.where(np.arange(100) % 20 == 0, 9.0, 2.4)
    assert beyond(2.4, few, reached, 0.95) == {"above"}


# --- statuses of B_min ------------------------------------------------------------------------------------------


@SEEDS
def test_no_batch_size_near_b_min_gives_an_upper_bound(seed):
    smallest = 2.6 * B_MIN
    fit = _fit(_between(smallest, 50 * B_MIN, 10), seed=seed)
    b_min = fit.numbers["b_min"]
    assert (b_min.status, b_min.value, b_min.low) == ("upper_bound", None, None)
    assert B_MIN < b_min.high <= smallest * (1 + 1e-12)
    assert any("B_min" in warning and "run 1,040 tokens" in warning for warning in fit.warnings)


def test_a_censored_run_holds_b_min_from_below():
    batches = _between(1.5 * B_MIN, 50 * B_MIN, 9)
    without = _fit(batches, noise=0.03)
    with_it = _fit(batches, noise=0.03, censored={0.95 * B_MIN: 100_000.0})
    assert without.numbers["b_min"].status == with_it.numbers["b_min"].status == "ok"
    assert with_it.numbers["b_min"].low > without.numbers["b_min"].low + 0.05 * B_MIN


def test_near_is_a_doubling():
    def near(value, censored=()):
        return b_min_is_near(
            np.log(value), np.full(100, np.log(value)), np.log([2000.0, 4000.0]), np.log(censored)
        )

    assert near(1001.0)
    assert not near(999.0)
    assert near(900.0, [500.0])
    assert not near(900.0, [400.0])
    assert not near(900.0, [3000.0])  # stopped early, far above


def test_b_min_whose_replicates_wander_off_is_not_held_from_below():
    reached, draws = np.log([2000.0, 4000.0]), np.full(100, np.log(1500.0))
    assert b_min_is_near(np.log(1500.0), draws, reached, np.array([]))
    draws[:11] = np.log(400.0)  # beyond a factor of 4 of the smallest batch size that was run
    assert not b_min_is_near(np.log(1500.0), draws, reached, np.array([]))


# --- percentile intervals -----------------------------------------------------------------------------------------


def test_an_interval_is_of_percentiles_and_holds_its_estimate():
    draws = np.log(np.linspace(1.0, 101.0, 10001))
    inside = two_sided(np.log(50.0), draws, 0.9)
    assert (inside.value, inside.low, inside.high) == pytest.approx((50.0, 6.0, 96.0), rel=1e-3)
    outside = two_sided(np.log(200.0), draws, 0.9)
    assert (outside.low, outside.high) == pytest.approx((6.0, 200.0), rel=1e-3)


# --- the classic law ----------------------------------------------------------------------------------------------


def test_classic_on_u_shaped_points_is_refused():
    fit = _fit(_between(1.05 * B_MIN, 50 * B_MIN, 10), law="classic")
    b_crit = fit.numbers["b_crit"]
    assert (b_crit.status, b_crit.value, b_crit.low, b_crit.high) == ("not_identified", None, None, None)
    assert any("Use --law revised" in warning for warning in fit.warnings)
    assert fit.rms_log_residual > 5 * _fit(_between(1.05 * B_MIN, 50 * B_MIN, 10)).rms_log_residual


def test_classic_that_saw_no_plateau_is_refused():
    free = np.log([1.0, 1e8])  # S_min far below all steps
    fit = _fit(_between(1e2, 1e5, 8), law="classic", free=free, model=classic)
    assert fit.numbers["b_crit"].status == "not_identified"
    assert any("collapsed" in warning for warning in fit.warnings)


@SEEDS
def test_classic_on_classic_points_brackets_b_crit(seed):
    free = np.log([1000.0, 1e8])
    fit = _fit(_between(1e3, 1e7, 10), law="classic", free=free, model=classic, seed=seed, noise=0.02)
    b_crit = fit.numbers["b_crit"]
    assert b_crit.status == "ok"
    assert not fit.warnings
    assert 0.8e5 < b_crit.low < b_crit.value < b_crit.high < 1.25e5
    assert fit.s_min == pytest.approx(1000.0, rel=0.05)
    assert fit.e_min == pytest.approx(1e8, rel=0.05)


# --- the second opinion --------------------------------------------------------------------------------------------


def test_the_second_opinion_weighs_little_where_the_revised_law_is_exact():
    opinion = _fit(_between(1.05 * B_MIN, 100 * B_MIN, 14), noise=0.003).second_opinion
    assert opinion.law == "power"
    assert opinion.weight < 0.2
    assert opinion.rms_log_residual > 0.003


# --- too little to fit ---------------------------------------------------------------------------------------------


def _reaching(reached, tried):
    """Observations of which ``reached`` batch sizes reach the target, out of ``tried``."""
    size = np.arange(tried)
    return Observations(
        log_batch=8.0 + size,
        log_steps=np.full((tried, 1), 5.0),
        censored=(size < tried - reached)[:, None],
        covariance=np.zeros((tried, 1, 1)),
    )


@pytest.mark.parametrize(
    ("law", "reached", "tried", "says"),
    [
        ("revised", 0, 8, "no run reaches it"),
        ("revised", 3, 8, "only 3 batch sizes reached it"),
        ("revised", 4, 4, "only 4 batch sizes in all"),
        ("classic", 1, 8, "only 1 batch size reached it"),
        ("classic", 2, 2, "only 2 batch sizes reached it"),
    ],
)
def test_too_little_is_said(law, reached, tried, says):
    assert says in why_not_fitted(law, _reaching(reached, tried), 0)


@pytest.mark.parametrize(
    ("law", "reached", "tried"), [("revised", 4, 5), ("revised", 8, 8), ("classic", 3, 3)]
)
def test_just_enough_is_fitted(law, reached, tried):
    assert why_not_fitted(law, _reaching(reached, tried), 0) is None


def test_seeds_of_one_batch_size_count_once():
    data = _reaching(4, 5)
    one_size = Observations(np.full(5, 8.0), data.log_steps, data.censored, data.covariance)
    assert "only 1 batch size" in why_not_fitted("revised", one_size, 0)


def test_few_batch_sizes_are_warned_about():
    few = _fit(_between(1.1 * B_MIN, 30 * B_MIN, 5))
    assert any("only 5 batch sizes for a law of six parameters" in warning for warning in few.warnings)
    most_ended = _fit(_between(1.1 * B_MIN, 30 * B_MIN, 6), censored={600.0: 5000.0, 400.0: 5000.0})
    assert any("only 6 batch sizes reached this loss" in warning for warning in most_ended.warnings)
    assert not any(
        "batch sizes" in warning for warning in _fit(_between(1.1 * B_MIN, 40 * B_MIN, 9)).warnings
    )
