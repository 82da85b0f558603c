"""Console logs of Composer, InternEvo and nanotron, lines as their sources print them."""

from pathlib import Path

import pytest

from ebfit.errors import BadInputError
from ebfit.runs import ReadOptions, read_runs
from ebfit.runs.formats import composer_text
from tests.console_logs import curve, runs_in, the_run_in

STEPS = range(1, 41)


def loss_at(step: float) -> float:
    return round(6.0 - step / 100, 4)


# --- nanotron ---------------------------------------------------------------------------------------------------------


def human(value: float) -> str:
    """A number as nanotron prints it: three digits and a unit."""
    shown, unit = float(f"{value:.3g}"), 0
    while abs(shown) >= 1000:
        shown, unit = shown / 1000, unit + 1
    return f"{shown:f}".rstrip("0").rstrip(".") + ["", "K", "M", "G"][unit]


NANOTRON_START = (
    "05/01/2026 10:00:00 [INFO|DP=0|PP=0|TP=0]: [Start training] datetime: 2026-05-01 10:00:00 | mbs: 4 | grad_accum: 8"
    " | global_batch_size: 96 | sequence_length: 2048 | train_steps: 40 | start_iteration_step: 0 | "
    "consumed_train_samples: 0\n"
)


def nanotron_line(step: int, batch_tokens: int = 96 * 2048, loss: str | None = None) -> str:
    loss = human(loss_at(step)) if loss is None else loss
    return (
        f"05/01/2026 10:00:00 [INFO|DP=0|PP=0|TP=0]: iteration: {step} / 40 | consumed_tokens: "
        f"{human(batch_tokens * step)} | elapsed_time_per_iteration_ms: 4.71K | tokens_per_sec: 109K | "
        f"tokens_per_sec_per_gpu: 13.6K | global_batch_size: 96 | lm_loss: {loss} | lr: 0.0003 | model_tflops_per_gpu: "
        "180 | hardware_tflops_per_gpu: 180 | grad_norm: 2.96\n"
    )


def test_nanotron_tokens_of_three_digits_are_computed_anew(tmp_path: Path):
    run = the_run_in(tmp_path, NANOTRON_START + "".join(map(nanotron_line, STEPS)), "nanotron")
    assert curve(run, "tokens") == [(step, 96 * 2048 * step) for step in STEPS]
    assert curve(run, "loss") == [(step, float(human(loss_at(step)))) for step in STEPS]
    assert curve(run, "lr")[0] == (1, 0.0003)
    assert (run.facts.batch_sequences, run.facts.seq_len, run.train_window) == (96, 2048, 1)


def test_nanotron_of_2025_prints_the_batch_size_in_tokens_and_the_start_in_another_order(tmp_path: Path):
    start = (
        "05/01 10:00:00 [INFO|DP=0|TP=0]: [Start training] datetime: 2026-05-01 10:00:00 | mbs: 4 | grad_accum: 8 | "
        "cp: 1 | sequence_length: 2048 | global_batch_size: 96 | train_steps: 40 | start_iteration_step: 0 | "
        "consumed_tokens_total: 0\n"
    )
    lines = [
        f"05/01 10:00:00 [INFO|DP=0|TP=0|node7]: iteration: {step} / 40 | consumed_tokens: {human(96 * 2048 * step)} | "
        f"time_per_iteration_ms: 8.79K | tokens_per_sec: 182K | tokens_per_sec_per_gpu: 699 | global_batch_size: 197K"
        f" | grad_norm: 0.1 | lm_loss: {human(loss_at(step))} | lr: 0.0001 | model_tflops_per_gpu: 15 | eta: 1:45:39\n"
        for step in STEPS
    ]
    path = tmp_path / "x.log"
    path.write_text(start + "".join(lines))
    (run,) = read_runs([path], ReadOptions(warmup_steps=1))
    assert run.batch_tokens == 96 * 2048
    assert run.train.steps.tolist() == list(STEPS)


def test_nanotron_tokens_that_do_not_agree_with_the_start_stay_as_printed(tmp_path: Path):
    """The run was resumed with another batch size than the one that it began with."""
    text = NANOTRON_START + "".join(nanotron_line(step, 100_000) for step in STEPS)
    assert curve(the_run_in(tmp_path, text, "nanotron"), "tokens")[-1] == (40, 4e6)


