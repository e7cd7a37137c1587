"""What a backend writes its own operations of the language with.

In: tiles, values and attributes as a kernel's author passes them to ``T.<name>``. Out: a statement of the tile IR that only that backend
has a meaning for. A backend's hook ``dialect`` answers with functions that call :func:`operation`::

    def acme_dma(source, destination):
        operation("acme.dma", reads=(source,), writes=(destination,))

A name that only wishes for something and changes no result is written with :func:`wish`; kernels for any target may hold it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from zellige.diagnostics import ZelligeError
from zellige.dtypes import DType
from zellige.frontend import arithmetic
from zellige.frontend.builder import current_builder
from zellige.frontend.regions import region_of
from zellige.frontend.values import Scalar
from zellige.ir.stmt import Dialect
from zellige.language.keywords import count_of
from zellige.language.tensors import element_type
from zellige.plugin.dialect import WrongOperation
from zellige.plugin.fields import is_line, is_text, shortened
from zellige.plugin.limits import LARGEST, LONGEST_LINE
from zellige.plugin.registry import registry


def wish(spelling: str, **counts: Any) -> None:
    """What ``T.<name>``, a wish that no target has to follow, does: it stands in a kernel and adds nothing to it.

    ``spelling`` is the name as authors write it, ``counts`` are its arguments that are numbers. E101 outside of a kernel; E245: no
    positive Python int.
    """
    _require_line("a wish", spelling)
    current_builder(spelling).require_body(spelling)
    for name, number in counts.items():
        count_of(number, f"as {name}")


def operation(
    name: str,
    *,
    reads: Sequence[Any] = (),
    writes: Sequence[Any] = (),
    values: Sequence[Any] = (),
    attributes: Mapping[str, bool | int | float | str] | None = None,
    result: DType | str | None = None,
) -> Scalar | None:
    """Adds the operation ``name`` ("backend.operation") to the kernel being traced. ``reads`` and ``writes`` are tiles or parts of them,
    ``values`` scalars. With ``result``, the dtype of a value that it gives, that value is returned.

    E101, E102 outside of a kernel; E222 for what is no tile; :class:`WrongOperation` for a name or attributes that cannot be written down.
    """
    _require_line("an operation", name)
    if "." not in name.strip("."):
        raise WrongOperation(f"an operation is called {shortened(name)}, expected the backend's name, a dot and a word")
    pairs = _checked(name, attributes)
    word = name.rpartition(".")[2]
    add = partial(_added, name, tuple(reads), tuple(writes), tuple(values), pairs, result)
    try:
        return add(f"T.{word}")
    except ZelligeError:
        spelling = _spelling(name, word)
        if spelling == word:
            raise
        return add(f"T.{spelling}")  # says the same by the name that kernels have for it


def _added(
    name: str,
    reads: tuple[Any, ...],
    writes: tuple[Any, ...],
    values: tuple[Any, ...],
    pairs: tuple[tuple[str, bool | int | float | str], ...],
    result: DType | str | None,
    spelling: str,
) -> Scalar | None:
    builder = current_builder(spelling)
    builder.require_body(spelling)
    var = None if result is None else builder.var(builder.name_for("result"), element_type(result), "value")
    builder.emit(
        Dialect(
            op=name,
            inputs=tuple(region_of(tile, spelling) for tile in reads),
            outputs=tuple(region_of(tile, spelling) for tile in writes),
            operands=tuple(arithmetic.as_expr(value, builder.span) for value in values),
            attributes=pairs,
            result=var,
            span=builder.span,
        )
    )
    return None if var is None else Scalar(var)


def _spelling(name: str, word: str) -> str:
    """How kernels write the operation ``name``: by its ``word``, or with the name of its backend in front, as names of strangers begin."""
    whole = name.replace(".", "_")
    return whole if registry().dialect_targets(whole) and not registry().dialect_targets(word) else word


def _require_line(what: str, name: object) -> None:
    if type(name) is not str or not is_line(name):
        raise WrongOperation(f"{what} is called {shortened(name)}, expected a line of text")


def _checked(operation_name: str, attributes: object) -> tuple[tuple[str, bool | int | float | str], ...]:
    """Attributes in order, each of a kind that the text form has."""
    if attributes is None:
        return ()
    if not isinstance(attributes, Mapping):
        raise WrongOperation(f"the attributes of {operation_name} are {shortened(attributes)}, expected a mapping of names to values")
    pairs: list[tuple[str, bool | int | float | str]] = []
    for key, value in attributes.items():
        _require_line(f"an attribute of {operation_name}", key)
        expected = ""
        if type(value) not in (bool, int, float, str):
            expected = "a bool, an int, a float or a text"
        elif isinstance(value, str) and (len(value) > LONGEST_LINE or not is_text(value)):
            expected = f"a text of at most {LONGEST_LINE} characters"
        elif type(value) is int and not abs(value) < LARGEST:
            expected = "a number of 64 bits"
        if expected:
            raise WrongOperation(f"the attribute {key} of {operation_name} is {shortened(value)}, expected {expected}")
        pairs.append((key, value))
    return tuple(pairs)
