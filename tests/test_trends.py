"""How batch sizes grow with tokens and with loss: known answers, invariances, and when the data tell nothing."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import between, write_points

import ebfit
from ebfit.files import Agreement, Trend, Trends
from ebfit.fitting import Interval, TargetFit
from ebfit.points import read_points
from ebfit.trends import Group, find_trends

L_0, B, C, BETA, GAMMA = 1.4, 40.0, 9.0, 0.8, 0.5  # of the three-term surface, DESIGN 3.4
LOSSES = [2.6, 2.5, 2.4, 2.3, 2.2, 2.1, 2.0, 1.9]
DRAWS = 400


def ok(log_value: float) -> Interval:
    value = float(np.exp(log_value))
    return Interval(value, 0.8 * value, 1.2 * value, "ok")


def target(log_e_min: float, log_b_opt: float, log_b_min: float, draws: dict[str, np.ndarray]) -> TargetFit:
    """Make a fitted target; ``draws`` are deviations from its numbers."""
    numbers = {"e_min": log_e_min, "b_opt": log_b_opt, "b_min": log_b_min}
    return TargetFit(
        law="revised",
        free=np.zeros(6),
        params={},
        numbers={"b_opt": ok(log_b_opt), "b_min": ok(log_b_min)},
        s_min=None,
        e_min=float(np.exp(log_e_min)),
        s_opt=float(np.exp(log_e_min - log_b_opt)),
        rms_log_residual=0.01,
        misfit_log_sd=0.01,
        second_opinion=None,
        draws={key: value + draws[key] for key, value in numbers.items()},
    )


def errors(
    rng: np.random.Generator, count: int, x_sd: float, y_sd: float, shared: float
) -> list[dict[str, np.ndarray]]:
    """Draw deviations of ``count`` targets, whose errors have the correlation ``shared``."""

    def some(sd: float) -> np.ndarray:
        common = rng.standard_normal((1, DRAWS))
        own = rng.standard_normal((count, DRAWS))
        return sd * (np.sqrt(shared) * common + np.sqrt(1.0 - shared) * own)

    x, y, z = some(x_sd), some(y_sd), some(y_sd)
    return [{"e_min": x[t], "b_opt": y[t], "b_min": z[t]} for t in range(count)]


def group_of(fits: Sequence[TargetFit], losses: Sequence[float] = LOSSES, name: str | None = None) -> Group:
    fewest = [1.1 * (fit.e_min or 1e6) for fit in fits]
    return Group(name, list(losses)[: len(fits)], fewest, list(fits))


def growing(
    seed: int = 0,
    count: int = 8,
    exponent: float = 0.4,
    height: float = 2.0,
    span: float = 3.0,
    x_sd: float = 0.03,
    y_sd: float = 0.1,
    shared: float = 0.3,
    name: str | None = None,
    measured: bool = True,
) -> Group:
    """Make a group whose B_opt is exp(height) D^exponent and whose B_min is a third of it, with errors if measured."""
    rng = np.random.default_rng([7, seed])
    x = 13.0 + np.linspace(0.0, span, count)
    y = height + exponent * x
    draws = errors(rng, count, x_sd, y_sd, shared)
    # one draw of the same kind is what went wrong in this sweep
    off = [{key: float(values[0]) if measured else 0.0 for key, values in one.items()} for one in draws]
    fits = [
        target(
            x[t] + off[t]["e_min"],
            y[t] + off[t]["b_opt"],
            y[t] - np.log(3.0) + off[t]["b_min"],
            draws[t],
        )
        for t in range(count)
    ]
    return group_of(fits, name=name, losses=np.linspace(2.6, 1.9, count))


def on_the_surface(losses: Sequence[float] = LOSSES, sd: float = 0.01) -> Group:
    rng = np.random.default_rng(5)
    fits = []
    for loss, draws in zip(losses, errors(rng, len(losses), sd, sd, 0.3), strict=True):
        log_b_min = np.log(B / (loss - L_0)) / BETA
        log_b_opt = log_b_min + np.log((BETA + GAMMA) / GAMMA) / BETA
        log_s = np.log(C / (loss - L_0 - B * np.exp(-BETA * log_b_opt))) / GAMMA
        fits.append(target(log_b_opt + log_s, log_b_opt, log_b_min, draws))
    return group_of(fits, losses)


# --- known answers ----------------------------------------------------------------------------------------------------


def test_exponents_of_the_three_term_surface():
    trends = find_trends([on_the_surface()], 0.95)
    for trend in (trends.b_opt_vs_tokens, trends.b_min_vs_tokens):
        assert trend.exponent == pytest.approx(GAMMA / (BETA + GAMMA), abs=1e-4)
    ratio = trends.b_opt_vs_tokens.k / trends.b_min_vs_tokens.k
    assert ratio == pytest.approx(((BETA + GAMMA) / GAMMA) ** (1.0 / BETA), rel=1e-2)
    loss = trends.loss_vs_tokens
    assert loss.l_0 == pytest.approx(L_0, abs=0.01)
    assert loss.l_0_low < L_0 < loss.l_0_high
    assert loss.exponent == pytest.approx(1.0 / (1.0 / BETA + 1.0 / GAMMA), rel=0.02)
    assert (loss.loss_low, loss.loss_high) == (1.9, 2.6)
    assert loss.loss_at(loss.tokens_at(1.7)) == pytest.approx(1.7)
    assert trends.b_opt_vs_loss.exponent == pytest.approx(1.0 / BETA, rel=0.02)
    assert trends.b_opt_vs_loss.exponent_low < 1.0 / BETA < trends.b_opt_vs_loss.exponent_high


def test_trends_of_a_points_table_from_the_three_term_surface(tmp_path):
    rows = []
    for loss in LOSSES:
        l_min = (B / (loss - L_0)) ** (1.0 / BETA)
        for batch in np.geomspace(1.15, 60.0, 11) * l_min:
            steps = (C / (loss - L_0 - B * batch**-BETA)) ** (1.0 / GAMMA)
            rows.append({"target_loss": loss, "batch_tokens": batch, "steps": steps})
    trends = ebfit.fit(read_points(write_points(tmp_path / "points.csv", rows)), bootstrap=200).trends
    assert trends.b_opt_vs_tokens.exponent == pytest.approx(GAMMA / (BETA + GAMMA), abs=0.02)
    assert trends.b_min_vs_tokens.exponent == pytest.approx(GAMMA / (BETA + GAMMA), abs=0.02)
    assert trends.loss_vs_tokens.l_0 == pytest.approx(L_0, abs=0.1)
    assert trends.b_opt_vs_loss.exponent == pytest.approx(1.0 / BETA, rel=0.2)


def test_an_error_of_tokens_does_not_flatten_the_line():
    """Least squares, even with the right weights, is some 10% too flat here."""
    exponents, flat = [], []
    for seed in range(60):
        group = growing(seed, count=8, span=2.5, x_sd=0.3, y_sd=0.05, shared=0.0, exponent=0.6)
        exponents.append(find_trends([group], 0.95).b_opt_vs_tokens.exponent)
        x = [np.log(fit.e_min) for fit in group.fits]
        flat.append(np.polyfit(x, [np.log(fit.numbers["b_opt"].value) for fit in group.fits], 1)[0])
    assert np.mean(flat) < 0.57
    assert np.mean(exponents) == pytest.approx(0.6, abs=0.02)


# --- what changes nothing, and what scales -------------------------------------------------------------------------


@given(between(0.01, 1e6), st.integers(0, 20))
@settings(max_examples=25, deadline=None)
def test_scaling_all_tokens_scales_the_line_and_leaves_exponents(factor, seed):
    group = growing(seed, count=5)
    shift = float(np.log(factor))
    scaled = [
        target(
            np.log(fit.e_min) + shift,
            np.log(fit.numbers["b_opt"].value) + shift,
            np.log(fit.numbers["b_min"].value) + shift,
            {key: fit.draws[key] - np.log(value) for key, value in _values(fit).items()},
        )
        for fit in group.fits
    ]
    old = find_trends([group], 0.95).b_opt_vs_tokens
    new = find_trends([group_of(scaled, group.losses)], 0.95).b_opt_vs_tokens
    same = ("exponent", "exponent_low", "exponent_high", "log_sd_at_pivot", "exponent_sd", "scatter_log_sd")
    assert [getattr(new, key) for key in same] == pytest.approx([getattr(old, key) for key in same], rel=1e-5)
    grown = ("pivot_tokens", "pivot_batch_tokens", "d_low", "d_high")
    assert [getattr(new, key) for key in grown] == pytest.approx(
        [factor * getattr(old, key) for key in grown], rel=1e-5
    )
    assert new.k == pytest.approx(old.k * factor ** (1.0 - old.exponent), rel=1e-6)


def _values(fit: TargetFit) -> dict[str, float]:
    return {"e_min": fit.e_min, "b_opt": fit.numbers["b_opt"].value, "b_min": fit.numbers["b_min"].value}


@given(st.permutations(range(8)), st.booleans())
@settings(max_examples=20, deadline=None)
def test_the_order_of_targets_and_groups_changes_nothing(order, swap):
    one, two = growing(1, name="a"), growing(2, name="b", count=5)
    mixed = Group(
        one.name,
        [one.losses[i] for i in order],
        [one.fewest_tokens[i] for i in order],
        [one.fits[i] for i in order],
    )
    old, new = find_trends([one, two], 0.95), find_trends([two, mixed] if swap else [mixed, two], 0.95)
    assert new.b_opt_vs_tokens == old.b_opt_vs_tokens
    assert new.b_min_vs_tokens == old.b_min_vs_tokens
    assert sorted(new.groups, key=lambda g: g.group) == old.groups
    assert new.agreement["b_opt_vs_tokens"].p_value == pytest.approx(old.agreement["b_opt_vs_tokens"].p_value)


# --- how sure --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [8, 20])
def test_targets_crossed_by_the_same_runs_are_not_independent_witnesses_of_the_height(count):
    """Their errors are nearly one number: the exponent is sure, the height is as unsure as one target's."""
    for seed in range(5):
        trend = find_trends([growing(seed, count, shared=1.0 - 1e-9, x_sd=0.0)], 0.95).b_opt_vs_tokens
        assert trend.exponent == pytest.approx(0.4, abs=1e-3)
        assert trend.log_sd_at_pivot == pytest.approx(0.1, rel=0.2)
        assert trend.d_low < trend.pivot_tokens < trend.d_high


