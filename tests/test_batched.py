"""The batched solver against lmfit, on problems as bad as sweeps are: few points, noise, censored runs."""

from dataclasses import replace

import numpy as np
import pytest
from strategies import random_revised_law

from ebfit.fitting import batched
from ebfit.fitting.batched import solve
from ebfit.fitting.point import cost, polish
from ebfit.fitting.problem import Problems
from ebfit.laws import classic, power, revised

LAWS = pytest.mark.parametrize("law", [revised, classic, power], ids=lambda law: law.name)


def _stress(law, count, seed, points=12):
    """Draw problems of 5 to ``points`` points, padded, and starts of each (count, k, p)."""
    rng = np.random.default_rng(seed)
    shape = (count, points)
    log_batch, log_steps, sd = np.zeros(shape), np.zeros(shape), np.ones(shape)
    censored, present = np.zeros(shape, dtype=bool), np.zeros(shape, dtype=bool)
    starts = []
    for k in range(count):
        free = random_revised_law(rng)
        size = int(rng.integers(5, points + 1))
        log_b_min = float(revised.log_numbers(free)["b_min"])
        batch = np.append(rng.uniform(-1.0, 4.0, size - 3), rng.uniform(0.2, 4.0, 3)) + log_b_min
        exact = revised.log_steps(free, batch)
        # below B_min runs end somewhere; others are now and then stopped early
        ended = ~np.isfinite(exact) | ((rng.random(size) < 0.1) & (np.arange(size) < size - 3))
        last = np.where(np.isfinite(exact), exact - 0.3, free[0] + rng.uniform(0.5, 2.0))
        noise = float(rng.choice([1e-3, 0.02, 0.1]))
        log_batch[k, :size] = batch
        log_steps[k, :size] = np.where(ended, last, exact) + noise * rng.standard_normal(size)
        sd[k, :size] = noise * rng.uniform(0.5, 2.0, size)
        censored[k, :size], present[k, :size] = ended, True
        candidates = law.starts(batch[~ended], log_steps[k, :size][~ended])
        starts.append(candidates[rng.permutation(len(candidates))[:6]])
    centre = np.broadcast_to(law.prior.centre, (count, len(law.prior.centre)))
    return Problems(law, log_batch, log_steps, sd, censored, present, centre), np.array(starts)


def _one(problems, k):
    return problems.take(slice(k, k + 1))


def _best_of(problems, starts):
    """Solve from every start and keep the lowest of each problem, as a point fit does."""
    count, per_problem = starts.shape[:2]
    found = solve(
        problems.take(np.repeat(np.arange(count), per_problem)), starts.reshape(count * per_problem, -1)
    )
    lowest = np.argmin(found.cost.reshape(count, per_problem), axis=1) + per_problem * np.arange(count)
    return found.free[lowest], found.cost[lowest], found.converged[lowest]


@LAWS
def test_lmfit_cannot_lower_what_is_called_converged(law):
    problems, starts = _stress(law, count=30, seed=11)
    free, lowest, converged = _best_of(problems, starts)
    polished = np.array([cost(_one(problems, k), polish(_one(problems, k), free[k])) for k in range(30)])
    assert converged.mean() > 0.7
    np.testing.assert_array_less(lowest[converged], polished[converged] * (1 + 1e-6) + 1e-12)
    np.testing.assert_allclose(lowest, [cost(_one(problems, k), free[k]) for k in range(30)], rtol=1e-9)


@LAWS
def test_it_comes_back_to_the_minimum_of_lmfit(law):
    problems, starts = _stress(law, count=30, seed=12)
    rng = np.random.default_rng(0)
    near = solve(problems, starts[:, 0])
    minimum = np.array([polish(_one(problems, k), near.free[k]) for k in range(30)])
    lowest = np.array([cost(_one(problems, k), minimum[k]) for k in range(30)])
    back = solve(problems, minimum + 0.02 * rng.standard_normal(minimum.shape))
    agree = back.cost <= lowest * (1 + 1e-6)
    assert np.all(agree | ~back.converged)
    assert agree.mean() > 0.8


