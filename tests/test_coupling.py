"""Targets that share the shape of their curves, wholly or nearly."""

from dataclasses import replace

import lmfit
import numpy as np
import pytest

import ebfit
from ebfit.errors import BadInputError
from ebfit.fitting import Observations, fit_targets
from ebfit.fitting.batched import solve
from ebfit.fitting.coupled import SCALES, CoupledProblems
from ebfit.fitting.coupled_bootstrap import bootstrap_coupled
from ebfit.fitting.coupled_fit import fit_coupled
from ebfit.fitting.coupling import draw, fit_law, p_of_one_shape
from ebfit.fitting.point import fit_points, problems_of
from ebfit.laws import LAWS, power, revised

LAW = LAWS["revised"]
SHAPE = np.array([-0.4, -2.0, 1.0, 0.2])
LOG_BATCH = np.linspace(np.log(4e3), np.log(2e6), 14)
OTHER_SHAPES = [
    np.array([-1.5, 0.5, -0.5, 0.5]),
    np.array([0.8, -3.0, 1.8, -0.8]),
    np.array([-0.3, -0.5, 0.3, 1.0]),
]


def _sweep(shapes, noise=0.01, seed=0) -> Observations:
    """Runs at targets of these shapes; a run's errors are the same at all of them but for a half."""
    rng = np.random.default_rng(seed)
    free = [np.array([7.0 + 0.3 * t, 10.0 + 0.4 * t, *shape]) for t, shape in enumerate(shapes)]
    log_steps = np.stack([revised.log_steps(one, LOG_BATCH) for one in free], axis=1)
    log_steps += noise * (
        rng.standard_normal((len(LOG_BATCH), 1)) + 0.5 * rng.standard_normal(log_steps.shape)
    )
    last = 7.0 + np.log(100.0)
    censored = ~(log_steps < last)
    shape = (len(LOG_BATCH), len(shapes), len(shapes))
    return Observations(LOG_BATCH, np.where(censored, last, log_steps), censored, np.zeros(shape))


def _problems(data: Observations, omegas, law=LAW) -> CoupledProblems:
    """The joint problem of a sweep, once for each omega."""
    targets = data.log_steps.shape[1]
    shape = len(law.prior.sd) - SCALES
    problems = problems_of(law, data, np.full(targets, 0.02))
    return CoupledProblems(
        problems=problems.take(np.tile(np.arange(targets), len(omegas))),
        targets=targets,
        omega=np.array(omegas),
        mu_centre=np.tile(law.prior.centre[SCALES:], (len(omegas), 1)),
        delta_centre=np.zeros((len(omegas), targets, shape)),
    )


def _residuals(problems: CoupledProblems, unknowns):
    """The residuals of one joint problem, put together from what its definition says."""
    scales, delta, mu = problems.split(unknowns[None])
    free = np.concatenate([scales[0], mu + problems.omega[0] * problems.prior_sd * delta[0]], axis=1)
    points = problems.problems.residuals(free)[:, : problems.problems.points]
    off_mu = (mu[0] - problems.mu_centre[0]) / problems.prior_sd
    return np.concatenate([points.ravel(), (delta - problems.delta_centre).ravel(), off_mu])


def _start(problems: CoupledProblems, seed=0):
    rng = np.random.default_rng(seed)
    targets = problems.targets
    scales = np.array([[7.0 + 0.3 * t, 10.0 + 0.4 * t] for t in range(targets)])
    delta = 0.3 * rng.standard_normal((targets, len(problems.prior_sd)))
    return problems.join(scales[None], delta[None], (SHAPE + 0.3 * rng.standard_normal(4))[None])[0]


