"""What is said of weak data, and which run is asked for next."""

import re

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from strategies import exact

from ebfit.fitting import Observations, fit_targets, next_run
from ebfit.fitting.coupling import fit_law
from ebfit.fitting.leverage import leave_out
from ebfit.laws import LAWS, revised

FREE = revised.free_from_params(
    {"s_min": 100.0, "s_1": 200.0, "s_opt": 400.0, "s_2": 600.0, "c": 2.0, "e_min": 1e6}
)
B_MIN, B_OPT = 800.0, 2500.0


def observed(reached, ended=(), absent=()):
    """Sizes that reached target 0 after so many steps, that ended above it, and that tell of target 1 alone."""
    rows = [(b, s, False) for b, s in reached] + [(b, s, True) for b, s in ended]
    rows += [(b, np.nan, False) for b in absent]
    log_batch = np.log([b for b, _, _ in rows])
    first = np.array([s for _, s, _ in rows], dtype=float)
    return Observations(
        log_batch=log_batch,
        log_steps=np.log(np.stack([first, np.full(len(rows), 5000.0)], axis=1)),
        censored=np.array([[c, False] for _, _, c in rows]),
        covariance=np.zeros((len(rows), 2, 2)),
    )


def fit(batches, *, noise=0.01, ended=None, seed=0, moved=None):
    """Fit the law above; ``moved``: index of a batch size -> factor that its steps are off by."""
    log_batch = np.log(batches)
    noises = noise * np.random.default_rng(seed).standard_normal(len(batches))
    for i, factor in (moved or {}).items():
        noises[i] += np.log(factor)
    log_ended = {float(np.log(b)): float(np.log(s)) for b, s in (ended or {}).items()}
    data = exact(log_batch, revised.log_steps(FREE, log_batch) + noises, log_ended)
    return fit_targets("revised", data, replicates=200, confidence=0.95, seed=0)[0]


def the_one(warnings, words):
    found = [text for text in warnings if words in text]
    assert len(found) == 1, warnings
    return found[0]


# --- the next run --------------------------------------------------------------------------------------------------

FALLING = [(1000, 400.0), (2000, 180.0), (4000, 90.0)]


def test_towards_small_batches_half_the_smallest_for_twice_its_tokens():
    assert next_run.smaller(observed(FALLING), 0).order == "run 500 tokens for 1,600 steps at most"


def test_a_small_run_that_ended_early_goes_on():
    run = next_run.smaller(observed(FALLING, ended=[(500, 900.0)]), 0)
    assert (run.order, run.continues) == ("train 500 tokens on to 1,600 steps", True)


@pytest.mark.parametrize("ended", [(500, 2000.0), (450, 1e6)])
def test_where_a_small_run_has_shown_that_it_does_not_get_there_the_gap_to_it_is_halved(ended):
    run = next_run.smaller(observed(FALLING, ended=[(100, 1e6), ended]), 0)
    assert not run.continues
    assert ended[0] * 1.2 < np.exp(run.log_batch) < 1000 / 1.2
    assert np.exp(run.log_batch + run.log_steps) == pytest.approx(2 * 1000 * 400)


def test_towards_large_batches_twice_the_largest_for_as_many_steps():
    assert next_run.larger(observed(FALLING), 0).order == "run 8,000 tokens for 90 steps at most"


def test_a_large_run_that_was_cut_short_goes_on():
    cut = observed(FALLING, ended=[(16000, 40.0), (8000, 50.0)])
    assert next_run.larger(cut, 0).order == "train 8,000 tokens on to 90 steps"


def test_large_runs_that_do_not_count_are_not_asked_for_again():
    """They were below the target before their stable phase began, and would be again."""
    data = observed(FALLING, absent=[8000])
    assert next_run.larger(data, 0) is None
    assert "lower target" in next_run.larger_or_lower(data, 0)


