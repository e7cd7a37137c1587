"""Hardware instructions as data: products, copies, synchronisation and mathematics, shared by the backends that have them.

In: nothing; the facts stand in one module a device family. Out: :func:`find`, which says which instructions serve a request and why the
others do not, and the specifications themselves (:mod:`zellige_intrinsics.specification`). Importing this loads no family.
"""

from zellige_intrinsics.execution import Pointers, gather, run, scatter
from zellige_intrinsics.lookup import FAMILIES, Candidates, Request, all_intrinsics, family, find, intrinsic
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
    "Request",
    "Source",
    "Synchronisation",
    "all_intrinsics",
    "family",
    "find",
    "gather",
    "intrinsic",
    "run",
    "scatter",
]
