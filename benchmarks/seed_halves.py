"""Is the spread of seeds what the intervals claim? Fits to random halves of the seeds of a real sweep, compared.

    python benchmarks/seed_halves.py TABLE [--splits 200] [--law classic]

TABLE is a table of points (`ebfit fit --points`) with many seeds per batch size and one target, such as the 20 seeds at
five batch sizes that MLCommons publishes as reference points of its Llama 3.1 8B benchmark (github mlcommons/logging,
rcps_llama31_8b.json, Apache-2.0). Two things are compared
between random halves of the seeds: the mean log steps of every batch size, whose differences should lie within their
standard errors at the nominal rate of 95%; and the numbers of the law. These have the misfit of the law in their
intervals, which is the same for both halves, so the other half's estimate should fall in at least as often as the 83%
that two equal and independent errors give.
"""

import argparse
from pathlib import Path

import numpy as np

from ebfit.fitting import fit_targets
from ebfit.fitting.seeds import merge_seeds
from ebfit.points import read_points


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("table", type=Path)
    parser.add_argument("--splits", type=int, default=200)
    parser.add_argument("--law", default="classic")
    arguments = parser.parse_args()
    (sample,) = read_points(arguments.table).samples
    data = sample.observations
    rng = np.random.default_rng(0)
    within: list[bool] = []
    inside: dict[str, list[bool]] = {}
    apart: dict[str, list[float]] = {}
    for split in range(arguments.splits):
        first = np.zeros(len(data.log_batch), dtype=bool)
        for size in np.unique(data.log_batch):
            members = rng.permutation(np.flatnonzero(data.log_batch == size))
            first[members[: len(members) // 2]] = True
        halves = [data.take_runs(np.flatnonzero(half)) for half in (first, ~first)]
        means = [merge_seeds(half) for half in halves]
        error = np.sqrt(means[0].log_steps_se ** 2 + means[1].log_steps_se ** 2)
        within += (np.abs(means[0].log_steps - means[1].log_steps) < 1.96 * error).ravel().tolist()
        fits = [
            fit_targets(
                arguments.law,
                data.take_runs(np.flatnonzero(half)),
                replicates=400,
                confidence=0.95,
                seed=split,
            )[0]
            for half in (first, ~first)
        ]
        for name in fits[0].draws:
            draws = [fit.draws[name] for fit in fits]
            low, high = np.quantile(draws[0], [0.025, 0.975])
            middle = [float(np.median(values)) for values in draws]
            inside.setdefault(name, []).append(low <= middle[1] <= high)
            apart.setdefault(name, []).append(abs(middle[1] - middle[0]) / float(high - low))
    print(
        f"mean log steps of a batch size within 1.96 standard errors of the other half's: {np.mean(within):.0%}"
    )
    print(f"{'number':<10}{'other half inside':>18}{'distance / width':>18}")
    for name, hits in inside.items():
        print(f"{name:<10}{100 * np.mean(hits):>17.0f}%{np.median(apart[name]):>18.2f}")


if __name__ == "__main__":
    main()
