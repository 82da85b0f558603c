"""The laws against their definitions in DESIGN 3: nothing here trusts the closed forms under test."""

import numpy as np
import pytest
from hypothesis import given, settings
from scipy.optimize import brentq, minimize_scalar
from strategies import batches_in_every_stage, between, classic_laws, power_laws, revised_laws

from ebfit.laws import LAWS, classic, power, revised

ALL_LAWS = {
    "revised": (revised, revised_laws()),
    "classic": (classic, classic_laws()),
    "power": (power, power_laws()),
}


def _wide_batches(free):
    """Log batch sizes from just above B_min to a thousand times that."""
    log_b_min = float(revised.log_numbers(free)["b_min"])
    return log_b_min + np.concatenate([np.geomspace(1e-6, 1.0, 25), np.linspace(1.1, 7.0, 40)])


# --- the revised law -----------------------------------------------------------------------------------------


@given(revised_laws())
def test_steps_at_a_batch_size_invert_tokens_at_a_step(free):
    log_batch = _wide_batches(free)
    steps = np.exp(revised.log_steps(free, log_batch))
    np.testing.assert_allclose(
        revised.tokens_at(revised.params(free), steps), np.exp(log_batch) * steps, rtol=1e-8
    )


@given(revised_laws())
def test_steps_agree_with_solving_the_three_pieces_numerically(free):
    params = revised.params(free)
    for log_batch in batches_in_every_stage(free):
        batch = float(np.exp(log_batch))
        log_steps = float(revised.log_steps(free, np.array([log_batch]))[0])

        def excess(log_s, batch=batch):
            return float(revised.tokens_at(params, np.array(np.exp(log_s)))) / np.exp(log_s) - batch

        found = brentq(excess, np.log(params["s_min"]) + 1e-9, log_steps + 10.0, xtol=1e-13)
        assert log_steps == pytest.approx(found, abs=1e-8)


def _three_pieces(p, s):
    """DESIGN 3.1 as it is written, one piece per value."""
    initial = p["b_minus_1"] / (s - p["s_min"]) + p["b_0"]
    transition = p["c"] * (s - p["s_opt"]) ** 2 + p["e_min"]
    asymptotic = p["a_1"] * s + p["a_0"]
    return initial, transition, asymptotic


@given(revised_laws())
def test_value_and_slope_are_continuous_where_stages_meet(free):
    p = revised.params(free)
    for place, left, right in (("s_1", 0, 1), ("s_2", 1, 2)):
        s, h = p[place], 1e-6 * p[place]
        here = _three_pieces(p, s)
        assert here[left] == pytest.approx(here[right], rel=1e-9)
        slopes = [
            (_three_pieces(p, s + h)[piece] - _three_pieces(p, s - h)[piece]) / (2 * h)
            for piece in (left, right)
        ]
        # relative to E / S, the slope of the ray, as the slope itself passes through zero
        assert slopes[0] == pytest.approx(slopes[1], abs=1e-4 * here[left] / s)


@given(revised_laws())
def test_tokens_at_a_step_are_the_three_pieces(free):
    p = revised.params(free)
    places = {0: (p["s_min"], p["s_1"]), 1: (p["s_1"], p["s_2"]), 2: (p["s_2"], 3 * p["s_2"])}
    for piece, (start, end) in places.items():
        s = start + (end - start) * np.array([0.1, 0.5, 0.9])
        np.testing.assert_allclose(revised.tokens_at(p, s), _three_pieces(p, s)[piece], rtol=1e-9)


@given(revised_laws())
def test_tokens_are_convex_and_tokens_per_step_fall_to_b_min(free):
    p = revised.params(free)
    s = p["s_min"] + np.geomspace(1e-4 * p["s_min"], 1e4 * p["s_2"], 4000)
    tokens = revised.tokens_at(p, s)
    chord = np.diff(tokens) / np.diff(s)
    assert np.all(np.diff(chord) >= -1e-7 * np.abs(chord[1:]).clip(tokens[:-2] / s[:-2]))
    per_step = tokens / s
    assert np.all(np.diff(per_step) < 0)
    assert per_step[-1] == pytest.approx(p["a_1"] + p["a_0"] / s[-1], rel=1e-9)
    assert np.all(per_step > p["a_1"])
    assert p["a_0"] >= 0


@given(revised_laws(), between(0.0, 1.0))
def test_b_min_and_below_never_reach_the_target(free, share):
    log_b_min = np.log(revised.params(free)["a_1"])
    below = np.array([log_b_min - 1e-9, log_b_min - 10 * share - 1e-9])
    assert np.all(np.isposinf(revised.log_steps(free, below)))
    log_s, jacobian = revised.log_steps_jacobian(free, below)
    assert np.all(np.isposinf(log_s))
    assert np.all(jacobian == 0)
    assert np.all(np.isfinite(revised.log_steps(free, np.array([log_b_min + 1e-6]))))


