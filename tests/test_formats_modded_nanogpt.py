"""modded-nanogpt's log: the script, then lines as its `train_gpt.py` prints them."""

from pathlib import Path

import pytest
from console_logs import curve, the_run_in

SCRIPT_OF_2024 = """\
import os
import sys
with open(sys.argv[0]) as f:
    code = f.read() # read the code of this file ASAP, for logging

@dataclass
class Hyperparameters:
    batch_size : int = 8*64 # batch size, in sequences, across all devices
    device_batch_size : int = 64 # batch size, in sequences, per device
    sequence_length : int = 1024 # sequence length, in tokens
    num_iterations : int = 6200 # number of iterations to run

        print(f"step:{step}/{args.num_iterations} val_loss:{val_loss:.4f} train_time:{training_time_ms:.0f}ms")
"""
HARDWARE = "=" * 100 + "\nRunning pytorch 2.6.0.dev20241203+cu124 compiled for CUDA 12.4\nnvidia-smi:\n"


def validation(number: int, loss: float, total: int = 6200) -> str:
    return f"step:{number}/{total} val_loss:{loss:.4f} train_time:{100 * number:.0f}ms step_avg:{float('nan'):.2f}ms\n"


def step(number: int, loss: float, total: int = 6200) -> str:
    return f"step:{number}/{total} train_loss:{loss:.4f} train_time:{100 * number:.0f}ms step_avg:{100.1:.2f}ms\n"


def step_without_loss(number: int, total: int = 1750) -> str:
    return f"step:{number}/{total} train_time:{80 * number:.0f}ms step_avg:{80.1:.2f}ms\n"


def test_steps_and_validations_count_updates_from_1(tmp_path: Path):
    text = SCRIPT_OF_2024 + HARDWARE + validation(0, 10.8258) + step(1, 10.8259) + step(2, 10.1)
    text += validation(2, 9.9875) + step(3, 9.9)
    run = the_run_in(tmp_path, text, "modded_nanogpt")
    assert curve(run, "loss") == [(1, 10.8259), (2, 10.1), (3, 9.9)]
    assert curve(run, "val_loss") == [(0, 10.8258), (2, 9.9875)]
    assert (run.facts.batch_sequences, run.facts.seq_len) == (512, 1024)
    assert run.train_window == 1


def test_validations_alone_make_a_run(tmp_path: Path):
    """Since December 2024 steps print no loss. The script at the top is longer than what is first looked at."""
    script = "import torch\n" + "# nothing to see here\n" * 5000
    text = script + HARDWARE
    for number in range(0, 1751, 125):
        text += step_without_loss(number) if number else ""
        text += validation(number, 10 - number / 500, total=1750)
    run = the_run_in(tmp_path, text, "modded_nanogpt")
    assert curve(run, "val_loss")[:2] == [(0, 10.0), (125, 9.75)]
    assert run.facts is None


@pytest.mark.parametrize(
    "line", ["train_batch_tokens:524288 train_seq_len:1024 iterations:20000 warmup_steps:20\n"]
)
def test_the_parameter_golf_prints_its_batch_size(tmp_path: Path, line: str):
    """Its warmup steps warm the compiler up, not the learning rate."""
    text = line + (
        "step:0/20000 val_loss:6.9357 val_bpb:4.1077 train_time:0ms step_avg:0.02ms\n"
        "step:1/20000 train_loss:6.9370 train_time:45ms step_avg:45.30ms\n"
    )
    run = the_run_in(tmp_path, text, "modded_nanogpt")
    assert curve(run, "loss") == [(1, 6.937)]
    assert curve(run, "val_loss") == [(0, 6.9357)]
    assert (run.facts.batch_tokens, run.facts.seq_len, run.facts.warmup_steps) == (524_288, 1024, None)
