"""The tables of instructions as they are now: each family's own entries, without those that were taken out, with those that were added.

In: names and specifications. Out: :func:`product_rows`, which a planner reads, and :func:`stamp`, what keys of caches need. A change holds
for the whole process and every thread of it, from the next compilation on; kernels made before are not found again while it lasts.
"""

from __future__ import annotations

import hashlib
import importlib
import re
import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Final

from zellige.diagnostics import catalogue
from zellige.plugin.fields import shortened
from zellige_intrinsics.homes import PACKAGE, home_of, own_family
from zellige_intrinsics.rows import MATRIX_SPACE, CopyRow, Form, ProductRow, WaitRow

if TYPE_CHECKING:
    from zellige_intrinsics.specification import Copy, Intrinsic, Product

ROWS: Final = {"cpu_x86": "x86_rows", "cpu_arm": "arm_rows", "nvidia": "nvidia_rows"}
"""Modules of rows by family, for those whose products, copies and waits backends choose among. Of the others all products are rows, made
from their specifications, and no copy and no wait is: which of those an engine can stand in for, nobody has said."""

_ADDRESS: Final = re.compile(r" at 0x[0-9a-fA-F]+")
_lock: Final = threading.Lock()
_removed: Final[dict[str, frozenset[str]]] = {}
_added: Final[dict[str, tuple[Intrinsic, ...]]] = {}


def removed(family: str) -> frozenset[str]:
    """The names that were taken out of a family."""
    return _removed.get(family, frozenset())


def added(family: str) -> tuple[Intrinsic, ...]:
    """The specifications that were added to a family."""
    return _added.get(family, ())


def add(family: str, *values: Intrinsic) -> None:
    """Add instructions to a family. E330 for an unknown family, E331 for a name that it has already and for what is no specification."""
    _check_kinds((), values)
    known = {name for name in _names(family) if name not in removed(family)}
    for value in values:
        if value.name in known:
            raise catalogue.E331.error(name=value.name, reason=f"the family {family} has an instruction of that name")
        known.add(value.name)
    with _lock:
        _added[family] = (*added(family), *values)


def remove(family: str, *names: str) -> None:
    """Take instructions out of a family. E330 for an unknown name, E331 for what is none."""
    _check_kinds(names, ())
    known = _names(family)
    for name in names:
        if name not in known or name in removed(family):
            raise catalogue.E330.error(kind="intrinsic", name=name, known=", ".join(known))
    with _lock:
        own = {value.name for value in added(family)}
        _added[family] = tuple(value for value in added(family) if value.name not in names)
        _removed[family] = removed(family) | (frozenset(names) - own)


def restore(family: str) -> None:
    """The family as the package has it."""
    with _lock:
        _removed.pop(family, None)
        _added.pop(family, None)


@contextmanager
def changed(family: str, *, without: tuple[str, ...] = (), with_these: tuple[Intrinsic, ...] = ()) -> Iterator[None]:
    """The tables with a change, as they were after it. Raises as :func:`remove` and :func:`add`, and E331 for what is no specification."""
    _check_kinds(without, with_these)
    before = removed(family), added(family)
    try:
        remove(family, *without)
        add(family, *with_these)
        yield
    finally:
        with _lock:
            _removed[family], _added[family] = before


def _check_kinds(names: object, values: object) -> None:
    """E331 for a change that holds something else than names of instructions and their specifications."""
    from zellige_intrinsics.specification import Intrinsic

    for given, kind, what in ((names, str, "the name of an instruction"), (values, Intrinsic, "a specification of one")):
        if not isinstance(given, (tuple, list)):
            raise catalogue.E331.error(name="a change", reason=f"it is given {shortened(given)}, expected a tuple, each item {what}")
        for one in given:
            if not isinstance(one, kind):
                raise catalogue.E331.error(name="a change", reason=f"it holds {shortened(one)}, expected {what}")


def product_rows(family: str) -> tuple[ProductRow, ...]:
    """The products of a family as they are now, those with the most multiplications first. E330 for an unknown family."""
    own = [row for row in _own_rows(family) if row.name not in removed(family)]
    if added(family):
        from zellige_intrinsics.specification import Product

        own += [row_of(value) for value in added(family) if isinstance(value, Product)]
    return tuple(sorted(own, key=lambda row: -row.multiplications))


def copy_rows(family: str) -> tuple[CopyRow, ...]:
    """The copies of a family as they are now that a planner chooses among, in the order of the table, and those that were added. E330 for
    an unknown family."""
    own = [row for row in _own_copies(family) if row.name not in removed(family)]
    if added(family):
        from zellige_intrinsics.specification import Copy

        own += [copy_row_of(value) for value in added(family) if isinstance(value, Copy)]
    return tuple(own)