def test_more_targets_of_independent_errors_are_surer():
    few, many = (find_trends([growing(0, count, shared=0.0)], 0.95).b_opt_vs_tokens for count in (5, 20))
    assert many.exponent_sd < 0.7 * few.exponent_sd


def test_targets_that_lie_on_no_line_make_the_line_unsure():
    group = growing(0, y_sd=0.02)
    zigzag = [
        replace(
            fit, numbers=fit.numbers | {"b_opt": ok(np.log(fit.numbers["b_opt"].value) + 0.4 * (-1) ** t)}
        )
        for t, fit in enumerate(group.fits)
    ]
    straight = find_trends([group], 0.95).b_opt_vs_tokens
    crooked = find_trends([group_of(zigzag)], 0.95).b_opt_vs_tokens
    assert straight.scatter_log_sd < 0.1
    assert crooked.scatter_log_sd == pytest.approx(0.4, rel=0.3)
    assert crooked.exponent_sd > 3.0 * straight.exponent_sd


def test_a_few_wild_replicates_do_not_move_the_line():
    group = growing(0)
    wild = [replace(fit, draws={key: value.copy() for key, value in fit.draws.items()}) for fit in group.fits]
    wild[3].draws["b_opt"][:4] += 40.0
    old = find_trends([group], 0.95).b_opt_vs_tokens
    new = find_trends([group_of(wild)], 0.95).b_opt_vs_tokens
    assert new.exponent == pytest.approx(old.exponent, abs=0.1 * old.exponent_sd)
    assert new.exponent_sd == pytest.approx(old.exponent_sd, rel=0.15)


