"""Sizes on the command line: plain numbers, decimal suffixes K M B T, binary ones Ki Mi Gi."""

import re
from decimal import Decimal

from ebfit.errors import BadInputError

_MULTIPLES = {
    "": 1,
    "k": 10**3,
    "m": 10**6,
    "b": 10**9,
    "t": 10**12,
    "ki": 2**10,
    "mi": 2**20,
    "gi": 2**30,
}
_SIZE = re.compile(
    r"(\d{1,30}(?:_\d{1,30})*(?:\.\d{1,30})?(?:e\+?\d{1,2})?)\s*([a-z]{0,2})", re.IGNORECASE | re.ASCII
)


def parse_size(text: str) -> int:
    """Read a positive whole number such as ``65536``, ``512Ki``, ``1.5M`` or ``2T``.

    Raises
    ------
    BadInputError
        If the text is none, or the number is not whole.
    """
    match = _SIZE.fullmatch(text.strip())
    if match is None or match[2].lower() not in _MULTIPLES:
        raise BadInputError(
            f"'{text}' is not a size. Write a positive number, with K M B T for thousands, millions and so on, or "
            "Ki Mi Gi for powers of 1024: 65536, 64Ki, 1.5M."
        )
    size = Decimal(match[1].replace("_", "")) * _MULTIPLES[match[2].lower()]
    if size != size.to_integral_value() or size <= 0:
        raise BadInputError(f"'{text}' is {size:f}, not a positive whole number.")
    return int(size)