def test_nanotron_without_its_start_gives_a_rounded_batch_size_with_a_warning(tmp_path: Path):
    path = tmp_path / "x.log"
    path.write_text("".join(map(nanotron_line, STEPS)))
    (run,) = read_runs([path], ReadOptions(warmup_steps=1))
    assert run.batch_tokens == pytest.approx(96 * 2048, rel=0.005)
    assert any("the tokens column is rounded" in warning for warning in run.warnings)


def test_nanotron_a_loss_that_is_no_number(tmp_path: Path):
    text = NANOTRON_START + "".join(nanotron_line(step, loss="nan" if step == 7 else None) for step in STEPS)
    (tmp_path / "x.log").write_text(text)
    (run,) = read_runs([tmp_path / "x.log"], ReadOptions(warmup_steps=1))
    assert run.dropped == {"loss is not a number": 1}


# --- InternEvo --------------------------------------------------------------------------------------------------------


def internevo_line(step: int) -> str:
    return (
        "2026-05-01 10:00:00,123\tINFO pipeline.py:641 in record_current_batch_training_metrics -- tflops=63.28 "
        f"step={step - 1} loss={loss_at(step)} real_tgs=1400.1 tgs (tokens/gpu/second)=1424.93 tgs/last_tgs_1=1424.93 "
        "tgs/tgs_all=1424.93 tgs/tgs_avg=1424.93 tgs/tgs_SMA=1424.93 tgs/last_tgs_10=0 tgs/last_tgs_50=0 lr=0.0003 "
        "loss_scale=65536.0 grad_norm={'0_default': 66.51, '1_fp32': 0.0} moe_loss=3.29 micro_num=4 "
        f"num_consumed_tokens={131072 * step} inf_nan_skip_batches=0 num_samples_in_batch=19 largest_length=2048 "
        "largest_batch=6 smallest_batch=3 adam_beta2=0.95 fwd_bwd_time=6.87 acc=0.0 perplexity=112181.7188 acc/en=0.0 "
        "tokens/en=120836 loss_from_metric=11.6 loss/en=11.6 \n"
    )


def internlm_line(step: int) -> str:
    """As InternLM printed it in 2023, with commas."""
    return (
        "2023-07-07 12:29:01,636 INFO train.py:323 in record_current_batch_training_metrics -- tflops=189.83,"
        f"step={step - 1},loss={loss_at(step)},tgs (tokens/gpu/second)=4274.31,lr=0.0003,loss_scale=65536.0,"
        f"grad_norm=63.67,micro_num=4,num_consumed_tokens={131072 * step},inf_nan_skip_batches=0,"
        "num_samples_in_batch=14,largest_length=2048,largest_batch=5,smallest_batch=4,adam_beta2=0.95,fwd_bwd_time=3.4\n"
    )


@pytest.mark.parametrize("line", [internevo_line, internlm_line])
def test_internevo_steps_count_from_zero_and_tokens_over_all_ranks(tmp_path: Path, line):
    run = the_run_in(tmp_path, "".join(map(line, STEPS)), "internevo")
    assert curve(run, "loss") == [(step, loss_at(step)) for step in STEPS]
    assert curve(run, "tokens") == [(step, 131072 * step) for step in STEPS]
    assert curve(run, "lr")[0] == (1, 0.0003)
    assert run.train_window == 1
    (tmp_path / "x.log").write_text("".join(map(line, STEPS)))
    (read,) = read_runs([tmp_path / "x.log"], ReadOptions(warmup_steps=1))
    assert read.batch_tokens == 131072  # not micro_num, largest_batch or num_samples_in_batch


def test_internevo_evaluations_count_updates(tmp_path: Path):
    text = "".join(
        internevo_line(step)
        + (
            f"2026-05-01 10:00:00,123\tINFO evaluation.py:125 in evaluate_on_val_dls -- Validation on en: step={step} "
            f"val/en_loss={loss_at(step) + 0.25} val/en_acc=0.3 val/en_plex=40.1\n"
            if step % 10 == 0
            else ""
        )
        for step in STEPS
    )
    (tmp_path / "x.log").write_text(text)
    (run,) = read_runs([tmp_path / "x.log"], ReadOptions(warmup_steps=1))
    assert run.val.steps.tolist() == [10, 20, 30, 40]
    assert run.val.loss.tolist() == [loss_at(step) + 0.25 for step in (10, 20, 30, 40)]


