"""Leaving a batch size out: what is predicted, what is known of it then, and AICc beside it."""

from dataclasses import replace

import joblib
import numpy as np
import pytest
from joblib.externals.loky.process_executor import TerminatedWorkerError
from strategies import batches_in_every_stage, exact

from ebfit.errors import BadInputError
from ebfit.fitting import Observations
from ebfit.fitting.comparison import CONTESTANTS, MISS, Fitted, Refit, aicc, leave_one_out, left_out
from ebfit.laws import classic, revised, surface

BY_NAME = {contestant.name: contestant for contestant in CONTESTANTS}
LOSSES = [2.4, 2.2]
REVISED = revised.free_from_params(
    {"s_min": 100.0, "s_1": 180.0, "s_opt": 400.0, "s_2": 650.0, "c": 2.0, "e_min": 1e6}
)
SURFACE = surface.free_from_params(
    {"l_0": 1.7, "b": 30.0, "beta": 0.5, "c": 8.0, "gamma": 0.4}, np.array(LOSSES)
)


def of_two_targets(log_batch, log_steps, ended=None):
    """Observations without error at two targets, shape (R, 2); ``ended``: the last log step of every run."""
    last = np.inf if ended is None else ended
    censored = log_steps > last
    return Observations(
        log_batch, np.where(censored, last, log_steps), censored, np.zeros((len(log_batch), 2, 2))
    )


def revised_world(noise=0.0, seed=0):
    log_batch = batches_in_every_stage(REVISED)
    second = REVISED + np.array([0.8, 0.3, 0.0, 0.0, 0.0, 0.0])
    log_steps = np.stack([revised.log_steps(free, log_batch) for free in (REVISED, second)], axis=1)
    moved = noise * np.random.default_rng(seed).standard_normal(log_steps.shape)
    return of_two_targets(log_batch, log_steps + moved, ended=np.log(30_000.0))


def surface_world():
    log_batch = float(surface.log_numbers(SURFACE, np.array(LOSSES))["b_min"].max()) + np.linspace(
        0.1, 5.0, 10
    )
    return of_two_targets(log_batch, surface.log_steps(SURFACE, np.array(LOSSES), log_batch).T)


def classic_world():
    log_batch = np.linspace(7.0, 12.0, 10)
    log_steps = [classic.log_steps(np.array([5.0, 14.0]) + shift, log_batch) for shift in (0.0, 0.7)]
    return of_two_targets(log_batch, np.stack(log_steps, axis=1))


def straight_world():
    log_batch = np.array([7.0, 7.5, 8.7, 9.0, 9.9, 11.0, 11.2])
    return of_two_targets(log_batch, np.stack([12.0 - 0.8 * log_batch, 13.0 - 0.8 * log_batch], axis=1))


def median_errors(data, names):
    """The median error of each contestant at batch sizes between others."""
    left_out = leave_one_out(data, LOSSES, [BY_NAME[name] for name in names])
    return np.median(left_out.errors()[:, left_out.between & ~left_out.ended], axis=1)


# --- worlds in which one contestant is right ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("world", "right", "wrong"),
    [
        (
            revised_world,
            ["revised alone", "revised none", "revised shared"],
            ["classic", "surface", "straight lines"],
        ),
        (surface_world, ["surface"], ["classic", "revised alone", "straight lines"]),
        (classic_world, ["classic"], ["straight lines"]),
        (straight_world, ["straight lines"], ["classic"]),
    ],
)
def test_without_noise_the_law_of_the_world_is_exact_and_others_are_not(world, right, wrong):
    errors = median_errors(world(), right + wrong)
    assert errors[: len(right)].max() < 1e-3
    assert errors[len(right) :].min() > 5e-3


# --- nothing leaks -----------------------------------------------------------------------------------------------


def test_what_a_left_out_batch_size_took_moves_no_prediction_of_it():
    data = revised_world(noise=0.02)
    before = leave_one_out(data, LOSSES, CONTESTANTS)
    changed = data.log_steps.copy()
    changed[4] += [0.9, -0.4]
    changed_se = data.covariance.copy()
    changed_se[4] = 0.01 * np.eye(2)
    after = leave_one_out(replace(data, log_steps=changed, covariance=changed_se), LOSSES, CONTESTANTS)
    here = before.log_batch == data.log_batch[4]
    np.testing.assert_array_equal(after.predicted[:, here], before.predicted[:, here])
    np.testing.assert_allclose(after.observed[here] - before.observed[here], [0.9, -0.4])
    assert np.any(after.predicted[:, ~here] != before.predicted[:, ~here], axis=1).all()  # those of others do


def test_all_seeds_of_a_batch_size_leave_with_it():
    data = revised_world(noise=0.02)
    seeds = data.take_runs(np.repeat(np.arange(len(data.log_batch)), 2))
    seeds.log_steps[1::2] += 0.01
    before = leave_one_out(seeds, LOSSES, [BY_NAME["classic"]])
    seeds.log_steps[8] += 1.0  # one of the two runs of a batch size
    after = leave_one_out(seeds, LOSSES, [BY_NAME["classic"]])
    here = before.log_batch == seeds.log_batch[8]
    np.testing.assert_array_equal(after.predicted[:, here], before.predicted[:, here])
    # what was observed is the mean of the seeds
    np.testing.assert_allclose(after.observed[here] - before.observed[here], 0.5)


# --- what is scored ----------------------------------------------------------------------------------------------