def test_intervals_hold_the_truth_at_least_as_often_as_they_say_and_are_not_idly_wide():
    trends = [find_trends([growing(seed)], 0.8).b_opt_vs_tokens for seed in range(150)]
    held = np.mean([trend.exponent_low <= 0.4 <= trend.exponent_high for trend in trends])
    error = np.sqrt(np.mean([(trend.exponent - 0.4) ** 2 for trend in trends]))
    assert held > 0.75
    assert error < np.median([trend.exponent_sd for trend in trends]) < 2.0 * error


# --- bounds -----------------------------------------------------------------------------------------------------------


def first_targets(group: Group, count: int) -> Group:
    return Group(group.name, group.losses[:count], group.fewest_tokens[:count], group.fits[:count])


def bounded(fit: TargetFit, number: str, log_bound: float, status: str) -> TargetFit:
    bound = float(np.exp(log_bound))
    upper = status == "upper_bound"
    interval = Interval(None, None if upper else bound, bound if upper else None, status)
    e_min = None if number == "b_opt" else fit.e_min
    return replace(fit, numbers=fit.numbers | {number: interval}, e_min=e_min)


def with_bound(number: str, log_shift: float, status: str, place: int = -1) -> Group:
    """Make a group of which one target is only bounded, ``log_shift`` above the line."""
    group = growing(0, y_sd=0.05)
    fits = list(group.fits)
    on_line = float(np.log(fits[place].numbers[number].value))
    fits[place] = bounded(fits[place], number, on_line + log_shift, status)
    return replace(group, fits=fits)


