"""Text for people: names from files made fit for a terminal and for a JSON document, numbers with suffixes."""

from collections.abc import Sequence
from decimal import ROUND_HALF_EVEN, Context
from math import isfinite

_SUFFIXES = ("", "K", "M", "B", "T")


def printable(text: str) -> str:
    r"""Return text with control characters and what is no Unicode as escapes such as ``\x1b`` or ``\udcff``.

    A name in a log may hold anything; shown as it is, it could move the cursor or colour the terminal.
    """
    return "".join(
        char
        if char == " " or char.isprintable()
        else char.encode("unicode_escape", "backslashreplace").decode()
        for char in text
    )


def short(value: float, digits: int = 3, rounding: str = ROUND_HALF_EVEN) -> str:
    """Write a count of tokens or steps with a decimal suffix (1K = 1,000).

    Parameters
    ----------
    value : float
        Tokens or steps.
    digits : int
        Significant digits to keep.
    rounding : str
        A rounding mode of the `decimal` module.

    Returns
    -------
    str
        For example ``8.19K`` for 8192 and ``524K`` for 524288; powers of ten where no suffix fits.
    """
    if not isfinite(value) or value == 0.0:
        return f"{value:g}"
    # twelve digits: what a float holds beyond them is noise that must not decide a rounding up or down
    rounded = Context(prec=digits, rounding=rounding).create_decimal(f"{value:.12g}")
    exponent = rounded.adjusted()
    if exponent < -3 or exponent >= 3 * len(_SUFFIXES):
        return f"{rounded:.{digits - 1}e}"
    power = max(exponent // 3, 0)
    decimals = max(digits - 1 - (exponent - 3 * power), 0)
    return f"{rounded.scaleb(-3 * power):.{decimals}f}{_SUFFIXES[power]}"


def listed(texts: Sequence[str], at_most: int = 6) -> str:
    """Join texts by commas, and count those beyond the first few."""
    more = f" and {len(texts) - at_most} more" if len(texts) > at_most else ""
    return ", ".join(texts[:at_most]) + more
