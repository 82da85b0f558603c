"""The laws, one per file, and their registry. A new law is a new file and one entry here."""

from typing import cast

from ebfit.laws import classic, revised
from ebfit.laws.base import FloatArray, Law, ShapePrior

LAWS: dict[str, Law] = {law.name: cast(Law, law) for law in (revised, classic)}

__all__ = ["LAWS", "FloatArray", "Law", "ShapePrior", "classic", "revised"]
