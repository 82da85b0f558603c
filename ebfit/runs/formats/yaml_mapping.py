"""What a small YAML file beside a log says, such as the hyperparameters of a run."""

from pathlib import Path
from typing import Any

import yaml

# Parsing a megabyte takes ten seconds, and some numbers in it minutes.
_MAX_BYTES = 128 * 2**10


def read_mapping(path: Path) -> dict[str, Any]:
    """Read a mapping at the top of a YAML file.

    Returns
    -------
    dict
        Empty where there is no such file, or none that says anything: it is a help, and no log is refused for it.
    """
    try:
        if not path.is_file() or path.stat().st_size > _MAX_BYTES:
            return {}
        document = yaml.safe_load(path.read_bytes())
    except (OSError, yaml.YAMLError, ValueError, RecursionError):
        return {}
    return {str(key): value for key, value in document.items()} if isinstance(document, dict) else {}
