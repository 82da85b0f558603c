"""MaxText's log: lines as its `common/metric_logger.py` joins them, with the prefix of absl."""

from pathlib import Path

import pytest
from console_logs import curve, the_run_in

PREFIX = "I0425 09:31:19.156157 133066620835648 metric_logger.py:196] "


def step(
    number: int, loss: float, weights: str = "65536", lm_loss: str | None = None, rampup: bool = False
) -> str:
    parts = ["[Rampup Batch Size Phase]"] if rampup else []
    parts += [f"completed step: {number}", f"seconds: {1.2344:.3f}"]
    if not rampup:
        parts += [f"TFLOP/s/device: {85.1231:.3f}", f"Tokens/s/device: {12912.3:.3f}"]
    parts += [f"total_weights: {weights}", f"loss: {loss:.3f}"]
    if lm_loss is not None:
        parts += [f"lm_loss: {lm_loss}", f"perplexity: {float('nan'):.3f}", f"moe_lb_loss: {0.012345:.6f}"]
    return PREFIX + ", ".join(parts) + "\n"


def evaluation(number: int, loss: float) -> str:
    return (
        f"{PREFIX}Completed eval step: 0, seconds: 0.500, running loss={9.0:.3f}, running total_weights=8192.0\n"
        f"{PREFIX}Completed eval after train step {number}, loss={loss:.3f}, perplexity={20.0:.3f}, "
        "total_weights=81920.0, avg_z_loss=0.000\n"
    )


def settings(schedule: str = "wsd", **more: object) -> str:
    config = {
        "global_batch_size_to_train_on": 32,
        "learning_rate": 3e-4,
        "learning_rate_schedule_steps": 1000,
        "lr_schedule_type": schedule,
        "max_target_length": 2048,
        "steps": 1000,
        "warmup_steps_fraction": 0.1,
        "wsd_decay_steps_fraction": 0.2,
    } | more
    return "".join(f"I0425 09:31:12.0 1 pyconfig.py:591] Config param {k}: {v}\n" for k, v in config.items())


def test_step_n_is_update_n_plus_1_and_so_is_the_evaluation_after_it(tmp_path: Path):
    text = settings() + step(0, 10.871) + evaluation(1, 9.75) + step(1, 9.8) + step(2, 9.5)
    run = the_run_in(tmp_path, text, "maxtext")
    assert curve(run, "loss") == [(1, 10.871), (2, 9.8), (3, 9.5)]
    assert curve(run, "val_loss") == [(2, 9.75)]
    assert curve(run, "batch_tokens") == [(1, 65_536), (2, 65_536), (3, 65_536)]
    assert run.facts.seq_len == 2048
    assert run.facts.lr == pytest.approx(3e-4)
    assert run.train_window == 1


def test_warmup_and_decay_come_from_the_fractions_of_the_schedule(tmp_path: Path):
    run = the_run_in(tmp_path, settings() + step(0, 10.0), "maxtext")
    assert (run.facts.warmup_steps, run.facts.decay_start_step) == (100, 800)
    assert run.warnings == []


def test_a_schedule_that_is_as_long_as_the_run(tmp_path: Path):
    """MaxText takes -1 for the steps of the run."""
    text = settings(learning_rate_schedule_steps=-1, steps=500) + step(0, 10.0)
    run = the_run_in(tmp_path, text, "maxtext")
    assert (run.facts.warmup_steps, run.facts.decay_start_step) == (50, 400)


def test_a_cosine_has_no_stable_phase_and_says_so(tmp_path: Path):
    run = the_run_in(tmp_path, settings("LearningRateScheduleType.COSINE") + step(0, 10.0), "maxtext")
    assert (run.facts.warmup_steps, run.facts.decay_start_step) == (None, None)
    assert any("decays as a cosine" in warning for warning in run.warnings)


def test_the_loss_without_balancing_terms_is_kept_beside_the_other(tmp_path: Path):
    text = step(0, 10.9, lm_loss="10.871") + step(1, 9.9, lm_loss="0.000")
    run = the_run_in(tmp_path, text, "maxtext")
    assert curve(run, "loss") == [(1, 10.9), (2, 9.9)]
    assert curve(run, "lm_loss") == [(1, 10.871)]


def test_tokens_without_padding_that_waver_are_taken_by_their_mean(tmp_path: Path):
    text = settings() + step(0, 10.0, "64000") + step(1, 9.5, "65000.0") + step(2, 9.0, "63000")
    run = the_run_in(tmp_path, text, "maxtext")
    assert run.facts.batch_tokens == 64_000
    assert "batch_tokens" not in run.table.column_names
    assert any("total_weights lie between 63,000 and 65,000" in warning for warning in run.warnings)


def test_a_ramp_of_the_batch_size_is_left_to_be_seen(tmp_path: Path):
    text = step(0, 10.0, "32768", rampup=True) + step(1, 9.5, "65536") + step(2, 9.0, "65536")
    run = the_run_in(tmp_path, text, "maxtext")
    assert curve(run, "batch_tokens") == [(1, 32_768), (2, 65_536), (3, 65_536)]


def test_steps_at_the_bounds_of_profiling_count(tmp_path: Path):
    line = PREFIX + "completed profiler activation/deactivation step: 5, total_weights: 65536, loss: 8.125\n"
    run = the_run_in(tmp_path, step(4, 8.5) + line, "maxtext")
    assert curve(run, "loss") == [(5, 8.5), (6, 8.125)]


def test_evaluations_as_older_versions_print_them(tmp_path: Path):
    text = step(9, 8.5) + f"{PREFIX}eval metrics after step: 9, loss=8.400, total_weights=81920.0\n"
    assert curve(the_run_in(tmp_path, text, "maxtext"), "val_loss") == [(10, 8.4)]
