"""A full disk, as nearly as a test can have one."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest


@contextmanager
def disk_full_after(size: int) -> Iterator[None]:
    """No file may grow beyond so many bytes, as on a disk that is full."""
    import resource

    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


needs_limits = pytest.mark.skipif(sys.platform == "win32", reason="Windows cannot limit the size of a file")
