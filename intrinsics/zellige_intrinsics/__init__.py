"""Hardware instructions as data: products, copies, synchronisation and mathematics, shared by the backends that have them.

In: nothing; the facts stand in one module a device family, and a vendor brings a family of its own (:func:`add_family`). Out:
:func:`find`, which says which instructions serve a request and why the others do not, and the specifications themselves
(:mod:`zellige_intrinsics.specification`). :func:`add`, :func:`remove` and :func:`changed` change the tables that backends choose from.
Importing this loads no family.
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from zellige_intrinsics.execution import Pointers, gather, run, scatter
    from zellige_intrinsics.homes import FAMILIES, add_family, families
    from zellige_intrinsics.lookup import Candidates, Request, all_intrinsics, family, find, intrinsic
    from zellige_intrinsics.rows import ProductRow
    from zellige_intrinsics.specification import (
        Completion,
        Copy,
        Function,
        Intrinsic,
        Operand,
        Product,
        Source,
        Synchronisation,
    )
    from zellige_intrinsics.tables import add, changed, product_refusals, product_rows, remove

_HOMES: Final = {
    "execution": ("Pointers", "gather", "run", "scatter"),
    "homes": ("FAMILIES", "add_family", "families"),
    "lookup": ("Candidates", "Request", "all_intrinsics", "family", "find", "intrinsic"),
    "rows": ("ProductRow",),
    "specification": ("Completion", "Copy", "Function", "Intrinsic", "Operand", "Product", "Source", "Synchronisation"),
    "tables": ("add", "changed", "product_refusals", "product_rows", "remove"),
}
"""The names of this package by the module they are from, loaded when one is asked for: a warm start reads rows only."""


def stamp(*families: str) -> str:
    """What the tables of these families differ by from those that the package has: empty where they do not, as before they are loaded."""
    tables = sys.modules.get(f"{__name__}.tables")
    return "" if tables is None else str(tables.stamp(*families))


def __getattr__(name: str) -> Any:
    home = next((module for module, names in _HOMES.items() if name in names), None)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{home}"), name)


__all__ = [
    "FAMILIES",
    "Candidates",
    "Completion",
    "Copy",
    "Function",
    "Intrinsic",
    "Operand",
    "Pointers",
    "Product",
    "ProductRow",
    "Request",
    "Source",
    "Synchronisation",
    "add",
    "add_family",
    "all_intrinsics",
    "changed",
    "families",
    "family",
    "find",
    "gather",
    "intrinsic",
    "product_refusals",
    "product_rows",
    "remove",
    "run",
    "scatter",
    "stamp",
]
