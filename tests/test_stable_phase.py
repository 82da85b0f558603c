"""The stable phase, found in learning-rate curves of many shapes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebfit.errors import BadInputError
from ebfit.runs.stable_phase import Known, choose_stable_phase, find_plateau

PEAK = 3e-4
NOTHING = Known(None, None, "")


def rows(last=10_000, every=10):
    return np.arange(every, last + 1, every, dtype=float)


def warmup(steps, until):
    return np.minimum(1.0, steps / until)


def with_decay(steps, start, shape):
    """Learning rate with warmup over 500 steps and a decay from `start` to the end."""
    x = np.clip((steps - start) / (steps[-1] - start), 0, 1)
    shapes = {
        "linear": 1 - x,
        "1-sqrt": 1 - np.sqrt(x),
        "cosine": 0.5 * (1 + np.cos(np.pi * x)),
        "exponential": 0.01**x,
        "to a tenth": 1 - 0.9 * x,
    }
    return PEAK * warmup(steps, 500) * shapes[shape]


def cosine(steps, floor=0.1, warm=500):
    x = np.clip((steps - warm) / (steps[-1] - warm), 0, 1)
    return PEAK * warmup(steps, warm) * (floor + (1 - floor) * 0.5 * (1 + np.cos(np.pi * x)))


def digits(lr, count):
    """Log with so many significant digits, as "%.2e" does."""
    return np.array([float(f"{value:.{count - 1}e}") for value in lr])


def decimals(lr, count):
    """Log with so many digits after the point, as "%.4f" does."""
    return np.round(lr, count)


def test_warmup_then_constant_is_stable_to_the_end():
    steps = rows()
    plateau = find_plateau(steps, PEAK * warmup(steps, 500))
    assert (plateau.first_step, plateau.last_step, plateau.reaches_end) == (500, 10_000, True)
    assert plateau.lr == pytest.approx(PEAK)


@pytest.mark.parametrize("shape", ["linear", "1-sqrt", "cosine", "exponential", "to a tenth"])
@pytest.mark.parametrize("start", [2000, 5000, 9000])
@pytest.mark.parametrize("log", [lambda lr: lr, lambda lr: digits(lr, 3), lambda lr: decimals(lr, 6)])
def test_the_stable_phase_ends_where_the_decay_begins(shape, start, log):
    steps = rows()
    plateau = find_plateau(steps, log(with_decay(steps, start, shape)))
    assert plateau.first_step == pytest.approx(500, abs=10)
    # A decay that starts flat, logged with three digits, is seen only when a digit changes.
    slack = 0.05 * (10_000 - start) + 10
    assert start - 10 <= plateau.last_step <= start + slack


@pytest.mark.parametrize("count", [2, 3, 4, 17])
@pytest.mark.parametrize("warm", [0.5, 500, 1500])
@pytest.mark.parametrize("floor", [0.0, 0.1])
def test_a_cosine_is_never_stable_however_it_is_rounded(count, warm, floor):
    steps = rows()
    assert find_plateau(steps, digits(cosine(steps, floor, warm), count)) is None


@pytest.mark.parametrize("count", [4, 5, 6])
def test_a_cosine_is_never_stable_with_few_decimals(count):
    assert find_plateau(rows(), decimals(cosine(rows()), count)) is None


@pytest.mark.parametrize("count", [2, 3, 17])
def test_other_curves_without_a_plateau(count):
    steps = rows()
    inverse_sqrt = PEAK * np.minimum(steps / 500, np.sqrt(500 / steps))
    linear = PEAK * warmup(steps, 100) * (1 - steps / 12_000)
    exponential = PEAK * 0.1 ** (steps / 10_000)
    only_warmup = PEAK * steps / 10_000
    for lr in (inverse_sqrt, linear, exponential, only_warmup):
        assert find_plateau(steps, digits(lr, count)) is None


def test_the_floor_of_a_cosine_is_not_the_stable_phase():
    steps = rows()
    lr = cosine(steps)
    lr = np.append(lr, np.full(500, lr[-1]))
    assert find_plateau(rows(15_000), lr) is None


@pytest.mark.parametrize("ratio", [0.1, 0.5])
@pytest.mark.parametrize("until", [3000, 7000])
def test_of_a_step_decay_the_first_level_is_the_stable_phase(ratio, until):
    steps = rows()
    lr = 1e-3 * warmup(steps, 200) * np.where(steps <= until, 1, ratio)
    plateau = find_plateau(steps, lr)
    assert (plateau.first_step, plateau.last_step, plateau.lr) == (200, until, 1e-3)


def test_a_step_decay_with_one_digit_and_no_warmup():
    steps = rows()
    plateau = find_plateau(steps, np.where(steps <= 4000, 1e-3, 1e-4))
    assert (plateau.first_step, plateau.last_step) == (10, 4000)


def test_a_plateau_below_an_early_higher_rate_is_used_and_named():
    steps = rows()
    lr = np.where(steps <= 300, 1e-3, 5e-4)
    phase = choose_stable_phase(steps, lr, 10_000, NOTHING, None, allow_non_stable=False)
    assert (phase.first_step, phase.last_step) == (310, 10_000)
    assert "below its highest value 0.001" in phase.warnings[0]


def test_a_learning_rate_that_jitters_in_its_last_digits_is_constant():
    steps = rows()
    noise = np.random.default_rng(0).uniform(-3e-5, 3e-5, len(steps))
    plateau = find_plateau(steps, PEAK * warmup(steps, 500) * (1 + noise))
    assert plateau.last_step == 10_000
    assert plateau.first_step == pytest.approx(500, abs=10)


def test_rows_without_a_learning_rate_do_not_interrupt_the_plateau():
    steps = rows()
    lr = with_decay(steps, 8000, "linear")
    lr[::7] = np.nan
    lr[60:400] = np.nan
    plateau = find_plateau(steps, lr)
    assert plateau.first_step == pytest.approx(500, abs=20)
    assert plateau.last_step == pytest.approx(8000, abs=20)


def test_a_last_row_that_logs_lr_zero_is_cut_off():
    lr = np.full(1000, PEAK)
    lr[-1] = 0.0
    assert find_plateau(rows(), lr).last_step == 9990


def test_short_logs():
    steps = np.linspace(100, 3000, 30)
    assert find_plateau(steps, with_decay(steps, 2400, "linear")).last_step == 2400
    assert find_plateau(steps, cosine(steps)) is None
    assert find_plateau(steps[:4], np.full(4, PEAK)) is None


def test_hostile_learning_rates_have_no_plateau():
    steps = rows()
    for lr in (np.zeros(1000), np.full(1000, np.nan), np.full(1000, -1.0)):
        assert find_plateau(steps, lr) is None


@given(
    warm=st.integers(2, 30), stable=st.integers(60, 300), decay=st.integers(0, 50), scale=st.floats(1e-8, 1e3)
)
def test_the_bounds_are_found_for_any_wsd_at_any_scale(warm, stable, decay, scale):
    up = np.arange(1, warm) / warm
    down = 1 - np.arange(1, decay + 1) / (decay + 1)
    lr = scale * np.concatenate([up, np.ones(stable), down])
    plateau = find_plateau(np.arange(1, len(lr) + 1, dtype=float), lr)
    assert (plateau.first_step, plateau.last_step) == (warm, warm + stable - 1)


def test_a_long_log_is_searched_as_exactly_as_a_short_one():
    steps = np.arange(1, 400_001, dtype=float)
    lr = PEAK * np.minimum(1, steps / 2001) * np.clip((400_001 - steps) / 77_777, 0, 1)
    plateau = find_plateau(steps, lr)
    assert plateau.first_step == pytest.approx(2001, abs=1)
    assert plateau.last_step == pytest.approx(400_001 - 77_777, abs=10)


class TestChoice:
    """Options come first, then the learning rate, then run.json, then a guess."""

    steps = rows()
    wsd = with_decay(rows(), 8000, "linear")

    def choose(self, lr, given=NOTHING, written=None, allow=False):
        return choose_stable_phase(self.steps, lr, 10_000, given, written, allow_non_stable=allow)

    def test_options_win_over_the_learning_rate(self):
        phase = self.choose(self.wsd, Known(1000, 6000, "--warmup-steps 1000 --stable-until 6000"))
        assert (phase.first_step, phase.last_step) == (1000, 6000)
        assert phase.source == "--warmup-steps 1000 --stable-until 6000"
        assert phase.warnings == []

    def test_one_option_leaves_the_other_end_to_the_learning_rate(self):
        phase = self.choose(self.wsd, Known(1000, None, "--warmup-steps 1000"))
        assert (phase.first_step, phase.last_step) == (1000, 8000)
        assert "--warmup-steps 1000" in phase.source
        assert "constant lr" in phase.source
        phase = self.choose(self.wsd, Known(None, 6000, "--stable-until 6000"))
        assert (phase.first_step, phase.last_step) == (500, 6000)

    def test_options_that_reach_into_the_decay_are_warned_of(self):
        phase = self.choose(self.wsd, Known(1000, 9900, "options"))
        assert "learning rate changes" in phase.warnings[0]

    def test_run_json_is_used_where_there_is_no_learning_rate(self):
        phase = self.choose(None, written=Known(300, 7000, "run.json"))
        assert (phase.first_step, phase.last_step, phase.source) == (300, 7000, "run.json")

    def test_run_json_that_contradicts_the_learning_rate_is_named(self):
        phase = self.choose(self.wsd, written=Known(3000, 5000, "run.json"))
        assert (phase.first_step, phase.last_step) == (500, 8000)
        assert len(phase.warnings) == 2
        assert all("the log was believed" in warning for warning in phase.warnings)

    def test_run_json_that_agrees_is_not_mentioned(self):
        assert self.choose(self.wsd, written=Known(500, 8000, "run.json")).warnings == []

    def test_the_guess_is_said(self):
        phase = self.choose(None)
        assert (phase.first_step, phase.last_step) == (100, 10_000)
        assert "guess" in phase.source
        assert "--warmup-steps" in phase.warnings[0]

    def test_a_given_warmup_needs_no_guess_and_no_warning(self):
        phase = self.choose(None, Known(250, None, "--warmup-steps 250"))
        assert (phase.first_step, phase.last_step) == (250, 10_000)
        assert phase.warnings == []

    def test_a_curve_that_is_never_constant_is_refused(self):
        with pytest.raises(
            BadInputError, match=r"never constant.*cosine.*--allow-non-stable.*not comparable"
        ):
            self.choose(cosine(self.steps))

    def test_unless_both_ends_are_given(self):
        phase = self.choose(cosine(self.steps), Known(600, 5000, "options"))
        assert (phase.first_step, phase.last_step) == (600, 5000)
        assert "learning rate changes" in phase.warnings[0]

    def test_or_the_user_insists(self):
        phase = self.choose(cosine(self.steps), allow=True)
        assert (phase.first_step, phase.last_step) == (500, 10_000)
        assert "not comparable" in phase.warnings[0]
