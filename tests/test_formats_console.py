"""Console logs of trainers that print a line per step: steps, losses, batch sizes, as their sources print them."""

from pathlib import Path

import pytest

from ebfit.errors import BadInputError
from ebfit.runs import ReadOptions, Run, read_runs
from ebfit.runs.formats import CONSOLE, FORMATS, format_named, sniff

UPDATES = range(1, 41)


def _loss(update: int) -> float:
    """A loss of four decimals, as after so many updates."""
    return round(4.0 - update / 100, 4)


TORCHTITAN = "[rank0]:[titan] 2025-09-01 10:00:00,123 - root - INFO - "
MEGATRON = "[2026-11-30 10:00:00.123456] "
LOGS = {
    "megatron": "------------------------ arguments ------------------------\n"
    f"  seed {'.' * 44} 1234\n  seq_length {'.' * 38} 2048\n"
    + "".join(
        f" {MEGATRON}iteration {n:8d}/{40:8d} | consumed samples: {64 * n:12d} | elapsed time per iteration (ms): 9 | "
        f"learning rate: 3.000000E-04 | global batch size: {64:5d} | lm loss: {_loss(n):.6E} | load_balancing_loss: "
        "1.23E+00 | loss scale: 1.0 | grad norm: nan | number of skipped iterations:   0 | number of nan iterations: "
        "  0 |\n"
        for n in UPDATES
    )
    + "-" * 80
    + "\n validation loss at iteration 40 | lm loss value: 3.700000E+00 | lm loss PPL: 4.04E+01 | \n"
    + "-" * 80
    + "\n validation loss at iteration 40 on test set | lm loss value: 3.900000E+00 | lm loss PPL: 4.94E+01 | \n",
    "torchtitan": TORCHTITAN
    + "Trainer is initialized with local batch size 8, global batch size 64, gradient accumulation steps 2, sequence "
    "length 2048, total steps 40 (warmup 2)\n"
    + "".join(
        f"{TORCHTITAN}\x1b[31mstep: {n:2}  \x1b[32mloss: {_loss(n):8.5f}  \x1b[38;2;180;60;0mgrad_norm: nan  "
        "\x1b[38;2;54;234;195mmemory: 40.12GiB(42.10%)  \x1b[34mtps: 7,012  \x1b[36mtflops: 300.10  \x1b[35mmfu: 30.30%"
        "\x1b[39m\n"
        for n in UPDATES
    )
    + f"{TORCHTITAN}\x1b[31mvalidate step: 40  \x1b[32mloss: 3.70000  \x1b[36mmemory: 4.12GiB(4.10%)  \x1b[34mtps: 9\n",
    "olmo_core": "".join(
        f"2025-01-01 10:00:00.000\thost:0\tolmo_core.train.callbacks.console_logger:116\tINFO\t[step={n}/40,epoch=1]\n"
        f"    optim/LR (group 0)=0.0300\n    throughput/total tokens={n * 4096:,}\n    train/CE loss={_loss(n):.3f}\n"
        "    optim/total grad norm=nan\n"
        for n in UPDATES
    ),
    "nanogpt": "tokens per iteration will be: 491,520\nstep 0: train loss 10.9, val loss 10.9\n"
    + "".join(f"iter {n - 1}: loss {_loss(n):.4f}, time 123.45ms, mfu -100.00%\n" for n in UPDATES)
    + "step 40: train loss 3.6100, val loss 3.7000\n",
    "nanochat": "Total batch size 524,288 => gradient accumulation steps: 4\n"
    + "".join(
        f"step {n - 1:05d}/00040 ({100 * n / 40:.2f}%) | loss: {_loss(n):.6f} | lrm: 1.00 | dt: 410.12ms | "
        "tok/sec: 1,278,353 | mfu: 50.01 | total time: 1.00m\n"
        for n in UPDATES
    )
    + "Step 00040 | Validation bpb: 1.2345\n",
    "llm_c": "s:0 tel:10.9000\n"
    + "".join(f"s:{n - 1} trl:{_loss(n):.4f} lr:0.000600 norm:nan\n" for n in UPDATES)
    + "s:40 tel:3.7000\ns:40 eval:0.2845\n",
    "modded_nanogpt": "import torch\nbatch_size : int = 8*64 # batch size, in sequences, across all devices\n"
    "sequence_length : int = 1024 # sequence length, in tokens\n"
    "step:0/40 val_loss:10.8258 train_time:0ms step_avg:nanms\n"
    + "".join(f"step:{n}/40 train_loss:{_loss(n):.4f} train_time:80ms step_avg:80.10ms\n" for n in UPDATES)
    + "step:40/40 val_loss:3.7000 train_time:3204ms step_avg:80.10ms\n",
    "maxtext": "Config param max_target_length: 2048\nConfig param learning_rate: 0.0003\n"
    + "".join(
        f"completed step: {n - 1}, seconds: 1.234, TFLOP/s/device: 85.123, Tokens/s/device: 12912.300, "
        f"total_weights: 65536, loss: {_loss(n):.3f}\n"
        for n in UPDATES
    )
    + "Completed eval after train step 39, loss=3.700, total_weights=65536\n",
}
# tokens per step as the log says it, and what its last validation is, at 40 updates
BATCH = {
    "megatron": 64 * 2048,
    "torchtitan": 64 * 2048,
    "olmo_core": 4096,
    "nanogpt": 491_520,
    "nanochat": 524_288,
    "llm_c": None,
    "modded_nanogpt": 8 * 64 * 1024,
    "maxtext": 65_536,
}
WITHOUT_VALIDATION = {"olmo_core", "nanochat"}
AVERAGED = {"nanochat"}  # a mean over the interval of one step is none


