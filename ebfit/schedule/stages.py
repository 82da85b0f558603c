"""From a curve B(D) to stages of constant batch size.

A batch size is held while it is the nearest of the sizes to the curve: the change from b to the next size b' comes
where the curve passes sqrt(b b'), or b where the plan is to stay above the curve. The sizes go down from the curve's
value at the end of the stable phase, each smaller than the one above by the step factor. Then those go whose stage
would be too short, or would end within the warmup. Where the changes lie is our choice; how the stages of arXiv
2601.05034 were made is not in our hands.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import ceil, lcm, log, sqrt

import numpy as np

from ebfit.batch_plan import BatchPlan
from ebfit.errors import BadInputError
from ebfit.laws import FloatArray
from ebfit.schedule.stage_options import StageOptions
from ebfit.text import short

_DEFAULT_FACTOR = 2.0
_GRID = 4000
_MOST_SIZES = 200
_MOVED_AT_MOST = 0.1  # in ln(batch), for the sake of whole factors
_OFF_AT_MOST = 0.02  # of the tokens so far, or one step, for the sake of whole steps


@dataclass(frozen=True)
class Layout:
    """Batch sizes in tokens and where each begins, the first at 0; and what the user must be told."""

    sizes: list[tuple[int, int]]
    warnings: list[str] = field(default_factory=list)


def lay_out(batch_at: Callable[[float], float], options: StageOptions, stay_above: bool = False) -> Layout:
    """Choose sizes and where they begin.

    Parameters
    ----------
    batch_at : callable
        Tokens consumed -> the batch size that is asked for, in tokens, finite.
    options : StageOptions
    stay_above : bool
        No step begins below the curve, in place of being near it: changes come where the curve passes the size in use.

    Raises
    ------
    BadInputError
        If a size of ``options.sizes`` is not allowed.
    """
    end = options.stable_until
    asked = _Asked(batch_at, end, stay_above)
    sizes = _falling_sizes(asked, options) if options.sizes is None else _checked(options)
    given = list(sizes)
    while True:
        starts = [0, *(asked.change(*pair) for pair in pairwise(sizes))]
        worst = _to_drop(starts, sizes, options, stay_above)
        if worst is None:
            break
        del sizes[worst]
    starts = _aligned(starts, sizes, options, stay_above)
    return Layout(list(zip(starts, sizes, strict=True)), _warnings(asked, given, sizes, options))


def decay_start(plan: BatchPlan, options: StageOptions) -> int | None:
    """Return where the decay begins, moved up to a whole step; None without a decay."""
    if not options.decay_tokens:
        return None
    return min(plan.tokens_at(plan.steps_until(options.stable_until)), plan.total_tokens)


class _Asked:
    """The curve up to the end of the stable phase: where it first passes a batch size, and its largest one."""

    def __init__(self, batch_at: Callable[[float], float], end: int, stay_above: bool) -> None:
        self.end = end
        self.stay_above = stay_above
        self._log_tokens: FloatArray = np.linspace(0.0, np.log(end), _GRID)
        batches = [batch_at(tokens) for tokens in np.exp(self._log_tokens)]
        self._log_batch = np.maximum.accumulate(np.log(batches))
        self.largest = float(np.exp(self._log_batch[-1]))

    def tokens(self, batch: float) -> int:
        """Return the tokens after which the curve is at ``batch``; beyond the end where it never gets there."""
        log_batch = np.log(batch)
        if log_batch > self._log_batch[-1]:
            return self.end + 1
        after = int(np.searchsorted(self._log_batch, log_batch))
        if after == 0:
            return 0
        low, high = self._log_batch[after - 1], self._log_batch[after]
        share = (log_batch - low) / (high - low)
        before = self._log_tokens[after - 1]
        return round(float(np.exp(before + share * (self._log_tokens[after] - before))))

    def change(self, batch: int, following: int) -> int:
        """Return the tokens after which a batch size gives way to the following one."""
        return self.tokens(batch if self.stay_above else sqrt(batch) * sqrt(following))


def _falling_sizes(asked: _Asked, options: StageOptions) -> list[int]:
    factor = options.step_factor or _DEFAULT_FACTOR
    largest = min(max(asked.largest, options.smallest), options.largest)
    sizes = [options.rounded_up(largest) if asked.stay_above else options.rounded(largest)]
    for k in range(1, _MOST_SIZES):
        raw = largest / factor**k
        if raw < options.smallest / sqrt(factor):
            break
        size = options.rounded(raw)
        if size < sizes[-1]:
            if asked.change(size, sizes[-1]) < max(options.shortest, 1):
                break  # all that are smaller would be shorter still
            sizes.append(size)
    return _in_whole_factors(largest, sizes, factor, options, asked.stay_above)[::-1]


def _in_whole_factors(
    largest: float, sizes: list[int], factor: float, options: StageOptions, stay_above: bool
) -> list[int]:
    """Return falling sizes of which each is a whole multiple of the next, where that moves them little.

    Trainers that grow a batch by whole factors only, or that change it only where the micro-batches so far are a
    multiple of the new accumulation, can then follow the plan exactly.
    """
    if factor % 1 or options.power_of_two:
        return sizes
    smallest_unit = options.multiple * int(factor) ** (len(sizes) - 1)
    units = ceil(largest / smallest_unit) if stay_above else round(largest / smallest_unit)
    top = min(units, options.largest // smallest_unit) * smallest_unit
    if top < options.smallest * factor ** (len(sizes) - 1) or abs(log(top / largest)) > _MOVED_AT_MOST:
        return sizes
    return [top // int(factor) ** k for k in range(len(sizes))]


def _aligned(
    starts: Sequence[int], sizes: Sequence[int], options: StageOptions, stay_above: bool
) -> list[int]:
    """Move each start to a whole step of the new size as well as of the old, where one is near.

    Up, so that no batch grows early; down where the batch must not be below the curve.
    """
    aligned = [0]
    stages = zip(pairwise([*starts[1:], options.total_tokens]), pairwise(sizes), strict=True)
    for (start, end), (old, new) in stages:
        both = lcm(old, new)
        moved = start // both * both if stay_above else -(-start // both) * both
        is_near = abs(moved - start) < max(new, _OFF_AT_MOST * start)
        leaves_room = (
            moved - aligned[-1] >= options.least_tokens(old)
            and end - moved >= options.least_tokens(new)
            and options.warmup_tokens < moved < options.stable_until
        )
        aligned.append(moved if is_near and leaves_room else start)
    return aligned


def _checked(options: StageOptions) -> list[int]:
    assert options.sizes is not None
    for size in options.sizes:
        if size % options.multiple or options.rounded(size) != size:
            near = options.nearest(size)
            if size % options.multiple:
                reason = f"is no multiple of {options.multiple:,} tokens"
            elif options.smallest <= size <= options.largest:
                reason = "is no power of two in sequences"
            else:
                reason = f"is not within {options.smallest:,} to {options.largest:,} tokens, what the options allow"
            raise BadInputError(
                f"--sizes: {size:,} {reason}. Allowed and nearest: {' or '.join(f'{other:,}' for other in near)}."
            )
    return sorted(set(options.sizes))


def _to_drop(
    starts: Sequence[int], sizes: Sequence[int], options: StageOptions, stay_above: bool
) -> int | None:
    """Return the number of a size that must go, or None."""
    if len(sizes) == 1:
        return None
    if starts[1] <= options.warmup_tokens:
        return 0
    if starts[-1] >= options.stable_until:
        return len(sizes) - 1
    ends = [*starts[1:], options.total_tokens]
    lengths = [end - start for start, end in zip(starts, ends, strict=True)]
    too_short = [
        i
        for i, (length, size) in enumerate(zip(lengths, sizes, strict=True))
        if length < options.least_tokens(size)
    ]
    if too_short == [len(sizes) - 1]:
        # without the size before it, the last one begins where that would have
        return len(sizes) - 2 if stay_above else len(sizes) - 1
    too_many = options.max_stages is not None and len(sizes) > options.max_stages
    if not (too_short or too_many):
        return None
    if options.sizes is None:
        return 0  # the smallest: the others keep their ratio, and a batch too large costs less than one too small
    return min(too_short or range(len(sizes)), key=lambda i: lengths[i])


def _warnings(curve: _Asked, given: Sequence[int], sizes: Sequence[int], options: StageOptions) -> list[str]:
    asked = curve.largest
    warnings = []
    if options.max_batch is not None and asked > 1.05 * options.max_batch:
        warnings.append(
            f"the policy asks for {short(asked)} tokens at the end of the stable phase; --max-batch holds it at "
            f"{short(sizes[-1])}."
        )
    if asked < options.smallest / 1.05:
        by_user = options.min_batch is not None and options.min_batch > asked
        reason = "--min-batch" if by_user else f"a multiple of {options.multiple:,} tokens"
        warnings.append(
            f"the policy asks for {short(asked)} tokens even when the stable phase ends, less than {reason} allows: "
            f"the plan is at {short(sizes[-1])} throughout."
        )
    if options.sizes is not None:
        for size in sorted(set(given) - set(sizes)):
            reached = curve.tokens(size)
            why = (
                f"the policy is only at {short(asked)} when the stable phase ends"
                if reached > options.stable_until
                else "its stage would be too short, or lie within the warmup"
                if options.max_stages is None
                else "its stage would be too short, lie within the warmup, or be one more than --max-stages"
            )
            warnings.append(f"--sizes: {size:,} tokens is not used: {why}.")
        if asked > 1.5 * sizes[-1]:
            warnings.append(
                f"--sizes: the policy asks for {short(asked)} tokens at the end of the stable phase, and the largest "
                f"size is {short(sizes[-1])}."
            )
    return warnings
