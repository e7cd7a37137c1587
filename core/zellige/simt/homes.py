"""Where the elements of each buffer live on a machine with lanes, and the address of one.

In: a buffer of the tile IR and what was decided for it. Out: a home: the thread-level memory that holds it and, for indices, the element's
place there. Sub-byte elements stand two or more to a byte in global memory and one to a byte everywhere else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

from zellige.analysis.bounds import Scope
from zellige.analysis.forms import ZERO, Form
from zellige.ir.expr import INT32, INT64, Binary, Buffer, Cast, Const, Expr
from zellige.records import dataclass
from zellige.simt.distribution import Distribution, added, number, times

TENSOR_ALIGNMENT = 16
"""Bytes to which programs take tensor arguments to be aligned; a launch refuses others where it matters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Swizzle:
    """The element offset ``f`` is stored at ``f ^ (((f >> shift) & (2**bits - 1)) << base)``: groups of ``2**base`` elements change places
    within a row by what the row's number says."""

    base: int
    bits: int
    shift: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GlobalHome:
    """A tensor argument: ``memory`` of rank 1, strides in elements."""

    memory: Buffer
    extents: tuple[Expr, ...]
    strides: tuple[Expr, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedHome:
    """Shared memory: ``pitch`` are strides in elements, ``slots`` versions of ``slot_elements`` each. ``slab`` is how many columns stand
    together (0: all of them): the columns beyond begin ``slab_elements`` elements further on, each slab with rows of ``pitch``."""

    memory: Buffer
    extents: tuple[int, ...]
    pitch: tuple[int, ...]
    swizzle: Swizzle | None = None
    slots: int = 1
    slot_elements: int = 0
    slab: int = 0
    slab_elements: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterHome:
    """Spread over the block's registers: ``memory`` is this lane's part."""

    memory: Buffer
    extents: tuple[int, ...]
    distribution: Distribution


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneHome:
    """A copy in every lane, row-major."""

    memory: Buffer
    extents: tuple[int, ...]


Home: TypeAlias = GlobalHome | SharedHome | RegisterHome | LaneHome


def swizzled(flat: Expr, swizzle: Swizzle | None) -> Expr:
    """The place of an element offset (an int32 expression) in swizzled storage."""
    if swizzle is None or swizzle.bits == 0:
        return flat
    mask = (1 << swizzle.bits) - 1
    if isinstance(flat, Const):
        f = int(flat.value)
        return number(f ^ (((f >> swizzle.shift) & mask) << swizzle.base))
    row = Binary(op="bitand", left=Binary(op="shr", left=flat, right=number(swizzle.shift)), right=number(mask))
    return Binary(op="bitxor", left=flat, right=Binary(op="shl", left=row, right=number(swizzle.base)))


def choose_swizzle(
    extents: Sequence[int], element_bytes: int, *, banks: int, bank_bytes: int, chunk_bytes: int = 16
) -> tuple[tuple[int, ...], Swizzle | None]:
    """Strides and swizzle with which ``chunk_bytes`` of 8 successive rows lie in different banks, and of one row too.

    Rows of a power of two of chunks get an exclusive or of chunk and row; other rows get an odd number of chunks by padding (rows that
    are no whole number of chunks stay as they are).
    """
    rows = list(extents)
    pitch = dense_strides(rows)
    if len(rows) < 2:
        return tuple(pitch), None
    row_bytes = rows[-1] * element_bytes
    if row_bytes % chunk_bytes or element_bytes > chunk_bytes or chunk_bytes % element_bytes:
        return tuple(pitch), None
    chunks = row_bytes // chunk_bytes
    line = banks * bank_bytes // chunk_bytes
    base = (chunk_bytes // element_bytes).bit_length() - 1
    if chunks & (chunks - 1) == 0:
        if chunks == 1:
            return tuple(pitch), None
        reach = line.bit_length() - 1
        width = chunks.bit_length() - 1
        return tuple(pitch), Swizzle(base=base, bits=min(width, reach), shift=base + max(width, reach))
    if chunks % 2 == 0:
        wide = (chunks + 1) * chunk_bytes // element_bytes
        pitch[-2] = wide
        for d in range(len(rows) - 3, -1, -1):
            pitch[d] = pitch[d + 1] * rows[d + 1]
    return tuple(pitch), None


def dense_strides(extents: Sequence[int]) -> list[int]:
    """Strides of row-major storage without gaps, in elements."""
    strides = [1]
    for extent in reversed(extents[1:]):
        strides.append(strides[-1] * extent)
    return strides[::-1]


def dense_forms(scope: Scope, shape: Sequence[Expr]) -> tuple[Expr, ...]:
    """The same of extents that are expressions."""
    strides: list[Form] = [Form.of(1)]
    for extent in reversed(shape[1:]):
        strides.append(strides[-1] * scope.form(extent))
    return tuple(form.expression() for form in reversed(strides))[: len(shape)]


FARTHEST: Final = (1 << 31) - (1 << 16)
"""The most elements of a dimension of which boxes are copied, and where one may begin: what is added to that, rows of a tile and its
slabs, leaves int32 nowhere."""


def narrow(expr: Expr) -> Expr:
    """An index as int32."""
    if isinstance(expr, Const):
        return number(int(expr.value))
    if expr.dtype == INT32:
        return expr
    if isinstance(expr, Cast) and expr.dtype == INT64 and expr.value.dtype == INT32:
        return expr.value
    return Cast(value=expr, dtype=INT32)


def wide(expr: Expr) -> Expr:
    """An index as int64."""
    if isinstance(expr, Const):
        return Const(value=int(expr.value), dtype=INT64)
    return expr if expr.dtype == INT64 else Cast(value=expr, dtype=INT64)


def flat_form(scope: Scope, indices: Sequence[Expr], strides: Sequence[Expr | int]) -> Form:
    """The element offset of indices as a form."""
    total = ZERO
    for index, stride in zip(indices, strides):
        factor = Form.of(stride) if isinstance(stride, int) else scope.sum(stride)
        total = total + scope.place(index) * factor
    return total


def form_expression(form: Form, *, is_wide: bool) -> Expr:
    """A form as an expression of int64, or of int32 where every part of it is known to fit."""
    if is_wide:
        return form.expression()
    parts: list[Expr] = []
    for monomial, coefficient in form.terms.items():
        product: Expr | None = None
        for atom in monomial:
            value = narrow(atom)
            product = value if product is None else Binary(op="mul", left=product, right=value)
        parts.append(number(coefficient) if product is None else times(product, coefficient))
    return added(parts)


def fits_int32(scope: Scope, form: Form) -> bool:
    """Whether a non-negative offset is proven to be below 2**31."""
    return scope.is_nonnegative(Form.of((1 << 31) - 1) - form)
