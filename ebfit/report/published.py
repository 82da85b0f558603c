"""Exponents of batch size over tokens that others published, to stand beside those of a fit.

All of them are told by secondary sources; none was checked in its paper. They do not all mean the same batch size.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class PublishedExponent:
    """An exponent g of B ~ D^g; ``about`` where the source gives no third digit."""

    exponent: float
    of: str
    arxiv: tuple[str, ...]
    name: str = ""
    about: bool = False

    @property
    def number(self) -> str:
        """The exponent as its source writes it."""
        return f"about {self.exponent:.2f}" if self.about else f"{self.exponent:.3f}"


PUBLISHED = (
    PublishedExponent(0.383, "B_opt", ("2505.13738",)),
    PublishedExponent(0.47, "critical batch size", ("2410.21676", "2505.13738"), about=True),
    PublishedExponent(0.566, "batch size", ("2607.01487",)),
    PublishedExponent(0.571, "batch size", ("2503.04715",), name="Step Law"),
)