def copy_row_of(value: Copy) -> CopyRow:
    """The row that a specification of a copy stands for."""
    spaces = {operand.name: operand.space for operand in value.operands}
    return CopyRow(
        name=value.name, source=spaces["source"], destination=spaces["destination"], bytes_each=value.bytes_each, requires=value.requires,
        is_asynchronous=value.is_asynchronous,
    )  # fmt: skip


def taken_out(family: str) -> tuple[ProductRow, ...]:
    """The products that the family has by itself and that were taken out of it."""
    return tuple(row for row in _own_rows(family) if row.name in removed(family))


def product_refusals(family: str, a: str, b: str, words: Collection[str] = ()) -> tuple[tuple[str, str, str], ...]:
    """The products of elements of the types ``a`` and ``b`` that the family has and a device cannot use now: the name, why, and what
    would help ("" where nothing does). Those that were taken out of the table, and those that need words which the device, whose ``words``
    are given, does not have. For a backend's hook ``candidates``, by :func:`zellige.plan.products.offers`. E330 for an unknown family."""
    found = []
    gone = taken_out(family)
    for row in (*product_rows(family), *gone):
        if not any((left, right) == (a, b) for left, right, _ in row.types):
            continue
        missing = [word for word in row.requires if word not in words]
        if missing:
            found.append((row.name, f"needs {', '.join(missing)}", ""))
        elif row in gone:
            back = f"putting {row.name} back into the table of instructions"
            found.append((row.name, "it was taken out of the table of instructions", back))
    return tuple(found)


def copies_taken_out(family: str) -> tuple[CopyRow, ...]:
    """The same of copies."""
    return tuple(row for row in _own_copies(family) if row.name in removed(family))


def wait_rows(family: str) -> tuple[WaitRow, ...]:
    """What gathers copies in flight or waits for them, as the family's table is now. E330 for an unknown family."""
    return tuple(row for row in _own_waits(family) if row.name not in removed(family))


def waits_taken_out(family: str) -> tuple[WaitRow, ...]:
    """What the family has of that by itself and was taken out of it."""
    return tuple(row for row in _own_waits(family) if row.name in removed(family))


def row_of(value: Product) -> ProductRow:
    """The row that a specification of a product stands for."""
    operands = {operand.name: operand for operand in value.operands}
    types = tuple(
        (operands["a"].types[at % len(operands["a"].types)], operands["b"].types[at % len(operands["b"].types)],
         operands["c"].types[at % len(operands["c"].types)])
        for at in range(value.variants)
    )  # fmt: skip
    source = value.sources[0]
    return ProductRow(
        name=value.name, spelling=value.spelling, shape=(value.m, value.n, value.k), types=types, requires=value.requires,
        section=source.section, form=_form(value), evidence=source.evidence, adds=value.adds, is_exact=value.order == "exact",
        keeps_subnormals=value.keeps_subnormals, accumulator_bits=value.accumulator_bits, notes=value.notes,
    )  # fmt: skip


def _form(value: Product) -> Form:
    if value.lanes > 1:
        return "fragment"
    if value.operand("a").space == MATRIX_SPACE:
        return "matrix"
    return "broadcast" if value.m == 1 else "tile"


def stamp(*families: str) -> str:
    """What the tables of these families differ by from those that the package has: empty where they do not."""
    parts: list[str] = []
    for family in families:
        parts += [f"-{name}" for name in sorted(removed(family))]
        parts += [f"+{family} {_text(value)}" for value in added(family)]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest() if parts else ""


def _text(value: Intrinsic) -> str:
    return _ADDRESS.sub("", repr([(f.name, getattr(value, f.name)) for f in fields(value)]))


def _own_rows(family: str) -> tuple[ProductRow, ...]:
    found: tuple[ProductRow, ...] | None = _stated(family, "PRODUCTS")
    if found is not None:
        return found
    from zellige_intrinsics.specification import Product

    return tuple(row_of(value) for value in own_family(family) if isinstance(value, Product))


def _own_copies(family: str) -> tuple[CopyRow, ...]:
    found: tuple[CopyRow, ...] | None = _stated(family, "COPIES")
    return found or ()


def _own_waits(family: str) -> tuple[WaitRow, ...]:
    found: tuple[WaitRow, ...] | None = _stated(family, "WAITS")
    return found or ()


def _stated(family: str, kind: str) -> Any:
    """The rows of a kind that a family states; None for one that states no rows. E330 for an unknown family."""
    home_of(family)
    return getattr(importlib.import_module(f"{PACKAGE}.{ROWS[family]}"), kind) if family in ROWS else None


def _names(family: str) -> list[str]:
    """The names of a family's own entries and of those that were added."""
    return [*(value.name for value in own_family(family)), *(value.name for value in added(family))]
