"""Simulated runs: what their noise is, what happens to them, and that a fit of them finds the truth."""

import math
from dataclasses import asdict, replace

import numpy as np
import pytest
from test_simulate_worlds import EXACT

import ebfit
from ebfit import simulate
from ebfit.errors import BadInputError
from ebfit.simulate import PRESETS, Noise, Rows, World
from ebfit.simulate.sweep import Sweep

CLEAN = PRESETS["clean"]
WORLD = World("exact", EXACT)
SMALL, LARGE = 2**16, 2**20
EVERY_STEP = Rows(every=1)


def _sweep(noise: Noise, **more) -> Sweep:
    options = {"targets": [3.0], "batch_tokens": [SMALL, LARGE], "max_steps": 20_000}
    return simulate.sweep(WORLD, noise, **(options | more))


def _law(run):
    return WORLD.loss(np.asarray(math.log(run.course.batch_tokens)), np.log(run.steps))


def _off_the_law(run):
    """What is added to the loss in the stable phase."""
    return (run.train_loss - _law(run))[run.stable]


# --- without noise -------------------------------------------------------------------------------------------------


def test_a_clean_run_is_the_law_after_its_warmup():
    for run in _sweep(CLEAN).runs:
        law = _law(run)
        assert run.stable[-1]
        assert run.train_loss[run.stable] == pytest.approx(law[run.stable], abs=1e-9)
        validated = np.isfinite(run.val_loss)
        assert run.val_loss[validated] == pytest.approx(run.train_loss[validated], abs=1e-12)
        warming_up = run.steps < run.course.warmup_steps
        higher = run.train_loss[warming_up] - np.minimum(law[warming_up], 10.8)
        assert (higher >= 0).all()
        assert higher.max() > 0.5


def test_a_loss_begins_at_a_guess_and_falls():
    for run in _sweep(CLEAN).runs:
        assert run.train_loss[0] == 10.8
        assert (np.diff(run.train_loss) <= 0).all()


def test_the_learning_rate_warms_up_stays_and_decays():
    run = _sweep(replace(CLEAN, decay_fraction=0.2), max_steps=1000, rows=EVERY_STEP).runs[0]
    warmup, decays = run.course.warmup_steps, run.decay_start_step
    assert run.steps[-1] == 1250 == round(decays / 0.8)
    assert run.lr[:warmup] == pytest.approx(1e-3 * np.arange(1, warmup + 1) / warmup)
    assert (run.lr[warmup - 1 : decays] == 1e-3).all()
    assert (np.diff(run.lr[decays - 1 :]) < 0).all()
    assert run.lr[-1] == 0.0
    below = _law(run)[decays:] - run.train_loss[decays:]
    assert (np.diff(below) > 0).all()
    assert below[-1] == pytest.approx(CLEAN.decay_drop * (_law(run)[-1] - 2.0))


def test_runs_are_as_long_as_the_lowest_target_takes_and_a_little_longer():
    swept = simulate.sweep(WORLD, CLEAN, targets=[3.2, 2.8], batch_tokens=[2**k for k in range(14, 23)])
    truth = WORLD.truth_at(2.8)
    for run in swept.runs:
        takes = float(WORLD.log_steps(2.8, math.log(run.course.batch_tokens)))
        if run.course.batch_tokens > 1.5 * truth.b_min:
            assert takes < math.log(run.steps[-1]) < takes + 0.5
        else:
            assert run.steps[-1] <= 30 * truth.s_opt + 1
    reached = sum(run.course.batch_tokens > truth.b_min for run in swept.runs)
    assert swept.sizes_reaching(2.8) == reached < len(swept.runs)


@pytest.mark.parametrize("window", [7, 100])
def test_a_windowed_loss_is_the_mean_of_the_steps_it_covers(window):
    single = _sweep(CLEAN, max_steps=1500, rows=EVERY_STEP).runs[0]
    averaged = _sweep(replace(CLEAN, window=window), max_steps=1500, rows=EVERY_STEP).runs[0]
    means = np.convolve(single.train_loss, np.ones(window) / window, "valid")
    settled = slice(single.course.warmup_steps + window, None)
    assert averaged.train_loss[window - 1 :][settled] == pytest.approx(means[settled], abs=5e-6)
    assert averaged.val_loss == pytest.approx(single.val_loss, nan_ok=True)


