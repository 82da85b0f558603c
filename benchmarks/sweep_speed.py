"""The training loop of `ebfit sweep` against a plain PyTorch loop of the same model, in one process, taking turns.

    python benchmarks/sweep_speed.py [--preset tiny] [--rounds 7] [--seconds 2]

The plain loop has the same model, the same fused AdamW, clipping and warmup, takes its batches from the same text
with one line of numpy, and does nothing else: no log, no validation, no checkpoint. Ours logs every step. Its
tokens per second are those that it reports itself, without validation. Each round trains both for about so
many seconds, in turn first and second; the ratio of a round is ours over plain, and the median counts. Aim: 0.95.
"""

import argparse
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from statistics import median

import numpy as np
import torch

from ebfit.sweep.batches import micro_batch_sizes
from ebfit.sweep.data import Data, open_data
from ebfit.sweep.execution import Execution
from ebfit.sweep.model import Model
from ebfit.sweep.presets import PRESETS, Preset
from ebfit.sweep.recipe import Recipe
from ebfit.sweep.train import train

CASES = [("tiny", 64), ("tiny", 1024), ("tiny", 16384), ("10m", 1024), ("10m", 8192)]
WARMUP_STEPS = 50


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--preset", choices=["tiny", "10m"], help="only this one")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    print(f"torch {torch.__version__}, {arguments.threads} thread(s); tokens per second, medians of rounds")
    print(f"{'preset':>6} {'batch':>7} {'plain':>9} {'ebfit':>9} {'ratio':>6}  of rounds")
    for name, batch_tokens in [case for case in CASES if arguments.preset in (None, case[0])]:
        preset = PRESETS[name]
        data = open_data("stdlib", seq_len=preset.seq_len, val_tokens=preset.seq_len)
        micro_batch = max(1, 8192 // preset.seq_len)
        plain = PlainLoop(preset, batch_tokens // preset.seq_len, micro_batch)
        plain_speed(plain, 0.3)  # both warm up
        steps = max(3, int(arguments.seconds * plain_speed(plain, 0.5) / batch_tokens))
        our_speed(preset, data, batch_tokens, max(3, steps // 5), micro_batch)
        rounds = []
        for turn in range(arguments.rounds):
            pair = {}
            for who in ("plain", "ours") if turn % 2 else ("ours", "plain"):
                if who == "plain":
                    pair[who] = plain_speed(plain, arguments.seconds)
                else:
                    pair[who] = our_speed(preset, data, batch_tokens, steps, micro_batch)
            rounds.append((pair["plain"], pair["ours"]))
        ratios = sorted(ours / plain for plain, ours in rounds)
        speeds = [median(column) for column in zip(*rounds, strict=True)]
        print(
            f"{name:>6} {batch_tokens:7d} {speeds[0]:9.0f} {speeds[1]:9.0f} {median(ratios):6.3f}  "
            f"{ratios[0]:.3f} to {ratios[-1]:.3f}"
        )


class PlainLoop:
    """What one writes for oneself on a good day."""

    def __init__(self, preset: Preset, batch_sequences: int, micro_batch: int) -> None:
        self.preset, self.batch_sequences = preset, batch_sequences
        self.pieces = micro_batch_sizes(batch_sequences, micro_batch)
        self.model = Model(preset.architecture, preset.seq_len)
        self.model.initialise(0)
        self.parameters = list(self.model.parameters())
        self.optimizer = torch.optim.AdamW(self.parameters, lr=preset.lr, betas=(0.9, 0.95), fused=True)
        text = b"".join(path.read_bytes() for path in sorted(Path(torch.__file__).parent.glob("*.py")))
        self.tokens = np.frombuffer(text, np.uint8)
        self.rng = np.random.default_rng(0)
        self.step = 0

    def one_step(self) -> None:
        """Take an optimizer step."""
        self.step += 1
        for group in self.optimizer.param_groups:
            group["lr"] = self.preset.lr * min(1.0, self.step / WARMUP_STEPS)
        length = self.preset.seq_len
        starts = self.rng.integers(len(self.tokens) - length - 1, size=self.batch_sequences)
        batch = torch.from_numpy(self.tokens[starts[:, None] + np.arange(length + 1)].astype(np.int64))
        for piece in batch.split(self.pieces):
            loss = self.model.loss(piece)
            (loss * (len(piece) / self.batch_sequences) if len(self.pieces) > 1 else loss).backward()
        torch.nn.utils.clip_grad_norm_(self.parameters, 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)


def plain_speed(plain: PlainLoop, seconds: float) -> float:
    """Tokens per second of the plain loop."""
    steps = 0
    started = time.perf_counter()
    while steps < 2 or time.perf_counter() - started < seconds:
        plain.one_step()
        steps += 1
    tokens = steps * plain.batch_sequences * plain.preset.seq_len
    return tokens / (time.perf_counter() - started)


def our_speed(preset: Preset, data: Data, batch_tokens: int, steps: int, micro_batch: int) -> float:
    """Tokens per second of `ebfit sweep`'s loop."""
    recipe = Recipe(
        architecture=replace(preset.architecture, vocab_size=256),
        seq_len=preset.seq_len,
        batch_sequences=batch_tokens // preset.seq_len,
        seed=0,
        lr=preset.lr,
        warmup_steps=WARMUP_STEPS,
        steps=steps + 1,
        data={},
        val_tokens=preset.seq_len,
        stop_when_level=False,
    )
    execution = Execution(micro_batch_sequences=micro_batch)
    with tempfile.TemporaryDirectory() as folder:
        outcome = train(recipe, data, Path(folder), execution, lambda progress: None, lambda: False)
    assert outcome.tokens_per_second is not None
    return outcome.tokens_per_second


if __name__ == "__main__":
    main()
