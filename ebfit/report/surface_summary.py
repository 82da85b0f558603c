"""The sentence of `ebfit fit` about the surface: its five numbers, one line for every group that it was fitted to."""

from collections.abc import Iterator

from rich.text import Text

from ebfit.files import Fit, TargetRecord
from ebfit.report.order import targets_in_order
from ebfit.text import printable

_NUMBERS = ("l_0", "b", "beta", "c", "gamma")


def surface_lines(fit: Fit) -> list[Text]:
    """Write the surface of every group; nothing for fits of other laws."""
    return [Text(line) for line in dict.fromkeys(_lines(targets_in_order(fit)))]


def _lines(targets: list[TargetRecord]) -> Iterator[str]:
    for target in targets:
        numbers = {name: target.params.get(name) for name in _NUMBERS}
        if target.law != "surface" or None in numbers.values():
            continue
        group = f" of {printable(target.group)}" if target.group else ""
        floor, b, beta, c, gamma = (f"{numbers[name]:.3g}" for name in _NUMBERS)
        yield f"Surface{group}: L = {floor} + {b} B^-{beta} + {c} S^-{gamma}"
