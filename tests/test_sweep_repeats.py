"""Whole sweeps on the CPU, by the command line in processes of their own: the same numbers each time."""

import json
import subprocess
import sys
from pathlib import Path

import ebfit

OPTIONS = [
    "--data",
    "synthetic",
    "--batch-sizes",
    "64,256",
    "--seeds",
    "2",
    "--max-steps",
    "12",
    "--warmup-steps",
    "3",
    "--device",
    "cpu",
]


def _sweep(folder: Path, *options: str) -> dict[str, list[tuple[float, ...]]]:
    """Train a sweep; return the losses of every run."""
    command = [sys.executable, "-m", "ebfit", "sweep", "-o", str(folder), *OPTIONS, *options]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr
    return {log.parent.name: _losses(log) for log in sorted(folder.glob("*/metrics.jsonl"))}


def _losses(log: Path) -> list[tuple[float, ...]]:
    records = [json.loads(line) for line in log.read_text().splitlines()]
    return [(r["step"], r["train_loss"], r["grad_norm"], r.get("val_loss", 0.0)) for r in records]


def test_two_sweeps_with_the_same_seed_give_identical_losses_and_the_law_can_read_them(tmp_path: Path):
    first = _sweep(tmp_path / "first", "--jobs", "1")
    second = _sweep(tmp_path / "second", "--jobs", "2")
    assert len(first) == 4
    assert first == second
    runs = ebfit.read_runs([tmp_path / "first"])
    assert {(run.batch_tokens, run.seed, run.stable_from) for run in runs} == {
        (size, seed, 3) for size in (64, 256) for seed in (0, 1)
    }
