"""What `ebfit design` gains over batch sizes at equal spacing, on simulated sweeps whose answer is known.

A coarse sweep of 7 batch sizes is fitted. Then the same tokens are spent twice: on as many sizes again, spaced equally
in their logarithm between the first ones, each trained to the lowest target; and on what `ebfit design` chooses. Both
are fitted together with the coarse sweep. Worlds and noise are those of `coverage.py`.

    python benchmarks/design_gain.py --sweeps 40 [--worlds exact ...] [--goals b_opt] [--shares 1 0.25] [--full-length]

Prints per world, goal and way of spending: tokens (those of equal spacing are 1), runs, how often the status is ok,
and over targets for which it is with all ways: the median half-width and the RMS error of the estimate (both in log),
with the factor by which equal spacing has more. `expected` is the half-width that the design expects.
"""

import argparse
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from coverage import CASES, SHARED_NOISE, TARGETS, WORLDS, Case, Truth, simulate

from ebfit.designing import Goal, Knowledge, expected, joined, options, plan
from ebfit.fitting import Observations, TargetFit, fit_targets, why_not_fitted
from ebfit.laws import FloatArray

SIZES = 7
REPLICATES = 200
CONFIDENCE = 0.95
Law = Callable[..., FloatArray]


@dataclass(frozen=True)
class Spent:
    """One way of spending the budget: tokens in units of it, runs, and per target what came out."""

    tokens: float
    runs: int
    expected: list[float]
    half_width: list[float]
    error: list[float]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--sweeps", type=int, default=40)
    parser.add_argument("--first", type=int, default=0, help="the number of the first sweep")
    parser.add_argument("--worlds", nargs="+", choices=list(WORLDS), default=["exact", "surface"])
    parser.add_argument("--case", choices=list(CASES), default="plain")
    parser.add_argument("--goals", nargs="+", choices=["b_opt", "b_min"], default=["b_opt", "b_min"])
    parser.add_argument(
        "--shares", nargs="+", type=float, default=[1.0], help="of the budget, for the design"
    )
    parser.add_argument(
        "--full-length", action="store_true", help="every designed run reaches the lowest target"
    )
    arguments = parser.parse_args()
    print(
        "| world | goal | spent by | tokens | runs | ok | half-width | factor | rms error | factor | expected |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    case = replace(CASES[arguments.case], sizes=SIZES)
    for world in arguments.worlds:
        ways: dict[tuple[str, str], list[Spent]] = {}
        for sweep in range(arguments.first, arguments.first + arguments.sweeps):
            for key, spent in study(
                world, case, sweep, arguments.goals, arguments.shares, arguments.full_length
            ).items():
                ways.setdefault(key, []).append(spent)
        for goal in arguments.goals:
            for row in rows(world, goal, {way: all_ for (g, way), all_ in ways.items() if g == goal}):
                print(row, flush=True)


def study(
    world: str, case: Case, sweep: int, goals: list[str], shares: list[float], full_length: bool
) -> dict[tuple[str, str], Spent]:
    """Return what came of one sweep by goal and way of spending; nothing where the coarse sweep cannot be fitted."""
    truth, data = simulate(world, case, np.random.default_rng([2027, sweep]))
    # the same laws again: they are the first thing that `simulate` draws
    law, laws = WORLDS[world][0](np.random.default_rng([2027, sweep]), TARGETS)
    if any(why_not_fitted("revised", data, t) for t in range(TARGETS)):
        return {}
    coarse = fitted(data, sweep)
    statuses = {name: [fit.numbers[name].status for fit in coarse] for name in ("b_opt", "b_min")}
    knowledge = Knowledge.of(data, statuses, "pooled", sweep)
    sizes = np.unique(data.log_batch)
    _, may_be = options(knowledge, Goal(goals[0], [TARGETS - 1]), np.exp(0.5 * (sizes[1:] + sizes[:-1])))
    lowest = TARGETS - 1
    arrives = np.isfinite(may_be.log_length[:, lowest])
    budget = float(may_be.tokens[arrives, lowest].sum())
    equal_batch, equal_length = np.log(may_be.batch_tokens[arrives]), may_be.log_length[arrives, lowest]

    def carried_out(log_batch: FloatArray, log_length: FloatArray, luck: int) -> list[TargetFit]:
        rng = np.random.default_rng([sweep, luck])
        return fitted(joined(data, runs_of(law, laws, case, log_batch, log_length, rng)), sweep)

    equal = carried_out(equal_batch, equal_length, 0)
    found = {}
    for goal in goals:
        found[goal, "before"] = spent_on(coarse, truth, goal, 0.0, 0)
        found[goal, "equal spacing"] = spent_on(equal, truth, goal, 1.0, len(equal_batch))
        for share in shares:
            wanted = Goal(goal, list(range(TARGETS)), full_length)
            designed = plan(knowledge, wanted, share * budget, knowledge.sizes(wanted, None))
            fits = carried_out(designed.log_batch, designed.log_length, 1)
            real = [half_width_of(fit, goal) for fit in coarse]
            ahead = [
                expected(
                    knowledge, designed, goal, t, CONFIDENCE, width if np.isfinite(width) else None
                ).after
                for t, width in enumerate(real)
            ]
            found[goal, f"design, {share:g}"] = spent_on(
                fits, truth, goal, designed.tokens / budget, len(designed.runs), ahead
            )
    return found


def fitted(data: Observations, seed: int) -> list[TargetFit]:
    return fit_targets("revised", data, replicates=REPLICATES, confidence=CONFIDENCE, seed=seed)


def runs_of(
    law: Law,
    laws: list[FloatArray],
    case: Case,
    log_batch: FloatArray,
    log_length: FloatArray,
    rng: np.random.Generator,
) -> Observations:
    """Return what runs of a world show, with noise as in the sweep."""
    exact = np.stack([law(free, log_batch) for free in laws], axis=1)
    luck, own = rng.standard_normal((len(log_batch), 1)), rng.standard_normal(exact.shape)
    log_steps = exact + case.noise * (np.sqrt(SHARED_NOISE) * luck + np.sqrt(1.0 - SHARED_NOISE) * own)
    ended = log_steps > log_length[:, None]
    return Observations(
        log_batch,
        np.where(ended, log_length[:, None], log_steps),
        ended,
        np.zeros((*exact.shape, exact.shape[1])),
    )


def half_width_of(fit: TargetFit, goal: str) -> float:
    interval = fit.numbers[goal]
    if interval.status != "ok" or interval.low is None or interval.high is None:
        return np.nan
    return 0.5 * float(np.log(interval.high / interval.low))


def spent_on(
    fits: list[TargetFit],
    truth: list[Truth],
    goal: str,
    tokens: float,
    runs: int,
    ahead: list[float] | None = None,
) -> Spent:
    values = [fit.numbers[goal].value for fit in fits]
    errors = [
        np.nan if value is None else float(np.log(value)) - true[goal]
        for value, true in zip(values, truth, strict=True)
    ]
    return Spent(
        tokens, runs, ahead or [np.nan] * len(fits), [half_width_of(fit, goal) for fit in fits], errors
    )


def rows(world: str, goal: str, ways: dict[str, list[Spent]]) -> list[str]:
    """Return the rows of the table for one world and goal."""
    widths = {way: np.array([spent.half_width for spent in all_]) for way, all_ in ways.items()}
    errors = {way: np.array([spent.error for spent in all_]) for way, all_ in ways.items()}
    in_all = np.all([np.isfinite(width) for way, width in widths.items() if way != "before"], axis=0)
    median = {way: float(np.nanmedian(np.where(in_all, width, np.nan))) for way, width in widths.items()}
    rms = {
        way: float(np.sqrt(np.nanmean(np.where(in_all, error, np.nan) ** 2))) for way, error in errors.items()
    }
    lines = []
    for way, all_ in ways.items():
        ahead = np.array([spent.expected for spent in all_])
        ahead = ahead[in_all & np.isfinite(ahead)]
        lines.append(
            f"| {world} | {goal} | {way} | {np.mean([spent.tokens for spent in all_]):.2f} "
            f"| {np.mean([spent.runs for spent in all_]):.0f} | {100 * np.mean(np.isfinite(widths[way])):.0f}% "
            f"| {median[way]:.3f} | {median['equal spacing'] / median[way]:.2f} "
            f"| {rms[way]:.3f} | {rms['equal spacing'] / rms[way]:.2f} "
            f"| {f'{np.median(ahead):.3f}' if ahead.size else '-'} |"
        )
    return lines


if __name__ == "__main__":
    main()
