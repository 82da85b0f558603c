"""How often the intervals of the exponents of B_opt(D) and B_min(D) hold the truth, over simulated sweeps.

The worlds and cases are those of `coverage.py`. In all of them B_opt and B_min grow as D^0.571 exactly, so what is
measured is how errors of targets, which share their runs, become the error of a line.

    python benchmarks/trend_coverage.py --sweeps 100 [--targets 3 8] [--worlds exact ...] [--cases plain noisy ...]

Prints one row per world, case, number of targets and batch size: coverage of the 95% interval of the exponent, its
median half-width, the RMS error of the exponent, the coverage of the line's band at ten times the largest D, and how
often there was a trend at all. Then, for sweeps of the world `exact`, taken two by two as groups that share one line
of B_opt: how often the test of agreement has a p-value below 0.05, 0.25 and 0.5.
"""

import argparse

import numpy as np
from coverage import CASES, WORLDS, simulate

from ebfit.fitting import fit_targets, why_not_fitted
from ebfit.trends import Group, find_trends

EXPONENT = 0.4 / 0.7
LEVELS = (0.05, 0.25, 0.5)
NAMES = {"b_opt": "b_opt_vs_tokens", "b_min": "b_min_vs_tokens"}


def sweep_of(world: str, case: str, targets: int, sweep: int) -> tuple[list[dict[str, float]], Group]:
    """Return the truth and the fitted targets of one simulated sweep."""
    truth, data = simulate(world, CASES[case], np.random.default_rng([2026, sweep]), targets)
    able = [t for t in range(targets) if why_not_fitted("revised", data, t) is None]
    data = data.take_targets(able)
    fits = fit_targets("revised", data, replicates=400, confidence=0.95, seed=sweep) if able else []
    fewest = [float(np.exp(data.mean_log_tokens(i).min())) for i in range(len(able))]
    return truth, Group(f"sweep {sweep}", [-float(t) for t in able], fewest, fits)


def study(world: str, case: str, targets: int, sweeps: int) -> tuple[list[str], list[Group]]:
    """Return the rows of the table, and the groups they are made from."""
    inside: dict[str, list[bool]] = {name: [] for name in NAMES}
    band: dict[str, list[bool]] = {name: [] for name in NAMES}
    width: dict[str, list[float]] = {name: [] for name in NAMES}
    error: dict[str, list[float]] = {name: [] for name in NAMES}
    groups = []
    for sweep in range(sweeps):
        truth, group = sweep_of(world, case, targets, sweep)
        groups.append(group)
        trends = find_trends([group], 0.95)
        for name, key in NAMES.items():
            trend = getattr(trends, key)
            if trend is None:
                continue
            inside[name].append(trend.exponent_low <= EXPONENT <= trend.exponent_high)
            width[name].append(0.5 * (trend.exponent_high - trend.exponent_low))
            error[name].append(trend.exponent - EXPONENT)
            far = 10.0 * trend.d_high
            first = truth[0]
            log_truth = first[name] + EXPONENT * (np.log(far) - first["e_min"])
            _, low, high = trend.batch_at(far)
            band[name].append(low <= np.exp(log_truth) <= high)
    rows = [
        f"| {world} | {case} | {targets} | {name} | {100 * np.mean(inside[name]):.0f}% | {np.median(width[name]):.3f} "
        f"| {np.sqrt(np.mean(np.square(error[name]))):.3f} | {100 * np.mean(band[name]):.0f}% "
        f"| {100 * len(inside[name]) / sweeps:.0f}% |"
        for name in NAMES
        if inside[name]
    ]
    return rows, groups


def p_values(groups: list[Group]) -> list[float]:
    """Return the p-values of the test whether two sweeps share the line of B_opt, which they do."""
    found = []
    for pair in zip(groups[::2], groups[1::2], strict=False):
        test = find_trends(pair, 0.95).agreement.get("b_opt_vs_tokens")
        if test is not None:
            found.append(test.p_value)
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--sweeps", type=int, default=100)
    parser.add_argument("--targets", nargs="+", type=int, default=[8])
    parser.add_argument("--worlds", nargs="+", choices=list(WORLDS), default=list(WORLDS))
    parser.add_argument("--cases", nargs="+", choices=list(CASES), default=["plain", "censored"])
    arguments = parser.parse_args()
    print(
        "| world | case | targets | number | coverage | half-width | rms error | band at 10 D | trend found |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    said = []
    for world in arguments.worlds:
        for case in arguments.cases:
            for targets in arguments.targets:
                rows, groups = study(world, case, targets, arguments.sweeps)
                for row in rows:
                    print(row, flush=True)
                p = np.array(p_values(groups)) if world == "exact" else np.empty(0)
                if len(p):
                    shares = ", ".join(f"{100 * np.mean(p < level):.0f}%" for level in LEVELS)
                    said.append(f"{case}, {targets} targets: {shares} of {len(p)} pairs of sweeps")
    print(f"\np-values of agreement below {LEVELS}, under one line:")
    print("\n".join(said))


if __name__ == "__main__":
    main()
