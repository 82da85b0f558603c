"""llm.c: `main.log` as its `llmc/logger.h` writes it, and the console of `train_gpt2.cu` and `train_gpt2.py`."""

from pathlib import Path

import pytest
from console_logs import curve, runs_in, the_run_in

TABLE = (
    "+-----------------------+----------------------------------------------------+\n"
    "| Parameter             | Value                                              |\n"
    f"| micro batch size B    | {64:<50d} |\n| sequence length T     | {1024:<50d} |\n"
    f"| total batch size      | {524_288:<50d} |\n| warmup iterations     | {700:<50d} |\n"
    "batch_size B=64 * seq_len T=1024 * num_processes=8 and total_batch_size=524288\n"
)


def console_step(number: int, loss: float) -> str:
    """The update of this number, from 1."""
    return (
        f"step {number:4d}/19560 | loss {loss:7.6f} (+nanz)| norm {1.25:6.4f} ({-0.5:+.2f}z)| lr {6e-4:.2e} | "
        f"{1234.5:.2f} ms | {49.1:.1f}% bf16 MFU | {424242.0:.0f} tok/s\n"
    )


def logged_step(number: int, loss: float) -> str:
    return f"s:{number} trl:{loss:.4f} lr:{6e-4:.6f} norm:{15.37:.2f}\n"


def test_main_log_counts_steps_from_0_and_validations_by_updates_made(tmp_path: Path):
    text = "s:0 tel:11.0092\n" + logged_step(0, 11.0091) + logged_step(1, 10.9598)
    text += "s:2 tel:10.8500\ns:2 eval:0.2455\n" + logged_step(2, 10.8556)
    run = the_run_in(tmp_path, text, "llm_c")
    assert curve(run, "loss") == [(1, 11.0091), (2, 10.9598), (3, 10.8556)]
    assert curve(run, "lr") == [(1, 0.0006), (2, 0.0006), (3, 0.0006)]
    assert curve(run, "val_loss") == [(0, 11.0092), (2, 10.85)]
    assert run.facts is None
    assert run.train_window == 1


def test_main_log_of_early_versions_has_no_learning_rate(tmp_path: Path):
    run = the_run_in(tmp_path, "s:0 tel:10.968871\ns:0 trl:10.965596\ns:1 trl:10.814037\n", "llm_c")
    assert curve(run, "loss") == [(1, 10.965596), (2, 10.814037)]


def test_the_console_counts_from_1_and_validates_before_the_next_step(tmp_path: Path):
    text = TABLE + "val loss 11.009200\n" + console_step(1, 11.0091) + console_step(2, 10.9598)
    text += (
        "val loss 10.850000\nHellaSwag: 2466/10042 = 0.245569\n"
        + console_step(3, 10.8556)
        + "val loss 10.750000\n"
    )
    run = the_run_in(tmp_path, text, "llm_c")
    assert curve(run, "loss") == [(1, 11.0091), (2, 10.9598), (3, 10.8556)]
    assert curve(run, "val_loss") == [(0, 11.0092), (2, 10.85), (3, 10.75)]
    assert (run.facts.batch_tokens, run.facts.seq_len) == (524_288, 1024)


def test_a_validation_after_a_restart_is_that_of_the_checkpoint(tmp_path: Path):
    """It was killed after update 8 and went on from the checkpoint at 5."""
    text = TABLE + "".join(console_step(n, 11 - n / 10) for n in range(1, 9))
    text += TABLE + "val loss 10.600000\n" + "".join(console_step(n, 11 - n / 10) for n in range(6, 11))
    run = the_run_in(tmp_path, text, "llm_c")
    assert curve(run, "val_loss") == [(5, 10.6)]
    assert run.facts.batch_tokens == 524_288


@pytest.mark.parametrize(
    "line",
    [
        "step    1/19560 | train loss 11.009100 | norm 15.3700 | lr 6.00e-04 | (1234.50 ms | 424242 tok/s)\n",
        "step    1/19560: train loss 11.009100 norm 15.3700 lr 6.00e-04 (1234.50 ms, 424242 tok/s)\n",
        "step    1/19560 | loss 11.009100 (-nanz)| norm nan (+nanz)| lr 6.00e-04 | 1.00 ms | 1.0% bf16 MFU | 1 tok/s\n",
    ],
)
def test_the_step_as_other_versions_print_it(tmp_path: Path, line: str):
    run = the_run_in(tmp_path, line, "llm_c")
    assert curve(run, "loss") == [(1, 11.0091)]
    assert curve(run, "lr") == [(1, 0.0006)]


def test_two_runs_on_one_console_have_each_its_validations(tmp_path: Path):
    text = ""
    for loss in (11.0, 10.5):
        text += TABLE + f"val loss {loss:f}\n" + "".join(console_step(n, loss - n / 10) for n in range(1, 9))
        text += f"val loss {loss - 1:f}\n"
    first, second = runs_in(tmp_path, text, "llm_c")
    assert curve(first, "val_loss") == [(0, 11.0), (8, 10.0)]
    assert curve(second, "val_loss") == [(0, 10.5), (8, 9.5)]
    assert first.facts.batch_tokens == second.facts.batch_tokens == 524_288
