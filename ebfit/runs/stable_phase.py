"""Where a run is in its stable phase: after warmup, before decay, at a constant learning rate.

The bounds are logged steps and both belong to the phase: ``first_step`` is the first logged step at the plateau's
learning rate, ``last_step`` the last one. Rows that do not log a learning rate (validation rows) do not
interrupt a plateau.

A plateau is told from a curve that only looks flat - the top of a cosine, or any slow curve logged with
few digits - by its end: the learning rate leaves a plateau at a corner, where a smooth curve stays near the
value for about as long again.
"""

from dataclasses import dataclass, field

import numpy as np

from ebfit.errors import BadInputError
from ebfit.runs.run import FloatArray

# Learning rates closer than this, relative to the plateau's, are the same up to rounding.
TOLERANCE = 1e-4
MIN_ROWS = 5
# A shorter plateau, as a share of the steps after warmup, is not what the run was made for.
MIN_SHARE = 0.1
_ROWS_LOOKED_AT = 50_000
# A stretch that stays near the plateau for longer than this share of it is no corner.
_MAX_SHOULDER = 0.5
# How many units of rounding count as near.
_NEAR_UNITS = 3.5
# The learning rate falling by more than this from one row to the next is a step decay, not a smooth curve.
_STEP_DECAY = 0.2

NEVER_CONSTANT = (
    "the learning rate is never constant (as under a cosine or linear decay), and the law holds only in the "
    "stable phase, where it is. --allow-non-stable would use the whole curve after warmup, with results that "
    "are not comparable to those of WSD runs."
)


@dataclass(frozen=True)
class Plateau:
    """A stretch of constant learning rate.

    Attributes
    ----------
    first_step, last_step : int
        First and last logged step of it.
    lr : float
        Its learning rate.
    peak : float
        The highest learning rate of the run.
    reaches_end : bool
        Whether no later row logs another learning rate.
    """

    first_step: int
    last_step: int
    lr: float
    peak: float
    reaches_end: bool


def find_plateau(steps: FloatArray, lr: FloatArray) -> Plateau | None:
    """Find the stable phase in a learning-rate curve.

    Parameters
    ----------
    steps : ndarray, shape (n,)
        Rising optimizer steps.
    lr : ndarray, shape (n,)
        Learning rate at each; NaN where a row does not say.

    Returns
    -------
    Plateau or None
        The plateau at the highest learning rate that covers the most steps, else the longest one below it
        that no long stretch of a higher learning rate came before. None if there is no plateau.
    """
    known = np.isfinite(lr)
    if not known.all():
        steps, lr = steps[known], lr[known]
    if len(lr) < MIN_ROWS or not lr.max() > 0:
        return None
    peak = float(lr.max())
    warm = float(steps[np.argmax(lr >= (1 - 1e-3) * peak)])
    least_span = MIN_SHARE * (steps[-1] - warm)
    best: tuple[tuple[bool, float], Plateau] | None = None
    for first, last in _flat_blocks(lr):
        value = float(np.median(lr[first : last + 1]))
        first, last = _widened(lr, first, last, value)
        span = float(steps[last] - steps[first])
        if value <= 0 or last - first + 1 < MIN_ROWS or span < least_span:
            continue
        at_peak = value >= (1 - 1e-3) * peak
        if not (
            _has_corners(steps, lr, first, last, value)
            and (at_peak or _starts_low(steps, lr, first, last, value))
        ):
            continue
        rank = (at_peak, span)
        if best is None or rank > best[0]:
            end = last == len(lr) - 1
            best = rank, Plateau(int(steps[first]), int(steps[last]), value, peak, end)
    return best[1] if best else None


