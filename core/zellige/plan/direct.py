"""Which operands of a product are packed straight from global memory, so that their tiles need never be stored.

In: the facts of a launch, a product, what is known at each statement. Out: for operand a and b the copy that the packing replaces, or why
there is none (:func:`direct_copy`); whether the copies of several iterations of a loop are one larger copy (:func:`is_contiguous`);
whether results beyond the tensors are read by anybody (:func:`unread_dimensions`); and what the first and the last step of a loop can do
for a fill before it and a copy behind it (:func:`replaced_fill`, :func:`stored_copy`).

The tile is only written by one copy from global memory and only read by the product behind it in the same body, and in between nothing
changes what the copy reads. The copy's address must be known not to lie before the tensor; beyond its end it reads zeros, as a copy does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import copysign

from zellige.analysis.bounds import Scope
from zellige.analysis.forms import Form
from zellige.ir.expr import Load, Region, Var, constant_value
from zellige.ir.stmt import Copy, Fill, For, Gemm, Stmt, is_whole
from zellige.ir.traverse import walk
from zellige.plan.facts import LaunchFacts


def direct_copy(facts: LaunchFacts, gemm: Gemm, operand: Region, scopes: Mapping[int, Scope]) -> Copy | str:
    """The copy that fills the operand's tile, where the product can pack from its source instead; else the reason against it."""
    root = operand.buffer
    if facts.is_lane_code:
        return "the kernel programs its lanes"
    if root.alias is not None or root.space == "global" or not is_whole(operand):
        return f"{root.name} is not a whole tile of its own"
    if any(extra is not None for extra in (gemm.scale_a, gemm.scale_b, gemm.metadata)):
        return "the product has scales or is sparse"
    body, uses = facts.body_around(gemm), facts.uses(root)
    copies = [s for s in body if isinstance(s, Copy) and s.dst.buffer is root] if len(uses) == 2 else []
    if len(copies) != 1 or len(uses) != 2 or {id(u.statement) for u in uses} != {id(copies[0]), id(gemm)}:
        return f"{root.name} is used by more than one copy and this product"
    copy = copies[0]
    before, at = next(i for i, s in enumerate(body) if s is copy), next(i for i, s in enumerate(body) if s is gemm)
    if before > at:
        return f"{root.name} is copied after the product"
    return _why_not_read_late(facts, copy, body[before + 1 : at]) or _why_not_matrix(facts, copy, scopes) or copy


def _why_not_read_late(facts: LaunchFacts, copy: Copy, between: Sequence[Stmt]) -> str | None:
    """Why the source cannot be read when the product runs instead of when the copy stands."""
    source = copy.src.buffer
    if source.root.space != "global":
        return f"{copy.dst.buffer.name} is not copied from global memory"
    if any(use.changes for use in facts.uses(source.root)):
        return f"{source.name} is written in the launch"
    variables = facts.used(copy)
    loaded = {n.buffer.root for e in copy.src.offsets for n in walk(e) if isinstance(n, Load)}
    for statement in between:
        if facts.assigned(statement) & variables or facts.written(statement) & loaded:
            return f"the address in {source.name} changes before the product"
    return None


def matrix_dimensions(region: Region) -> tuple[int, int] | None:
    """The two dimensions of a region that has more than one element in just two, the second its last."""
    wide = [d for d, extent in enumerate(region.extents) if constant_value(extent) != 1]
    return (wide[0], wide[1]) if len(wide) == 2 and wide[1] == region.buffer.rank - 1 else None


def has_k_last(gemm: Gemm, operand: str) -> bool:
    """Whether the operand "a" or "b" is stored with k as its last dimension."""
    return gemm.transpose_b if operand == "b" else not gemm.transpose_a


def _why_not_matrix(facts: LaunchFacts, copy: Copy, scopes: Mapping[int, Scope]) -> str | None:
    source, tile = copy.src, copy.dst
    buffer = source.buffer
    if buffer.dtype != tile.buffer.dtype or buffer.dtype.bits < 8:
        return f"{buffer.name} has another type than {tile.buffer.name}, or packs its elements"
    if any(safe.buffer.root is buffer.root for safe in facts.launch.safe_values):
        return f"{buffer.name} reads as another value than zero outside"
    dimensions = matrix_dimensions(source)
    sizes = [constant_value(source.extents[d]) for d in dimensions or ()]
    if dimensions is None or not is_whole(tile) or sizes != [constant_value(e) for e in tile.buffer.shape]:
        return f"what is copied of {buffer.name} is not rows of constant length"
    if buffer.strides is not None and constant_value(buffer.strides[-1]) != 1:
        return f"the elements of a row of {buffer.name} may be apart"
    scope = scopes.get(id(copy))
    if scope is None or not all(scope.is_nonnegative(scope.counted(offset)) for offset in source.offsets):
        return f"the copy may begin before {buffer.name}"
    return None


