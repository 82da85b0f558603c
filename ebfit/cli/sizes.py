"""Sizes on the command line: plain numbers, decimal suffixes K M B T, binary ones Ki Mi Gi."""

import re
from decimal import Decimal
from typing import TYPE_CHECKING

from ebfit.errors import BadInputError

if TYPE_CHECKING:
    from ebfit.sweep.grid import BatchRange

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
_RANGE = re.compile(r"(?P<first>.+?)\.\.(?P<last>[^:]+)(?::(?P<count>\d{1,6}))?")


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


def parse_batch_sizes(text: str | None) -> "tuple[int | BatchRange, ...]":
    """Read ``64,128`` and ``64..32Ki`` and ``64..32Ki:10``, and lists of these; nothing of None.

    Raises
    ------
    BadInputError
        If a part is no size.
    """
    from ebfit.sweep.grid import BatchRange

    sizes: list[int | BatchRange] = []
    for part in text.split(",") if text is not None else ():
        try:
            if (match := _RANGE.fullmatch(part.strip())) is None:
                sizes.append(parse_size(part))
            else:
                count = int(match["count"]) if match["count"] else None
                sizes.append(BatchRange(parse_size(match["first"]), parse_size(match["last"]), count))
        except BadInputError as error:
            raise BadInputError(f"--batch-sizes {text}: {error}") from None
    return tuple(sizes)