def _flat_blocks(lr: FloatArray) -> list[tuple[int, int]]:
    """Return first and last index of stretches that fall into one bin of log(lr).

    Values that jitter about the edge of a bin would break a plateau apart, hence a second set of bins,
    shifted by half a bin.
    """
    # A long log is looked at in every so many rows: its plateau is long too, and its ends are found later.
    every = max(1, len(lr) // _ROWS_LOOKED_AT)
    logs = np.log(np.maximum(lr[::every], 1e-300)) / (2 * TOLERANCE)
    blocks: set[tuple[int, int]] = set()
    for shift in (0.0, 0.5):
        bins = np.floor(logs + shift)
        ends = np.flatnonzero(np.append(bins[1:] != bins[:-1], True))
        starts = np.append(0, ends[:-1] + 1)
        long_enough = ends - starts + 1 >= MIN_ROWS
        starts, ends = starts[long_enough] * every, ends[long_enough] * every
        blocks.update(zip(starts.tolist(), ends.tolist(), strict=True))
    # Among hundreds of short blocks, as a slow decay makes, only the longest can be the stable phase.
    return sorted(blocks, key=lambda block: block[0] - block[1])[:50]


def _widened(lr: FloatArray, first: int, last: int, value: float) -> tuple[int, int]:
    away = np.flatnonzero(np.abs(lr - value) > TOLERANCE * value)
    place = int(np.searchsorted(away, first))
    start = int(away[place - 1]) + 1 if place > 0 else 0
    end = int(away[place]) - 1 if place < len(away) else len(lr) - 1
    return min(start, first), max(end, last)


def _has_corners(steps: FloatArray, lr: FloatArray, first: int, last: int, value: float) -> bool:
    """Tell whether the learning rate leaves the plateau at once, on its way down as on its way there."""
    after = _shoulder(lr[last:], steps[last:] - steps[last], value)
    before = _shoulder(lr[first::-1], steps[first] - steps[first::-1], value)
    return bool(max(after, before) <= _MAX_SHOULDER * (steps[last] - steps[first]))


def _shoulder(lr: FloatArray, distance: FloatArray, value: float) -> float:
    """Return for how many steps the learning rate stays near a plateau it has left.

    Near is a few units of the rounding that the log was written with: the smallest change seen.
    """
    if len(lr) < 2:
        return 0.0
    changes = np.abs(np.diff(np.append(value, lr[1:])))
    moving = changes[(changes > TOLERANCE * value) & (lr[1:] >= value / 2)]
    first_change = changes[changes > TOLERANCE * value][:1]
    if first_change.size and first_change[0] >= _STEP_DECAY * value:
        unit = _decimal_unit(lr, value)
    else:
        unit = float(moving.min(initial=first_change[0] if first_change.size else 0.0))
    unit = max(unit, TOLERANCE * value)
    away = np.flatnonzero(np.abs(lr - value) > _NEAR_UNITS * unit)
    near = int(away[0]) if away.size else len(lr)
    return float(distance[max(near - 1, 0)])


def _decimal_unit(lr: FloatArray, value: float) -> float:
    """Return the largest power of ten of which all learning rates are multiples."""
    sample = np.unique(lr)[:1000]
    for exponent in range(int(np.floor(np.log10(value))), int(np.floor(np.log10(value))) - 6, -1):
        units = sample / 10.0**exponent
        if np.abs(units - np.round(units)).max() < 1e-6 * value / 10.0**exponent:
            return float(10.0**exponent)
    return 0.0


def _starts_low(steps: FloatArray, lr: FloatArray, first: int, last: int, value: float) -> bool:
    """Tell whether a plateau below the peak comes before any long stretch above it, unlike a decay's floor."""
    higher = steps[:first][lr[:first] > (1 + 1e-3) * value]
    return higher.size == 0 or bool(higher[-1] - higher[0] <= MIN_SHARE * (steps[last] - steps[0]))


@dataclass(frozen=True)
class StablePhase:
    """The stable phase of a run, and how it is known.

    Attributes
    ----------
    first_step, last_step : int
        Both included.
    source : str
        In words.
    lr : float or None
        The learning rate, where the log has one.
    warnings : list of str
        Plain sentences.
    assumptions : list of str
        What was assumed for want of a word, in plain sentences.
    """

    first_step: int
    last_step: int
    source: str
    lr: float | None
    warnings: list[str]
    assumptions: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Known:
    """What is said about the stable phase outside the rows: an option, or a run.json."""

    warmup_steps: int | None
    until: int | None
    source: str


def choose_stable_phase(
    steps: FloatArray,
    lr: FloatArray | None,
    last_step: int,
    given: Known,
    written: Known | None,
    *,
    allow_non_stable: bool,
) -> StablePhase:
    """Decide on the stable phase of a run: options first, then the learning rate, run.json, a guess.

    Parameters
    ----------
    steps, lr : ndarray, shape (n,)
        Rising steps and the learning rate at each; lr is None where the log has none.
    last_step : int
        Last step of the log.
    given, written : Known
        What the options say, and what a manifest, run.json or config says.
    allow_non_stable : bool
        Whether to use the whole curve after warmup where the learning rate is never constant.

    Raises
    ------
    BadInputError
        If the learning rate is never constant, and nothing says where to cut; the sentence lacks the file.
    """
    plateau = find_plateau(steps, lr) if lr is not None else None
    assumptions: list[str] = []
    warnings: list[str] = []
    value = plateau.lr if plateau else None
    if lr is not None and plateau is not None:
        first, last = plateau.first_step, plateau.last_step
        source = f"constant lr {plateau.lr:.4g}"
        if plateau.reaches_end and last < last_step <= last + _largest_gap(steps, lr):
            last = last_step  # the last row is a validation row, which does not log its learning rate
        if plateau.lr < (1 - 1e-3) * plateau.peak:
            warnings.append(
                f"the learning rate is constant at {plateau.lr:.4g}, below its highest value {plateau.peak:.4g}; "
                "--warmup-steps and --stable-until decide otherwise."
            )
        if written is not None:
            warnings += _contradictions(written, first, last, _largest_gap(steps, lr))
    elif lr is not None and not (given.warmup_steps is not None and given.until is not None):
        if not allow_non_stable:
            raise BadInputError(NEVER_CONSTANT)
        highest = float(np.nanmax(lr))
        first, last = int(steps[np.nanargmax(lr >= (1 - 1e-3) * highest)]), last_step
        source = "whole curve after warmup, lr never constant (--allow-non-stable)"
        value = highest
        warnings.append(
            "the learning rate is never constant; the whole curve after warmup is used (--allow-non-stable), and "
            "the results are not comparable to those of WSD runs."
        )
    elif (
        lr is None and written is not None and (written.warmup_steps is not None or written.until is not None)
    ):
        first, last = written.warmup_steps or 1, min(written.until or last_step, last_step)
        source = written.source
    else:
        first, last = max(1, round(0.01 * last_step)), last_step
        source = "guess: all but the first 1% of steps"
        if given.warmup_steps is None:
            warnings.append(
                "the log has no learning rate: the stable phase is guessed to be all but the first 1% of steps. "
                "Say where the warmup ends with --warmup-steps, and where a decay begins with --stable-until."
            )
    if given.warmup_steps is None and given.until is None:
        return StablePhase(first, last, source, value, warnings)
    if given.warmup_steps is not None:
        first = max(given.warmup_steps, 1)
        source = f"{given.source}, end: {source}" if given.until is None else given.source
        if lr is None and given.until is None and (written is None or written.until is None):
            assumptions.append(_NO_DECAY)
    elif given.until is not None:
        source = f"{given.source}, start: {source}"
    if given.until is not None:
        last = min(given.until, last_step)
    if lr is not None:
        value, varied = _lr_within(steps, lr, first, last)
        warnings += varied
    return StablePhase(first, last, source, value, warnings, assumptions)


_NO_DECAY = (
    "without a learning rate in the log, all after the warmup is taken for the stable phase. If a run ends in a decay, "
    "say where it begins with --stable-until, or per run in a manifest (decay_start_step)."
)


def _largest_gap(steps: FloatArray, lr: FloatArray) -> float:
    known = steps[np.isfinite(lr)]
    return float(np.diff(known).max(initial=0.0))


def _contradictions(written: Known, first: int, last: int, gap: float) -> list[str]:
    warnings = []
    if written.warmup_steps is not None and first + gap < written.warmup_steps:
        warnings.append(
            f"{written.source} ends the warmup at step {written.warmup_steps}, but the logged learning rate is "
            f"constant from step {first}; the log was believed."
        )
    if written.until is not None and last - gap > written.until:
        warnings.append(
            f"{written.source} starts the decay at step {written.until}, but the logged learning rate is constant "
            f"until step {last}; the log was believed."
        )
    return warnings


def _lr_within(steps: FloatArray, lr: FloatArray, first: int, last: int) -> tuple[float | None, list[str]]:
    inside = lr[(steps >= first) & (steps <= last) & np.isfinite(lr)]
    if inside.size == 0:
        return None, []
    middle = float(np.median(inside))
    spread = float(inside.max() - inside.min()) / middle if middle > 0 else 0.0
    if spread <= 1e-2:
        return middle, []
    return middle, [
        f"the learning rate changes by {spread:.0%} within the stable phase that was given; results are not "
        "comparable to those at a constant one."
    ]
