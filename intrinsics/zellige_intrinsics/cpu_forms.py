"""The forms of instructions that CPUs share: products of a broadcast element (or group) with a vector, small matrix tiles, functions.

In: names and extents. Out: specifications. Operands are vector registers of one thread; a register number counts elements.
"""

from __future__ import annotations

from zellige.dtypes import dtype
from zellige.layouts import mixed
from zellige_intrinsics import meanings
from zellige_intrinsics.fragments import K, M, N, dense
from zellige_intrinsics.rows import MATRIX_SPACE, CopyRow, ProductRow
from zellige_intrinsics.specification import Copy, Function, Meaning, Operand, Product, Source


def product_of(row: ProductRow, manual: str) -> Product:
    """The specification of a row.

    "broadcast": c[n] += sum over k of a[k] b[k, n]: a group of a for all columns, b holds each column's group together. "tile": c of 2 x 2
    += a of 2 x k times b given as 2 columns of k, all row-major in one register. "matrix": a row-major, row g of b with the g-th group of
    k of each column; a group is as wide as an element of c.
    """
    m, n, k = row.shape
    a_types, b_types, c_types = (tuple(column) for column in zip(*row.types))
    if row.form == "tile":
        a = mixed({"register": [(k, {K: 1}), (m, {M: 1})]}, {M: m, K: k})
        b = mixed({"register": [(k, {K: 1}), (n, {N: 1})]}, {K: k, N: n})
        c = mixed({"register": [(n, {N: 1}), (m, {M: 1})]}, {M: m, N: n})
    elif row.form == "matrix":
        group = dtype(c_types[0]).bits // dtype(b_types[0]).bits
        a = mixed({"register": [(k, {K: 1}), (m, {M: 1})]}, {M: m, K: k})
        b = mixed({"register": [(group, {K: 1}), (n, {N: 1}), (k // group, {K: group})]}, {K: k, N: n})
        c = mixed({"register": [(n, {N: 1}), (m, {M: 1})]}, {M: m, N: n})
    else:
        a = mixed({"register": [(k, {K: 1})]}, {M: 1, K: k})
        b = mixed({"register": [(k, {K: 1}), (n, {N: 1})]}, {K: k, N: n})
        c = mixed({"register": [(n, {N: 1})]}, {M: 1, N: n})
    space = MATRIX_SPACE if row.form == "matrix" else "register"
    meaning = meanings.multiply_add
    if row.form == "matrix" and not row.is_exact:
        meaning = meanings.add_even_and_odd
    return Product(
        name=row.name,
        spelling=row.spelling,
        scope="thread",
        m=m,
        n=n,
        k=k,
        operands=(
            Operand(name="a", types=a_types, space=space, layout=a),
            Operand(name="b", types=b_types, space=space, layout=b),
            Operand(name="c", types=c_types, space=space, layout=c),
            Operand(name="d", types=c_types, space=space, layout=c, is_result=True),
        ),
        meaning=meaning,
        order="exact" if row.is_exact else "pairwise" if row.form == "matrix" else "one by one",
        keeps_subnormals=row.keeps_subnormals,
        requires=row.requires,
        sources=(Source(manual=manual, section=row.section, evidence=row.evidence),),
        adds=row.adds,
        notes=row.notes,
    )


def line_prefetch(row: CopyRow, source: Source) -> Copy:
    """A line asked for ahead: it changes no memory and nothing waits for it; a later load finds it nearer."""
    line = dense("byte", row.bytes_each)
    return Copy(
        name=row.name,
        spelling="llvm.prefetch",
        scope="thread",
        operands=(
            Operand(name="source", types=("uint8",), space=row.source, holder="memory", layout=line),
            Operand(name="destination", types=("uint8",), space=row.destination, holder="memory", layout=line, is_result=True),
        ),
        meaning=meanings.copy,
        bytes_each=row.bytes_each,
        requires=row.requires,
        sources=(source,),
        notes="the line that holds the address",
    )


def vector_function(
    name: str,
    spelling: str,
    function: str,
    width: int,
    meaning: Meaning,
    error: float,
    requires: tuple[str, ...],
    source: Source,
    *,
    others: tuple[str, ...] = (),
    keeps_subnormals: bool = True,
) -> Function:
    """A function of each element of a vector of float32; ``error`` is relative, 0 means exactly rounded."""
    layout = mixed({"register": [(width, {"element": 1})]}, {"element": width})
    return Function(
        name=name,
        spelling=spelling,
        scope="thread",
        operands=(
            *(Operand(name=operand, types=("float32",), space="register", layout=layout) for operand in ("x", *others)),
            Operand(name="result", types=("float32",), space="register", layout=layout, is_result=True),
        ),
        meaning=meaning,
        function=function,
        error=error,
        error_unit="relative" if error else "exact",
        keeps_subnormals=keeps_subnormals,
        requires=requires,
        sources=(source,),
    )
