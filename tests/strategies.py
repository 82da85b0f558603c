"""Random laws, what an exact law would have measured, and small sweeps as files: shared by many tests.

Laws are drawn by their dimensionless shape, wide enough to hold anything a sweep may meet and away from the
degenerate corners (no transition, no valley), where six parameters stop being six.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from hypothesis import strategies as st
from scipy.special import logit

from ebfit.fitting import Observations
from ebfit.laws import FloatArray, revised


def between(low: float, high: float) -> st.SearchStrategy[float]:
    return st.floats(low, high, allow_nan=False, width=64)


@st.composite
def revised_laws(draw: st.DrawFn) -> FloatArray:
    """Free parameters of a revised law: decades of steps and tokens, and all usual shapes."""
    return np.array(
        [
            draw(between(np.log(1e2), np.log(1e6))),
            draw(between(np.log(1e3), np.log(1e8))),
            logit(draw(between(0.08, 0.85))),  # B_min / B_opt
            logit(draw(between(0.05, 0.9))),  # 1 would be A_0 = 0
            logit(draw(between(0.25, 0.9))),  # S_1 / S_opt
            logit(draw(between(0.15, 0.85))),  # S_min / S_1
        ]
    )


def random_revised_law(rng: np.random.Generator) -> FloatArray:
    """Draw a law from the ranges of `revised_laws`, uniformly and not with a taste for their ends."""
    shape = logit(rng.uniform([0.08, 0.05, 0.25, 0.15], [0.85, 0.9, 0.9, 0.85]))
    return np.append(rng.uniform(np.log([1e2, 1e3]), np.log([1e6, 1e8])), shape)


@st.composite
def classic_laws(draw: st.DrawFn) -> FloatArray:
    s_min = draw(between(np.log(1e2), np.log(1e6)))
    return np.array([s_min, s_min + draw(between(np.log(1e3), np.log(1e8)))])


@st.composite
def power_laws(draw: st.DrawFn) -> FloatArray:
    return np.array(
        [
            draw(between(np.log(1e2), np.log(1e6))),
            draw(between(np.log(1e3), np.log(1e8))),
            draw(between(np.log(0.3), np.log(2.0))),
            draw(between(np.log(0.2), np.log(1.5))),
        ]
    )


def batches_in_every_stage(free: FloatArray) -> FloatArray:
    """Log batch sizes: 3 in the asymptotic stage, 3 in the transition, 4 in the initial stage; rising."""
    p = revised.params(free)
    log_a_1 = np.log(p["a_1"])
    log_b_1, log_b_2 = (
        float(np.log(revised.tokens_at(p, np.array(p[key])) / p[key])) for key in ("s_1", "s_2")
    )
    return np.concatenate(
        [
            log_a_1 + (log_b_2 - log_a_1) * np.array([0.3, 0.6, 0.9]),
            log_b_2 + (log_b_1 - log_b_2) * np.array([0.15, 0.5, 0.85]),
            log_b_1 + np.log([1.2, 2.0, 4.0, 12.0]),
        ]
    )


def exact(
    log_batch: FloatArray, log_steps: FloatArray, censored_after: dict[float, float] | None = None
) -> Observations:
    """One target, measured without error; ``censored_after``: log batch size -> log of the last step."""
    more = censored_after or {}
    size = len(log_batch) + len(more)
    return Observations(
        log_batch=np.append(log_batch, list(more.keys())),
        log_steps=np.append(log_steps, list(more.values()))[:, None],
        censored=np.arange(size)[:, None] >= len(log_batch),
        covariance=np.zeros((size, 1, 1)),
    )


def noisy_rows(seed: int = 0, noise: float = 0.02, sizes: int = 10) -> list[dict[str, object]]:
    """Rows of a points table: two targets, standard errors, and a batch size that never got to the second one."""
    rng = np.random.default_rng(seed)
    rows: list[dict[str, object]] = []
    for loss, stretch in ((2.4, 1.0), (2.2, 2.5)):
        free = revised.free_from_params(
            {
                "s_min": 100.0 * stretch,
                "s_1": 200.0 * stretch,
                "s_opt": 400.0 * stretch,
                "s_2": 600.0 * stretch,
                "c": 2.0 / stretch**0.5,
                "e_min": 1e6 * stretch**1.5,
            }
        )
        for batch in np.geomspace(900.0, 45_000.0, sizes).round():
            steps = float(np.exp(revised.log_steps(free, np.log([batch]))[0]))
            censored = not np.isfinite(steps)
            rows.append(
                {
                    "target_loss": loss,
                    "batch_tokens": float(batch),
                    "steps": 9000.0 if censored else round(steps * float(np.exp(noise * rng.normal())), 3),
                    "steps_se": 0.0 if censored else round(0.01 * steps, 3),
                    "censored": censored,
                }
            )
    return rows


def write_points(path: Path, rows: Sequence[Mapping[str, object]]) -> Path:
    """Write a points table; floats with all their digits."""
    lines = [",".join(rows[0]), *(",".join(map(str, row.values())) for row in rows)]
    path.write_text("\n".join(lines) + "\n")
    return path


def surface_loss(batch_tokens: float, steps: FloatArray) -> FloatArray:
    """The three-term surface of DESIGN 3.4: B_opt is 3,100 tokens at loss 2.1 and 6,100 at 1.9."""
    return 1.5 + 30.0 * batch_tokens**-0.6 + 8.0 * steps**-0.4


def write_run(
    folder: Path, batch_tokens: int, last_step: int = 20_000, seed: int = 0, **facts: object
) -> Path:
    """Write a run of the surface, with a little noise, in ebfit's own layout; returns its metrics.jsonl."""
    rng = np.random.default_rng([seed, batch_tokens])
    folder.mkdir(parents=True)
    steps = np.unique(np.round(np.geomspace(20, last_step, 90))).astype(int)
    loss = surface_loss(batch_tokens, steps) + 0.003 * rng.standard_normal(len(steps))
    records = [
        {
            "step": int(step),
            "tokens": int(step) * batch_tokens,
            "batch_tokens": batch_tokens,
            "lr": 0.01 * min(1.0, step / 50),
            "train_loss": float(value),
        }
        for step, value in zip(steps, loss, strict=True)
    ]
    log = folder / "metrics.jsonl"
    log.write_text("".join(json.dumps(record) + "\n" for record in records))
    settings = {
        "name": folder.name,
        "seq_len": 8,
        "batch_tokens": batch_tokens,
        "lr": 0.01,
        "warmup_steps": 50,
    }
    (folder / "run.json").write_text(json.dumps(settings | {"decay_start_step": None, "seed": seed} | facts))
    return log


def write_sweep(folder: Path, sizes: Sequence[int] = tuple(1000 * 2**k for k in range(9))) -> Path:
    """Write a run of the surface for every batch size."""
    for size in sizes:
        write_run(folder / f"b{size}", size)
    return folder