# --- Composer ---------------------------------------------------------------------------------------------------------

COMPOSER_CONFIG = (
    "******************************\nConfig:\neval_interval: 25ba\nglobal_train_batch_size: 96\nmax_seq_len: 2048\n"
    "model:\n  d_model: 768\n  max_seq_len: 2048\nseed: 17\n\n******************************\n"
)


def composer_step(
    step: int, header: str | None = None, *, before: int | None = None, prefix: str = "", lr: str = "0.0300"
) -> str:
    """A step of Composer 0.32; the counts were taken before its update."""
    before = step - 1 if before is None else before
    lines = [
        f"{header or f'[batch={step}/40]'}:",
        "\t Train time/epoch: 0",
        f"\t Train time/batch: {before}",
        f"\t Train time/sample: {before * 96}",
        f"\t Train time/batch_in_epoch: {before}",
        f"\t Train time/sample_in_epoch: {before * 96}",
        f"\t Train time/token: {before * 96 * 2048}",
        f"\t Train time/token_in_epoch: {before * 96 * 2048}",
        "\t Train trainer/device_train_microbatch_size: 8",
        f"\t Train loss/train/total: {loss_at(step):.4f}",
        f"\t Train metrics/train/LanguageCrossEntropy: {loss_at(step) + 1:.4f}",
        "\t Train metrics/train/LanguagePerplexity: 162754.5000",
        f"\t Train lr-DecoupledAdamW/group0: {lr}",
    ]
    return "".join(f"{prefix}{line}\n" for line in lines)


def composer_evaluation(loss: float, label: str = "eval") -> str:
    return (
        "[Eval batch=1/8] Eval on eval data\n[Eval batch=8/8] Eval on eval data:\n"
        f"\t Eval metrics/{label}/LanguageCrossEntropy: {loss:.4f}\n"
        f"\t Eval metrics/{label}/LanguagePerplexity: 40.0000\n"
    )


def test_composer_steps_tokens_and_batch_size(tmp_path: Path):
    run = the_run_in(tmp_path, COMPOSER_CONFIG + "".join(map(composer_step, STEPS)), "composer_text")
    assert curve(run, "loss") == [(step, loss_at(step)) for step in STEPS]
    assert curve(run, "tokens") == [(step, 96 * 2048 * step) for step in STEPS[1:]]
    assert curve(run, "lr")[-1] == (40, 0.03)
    assert (run.facts.batch_sequences, run.facts.seq_len, run.facts.seed) == (96, 2048, 17)
    assert run.train_window == 1
    (tmp_path / "x.log").write_text("".join(map(composer_step, STEPS)))
    (read,) = read_runs([tmp_path / "x.log"])
    assert read.batch_tokens == 96 * 2048  # by the tokens, without a config
    assert not any("batch size changed" in warning for warning in read.warnings)


@pytest.mark.parametrize(
    "header",
    [
        "[token={tokens}/9999999]",
        "[sample={samples}/9999]",
        "[epoch=1][batch={step}/9999]",
        "[epoch=1][batch={step}]",
    ],
)
def test_composer_durations_in_other_units_count_updates_all_the_same(tmp_path: Path, header: str):
    text = "".join(
        composer_step(step, header.format(step=step, tokens=step * 96 * 2048, samples=step * 96))
        for step in STEPS[:-1]
    )
    # Printed once more at the end of training, with counts after the last update.
    text += composer_step(40, header.format(step=40, tokens=40 * 96 * 2048, samples=40 * 96), before=40)
    run = the_run_in(tmp_path, text, "composer_text")
    assert [step for step, _ in curve(run, "loss")] == list(STEPS)
    assert curve(run, "tokens")[-2:] == [(39, 39 * 96 * 2048), (40, 40 * 96 * 2048)]


