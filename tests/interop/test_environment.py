"""Is what `make interop` promises to test against there, in the versions that docs/trainers.md names?"""

from importlib.metadata import version
from pathlib import Path

import pytest
from packaging.version import Version

REPOSITORY = Path(__file__).parent.parent.parent


@pytest.mark.parametrize(
    "package", ["ai2-olmo-core", "lightning", "transformers", "accelerate", "mlflow-skinny"]
)
def test_the_pinned_release_is_installed(package: str):
    pins = (REPOSITORY / "constraints-interop.txt").read_text().splitlines()
    assert f"{package}=={Version(version(package)).public}" in pins