@pytest.mark.parametrize("omega", [0.0, 0.05, 0.6])
def test_a_step_solves_the_normal_equations_of_all_targets_together(omega):
    problems = _problems(_sweep([SHAPE] * 3), [omega])
    at, h = _start(problems), 1e-6
    residuals = _residuals(problems, at)
    jacobian = np.stack(
        [
            (_residuals(problems, at + h * e) - _residuals(problems, at - h * e)) / (2 * h)
            for e in np.eye(len(at))
        ],
        axis=1,
    )
    here = problems.linearise(at[None])
    assert here.cost[0] == pytest.approx(np.sum(residuals**2), rel=1e-12)
    normal = jacobian.T @ jacobian
    damping = 0.01
    expected = -np.linalg.solve(normal + damping * np.diag(np.diag(normal)), jacobian.T @ residuals)
    # mu's block is damped before the targets are eliminated, as in the whole matrix
    np.testing.assert_allclose(here.step(np.array([damping]))[0], expected, rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize(
    "shapes",
    [[SHAPE] * 3, [0.8 * SHAPE + 0.2 * other for other in OTHER_SHAPES]],
    ids=["alike", "different"],
)
def test_the_batched_solver_agrees_with_lmfit(shapes):
    omegas = [0.0, 0.05, 0.2, 0.6]
    given_up = 0  # a law in three pieces has kinks, along which a solver creeps
    for seed in range(3):
        problems = _problems(_sweep(shapes, noise=0.03, seed=seed), omegas)
        starts = np.tile(_start(problems, seed), (len(omegas), 1))
        found = solve(problems, starts)
        given_up += np.count_nonzero(~found.converged)
        for k in np.flatnonzero(found.converged):
            one = problems.take(np.array([k]))
            parameters = lmfit.Parameters()
            for i, value in enumerate(found.free[k]):
                parameters.add(f"x{i}", value=value)
            reference = lmfit.minimize(
                lambda p, one=one: np.clip(
                    _residuals(one, np.array([*p.valuesdict().values()])), -1e100, 1e100
                ),
                parameters,
                calc_covar=False,
                ftol=1e-15,
                xtol=1e-15,
            )
            assert found.cost[k] <= reference.chisqr * (1 + 1e-6)
    assert given_up <= 4


@pytest.mark.parametrize("law", [LAW, power], ids=["revised", "power"])
def test_one_shape_for_all_is_one_shape(law):
    data = _sweep([SHAPE] * 3)
    fitted = fit_law(law, data, "shared")
    np.testing.assert_allclose(fitted.point.free[:, SCALES:], np.tile(fitted.point.free[0, SCALES:], (3, 1)))
    ratios = [of_target["b_opt"] - of_target["b_min"] for of_target in draw(data, fitted, 50, seed=1)]
    np.testing.assert_allclose(ratios, np.tile(ratios[0], (3, 1)), atol=1e-9)
    assert np.std(ratios[0]) > 1e-3


def test_data_without_noise_give_back_the_law_of_every_target():
    data = _sweep([SHAPE] * 3, noise=0.0)
    for coupling in ("pooled", "shared"):
        numbers = revised.log_numbers(fit_law(LAW, data, coupling).point.free)
        np.testing.assert_allclose(numbers["b_opt"], [10.0, 10.4, 10.8], atol=2e-3)
        np.testing.assert_allclose(
            numbers["b_min"] - numbers["b_opt"], np.full(3, np.log(1 / (1 + np.exp(0.4)))), atol=5e-3
        )


def test_shapes_are_pooled_as_far_as_the_data_want_it():
    alike = fit_law(LAW, _sweep([SHAPE] * 3, noise=0.02), "pooled")
    different = fit_law(LAW, _sweep(OTHER_SHAPES, noise=0.005), "pooled")
    assert alike.coupled[0][0].problems.omega[0] == 0.05
    assert different.coupled[0][0].problems.omega[0] == 0.6
    assert {round(sum(weight for _, weight in fitted.coupled), 12) for fitted in (alike, different)} == {1.0}


def test_targets_tell_of_each_other():
    """Where all have one shape, pooling leaves the estimates nearer to the truth, over several sweeps."""
    errors = {"none": [], "pooled": []}
    for seed in range(6):
        data = _sweep([SHAPE] * 4, noise=0.02, seed=seed)
        for coupling, found in errors.items():
            numbers = revised.log_numbers(fit_law(LAW, data, coupling).point.free)
            found.extend(numbers["b_opt"] - (10.0 + 0.4 * np.arange(4)))
    assert np.std(errors["pooled"]) < 0.8 * np.std(errors["none"])


def test_one_shape_is_tenable_where_it_is_true_and_not_where_it_is_not():
    true = [
        p_of_one_shape(d, fit_law(LAW, d, "shared"), 0)
        for d in (_sweep([SHAPE] * 3, seed=s) for s in range(5))
    ]
    assert np.median(true) > 0.1
    data = _sweep(OTHER_SHAPES)
    assert p_of_one_shape(data, fit_law(LAW, data, "shared"), 0) < 0.01


def test_a_shared_shape_that_is_not_tenable_is_said_to_be_so():
    def said(shapes):
        fits = fit_targets(
            "revised", _sweep(shapes), coupling="shared", replicates=100, confidence=0.95, seed=0
        )
        return [
            any("one shape for all targets is not tenable (p = 0.0" in text for text in fit.warnings)
            for fit in fits
        ]

    assert said(OTHER_SHAPES) == [True] * 3
    assert said([SHAPE] * 3) == [False] * 3


def test_a_single_target_is_fitted_by_itself():
    data = _sweep([SHAPE])
    own, pooled, shared = (
        fit_targets("revised", data, coupling=coupling, replicates=100, confidence=0.95, seed=3)[0]
        for coupling in ("none", "pooled", "shared")
    )
    assert own.numbers == pooled.numbers == shared.numbers


def test_replicates_move_all_targets_of_a_run_together():
    """Errors that a batch size has at all targets move their B_opt together, as the growth with tokens has to know."""
    data = _sweep([SHAPE] * 3, noise=0.02)
    fit = fit_coupled(data, fit_points(LAW, data), 0.05)
    b_opt = np.stack(
        [revised.log_numbers(free)["b_opt"] for free in bootstrap_coupled(data, fit, 300, seed=0)]
    )
    assert np.corrcoef(b_opt)[0, 1] > 0.5
    again = bootstrap_coupled(data, fit, 300, seed=0)
    np.testing.assert_array_equal(again, bootstrap_coupled(data, fit, 300, seed=0))


def test_the_order_of_targets_changes_nothing():
    data = _sweep(OTHER_SHAPES, noise=0.01)
    order = [2, 0, 1]
    turned = replace(data, log_steps=data.log_steps[:, order], censored=data.censored[:, order])
    one, other = (fit_law(LAW, d, "pooled").point.free for d in (data, turned))
    np.testing.assert_allclose(
        revised.log_numbers(one[order])["b_opt"], revised.log_numbers(other)["b_opt"], atol=1e-4
    )


def test_a_coupling_that_is_not_known_is_refused():
    with pytest.raises(BadInputError, match=r"coupling 'some' is not known\. Choose none, pooled, shared"):
        ebfit.fit(ebfit.read_runs("sample_runs"), coupling="some")
