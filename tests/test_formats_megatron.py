"""Console logs of Megatron-LM, Megatron-Bridge, Megatron-DeepSpeed and GPT-NeoX, lines as their sources print them."""

from pathlib import Path

import pytest

from ebfit.errors import BadInputError
from ebfit.runs import ReadOptions, Run, read_runs
from ebfit.runs.formats import megatron, neox, sniff

STEPS = range(10, 210, 10)


def loss_at(step: int) -> float:
    return round(8.0 - step / 100, 6)


def megatron_line(
    step: int, batch: int = 64, samples: int | None = None, loss: str | None = None, skipped: int = 0
) -> str:
    """A line of Megatron-LM 0.19."""
    samples = batch * step if samples is None else samples
    loss = f" lm loss: {loss_at(step):.6E} |" if loss is None else loss
    return (
        f" [2026-05-01 10:00:00.123456] iteration {step:8d}/{200:8d} | consumed samples: {samples:12d} | elapsed time "
        f"per iteration (ms): 812.3 | throughput per GPU (TFLOP/s/GPU): 401.2 | learning rate: {3e-4:.6E} | global "
        f"batch size: {batch:5d} |{loss} load_balancing_loss: 1.010000E+00 | loss scale: 1.0 | grad norm: 0.512 | "
        f"number of skipped iterations: {skipped:3d} | number of nan iterations:   0 |\n"
    )


def deepspeed_line(step: int, batch: int = 64, tokens: int | None = None) -> str:
    """A line of Megatron-DeepSpeed, as torchrun puts a rank in front of it."""
    tokens = 2048 * batch * step if tokens is None else tokens
    return (
        f"[default7]: iteration {step:8d}/{200:8d} | consumed samples: {batch * step:12d} | consumed tokens: "
        f"{tokens:12d} | elapsed time per iteration (s): 23.69 | learning rate: {3e-4:.3E} | global batch size: "
        f"{batch:5d} | lm loss: {loss_at(step):.6E} | loss scale: 16384.0 | grad norm: 0.540 | num zeros: 0.0 | number "
        "of skipped iterations:   0 | number of nan iterations:   0 | samples per second: 86.4 | TFLOPs: 123.41 |\n"
    )


def neox_line(step: int) -> str:
    """A line of GPT-NeoX."""
    return (
        f" samples/sec: 51.234 | iteration {step:8d}/{200:8d} | elapsed time per iteration (ms): 1234.5 | learning "
        f"rate: {3e-4:.3E} | approx flops per GPU: 48.9TFLOPS | lm_loss: {loss_at(step):.6E} | loss scale: 65536.0 | "
        "number of skipped iterations:   0 | number of nan iterations:   0 |\n"
    )


def validation(step: int, loss: float, where: str = "", of: str = "") -> str:
    line = f" validation{of} loss at iteration {step}{where} | lm loss value: {loss:.6E} | lm loss PPL: 2.0E+01 | "
    return "-" * len(line) + f"\n{line}\n" + "-" * len(line) + "\n"


def arguments(**given: object) -> str:
    """Arguments as Megatron-LM prints them, among others."""
    lines = [f"  {name} {'.' * (48 - len(name))} {value}" for name, value in {**given, "tied": None}.items()]
    return "\n".join(["--- arguments ---", *sorted(lines), "--- end of arguments ---", ""])


def read(tmp_path: Path, text: str, **options: object) -> Run:
    (run,) = read_all(tmp_path, text, **options)
    return run


def read_all(tmp_path: Path, text: str, **options: object) -> list[Run]:
    log = tmp_path / "train.log"
    log.write_text(text)
    return read_runs([log], ReadOptions(**({"seq_len": 2048} | options)))


@pytest.mark.parametrize("line", [megatron_line, deepspeed_line])
def test_losses_steps_and_batch_size(tmp_path: Path, line):
    run = read(tmp_path, "".join(line(step) for step in STEPS))
    assert run.format == "megatron"
    assert run.train.logged_steps.tolist() == list(STEPS)
    assert run.train.loss.tolist() == [loss_at(step) for step in STEPS]
    assert run.train.lag_steps == 4.5  # a mean over the ten iterations up to the one printed
    assert (run.batch_tokens, run.lr) == (64 * 2048, 3e-4)
    assert run.dropped == {}


def test_without_a_timestamp_as_older_versions_print(tmp_path: Path):
    text = "".join(megatron_line(step).replace(" [2026-05-01 10:00:00.123456]", "") for step in STEPS)
    assert read(tmp_path, text).train.loss.tolist() == [loss_at(step) for step in STEPS]


