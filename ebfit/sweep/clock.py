"""Time spent on a run, and how fast it goes."""

import time
from collections.abc import Iterator
from contextlib import contextmanager


class Clock:
    """Time in all, and the speed of training proper: without what happens while the clock is paused.

    Attributes
    ----------
    seconds_before : float
        Time spent in earlier sessions.
    """

    def __init__(self) -> None:
        self.seconds_before = 0.0
        self._started = time.perf_counter()
        self._tokens = 0
        self._busy_seconds = 0.0
        self.start_lap()

    def start_lap(self) -> None:
        """Begin a stretch of training."""
        self._lap_started = time.perf_counter()
        self._paused_seconds = 0.0

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Leave out what is done meanwhile, such as validation."""
        started = time.perf_counter()
        yield
        self._paused_seconds += time.perf_counter() - started

    @property
    def lap_seconds(self) -> float:
        """Time since the lap began, without pauses."""
        return time.perf_counter() - self._lap_started - self._paused_seconds

    def lap(self, tokens: int, *, counts: bool) -> float:
        """Close a stretch of training and begin the next; return its tokens per second.

        Parameters
        ----------
        tokens : int
            Trained on in this stretch.
        counts : bool
            Whether it goes into `tokens_per_second`.
        """
        seconds = max(self.lap_seconds, 1e-9)
        if counts:
            self._tokens += tokens
            self._busy_seconds += seconds
        self.start_lap()
        return tokens / seconds

    @property
    def seconds(self) -> float:
        """Time since the run began, earlier sessions and pauses included."""
        return self.seconds_before + time.perf_counter() - self._started

    @property
    def tokens_per_second(self) -> float | None:
        """Tokens per second of the stretches that count; None before the first."""
        return self._tokens / self._busy_seconds if self._tokens else None