def test_a_loss_averaged_over_intervals_is_the_mean_since_the_row_before():
    single = _sweep(CLEAN, max_steps=1500, rows=EVERY_STEP).runs[0]
    rows = Rows(every=50)
    averaged = _sweep(
        replace(CLEAN, window="interval", evaluations_per_doubling=1), max_steps=1500, rows=rows
    ).runs[0]
    for row in np.flatnonzero(averaged.steps > 500):
        before, step = averaged.steps[row - 1], averaged.steps[row]
        assert averaged.train_loss[row] == pytest.approx(single.train_loss[before:step].mean(), abs=1e-6)


# --- noise ---------------------------------------------------------------------------------------------------------


def test_the_noise_of_a_step_falls_with_the_root_of_the_batch_down_to_a_floor():
    noise = replace(CLEAN, step_sd=8.0)
    small, large = (_off_the_law(run).std() for run in _sweep(noise, rows=EVERY_STEP, max_steps=8000).runs)
    assert small == pytest.approx(8.0 / math.sqrt(SMALL), rel=0.2)
    assert small / large == pytest.approx(4.0, rel=0.3)
    floored = _sweep(replace(noise, step_sd_floor=0.1), rows=EVERY_STEP, max_steps=8000).runs
    assert [_off_the_law(run).std() for run in floored] == pytest.approx([0.1, 0.1], rel=0.3)


def test_the_tail_is_heavy_where_it_is_asked_to_be():
    def beyond_four_sd(tail):
        run = _sweep(replace(CLEAN, step_sd=8.0, tail=tail), rows=EVERY_STEP, max_steps=20_000).runs[0]
        off = _off_the_law(run)
        return np.mean(np.abs(off) > 4 * off.std())

    assert beyond_four_sd(3.0) > 20 * max(beyond_four_sd(1000.0), 1e-4)


def test_averaging_over_steps_makes_the_noise_small():
    def spread_over(window):
        quiet, noisy = (
            _sweep(replace(CLEAN, window=window, step_sd=sd), rows=EVERY_STEP).runs[0] for sd in (0.0, 8.0)
        )
        return (noisy.train_loss - quiet.train_loss)[100:].std()

    spread = {window: spread_over(window) for window in (1, 64)}
    assert spread[1] / spread[64] == pytest.approx(8.0, rel=0.25)


def test_a_wander_is_shared_by_train_and_validation_and_forgotten_in_log_step():
    noise = replace(CLEAN, wander_sd=10.0, wander_length=0.2)
    at_lag, variances, other_variances = [], [], []
    for seed in range(40):
        small, large = _sweep(noise, seed=seed, rows=Rows(per_doubling=100)).runs
        validated = np.isfinite(small.val_loss)
        assert small.val_loss[validated] == pytest.approx(small.train_loss[validated], abs=1e-9)
        off = _off_the_law(small)
        lag = round(0.2 / (math.log(2) / 100))
        at_lag.append(off[lag:] @ off[:-lag] / len(off[lag:]))
        variances.append(off @ off / len(off))
        other_variances.append(np.mean(_off_the_law(large) ** 2))
    assert math.sqrt(np.mean(variances)) == pytest.approx(10.0 / math.sqrt(SMALL), rel=0.15)
    assert math.sqrt(np.mean(other_variances)) == pytest.approx(10.0 / math.sqrt(LARGE), rel=0.15)
    assert np.mean(at_lag) / np.mean(variances) == pytest.approx(math.exp(-1), abs=0.12)


