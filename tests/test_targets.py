"""Targets chosen automatically: reached by enough batch sizes, and spread over what was trained."""

from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ebfit import crossings, targets
from ebfit.laws import power

LOG_BATCH = np.log(1000.0 * 2.0 ** np.arange(9))


@cache
def _nine_curves(seed=0):
    return _curves(LOG_BATCH, np.full(9, 20_000.0), seed)


def _curves(log_batch, last_steps, seed=0):
    """Curves of the three-term surface 1.5 + b / B^0.6 + 8 / S^0.4: larger batches get further in the same steps."""
    rng = np.random.default_rng(seed)
    curves = []
    for size, last in zip(log_batch, last_steps, strict=True):
        steps = np.unique(np.round(np.geomspace(50.0, last, 120)))
        loss = 1.5 + 30.0 * np.exp(-0.6 * size) + 8.0 * steps**-0.4
        curves.append(crossings.smooth(steps, loss + 0.003 * rng.standard_normal(len(steps))))
    return curves


def _sizes_reaching(curves, log_batch, loss):
    found = [crossings.find(curve, [loss]).outcome[0] for curve in curves]
    return len({size for size, outcome in zip(log_batch, found, strict=True) if outcome == "reached"})


@settings(max_examples=10)
@given(st.integers(2, 12), st.integers(0, 3))
def test_chosen_targets_are_reached_by_seven_sizes_fall_and_spread(count, seed):
    curves = _nine_curves(seed)
    chosen = targets.choose(curves, LOG_BATCH, count)
    assert 2 <= len(chosen) <= count
    assert chosen == sorted(set(chosen), reverse=True)
    assert all(_sizes_reaching(curves, LOG_BATCH, loss) >= targets.WANTED_FOR_REVISED for loss in chosen)


def test_targets_spread_over_the_tokens_that_they_take():
    curves = _nine_curves()
    chosen = targets.choose(curves, LOG_BATCH, 8)
    assert len(chosen) == 8

    def log_tokens(loss):
        found = [crossings.find(curve, [loss]) for curve in curves]
        reached = [
            float(f.log_steps[0]) + b
            for f, b in zip(found, LOG_BATCH, strict=True)
            if f.outcome[0] == "reached"
        ]
        return min(reached)

    gaps = np.diff([log_tokens(loss) for loss in chosen])
    assert np.all(gaps > 0)
    assert gaps.max() / gaps.min() < 2.0  # rounding moves a target by a fifth of the spacing at most
    # from where a batch size inside takes the fewest tokens (loss 2.4) to the end of what seven sizes reach
    assert chosen[0] > 2.3
    assert _sizes_reaching(curves, LOG_BATCH, chosen[-1] - 0.1) < 7


def test_targets_are_round_numbers():
    curves = _nine_curves()
    assert all(len(f"{loss:g}") <= 5 for loss in targets.choose(curves, LOG_BATCH, 4))


def test_fewer_than_seven_sizes_are_used_as_far_as_they_go():
    log_batch = LOG_BATCH[:5]
    curves = _curves(log_batch, np.full(5, 20_000.0))
    chosen = targets.choose(curves, log_batch, 4)
    assert chosen
    assert all(_sizes_reaching(curves, log_batch, loss) == 5 for loss in chosen)


def test_seeds_of_one_batch_size_count_once():
    # seven runs of one size get lower than all others; a target that they alone reach is no target
    log_batch = np.append(LOG_BATCH[:7], np.full(7, LOG_BATCH[6]))
    last = np.append(np.full(7, 1000.0), np.full(7, 50_000.0))
    curves = _curves(log_batch, last)
    chosen = targets.choose(curves, log_batch, 4)
    assert chosen
    assert all(_sizes_reaching(curves, log_batch, loss) >= 7 for loss in chosen)


def test_one_target_is_the_furthest_in_training():
    curves = _nine_curves()
    [only] = targets.choose(curves, LOG_BATCH, 1)
    assert only <= targets.choose(curves, LOG_BATCH, 6)[-1] + 0.01


def test_curves_that_never_fall_have_no_targets():
    steps = np.geomspace(50, 5000, 60)
    curves = [crossings.smooth(steps, np.full(60, 3.0)) for _ in range(8)]
    assert targets.choose(curves, LOG_BATCH[:8], 4) == []


@settings(max_examples=5)
@given(st.permutations(range(9)))
def test_the_order_of_runs_does_not_matter(order):
    curves = _nine_curves()
    again = targets.choose([curves[i] for i in order], LOG_BATCH[order], 5)
    assert again == targets.choose(curves, LOG_BATCH, 5)


@pytest.mark.parametrize("factor", [1e-3, 7.0, 1e6])
def test_the_unit_of_tokens_does_not_matter(factor):
    curves = _nine_curves()
    scaled = targets.choose(curves, LOG_BATCH + np.log(factor), 5)
    assert scaled == targets.choose(curves, LOG_BATCH, 5)


def test_b_opt_of_these_curves_lies_within_their_batch_sizes():
    # so that the tests above speak of curves that a fit could use
    free = np.array([0.0, np.log((30.0 / 0.6) ** (1 / 0.6)), np.log(0.6), np.log(0.4)])
    assert LOG_BATCH[0] < float(power.log_numbers(free)["b_opt"]) < LOG_BATCH[-1]