@pytest.mark.parametrize(("law", "laws"), [ALL_LAWS["revised"], ALL_LAWS["power"]], ids=["revised", "power"])
def test_b_opt_takes_the_fewest_tokens(law, laws):
    @given(laws)
    def check(free):
        numbers = {key: float(value) for key, value in law.log_numbers(free).items()}
        assert numbers["b_min"] < numbers["b_opt"]
        around = np.linspace(numbers["b_min"] + 1e-3, numbers["b_opt"] + 7.0, 3001)
        log_tokens = around + law.log_steps(free, around)
        at_b_opt = float(law.log_steps(free, np.array([numbers["b_opt"]]))[0]) + numbers["b_opt"]
        assert at_b_opt == pytest.approx(numbers["e_min"], abs=1e-9)
        assert at_b_opt <= log_tokens.min() + 1e-12
        assert abs(around[np.argmin(log_tokens)] - numbers["b_opt"]) < 2 * (around[1] - around[0])
        assert numbers["s_opt"] == pytest.approx(at_b_opt - numbers["b_opt"], abs=1e-9)
        many = float(law.log_steps(free, np.array([numbers["b_opt"] + 40.0]))[0])
        assert many == pytest.approx(numbers["s_min"], abs=1e-3 if law is revised else 1e-1)

    check()


@given(revised_laws())
def test_parameters_and_free_parameters_are_each_others_inverse(free):
    params = revised.params(free)
    six = {key: params[key] for key in ("s_min", "s_1", "s_opt", "s_2", "c", "e_min")}
    back = revised.free_from_params(six)
    np.testing.assert_allclose(back, free, atol=1e-8)
    for key, value in revised.params(back).items():
        assert value == pytest.approx(params[key], rel=1e-8, abs=1e-8 * params["e_min"])


@given(revised_laws())
def test_dependent_parameters_are_those_of_the_design(free):
    p = revised.params(free)
    assert 0 < p["s_min"] < p["s_1"] < p["s_opt"] < p["s_2"]
    rise = 2 * p["c"] * (p["s_opt"] - p["s_1"]) * (p["s_1"] - p["s_min"])
    assert p["b_minus_1"] == pytest.approx(rise * (p["s_1"] - p["s_min"]), rel=1e-9)
    b_0 = p["e_min"] + p["c"] * (p["s_opt"] - p["s_1"]) ** 2 - rise
    assert p["b_0"] == pytest.approx(b_0, abs=1e-9 * p["e_min"])
    assert p["a_1"] == pytest.approx(2 * p["c"] * (p["s_2"] - p["s_opt"]), rel=1e-9)
    a_0 = p["e_min"] - p["c"] * (p["s_2"] ** 2 - p["s_opt"] ** 2)
    assert p["a_0"] == pytest.approx(a_0, abs=1e-8 * p["e_min"])


VALID = {"s_min": 100.0, "s_1": 200.0, "s_opt": 400.0, "s_2": 600.0, "c": 1.0, "e_min": 1e6}


@pytest.mark.parametrize(
    "change",
    [
        {"s_min": 250.0},  # above S_1
        {"s_1": 450.0},  # above S_opt
        {"s_2": 350.0},  # below S_opt
        {"c": -1.0},
        {"c": 6.0},  # C (S_2^2 - S_opt^2) > E_min: A_0 < 0
    ],
    ids=["s_min", "s_1", "s_2", "c", "a_0"],
)
def test_what_is_no_law_is_refused(change):
    revised.free_from_params(VALID)
    with pytest.raises(ValueError, match="no revised law"):
        revised.free_from_params(VALID | change)


# --- all laws ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("law", "laws"), ALL_LAWS.values(), ids=ALL_LAWS)
def test_the_jacobian_is_that_of_finite_differences(law, laws):
    @given(laws)
    def check(free):
        if law is classic:
            log_batch = free[1] - free[0] + np.linspace(-3.0, 3.0, 9)
        elif law is power:
            log_batch = free[1] + np.geomspace(0.05, 6.0, 9)
        else:
            log_batch = batches_in_every_stage(free)
        log_s, jacobian = law.log_steps_jacobian(free, log_batch)
        np.testing.assert_allclose(log_s, law.log_steps(free, log_batch), rtol=1e-13)
        h = 1e-5
        numeric = np.stack(
            [
                (law.log_steps(free + h * e, log_batch) - law.log_steps(free - h * e, log_batch)) / (2 * h)
                for e in np.eye(len(free))
            ],
            axis=-1,
        )
        np.testing.assert_allclose(jacobian, numeric, rtol=1e-4, atol=1e-5)

    check()