def test_an_upper_bound_of_b_min_below_the_line_bends_it_down_and_one_above_does_nothing():
    without = find_trends([first_targets(growing(0, y_sd=0.05), 7)], 0.95)
    idle = find_trends([with_bound("b_min", 1.5, "upper_bound")], 0.95).b_min_vs_tokens
    bent = find_trends([with_bound("b_min", -0.7, "upper_bound")], 0.95).b_min_vs_tokens
    assert idle.exponent == pytest.approx(without.b_min_vs_tokens.exponent, abs=1e-3)
    assert bent.exponent < idle.exponent - 0.03
    assert (idle.n_targets, bent.n_targets) == (7, 7)


def test_a_lower_bound_of_b_opt_counts_at_the_fewest_tokens_seen():
    idle = find_trends([with_bound("b_opt", -1.5, "lower_bound")], 0.95).b_opt_vs_tokens
    bent = find_trends([with_bound("b_opt", 0.7, "lower_bound")], 0.95).b_opt_vs_tokens
    assert bent.exponent > idle.exponent + 0.03


def test_an_upper_bound_of_b_opt_has_no_place_over_tokens_but_one_over_loss():
    """Its D is at most the fewest tokens seen, and the line at fewer tokens may well be below the bound."""
    over_tokens = [
        find_trends([with_bound("b_opt", shift, "upper_bound", place=0)], 0.95).b_opt_vs_tokens
        for shift in (-0.7, 1.5)
    ]
    assert over_tokens[0] == over_tokens[1]
    surface = on_the_surface(sd=0.05)
    fits = [replace(fit) for fit in surface.fits]
    found = []
    for shift in (1.5, -0.7):
        last = bounded(fits[0], "b_opt", np.log(fits[0].numbers["b_opt"].value) + shift, "upper_bound")
        # the same floor for both: D of the bounded target is not known to either
        found.append(find_trends([replace(surface, fits=[last, *fits[1:]])], 0.95))
    assert found[0].loss_vs_tokens == found[1].loss_vs_tokens
    assert found[1].b_opt_vs_loss.exponent > found[0].b_opt_vs_loss.exponent