def test_composer_epochs_alone(tmp_path: Path):
    """Without the counts, the batch within an epoch is enough where its length is known, and nothing where not."""
    steps = [
        f"[epoch={1 + n // 20}][batch={1 + n % 20}/20]:\n\t Train loss/train/total: 5.0{n}\n"
        for n in range(40)
    ]
    assert [step for step, _ in curve(the_run_in(tmp_path, "".join(steps), "composer_text"), "loss")] == list(
        STEPS
    )
    (tmp_path / "x.log").write_text("".join(steps).replace("/20]", "]"))
    with pytest.raises(BadInputError, match="no records of the format composer_text"):
        composer_text.read(tmp_path / "x.log")


def test_composer_evaluations_stand_at_the_interval_of_the_config(tmp_path: Path):
    """Every 10 batches are printed and every 25 evaluated: the evaluation after the print of 20 is that of 25."""
    text = COMPOSER_CONFIG
    for step in range(5, 101, 5):
        text += composer_step(step, f"[batch={step}/110]") if step % 10 == 0 else ""
        text += composer_evaluation(loss_at(step)) if step % 25 == 0 else ""
    text += composer_step(110, "[batch=110/110]") + composer_evaluation(4.0)
    run = the_run_in(tmp_path, text, "composer_text")
    assert curve(run, "val_loss") == [(step, loss_at(step)) for step in (25, 50, 75, 100)] + [(110, 4.0)]
    assert not any("without their step" in warning for warning in run.warnings)


def test_composer_evaluations_without_an_interval_warn(tmp_path: Path):
    text = "".join(composer_step(step) + composer_evaluation(loss_at(step), "eval/c4") for step in STEPS)
    run = the_run_in(tmp_path, text, "composer_text")
    assert curve(run, "eval/c4/loss") == [(step, loss_at(step)) for step in STEPS]
    assert any("evaluations are printed without their step" in warning for warning in run.warnings)


def test_composer_learning_rates_of_one_digit_warn(tmp_path: Path):
    text = "".join(composer_step(step, lr="0.0003") for step in STEPS)
    run = the_run_in(tmp_path, text, "composer_text")
    assert any("the learning rate is printed with 4 decimals" in warning for warning in run.warnings)


def test_composer_lines_of_several_ranks_do_not_mix(tmp_path: Path):
    zeros = [composer_step(step, prefix="0: ").splitlines(keepends=True) for step in STEPS]
    # The other rank is one step behind and prints between the lines of the first.
    ones = [composer_step(max(step - 1, 1), prefix="1: ").splitlines(keepends=True) for step in STEPS]
    text = "".join(
        line
        for zero, one in zip(zeros, ones, strict=True)
        for pair in zip(zero, one, strict=True)
        for line in pair
    )
    run = the_run_in(tmp_path, text, "composer_text")
    assert sorted(set(curve(run, "loss"))) == [(step, loss_at(step)) for step in STEPS]


def test_composer_two_runs_in_one_file(tmp_path: Path):
    """The first step of both prints the same, as with the same weights and learning rate zero."""
    text = "".join(
        COMPOSER_CONFIG.replace("17", str(seed))
        + "".join(composer_step(step, lr="0.0000" if step == 1 else f"0.0{seed}00") for step in STEPS)
        for seed in (1, 2)
    )
    first, second = runs_in(tmp_path, text, "composer_text")
    assert (first.facts.seed, second.facts.seed) == (1, 2)
    assert curve(first, "loss") == curve(second, "loss") == [(step, loss_at(step)) for step in STEPS]


@pytest.mark.parametrize(
    "text",
    [
        NANOTRON_START + "".join(map(nanotron_line, STEPS)),
        "".join(map(internevo_line, STEPS)),
        "".join(map(composer_step, STEPS)),
    ],
)
def test_a_log_cut_anywhere_is_read_up_to_the_cut(tmp_path: Path, text: str):
    path = tmp_path / "x.log"
    for end in range(len(text) * 3 // 4, len(text), 97):
        path.write_text(text[:end])
        (run,) = read_runs([path], ReadOptions(warmup_steps=1, batch_tokens=1000))
        last = int(run.train.steps[-1])
        assert run.train.steps.tolist() == list(range(1, last + 1))
        assert run.train.loss.tolist() == pytest.approx(
            [loss_at(step) for step in range(1, last + 1)], abs=0.005
        )