def test_edges_and_runs_that_ended_are_told_apart():
    log_batch = batches_in_every_stage(REVISED)
    log_steps = revised.log_steps(REVISED, log_batch)
    below = float(revised.log_numbers(REVISED)["b_min"]) - 0.3
    data = exact(log_batch, log_steps, {below: 11.0})
    left_out = leave_one_out(
        data, [2.4], [BY_NAME["revised alone"], BY_NAME["classic"], BY_NAME["straight lines"]]
    )
    assert left_out.log_batch[left_out.ended] == pytest.approx([below])
    assert left_out.observed[left_out.ended] == pytest.approx([11.0])
    reached = ~left_out.ended
    np.testing.assert_array_equal(left_out.between[reached], [False, *[True] * 8, False])
    errors = left_out.errors()
    assert np.isnan(errors[:, left_out.ended]).all()
    assert np.isnan(errors[2]).tolist() == (~left_out.between | left_out.ended).tolist()
    # the revised law knows of B_min without the run below it, the classic law knows of none
    assert left_out.says_more()[:2, left_out.ended].ravel().tolist() == [True, False]


def test_never_counts_as_a_factor_of_ten():
    never = replace(BY_NAME["classic"], fit=lambda refit: Fitted(lambda b: np.full((2, len(b)), np.inf), 2.0))
    left_out = leave_one_out(straight_world(), LOSSES, [never])
    assert set(left_out.errors().ravel()) == {MISS}
    assert left_out.says_more().all()


def test_a_process_that_is_killed_ends_in_a_sentence(monkeypatch):
    def killed(self, tasks):
        raise TerminatedWorkerError("A worker process managed by the executor was unexpectedly terminated.")

    monkeypatch.setattr(left_out, "_WORTH_PROCESSES", 0)
    monkeypatch.setattr(joblib.Parallel, "__call__", killed)
    with pytest.raises(BadInputError, match=r"refits the laws was killed.*Compare them at fewer targets"):
        leave_one_out(straight_world(), LOSSES, CONTESTANTS)


def test_too_few_batch_sizes_to_leave_one_out_give_nothing():
    data = straight_world().take_runs(np.arange(5))
    assert leave_one_out(data, LOSSES, CONTESTANTS).predicted.shape == (len(CONTESTANTS), 0)


def test_units_of_tokens_and_the_order_of_runs_change_no_error():
    data = revised_world(noise=0.02)
    entered = [
        BY_NAME[name] for name in ("revised none", "revised shared", "surface", "classic", "straight lines")
    ]
    errors = leave_one_out(data, LOSSES, entered).errors()
    in_billions = replace(data, log_batch=data.log_batch + np.log(1e9))
    # On points with a minimum the classic law collapses: its S_min goes to zero along a valley without a floor, and how
    # far the solver goes is a matter of rounding, which other units change.
    close = np.array([1e-3 if one.name == "classic" else 1e-5 for one in entered])[:, None]
    apart = np.abs(leave_one_out(in_billions, LOSSES, entered).errors() - errors)
    assert np.all((apart < close) | np.isnan(errors))
    shuffled = data.take_runs(np.random.default_rng(5).permutation(len(data.log_batch)))
    np.testing.assert_allclose(leave_one_out(shuffled, LOSSES, entered).errors(), errors, atol=1e-9)


# --- AICc --------------------------------------------------------------------------------------------------------


def test_at_one_target_aicc_is_the_textbook_formula():
    data = exact(
        np.linspace(7.0, 12.0, 9), classic.log_steps(np.array([5.0, 14.0]), np.linspace(7.0, 12.0, 9))
    )
    residual = 0.02 * np.random.default_rng(1).standard_normal(9)
    fitted = Fitted(lambda log_batch: (data.log_steps[:, 0] + residual)[None], 2.0)
    n, k = 9, 3.0  # the variance is a parameter too
    expected = n * np.log(np.mean(residual**2)) + n + 2 * k + 2 * k * (k + 1) / (n - k - 1)
    assert aicc(Refit(data, [2.4]), fitted) == pytest.approx(expected, abs=1e-4)


def test_targets_that_are_crossed_by_the_same_runs_are_hardly_more_evidence():
    """What a run gets wrong it gets wrong at both of two targets: they count little more than one."""
    log_batch = np.linspace(9.2, 14.0, 40)
    rng = np.random.default_rng(3)
    noise = 0.02 * (
        np.sqrt(0.95) * rng.standard_normal((40, 1)) + np.sqrt(0.05) * rng.standard_normal((40, 2))
    )
    wave = 0.02 * np.cos(np.arange(40.0))[:, None]

    def lead(targets):
        """By how much AICc prefers the law of the world to one that is off by about the noise at every run."""
        shape = (40, targets)
        data = Observations(
            log_batch, 5.0 + noise[:, :targets], np.zeros(shape, dtype=bool), np.zeros((*shape, targets))
        )
        right = Fitted(lambda log_batch: np.full(shape[::-1], 5.0), 2.0)
        wrong = Fitted(lambda log_batch: (5.0 + wave + np.zeros(shape)).T, 2.0)
        refit = Refit(data, [2.4, 2.3][:targets])
        return aicc(refit, wrong) - aicc(refit, right)

    assert lead(1) > 10.0
    assert lead(2) == pytest.approx(lead(1), rel=0.2)


def test_a_law_with_as_many_parameters_as_points_has_no_aicc():
    data = straight_world()
    fitted = Fitted(lambda log_batch: data.log_steps.T, 12.0)
    assert aicc(Refit(data, LOSSES), fitted) is None
    assert aicc(Refit(data, LOSSES), replace(fitted, parameters=None)) is None
