"""The batched solver against a loop over lmfit, on the same bootstrap problems, in one process.

    python benchmarks/refit_speed.py [--targets 20] [--sizes 12] [--replicates 1000] [--sample 200]

The lmfit loop runs on a sample of the problems, with the same analytic Jacobian and the same starts, and is scaled
up; the ratio of the times per problem is what counts. The objectives found are compared problem by problem.
"""

import argparse
import time

import numpy as np

from ebfit.fitting.batched import solve
from ebfit.fitting.observations import Observations
from ebfit.fitting.point import cost, fit_points, polish
from ebfit.laws import LAWS, revised


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--targets", type=int, default=20)
    parser.add_argument("--sizes", type=int, default=12)
    parser.add_argument("--replicates", type=int, default=1000)
    parser.add_argument("--sample", type=int, default=200)
    arguments = parser.parse_args()
    rng = np.random.default_rng(0)
    log_batch = np.linspace(np.log(5e3), np.log(2e6), arguments.sizes)
    shape = [-0.4, -2.0, 1.0, 0.0]
    log_steps = np.stack(
        [
            revised.log_steps(np.array([7.0 + 0.05 * t, 10.0, *shape]), log_batch)
            for t in range(arguments.targets)
        ],
        axis=1,
    )
    log_steps += 0.02 * rng.standard_normal(log_steps.shape)
    keep = np.isfinite(log_steps).all(axis=1)
    data = Observations(
        log_batch[keep],
        log_steps[keep],
        np.zeros((keep.sum(), arguments.targets), dtype=bool),
        np.zeros((keep.sum(), arguments.targets, arguments.targets)),
    )
    point = fit_points(LAWS["revised"], data)
    problems = point.problems.take(np.repeat(np.arange(arguments.targets), arguments.replicates))
    problems.log_steps[:] += problems.sd * rng.standard_normal(problems.sd.shape)
    starts = np.repeat(point.free, arguments.replicates, axis=0)

    began = time.perf_counter()
    batched = solve(problems, starts)
    batched_seconds = time.perf_counter() - began
    chosen = rng.choice(len(problems), size=min(arguments.sample, len(problems)), replace=False)
    began = time.perf_counter()
    costs = []
    for i in chosen:
        one = problems.take(slice(i, i + 1))
        costs.append(cost(one, polish(one, starts[i])))
    lmfit_seconds = (time.perf_counter() - began) * len(problems) / len(chosen)
    relative = batched.cost[chosen] / np.array(costs) - 1.0
    print(
        f"{len(problems)} refits of {keep.sum()} points: batched {batched_seconds:.2f} s, converged "
        f"{100 * batched.converged.mean():.2f}%"
    )
    print(
        f"lmfit loop, scaled up from {len(chosen)}: {lmfit_seconds:.1f} s; ratio {lmfit_seconds / batched_seconds:.0f}"
    )
    print(
        f"objective, batched over lmfit - 1: median {np.median(relative):.1e}, worst {relative.max():.1e}; "
        f"lmfit higher by more than 1e-6 in {np.sum(relative < -1e-6)}, batched in {np.sum(relative > 1e-6)}"
    )


if __name__ == "__main__":
    main()
