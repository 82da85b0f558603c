"""The Python API: from runs or a points table to a Fit."""

import numpy as np
import pytest
from strategies import noisy_rows, write_points, write_run, write_sweep

import ebfit
from ebfit.errors import BadInputError, CannotAnswerError
from ebfit.laws import revised
from ebfit.points import read_points

SIZES = [1000 * 2**k for k in range(8)]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    return ebfit.read_runs([write_sweep(tmp_path_factory.mktemp("sweep") / "logs", SIZES)])


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    return read_points(write_points(tmp_path_factory.mktemp("table") / "points.csv", noisy_rows()))


# --- from points -------------------------------------------------------------------------------------------------


def test_points_are_recorded_as_they_were_given(table):
    fit = ebfit.fit(table, bootstrap=100)
    given = {(row["target_loss"], row["batch_tokens"]): row for row in noisy_rows()}
    for target in fit.targets:
        for point in target.points:
            row = given.pop((target.loss, point.batch_tokens))
            assert point.steps == pytest.approx(row["steps"], rel=1e-9)
            assert point.tokens == pytest.approx(row["steps"] * row["batch_tokens"], rel=1e-9)
            assert point.censored == row["censored"]
            if not point.censored:
                assert point.steps_se == pytest.approx(row["steps_se"], rel=1e-6)
    assert not given
    assert [str(item.path) for item in fit.inputs] == [str(table.path)]
    assert fit.settings["bootstrap"] == 100


def test_only_the_targets_asked_for_are_fitted(table):
    fit = ebfit.fit(table, targets=[2.4, 1.0], bootstrap=100)
    assert [target.loss for target in fit.targets] == [2.4]
    assert [(item.loss, item.reason) for item in fit.skipped_targets] == [
        (1.0, "the points table holds no such target")
    ]


def test_a_group_with_too_little_is_skipped_by_name(tmp_path):
    rows = [
        *(row | {"group": "large"} for row in noisy_rows()),
        *(row | {"group": "small"} for row in noisy_rows() if row["batch_tokens"] > 20_000),
    ]
    fit = ebfit.fit(read_points(write_points(tmp_path / "points.csv", rows)), bootstrap=100)
    assert {target.group for target in fit.targets} == {"large"}
    assert {(item.group, item.loss) for item in fit.skipped_targets} == {("small", 2.4), ("small", 2.2)}
    assert all("batch sizes reached it" in item.reason for item in fit.skipped_targets)


def test_a_table_with_nothing_to_fit_cannot_answer(tmp_path):
    rows = [row | {"censored": True} for row in noisy_rows()]
    with pytest.raises(CannotAnswerError, match="no run reaches it"):
        ebfit.fit(read_points(write_points(tmp_path / "points.csv", rows)), bootstrap=100)


# --- trends ------------------------------------------------------------------------------------------------------


def _growing(exponent, losses, scale=3.0):
    """Exact points of one shape whose B_opt and B_min are powers of E_min; B_opt = scale * E_min^exponent."""
    rows = []
    for i, loss in enumerate(losses):
        e_min = 1e6 * 3.0**i
        log_b_opt = float(np.log(scale * e_min**exponent))
        free = np.array([np.log(e_min) - log_b_opt, log_b_opt, -0.7, 0.0, 0.5, 0.3])
        log_b_min = float(revised.log_numbers(free)["b_min"])
        for log_batch in log_b_min + np.linspace(0.1, 3.5, 9):
            steps = float(np.exp(revised.log_steps(free, np.array([log_batch]))[0]))
            rows.append({"target_loss": loss, "batch_tokens": float(np.exp(log_batch)), "steps": steps})
    return rows


def test_trends_are_the_power_laws_behind_the_targets(tmp_path):
    rows = _growing(0.45, [2.6, 2.4, 2.2, 2.0])
    fit = ebfit.fit(read_points(write_points(tmp_path / "points.csv", rows)), bootstrap=100)
    for trend in (fit.trends.b_opt_vs_tokens, fit.trends.b_min_vs_tokens):
        assert trend.exponent == pytest.approx(0.45, abs=1e-3)
        assert trend.exponent_low <= trend.exponent <= trend.exponent_high
        assert (trend.d_low, trend.d_high) == pytest.approx((1e6, 27e6), rel=1e-3)
    assert fit.trends.b_opt_vs_tokens.k == pytest.approx(3.0, rel=1e-2)
    share = 1.0 / (1.0 + np.exp(0.7))  # B_min / B_opt
    assert fit.trends.b_min_vs_tokens.k == pytest.approx(3.0 * share, rel=1e-2)


def test_two_targets_make_no_trend(table):
    fit = ebfit.fit(table, bootstrap=100)
    assert fit.trends.b_opt_vs_tokens is None
    assert fit.trends.b_min_vs_tokens is None