def test_arguments_give_the_sequence_length_and_the_seed(tmp_path: Path):
    text = arguments(
        seq_length=4096, seed=1234, lr_warmup_iters=0, encoder_seq_length=99, decoder_seq_length=None
    )
    run = read(tmp_path, text + "".join(megatron_line(step) for step in STEPS), seq_len=None)
    assert (run.seq_len, run.batch_tokens, run.seed) == (4096, 64 * 4096, 1234)


def test_arguments_of_megatron_bridge(tmp_path: Path):
    text = (
        "\n[model] Non-default values (vs Mcore TransformerConfig):\n  seq_length: 4096  (Mcore default: 0)\n"
        "\n[rng]:\n  seed: 7\n"
    )
    run = read(tmp_path, text + "".join(megatron_line(step) for step in STEPS), seq_len=None)
    assert (run.batch_tokens, run.seed) == (64 * 4096, 7)


def test_without_a_sequence_length_it_is_asked_for(tmp_path: Path):
    with pytest.raises(BadInputError, match=r"counts sequences.*give --seq-len"):
        read(tmp_path, "".join(megatron_line(step) for step in STEPS), seq_len=None)


def test_consumed_samples_are_the_tokens_while_the_batch_size_is_ramped_up(tmp_path: Path):
    """The ramp lies before the stable phase: 50 steps of 32, then 64. Batch size times steps would be wrong."""
    path = tmp_path / "train.log"
    lines = [
        megatron_line(step, 32 if step <= 50 else 64, 32 * min(step, 50) + 64 * max(0, step - 50))
        for step in STEPS
    ]
    path.write_text(arguments(seq_length=2048) + "".join(lines))
    (raw,) = megatron.read(path)
    assert raw.table["tokens"].to_pylist()[4:7] == [
        32 * 50 * 2048,
        (32 * 50 + 64 * 10) * 2048,
        (32 * 50 + 64 * 20) * 2048,
    ]
    (run,) = read_runs([path], ReadOptions(warmup_steps=60))
    assert run.batch_tokens == 64 * 2048
    with pytest.raises(
        BadInputError, match="the batch size changes in the stable phase, between 65536 and 131072"
    ):
        read_runs([path], ReadOptions(warmup_steps=10))


def test_consumed_tokens_count_more_than_samples(tmp_path: Path):
    """Under a curriculum of sequence lengths of Megatron-DeepSpeed the printed sequence length is that of the end."""
    lines = [deepspeed_line(step, tokens=1024 * 64 * step) for step in STEPS]
    path = tmp_path / "train.log"
    path.write_text(arguments(seq_length=2048) + "".join(lines))
    (raw,) = megatron.read(path)
    assert raw.table["tokens"].to_pylist() == [1024 * 64 * step for step in STEPS]


def test_a_loss_that_is_not_a_number_is_not_printed_at_all(tmp_path: Path):
    text = "".join(megatron_line(step, loss="" if step == 50 else None) for step in STEPS)
    run = read(tmp_path, text)
    assert run.dropped == {"loss is not a number": 1}
    assert 50 not in run.train.logged_steps
    assert run.train.lag_steps == 4.5  # the line after it is a mean over ten iterations all the same


@pytest.mark.parametrize("loss", ["", " lm loss: 0.000000E+00 |"])
def test_an_interval_in_which_every_update_was_skipped_has_no_loss(tmp_path: Path, loss: str):
    text = megatron_line(10, loss=loss, skipped=10) + "".join(megatron_line(step) for step in STEPS[1:])
    run = read(tmp_path, text)
    assert run.dropped == {"no loss in the row": 1}
    assert run.train.loss.max() == loss_at(20)


def test_validations_on_the_test_set_are_not_used(tmp_path: Path):
    text = "".join(
        megatron_line(step) + (validation(step, loss_at(step) + 0.5) if step % 20 == 0 else "")
        for step in STEPS
    )
    text += validation(200, 5.75, " on validation set") + validation(200, 3.0, " on test set")
    run = read(tmp_path, text)
    assert run.val.steps.tolist() == list(range(20, 201, 20))
    assert run.val.loss.tolist() == [loss_at(step) + 0.5 for step in range(20, 200, 20)] + [5.75]
    assert len(run.train.steps) == len(STEPS)


def test_several_validation_sets_are_told_apart(tmp_path: Path):
    text = "".join(
        megatron_line(step) + validation(step, 5.0, of="-c4") + validation(step, 3.0, of="-code")
        for step in STEPS
    )
    run = read(tmp_path, text)
    assert run.val is None
    assert any(
        "validation/c4/loss" in warning and "validation/code/loss" in warning for warning in run.warnings
    )
    assert set(read(tmp_path, text, columns={"val": "validation/code/loss"}).val.loss) == {3.0}


