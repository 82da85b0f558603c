"""nanochat's console: lines as its `scripts/base_train.py` prints them."""

from pathlib import Path

import pytest
from console_logs import curve, the_run_in

from ebfit.runs import ReadOptions, read_runs


def step(number: int, loss: float, lrm: float = 1.0, total: int = 21_400) -> str:
    return (
        f"step {number:05d}/{total:05d} ({100 * number / total:.2f}%) | loss: {loss:.6f} | lrm: {lrm:.2f} | "
        f"dt: {410.123:.2f}ms | tok/sec: {1_278_353:,} | bf16_mfu: {47.123:.2f} | epoch: 1 pq: 0 rg: 12 | "
        f"total time: {0.05:.2f}m | eta: 145.1m\n"
    )


def evaluation(number: int, bits_per_byte: float) -> str:
    return f"Step {number:05d} | Validation bpb: {bits_per_byte:.6f}\n"


OPENING = (
    "Auto-computed optimal batch size: 1,048,576 tokens\n"
    "Scaling LRs by 1.4142 for batch size 1,048,576 (reference: 524,288)\n"
    "Tokens / micro-batch / rank: 32 x 2048 = 65,536\n"
    "Tokens / micro-batch: 524,288\n"
    "Total batch size 1,048,576 => gradient accumulation steps: 2\n"
)


def test_step_n_is_update_n_plus_1_and_an_evaluation_at_n_comes_after_n(tmp_path: Path):
    text = OPENING + evaluation(0, 3.3012) + step(0, 11.090355, lrm=0.03) + step(1, 10.9) + step(2, 10.5)
    text += evaluation(250, 1.2345) + "Step 00250 | CORE metric: 0.1234\n" + step(250, 4.5)
    run = the_run_in(tmp_path, text, "nanochat")
    assert curve(run, "loss") == [(1, 11.090355), (2, 10.9), (3, 10.5), (251, 4.5)]
    assert curve(run, "val_bpb") == [(0, 3.3012), (250, 1.2345)]
    assert (run.facts.batch_tokens, run.facts.seq_len) == (1_048_576, 2048)
    assert (run.train_window, run.train_ema) == (None, 0.9)


def test_the_learning_rate_is_its_multiplier_times_that_for_the_batch_size(tmp_path: Path):
    """So that runs whose rates nanochat scaled with the batch size are told apart."""
    text = OPENING + step(0, 11.0, lrm=0.5) + step(1, 10.0)
    rates = [rate for _, rate in curve(the_run_in(tmp_path, text, "nanochat"), "lr")]
    assert rates == pytest.approx([0.7071, 1.4142])
    rates = [rate for _, rate in curve(the_run_in(tmp_path, step(0, 11.0), "nanochat"), "lr")]
    assert rates == [1.0]


def test_autoresearch_writes_its_steps_over_each_other_on_one_line(tmp_path: Path):
    text = "".join(
        f"\rstep {n:05d} ({n / 10:.1f}%) | loss: {9 - n / 10:.6f} | lrm: {1.0:.2f} | dt: {300.0:.0f}ms | "
        f"tok/sec: {1_700_000:,} | mfu: {40.1:.1f}% | epoch: 1 | remaining: {300 - n:.0f}s    "
        for n in range(4)
    )
    run = the_run_in(tmp_path, text + "\n---\nval_bpb:          0.997900\n", "nanochat")
    assert curve(run, "loss") == [(1, 9.0), (2, 8.9), (3, 8.8), (4, 8.7)]


def test_bits_per_byte_are_no_validation_loss_in_nats(tmp_path: Path):
    log = tmp_path / "train.log"
    log.write_text(OPENING + "".join(step(n, 9 - n / 100) for n in range(40)) + evaluation(40, 1.2345))
    (run,) = read_runs([log], ReadOptions(warmup_steps=1))
    assert run.val is None
    assert any("bits per byte" in text and "val=val_bpb" in text for text in run.warnings)
    (run,) = read_runs([log], ReadOptions(warmup_steps=1, columns={"val": "val_bpb"}))
    assert run.val.loss.tolist() == [1.2345]
