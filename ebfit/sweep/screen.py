"""Output that is only for show: when its reader goes away, the work goes on."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from typing import Any, TextIO, cast


class _Screen:
    """A stream whose reader may go away, such as a terminal that is closed, or ``head``."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        try:
            return self._stream.write(text)
        except OSError:
            self._give_up()
            return len(text)

    def flush(self) -> None:
        try:
            self._stream.flush()
        except OSError:
            self._give_up()

    def _give_up(self) -> None:
        with suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), self._stream.fileno())


def for_show(stream: TextIO) -> TextIO:
    """Return the stream as one that never fails: what nobody reads is lost."""
    return cast(TextIO, _Screen(stream))


@contextmanager
def output_for_show() -> Iterator[None]:
    """Let stdout and stderr never fail until the block ends, for work whose product is in files."""
    with redirect_stdout(for_show(sys.stdout)), redirect_stderr(for_show(sys.stderr)):
        yield
