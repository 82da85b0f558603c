"""Which law `ebfit compare` recommends where the truth is known, and how far each is off at left-out batch sizes.

Steps to target are read off the worlds of `ebfit.simulate`, with noise in log S that a run's targets share, or are
those of the classic law; every sweep has its own random world, 4 targets and 11 batch sizes from 0.6 B_min to 30 B_opt
of the middle target, every run as long as 30 S_opt of the last. A fit.json may be given too.

    python benchmarks/law_comparison.py [--sweeps 20] [--worlds exact surface neither classic] [--noise 0.02]
    python benchmarks/law_comparison.py --fit fit.json

Prints, for every world, how often each law was recommended, how often it had the smallest error, and the medians over
sweeps of its errors between other batch sizes and at the edges; for a fit, its table and how long that took.
"""

import argparse
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import numpy as np

from ebfit import comparing, simulate
from ebfit.files import Fit, LawComparison
from ebfit.fitting import Observations
from ebfit.laws import FloatArray, classic
from ebfit.report.comparison_table import print_comparison
from ebfit.samples import Sample

TARGETS, SIZES = 4, 11
SHARED_NOISE = 0.7  # correlation of a run's luck between targets
WORLDS = (*simulate.WORLDS, "classic")


def steps_in(world: str, seed: int) -> tuple[Sequence[float], FloatArray, FloatArray, float]:
    """Return losses (T,), log batch sizes (R,), log steps without noise (R, T), and where runs end (log steps)."""
    if world == "classic":
        log_batch = np.linspace(7.0, 13.0, SIZES)
        scales = np.random.default_rng(seed).uniform(13.0, 15.0) + 0.6 * np.arange(TARGETS)
        log_steps = [classic.log_steps(np.array([scale - 9.5, scale]), log_batch) for scale in scales]
        return list(3.0 - 0.1 * np.arange(TARGETS)), log_batch, np.stack(log_steps, axis=1), np.inf
    drawn = simulate.draw_world(cast(simulate.WorldName, world), seed=seed)
    losses = simulate.default_targets(drawn, TARGETS)
    log_batch = np.log(simulate.default_batch_tokens(drawn, losses, SIZES))
    last = np.log(30.0 * drawn.truth_at(min(losses)).s_opt)
    return losses, log_batch, drawn.log_steps(np.array(losses), log_batch[:, None]), float(last)


def sweep(world: str, seed: int, noise: float) -> Sample:
    """Return a sweep in a world."""
    losses, log_batch, log_steps, last = steps_in(world, seed)
    rng = np.random.default_rng([2027, seed])
    luck = np.sqrt(SHARED_NOISE) * rng.standard_normal((SIZES, 1))
    own = np.sqrt(1.0 - SHARED_NOISE) * rng.standard_normal((SIZES, TARGETS))
    log_steps = log_steps + noise * (luck + own)
    censored = log_steps > last
    return Sample(
        group=None,
        targets=list(losses),
        observations=Observations(
            log_batch,
            np.where(censored, last, log_steps),
            censored,
            np.zeros((SIZES, TARGETS, TARGETS)),
        ),
        batch_tokens=list(np.exp(log_batch)),
        run_names=[f"b{r}" for r in range(SIZES)],
        seeds=[None] * SIZES,
    )


def study(world: str, sweeps: int, noise: float) -> list[str]:
    """Return a row of the table per law."""
    found: list[LawComparison] = []
    for seed in range(sweeps):
        comparison = comparing.compare_samples([sweep(world, seed, noise)])
        if comparison is not None:
            found.append(comparison)
    recommended = Counter((c.recommendation.law, c.recommendation.coupling) for c in found)
    rows = []
    for i, law in enumerate(found[0].laws):
        of_law = [c.laws[i] for c in found]
        best = sum(_least(c, "lobo_mean") == i for c in found)
        least = sum(_least(c, "aicc") == i for c in found)
        numbers = [
            [value for value in (getattr(each, name) for each in of_law) if value is not None]
            for name in ("lobo_median", "lobo_p90", "edge_median", "edge_p90")
        ]
        shown = " | ".join(f"{np.median(values):.3f}" if values else "-" for values in numbers)
        rows.append(
            f"| {world} | {law.name} | {recommended[law.law, law.coupling]}/{len(found)} | {best}/{len(found)} "
            f"| {least}/{len(found)} | {shown} |"
        )
    return rows


def _least(comparison: LawComparison, name: str) -> int:
    """Return the position of the law with the least error or criterion."""
    values = [getattr(law, name) for law in comparison.laws]
    return int(np.argmin([np.inf if value is None else value for value in values]))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--sweeps", type=int, default=20)
    parser.add_argument("--worlds", nargs="+", choices=WORLDS, default=list(WORLDS))
    parser.add_argument("--noise", type=float, default=0.02)
    parser.add_argument("--fit", type=Path)
    arguments = parser.parse_args()
    if arguments.fit is not None:
        source, started = Fit.load(arguments.fit), time.process_time()
        print_comparison(comparing.compare(source, name=str(arguments.fit)))
        print(f"{time.process_time() - started:.1f} s of processor time")
        return
    print("| world | law | recommended | least error | least AICc | median | 90% | edge | edge 90% |")
    print("|---|---|---|---|---|---|---|---|---|")
    for world in arguments.worlds:
        for row in study(world, arguments.sweeps, arguments.noise):
            print(row, flush=True)


if __name__ == "__main__":
    main()
