"""Annotations that are text, as Python allows everywhere: ``n: "int32"``, ``A: "T.Tensor((8,), 'float32')"``.

In: an annotation as it stands in the source. Out: what it means without its quotes.
"""

from __future__ import annotations

import ast
from collections.abc import Callable

from zellige.dtypes import DType, UnknownDType, dtype as as_dtype


def read_text(text: str, place: ast.expr) -> DType | ast.expr | None:
    """The element type that a text names, else the expression that it is, which stands at ``place``; None where it is neither."""
    try:
        return as_dtype(text)
    except UnknownDType:
        pass
    try:
        expression = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError):
        return None
    for node in ast.walk(expression):
        ast.copy_location(node, place)
    return expression


def without_quotes(annotation: ast.expr, is_known: Callable[[str], bool]) -> DType | ast.expr | None:
    """What an annotation in a body says: an element type, an expression to evaluate, or nothing. Python evaluates none of them, so text
    about names that are not ``is_known`` is a remark, and a constant that is no text says nothing."""
    if not isinstance(annotation, ast.Constant):
        return annotation
    found = read_text(annotation.value, annotation) if isinstance(annotation.value, str) else None
    root = found
    while isinstance(root, (ast.Attribute, ast.Subscript, ast.Call)):
        root = root.func if isinstance(root, ast.Call) else root.value
    is_said = isinstance(found, DType) or (isinstance(root, ast.Name) and is_known(root.id))
    return found if is_said else None
