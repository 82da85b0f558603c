"""The mathematics of a design: what runs tell before they are trained, and which are chosen."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from strategies import batches_in_every_stage, exact

from ebfit.designing import Goal, Knowledge, expected, joined, plan
from ebfit.designing.candidates import candidates, round_sizes
from ebfit.designing.choose import choose, cost
from ebfit.designing.foresight import Foresight, foresee, information_left
from ebfit.designing.open_sides import open_sides, runs_past_the_edges
from ebfit.designing.possible import NUMBERS, Possible
from ebfit.designing.rehearse import rehearse
from ebfit.fitting import Observations
from ebfit.laws import ShapePrior, revised

SHAPE = revised.free_from_params(
    {"s_min": 300.0, "s_1": 600.0, "s_opt": 1000.0, "s_2": 1300.0, "c": 4.0, "e_min": 1e7}
)
OK = {"b_opt": ["ok", "ok"], "b_min": ["ok", "ok"]}


@dataclass(frozen=True)
class OneNumber:
    """A law with one number that is not known: log S = x h(log B), and B_opt is e^x."""

    name = "one number"
    free_names = ("a", "b", "x")
    prior = ShapePrior(centre=np.zeros(3), sd=np.array([np.inf, np.inf, 0.5]))

    def sensitivity(self, log_batch):
        return np.sin(log_batch)

    def log_steps_jacobian(self, free, log_batch):
        slope = self.sensitivity(log_batch)
        jacobian = np.zeros((*free.shape[:-1], len(log_batch), 3))
        jacobian[..., 2] = slope
        return free[..., 2, None] * slope, jacobian

    def log_numbers(self, free):
        return {"b_opt": free[..., 2], "b_min": free[..., 2]}


def one_number_at(log_batch, misfit=0.1):
    """What runs tell of the only number there is, where nothing was run but at a batch size that tells nothing."""
    possible = Possible(OneNumber(), np.zeros((1, 1, 3)), np.inf, np.array([misfit]), np.array([5.0]))
    return foresee([possible], exact(np.array([0.0]), np.array([0.0])), np.zeros(1), np.zeros(1), log_batch)


def sweep(noise=0.02, places=(1.15, 1.6, 2.6, 5.0, 10.0, 25.0, 60.0), seed=1, seeds=1):
    """Two targets of one shape, at multiples of B_min of the first; and the law of each."""
    rng = np.random.default_rng(seed)
    laws = [SHAPE, SHAPE + np.array([0.5, 0.2, 0.0, 0.0, 0.0, 0.0])]
    b_min = float(revised.log_numbers(SHAPE)["b_min"])
    log_batch = np.repeat(b_min + np.log(places), seeds)
    log_steps = np.array([revised.log_steps(law, log_batch) for law in laws]).T
    log_steps = log_steps + noise * rng.standard_normal((len(log_batch), 1))
    last = float(np.log(30_000.0))
    censored = log_steps > last
    return Observations(
        log_batch, np.where(censored, last, log_steps), censored, np.zeros((len(log_batch), 2, 2))
    ), laws


@pytest.fixture(scope="module")
def known():
    data, _ = sweep()
    return Knowledge.of(data, OK, "pooled", seed=0)


def spend(known, budget, number="b_opt", targets=(0, 1), seq_len=None, full_length=False):
    goal = Goal(number, list(targets), full_length)
    return plan(known, goal, budget, known.sizes(goal, seq_len))


# --- what a run tells ----------------------------------------------------------------------------------------------


def test_of_one_unknown_number_most_is_told_where_steps_depend_on_it_most():
    """The gain of a run is log sqrt(1 + (prior sd * sensitivity / error)^2), nothing else."""
    log_batch = np.linspace(0.1, 3.0, 30)
    known = one_number_at(log_batch)
    gains = known.gains("b_opt", [0], np.full((30, 1), 100.0))[:, 0]
    slope = np.sin(log_batch)
    assert_allclose(gains, 0.5 * np.log1p((0.5 * slope / 0.1) ** 2), rtol=1e-3)
    assert np.argmax(gains) == np.argmin(np.abs(log_batch - np.pi / 2))


def test_information_is_that_of_the_normal_equations():
    """For one target, the variance of log B_opt and log B_min is that of least squares with the prior."""
    law, log_batch = SHAPE, batches_in_every_stage(SHAPE)
    misfit = 0.05
    possible = Possible(revised, law[None, None], np.inf, np.array([misfit]), np.array([5.0]))
    data = exact(log_batch, revised.log_steps(law, log_batch))
    foresight = foresee([possible], data, np.zeros(1), np.zeros(1), log_batch[:1])
    jacobian = revised.log_steps_jacobian(law, log_batch)[1]
    prior = np.append([3.0, 3.0], revised.prior.sd[2:])
    normal = jacobian.T @ jacobian / (misfit**2 + 1e-6) + np.diag(1.0 / prior**2)
    slopes = possible.log_numbers()[1][0, 0]
    variance = np.einsum("ij,jk,ik->i", slopes, np.linalg.inv(normal), slopes)
    for row, number in enumerate(NUMBERS):
        assert_allclose(foresight.log_sd(number, [0])[0], 0.5 * np.log(variance[row]), atol=1e-4)


def test_a_run_after_another_tells_what_both_together_do(known):
    log_batch = np.log(known.sizes(Goal("b_opt", [0, 1]), None))
    foresight = known.foresight(np.exp(log_batch))
    one_by_one = foresight.after(3, 8.0).after(7, 7.5).after(3, 8.0)
    at_once = foresight.after_all([(3, 8.0), (7, 7.5), (3, 8.0)])
    assert_allclose(one_by_one.log_sd("b_opt", [0, 1]), at_once.log_sd("b_opt", [0, 1]), atol=1e-6)


def test_gains_are_what_a_run_then_brings(known):
    foresight = known.foresight(known.sizes(Goal("b_min", [0, 1]), None))
    length = np.full((foresight.log_steps.shape[1], 1), 8.0)
    gains = foresight.gains("b_min", [1], length)[:, 0]
    for size in (0, 5, len(gains) - 1):
        after = foresight.after(size, 8.0)
        assert_allclose(gains[size], foresight.spread("b_min", [1]) - after.spread("b_min", [1]), atol=1e-7)


def test_another_seed_tells_less_than_another_batch_size():
    """What the law gets wrong at a batch size, it gets wrong for every seed there."""
    known = one_number_at(np.array([1.5, np.pi - 1.5]))  # equally sensitive
    once = known.after(0, 100.0)
    again, beside = once.gains("b_opt", [0], np.full((2, 1), 100.0))[:, 0]
    assert 0.0 < again < 0.8 * beside


def test_a_run_that_ends_too_early_tells_the_less_the_earlier():
    """Of a normal number cut off in the middle, 1/2 + 1/pi of the information is left."""
    room = np.array([-1e9, -0.3, -0.1, 0.0, 0.1, 0.3, 1e9])
    left = information_left(room, np.full(7, 0.1))
    assert np.all(np.diff(left) > 0)
    assert left[0] < 1e-5
    assert left[-1] == 1.0
    assert left[3] == pytest.approx(0.5 + 1.0 / np.pi)


def test_a_batch_size_that_never_arrives_tells_nothing():
    data, laws = sweep()
    possible = Possible(revised, np.array(laws)[None], 0.2, np.full(2, 0.02), np.full(2, 5.0))
    below = revised.log_numbers(SHAPE)["b_min"] - 0.5
    foresight = foresee([possible], data, np.zeros(2), np.zeros(2), np.array([below]))
    assert foresight.gains("b_opt", [0, 1], np.array([[20.0]]))[0, 0] < 1e-4


# --- what there is to choose from ----------------------------------------------------------------------------------


def test_round_sizes_are_whole_sequences_few_and_close():
    sizes = round_sizes(5_000.0, 3e6, 1024)
    assert np.all(sizes % 1024 == 0)
    assert 5 < len(sizes) <= 40
    assert np.all(sizes[1:] / sizes[:-1] <= 2.0)
    assert {8192.0, 65536.0, 1048576.0} <= set(sizes)


@pytest.mark.parametrize("seq_len", [None, 512])
def test_round_sizes_double_with_the_tokens(seq_len):
    sizes = round_sizes(5_000.0, 3e5, seq_len)
    twice = round_sizes(10_000.0, 6e5, seq_len and 2 * seq_len)
    assert_allclose(twice, 2.0 * sizes, rtol=0)


def test_runs_are_long_enough_for_most_laws_and_no_longer(known):
    sizes = known.sizes(Goal("b_opt", [0, 1]), None)
    foresight = known.foresight(sizes)
    may_be = candidates(foresight, sizes)
    arrive = np.mean(foresight.log_steps <= may_be.log_length, axis=0)
    reachable = np.isfinite(may_be.log_length)
    assert np.all(arrive[reachable] >= 2.0 / 3.0)
    assert_allclose(may_be.steps[reachable], np.round(may_be.steps[reachable]), rtol=1e-9)
    middle = np.argmin(np.abs(np.log(sizes) - SHAPE[1]))
    assert may_be.log_length[middle, 0] < np.median(foresight.log_steps[:, middle, 0]) + 0.2


# --- what is chosen ------------------------------------------------------------------------------------------------


def test_the_budget_is_kept_and_used(known):
    for budget in (5e7, 1e8, 4e8):
        found = spend(known, budget)
        assert 0.7 * budget < found.tokens <= budget
        assert found.tokens == pytest.approx(np.sum(np.exp(found.log_batch + found.log_length)))


@pytest.mark.parametrize("number", NUMBERS)
def test_more_budget_never_promises_a_wider_interval(known, number):
    spreads = [spend(known, budget, number).after.spread(number, [0, 1]) for budget in (2e7, 4e7, 8e7, 3e8)]
    assert np.all(np.diff(spreads) < 0)


def test_tokens_that_abound_buy_dearer_runs_where_no_more_runs_are_allowed(known, monkeypatch):
    plenty = spend(known, 1e10)
    monkeypatch.setattr("ebfit.designing.choose._LESS_THRIFTY", ())
    thrifty = spend(known, 1e10)
    assert len(thrifty.runs) == len(plenty.runs) == 48
    assert plenty.tokens > 1.1 * thrifty.tokens
    assert plenty.after.spread("b_opt", [0, 1]) < thrifty.after.spread("b_opt", [0, 1])


def test_tokens_are_spent_where_they_tell_of_b_min(known):
    b_min = float(revised.log_numbers(SHAPE)["b_min"])
    near = [
        np.mean(spend(known, 3e8, number).log_batch < b_min + np.log(1.6)) for number in ("b_min", "b_opt")
    ]
    assert near[0] > near[1]
    assert spend(known, 3e8, "b_min").log_batch.min() < b_min + np.log(1.3)


def test_no_tokens_are_wasted_on_the_largest_batch_sizes(known):
    """Where steps fall no more with the batch size, tokens rise with it and nothing is told of B_opt."""
    assert spend(known, 3e8).log_batch.max() < SHAPE[1] + np.log(12.0)


def test_tokens_in_another_unit_change_the_design_in_that_alone():
    data, _ = sweep()
    doubled = replace(data, log_batch=data.log_batch + np.log(1024.0))
    plain = spend(Knowledge.of(data, OK, "pooled", 0), 2e8)
    scaled = spend(Knowledge.of(doubled, OK, "pooled", 0), 1024 * 2e8)
    assert_allclose(np.sort(scaled.log_batch), np.sort(plain.log_batch) + np.log(1024.0), rtol=1e-12)
    assert_allclose(scaled.after.spread("b_opt", [0, 1]), plain.after.spread("b_opt", [0, 1]), atol=1e-4)


def test_the_order_of_runs_changes_nothing():
    data, _ = sweep(seeds=2)
    order = np.random.default_rng(3).permutation(len(data.log_batch))
    plain = spend(Knowledge.of(data, OK, "pooled", 0), 2e8)
    turned = spend(Knowledge.of(data.take_runs(order), OK, "pooled", 0), 2e8)
    assert sorted(turned.runs) == sorted(plain.runs)


def test_full_length_runs_all_reach_the_lowest_target_that_counts(known):
    assert {aim for _, aim in spend(known, 4e8, full_length=True).runs} == {1}
    assert {aim for _, aim in spend(known, 4e8, targets=[0], full_length=True).runs} == {0}


def test_an_exchange_only_ever_improves(known):
    sizes = known.sizes(Goal("b_opt", [0, 1]), None)
    foresight = known.foresight(sizes)
    may_be = candidates(foresight, sizes)
    goal = Goal("b_opt", [0, 1])
    forced = [(len(sizes) - 1, 1)]  # a poor choice that has to stay
    runs = choose(foresight, may_be, goal, 3e8, forced)
    assert forced[0] in runs
    assert cost(may_be, runs) <= 3e8
    free = choose(foresight, may_be, goal, 3e8)
    assert _spread(foresight, may_be, free) < _spread(foresight, may_be, runs)


def _spread(foresight, may_be, runs):
    after = foresight.after_all([(size, float(may_be.log_length[size, aim])) for size, aim in runs])
    return after.spread("b_opt", [0, 1])


# --- sides that are open -------------------------------------------------------------------------------------------


SMALL, LARGE = (1.1, 1.2, 1.35, 1.5, 1.7), (5.0, 7.0, 10.0, 16.0, 30.0, 60.0)


@pytest.mark.parametrize(
    ("places", "status", "side"), [(SMALL, "lower_bound", "above"), (LARGE, "upper_bound", "below")]
)
def test_a_design_goes_to_the_side_that_is_open(places, status, side):
    data, _ = sweep(places=places)
    known = Knowledge.of(data, {"b_opt": [status] * 2, "b_min": ["ok"] * 2}, "pooled", 0)
    found = spend(known, 1e9)
    assert [open_.side for open_ in found.sides] == [side]
    assert not found.unpaid
    beyond = (
        found.log_batch > data.log_batch.max() if side == "above" else found.log_batch < data.log_batch.min()
    )
    assert beyond.any()


def test_where_the_open_side_is_too_dear_that_is_told():
    data, _ = sweep(places=SMALL)
    known = Knowledge.of(data, {"b_opt": ["lower_bound"] * 2, "b_min": ["ok"] * 2}, "pooled", 0)
    goal = Goal("b_opt", [0, 1])
    sizes = known.sizes(goal, None)
    foresight = known.foresight(sizes)
    sides = open_sides("b_opt", known.statuses["b_opt"], [0, 1], known.merged, foresight)
    runs, unpaid = runs_past_the_edges(sides, candidates(foresight, sizes), 1000.0)
    assert runs == []
    assert [side.side for side, _ in unpaid] == ["above"]
    assert 1000.0 < unpaid[0][1] < 1e9


# --- what is expected ----------------------------------------------------------------------------------------------


def test_expected_intervals_are_narrower_the_more_is_spent_and_start_from_the_real_ones(known):
    after = [expected(known, spend(known, budget), "b_opt", 0, 0.95, 0.3) for budget in (2e7, 8e7, 3e8)]
    assert [item.before for item in after] == [0.3] * 3
    assert 0.3 > after[0].after > after[1].after > after[2].after > 0.0
    assert after[0].bracketed == 1.0


def test_an_open_number_is_expected_by_the_laws_that_are_possible(known):
    numbers = np.concatenate([laws.log_numbers()[0] for laws in known.possible])
    item = expected(known, spend(known, 8e7), "b_opt", 1, 0.95, None)
    assert 1.9 * np.std(numbers[:, 1, 0]) < item.before < 3.0 * np.std(numbers[:, 1, 0])
    assert item.after < item.before


def test_the_check_comes_out_near_what_was_expected(known):
    """Intervals of simulated runs, fitted by the whole pipeline, are narrower than before, and hold the truth."""
    found = spend(known, 3e8)
    zeros = np.zeros(2)
    options = {"coupling": "pooled", "confidence": 0.95, "count": 3, "seed": 0}
    args = (known.runs, known.possible, known.seed_sd, zeros, found.log_batch, found.log_length)
    rehearsal = rehearse(*args, **options)
    again = rehearse(*args, **options)
    assert_allclose(rehearsal.half_width, again.half_width)
    numbers = np.concatenate([laws.log_numbers()[0] for laws in known.possible])
    before = 2.0 * np.std(numbers[:, :, 0], axis=0)
    assert np.all(np.nanmedian(rehearsal.half_width[..., 0], axis=0) < 0.8 * before)
    assert np.nanmax(np.abs(rehearsal.error[..., 0])) < 0.5


def test_joined_runs_are_those_of_both():
    data, _ = sweep()
    both = joined(data, data.take_runs(np.arange(2)))
    assert len(both.log_batch) == len(data.log_batch) + 2
    assert isinstance(one_number_at(np.array([1.0])), Foresight)
