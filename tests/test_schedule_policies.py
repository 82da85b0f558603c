"""Policies: the batch size that each asks for, where the answer is known."""

import numpy as np
import pytest
from fits import fit_of, trend
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad

from ebfit.errors import BadInputError, CannotAnswerError
from ebfit.files import Estimate, Trends
from ebfit.laws import revised
from ebfit.schedule.policies import POLICIES, Curve, parse
from ebfit.schedule.source import Source

exponents = st.floats(0.05, 0.85)


def _curve(policy: str, source: Source) -> Curve:
    chosen, argument = parse(policy, POLICIES)
    return chosen.curve(source, argument)


def test_optimal_is_b_opt_at_the_tokens_consumed():
    curve = _curve("optimal", Source(fit_of(trend(k=3.0, exponent=0.4)), "fit.json"))
    assert curve.batch_at(1e8) == pytest.approx(3.0 * 1e8**0.4)


def test_minimum_is_b_min_at_the_tokens_consumed():
    fit = fit_of(trend(), trend(k=0.7, exponent=0.45))
    assert _curve("minimum", Source(fit, "fit.json")).batch_at(1e8) == pytest.approx(0.7 * 1e8**0.45)


@given(exponents)
def test_policy_loss_walks_along_s_opt_and_b_opt(exponent: float):
    """Whoever follows B_opt(ell) after S_opt(ell) steps has consumed the integral of B_opt over the steps."""
    k = 2.0
    curve = _curve("loss", Source(fit_of(trend(k=k, exponent=exponent)), "fit.json"))
    level = 5e8
    s_opt = level ** (1.0 - exponent) / k
    # B_opt as a function of the steps, from ell = (k S)^(1 / (1 - g))
    tokens, _ = quad(lambda steps: k * (k * steps) ** (exponent / (1.0 - exponent)), 0.0, s_opt)
    assert curve.level_at(tokens) == pytest.approx(level, rel=1e-6)
    assert curve.batch_at(tokens) == pytest.approx(k * level**exponent, rel=1e-6)


@given(exponents, st.floats(1e6, 1e12))
def test_policy_loss_asks_for_more_than_optimal(exponent: float, tokens: float):
    source = Source(fit_of(trend(exponent=exponent)), "fit.json")
    ratio = _curve("loss", source).batch_at(tokens) / _curve("optimal", source).batch_at(tokens)
    assert ratio == pytest.approx((1.0 - exponent) ** -exponent)
    assert ratio > 1.0


@pytest.mark.parametrize("extra", [0.01, 0.05, 0.2, 1.0])
def test_overhead_costs_what_it_says(extra: float):
    fit = fit_of()
    batch = _curve(f"overhead:{extra}", Source(fit, "fit.json")).batch_at(fit.targets[3].e_min)
    target = fit.targets[3]
    free = revised.free_from_params(target.params)
    tokens = batch * float(np.exp(revised.log_steps(free, np.log([batch]))[0]))
    assert batch > target.b_opt.value
    assert tokens == pytest.approx((1.0 + extra) * target.e_min, rel=1e-4)


@given(st.floats(0.001, 3.0), st.floats(0.001, 3.0))
def test_who_pays_more_gets_a_larger_batch(one: float, other: float):
    source = Source(fit_of(), "fit.json")
    less, more = sorted([one, other])
    assert _curve(f"overhead:{less}", source).batch_at(1e8) <= _curve(f"overhead:{more}", source).batch_at(
        1e8
    )


def test_bounds_are_the_ends_of_the_trend_s_band():
    fit = fit_of(trend(k=3.0, exponent=0.4, log_sd=0.1, exponent_sd=0.05))
    curve = _curve("optimal", Source(fit, "fit.json"))
    away = np.log(1e10 / np.sqrt(1e6 * 1e9))
    sd = np.hypot(0.1, 0.05 * away)
    assert curve.at_bound("low").batch_at(1e10) == pytest.approx(3.0 * 1e10**0.4 * np.exp(-2 * sd))
    assert curve.at_bound("high").batch_at(1e10) == pytest.approx(3.0 * 1e10**0.4 * np.exp(2 * sd))


@given(st.floats(1.0, 1e13), st.floats(1.0, 1e13), st.sampled_from(["low", "value", "high"]))
def test_an_upper_end_does_not_rise_towards_the_start(one: float, other: float, bound: str):
    """Below the measured tokens the band widens; taken as it is, its upper end would ask for huge first batches."""
    curve = _curve("optimal", Source(fit_of(trend(exponent_sd=0.02)), "fit.json")).at_bound(bound)
    early, late = sorted([one, other])
    assert curve.batch_at(early) <= curve.batch_at(late) * (1 + 1e-12)


def test_a_batch_size_that_falls_with_tokens_is_taken_as_constant():
    falling = trend(k=1e6, exponent=-0.1)
    curve = _curve("optimal", Source(fit_of(falling), "fit.json"))
    assert curve.batch_at(1.0) == curve.batch_at(1e12) == pytest.approx(falling.batch_at(falling.d_high)[0])


def test_policy_loss_refuses_a_batch_that_grows_as_fast_as_the_tokens():
    with pytest.raises(CannotAnswerError, match=r"fit\.json: B_opt grows as D\^0\.95, too steeply"):
        _curve("loss", Source(fit_of(trend(k=1e-3, exponent=0.95)), "fit.json"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("best", "there is no such policy. Choose one of optimal, loss, minimum, overhead:X"),
        ("", "there is no such policy"),
        ("optimal:2", "optimal takes no number"),
        ("overhead", "write overhead:X with a positive number"),
        ("overhead:", "write overhead:X with a positive number"),
        ("overhead:0", "write overhead:X with a positive number"),
        ("overhead:-1", "write overhead:X with a positive number"),
        ("overhead:nan", "write overhead:X with a positive number"),
        ("overhead:5%", "write overhead:X with a positive number"),
    ],
)
def test_a_policy_that_is_none_is_refused_in_a_sentence(text: str, said: str):
    with pytest.raises(BadInputError, match="--policy") as refusal:
        parse(text, POLICIES)
    assert said in str(refusal.value)


def test_a_fit_that_identifies_too_little_says_how_little():
    fit = fit_of()
    for target in fit.targets[1:]:
        target.b_opt = Estimate(high=1e5, status="upper_bound")
    fit.trends = Trends()
    with pytest.raises(
        CannotAnswerError, match=r"fit\.json: 1 of its 7 targets identifies B_opt as a number"
    ):
        _curve("optimal", Source(fit, "fit.json"))


def test_a_fit_without_any_number_says_so():
    fit = fit_of()
    for target in fit.targets:
        target.b_min = target.b_opt = Estimate()
    fit.trends = Trends()
    for policy in ("optimal", "loss", "minimum", "overhead:0.1"):
        with pytest.raises(CannotAnswerError, match="none of its 7 targets identify"):
            _curve(policy, Source(fit, "fit.json"))


def test_the_classic_law_has_no_plan():
    fit = fit_of()
    for target in fit.targets:
        target.law = "classic"
    fit.trends = Trends()
    with pytest.raises(CannotAnswerError, match="law classic, which knows no B_opt and no B_min"):
        _curve("optimal", Source(fit, "fit.json"))
