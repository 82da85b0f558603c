"""Whole sweeps: which batch sizes, how long, at which targets, and the runs of them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ebfit.errors import BadInputError
from ebfit.laws import FloatArray
from ebfit.runs import Curve, Run
from ebfit.simulate.curves import Course, Rows, SimulatedRun, run_of
from ebfit.simulate.noise import PRESETS, Noise
from ebfit.simulate.worlds import Answer, World, check_grid, check_luck

SIZES, TARGETS = 12, 5
_LR = 1e-3
_TARGETS_SPAN = 5.0  # the data that the lowest target takes, over those that the highest takes
_SIZES_FROM = (
    0.6  # times B_min of the middle target: the lower targets are out of reach of the smallest batch sizes
)
_SIZES_TO = 30.0  # times B_opt of it
_MARGIN = 0.07  # of the excess over the floor that runs go on below the lowest target
_LONGEST = 30.0  # times S_opt of the lowest target; what takes longer is censored
_WARMUP = 0.1  # times S_min of the highest target
_FEWEST_STEPS = 20
_FEWEST_ROWS = 8
_MOST_ROWS = 3_000_000
_MOST_RUNS = 10_000


@dataclass(frozen=True)
class Sweep:
    """The runs of a simulated sweep, and the world that they come from.

    Attributes
    ----------
    world : World
    noise : Noise
    seed : int
        What luck was drawn with.
    seq_len : int
    targets : tuple of float
        Target losses, falling, that runs were made long enough for.
    runs : list of SimulatedRun
        By batch size, then seed.
    """

    world: World
    noise: Noise
    seed: int
    seq_len: int
    targets: tuple[float, ...]
    runs: list[SimulatedRun]

    @property
    def truth(self) -> list[Answer]:
        """The answer at every target."""
        return [self.world.truth_at(loss) for loss in self.targets]

    @property
    def batch_tokens(self) -> list[int]:
        """The batch sizes, rising."""
        return sorted({run.course.batch_tokens for run in self.runs})

    def sizes_reaching(self, loss: float) -> int:
        """Return how many batch sizes get to a loss in their stable phase, but for noise."""
        reached = set()
        for run in self.runs:
            takes = float(self.world.log_steps(loss, math.log(run.course.batch_tokens))) + run.course.late
            if takes <= math.log(run.steps[run.stable][-1]):
                reached.add(run.course.batch_tokens)
        return len(reached)

    def as_runs(self) -> list[Run]:
        """Return the runs as `ebfit.read_runs` would read their logs, without any file."""
        return [_as_run(run, self.seq_len) for run in self.runs]


def default_targets(world: World, count: int = TARGETS) -> tuple[float, ...]:
    """Return falling losses about the middle one, evenly spaced in the log of the data that they take."""
    grows = world.batch_exponent + world.steps_exponent
    reach = 0.5 * math.log(_TARGETS_SPAN) / grows if count > 1 else 0.0
    excess = world.parameters["loss"] - world.loss_floor
    losses = world.loss_floor + excess * np.exp(np.linspace(reach, -reach, count))
    spacing = float(losses[0] - losses[-1]) / max(count - 1, 1) or excess
    decimals = max(math.ceil(-math.log10(spacing)) + 1, 0)
    return tuple(round(float(loss), decimals) for loss in losses)


def default_batch_tokens(
    world: World, targets: Sequence[float], count: int = SIZES, seq_len: int = 1024
) -> list[int]:
    """Return batch sizes from below B_min to far above B_opt of the middle target, in whole sequences."""
    middle = world.truth_at(math.exp(0.5 * (math.log(min(targets)) + math.log(max(targets)))))
    sizes = np.geomspace(_SIZES_FROM * middle.b_min, _SIZES_TO * middle.b_opt, count)
    return sorted({max(round(size / seq_len), 1) * seq_len for size in sizes.tolist()})


def sweep(
    world: World,
    noise: Noise | str = "realistic",
    *,
    targets: Sequence[float] | None = None,
    batch_tokens: Sequence[int] | None = None,
    seeds: int = 1,
    seed: int = 0,
    seq_len: int = 1024,
    max_steps: int | None = None,
    rows: Rows | None = None,
) -> Sweep:
    """Simulate a sweep.

    Every run is as long as it takes to the lowest target and a little longer, but not longer than 30 S_opt of it. A
    run depends on the world, the noise, ``seed``, its own batch size and seed, but not on what other runs there are.

    Parameters
    ----------
    world : World
    noise : Noise or str
        Or the name of one: clean, realistic, harsh.
    targets : sequence of float, optional
        Target losses; found by `default_targets` if left out.
    batch_tokens : sequence of int, optional
        Tokens per step; found by `default_batch_tokens` if left out.
    seeds : int
        Runs per batch size.
    seed : int
        Of all luck.
    seq_len : int
        Tokens per sequence, for the log.
    max_steps : int, optional
        The most steps of a run before its decay.
    rows : Rows, optional
        Which steps are logged.

    Raises
    ------
    BadInputError
        If the options make no sense, alone or together.
    """
    if isinstance(noise, str):
        if noise not in PRESETS:
            raise BadInputError(f"there is no noise {noise!r}. Choose {', '.join(PRESETS)}.")
        noise = PRESETS[noise]
    rows = rows or Rows()
    losses = tuple(sorted(set(default_targets(world) if targets is None else targets), reverse=True))
    if not losses or not (batch_tokens is None or len(batch_tokens)):
        raise BadInputError("no target losses, or no batch sizes. Give one or more of them.")
    check_luck(seed)
    check_grid(losses, batch_tokens or ())
    answers = [world.truth_at(loss) for loss in losses]  # refuses what no run reaches
    sizes = default_batch_tokens(world, losses, seq_len=seq_len) if batch_tokens is None else batch_tokens
    sizes = sorted(set(sizes))
    _check_runs(sizes, seeds, seq_len, max_steps, rows)

    longest = _LONGEST * answers[-1].s_opt
    limit = max(min(longest, max_steps or math.inf), _FEWEST_STEPS)
    warmup = max(min(round(_WARMUP * answers[0].s_min), int(limit) // 4), 1)
    end = losses[-1] - _MARGIN * (losses[-1] - world.loss_floor)
    steps = np.exp(world.log_steps(end, np.log(np.array(sizes, dtype=float))))
    stable = np.clip(np.ceil(np.minimum(steps, limit)), 2 * warmup, None).astype(int).tolist()
    _check_rows(sizes, stable, seeds, noise, rows)

    runs = []
    for size, stable_steps in zip(sizes, stable, strict=True):
        off_the_law = noise.size_sd * np.random.default_rng([seed, 2, size]).standard_normal()
        for number in range(seeds):
            rng = np.random.default_rng([seed, 3, size, number])
            late = float(off_the_law + noise.seed_sd * rng.standard_normal())
            runs.append(
                run_of(world, noise, Course(size, number, _LR, warmup, stable_steps, late), rows, rng)
            )
    return Sweep(world, noise, seed, seq_len, losses, runs)


def _check_runs(sizes: Sequence[int], seeds: int, seq_len: int, max_steps: int | None, rows: Rows) -> None:
    if seq_len < 1:
        raise BadInputError(f"a sequence length of {seq_len}: must be 1 or more.")
    if off := [size for size in sizes if size % seq_len]:
        raise BadInputError(
            f"a batch of {off[0]:,} tokens is not a multiple of the sequence length, {seq_len:,}. "
            "Choose other batch sizes, or another --seq-len."
        )
    if seeds < 1 or seeds * len(sizes) > _MOST_RUNS:
        raise BadInputError(
            f"{seeds} seeds of {len(sizes)} batch sizes: give 1 to {_MOST_RUNS:,} runs in all."
        )
    if max_steps is not None and max_steps < _FEWEST_STEPS:
        raise BadInputError(f"--max-steps {max_steps}: give {_FEWEST_STEPS} or more.")
    if not 1 <= rows.per_doubling <= 1000:
        raise BadInputError(f"{rows.per_doubling} rows per doubling: give 1 to 1000.")
    if rows.every is not None and rows.every < 1:
        raise BadInputError(f"a row every {rows.every} steps: give 1 or more.")


def _check_rows(sizes: Sequence[int], stable: Sequence[int], seeds: int, noise: Noise, rows: Rows) -> None:
    if rows.every is None:
        return
    total = sum(stable) * seeds / rows.every / (1.0 - noise.decay_fraction)
    if total > _MOST_ROWS:
        raise BadInputError(
            f"a row every {rows.every:,} steps would be {total:,.0f} rows. Log fewer, or simulate fewer runs or steps."
        )
    shortest = min(stable)
    if shortest / rows.every < _FEWEST_ROWS:
        raise BadInputError(
            f"a row every {rows.every:,} steps leaves fewer than {_FEWEST_ROWS} to the batch of "
            f"{sizes[stable.index(shortest)]:,} tokens, which takes {shortest:,} steps. Log more of them."
        )


def _as_run(run: SimulatedRun, seq_len: int) -> Run:
    stable = run.steps[run.stable]
    evaluated = np.isfinite(run.val_loss)
    return Run(
        name=run.name,
        path=Path(run.name) / "metrics.jsonl",
        format="ebfit",
        batch_tokens=float(run.course.batch_tokens),
        batch_source="simulated",
        seq_len=seq_len,
        lr=run.course.lr,
        seed=run.course.seed,
        rows=len(run.steps),
        dropped={},
        stable_from=int(stable[0]),
        stable_to=int(stable[-1]),
        stable_source="simulated",
        train=_train_curve(run),
        val=Curve(run.steps[evaluated].astype(float), run.val_loss[evaluated], "val_loss"),
        averaging_known=True,
    )


def _train_curve(run: SimulatedRun) -> Curve:
    """Return the train loss at the middle of the steps that it is averaged over."""
    steps: FloatArray = run.steps.astype(float)
    if run.window == 1:
        return Curve(steps, run.train_loss, "train_loss")
    width = np.diff(steps, prepend=0.0) if run.window == "interval" else np.minimum(run.window, steps)
    middle = steps - 0.5 * (width - 1.0)
    return Curve(middle, run.train_loss, "train_loss", float(np.median(steps - middle)), steps)