@pytest.mark.parametrize(
    ("sizes", "b_opt", "next_size"),
    [
        ([1024, 2048, 8192, 16384], 3000, 4096),  # the only gap of a factor 4
        ([1024, 2048, 4096], 1500, 1536),  # of equal gaps the lower; whole halves of the smaller size
        ([1024, 2048, 8192, 65536], 1500, 4096),  # a wide gap far above B_opt does not matter
        ([1000, 1200, 1500], 1200, 1300),
    ],
)
def test_between_batch_sizes_the_widest_gap_near_b_opt_is_halved(sizes, b_opt, next_size):
    data = observed([(size, 1e6 / size) for size in sizes])
    run = next_run.between(data, 0, np.log(b_opt))
    assert np.exp(run.log_batch) == pytest.approx(next_size)
    below = max(size for size in sizes if size < next_size)
    assert np.exp(run.log_steps) == pytest.approx(1e6 / below)


sweeps = st.lists(st.floats(1.0, 1e7), min_size=2, max_size=8, unique=True).filter(
    lambda sizes: min(np.diff(sorted(sizes)) / sorted(sizes)[:-1]) > 0.05
)


@given(sweeps, st.integers(-20, 20))
def test_the_unit_of_tokens_decides_nothing(sizes, power):
    def runs(unit):
        data = observed([(size * unit, 1e6 / size**0.8) for size in sizes])
        return [next_run.smaller(data, 0), next_run.larger(data, 0)]

    for plain, scaled in zip(runs(1.0), runs(2.0**power), strict=True):
        assert scaled.log_batch - power * np.log(2.0) == pytest.approx(plain.log_batch, abs=1e-9)
        assert scaled.log_steps == pytest.approx(plain.log_steps, abs=1e-9)


@given(sweeps, st.floats(1.0, 1e7))
@example([1.0, 1.0625], 1.0)  # two digits are too few to tell them apart
def test_what_is_asked_for_between_lies_between(sizes, b_opt):
    data = observed([(size, 1e6 / size**0.8) for size in sizes])
    size = float(np.exp(next_run.between(data, 0, np.log(b_opt)).log_batch))
    assert min(sizes) < size < max(sizes)
    for known in sizes:
        other = next_run.beside(data, 0, np.log(known))
        assert other is None or min(abs(np.log(sizes) - other.log_batch)) > np.log(1.05)


# --- what a fit says -----------------------------------------------------------------------------------------------


def test_large_batches_alone_ask_for_half_the_smallest():
    text = the_one(fit(np.geomspace(4000, 100_000, 8)).warnings, "smallest batch, 4,000 tokens")
    assert "run 2,000 tokens for" in text
    # twice the tokens of the smallest; S(4000) of the law is 260
    steps = int(re.search(r"for ([\d,]+) steps at most", text)[1].replace(",", ""))
    assert 4 * 250 < steps <= 1100


def test_what_was_asked_for_brackets_b_opt():
    sizes = np.geomspace(3200, 100_000, 9)
    before = fit(sizes)
    assert before.numbers["b_opt"].status == "upper_bound"
    asked = re.search(r"run ([\d,]+) tokens", the_one(before.warnings, "smallest batch"))
    after = fit(np.append(sizes, float(asked[1].replace(",", ""))))
    assert after.numbers["b_opt"].status == "ok"


def test_small_batches_alone_ask_for_twice_the_largest():
    text = the_one(fit(np.geomspace(880, 1900, 7)).warnings, "largest batch, 1,900 tokens")
    assert "run 3,800 tokens for" in text


def test_few_batch_sizes_ask_for_a_size_between():
    text = the_one(fit([900, 1300, 2000, 8000, 16000, 32000]).warnings, "for a law of six parameters")
    assert (
        text.endswith("Run at least 7, next 4,000 tokens for 490 steps at most.")
        or "next 4,000 tokens" in text
    )


