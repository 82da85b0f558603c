"""Single files of trainers that cannot be installed beside the others: loaded alone, with their imports empty."""

import ast
import builtins
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any
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


class _Surroundings(dict[str, Any]):
    """The globals of a function taken out of its file: what was not given is a mock."""

    def __missing__(self, name: str) -> MagicMock:
        return self.setdefault(name, MagicMock())


def released_piece(path: Path, name: str, **given: Any) -> Any:
    """Take a function or a class out of a released file whose imports we do not have.

    Parameters
    ----------
    path : Path
        The file.
    name : str
        Of the function or class, at the top of the file.
    **given
        Globals that it uses and that matter; all others are mocks.
    """
    tree = ast.parse(path.read_text())
    piece = next(
        node for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == name
    )
    piece.decorator_list = []
    surroundings = _Surroundings({**vars(builtins), "__name__": path.stem, **given})
    future = ast.parse("from __future__ import annotations").body  # annotations name what is not there
    exec(compile(ast.Module([*future, piece], []), str(path), "exec"), surroundings)
    return surroundings[name]
