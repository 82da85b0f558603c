"""The log of one run: its rows, learning rate and losses, with all that `Noise` does to them."""

import math
from dataclasses import dataclass
from itertools import accumulate
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ebfit.laws import FloatArray
from ebfit.simulate.noise import Noise, Window
from ebfit.simulate.worlds import World

IntArray = NDArray[np.int64]

_LOSS_AT_START = 10.8  # nats: a uniform guess among 50K tokens
_ROWS_OF_DECAY = 12  # at least: it may be too short for rows spaced in log step
_CUT_BETWEEN = (0.25, 0.9)  # of its steps, where a run is cut short
_SPIKE_LASTS = 0.01  # of the steps at its top: how long until it is down to a third
_DIVERGES_BY = 8.0  # nats
_DIVERGES_WITHIN = 0.2  # of the steps at which it begins
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(5)


@dataclass(frozen=True)
class Rows:
    """Which steps are logged: so many per doubling of the step number, or every so many steps."""

    per_doubling: int = 24
    every: int | None = None

    def steps(self, last: int) -> IntArray:
        """Return the logged steps up to the last, which is one of them."""
        if self.every is not None:
            return np.unique(np.append(np.arange(self.every, last + 1, self.every), last))
        return spaced(self.per_doubling, last)


@dataclass(frozen=True)
class Course:
    """What a run is meant to be.

    Attributes
    ----------
    batch_tokens, seed : int
    lr : float
        Learning rate of the stable phase.
    warmup_steps : int
        The last step of the warmup, the first at the full learning rate.
    stable_steps : int
        The last step at the full learning rate, before any decay.
    late : float
        By how much it takes longer than the law says, in log steps: its seed's luck and its batch size's.
    """

    batch_tokens: int
    seed: int
    lr: float
    warmup_steps: int
    stable_steps: int
    late: float


@dataclass(frozen=True)
class SimulatedRun:
    """A run as it is logged.

    Attributes
    ----------
    course : Course
    steps : ndarray, shape (n,)
        The logged steps, rising.
    lr : ndarray, shape (n,)
        Learning rate.
    train_loss : ndarray, shape (n,)
        Nats, averaged over ``window`` steps up to the row.
    val_loss : ndarray, shape (n,)
        Nats; NaN in rows without a validation.
    decay_start_step : int or None
        The last step at the full learning rate; None without a decay.
    window : int or "interval"
    status : {"finished", "interrupted", "failed"}
    reason : str
        Why it ended.
    """

    course: Course
    steps: IntArray
    lr: FloatArray
    train_loss: FloatArray
    val_loss: FloatArray
    decay_start_step: int | None
    window: Window
    status: Literal["finished", "interrupted", "failed"]
    reason: str

    @property
    def name(self) -> str:
        """Return a name that tells it from others of the sweep."""
        return f"b{self.course.batch_tokens}-s{self.course.seed}"

    @property
    def stable(self) -> NDArray[np.bool_]:
        """Tell which rows are at the full learning rate, shape (n,)."""
        last = self.steps[-1] if self.decay_start_step is None else self.decay_start_step
        return np.asarray((self.steps >= self.course.warmup_steps) & (self.steps <= last))


def spaced(per_doubling: int, last: int) -> IntArray:
    """Return whole steps from 1 to ``last``, so many while their number doubles."""
    count = math.ceil(per_doubling * math.log2(last)) + 1
    steps = np.round(2.0 ** (np.arange(count) / per_doubling)).astype(np.int64)
    return np.unique(np.append(steps[steps < last], last))


def run_of(world: World, noise: Noise, course: Course, rows: Rows, rng: np.random.Generator) -> SimulatedRun:
    """Simulate one run.

    Parameters
    ----------
    world : World
    noise : Noise
    course : Course
    rows : Rows
    rng : Generator
        Used up by this run alone, so that it does not depend on the others of its sweep.
    """
    cut, diverges = rng.random() < noise.cut_short, rng.random() < noise.diverged
    place = rng.random()
    last_stable = course.stable_steps
    last = max(round(last_stable / (1.0 - noise.decay_fraction)), last_stable)
    if cut:
        low, high = _CUT_BETWEEN
        last = last_stable = max(round(last_stable * (low + (high - low) * place)), course.warmup_steps + 1)
    path = _Path(world, noise, course, last_stable, last)
    validated = spaced(noise.evaluations_per_doubling, last)
    decay = np.linspace(last_stable, last, _ROWS_OF_DECAY).astype(np.int64)
    steps = np.unique(np.concatenate([rows.steps(last), validated, decay]))

    common = _wander(noise, course, steps, rng)
    if diverges:
        begins = last_stable * 0.3 ** (1.0 - place)
        common = common - _DIVERGES_BY * np.expm1(-np.maximum(steps / begins - 1.0, 0.0) / _DIVERGES_WITHIN)
    since = np.diff(steps, prepend=0)
    width = np.minimum(since if noise.window == "interval" else noise.window, steps).astype(float)
    exact = path.loss(steps.astype(float))
    train = (exact if noise.window == 1 else path.mean_loss(steps, width)) + common
    train += _step_noise(noise, course, width, rng) + _spikes(noise, course, steps, rng)
    val = exact + common + noise.val_sd * rng.standard_normal(len(steps))
    return SimulatedRun(
        course=course,
        steps=steps,
        lr=path.lr(steps),
        train_loss=np.round(train, noise.decimals),
        val_loss=np.where(np.isin(steps, validated), np.round(val, noise.decimals), np.nan),
        decay_start_step=last_stable if last > last_stable else None,
        window=noise.window,
        status="interrupted" if cut else "failed" if diverges else "finished",
        reason="cut short" if cut else "diverged" if diverges else f"{last} steps",
    )