def test_ended_runs_are_asked_to_go_on_or_for_sizes_between():
    result = fit(np.geomspace(1000, 24_000, 6), ended={600.0: 5000.0, 400.0: 5000.0})
    text = the_one(result.warnings, "only 6 batch sizes reached this loss")
    assert re.search(r"train those longer or add sizes between, such as [\d,]+ tokens for", text)


def test_no_plateau_is_told_where_steps_still_fall():
    """S_min is not known, and the reader wonders why."""
    falling = fit(np.geomspace(900, 6000, 8), noise=0.03)
    assert falling.s_min is None
    text = the_one(falling.warnings, "who needs S_min")
    assert "run 12,000 tokens" in text
    assert not [text for text in fit(np.geomspace(900, 50_000, 10)).warnings if "S_min" in text]


# --- a batch size that a number hangs on ---------------------------------------------------------------------------


@pytest.mark.parametrize("coupling", ["none", "shared"])
def test_leaving_out_a_batch_size_is_fitting_without_it(coupling):
    batches = np.geomspace(900, 45_000, 9)
    laws = [FREE, FREE + np.array([0.3, 0.1, 0, 0, 0, 0])]
    log_steps = np.stack([revised.log_steps(law, np.log(batches)) for law in laws], axis=1)
    log_steps = log_steps + 0.02 * np.random.default_rng(1).standard_normal(log_steps.shape)
    # the smallest batch size does not reach the second target
    data = Observations(np.log(batches), log_steps, np.zeros((9, 2), bool), np.zeros((9, 2, 2)))
    data.censored[0, 1] = True
    law = LAWS["revised"]
    fitted = fit_law(law, data, coupling)
    without = leave_out(data, fitted)
    assert without.log_batch == pytest.approx(np.log(batches))
    assert np.isnan(without.log_change["b_opt"]).nonzero() == ([0], [1])
    whole = law.log_numbers(fitted.point.free)
    for i in (0, 3, 8):
        alone = fit_law(law, data.take_runs(np.delete(np.arange(9), i)), coupling)
        other = law.log_numbers(alone.point.free)
        for name in ("b_min", "b_opt"):
            change = (other[name] - whole[name])[0]
            # the misfit that weighs the shape prior is that of all points, so numbers agree nearly and not exactly
            assert without.log_change[name][i, 0] == pytest.approx(float(change), abs=0.1)


def test_points_on_a_law_hang_on_none_of_them():
    fits = [fit(np.geomspace(900, 45_000, 14), noise=0.003, seed=seed) for seed in range(5)]
    assert not [text for result in fits for text in result.warnings if "hangs on" in text]


@pytest.mark.parametrize(
    ("name", "truth", "batches", "moved", "named"),
    [
        # a run that took three times the steps of the law makes its own size look like B_min
        ("B_min", B_MIN, [1300, *np.geomspace(1800, 50_000, 9)], {0: 3.0}, "1,300"),
        # and one that took too few, far above B_opt, pulls B_opt up
        ("B_opt", B_OPT, [900, *np.geomspace(1300, 50_000, 9)], {4: 0.7}, "5,109"),
    ],
)
def test_a_run_that_makes_the_number_is_named_with_what_the_others_say(name, truth, batches, moved, named):
    result = fit(batches, noise=0.005, moved=moved)
    text = the_one(result.warnings, f"{name} hangs on one batch size, {named} tokens")
    told = float(re.search(r"it would be ([\d,]+),", text)[1].replace(",", ""))
    number = result.numbers[name.lower()]
    assert not number.low <= told <= number.high
    assert abs(np.log(told / truth)) < 0.2 < abs(np.log(number.value / truth))
    assert "Repeat that size with another seed" in text


def test_a_lone_small_batch_asks_for_a_size_beside_it():
    """The next size is more than five times as large, and B_min could lie anywhere below."""
    text = the_one(
        fit([850, *np.geomspace(4500, 50_000, 9)]).warnings, "B_min hangs on one batch size, 850 tokens"
    )
    assert "run 2,125 tokens" in text  # two and a half times 850, halfway to 4,500
