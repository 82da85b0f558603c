"""What the stages of a plan must look like: limits, multiples, and the sizes to choose from."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, lcm, log2

from ebfit.batch_plan import LARGEST
from ebfit.errors import BadInputError

_DEFAULT_SHORTEST = 100  # a stage takes at least this part of all tokens


@dataclass(frozen=True)
class StageOptions:
    """What stages must look like; sizes and stretches in tokens.

    Attributes
    ----------
    total_tokens, seq_len : int
    warmup_tokens, decay_tokens : int
        The batch stays put during both.
    batch_multiple : int or None
        Batch sizes are multiples of it.
    micro_batch, data_parallel : int or None
        Batch sizes are multiples of their product, in sequences.
    min_batch, max_batch : int or None
    step_factor : float or None
        From one size to the next; 2 by default.
    sizes : sequence of int or None
        The sizes to use, in place of a factor.
    max_stages : int or None
    min_stage_tokens : int or None
        A hundredth of all tokens by default.
    power_of_two : bool
        Batch sizes are powers of two, in sequences.
    """

    total_tokens: int
    seq_len: int
    warmup_tokens: int = 0
    decay_tokens: int = 0
    batch_multiple: int | None = None
    micro_batch: int | None = None
    data_parallel: int | None = None
    min_batch: int | None = None
    max_batch: int | None = None
    step_factor: float | None = None
    sizes: Sequence[int] | None = None
    max_stages: int | None = None
    min_stage_tokens: int | None = None
    power_of_two: bool = False

    def __post_init__(self) -> None:
        for name in ("total_tokens", "seq_len"):
            if getattr(self, name) < 1:
                raise BadInputError(f"{_option(name)} must be positive.")
            if getattr(self, name) > LARGEST:
                raise BadInputError(f"{_option(name)} is above 2^63, more than any trainer counts to.")
        if self.step_factor is not None and not 1.01 <= self.step_factor <= 1000.0:
            raise BadInputError(
                f"--step-factor {self.step_factor:g}: give a ratio of sizes from 1.01 to 1000."
            )
        if self.sizes is not None and self.step_factor is not None:
            raise BadInputError("--sizes and --step-factor both say which sizes to use. Give one of them.")
        if self.max_stages is not None and self.max_stages < 1:
            raise BadInputError(f"--max-stages {self.max_stages}: give 1 or more.")
        if self.warmup_tokens + self.decay_tokens >= self.total_tokens:
            raise BadInputError(
                f"a warmup of {self.warmup_tokens:,} and a decay of {self.decay_tokens:,} tokens leave no stable phase "
                f"in {self.total_tokens:,} tokens. Make them shorter."
            )
        if self.power_of_two and self.multiple_sequences & (self.multiple_sequences - 1):
            raise BadInputError(
                f"batch sizes must be multiples of {self.multiple_sequences} sequences, and no power of two is. Leave "
                "out --round-to-power-of-two."
            )
        if self.smallest > self.largest:
            raise BadInputError(self._no_room())

    @property
    def multiple(self) -> int:
        """What all batch sizes are multiples of, tokens."""
        at_once = (self.micro_batch or 1) * (self.data_parallel or 1) * self.seq_len
        return lcm(at_once, self.batch_multiple or 1)

    @property
    def multiple_sequences(self) -> int:
        """The same in sequences."""
        return self.multiple // self.seq_len

    @property
    def smallest(self) -> int:
        """The smallest batch size that is allowed, tokens."""
        smallest = -(-(self.min_batch or 1) // self.multiple) * self.multiple
        return self._power(smallest, up=True) if self.power_of_two else smallest

    @property
    def largest(self) -> int:
        """The largest batch size that is allowed, tokens."""
        largest = min(self.max_batch or self.total_tokens, self.total_tokens) // self.multiple * self.multiple
        return self._power(largest, up=False) if self.power_of_two and largest else largest

    @property
    def stable_until(self) -> int:
        """Where the decay begins, tokens."""
        return self.total_tokens - self.decay_tokens

    @property
    def shortest(self) -> int:
        """The least tokens of a stage."""
        default = self.total_tokens // _DEFAULT_SHORTEST
        return default if self.min_stage_tokens is None else self.min_stage_tokens

    def rounded(self, batch: float) -> int:
        """Return the nearest batch size that is allowed."""
        if self.power_of_two:
            nearest = 2 ** round(log2(max(batch / self.seq_len, 1.0))) * self.seq_len
        else:
            nearest = round(batch / self.multiple) * self.multiple
        return min(max(nearest, self.smallest), self.largest)

    def rounded_up(self, batch: float) -> int:
        """Return the least batch size that is allowed and not below ``batch``; the largest of all if none is."""
        above = ceil(batch / self.multiple) * self.multiple
        return min(
            max(self._power(above, up=True) if self.power_of_two else above, self.smallest), self.largest
        )

    def rounded_down(self, batch: int) -> int:
        """Return the largest batch size that is allowed and not above ``batch``; the smallest of all if none is."""
        below = batch // self.multiple * self.multiple
        if self.power_of_two and below:
            below = self._power(below, up=False)
        return min(max(below, self.smallest), self.largest)

    def least_tokens(self, batch: int) -> int:
        """Return the fewest tokens that a stage of a batch size may take."""
        # its start moves up to a whole step of the stage before, which may eat a part of it
        return max(self.shortest, 2 * batch)

    def _power(self, batch: int, up: bool) -> int:
        power = (batch // self.seq_len).bit_length() - 1
        if up and (1 << power) * self.seq_len < batch:
            power += 1
        return (1 << power) * self.seq_len

    def _no_room(self) -> str:
        if self.max_batch is not None and self.min_batch is not None and self.max_batch < self.min_batch:
            return f"--max-batch {self.max_batch:,} is less than --min-batch {self.min_batch:,}."
        if self.total_tokens < self.multiple:
            return (
                f"--total-tokens {self.total_tokens:,} is less than one batch: sizes are multiples of "
                f"{self.multiple:,} tokens here."
            )
        limit = (
            f"--max-batch {self.max_batch:,}" if self.max_batch else f"--total-tokens {self.total_tokens:,}"
        )
        reasons = [f"--seq-len {self.seq_len:,}"]
        if self.micro_batch or self.data_parallel:
            reasons.append(
                f"--micro-batch {self.micro_batch or 1} x --data-parallel {self.data_parallel or 1}"
            )
        if self.batch_multiple:
            reasons.append(f"--batch-multiple {self.batch_multiple:,}")
        if self.power_of_two:
            reasons.append("powers of two in sequences")
        least = f", and not below --min-batch {self.min_batch:,}" if self.min_batch else ""
        return (
            f"no batch size is possible: sizes are multiples of {self.multiple:,} tokens ({', '.join(reasons)})"
            f"{least}; {limit} is too small."
        )

    def nearest(self, batch: int) -> list[int]:
        """Return the allowed sizes next to one that is not: below and above it, or the one at the end of the range."""
        below, above = self.rounded_down(batch), self.rounded_up(batch)
        return sorted({below, above})


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")
