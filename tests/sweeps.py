"""Runs of a sweep as they are read, made in memory: the surface of `strategies`, leaving the loss of a new model."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from strategies import surface_loss

from ebfit.runs import Run
from ebfit.runs.run import Curve, FloatArray

NEW_MODEL = float(np.log(256))  # the loss before any step: that of guessing among 256 tokens
DECADES = tuple(int(size) for size in np.geomspace(512, 512_000, 10))


def loss_at(batch_tokens: float, steps: FloatArray, warmup: float = 20.0) -> FloatArray:
    """Return the surface, bent to the loss of a new model where it lies above."""
    effective = np.where(steps < warmup, steps**2 / (2 * warmup), steps - warmup / 2)
    return (surface_loss(batch_tokens, effective) ** -6.0 + NEW_MODEL**-6.0) ** (-1 / 6)


def run_of(
    batch_tokens: float,
    *,
    lr: float = 0.01,
    seed: int = 0,
    first_step: int = 1,
    last_step: int = 20_000,
    speed: float = 1.0,
    **facts: object,
) -> Run:
    """Make a run; ``speed`` is how far a step of it brings, beside others."""
    rng = np.random.default_rng([seed, int(batch_tokens), int(1e6 * lr)])
    steps = np.unique(np.round(np.geomspace(first_step, last_step, 120))).astype(float)
    noise = 0.005 + 0.2 * batch_tokens**-0.5
    loss = loss_at(batch_tokens, speed * steps) + noise * rng.standard_normal(len(steps))
    run = Run(
        name=f"b{batch_tokens:.0f}-lr{lr:g}-s{seed}",
        path=Path("sweep.csv"),
        format="csv",
        batch_tokens=batch_tokens,
        batch_source="column 'batch_tokens'",
        seq_len=None,
        lr=lr,
        seed=seed,
        rows=len(steps),
        dropped={},
        stable_from=20,
        stable_to=last_step,
        stable_source="constant lr",
        train=Curve(steps, loss, "loss"),
    )
    return replace(run, **facts)


def sweep(sizes: Sequence[int] = DECADES, seeds: int = 1, **facts: object) -> list[Run]:
    """Make a run for every batch size and seed."""
    return [run_of(size, seed=seed, **facts) for size in sizes for seed in range(seeds)]


def cut(run: Run, first_step: float) -> Run:
    """Return a run that is logged from a step on."""
    curves = {}
    for kind in ("train", "val"):
        curve = run.curve(kind)
        if curve is not None:
            kept = curve.steps >= first_step
            curves[kind] = Curve(curve.steps[kept], curve.loss[kept], curve.column)
    return replace(run, **curves)


def with_loss(run: Run, loss: FloatArray, column: str = "loss") -> Run:
    """Return a run with another train loss."""
    return replace(run, train=Curve(run.train.steps, loss, column))