def test_seeds_shift_runs_in_log_steps_and_share_what_is_their_batch_size_s():
    swept = simulate.sweep(
        WORLD,
        replace(CLEAN, seed_sd=0.02, size_sd=0.05),
        targets=[3.0],
        batch_tokens=[1024 * k for k in range(60, 360)],
        seeds=2,
        max_steps=1000,
    )
    late = np.array([run.course.late for run in swept.runs]).reshape(300, 2)
    assert (late[:, 0] - late[:, 1]).std() == pytest.approx(0.02 * math.sqrt(2), rel=0.15)
    assert np.cov(late.T)[0, 1] == pytest.approx(0.05**2, rel=0.2)
    run = swept.runs[0]
    shifted = WORLD.loss(np.asarray(math.log(run.course.batch_tokens)), np.log(run.steps) - run.course.late)
    assert run.train_loss[run.stable] == pytest.approx(shifted[run.stable], abs=1e-9)


def test_spikes_rise_in_the_train_loss_and_run_out():
    noise = replace(CLEAN, spikes=3.0, spike_height=2.0)
    spiked = [run for run in _sweep(noise, rows=EVERY_STEP, seeds=4).runs if _off_the_law(run).max() > 0.3]
    assert spiked
    for run in spiked:
        off = run.train_loss - np.minimum(_law(run), 10.8)
        off = np.where(run.steps > run.course.warmup_steps, off, 0.0)
        top = int(np.argmax(off))
        after = min(top + int(0.1 * run.steps[top]) + 1, len(off) - 1)
        assert off.min() > -1e-9
        assert off[after] < 0.01 * off[top] or (off[top + 1 : after + 1] > off[top:after]).any()
        assert np.nanmax(np.where(run.stable, run.val_loss - _law(run), 0.0)) < 1e-9


def test_runs_are_cut_short_or_diverge_as_often_as_asked():
    noise = replace(CLEAN, cut_short=0.3, diverged=0.2, decay_fraction=0.1)
    runs = simulate.sweep(
        WORLD, noise, targets=[3.0], batch_tokens=[1024 * k for k in range(60, 160)], seeds=2, max_steps=5000
    ).runs
    cut = [run for run in runs if run.status == "interrupted"]
    diverged = [run for run in runs if run.status == "failed"]
    assert 0.2 < len(cut) / len(runs) < 0.4
    assert 0.08 < len(diverged) / len(runs) < 0.25
    for run in cut:
        assert run.steps[-1] < run.course.stable_steps
        assert run.decay_start_step is None
    for run in diverged:
        assert run.train_loss[-1] > run.train_loss.min() + 0.5
        assert np.nanmax(run.val_loss[-20:]) > np.nanmin(run.val_loss) + 0.5


def test_losses_are_rounded_and_validated_as_rarely_as_asked():
    run = _sweep(replace(PRESETS["realistic"], decimals=2, evaluations_per_doubling=2)).runs[0]
    assert (run.train_loss == np.round(run.train_loss, 2)).all()
    assert np.isfinite(run.val_loss).sum() == pytest.approx(2 * math.log2(run.steps[-1]), abs=3)


def test_scaling_scales_what_is_random_and_nothing_else():
    twice = PRESETS["realistic"].scaled(2.0)
    assert twice.seed_sd == 2 * Noise().seed_sd
    assert twice.spikes == 2 * Noise().spikes
    assert (twice.tail, twice.window, twice.decay_fraction) == (4.0, 1, 0.1)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("step_sd", -1.0),
        ("step_sd", math.nan),
        ("tail", 2.0),
        ("cut_short", 1.0),
        ("decay_fraction", 0.95),
        ("window", 0),
        ("window", 2.5),
        ("decimals", 0),
        ("evaluations_per_doubling", 0),
        ("seed_sd", math.inf),
        ("colour", 1.0),
    ],
)
def test_noise_without_sense_is_refused(name, value):
    with pytest.raises(BadInputError) as error:
        Noise().with_fields({name: value})
    assert name in str(error.value)


# --- luck ----------------------------------------------------------------------------------------------------------


def _same(left, right):
    return all(
        np.array_equal(getattr(left, name), getattr(right, name), equal_nan=True)
        for name in ("steps", "lr", "train_loss", "val_loss")
    )