@LAWS
def test_the_best_of_several_starts_is_that_of_lmfit_or_reported_as_not_converged(law):
    problems, starts = _stress(law, count=8, seed=13)
    _, ours, converged = _best_of(problems, starts)
    reference = np.array(
        [
            min(cost(_one(problems, k), polish(_one(problems, k), start)) for start in starts[k])
            for k in range(8)
        ]
    )
    agree = ours <= reference * (1 + 1e-6)
    assert np.all(agree | ~converged)
    assert agree.sum() >= 6


@LAWS
def test_padding_changes_nothing(law):
    problems, starts = _stress(law, count=20, seed=14)
    rng = np.random.default_rng(1)

    def padded(values, filling):
        return np.concatenate([filling, values, filling], axis=1)

    shape = (len(problems), 3)
    rubbish = replace(
        problems,
        log_batch=padded(problems.log_batch, rng.uniform(0.0, 20.0, shape)),
        log_steps=padded(problems.log_steps, rng.uniform(0.0, 20.0, shape)),
        sd=padded(problems.sd, rng.uniform(0.01, 1.0, shape)),
        censored=padded(problems.censored, rng.random(shape) < 0.5),
        present=padded(problems.present, np.zeros(shape, dtype=bool)),
    )
    start = starts[:, 0]
    np.testing.assert_allclose(
        np.sum(rubbish.residuals(start) ** 2, axis=1),
        np.sum(problems.residuals(start) ** 2, axis=1),
        rtol=1e-12,
    )
    bare, more = solve(problems, start), solve(rubbish, start)
    settled = bare.converged & more.converged
    assert settled.mean() > 0.5
    np.testing.assert_allclose(more.cost[settled], bare.cost[settled], rtol=1e-9)
    lines = [law.log_steps(found.free, problems.log_batch)[settled] for found in (bare, more)]
    np.testing.assert_allclose(lines[1], lines[0], atol=1e-4)


@LAWS
def test_neither_order_nor_company_nor_chunks_change_a_solution(law):
    problems, starts = _stress(law, count=6, seed=15)
    alone = [solve(_one(problems, k), starts[k, :1]) for k in range(6)]
    # more than one chunk of problems, in an order of no meaning
    owner = np.random.default_rng(2).integers(0, 6, size=6000)
    crowd = solve(problems.take(owner), starts[owner, 0])
    for k in range(6):
        mine = owner == k
        assert np.all(crowd.converged[mine] == alone[k].converged[0])
        np.testing.assert_allclose(crowd.cost[mine], alone[k].cost[0], rtol=1e-9)
        np.testing.assert_allclose(crowd.free[mine], np.tile(alone[k].free, (mine.sum(), 1)), atol=1e-6)


def test_a_start_that_cannot_reach_a_point_is_given_back_unconverged():
    problems, starts = _stress(revised, count=2, seed=16)
    hopeless = starts[:, 0].copy()
    hopeless[0, 1] += 50.0  # B_min far above every batch size that reached the target
    found = solve(problems, hopeless)
    assert not found.converged[0]
    np.testing.assert_array_equal(found.free[0], hopeless[0])
    assert np.isfinite(found.cost[1])


def test_too_few_iterations_are_reported(monkeypatch):
    monkeypatch.setattr(batched, "_MAX_ITERATIONS", 2)
    problems, starts = _stress(revised, count=10, seed=17)
    found = solve(problems, starts[:, 0])
    assert not found.converged.any()


@LAWS
def test_the_jacobian_of_the_residuals_is_that_of_finite_differences(law):
    problems, starts = _stress(law, count=10, seed=18)
    free = starts[:, 0]
    residuals, jacobian = problems.residuals_and_jacobian(free)
    np.testing.assert_allclose(residuals, problems.residuals(free), rtol=1e-12)
    h = 1e-6
    for i, e in enumerate(np.eye(free.shape[1])):
        numeric = (problems.residuals(free + h * e) - problems.residuals(free - h * e)) / (2 * h)
        np.testing.assert_allclose(jacobian[..., i], numeric, rtol=1e-3, atol=1e-3)
