"""How often the intervals of B_min and B_opt hold the truth, over simulated sweeps.

Steps to target are drawn from a law with noise in log S that runs share between targets, as seeds do; every sweep
has its own random shape. Three worlds: `exact`, where the revised law is the truth; `surface`, where it is the
three-term surface of DESIGN 3.4, the law that the intervals allow for as a second opinion; and `neither`, where both
are wrong: S(B) = S_min (1 + B_n / B) / (1 - (B_min / B)^beta)^(1/gamma). Batch sizes too small to reach a target are
censored.

    python benchmarks/coverage.py --sweeps 200 [--worlds exact ...] [--cases plain few noisy censored seeds misfit]

Prints one row per world, case and number: coverage of the 95% interval where the status is ok, its median
half-width and the RMS error of the estimate (both in log), how often the status was ok, and how often the
one-sided bounds held.
"""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ebfit.fitting import Observations, fit_targets, why_not_fitted
from ebfit.laws import FloatArray, power, revised
from ebfit.simulate import neither

TARGETS = 3
SHARED_NOISE = 0.7  # correlation of a run's luck between targets
LAST_STEP = 60.0  # times S_opt or S_min of the last target: where every run ends

HEADER = """\
| world | case | number | coverage | half-width | rms error | status ok | bounds held |
|---|---|---|---|---|---|---|---|"""

Truth = dict[str, float]


@dataclass(frozen=True)
class Case:
    """How a sweep is run."""

    sizes: int = 10
    noise: float = 0.02  # standard deviation of log steps
    below: int = 0  # batch sizes below the first, which run into the end of training
    seeds: int = 1
    misfit: float = 0.0  # standard deviation of log steps that all seeds of a batch size share


CASES = {
    "plain": Case(),
    "few": Case(sizes=7),
    "noisy": Case(noise=0.06),
    "censored": Case(below=4),
    "seeds": Case(seeds=2),
    "misfit": Case(seeds=3, noise=0.01, misfit=0.02),
}


def exact_world(rng: np.random.Generator, targets: int) -> tuple[Callable[..., FloatArray], list[FloatArray]]:
    """Return S(B) and free parameters per target of a random revised law whose shape all targets share."""
    shape = rng.normal([-0.5, -1.0, 0.6, 0.3], [0.7, 1.2, 0.6, 0.7])
    return revised.log_steps, [np.array([7.0 + 0.3 * t, 10.0 + 0.4 * t, *shape]) for t in range(targets)]


def surface_world(
    rng: np.random.Generator, targets: int
) -> tuple[Callable[..., FloatArray], list[FloatArray]]:
    """Return S(B) and free parameters per target of a random three-term surface."""
    beta, gamma = rng.uniform(0.5, 1.3), rng.uniform(0.35, 1.0)
    return power.log_steps, [
        np.array([7.0 + 0.3 * t, 9.0 + 0.4 * t, np.log(beta), np.log(gamma)]) for t in range(targets)
    ]


def neither_world(
    rng: np.random.Generator, targets: int
) -> tuple[Callable[..., FloatArray], list[FloatArray]]:
    """Return S(B) and free parameters per target of a random law that is neither of these."""
    shape = np.log([rng.uniform(0.5, 1.3), rng.uniform(0.7, 1.6), rng.uniform(1.0, 6.0)])
    return neither.log_steps, [np.array([7.0 + 0.3 * t, 9.0 + 0.4 * t, *shape]) for t in range(targets)]


WORLDS = {
    "exact": (exact_world, revised.log_numbers),
    "surface": (surface_world, power.log_numbers),
    "neither": (neither_world, neither.log_numbers),
}


def simulate(
    world: str, case: Case, rng: np.random.Generator, targets: int = TARGETS
) -> tuple[list[Truth], Observations]:
    """Return the truth per target and the observations of one sweep, 1.1 B_min to 40 B_opt of the middle target."""
    make, log_numbers = WORLDS[world]
    log_steps_of, laws = make(rng, targets)
    truth = [{key: float(value) for key, value in log_numbers(free).items()} for free in laws]
    middle = truth[targets // 2]
    low, high = middle["b_min"] + np.log(1.1), middle["b_opt"] + np.log(40.0)
    stride = (high - low) / (case.sizes - 1)
    log_batch = np.repeat(low + stride * np.arange(-case.below, case.sizes), case.seeds)
    luck = rng.standard_normal((len(log_batch), 1))
    own = rng.standard_normal((len(log_batch), targets))
    common = np.repeat(rng.standard_normal(len(log_batch) // case.seeds), case.seeds)[:, None]
    noise = case.misfit * common + case.noise * (
        np.sqrt(SHARED_NOISE) * luck + np.sqrt(1.0 - SHARED_NOISE) * own
    )
    log_steps = np.stack([log_steps_of(free, log_batch) for free in laws], axis=1) + noise
    last = np.log(LAST_STEP) + laws[-1][0]
    censored = log_steps > last
    covariance = np.zeros((len(log_batch), targets, targets))
    return truth, Observations(log_batch, np.where(censored, last, log_steps), censored, covariance)


def study(
    world: str,
    case_name: str,
    sweeps: int,
    law: str = "revised",
    targets: int = TARGETS,
    losses: Sequence[float] | None = None,
) -> list[str]:
    """Return a row of the table for B_opt and for B_min; the law `surface` needs the losses of the targets."""
    inside: dict[str, list[bool]] = {"b_opt": [], "b_min": []}
    width: dict[str, list[float]] = {"b_opt": [], "b_min": []}
    error: dict[str, list[float]] = {"b_opt": [], "b_min": []}
    bound_held: dict[str, list[bool]] = {"b_opt": [], "b_min": []}
    total = 0
    for sweep in range(sweeps):
        truth, data = simulate(world, CASES[case_name], np.random.default_rng([2026, sweep]), targets)
        able = [t for t in range(targets) if why_not_fitted(law, data, t) is None]
        if not able:
            continue
        total += len(able)
        fits = fit_targets(
            law,
            data.take_targets(able),
            replicates=400,
            confidence=0.95,
            seed=sweep,
            losses=None if losses is None else [losses[t] for t in able],
        )
        for t, fit in zip(able, fits, strict=True):
            for name in inside:
                interval, true = fit.numbers[name], float(np.exp(truth[t][name]))
                low, high = interval.low or 0.0, interval.high or np.inf
                if interval.status == "ok":
                    assert interval.value is not None
                    inside[name].append(low <= true <= high)
                    width[name].append(0.5 * float(np.log(high / low)))
                    error[name].append(float(np.log(interval.value / true)))
                else:
                    bound_held[name].append(low <= true <= high)
    return [
        f"| {world} | {case_name} | {name} | {100 * np.mean(inside[name]):.1f}% | {np.median(width[name]):.3f} "
        f"| {np.sqrt(np.mean(np.square(error[name]))):.3f} | {100 * len(inside[name]) / total:.0f}% "
        f"| {f'{100 * np.mean(bound_held[name]):.0f}%' if bound_held[name] else '-'} |"
        for name in inside
    ]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--sweeps", type=int, default=200)
    parser.add_argument("--worlds", nargs="+", choices=list(WORLDS), default=list(WORLDS))
    parser.add_argument("--cases", nargs="+", choices=list(CASES), default=list(CASES))
    arguments = parser.parse_args()
    print(HEADER)
    for world in arguments.worlds:
        for case in arguments.cases:
            for row in study(world, case, arguments.sweeps):
                print(row, flush=True)


if __name__ == "__main__":
    main()