@dataclass(frozen=True)
class _Path:
    """What a run does without noise, from its first step to its last."""

    world: World
    noise: Noise
    course: Course
    last_stable: int
    last: int

    def lr(self, steps: IntArray) -> FloatArray:
        """Return the learning rate: a linear warmup, a plateau, and a linear decay to 0."""
        warmed = np.minimum(steps / self.course.warmup_steps, 1.0)
        return self.course.lr * warmed * (1.0 - self._decayed(steps))

    def loss(self, steps: FloatArray) -> FloatArray:
        """Return the loss after so many steps.

        In the warmup it is the law's after fewer steps, s^2 / warmup steps; in the decay it falls below the law's.
        """
        warmup = self.course.warmup_steps
        steps = np.maximum(steps, 0.5)
        effective = np.where(steps < warmup, steps**2 / warmup, steps)
        law = self.world.loss(np.log(self.course.batch_tokens), np.log(effective) - self.course.late)
        fallen = self.noise.decay_drop * np.sqrt(self._decayed(steps)) * (law - self.world.loss_floor)
        return np.minimum(law - fallen, max(_LOSS_AT_START, 2.0 * self.world.parameters["loss"]))

    def mean_loss(self, steps: IntArray, width: FloatArray) -> FloatArray:
        """Return the mean of the loss over the last ``width`` steps, by quadrature."""
        within = steps - 0.5 * (width - 1.0) + 0.5 * width * _NODES[:, None]
        return np.asarray(0.5 * _WEIGHTS @ self.loss(within))

    def _decayed(self, steps: FloatArray | IntArray) -> FloatArray:
        """Return how far the learning rate has fallen: 0 up to the last stable step, 1 at the last."""
        if self.last == self.last_stable:  # without a decay
            return np.zeros(np.shape(steps))
        return np.clip((steps - self.last_stable) / (self.last - self.last_stable), 0.0, 1.0)


def _wander(noise: Noise, course: Course, steps: IntArray, rng: np.random.Generator) -> FloatArray:
    """Return a first-order autoregressive process in log step, started in its steady state."""
    kept = np.exp(-np.diff(np.log(steps)) / noise.wander_length)
    kicks = rng.standard_normal(len(steps))
    kicks[1:] *= np.sqrt(1.0 - kept**2)
    moves = zip(kept.tolist(), kicks[1:].tolist(), strict=True)
    path = accumulate(moves, lambda at, move: move[0] * at + move[1], initial=float(kicks[0]))
    return np.array(list(path)) * noise.wander_sd / math.sqrt(course.batch_tokens)


def _step_noise(noise: Noise, course: Course, width: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Return the noise of means over ``width`` steps: heavy in the tail where few are averaged."""
    freedom = noise.tail * width
    sd = math.hypot(noise.step_sd / math.sqrt(course.batch_tokens), noise.step_sd_floor)
    return sd / np.sqrt(width) * rng.standard_t(freedom) * np.sqrt((freedom - 2.0) / freedom)


def _spikes(noise: Noise, course: Course, steps: IntArray, rng: np.random.Generator) -> FloatArray:
    """Return what loss spikes add to the train loss; they begin anywhere in log step, and run out."""
    added = np.zeros(len(steps))
    for _ in range(rng.poisson(noise.spikes)):
        top = course.warmup_steps * (steps[-1] / course.warmup_steps) ** rng.random()
        at = int(np.searchsorted(steps, top))  # the first row that sees it
        height = noise.spike_height * rng.exponential()
        late = (steps[at:] - steps[at]) / (_SPIKE_LASTS * steps[at])
        added[at:] += height * np.exp(-late)
    return added