def test_targets_without_a_number_take_no_part_in_a_trend(tmp_path):
    rows = _growing(0.45, [2.6, 2.4, 2.2, 2.0])
    largest = max(row["batch_tokens"] for row in rows if row["target_loss"] == 2.0)
    rows = [r for r in rows if r["target_loss"] != 2.0 or r["batch_tokens"] > 0.08 * largest]
    fit = ebfit.fit(read_points(write_points(tmp_path / "points.csv", rows)), bootstrap=100)
    assert fit.targets[-1].b_opt.status == "upper_bound"
    assert fit.trends.b_opt_vs_tokens.d_high == pytest.approx(9e6, rel=1e-3)


# --- from runs -----------------------------------------------------------------------------------------------------


def test_runs_give_b_opt_of_the_surface_that_made_them(runs):
    fit = ebfit.fit(runs, targets=[2.1, 2.0], bootstrap=200)
    for target, above_floor in zip(fit.targets, (0.6, 0.5), strict=True):
        b_min = (30.0 / above_floor) ** (1 / 0.6)  # DESIGN 3.4
        b_opt = b_min * 2.5 ** (1 / 0.6)
        assert target.b_opt.low < b_opt < target.b_opt.high
        assert target.b_opt.value == pytest.approx(b_opt, rel=0.25)
        assert target.rms_log_residual < 0.03
        if target.b_min.low is not None:
            assert target.b_min.low < b_min
        assert b_min < target.b_min.high


def test_targets_that_are_chosen_are_as_many_as_asked_for_and_fall(runs):
    fit = ebfit.fit(runs, n_targets=3, bootstrap=100)
    losses = [target.loss for target in fit.targets]
    assert len(losses) == 3
    assert losses == sorted(losses, reverse=True)
    assert fit.settings["targets"] == "auto"


def test_runs_are_recorded_with_a_thinned_curve(runs):
    fit = ebfit.fit(runs, targets=[2.1], bootstrap=100)
    assert [run.batch_tokens for run in fit.runs] == SIZES
    for run in fit.runs:
        assert run.curve.kind == "train"
        assert len(run.curve.steps) == len(run.curve.loss) == len(run.curve.smooth)
        np.testing.assert_allclose(run.curve.loss, run.curve.smooth, atol=0.05)
        assert run.stable_from <= run.curve.steps[0]
        assert run.curve.steps[-1] <= run.stable_to
    assert {str(item.path) for item in fit.inputs} == {
        str(path) for run in runs for path in (run.path, run.facts_path)
    }


def test_runs_that_end_early_are_censored_points(tmp_path):
    write_sweep(tmp_path / "logs", SIZES)
    write_run(tmp_path / "logs" / "short", 1500, last_step=400)
    fit = ebfit.fit(ebfit.read_runs([tmp_path / "logs"]), targets=[2.0], bootstrap=100)
    [short] = [point for point in fit.targets[0].points if point.run == "short"]
    assert short.censored
    assert short.steps == pytest.approx(400, rel=0.01)
    assert short.steps_se is None


def test_a_run_that_diverged_is_cut_and_named(tmp_path):
    write_sweep(tmp_path / "logs", SIZES)
    log = tmp_path / "logs" / "b1000" / "metrics.jsonl"
    lines = log.read_text().splitlines()
    for i in range(60, len(lines)):
        lines[i] = lines[i].split('"train_loss"')[0] + f'"train_loss": {3.0 + 0.1 * (i - 60)}}}'
    log.write_text("\n".join(lines) + "\n")
    fit = ebfit.fit(ebfit.read_runs([tmp_path / "logs"]), targets=[2.1], bootstrap=100)
    assert any(warning.startswith("b1000: diverged after step") for warning in fit.warnings)


def test_different_learning_rates_are_warned_about(tmp_path):
    write_sweep(tmp_path / "logs", SIZES[:-1])
    log = write_run(tmp_path / "logs" / "b128000", 128_000, lr=0.02)
    log.write_text(log.read_text().replace('"lr": 0.01', '"lr": 0.02'))
    fit = ebfit.fit(ebfit.read_runs([tmp_path / "logs"]), targets=[2.1], bootstrap=100)
    assert any("different learning rates (0.01, 0.02)" in warning for warning in fit.warnings)


def test_no_runs_and_no_such_loss_are_refused(runs):
    with pytest.raises(BadInputError, match="no runs"):
        ebfit.fit([])
    with pytest.raises(BadInputError, match="0 rows of val loss"):
        ebfit.fit(runs, loss="val")


# --- arguments -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [
        {"law": "linear"},
        {"n_targets": 0},
        {"bootstrap": 10},
        {"confidence": 1.0},
        {"confidence": 95},
        {"confidence": float("nan")},
        {"seed": -1},
        {"targets": []},
        {"targets": [float("nan")]},
        {"targets": "all"},
    ],
    ids=str,
)
def test_arguments_out_of_their_range_are_refused(table, arguments):
    with pytest.raises(BadInputError):
        ebfit.fit(table, **arguments)


def test_everything_that_is_promised_is_there():
    for name in ebfit.__all__:
        assert getattr(ebfit, name) is not None
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = ebfit.no_such_name
