"""Single files of trainers that cannot be installed beside the others: loaded alone, with their imports empty."""

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from unittest.mock import MagicMock

WITHOUT_DEPENDENCIES = Path(sys.prefix) / "without-dependencies"


def released_file(path: str, *empty: str) -> ModuleType:
    """Load a file of a wheel that `make interop` unpacked, such as ``maxtext/utils/rampup_batch.py``.

    Parameters
    ----------
    path : str
        In the wheel.
    *empty : str
        Modules that the file imports and what we test does not need.
    """
    spec = spec_from_file_location(Path(path).stem, WITHOUT_DEPENDENCIES / path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    # Not patch.dict, which afterwards also forgets numpy if the file was the first to import it: a second numpy in one
    # process ends in a segmentation fault.
    sys.modules.update({name: MagicMock() for name in empty})
    try:
        spec.loader.exec_module(module)
    finally:
        for name in empty:
            del sys.modules[name]
    return module