def test_a_run_does_not_depend_on_the_others_of_its_sweep():
    alone = _sweep(PRESETS["harsh"], batch_tokens=[LARGE]).runs[0]
    among = _sweep(PRESETS["harsh"], batch_tokens=[2**14, SMALL, LARGE, 2**22], seeds=3).runs
    assert _same(alone, next(run for run in among if run.name == alone.name))


def test_another_seed_is_other_luck_in_the_same_world():
    first, again, other = (_sweep(PRESETS["realistic"], seed=seed) for seed in (1, 1, 2))
    assert all(map(_same, first.runs, again.runs))
    assert not any(map(_same, first.runs, other.runs))
    assert [asdict(answer) for answer in first.truth] == [asdict(answer) for answer in other.truth]


# --- what a fit makes of them ----------------------------------------------------------------------------------------


def test_a_fit_of_a_clean_sweep_finds_the_truth():
    sizes = simulate.default_batch_tokens(WORLD, [3.2, 2.8], count=16)
    swept = simulate.sweep(WORLD, CLEAN, targets=[3.2, 3.0, 2.8], batch_tokens=sizes)
    result = ebfit.fit(swept.as_runs(), targets=swept.targets, bootstrap=100)
    for target, truth in zip(result.targets, swept.truth, strict=True):
        assert target.b_opt.status == target.b_min.status == "ok"
        assert target.b_opt.value == pytest.approx(truth.b_opt, rel=0.03)
        assert target.b_min.value == pytest.approx(truth.b_min, rel=0.05)
        assert target.e_min == pytest.approx(truth.e_min, rel=0.01)
        assert {p.batch_tokens for p in target.points if p.censored} == {
            size for size in sizes if size < truth.b_min
        }


def test_runs_cut_short_are_censored_at_the_targets_below_their_end():
    swept = simulate.sweep(WORLD, replace(CLEAN, cut_short=0.4), targets=[3.2, 2.8], seed=3)
    cut = {run.name: run.train_loss[-1] for run in swept.runs if run.status == "interrupted"}
    assert len(cut) > 2
    result = ebfit.fit(swept.as_runs(), targets=[3.2, 2.8], bootstrap=100)
    for target in result.targets:
        for point in target.points:
            if point.run in cut:
                assert point.censored == (cut[point.run] > target.loss)


def test_the_loss_of_the_decay_is_no_crossing():
    """Targets that only the decay gets down to are not reached."""
    swept = _sweep(replace(CLEAN, decay_fraction=0.3, decay_drop=0.5), max_steps=None)
    for run, read in zip(swept.runs, swept.as_runs(), strict=True):
        stable = read.stable_curve("train")
        assert stable.loss.min() == pytest.approx(_law(run)[run.stable][-1], abs=1e-9)
        assert run.train_loss.min() < stable.loss.min() - 0.2
        assert read.stable_to == run.decay_start_step


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"targets": []}, "no target losses"),
        ({"targets": [1.9]}, "never reached: this world ends at 2 nats"),
        ({"batch_tokens": [1000]}, "1,000 tokens is not a multiple of the sequence length, 1,024"),
        ({"batch_tokens": []}, "no batch sizes"),
        ({"batch_tokens": [0]}, "from 1 to 1e+15"),
        ({"seeds": 0}, "0 seeds"),
        ({"seeds": 10**9}, "10,000 runs in all"),
        ({"seed": -1}, "seed -1"),
        ({"max_steps": 3}, "--max-steps 3: give 20 or more"),
        ({"rows": Rows(every=0)}, "a row every 0 steps"),
        ({"rows": Rows(every=10**6)}, "leaves fewer than 8"),
        ({"rows": Rows(every=1), "seeds": 5000}, "rows. Log fewer"),
        ({"rows": Rows(per_doubling=0)}, "0 rows per doubling"),
        ({"noise": "loud"}, "there is no noise 'loud'. Choose clean, realistic, harsh"),
    ],
)
def test_sweeps_without_sense_are_refused(options, says):
    with pytest.raises(BadInputError) as error:
        _sweep(**({"noise": CLEAN} | options))
    assert says in str(error.value)
