"""What executes each operation of a launch: the :class:`~zellige.plan.nodes.Choice` of every tile operation.

In: the facts of a legal launch, its products, spaces and a machine. Out: choices with tiling, layouts of operands, copy mechanism, edges,
and how many iterations a product may merge.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final, Literal

from zellige.analysis.bounds import Scope
from zellige.dtypes import DType, dtype as as_dtype
from zellige.ir.expr import Buffer, Var, constant_value
from zellige.ir.stmt import Alloc, Copy, Fill, For, Gemm, LayoutHint, Pipelined, Stmt, TileOperation, is_whole
from zellige.ir.traverse import walk
from zellige.plan.ahead import overlap_of, tell
from zellige.plan.candidates import best, described, emulation_note, regions_of
from zellige.plan.capabilities import Machine
from zellige.plan.direct import direct_copy, is_contiguous, matrix_dimensions, replaced_fill, stored_copy, unread_dimensions
from zellige.plan.draft import Decisions
from zellige.plan.edges import tested_dimensions
from zellige.plan.factors import factor_of
from zellige.plan.facts import LaunchFacts, statements_in
from zellige.plan.nodes import PACKED, Choice, OperandLayout
from zellige.plan.products import Product, panel_bytes, register_lanes
from zellige.plan.roles import changed_in, held_back, operations_of
from zellige.plan.sharing import keeping, reading_the_same
from zellige.plan.spaces import choose_path, offered_copy, space_of
from zellige.plugin.contract import Space

SEVERAL: Final = 4
"""Products of a loop from which on one more is worth it where all are then of one length: none is shorter by more than a fifth for it."""


def choose(
    facts: LaunchFacts, products: Mapping[int, Product], spaces: dict[Buffer, Space], scopes: Mapping[int, Scope], machine: Machine,
    decisions: Decisions,
) -> tuple[Choice, ...]:  # fmt: skip
    """One choice a tile operation, in program order; then, on machines of units, a product in loops that one role has as a whole."""
    found: list[Choice] = []
    for operation in operations_of(facts.launch.body):
        if not isinstance(operation, TileOperation):
            continue
        tested = tested_dimensions(operation, scopes[id(operation)]) if id(operation) in scopes else ()
        match operation:
            case Gemm():
                found.append(_product(facts, operation, products[id(operation)], scopes, spaces, machine, decisions))
            case Copy():
                found.append(_copy(facts, operation, tested, spaces, machine, decisions))
            case _:
                other = _other(facts, operation, tested, spaces, machine, decisions)
                found.append(replace(other, factor=_factor(facts, operation, spaces, machine, decisions)))
    if machine.style != "ordered":  # machines that work in order pack operands by loop, and nothing of a loop that decides when it ends
        chosen = {id(choice.operation) for choice in found}
        inner = (s for s in statements_in(facts.launch.body, into_maps=False) if isinstance(s, Gemm) and id(s) not in chosen)
        found += [_product(facts, gemm, products[id(gemm)], scopes, spaces, machine, decisions) for gemm in inner]
    return tuple(found)


def _factor(
    facts: LaunchFacts, operation: Stmt, spaces: Mapping[Buffer, Space], machine: Machine, decisions: Decisions
) -> Buffer | None:
    factor = factor_of(facts, operation, spaces, machine)
    if factor is not None:
        (changed,) = {root.name for root in facts.written(operation)}
        decisions.take(
            f"is {changed} multiplied by {factor.name} in every iteration?", "only by lanes that meet a factor other than 1",
            "a product with 1 changes no bit, and all elements of a row have one factor",
            rejected=(("by all", "sums that have not grown would be multiplied by 1"),), where=operation.span,
        )  # fmt: skip
    return factor


def _other(
    facts: LaunchFacts, operation: Stmt, tested: tuple[int, ...], spaces: dict[Buffer, Space], machine: Machine, decisions: Decisions
) -> Choice:
    """The main engine executes it; a backend may say which of its engines does, and by which of its mechanisms."""
    mechanism, is_native, executor = "", True, machine.main_engine
    asks = None
    if machine.ask is not None:
        lie_in = tuple(space_of(region, spaces, machine) for region in regions_of(operation))
        asks = described(operation, facts.launch, spaces=lie_in)
    answers = machine.ask(asks) if machine.ask is not None and asks is not None else None
    if asks is not None and answers is not None:
        taken = best(asks, answers, machine)
        mechanism, is_native = taken.candidate.mechanism or taken.candidate.name, taken.candidate.is_native
        executor = taken.candidate.engine or executor
        label = "" if is_native else " (emulated)"
        decisions.take(
            f"what executes the {asks.text}?", f"{taken.candidate.name}{label}", taken.candidate.because + emulation_note(taken.candidate),
            rejected=taken.rejected, where=operation.span,
        )  # fmt: skip
    edge: Literal["none", "always"] = "always" if tested else "none"
    return Choice(operation=operation, executor=executor, mechanism=mechanism, tested=tested, edge=edge, is_native=is_native)


def _copy(
    facts: LaunchFacts, copy: Copy, tested: tuple[int, ...], spaces: dict[Buffer, Space], machine: Machine, decisions: Decisions
) -> Choice:
    path, rejected = choose_path(copy, facts, spaces, machine)
    how = "no part of it can leave the tensor"
    if tested:
        free = ", which the mechanism does by itself" if path.fills_out_of_bounds else ""
        named = ", ".join(map(str, tested))
        how = f"its part may leave the tensor in dimension{'s' if len(tested) > 1 else ''} {named} and is tested there{free}"
    label, offered = "", offered_copy(copy, facts, spaces, machine)
    is_native = offered is None or offered[1].candidate.is_native
    if offered is not None:
        candidate = offered[1].candidate
        label, how = "" if is_native else " (emulated)", f"{how}; {candidate.because}{emulation_note(candidate)}"
    decisions.take(
        f"how is {copy.src.buffer.name} copied to {copy.dst.buffer.name}?", f"{path.mechanism}{label}",
        f"from {space_of(copy.src, spaces, machine)} to {space_of(copy.dst, spaces, machine)}; {how}", rejected=rejected, where=copy.span,
    )  # fmt: skip
    return Choice(
        operation=copy,
        executor=path.engine or machine.main_engine,
        mechanism=path.mechanism,
        tested=tested,
        edge="always" if tested else "none",
        is_native=is_native,
        rejected=rejected,
    )


def _product(
    facts: LaunchFacts, gemm: Gemm, product: Product, scopes: Mapping[int, Scope], spaces: dict[Buffer, Space], machine: Machine,
    decisions: Decisions,
) -> Choice:  # fmt: skip
    unit = product.unit
    mechanism, merge = "", 1
    unread: tuple[str, ...] = ()
    fill: Fill | None = None
    out: Copy | None = None
    layouts: tuple[OperandLayout, ...] = ()
    if machine.style == "ordered" and product.tiling is not None:
        interleave = unit.interleave if unit is not None else 1
        direct = {name: direct_copy(facts, gemm, region, scopes) for name, region in (("a", gemm.a), ("b", gemm.b))}
        layouts = (
            OperandLayout(operand="a", buffer=gemm.a.buffer.root, kind="rows", parameters=(interleave,), dtype=_stored(product, 0),
                          is_direct=isinstance(direct["a"], Copy)),
            OperandLayout(operand="b", buffer=gemm.b.buffer.root, kind="panels", parameters=(product.tiling.n, interleave),
                          dtype=_stored(product, 1), is_direct=isinstance(direct["b"], Copy)),
            OperandLayout(operand="c", buffer=gemm.c.buffer.root, kind="rows"),
        )  # fmt: skip
        _tell_block(gemm, product, interleave, machine, decisions)
        _tell_direct(gemm, direct, decisions)
        loop = facts.loop_around(gemm)
        if loop is not None:
            merge = merged_iterations(facts, gemm, product, loop, direct, scopes, decisions)
            if merge:
                unread = _unread(facts, gemm, loop, direct, scopes, decisions)
                fill = _replaced_fill(facts, gemm, loop, decisions)
                out = _stored_copy(facts, gemm, loop, decisions)
                layouts = tuple(_kept(facts, gemm, product, loop, at, direct, scopes, decisions) for at in layouts)
            else:
                layouts = tuple(_kept_apart(facts, loop, at, direct, scopes, decisions) for at in layouts)
            mechanism, merge = (PACKED, merge) if merge else ("", 1)
            layouts = tuple(_asked_ahead(facts, loop, at, direct, spaces, machine, decisions) for at in layouts)
    elif unit is not None and unit.m > 1:
        kind = "swizzled" if machine.has_true_lanes else "blocks"
        layouts = tuple(
            OperandLayout(operand=name, buffer=region.buffer.root, kind=kind, parameters=_parameters(kind, product))
            for name, region in (("a", gemm.a), ("b", gemm.b))
            if region.buffer.root.space != "fragment"
        )
    hinted = {h.buffer.root: h for h in facts.launch.hints if isinstance(h, LayoutHint)}
    layouts = tuple(
        OperandLayout(operand=at.operand, buffer=at.buffer, kind=hinted[at.buffer].kind)
        if at.buffer in hinted and machine.style != "ordered"
        else at
        for at in layouts
    )
    executor = unit.engine if unit is not None and unit.engine else machine.main_engine
    return Choice(
        operation=gemm, executor=executor, unit="" if unit is None else unit.name, mechanism=mechanism, tiling=product.tiling,
        layouts=layouts, edge="none", is_native=product.is_native, merge=merge, unread=unread, fill=fill, out=out,
    )  # fmt: skip


def _asked_ahead(
    facts: LaunchFacts, loop: For, layout: OperandLayout, direct: Mapping[str, Copy | str], spaces: dict[Buffer, Space], machine: Machine,
    decisions: Decisions,
) -> OperandLayout:  # fmt: skip
    """The layout with what asks for the elements of an operand that is packed in a loop with stages."""
    copy = direct.get(layout.operand)
    if not isinstance(copy, Copy) or not isinstance(loop.kind, Pipelined) or held_back(copy, facts, changed_in(facts)) is not None:
        return layout
    overlap = overlap_of(copy, loop, facts, spaces, machine, is_packed=True)
    tell(overlap, decisions)
    return replace(layout, ahead=overlap.mechanism)


def _stored(product: Product, operand: int) -> DType | None:
    """The type that operand 0 (a) or 1 (b) is converted to; None where it stays as it is."""
    own = (product.gemm.a, product.gemm.b)[operand].buffer.dtype
    wanted = product.operand if product.unit is None else as_dtype((product.unit.a, product.unit.b)[operand])
    return None if wanted == own else wanted


def _parameters(kind: str, product: Product) -> tuple[int, ...]:
    """Rows and columns of a block; how rows are exchanged follows from the banks and engines of the target, which its family knows."""
    return (product.tiling.m, product.tiling.k) if kind == "blocks" and product.tiling is not None else ()


def _tell_block(gemm: Gemm, product: Product, interleave: int, machine: Machine, decisions: Decisions) -> None:
    file, tiling, unit = machine.capabilities.registers, product.tiling, product.unit
    if file is None or tiling is None:
        return
    if unit is not None and unit.m > 1:
        because = f"{-(-tiling.m // unit.m) * -(-tiling.n // unit.n)} tiles of {unit.m} x {unit.n} sums in registers of the unit"
    else:
        lanes = register_lanes(product.accumulator, machine, unit)
        sums = tiling.m * -(-tiling.n // lanes)
        because = f"{file.vectors} registers of {lanes} {product.accumulator} elements: {sums} hold sums, the rest operands"
    decisions.take(
        f"which block of {gemm.c.buffer.name} stays in registers?", f"{tiling.m} x {tiling.n}", because,
        rejected=((f"{2 * tiling.m} x {tiling.n}", "sums and operands would not fit, and spill to memory"),), where=gemm.span,
    )  # fmt: skip
    pairs = "" if interleave == 1 else f", {interleave} steps of k next to each other for the dot product instruction"
    decisions.take(
        f"how are {gemm.a.buffer.name} and {gemm.b.buffer.name} stored?", f"rows of a, panels of {tiling.n} columns of b{pairs}",
        "the block reads one element of a row and one panel row a step, both in order of address",
        rejected=(("rows of b", "each step of k would touch another line"),), where=gemm.span,
    )  # fmt: skip


def _tell_direct(gemm: Gemm, direct: Mapping[str, Copy | str], decisions: Decisions) -> None:
    """Says of each operand whether its tile is stored; an operand that the block computes has no choice."""
    for name, found in direct.items():
        tile = (gemm.a if name == "a" else gemm.b).buffer
        if isinstance(found, Copy):
            decisions.take(
                f"is the tile {tile.name} stored?", f"no: operand {name} is packed from {found.src.buffer.name}",
                "only this product reads it", rejected=(("a tile, packed from there", "every element would be moved twice"),),
                where=found.span,
            )  # fmt: skip
        else:
            decisions.take(f"is the tile {tile.name} stored?", "yes", found, where=gemm.span)


def merged_iterations(
    facts: LaunchFacts, gemm: Gemm, product: Product, loop: For, direct: Mapping[str, Copy | str], scopes: Mapping[int, Scope],
    decisions: Decisions,
) -> int:  # fmt: skip
    """How many iterations one product may take at once without a change of any bit; 0 where the loop is no such product."""
    k = product.sizes[2]
    reason = _why_not_merged(facts, gemm, product, loop) or _why_not_contiguous(facts, gemm, k or 0, loop, direct, scopes)
    if reason is not None or k is None:
        decisions.take("how many steps of k does a product take at once?", "those of one iteration", reason or "", where=gemm.span)
        return 0
    most, whole = (size // max(1, packed_panel_bytes(product)) // k for size in panel_bytes(product, _rows_there(gemm, direct)))
    merge = _even(max(1, most), whole, loop, direct, scopes)
    if merge > 1:
        decisions.take(
            "how many steps of k does a product take at once?", f"{merge * k}, of {merge} iterations",
            f"{k} are too few to pay for loading and storing the block; each element adds its terms in the same order, so no bit changes",
            rejected=((f"{k}, as written", "the block would be loaded and stored too often"),), where=gemm.span,
        )  # fmt: skip
    return merge


def _rows_there(gemm: Gemm, direct: Mapping[str, Copy | str]) -> int | None:
    """How many rows the tensor has that operand a comes from, all cells taken together; None where that is not constant."""
    copy = direct["a"]
    dimensions = matrix_dimensions(copy.src) if isinstance(copy, Copy) else None
    if dimensions is None or not isinstance(copy, Copy):
        return None
    rows = constant_value(copy.src.buffer.shape[dimensions[int(gemm.transpose_a)]])
    return None if rows is None else int(rows)


def _even(merge: int, whole: int, loop: For, direct: Mapping[str, Copy | str], scopes: Mapping[int, Scope]) -> int:
    """About ``merge`` iterations, such that all products of a loop of a known number of them are about as long: in the fewest products, or
    from :data:`SEVERAL` on in one more where all are then of one length; up to ``whole`` iterations are all taken at once."""
    copy = next((found for found in direct.values() if isinstance(found, Copy)), None)
    scope = None if copy is None else scopes.get(id(copy))
    count = None if scope is None else (scope.form(loop.stop) - scope.form(loop.start)).constant
    if count is None or count < 1:
        return merge
    if count <= whole:
        return count
    fewest = -(-count // merge)
    is_even = fewest >= SEVERAL and count % (fewest + 1) == 0
    return count // (fewest + 1) if is_even and count % fewest else -(-count // fewest)


def _why_not_merged(facts: LaunchFacts, gemm: Gemm, product: Product, loop: For) -> str | None:
    """What makes a product of several iterations another one than their products in turn; None where nothing does.

    Each iteration must be: fresh operands from global memory, then the product, added to the same tile in a type that one chain of
    additions an element passes through unrounded.
    """
    k = product.sizes[2]
    at = next(i for i, s in enumerate(loop.body) if s is gemm)
    others = [s for i, s in enumerate(loop.body) if i != at and not isinstance(s, Alloc)]
    operands = {gemm.a.buffer.root, gemm.b.buffer.root}
    if product.accumulator != gemm.c.buffer.dtype:
        return f"{gemm.c.buffer.name} is rounded to {gemm.c.buffer.dtype} after each product"
    if any(not isinstance(s, Copy) or s.src.buffer.root.space != "global" or s.dst.buffer.root not in operands for s in others):
        return "the loop does more than copy operands and multiply"
    if constant_value(gemm.clear) is not False:
        return "the product clears its result"
    if k is None or k <= 0:
        return "k is not constant"
    if gemm.scale_a is not None or gemm.scale_b is not None or gemm.metadata is not None:
        return "its operands have scales or are sparse"
    if product.unit is not None and k % product.unit.interleave:
        return f"an iteration ends within a group of {product.unit.interleave} steps"
    if product.unit is not None and product.unit.m > 1 and product.accumulator.is_float and k % product.unit.k:
        return f"an iteration ends within a block of {product.unit.k} steps, whose sums are rounded apart"
    if any(isinstance(n, Var) and (n is loop.var or n.is_mutable) for e in gemm.c.offsets for n in walk(e)):
        return "each iteration adds to another part of its tile"
    for root, region in ((gemm.a.buffer.root, gemm.a), (gemm.b.buffer.root, gemm.b)):
        if (
            not is_whole(region)
            or not any(facts.kills(s, root) for s in loop.body[:at])
            or any(root in facts.roots(s) for s in loop.body[at + 1 :])
        ):
            return f"{root.name} is not copied afresh before each product"
        inside = sum(access.root is root for access in facts.accesses(loop))
        if inside != sum(access.root is root for s in facts.launch.body for access in facts.accesses(s)):
            return f"{root.name} is used outside of the loop too"
    return None


def _why_not_contiguous(
    facts: LaunchFacts, gemm: Gemm, k: int, loop: For, direct: Mapping[str, Copy | str], scopes: Mapping[int, Scope]
) -> str | None:
    """What keeps the operands of several iterations from being read as larger ones."""
    for name, found in direct.items():
        if isinstance(found, str):
            return found
        runs_along = gemm.transpose_b if name == "b" else not gemm.transpose_a
        if not is_contiguous(facts, loop, found, k, scopes, is_last=runs_along):
            return f"what two iterations read of {found.src.buffer.name} does not lie next to each other along k"
    return None


def _unread(
    facts: LaunchFacts, gemm: Gemm, loop: For, direct: Mapping[str, Copy | str], scopes: Mapping[int, Scope], decisions: Decisions
) -> tuple[str, ...]:
    """The dimensions in which blocks of the result that lie beyond the tensors are left out."""
    copies = {name: found for name, found in direct.items() if isinstance(found, Copy)}
    if all(id(copy) in scopes and not tested_dimensions(copy, scopes[id(copy)]) for copy in copies.values()):
        return ()
    unread = unread_dimensions(facts, gemm, loop, copies, scopes)
    if unread:
        decisions.take(
            f"are all blocks of {gemm.c.buffer.name} computed?", f"those that begin within the tensors along {' and '.join(unread)}",
            "what lies beyond is copied nowhere", rejected=(("all", "edges of the grid would compute what nobody reads"),),
            where=gemm.span,
        )  # fmt: skip
    return unread


def _replaced_fill(facts: LaunchFacts, gemm: Gemm, loop: For, decisions: Decisions) -> Fill | None:
    fill = replaced_fill(facts, gemm, loop)
    if fill is not None:
        decisions.take(
            f"when is {gemm.c.buffer.name} filled with zero?", "by the product's first step, which begins at zero",
            "nothing uses it in between", rejected=(("before the loop", "zeros would be stored to be loaded again"),), where=fill.span,
        )  # fmt: skip
    return fill


def _stored_copy(facts: LaunchFacts, gemm: Gemm, loop: For, decisions: Decisions) -> Copy | None:
    out = stored_copy(facts, gemm, loop)
    if out is not None:
        decisions.take(
            f"when is {gemm.c.buffer.name} copied to {out.dst.buffer.name}?",
            "by the product's last step, from registers, where the block lies inside the tensor",
            "nothing else reads it; at the edges of the tensor the tile is stored and copied",
            rejected=(("after the loop", "every element would be stored to be loaded and stored again"),), where=out.span,
        )  # fmt: skip
    return out


def _kept(
    facts: LaunchFacts, gemm: Gemm, product: Product, loop: For, layout: OperandLayout, direct: Mapping[str, Copy | str],
    scopes: Mapping[int, Scope], decisions: Decisions,
) -> OperandLayout:  # fmt: skip
    """The layout with who keeps the operand of a merged product packed."""
    copy = direct.get(layout.operand)
    if not isinstance(copy, Copy):
        return layout
    m, n, k = (size or 1 for size in product.sizes)
    bits = (layout.dtype or layout.buffer.dtype).storage_bits
    found = keeping(facts, loop, copy, (m if layout.operand == "a" else n) * k * bits // 8, scopes)
    answers = {
        "launch": ("whichever cell needs a step of it first, for all cells", "each cell for itself", "the same would be packed again"),
        "worker": ("each worker, for those of its cells that follow each other", "once for all cells", found.because),
        "cell": ("each cell, step by step into the same place", "for other cells too", found.because),
    }  # fmt: skip
    chosen, rejected, why = answers[found.kind]
    decisions.take(
        f"who packs {copy.src.buffer.name} for {layout.buffer.name}?", chosen, found.because, rejected=((rejected, why),), where=copy.span
    )
    return replace(layout, kept=found.kind, places=found.places)


def _kept_apart(
    facts: LaunchFacts, loop: For, layout: OperandLayout, direct: Mapping[str, Copy | str], scopes: Mapping[int, Scope],
    decisions: Decisions,
) -> OperandLayout:  # fmt: skip
    """The layout with who keeps the operand of a product that is not merged packed."""
    copy = direct.get(layout.operand)
    if not isinstance(copy, Copy):
        return layout
    others = reading_the_same(facts, loop, copy, scopes)
    if not others:
        return layout
    names = " and ".join(var.name for var in others)
    decisions.take(
        f"who packs {copy.src.buffer.name} for {layout.buffer.name}?", "each worker, for those of its cells that follow each other",
        f"cells along {names} read the same of it", rejected=(("each cell for itself", "the same would be packed again"),), where=copy.span,
    )  # fmt: skip
    return replace(layout, kept="worker")


def packed_panel_bytes(product: Product) -> int:
    """Bytes of one step of k of a packed panel of b."""
    columns = product.tiling.n if product.tiling is not None else 1
    operand = product.operand if product.unit is None else as_dtype(product.unit.b)
    return columns * max(1, operand.storage_bits // 8)


def with_edge(choice: Choice, partial: frozenset[int]) -> Choice:
    """The choice after loops have been split: partial where the operation is tested in tails only."""
    if id(choice.operation) not in partial:
        return choice
    return replace(choice, edge="partial")
