"""Reading numbers out of Python that a user wrote: it is parsed, never executed.

Understood are whole numbers, sums and products of them, names that were given one before, and the calls and dicts that
hold them: what configurations in Python are made of.
"""

import ast
import warnings
from collections.abc import Iterator

from ebfit.errors import BadInputError

_LARGEST = 2**63  # beyond this a number is no count of tokens, and a power can fill the memory


class PythonText:
    """A parsed Python file.

    Raises
    ------
    BadInputError
        If the text is no Python, naming the line.
    """

    def __init__(self, text: str) -> None:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of somebody else's strings, which are not ours to mend
                self.tree = ast.parse(text)
        except SyntaxError as error:
            raise BadInputError(f"line {error.lineno}: no Python ({error.msg}).") from None
        except (ValueError, RecursionError, MemoryError):
            raise BadInputError("no Python that can be read.") from None
        self._names = {
            target.id: node.value
            for node in ast.walk(self.tree)
            if isinstance(node, ast.Assign)
            for target in node.targets
            if isinstance(target, ast.Name)
        }

    def calls(self, function: str) -> Iterator[ast.Call]:
        """Return the calls of a function or class by its last name, such as WSD for optim.WSD(...)."""
        return (
            node
            for node in ast.walk(self.tree)
            if isinstance(node, ast.Call) and last_name(node.func) == function
        )

    def value_of(self, key: str) -> ast.expr | None:
        """Return what stands behind ``key=`` in a call, ``"key":`` in a dict or ``key =`` alone, or None."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.keyword) and node.arg == key:
                return node.value
            if isinstance(node, ast.Dict):
                for name, value in zip(node.keys, node.values, strict=True):
                    if isinstance(name, ast.Constant) and name.value == key:
                        return value
        return self._names.get(key)

    def number(self, node: ast.expr, depth: int = 0) -> int:
        """Return the whole number that an expression is.

        Raises
        ------
        BadInputError
            If it is none that can be worked out without running the file.
        """
        value = self._number(node, depth)
        if value is None or not float(value).is_integer():
            raise BadInputError(
                f"line {node.lineno}: {ast.unparse(node)[:60]} is no whole number that can be read without "
                "running the file; write the number itself."
            )
        return int(value)

    def items(self, node: ast.expr) -> list[ast.expr]:
        """Return the elements of a list or tuple, written out or named.

        Raises
        ------
        BadInputError
            If it is none.
        """
        if isinstance(node, ast.Name) and node.id in self._names:
            node = self._names[node.id]
        if not isinstance(node, ast.List | ast.Tuple):
            raise BadInputError(f"line {node.lineno}: {ast.unparse(node)[:60]} is no list written out.")
        return node.elts

    def _number(self, node: ast.expr, depth: int) -> int | float | None:
        if depth > 20:  # names that are defined by each other
            return None
        if isinstance(node, ast.Constant) and type(node.value) in (int, float):
            return node.value if abs(node.value) < _LARGEST else None  # type: ignore[return-value, arg-type]
        if isinstance(node, ast.Name) and node.id in self._names:
            return self._number(self._names[node.id], depth + 1)
        if isinstance(node, ast.Call) and last_name(node.func) == "int" and len(node.args) == 1:
            inside = self._number(node.args[0], depth + 1)
            return None if inside is None else int(inside)
        if isinstance(node, ast.BinOp):
            left, right = self._number(node.left, depth + 1), self._number(node.right, depth + 1)
            return None if left is None or right is None else _calculate(node.op, left, right)
        return None


def last_name(node: ast.expr) -> str:
    """Return ``c`` for ``c`` and for ``a.b.c``; nothing for other expressions."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _calculate(operator: ast.operator, left: int | float, right: int | float) -> int | float | None:
    try:
        match operator:
            case ast.Add():
                result = left + right
            case ast.Sub():
                result = left - right
            case ast.Mult():
                result = left * right
            case ast.FloorDiv():
                result = left // right
            case ast.Div():
                result = left / right
            case ast.Pow() if left >= 0 and 0 <= right < 64:
                result = left**right
            case _:
                return None
    except (ZeroDivisionError, OverflowError):
        return None
    return result if abs(result) < _LARGEST else None
