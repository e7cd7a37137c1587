"""Memory by words of 32 bits, whatever the element type: T.ldg32 and its relatives. A target makes one wide access of adjacent words.

In: a start element or a slice, and uint32 words. Out: loads and stores of the elements that hold those bits, the first element in the
lowest bits; each access is checked against the tensor's shape as any other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from zellige.diagnostics import catalogue
from zellige.dtypes import DType, dtype as as_dtype
from zellige.frontend import arithmetic
from zellige.frontend.builder import current_builder
from zellige.frontend.regions import adjacent, constant_extents, place_of, positions, region_of
from zellige.frontend.values import Element, Scalar, Tile, TileRegion, here
from zellige.frontend.vectors import Vector, lanes_of
from zellige.ir.expr import INT32, Buffer, Expr, Load, Reinterpret, const
from zellige.ir.stmt import If, Store

_WORD: Final = as_dtype("uint32")


def _unsigned(bits: int) -> DType:
    return as_dtype(f"uint{bits}")


def _as_bits(value: Expr) -> Expr:
    """The bits of a value as an unsigned integer of its width. E204 for types that share a byte or leave bits unused."""
    width = value.dtype.storage_bits
    if width < 8 or value.dtype.bits == 6 or value.dtype.kind == "handle":
        raise catalogue.E204.error(here(), operation="access by words", dtype=value.dtype)
    target = _unsigned(width)
    if value.dtype.is_bool or value.dtype.kind == "uint":
        return arithmetic.cast(value, target, here())
    return Reinterpret(value=value, dtype=target, span=here())


def repacked(values: list[Expr], target: DType) -> list[Expr]:
    """The bits of values of one dtype, one after the other with the first lowest, as values of ``target``."""
    old, new = values[0].dtype.storage_bits, target.storage_bits
    if values[0].dtype == target:
        return values
    bits = [_as_bits(v) for v in values]
    word = _unsigned(new)
    if new >= old:
        step = new // old
        wide = [arithmetic.cast(b, word, here()) for b in bits]
        groups = []
        for start in range(0, len(wide), step):
            total = wide[start]
            for position in range(1, step):
                shifted = arithmetic.binary("shl", wide[start + position], const(position * old, word), here())
                total = arithmetic.binary("bitor", total, shifted, here())
            groups.append(total)
    else:
        groups = [
            arithmetic.cast(arithmetic.binary("shr", b, const(position * new, b.dtype), here()), word, here())
            for b in bits
            for position in range(old // new)
        ]
    if target == word:
        return groups
    if target.is_bool:
        return [arithmetic.cast(g, target, here()) for g in groups]
    return [Reinterpret(value=g, dtype=target, span=here()) for g in groups]


def _elements(place: Any, words: int, operation: str) -> tuple[Buffer, list[tuple[Expr, ...]]]:
    """The elements that hold ``words`` words from a start point on, or those of a slice of that many bits. E258 otherwise."""
    place = place_of(place)
    if isinstance(place, Tile):
        place = Element(Load(buffer=place.node, indices=(const(0, INT32),) * place.ndim, span=here()))
    region = region_of(place, operation)
    width = region.buffer.dtype.storage_bits
    count = 32 * words // width
    if isinstance(place, Element):
        region = adjacent(place, count)
    sizes = constant_extents(region)
    found = positions(region, sizes, here()) if sizes is not None else []
    if len(found) * width != 32 * words:
        wanted = f"a start element or a slice of {32 * words} bits"
        raise catalogue.E258.error(here(), operation=operation, wanted=wanted, given=arithmetic.describe(place))
    return region.buffer, found


def _load(words: int, operation: str) -> Callable[..., Any]:
    def load(src: Any, pred: Any = None) -> Any:
        buffer, places = _elements(src, words, f"T.{operation}")
        zero = const(0, _WORD)
        values = repacked([Load(buffer=buffer, indices=at, span=here()) for at in places], _WORD)
        if pred is not None:
            values = [arithmetic.select(pred, Scalar(v), Scalar(zero), here()) for v in values]
        return Vector.of(values) if words > 1 else Scalar(values[0])

    load.__name__ = load.__qualname__ = operation
    result = "a uint32" if words == 1 else f"a uint32x{words}"
    load.__doc__ = f"The {32 * words} bits from an element on, as {result}; 0 where ``pred`` is given and false. E258."
    return load


def _store(words: int, operation: str) -> Callable[..., None]:
    def store(dst: Any, value: Any, pred: Any = None) -> None:
        buffer, places = _elements(dst, words, f"T.{operation}")
        given = lanes_of(value, words) if words > 1 or isinstance(value, (Vector, TileRegion)) else [value]
        bits = [arithmetic.as_expr(lane, here(), _WORD) for lane in given]
        if len(bits) * bits[0].dtype.storage_bits != 32 * words:
            given_words = f"{bits[0].dtype} of {len(bits) * bits[0].dtype.storage_bits} bits"
            raise catalogue.E258.error(here(), operation=f"T.{operation}", wanted=f"{32 * words} bits as value", given=given_words)
        builder = current_builder(f"T.{operation}")
        with builder.body() as body:
            for at, item in zip(places, repacked(bits, buffer.dtype)):
                builder.emit(Store(buffer=buffer, indices=at, value=item, span=builder.span))
        if pred is None:
            for statement in body:
                builder.emit(statement)
        else:
            builder.emit(If(condition=arithmetic.truth(pred, builder.span), then=tuple(body), span=builder.span))

    store.__name__ = store.__qualname__ = operation
    store.__doc__ = f"Writes {32 * words} bits from an element on; nothing where ``pred`` is given and false. E258."
    return store


WORDS: Final[dict[str, Callable[..., Any]]] = {
    **{f"ldg{32 * n}": _load(n, f"ldg{32 * n}") for n in (1, 2, 4, 8)},
    **{f"stg{32 * n}": _store(n, f"stg{32 * n}") for n in (1, 2, 4, 8)},
    **{name: _load(n, name) for n, name in ((1, "lds32"), (2, "lds64"), (4, "lds128"))},
    **{name: _store(n, name) for n, name in ((1, "sts32"), (2, "sts64"), (4, "sts128"))},
}
"""The functions of this module, by name: loads and stores of global and of shared memory."""