def test_bounds_never_count_towards_the_least_number_of_targets():
    group = growing(0, count=3)
    two = [*group.fits[:2], bounded(group.fits[2], "b_min", 9.0, "upper_bound")]
    trends = find_trends([replace(group, fits=two)], 0.95)
    assert trends.b_min_vs_tokens is None
    assert trends.b_opt_vs_tokens is not None


# --- groups ----------------------------------------------------------------------------------------------------------


def test_groups_on_one_line_make_a_surer_line_together():
    trends = find_trends([growing(1, name="85M"), growing(2, name="151M")], 0.95)
    assert [group.group for group in trends.groups] == ["85M", "151M"]
    own = [group.b_opt_vs_tokens for group in trends.groups]
    assert trends.b_opt_vs_tokens.exponent_sd < min(trend.exponent_sd for trend in own)
    assert trends.b_opt_vs_tokens.n_targets == 16
    assert trends.loss_vs_tokens is None


def test_the_p_value_of_agreement_is_roughly_uniform_under_one_line():
    p = np.array(
        [
            find_trends([growing(2 * i, 6, name="a"), growing(2 * i + 1, 6, name="b")], 0.95)
            .agreement["b_opt_vs_tokens"]
            .p_value
            for i in range(150)
        ]
    )
    # intervals are a little wide on purpose, so small p-values are a little rare
    assert np.mean(p < 0.05) < 0.1
    assert 0.3 < np.mean(p < 0.5) < 0.6
    assert 0.05 < np.mean(p < 0.25) < 0.35


@pytest.mark.parametrize("change", [{"height": 2.6}, {"exponent": 0.75}])
def test_groups_with_another_height_or_exponent_do_not_agree(change):
    trends = find_trends([growing(1, name="a"), growing(2, name="b", **change)], 0.95)
    assert trends.agreement["b_opt_vs_tokens"].p_value < 1e-3
    assert trends.agreement["b_opt_vs_tokens"].degrees_of_freedom == 2


def test_groups_with_one_target_each_have_a_line_together_and_no_test():
    groups = [first_targets(growing(i, count=2, name=str(i)), 1) for i in range(4)]
    groups = [replace(group, fits=[growing(i).fits[2 * i]]) for i, group in enumerate(groups)]
    trends = find_trends(groups, 0.95)
    assert trends.b_opt_vs_tokens.n_targets == 4
    assert all(group.b_opt_vs_tokens is None for group in trends.groups)
    assert trends.agreement == {}


def test_replicates_of_two_groups_from_one_seed_are_not_taken_for_common_errors():
    group = growing(1, shared=0.9)
    twin = replace(group, name="twin")
    together = find_trends([group, twin], 0.95).b_opt_vs_tokens
    alone = find_trends([group], 0.95).b_opt_vs_tokens
    assert together.log_sd_at_pivot == pytest.approx(alone.log_sd_at_pivot / np.sqrt(2.0), rel=0.2)


# --- when there is nothing to say ----------------------------------------------------------------------------------


def test_targets_of_one_d_make_no_line():
    group = growing(0, span=0.05)
    assert find_trends([group], 0.95).b_opt_vs_tokens is None


def test_no_groups_and_empty_groups_make_no_trends():
    assert find_trends([], 0.95) == find_trends([Group("a", [], [], [])], 0.95) == Trends()


def test_a_loss_that_falls_in_a_straight_line_over_log_tokens_has_the_floor_of_none():
    """No floor is better than zero; between the targets the curve is right all the same."""
    losses = [2.6, 2.5, 2.4, 2.3, 2.2]
    group = replace(growing(0, count=5), losses=losses)
    trends = find_trends([group], 0.95)
    over_tokens = trends.loss_vs_tokens
    assert (over_tokens.l_0, over_tokens.l_0_low) == (0.0, None)
    assert 0.0 < over_tokens.l_0_high < 2.2
    for loss, fit in zip(losses, group.fits, strict=True):
        assert over_tokens.loss_at(fit.e_min) == pytest.approx(loss, abs=0.02)
    assert trends.b_opt_vs_loss is None


