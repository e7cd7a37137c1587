"""Invariant 31, the part about what is no node: whole numbers, texts, tuples, element types, and yes or no.

In: a node, or the kind of a loop, and the :class:`Context`. Out: whether all such fields of it hold what they say, and a diagnostic for
each that does not. The text form, keys of the cache and the planner take these fields for what they are said to be: True and 2.0 are no
whole numbers, and one of NumPy's is none, since it is written otherwise. A list is no tuple: what walks over a program would take it for
a node, and it can be changed later. The name of an element type is equal to it, and has nothing else that it has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, Final

from zellige.diagnostics import Span
from zellige.dtypes import DType
from zellige.ir.verifier.context import Context


def is_whole_number(value: object) -> bool:
    """Whether a value is a number in fields of integers: an int and nothing that is derived from it."""
    return type(value) is int


def _are_whole_numbers(value: object) -> bool:
    return isinstance(value, tuple) and all(map(is_whole_number, value))


_SORTS: Final[dict[str, tuple[Callable[[object], bool], str]]] = {
    "int": (is_whole_number, "a whole number"),
    "tuple[int, ...]": (_are_whole_numbers, "a tuple of whole numbers"),
    "bool": (lambda value: isinstance(value, bool), "True or False"),
    "str": (lambda value: isinstance(value, str), "a text"),
    "DType": (lambda value: isinstance(value, DType), "an element type"),
}
"""By a field's type whether a value belongs there, and what does."""

_TUPLE: Final = (lambda value: isinstance(value, tuple), "a tuple")
"""That of fields that hold several nodes, which other rules look into."""


@lru_cache(maxsize=256)
def _plain(owner: type) -> tuple[tuple[str, bool, Callable[[object], bool], str], ...]:
    """The fields of a class that :data:`_SORTS` is about: name, whether None is one of its values, test, and what belongs there."""
    fields: dict[str, Any] = getattr(owner, "__dataclass_fields__", {})
    typed = [(name, str(field.type).removesuffix(" | None"), str(field.type).endswith(" | None")) for name, field in fields.items()]
    sorts = [(name, may_be_none, _SORTS.get(sort, _TUPLE if sort.startswith("tuple[") else None)) for name, sort, may_be_none in typed]
    return tuple((name, may_be_none, *sort) for name, may_be_none, sort in sorts if sort is not None)


def wrong_values(node: Any, what: str) -> Iterator[str]:
    """What is wrong with the plain fields of ``node``, which is called ``what``."""
    for name, may_be_none, is_one, wanted in _plain(node.__class__):
        value = getattr(node, name)
        if not (is_one(value) or (may_be_none and value is None)):
            given = f"a {type(value).__name__}" if wanted == _TUPLE[1] else repr(value)  # which may be a whole program
            yield f"{name} of {what} is {given}, not {wanted}"


def has_right_values(context: Context, node: object, what: str, span: Span | None) -> bool:
    """Whether the plain fields of ``node``, which is called ``what``, hold what their types say."""
    found = list(wrong_values(node, what))
    for wrong in found:
        context.report(31, span, wrong)
    return not found
