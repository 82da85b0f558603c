"""What all tests share."""

import os
import sys
from pathlib import Path

import pytest
from hypothesis import settings

from ebfit.cli.main import main

# No deadline: how long an example takes says something about the machine, not about ebfit.
# CI draws the same examples every time: its verdict is about the change. Elsewhere the search goes on.
settings.register_profile("ebfit", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("ebfit")


@pytest.fixture
def ebfit(capsys, monkeypatch):
    """Run a command in this process, as in a terminal of 80 columns; returns (exit status, stdout, stderr)."""
    monkeypatch.setenv("COLUMNS", "80")

    def run(*arguments):
        with pytest.raises(SystemExit) as ended:
            main([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        return ended.value.code or 0, out, err

    return run


@pytest.fixture(scope="session")
def repository() -> Path:
    """The checkout that is being tested."""
    return Path(__file__).parent.parent


@pytest.fixture(autouse=True)
def _one_thread_for_torch() -> None:
    """Tests run side by side, and more threads each would only get in each other's way.

    torch is not imported for that: most tests do without it.
    """
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(1)
