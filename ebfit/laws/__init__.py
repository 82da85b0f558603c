"""The laws, one per file, and their registry. A new law is a new file and one entry here."""

from typing import cast

from ebfit.laws import classic, power, revised, surface
from ebfit.laws.base import FloatArray, Law, ShapePrior

LAWS: dict[str, Law] = {
    "revised": cast(Law, revised),
    "classic": cast(Law, classic),
    "surface": cast(Law, power),  # at one target; over all targets at once it is `ebfit.laws.surface`
}

# What the intervals of a law must also allow for: another law of the same numbers that may describe the data as well.
SECOND_OPINIONS: dict[str, Law] = {"revised": cast(Law, power)}

__all__ = [
    "LAWS",
    "SECOND_OPINIONS",
    "FloatArray",
    "Law",
    "ShapePrior",
    "classic",
    "power",
    "revised",
    "surface",
]
