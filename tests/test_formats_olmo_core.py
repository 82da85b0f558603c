"""OLMo-core's console, and OLMo's: records of several lines, numbers as their `format_float` rounds them."""

from pathlib import Path

import pytest
from console_logs import curve, the_run_in

PREFIX = "2026-01-05 17:02:11.201\tnode-1:0\tolmo_core.train.callbacks.console_logger:64\tINFO\t"


def record(step: int, loss: str, tokens: str, eta: str = ",eta=1h2m3s", more: str = "") -> str:
    """A record of OLMo-core 3.0.0."""
    return (
        f"{PREFIX}[step={step}/1000,epoch=1{eta}]\n"
        "    gpu_memory/GPU 0 active mem (GiB)=12.34\n"
        "    optim/LR (group 0)=3.00E-05\n"
        "    optim/total grad norm=nan\n"
        f"    throughput/total tokens={tokens}\n"
        f"    train/CE loss={loss}\n    train/PPL=60,475\n{more}"
    )


def test_the_lines_below_a_step_are_its_metrics(tmp_path: Path):
    text = record(1, "11.01", "4,194,304", eta="") + f"{PREFIX}[step=2/1000,epoch=1]\n"
    text += record(10, "9.876", "41,943,040") + record(
        20, "8.765", "83,886,080", more="[step=21/1000,epoch=1]\n"
    )
    run = the_run_in(tmp_path, text, "olmo_core")
    assert curve(run, "loss") == [(1, 11.01), (10, 9.876), (20, 8.765)]
    assert curve(run, "tokens") == [(1, 4_194_304), (10, 41_943_040), (20, 83_886_080)]
    assert curve(run, "lr") == [(1, 3e-5), (10, 3e-5), (20, 3e-5)]
    assert run.train_window == 1
    assert run.warnings == []


def test_tokens_rounded_to_billions_are_computed_from_the_exact_ones(tmp_path: Path):
    text = record(100, "5.5", "419,430,400") + record(400, "4.5", "1.678B") + record(3000, "3.5", "12.58B")
    run = the_run_in(tmp_path, text, "olmo_core")
    assert [tokens for _, tokens in curve(run, "tokens")] == [419_430_400, 1_677_721_600, 12_582_912_000]


def test_tokens_that_the_exact_ones_do_not_explain_stay_as_they_are(tmp_path: Path):
    """The batch size was raised after step 100."""
    text = record(100, "5.5", "419,430,400") + record(400, "4.5", "2.936B")
    run = the_run_in(tmp_path, text, "olmo_core")
    assert [tokens for _, tokens in curve(run, "tokens")] == pytest.approx([419_430_400, 2.936e9])


def test_a_learning_rate_of_one_digit_is_no_edge_to_see(tmp_path: Path):
    text = record(10, "9.876", "41,943,040").replace("3.00E-05", "0.0004")
    run = the_run_in(tmp_path, text, "olmo_core")
    assert any("printed with 4 decimals" in warning for warning in run.warnings)


def test_evaluations_count_only_where_their_step_is_printed(tmp_path: Path):
    finished = (
        f"{PREFIX}[eval=lm,step=10/100]\n{PREFIX}Finished lm evals in 12.3 seconds. Metrics:\n"
        "    c4/CE loss=3.999\n    c4/PPL=54.54\n"
    )
    run = the_run_in(tmp_path, record(10, "4.25", "41,943,040") + finished, "olmo_core")
    assert run.table.column_names.count("val_loss") == 0
    assert any(warning.startswith("1 evaluations are printed without their step") for warning in run.warnings)
    inside = record(10, "4.25", "41,943,040", more="    eval/lm/c4/CE loss=3.999\n    eval/lm/c4/PPL=54.54\n")
    assert curve(the_run_in(tmp_path, inside, "olmo_core"), "eval/lm/c4/CE loss") == [(10, 3.999)]


def test_the_console_of_rich(tmp_path: Path):
    """On a terminal, the time and the place stand in brackets, and the metrics are wrapped onto their own lines."""
    text = record(10, "9.876", "41,943,040").replace(
        PREFIX,
        "[2026-01-05 17:02:11] INFO     [olmo_core.train.callbacks.console_logger:64, node-1, rank=0] ",
    )
    assert curve(the_run_in(tmp_path, text, "olmo_core"), "loss") == [(10, 9.876)]


def test_lines_that_a_launcher_put_something_in_front_of(tmp_path: Path):
    text = "".join(
        f"2026-01-05T17:02:11.201Z [rank0]: {line}\n"
        for line in record(10, "9.876", "41,943,040").splitlines()
    )
    run = the_run_in(tmp_path, text, "olmo_core")
    assert (curve(run, "loss"), curve(run, "tokens")) == ([(10, 9.876)], [(10, 41_943_040)])


def test_a_record_that_was_cut_off_is_dropped(tmp_path: Path):
    whole = record(10, "9.876", "41,943,040")
    cut = record(20, "8.765", "83,886,080").partition("8.765")[0] + "8."
    run = the_run_in(tmp_path, whole + cut, "olmo_core")
    assert curve(run, "loss") == [(10, 9.876)]
    assert run.dropped == {"truncated last line": 1}


def test_olmo_prints_evaluations_after_the_record_of_their_step(tmp_path: Path):
    """OLMo, the predecessor: tokens are exact however many, and the learning rate is not printed."""
    prefix = "2024-05-01 10:00:00.000\tnode-1:0\tolmo.train:816\tINFO\t"
    text = "".join(
        f"{prefix}[step={n}/1000]\n    train/CrossEntropyLoss={loss}\n    train/Perplexity=60,475\n"
        f"    throughput/total_tokens={n * 4_194_304:,d}\n    throughput/device/tokens_per_second=9,876\n"
        for n, loss in ((500, "3.500"), (1000, "3.250"))
    )
    text += (
        f"{prefix}Running evaluation for 'all-small-ppl-validation'...\n{prefix}[eval_step=10/100]\n"
        f"{prefix}all-small-ppl-validation\n    eval/c4_en-validation/CrossEntropyLoss=3.275\n"
        "    eval/c4_en-validation/Perplexity=26.44\n"
    )
    run = the_run_in(tmp_path, text, "olmo_core")
    assert curve(run, "loss") == [(500, 3.5), (1000, 3.25)]
    assert curve(run, "eval/c4_en-validation/CrossEntropyLoss") == [(1000, 3.275)]
    assert curve(run, "tokens") == [(500, 2_097_152_000), (1000, 4_194_304_000)]
