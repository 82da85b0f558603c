"""Comparing what a document shows with what a command really prints, and bringing the shown up to date."""

import math
import re
from collections.abc import Callable

ANY_LINES = "..."  # in a document: lines left out

# Shown numbers are rounded and interval ends come from a bootstrap, so another platform may print a number
# that differs in its last digit or by the tolerance of interval ends in tests/expected.py.
NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?")
NUMBER_TOLERANCE = 2e-2


def trimmed(text: str) -> list[str]:
    """Lines without trailing blanks, and without empty lines at the beginning and the end."""
    return "\n".join(line.rstrip() for line in text.splitlines()).strip("\n").splitlines()


def output_matches(shown: list[str], real: list[str]) -> bool:
    """Whether the real output is what is shown, where a shown line ``...`` stands for any number of lines."""
    return _aligned(shown, real, _same_line) is not None


def refreshed(shown: list[str], real: list[str]) -> list[str] | None:
    """What to show in place of ``shown``: the real lines, without those that ``...`` stands for.

    None where the lines around a ``...`` are no longer in the output, whatever their numbers: somebody has to
    choose anew what is worth showing.
    """
    if ANY_LINES not in shown:
        return real
    return _aligned(shown, real, lambda a, b: _words(a) == _words(b))


def _aligned(shown: list[str], real: list[str], same: Callable[[str, str], bool]) -> list[str] | None:
    """The real lines that stand for the shown ones, ``...`` kept; None where there are no such lines."""
    cut = shown.index(ANY_LINES) if ANY_LINES in shown else len(shown)
    head, rest = real[:cut], shown[cut + 1 :]
    if len(head) < cut or not all(map(same, shown[:cut], head)):
        return None
    if cut == len(shown):
        return head if len(real) == cut else None
    tails = (_aligned(rest, real[start:], same) for start in range(cut, len(real) + 1))
    if not rest:
        return [*head, ANY_LINES]
    return next(([*head, ANY_LINES, *tail] for tail in tails if tail is not None), None)


def _same_line(shown: str, real: str) -> bool:
    numbers = list(zip(NUMBER.findall(shown), NUMBER.findall(real), strict=False))
    return _words(shown) == _words(real) and all(_same_number(a, b) for a, b in numbers)


def _words(line: str) -> str:
    """Return a line with numbers masked and without padding, which depends on how long the numbers are."""
    return re.sub(r"─+", "─", "".join(NUMBER.sub("#", line).split()))


def _same_number(shown: str, real: str) -> bool:
    decimals = len(shown.partition("e")[0].partition(".")[2])
    last_digit = 10.0**-decimals if decimals else 0.0
    a, b = (float(number.replace(",", "")) for number in (shown, real))
    return math.isclose(a, b, rel_tol=NUMBER_TOLERANCE, abs_tol=1.001 * last_digit)
