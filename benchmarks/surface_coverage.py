"""How often the intervals of the law `surface` hold the truth, over simulated sweeps of random three-term surfaces.

Cases, noise and batch sizes are those of `coverage.py`; here all targets of a sweep lie on one surface, and all are
fitted at once.

    python benchmarks/surface_coverage.py --sweeps 100 [--cases plain few ...] [--targets 3]
"""

import argparse
from collections.abc import Callable

import numpy as np
from coverage import CASES, HEADER, WORLDS, study

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


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--sweeps", type=int, default=100)
    parser.add_argument("--cases", nargs="+", choices=list(CASES), default=list(CASES))
    parser.add_argument("--targets", type=int, default=3)
    arguments = parser.parse_args()
    WORLDS["one surface"] = (surface_world, power.log_numbers)
    at = losses(arguments.targets).tolist()
    print(HEADER)
    for case in arguments.cases:
        for row in study("one surface", case, arguments.sweeps, "surface", arguments.targets, at):
            print(row, flush=True)


if __name__ == "__main__":
    main()
