"""Tests against released trainers; `make interop` installs those and runs these, the ordinary `pytest` does not.

A test here writes a plan with one of our exports, hands the text to the trainer's own parser, and walks the whole run
with the trainer's own code. Simulators of the same rules, which need nothing installed, are among the ordinary tests.
"""

import os

import pytest

os.environ["DO_NOT_TRACK"] = "true"  # MLflow would report its use, also of a test


def pytest_configure(config: pytest.Config) -> None:
    """What other people's packages warn of is theirs to mend: here a warning is not an error."""
    config.addinivalue_line("filterwarnings", "default")