def test_losses_that_are_no_losses_in_nats_make_no_trend():
    trends = find_trends([replace(growing(0, count=5), losses=[1.0, 0.5, 0.0, -0.5, -1.0])], 0.95)
    assert trends.loss_vs_tokens is None
    assert trends.b_opt_vs_loss is None


def test_tokens_that_do_not_grow_as_the_loss_falls_make_no_loss_over_tokens():
    group = growing(0, count=5)
    found = find_trends([replace(group, losses=[2.31, 2.3, 2.32, 2.35, 2.6])], 0.95)
    assert found.loss_vs_tokens is None
    assert found.b_opt_vs_loss is None


def test_a_floor_that_few_targets_hold_is_open_from_below():
    trends = find_trends([on_the_surface([2.6, 2.5, 2.4, 2.3, 2.2], sd=0.05)], 0.95)
    assert trends.loss_vs_tokens.l_0 == pytest.approx(L_0, abs=0.05)
    assert trends.loss_vs_tokens.l_0_low is None
    assert trends.b_opt_vs_loss.exponent_high is None
    assert trends.b_opt_vs_loss.exponent_low < 1.0 / BETA


# --- reading a trend -------------------------------------------------------------------------------------------------


@given(between(1e3, 1e15), st.integers(0, 5))
@settings(deadline=None)
def test_a_line_is_k_times_a_power_and_its_band_is_narrowest_at_the_pivot(tokens, seed):
    trend = find_trends([growing(seed)], 0.95).b_opt_vs_tokens
    value, low, high = trend.batch_at(tokens)
    assert value == pytest.approx(trend.k * tokens**trend.exponent, rel=1e-9)
    assert low * high == pytest.approx(value**2)
    at_pivot = trend.batch_at(trend.pivot_tokens)
    assert high / value >= at_pivot[2] / at_pivot[0]
    away = np.log(tokens / trend.pivot_tokens)
    sd = np.hypot(trend.log_sd_at_pivot, trend.exponent_sd * away)
    assert np.log(high / value) == pytest.approx(trend.quantile * sd)


def test_the_interval_of_the_exponent_is_that_of_the_band():
    trend = find_trends([growing(0)], 0.9).b_opt_vs_tokens
    reach = trend.quantile * trend.exponent_sd
    assert (trend.exponent_low, trend.exponent_high) == pytest.approx(
        (trend.exponent - reach, trend.exponent + reach)
    )
    assert trend.quantile == pytest.approx(1.6449, abs=1e-4)


def test_a_trend_of_an_earlier_file_has_a_band_from_its_exponents():
    old = Trend.model_validate(
        {"k": 2.0, "exponent": 0.5, "exponent_low": 0.4, "exponent_high": 0.7, "d_low": 1e4, "d_high": 1e6}
    )
    assert old.batch_at(1e5) == pytest.approx((2.0 * 1e5**0.5,) * 3)
    assert old.batch_at(1e7) == pytest.approx([2.0 * 1e7**0.5 * 100**step for step in (0.0, -0.1, 0.2)])
    assert old.batch_at(1e3) == pytest.approx([2.0 * 1e3**0.5 * 0.01**step for step in (0.0, 0.2, -0.1)])


def test_a_trend_without_any_interval_has_no_band():
    value, low, high = Trend(k=2.0, exponent=0.5, d_low=1e4, d_high=1e6).batch_at(1e5)
    assert value == pytest.approx(2.0 * 1e5**0.5)
    assert np.isnan([low, high]).all()


def test_trends_come_back_from_their_json():
    trends = find_trends([growing(1, name="a"), growing(2, name="b")], 0.95)
    assert Trends.model_validate_json(trends.model_dump_json()) == trends
    assert isinstance(trends.agreement["b_min_vs_tokens"], Agreement)