def _read(folder: Path, name: str, text: str | None = None, **options: object) -> Run:
    log = folder / "train.log"
    log.write_text(LOGS[name] if text is None else text)
    (run,) = read_runs(
        [log], ReadOptions(**{"warmup_steps": 1, "batch_tokens": BATCH[name] or 1000} | options)
    )
    return run


@pytest.mark.parametrize("name", LOGS)
def test_the_loss_of_every_update_is_read_at_that_update(name: str, tmp_path: Path):
    """Trainers that count from 0 log the loss of update n + 1 at step n."""
    run = _read(tmp_path, name)
    assert run.format == name
    steps = run.train.steps if run.train.logged_steps is None else run.train.logged_steps
    assert steps.tolist() == list(UPDATES)
    assert run.train.loss.tolist() == pytest.approx([_loss(n) for n in UPDATES], abs=6e-4)
    assert (run.train.lag_steps > 0) == (name in AVERAGED)
    assert run.averaging_known


@pytest.mark.parametrize("name", LOGS)
def test_a_validation_after_the_last_update_is_read_there(name: str, tmp_path: Path):
    run = _read(tmp_path, name)
    if name in WITHOUT_VALIDATION:
        assert run.val is None
    else:
        assert (run.val.steps.tolist(), run.val.loss.tolist()) == ([40.0], [3.7])


@pytest.mark.parametrize("name", [name for name in LOGS if BATCH[name] is not None])
def test_the_batch_size_is_that_of_all_devices_as_the_log_says_it(name: str, tmp_path: Path):
    run = _read(tmp_path, name, batch_tokens=None)
    assert run.batch_tokens == BATCH[name]
    assert not any("batch size" in text for text in run.warnings)


@pytest.mark.parametrize("name", LOGS)
def test_what_other_programs_print_around_a_record_does_not_matter(name: str, tmp_path: Path):
    """Launchers put ranks and times in front, warnings stand between, and rank 1 repeats what rank 0 says."""
    noise = "W0901 10:00:00.000 torch/distributed/run.py:792] loss of signal: step by step\nlr is great, loss too\n"
    plain = _read(tmp_path, name)
    lines = LOGS[name].splitlines(keepends=True)
    noisy = _read(
        tmp_path, name, noise + "".join(line if name == "olmo_core" else line + noise for line in lines)
    )
    assert noisy.train.loss.tolist() == plain.train.loss.tolist()
    assert noisy.train.steps.tolist() == plain.train.steps.tolist()


@pytest.mark.parametrize("name", LOGS)
def test_a_line_that_was_cut_off_is_not_taken_for_a_number(name: str, tmp_path: Path):
    """A killed run leaves "loss: 3." of "loss: 3.61", which looks like a number."""
    text = LOGS[name]
    mark = f"{_loss(40):.3f}"
    cut = text[: text.rindex(mark) + 3]
    run = _read(tmp_path, name, cut)
    assert run.train.loss.min() == pytest.approx(_loss(39), abs=6e-4)


@pytest.mark.parametrize("name", LOGS)
def test_a_log_is_recognised_by_its_content_and_by_one_format_only(name: str, tmp_path: Path):
    log = tmp_path / "x.log"
    log.write_text(LOGS[name])
    head = LOGS[name].encode()
    assert name == sniff(head, log).NAME
    claimed = [known.NAME for known in FORMATS if known.NAME not in {"csv", name} and known.sniff(head, log)]
    assert claimed == []


@pytest.mark.parametrize("name", [known.NAME for known in CONSOLE])
def test_a_format_that_is_forced_upon_another_log_says_so(name: str, tmp_path: Path):
    log = tmp_path / "b64.csv"
    log.write_text("step,loss,lr\n1,2.0,0.1\n[batch=x]\n")
    with pytest.raises(BadInputError, match=f"no records of the format {name}"):
        format_named(name).read(log)
