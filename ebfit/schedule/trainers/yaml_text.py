"""Reading YAML that a user wrote, whole or a fragment: nothing is executed, and errors name the line."""

from collections.abc import Mapping
from typing import Any

import yaml

from ebfit.errors import BadInputError


def read_yaml(text: str) -> Any:
    """Return what a YAML document holds.

    Raises
    ------
    BadInputError
        If it is none.
    """
    try:
        return yaml.safe_load(text)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = "" if mark is None else f"line {mark.line + 1}: "
        raise BadInputError(f"{place}no YAML document ({error.problem or error.context}).") from None
    except (yaml.YAMLError, ValueError, RecursionError):
        raise BadInputError("no YAML document that can be read.") from None


_LARGEST = 2**63  # a count of tokens beyond this is a slip of the pen
_DEEPEST = 10  # levels of mappings: an anchor that holds itself has no end


def find(document: Any, key: str, depth: int = 0) -> Any:
    """Return the value of a key, wherever in a nest of mappings it is; None if nowhere.

    Configurations are often given as a fragment, with or without the section that the key belongs to.
    """
    if not isinstance(document, Mapping) or depth == _DEEPEST:
        return None
    if key in document:
        return document[key]
    inside = (find(value, key, depth + 1) for value in document.values())
    return next((found for found in inside if found is not None), None)


def whole_number(document: Any, key: str) -> int:
    """Return the value of a key that must be there and be a whole number; 8.0 is one.

    Raises
    ------
    BadInputError
        If it is not.
    """
    value = find(document, key)
    if value is None:
        raise BadInputError(f"there is no {key}.")
    if isinstance(value, bool) or not isinstance(value, int | float) or value % 1 or abs(value) >= _LARGEST:
        raise BadInputError(f"{key} is {str(value)[:40]!r}, no whole number that can be meant.")
    return int(value)
