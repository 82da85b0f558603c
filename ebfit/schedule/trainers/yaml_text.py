"""Reading YAML that a user wrote, whole or a fragment: nothing is executed, and errors name the line."""

from collections.abc import Mapping
from reprlib import repr as shortened
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


def find(document: Any, key: str) -> Any:
    """Return the value of a key, wherever in a nest of mappings it is, the outermost first; None if nowhere.

    Configurations are often given as a fragment, with or without the section that the key belongs to.
    """
    level: list[Any] = [document]
    seen: set[int] = set()
    while level:
        # an anchor may hold itself, or be named a million times by others: each mapping is looked at once
        mappings = [value for value in level if isinstance(value, Mapping) and id(value) not in seen]
        seen.update(map(id, mappings))
        found = next((mapping[key] for mapping in mappings if mapping.get(key) is not None), None)
        if found is not None:
            return found
        level = [value for mapping in mappings for value in mapping.values()]
    return None


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
        raise BadInputError(f"{key} is {_shown(value)}, no whole number that can be meant.")
    return int(value)


def _shown(value: Any) -> str:
    too_long_to_print = isinstance(value, int) and abs(value) >= _LARGEST
    return "more than 2^63" if too_long_to_print else shortened(value)