@pytest.mark.parametrize(("law", "laws"), ALL_LAWS.values(), ids=ALL_LAWS)
def test_many_laws_at_once_are_the_same_laws(law, laws):
    @settings(max_examples=20)
    @given(laws, laws)
    def check(one, two):
        log_batch = np.stack([np.linspace(5.0, 20.0, 8), np.linspace(7.0, 25.0, 8)])
        together, slopes = law.log_steps_jacobian(np.stack([one, two]), log_batch)
        for k, free in enumerate((one, two)):
            alone, slope = law.log_steps_jacobian(free, log_batch[k])
            np.testing.assert_array_equal(together[k], alone)
            np.testing.assert_array_equal(slopes[k], slope)
        for key, value in law.log_numbers(np.stack([one, two])).items():
            np.testing.assert_array_equal(value[1], law.log_numbers(two)[key])

    check()


@pytest.mark.parametrize(("law", "laws"), ALL_LAWS.values(), ids=ALL_LAWS)
def test_starts_reach_every_point_and_stay_with_the_units(law, laws):
    @settings(max_examples=20)
    @given(laws)
    def check(free):
        middle = float(law.log_numbers(free)["b_crit" if law is classic else "b_opt"])
        log_batch = middle + np.linspace(-1.0, 4.0, 7)
        log_steps = law.log_steps(free, log_batch)
        log_batch, log_steps = log_batch[np.isfinite(log_steps)], log_steps[np.isfinite(log_steps)]
        starts = law.starts(log_batch, log_steps)
        assert np.all(np.isfinite(law.log_steps(starts, np.tile(log_batch, (len(starts), 1)))))
        scaled = law.starts(log_batch + 5.0, log_steps - 2.0)
        for key, value in law.log_numbers(starts).items():
            moved = {"b": 5.0, "e": 3.0, "s": -2.0}[key[0]]
            np.testing.assert_allclose(law.log_numbers(scaled)[key], value + moved, atol=1e-9)

    check()


def test_the_registry_knows_laws_by_their_names():
    # the surface at one target is the law `power`
    expected = {"revised": "revised", "classic": "classic", "surface": "power"}
    assert {name: law.name for name, law in LAWS.items()} == expected


# --- the classic law -----------------------------------------------------------------------------------------


@given(classic_laws())
def test_classic_is_the_hyperbola_of_mccandlish(free):
    p = classic.params(free)
    batch = p["b_crit"] * np.geomspace(1e-3, 1e3, 13)
    steps = np.exp(classic.log_steps(free, np.log(batch)))
    tokens = batch * steps
    np.testing.assert_allclose((steps / p["s_min"] - 1) * (tokens / p["e_min"] - 1), 1.0, rtol=1e-6)
    np.testing.assert_allclose(classic.tokens_at(p, steps), tokens, rtol=1e-6)
    # at the critical batch size both cost twice their least
    at = float(np.exp(classic.log_steps(free, np.log([p["b_crit"]]))[0]))
    assert at == pytest.approx(2 * p["s_min"], rel=1e-9)
    assert np.all(np.isnan(classic.tokens_at(p, np.array([0.5, 1.0]) * p["s_min"])))


# --- the three-term law at one target, DESIGN 3.4 ---------------------------------------------------------------


@given(power_laws())
def test_power_solves_the_three_term_surface_at_a_constant_loss(free):
    p = power.params(free)
    # any excess loss l = L - L_0 and coefficients b, c that give this B_min and S_min
    excess = 0.7
    b, c = excess * p["b_min"] ** p["beta"], excess * p["s_min"] ** p["gamma"]
    for log_ratio in (0.05, 0.3, 1.0, 3.0, 6.0):
        batch = p["b_min"] * np.exp(log_ratio)

        def loss_above(log_s, batch=batch):
            return b * batch ** -p["beta"] + c * np.exp(-p["gamma"] * log_s) - excess

        low = np.log(p["s_min"])
        solved = brentq(loss_above, low - 1.0, low + 200.0, xtol=1e-13)
        log_s = float(power.log_steps(free, np.log([batch]))[0])
        assert log_s == pytest.approx(solved, abs=1e-6)
        steps = np.array([np.exp(log_s)])
        assert power.tokens_at(p, steps)[0] == pytest.approx(batch * steps[0], rel=1e-6)
    assert np.isposinf(power.log_steps(free, np.log([p["b_min"]]))[0])


@given(power_laws())
def test_power_has_its_numbers_where_a_search_finds_them(free):
    numbers = power.log_numbers(free)
    low = float(numbers["b_min"]) + 1e-9

    def log_tokens(log_batch):
        return log_batch + float(power.log_steps(free, np.array([log_batch]))[0])

    found = minimize_scalar(log_tokens, bounds=(low, low + 15.0), method="bounded", options={"xatol": 1e-10})
    assert found.fun == pytest.approx(float(numbers["e_min"]), abs=1e-8)
    assert found.x == pytest.approx(float(numbers["b_opt"]), abs=1e-3)
