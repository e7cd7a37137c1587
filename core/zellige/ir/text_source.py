"""Text that is parsed: spans of Python's syntax nodes in it, errors with a caret, and literals.

In: text and a file name. Out: :class:`TextSource`, through which the parsers of expressions and statements report.
"""

from __future__ import annotations

import ast
import io
import itertools
import linecache
from collections import deque
from typing import Any, Final

from zellige.diagnostics import Span, ZelligeError, catalogue
from zellige.dtypes import DType, UnknownDType, dtype

_serial = itertools.count(1)
_shown: Final[deque[str]] = deque()
_SHOWN_AT_MOST: Final = 256
"""Texts without a file whose lines error messages can still show; older ones are forgotten."""

LITERALS: Final[dict[str, tuple[type, ...]]] = {"str": (str,), "int": (int,), "bool": (bool,), "scalar": (bool, int, float, str)}
"""The Python types of each kind of literal."""


class TextSource:
    """One text. Without a file name it gets one of its own, under which error messages can show its lines."""

    def __init__(self, text: str, file: str | None) -> None:
        self.text = text
        self.file = file if file is not None else f"<tile-ir {next(_serial)}>"
        self._lines = io.StringIO(text, newline=None).readlines()  # lines as Python's parser counts them
        if file is None:
            linecache.cache[self.file] = (len(text), None, self._lines, self.file)
            _shown.append(self.file)
            if len(_shown) > _SHOWN_AT_MOST:
                linecache.cache.pop(_shown.popleft(), None)

    def span(self, node: Any) -> Span:
        """The place of a syntax node; columns are counted in characters, not in the bytes that ``ast`` counts."""
        return Span(
            self.file,
            node.lineno,
            self._column(node.lineno, node.col_offset),
            node.end_lineno,
            self._column(node.end_lineno, node.end_col_offset),
        )

    def _column(self, line: int, offset: int) -> int:
        text = self._lines[line - 1] if line <= len(self._lines) else ""
        return offset if text.isascii() else len(text.encode()[:offset].decode(errors="ignore"))

    def error(self, place: Any, reason: str) -> ZelligeError:
        """E260 at a syntax node or span, to be raised."""
        return catalogue.E260.error(place if isinstance(place, Span) else self.span(place), reason=reason)

    # ---- literals ----

    def literal(self, node: ast.expr) -> Any:
        """A bool, int, float, string, None, or tuple of these."""
        match node:
            case ast.Constant(value=bool() | int() | float() | str() | None):
                return node.value
            case ast.Name(id="nan" | "inf"):
                return float(node.id)
            case ast.UnaryOp(op=ast.USub(), operand=operand) if is_number(operand):
                return -self.literal(operand)
            case ast.Tuple():
                return tuple(self.literal(item) for item in node.elts)
            case _:
                raise self.error(node, "a literal is needed here")

    def typed(self, node: ast.expr, kind: str) -> Any:
        """A literal of one of :data:`LITERALS`, or a tuple of ints for ``ints``."""
        value = self.literal(node)
        if kind == "ints":
            fits = type(value) is tuple and all(type(item) is int for item in value)
        else:
            fits = type(value) in LITERALS[kind]
        if not fits:
            raise self.error(node, f"a literal of type {kind} is needed here")
        return value

    def dtype(self, node: ast.expr) -> DType:
        """An element type by its name."""
        if isinstance(node, ast.Name):
            try:
                found = dtype(node.id)
            except UnknownDType:
                pass
            else:
                if found.name == node.id:
                    return found
        raise self.error(node, "the name of an element type is needed here")

    def name(self, node: Any, what: str) -> str:
        """A plain name."""
        if isinstance(node, ast.Name):
            return node.id
        raise self.error(node, f"the name of {what} is needed here")

    def items(self, node: ast.expr) -> list[ast.expr]:
        """The items of a tuple."""
        if isinstance(node, ast.Tuple):
            return node.elts
        raise self.error(node, "a tuple is needed here, as in (128, 64) or (128,)")

    def call(self, node: Any, what: str) -> tuple[str, ast.Call]:
        """A call of a plain name: the name and the call."""
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            return node.func.id, node
        raise self.error(node, f"{what} is needed here")

    def keywords(self, call: ast.Call, *known: str) -> dict[str, ast.expr]:
        """The keyword arguments of a call; fails for one that is not known or is given twice."""
        found: dict[str, ast.expr] = {}
        for keyword in call.keywords:
            if keyword.arg is None or keyword.arg not in known:
                raise self.error(keyword.value, f"{keyword.arg or '**'} is not an argument here")
            if keyword.arg in found:
                raise self.error(keyword.value, f"{keyword.arg} is given twice")
            found[keyword.arg] = keyword.value
        return found

    def positional(self, call: ast.Call, least: int, most: int | None = None) -> list[ast.expr]:
        """The positional arguments of a call, between ``least`` and ``most`` (or exactly ``least``)."""
        most = least if most is None else most
        count = len(call.args)
        if not least <= count <= most:
            wanted = str(least) if least == most else f"{least} to {most}"
            raise self.error(call, f"{count} positional arguments where {wanted} are needed")
        for argument in call.args:
            if isinstance(argument, ast.Starred):
                raise self.error(argument, "* has no meaning here")
        return call.args


def is_number(node: ast.expr) -> bool:
    """Whether a syntax node is a number without a sign."""
    match node:
        case ast.Constant(value=value):
            return type(value) in (int, float)
        case ast.Name(id="nan" | "inf"):
            return True
        case _:
            return False