def test_a_run_that_goes_on_from_a_checkpoint_is_one_run_and_its_later_rows_count(tmp_path: Path):
    text = "".join(megatron_line(step) for step in range(10, 130, 10)) + arguments(seq_length=2048)
    text += "".join(
        megatron_line(step, loss=f" lm loss: {2 + step / 1000:.6E} |") for step in range(110, 210, 10)
    )
    run = read(tmp_path, text)
    assert run.train.logged_steps.tolist() == list(STEPS)
    assert run.train.loss[STEPS.index(100)] == loss_at(100)
    assert run.train.loss[STEPS.index(110)] == 2.11
    assert run.dropped == {"duplicate step": 2}


def test_runs_that_begin_at_the_beginning_are_runs_of_their_own(tmp_path: Path):
    text = "".join(
        arguments(seq_length=seq_len, seed=seed) + "".join(megatron_line(step, batch) for step in STEPS)
        for seq_len, seed, batch in [(2048, 1, 64), (1024, 2, 32)]
    )
    second, first = read_all(tmp_path, text, seq_len=None)
    assert (first.batch_tokens, first.seed) == (64 * 2048, 1)
    assert (second.batch_tokens, second.seed) == (32 * 1024, 2)
    assert len(first.train.steps) == len(second.train.steps) == len(STEPS)


def test_lines_of_other_ranks_between_and_within_do_no_harm(tmp_path: Path):
    noise = "3: W0501 10:00:00 NCCL WARN iteration 3/ 4 of something | \x1b[33mwarning\x1b[0m\n"
    lines = [f"0: {megatron_line(step)}1: {megatron_line(step)}{noise}" for step in STEPS]
    lines[3] = "12%|#2      | 3/40 [00:01<00:20]\r" + lines[3]
    whole = megatron_line(200)
    text = "".join(lines) + whole[:250] + noise + whole.rstrip("\n") + megatron_line(210)
    run = read(tmp_path, text)
    assert run.train.logged_steps.tolist() == [*STEPS, 210]
    assert run.train.loss.tolist() == [loss_at(step) for step in [*STEPS, 210]]
    assert run.dropped == {"line cut off by another": 1}
    assert any("word for word" in warning for warning in run.warnings)


def test_a_line_that_ends_within_its_loss_is_counted_and_not_used(tmp_path: Path):
    text = "".join(megatron_line(step) for step in STEPS)
    run = read(tmp_path, text + megatron_line(210).split("E+00 | load")[0])
    assert run.train.logged_steps.tolist() == list(STEPS)
    assert run.dropped == {"truncated last line": 1}


def neox_arguments() -> str:
    given = {"train_batch_size": 64, "batch_size": 4, "seq_length": 2048, "seed": 5, "lr": 0.0003}
    lines = [f"  {name} {'.' * (32 - len(name))} {value}" for name, value in given.items()]
    return "".join(f"{line}{'.' * (64 - len(line))}updated\n" for line in lines)


def test_gpt_neox_prints_the_global_batch_size_among_its_arguments_only(tmp_path: Path):
    text = neox_arguments() + "".join(neox_line(step) for step in STEPS)
    text += " validation results at iteration 200 | lm_loss value: 6.250000E+00 | lm_loss_ppl value: 5.18E+02 | \n"
    run = read(tmp_path, text, seq_len=None)
    assert run.format == "neox"
    assert (run.batch_tokens, run.seq_len, run.seed, run.lr) == (64 * 2048, 2048, 5, 3e-4)
    assert run.train.loss.tolist() == [loss_at(step) for step in STEPS]
    assert run.train.lag_steps == 4.5
    assert (run.val.steps.tolist(), run.val.loss.tolist()) == ([200], [6.25])


def test_gpt_neox_without_its_arguments_asks_for_the_batch_size(tmp_path: Path):
    text = "".join(neox_line(step) for step in STEPS)
    with pytest.raises(BadInputError, match="no batch size found"):
        read(tmp_path, text)
    assert read(tmp_path, text, batch_tokens=131072).batch_tokens == 131072


def test_formats_are_told_apart_by_what_is_counted(tmp_path: Path):
    head = neox_line(10).encode()
    assert sniff(head, tmp_path / "x") is neox
    assert sniff(megatron_line(10).encode(), tmp_path / "x") is megatron
    assert sniff(b"see iteration 10/ 20 | of the loop\n", tmp_path / "x") is None


def test_the_first_iteration_may_stand_behind_much_else(tmp_path: Path):
    """Megatron prints hundreds of arguments, and every rank its warnings."""
    text = "rank 3: a warning, and a comma\n" * 20_000 + "".join(megatron_line(step) for step in STEPS)
    assert len(read(tmp_path, text).train.steps) == len(STEPS)
