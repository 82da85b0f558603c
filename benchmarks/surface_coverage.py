"""How often the intervals of the law `surface` hold the truth, over simulated sweeps of random three-term surfaces.

Cases, noise and batch sizes are those of `coverage.py`; here all targets of a sweep lie on one surface, and all are
fitted at once.

    python benchmarks/surface_coverage.py --sweeps 100 [--cases plain few ...] [--targets 3]
"""

import argparse
from collections.abc import Callable

import numpy as np
from coverage import CASES, WORLDS, simulate

from ebfit.fitting import fit_targets, why_not_fitted
from ebfit.laws import FloatArray, power

FLOOR, DEPTH = 1.7, 1.0  # of the loss, and of the floor below the highest target
LOWER = 0.3  # by this factor the lowest target lies nearer to the floor


def losses(targets: int) -> FloatArray:
    """Return the target losses of every sweep, falling."""
    return FLOOR + DEPTH * LOWER ** (np.arange(targets) / (targets - 1))


def surface_world(
    rng: np.random.Generator, targets: int
) -> tuple[Callable[..., FloatArray], list[FloatArray]]:
    """Return S(B) and its free parameters per target, of a surface with random exponents."""
    beta, gamma = rng.uniform(0.5, 1.3), rng.uniform(0.35, 1.0)
    fallen = -np.log((losses(targets) - FLOOR) / DEPTH)
    return power.log_steps, [
        np.array([7.0 + f / gamma, 9.0 + f / beta, np.log(beta), np.log(gamma)]) for f in fallen
    ]


def study(case: str, sweeps: int, targets: int) -> list[str]:
    """Return a row of the table for B_opt and for B_min."""
    found: dict[str, list[tuple[bool, float, float]]] = {"b_opt": [], "b_min": []}
    bounds: dict[str, list[bool]] = {"b_opt": [], "b_min": []}
    total = 0
    for sweep in range(sweeps):
        truth, data = simulate("one surface", CASES[case], np.random.default_rng([2026, sweep]), targets)
        able = [t for t in range(targets) if why_not_fitted("surface", data, t) is None]
        at = losses(targets)[able].tolist()
        fits = fit_targets(
            "surface", data.take_targets(able), replicates=400, confidence=0.95, seed=sweep, losses=at
        )
        total += len(able)
        for t, fit in zip(able, fits, strict=True):
            for name in found:
                interval, true = fit.numbers[name], float(np.exp(truth[t][name]))
                low, high = interval.low or 0.0, interval.high or np.inf
                held = low <= true <= high
                if interval.status == "ok" and interval.value is not None:
                    width, error = 0.5 * np.log(high / low), np.log(interval.value / true)
                    found[name].append((held, float(width), float(error)))
                else:
                    bounds[name].append(held)
    rows = []
    for name, results in found.items():
        held_each, width_each, error_each = np.transpose(results)
        held_bounds = f"{100 * np.mean(bounds[name]):.0f}%" if bounds[name] else "-"
        rows.append(
            f"| {case} | {name} | {100 * np.mean(held_each):.1f}% | {np.median(width_each):.3f} "
            f"| {np.sqrt(np.mean(error_each**2)):.3f} | {100 * len(results) / total:.0f}% | {held_bounds} |"
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--sweeps", type=int, default=100)
    parser.add_argument("--cases", nargs="+", choices=list(CASES), default=list(CASES))
    parser.add_argument("--targets", type=int, default=3)
    arguments = parser.parse_args()
    WORLDS["one surface"] = (surface_world, power.log_numbers)
    print("| case | number | coverage | half-width | rms error | status ok | bounds held |")
    print("|---|---|---|---|---|---|---|")
    for case in arguments.cases:
        for row in study(case, arguments.sweeps, arguments.targets):
            print(row, flush=True)


if __name__ == "__main__":
    main()
