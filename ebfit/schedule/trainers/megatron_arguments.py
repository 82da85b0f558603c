"""The arguments of Megatron-LM, found in whatever people keep them in.

They are found by name, with ``-`` or ``_``, in shell scripts, argument lists, YAML and Python alike: what stands
between a name and its value differs, the names do not. Nothing is executed.
"""

import re
from collections.abc import Callable

from ebfit.errors import BadInputError
from ebfit.text import printable

_ASSIGNMENT = re.compile(
    r"""^[ \t]*(?:export[ \t]+|local[ \t]+|readonly[ \t]+)?(\w+)=("[^"\n]*"|'[^'\n]*'|[^\s"'()]+)[ \t;]*$""",
    re.MULTILINE,
)
_COMMENT = re.compile(r"(?:^|(?<=[\s;]))#[^\n]*", re.MULTILINE)
_SEPARATOR = r"""["']?[\s=:,\[(]*["']?"""
_INTEGER = r"[+-]?\d[\d_]{0,30}"
_UNQUOTED_PAIRS = re.compile(r"(?:[\d.+][\w.+]*:[\w.+]+[ \t,]*)+")
_VARIABLE = re.compile(r"\$(?:\{(\w+)\}|(\w+))")
_LONGEST_VALUE = 200  # of a variable; a number or a schedule is shorter
_ABSENT = re.compile(r"(?:none|null|false)\b|~", re.IGNORECASE)


class Arguments:
    """Arguments of Megatron-LM in a text, looked up by name.

    Parameters
    ----------
    text : str
        A shell script, an argument list, YAML or Python.

    Attributes
    ----------
    text : str
        The same without comments, ``$NAME`` replaced where a plain value is assigned to it; lines are where they were.
    """

    def __init__(self, text: str) -> None:
        bare = _COMMENT.sub("", text)
        self.text = _VARIABLE.sub(_lookup(_variables(bare)), bare).replace("\\\n", " \n").replace("\r", " ")

    def __contains__(self, name: str) -> bool:
        return self._value_at(name) is not None

    def line(self, name: str) -> int:
        """Return the line of an argument that is there."""
        match = self._last(name)
        assert match is not None
        return self.text.count("\n", 0, match.start()) + 1

    def integer(self, name: str) -> int | None:
        """Return the value of ``--name``; None where it is absent.

        Raises
        ------
        BadInputError
            If the value is no whole number, naming the line.
        """
        found = self.integers(name, 1)
        return None if found is None else found[0]

    def integers(self, name: str, count: int) -> list[int] | None:
        """Return the values of ``--name``; None where it is absent.

        Raises
        ------
        BadInputError
            If they are not ``count`` whole numbers, naming the line.
        """
        start = self._value_at(name)
        if start is None:
            return None
        between = r"""["']?[\s,]+(?:-[ \t]+)?["']?"""  # blanks, commas, or the dashes of a YAML list
        values = re.compile(rf"(?:-[ \t]+)?{between.join([f'({_INTEGER})'] * count)}(?![\w.])").match(
            self.text, start
        )
        if values is None:
            wanted = "a whole number" if count == 1 else f"{count} whole numbers"
            raise BadInputError(
                f"line {self.line(name)}: --{name} wants {wanted}, which {self._shown(start)} is not. "
                "Write plain digits: variables are followed only where the same file assigns a plain value."
            )
        return [int(value.replace("_", "")) for value in values.groups()]

    def pairs(self, name: str) -> str | None:
        """Return the value of ``--name`` that is a list of ``a:b``, as one string; None where it is absent."""
        start = self._value_at(name)
        if start is None:
            return None
        quote = self.text[start - 1] if self.text[start - 1] in "\"'" else ""
        if quote:
            return self.text[start:].partition(quote)[0]
        # not quoted, as in YAML or with commas: as many words as are pairs, or else the line, for what is wrong with it
        unquoted = _UNQUOTED_PAIRS.match(self.text, start)
        return unquoted[0] if unquoted else self.text[start:].split("\n", 1)[0]

    def _last(self, name: str) -> re.Match[str] | None:
        pattern = rf"(?<![\w-])(?:--)?{name.replace('-', '[-_]')}(?![\w-])"
        matches = list(re.finditer(pattern, self.text))
        return matches[-1] if matches else None  # as argparse, which takes the last

    def _value_at(self, name: str) -> int | None:
        """Return where the value of an argument begins; None where it is absent or given as None."""
        match = self._last(name)
        if match is None:
            return None
        separator = re.compile(_SEPARATOR).match(self.text, match.end())
        start = separator.end() if separator else match.end()
        return None if _ABSENT.match(self.text, start) else start

    def _shown(self, start: int) -> str:
        words = self.text[start : start + 40].split()
        return repr(printable(words[0])) if words else "nothing"


def _variables(text: str) -> dict[str, str]:
    """Return the plain values that variables of a shell script have, as far as one does not need to run it."""
    values = {
        name: value.strip("\"'") for name, value in _ASSIGNMENT.findall(text) if len(value) <= _LONGEST_VALUE
    }
    for _ in range(5):  # a value may name another variable; five deep is more than anybody has
        lookup = _lookup(values)
        values = {name: _VARIABLE.sub(lookup, value)[:_LONGEST_VALUE] for name, value in values.items()}
    return values


def _lookup(values: dict[str, str]) -> Callable[[re.Match[str]], str]:
    return lambda match: values.get(match[1] or match[2], match[0])
