"""What all tests share."""

import os
from pathlib import Path

import pytest
from hypothesis import settings

# No deadline: how long an example takes says something about the machine, not about ebfit.
# CI draws the same examples every time: its verdict is about the change. Elsewhere the search goes on.
settings.register_profile("ebfit", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("ebfit")


@pytest.fixture(scope="session")
def repository() -> Path:
    """The checkout that is being tested."""
    return Path(__file__).parent.parent