def is_contiguous(facts: LaunchFacts, loop: For, copy: Copy, depth: int, scopes: Mapping[int, Scope], *, is_last: bool) -> bool:
    """Whether the copies of iterations that follow each other lie next to each other: in the last of the matrix's dimensions or the first,
    each ``depth`` elements on."""
    dimensions = matrix_dimensions(copy.src)
    scope = scopes.get(id(copy))
    if dimensions is None or scope is None or constant_value(loop.step) != 1:
        return False
    for number, offset in enumerate(copy.src.offsets):
        parts = scope.counted(offset).split(loop.var)
        moves = depth if number == dimensions[1 if is_last else 0] else 0
        if parts is None or parts[0].constant != moves:
            return False
        if any(scope.mentions(atom, frozenset((loop.var,))) for atom in parts[1].atoms()):
            return False
    return True


def unread_dimensions(
    facts: LaunchFacts, gemm: Gemm, loop: For, copies: Mapping[str, Copy], scopes: Mapping[int, Scope]
) -> tuple[str, ...]:
    """Of m and n those in which nobody reads what the product makes of rows or columns beyond its tensors.

    The result is filled before the loop and copied out behind it, and the copies end where the rows of a or the columns of b do.
    """
    ends = _fills_and_outs(facts, gemm, loop)
    if ends is None:
        return ()
    outs = ends[1]
    found = []
    for name, operand, place in (("m", "a", 0), ("n", "b", 1)):
        source = copies[operand]
        dimensions = matrix_dimensions(source.src)
        assert dimensions is not None, "a direct operand is a matrix"
        left = _beyond(source.src, dimensions[0 if has_k_last(gemm, operand) else 1], scopes[id(source)])
        if left is not None and all(_ends_at(out, place, left, scopes) for out in outs):
            found.append(name)
    return tuple(found)


def replaced_fill(facts: LaunchFacts, gemm: Gemm, loop: For) -> Fill | None:
    """The fill with zero before the loop, where the first step of the loop can replace the result instead of adding to zeros."""
    ends = _fills_and_outs(facts, gemm, loop)
    if ends is None or len(ends[0]) != 1:
        return None
    value = constant_value(ends[0][0].value)
    return ends[0][0] if value == 0 and copysign(1, value) > 0 else None


def stored_copy(facts: LaunchFacts, gemm: Gemm, loop: For) -> Copy | None:
    """The copy of the result to global memory that stands last, right behind the loop, where the loop's last step can make it: the result
    has no other reader, and a row of it is a row of the tensor."""
    ends = _fills_and_outs(facts, gemm, loop)
    if ends is None or len(ends[1]) != 1:
        return None
    out, body = ends[1][0], facts.body_around(loop)
    target = out.dst.buffer
    dimensions = matrix_dimensions(out.dst)
    if len(body) < 2 or body[-1] is not out or body[-2] is not loop or dimensions is None or not is_whole(out.src):
        return None
    if target.root.space != "global" or target.dtype.bits < 8 or target.dtype.is_bool or target.dtype.lanes != 1:
        return None
    if target.strides is not None and constant_value(target.strides[-1]) != 1:
        return None
    sizes = [constant_value(out.dst.extents[d]) for d in dimensions]
    return out if sizes == [constant_value(e) for e in out.src.buffer.shape] else None


def _fills_and_outs(facts: LaunchFacts, gemm: Gemm, loop: For) -> tuple[list[Fill], list[Copy]] | None:
    """The fills of the result before the loop and the copies out of it behind, where it has no other uses and the product is whole."""
    root = gemm.c.buffer
    body = facts.body_around(loop)
    at = next((i for i, s in enumerate(body) if s is loop), 0)
    fills = [s for s in body[:at] if isinstance(s, Fill) and s.dst.buffer is root and is_whole(s.dst)]
    outs = [s for s in body[at + 1 :] if isinstance(s, Copy) and s.src.buffer is root]
    uses = {id(use.statement) for use in facts.uses(root)}
    if root.alias is not None or not is_whole(gemm.c) or not fills or uses != {id(gemm), *map(id, fills), *map(id, outs)}:
        return None
    return fills, outs


def _beyond(region: Region, dimension: int, scope: Scope) -> Form | None:
    """How many elements there are from the region's offset to the end of the tensor; None where that may change."""
    left = scope.form(region.buffer.shape[dimension]) - scope.form(region.offsets[dimension])
    is_stable = not any(isinstance(n, Load) or (isinstance(n, Var) and n.is_mutable) for atom in left.atoms() for n in walk(atom))
    return left if is_stable else None


def _ends_at(out: Copy, place: int, left: Form, scopes: Mapping[int, Scope]) -> bool:
    dimensions = matrix_dimensions(out.dst)
    if dimensions is None or not is_whole(out.src) or out.dst.buffer.root.space != "global" or id(out) not in scopes:
        return False
    sizes = [constant_value(out.dst.extents[d]) for d in dimensions]
    if sizes != [constant_value(e) for e in out.src.buffer.shape]:
        return False
    return _beyond(out.dst, dimensions[place], scopes[id(out)]) == left
