"""torchtitan's console: lines as its `components/metrics.py` formats them, colours included."""

from pathlib import Path

import pytest
from console_logs import curve, runs_in, the_run_in

from ebfit.errors import BadInputError
from ebfit.runs import read_runs
from ebfit.runs.formats import torchtitan

RED, GREEN, YELLOW, BLUE = "\033[31m", "\033[32m", "\033[33m", "\033[34m"
CYAN, MAGENTA, RESET = "\033[36m", "\033[35m", "\033[39m"
ORANGE, TURQUOISE = "\033[38;2;180;60;0m", "\033[38;2;54;234;195m"
PREFIX = "[rank0]:[titan] 2026-01-05 17:02:11,201 - root - INFO - "


def step(number: int, loss: float) -> str:
    """A step of torchtitan 0.3.0."""
    return (
        f"{PREFIX}{RED}step: {number:2}  {GREEN}loss: {loss:8.5f}  {ORANGE}grad_norm: {1.25:7.4f}  "
        f"{TURQUOISE}memory: {40.123:5.2f}GiB({42.1:.2f}%)  {BLUE}tps: {7012:,}  {CYAN}tflops: {300.1:,.2f}  "
        f"{MAGENTA}mfu: 30.34%{RESET}\n"
    )


def validation(number: int, loss: float) -> str:
    return (
        f"{PREFIX}{YELLOW}validate step: {number:2}  {GREEN}loss: {loss:7.4f}  "
        f"{TURQUOISE}memory: {40.123:5.2f}GiB({42.1:.2f}%)  {BLUE}tps: {7012:,}{RESET}\n"
    )


def initialised(batch_sequences: int) -> str:
    return (
        f"{PREFIX}Trainer is initialized with local batch size 8, global batch size {batch_sequences}, gradient "
        "accumulation steps 2, sequence length 8192, total steps 1000 (warmup 200)\n"
    )


def test_steps_and_validations_count_updates_from_1(tmp_path: Path):
    text = initialised(64) + step(1, 12.24271) + step(10, 9.5) + validation(10, 9.25) + step(20, 8.125)
    run = the_run_in(tmp_path, text, "torchtitan")
    assert curve(run, "loss") == [(1, 12.24271), (10, 9.5), (20, 8.125)]
    assert curve(run, "val_loss") == [(10, 9.25)]
    assert (run.facts.batch_sequences, run.facts.seq_len) == (64, 8192)
    assert run.train_window == 1
    assert run.dropped == {}


def test_a_warmup_without_a_word_on_decay_is_no_stable_phase(tmp_path: Path):
    """torchtitan lowers the learning rate from the end of the warmup on, unless told otherwise, and prints none."""
    log = tmp_path / "train.log"
    log.write_text(initialised(64) + "".join(step(n, 9 - n / 500) for n in range(10, 1001, 10)))
    (run,) = read_runs([log])
    assert any("the stable phase is guessed" in warning for warning in run.warnings)


@pytest.mark.parametrize("rate", ["wps: 1,234  ", "tps: 1,234  "])
def test_losses_of_2024_are_means_over_the_interval(tmp_path: Path, rate: str):
    """Without tflops, a line is of the time when the losses since the line before were averaged."""
    text = (
        f"{PREFIX}Training starts at step 1, with local batch size 1, global batch size 8, sequence length 8192, "
        "total steps 1000 (warmup 200)\n"
    ) + "".join(
        f"{PREFIX}{CYAN}step: {n:2}  {GREEN}loss: {9 - n / 50:7.4f}  {YELLOW}memory: {47.07:5.2f}GiB({49.5:.2f}%)  "
        f"{BLUE}{rate}{MAGENTA}mfu: {36.62:.2f}%{RESET}\n"
        for n in (1, 10, 20)
    )
    run = the_run_in(tmp_path, text, "torchtitan")
    assert curve(run, "loss") == [(1, 8.98), (10, 8.8), (20, 8.6)]
    assert (run.facts.batch_sequences, run.facts.seq_len) == (8, 8192)
    assert run.train_window == "interval"


def test_lines_of_which_the_averaging_is_not_known_say_so(tmp_path: Path):
    """Those with tflops and without the gradient norm are of the months between."""
    text = step(1, 9.0).replace(f"{ORANGE}grad_norm:  1.2500  ", "")
    assert the_run_in(tmp_path, text, "torchtitan").train_window is None


def test_ranks_that_see_no_loss_are_passed_over_and_counted(tmp_path: Path):
    """Under pipeline parallelism all stages but the last print -1, summed over ranks in later versions."""
    text = step(10, -1.0) + step(10, 8.5) + step(20, -4.0) + step(20, 8.25)
    run = the_run_in(tmp_path, text, "torchtitan")
    assert curve(run, "loss") == [(10, 8.5), (20, 8.25)]
    assert any(warning.startswith("2 lines of ranks that see no loss") for warning in run.warnings)


def test_a_log_of_such_ranks_alone_asks_for_another(tmp_path: Path):
    log = tmp_path / "rank0.log"
    log.write_text(step(10, -1.0) + step(20, -1.0))
    with pytest.raises(BadInputError, match="only ranks that see no loss wrote it"):
        torchtitan.read(log)


def test_colours_that_lost_their_escape_character(tmp_path: Path):
    """Copied from a web page or out of a pager, ``[31m`` is left of a colour code."""
    text = (step(1, 12.5) + step(10, 9.5)).replace("\033", "")
    assert curve(the_run_in(tmp_path, text, "torchtitan"), "loss") == [(1, 12.5), (10, 9.5)]


def test_a_run_that_was_resumed_with_another_batch_size_has_none(tmp_path: Path):
    text = initialised(64) + "".join(step(n, 9 - n / 50) for n in range(10, 101, 10))
    text += initialised(128) + "".join(step(n, 8.9 - n / 50) for n in range(60, 201, 10))
    run = the_run_in(tmp_path, text, "torchtitan")
    assert (run.facts.batch_sequences, run.facts.seq_len) == (None, 8192)
    assert any("several values of batch_sequences (64 and 128)" in warning for warning in run.warnings)


def test_two_runs_in_one_log_have_each_their_own_batch_size(tmp_path: Path):
    text = ""
    for batch_sequences in (64, 128):
        text += initialised(batch_sequences) + step(1, 12.0)
        text += "".join(step(n, 9 - n / batch_sequences) for n in range(10, 101, 10))
    first, second = runs_in(tmp_path, text, "torchtitan")
    assert (first.facts.batch_sequences, second.facts.batch_sequences) == (64, 128)
    assert (first.label, second.label) == ("run 1", "run 2")
    assert (curve(first, "loss")[-1], curve(second, "loss")[-1]) == ((100, 7.4375), (100, 8.21875))
