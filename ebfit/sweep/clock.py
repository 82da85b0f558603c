"""Time spent on a run, and how fast it goes."""

import time
from dataclasses import dataclass, field


@dataclass
class Clock:
    """Time and tokens of training proper, and time in all."""

    seconds_before: float = 0.0
    started: float = field(default_factory=time.perf_counter)
    mark: float = field(default_factory=time.perf_counter)
    tokens: int = 0
    busy_seconds: float = 0.0

    def lap(self, tokens: int, *, counts: bool) -> float:
        """Close a stretch of training; return its tokens per second."""
        seconds = max(time.perf_counter() - self.mark, 1e-9)
        if counts:
            self.tokens += tokens
            self.busy_seconds += seconds
        return tokens / seconds

    def restart(self) -> None:
        """Begin a stretch of training after something else."""
        self.mark = time.perf_counter()

    @property
    def seconds(self) -> float:
        """Time since the run began, earlier sessions included."""
        return self.seconds_before + time.perf_counter() - self.started

    @property
    def tokens_per_second(self) -> float | None:
        """Tokens per second of the stretches that count; None before the first."""
        return self.tokens / self.busy_seconds if self.tokens else None
