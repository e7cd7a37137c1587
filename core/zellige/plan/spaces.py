"""In which space of the target each on-chip buffer lives, and by which path each copy goes.

In: the legal launch, its products, a machine. Out: the space of each buffer (:func:`choose_spaces`) and the path of each copy
(:func:`choose_path`). An operand lies where its unit reads it, a result where its unit leaves it, and everything else where the
language's space leads to: a target without shared memory or registers of that kind puts it into the memory that it has.
"""

from __future__ import annotations

from collections.abc import Iterable

from zellige.analysis.bounds import Scope
from zellige.analysis.forms import Form
from zellige.diagnostics import ZelligeError, catalogue
from zellige.diagnostics.suggest import closest
from zellige.ir.expr import Buffer, Region, constant_value
from zellige.ir.stmt import Alloc, Copy, Fill, Gemm
from zellige.ir.traverse import walk
from zellige.plan.candidates import Best, best, described
from zellige.plan.capabilities import Machine
from zellige.plan.draft import Decisions
from zellige.plan.facts import LaunchFacts, statements_in
from zellige.plan.products import Product
from zellige.plugin.choices import Operation
from zellige.plugin.contract import CopyPath, Space


def block_buffers(facts: LaunchFacts) -> tuple[Buffer, ...]:
    """The buffers that belong to the block: allocated outside every Map, not by a lane."""
    return tuple(s.buffer for s in statements_in(facts.launch.body, into_maps=False) if isinstance(s, Alloc))


def choose_spaces(
    facts: LaunchFacts, buffers: Iterable[Buffer], products: dict[int, Product], machine: Machine, decisions: Decisions
) -> dict[Buffer, Space]:
    """The space of each buffer. A choice that is not the one written is a decision. E413 for a space that the target does not have, E414
    for one that does not hold the buffer's elements."""
    wishes = _unit_wishes(facts, products, machine)
    vector_used = _vector_used(facts, products)
    chosen: dict[Buffer, Space] = {}
    moved: dict[tuple[str, str], list[str]] = {}
    for buffer in buffers:
        if not machine.has_written_space(buffer.space):
            raise _no_space(buffer, machine)
        engines = frozenset((machine.main_engine,)) if buffer in vector_used and machine.capabilities.engines else frozenset()
        space: Space | None = None
        for name in wishes.get(buffer, ()):
            wished = machine.space(name)
            if wished is not None and (not wished.engines or engines <= set(wished.engines)) and _holds(wished, buffer):
                space = wished
                break
        if space is None and machine.space(buffer.space) is not None:
            space = machine.space(buffer.space)
        if space is None:
            space = machine.space_for(buffer.space, engines) or machine.space_for(buffer.space)
        if space is None:
            raise _no_space(buffer, machine)
        if not _holds(space, buffer):
            raise _not_held(buffer, space, machine)
        chosen[buffer] = space
        if space.name != buffer.space:
            moved.setdefault((buffer.space, space.name), []).append(buffer.name)
    for (written, space_name), names in moved.items():
        why = "the target has no other space that stands for it" if machine.space(written) is None else "the product unit works there"
        decisions.home(written, names, space_name, why)
    return chosen


def _no_space(buffer: Buffer, machine: Machine) -> ZelligeError:
    """E413: the target has neither the space that a buffer is written for nor one that can stand for it."""
    names = [s.name for s in machine.capabilities.spaces]
    return catalogue.E413.error(
        buffer.span, target=machine.name, space=buffer.space, buffer=buffer.label, known=f"it has {', '.join(names)}",
        suggestion=closest(buffer.space, names),
    )  # fmt: skip


def _holds(space: Space, buffer: Buffer) -> bool:
    """Whether a space takes elements of a buffer's type, vectors by their elements'."""
    return not space.dtypes or str(buffer.dtype.scalar) in space.dtypes


def _not_held(buffer: Buffer, space: Space, machine: Machine) -> ZelligeError:
    """E414: the space in which a buffer would live does not hold its elements."""
    others = [s.name for s in machine.capabilities.spaces if _holds(s, buffer)]
    return catalogue.E414.error(
        buffer.span, target=machine.name, space=space.name, buffer=buffer.label, held=", ".join(space.dtypes), dtype=buffer.dtype.scalar,
        advice=f"elements of {buffer.dtype.scalar} are held in {', '.join(others)}" if others else "convert before the copy to this space",
    )  # fmt: skip


def _unit_wishes(facts: LaunchFacts, products: dict[int, Product], machine: Machine) -> dict[Buffer, tuple[str, ...]]:
    """The spaces that units want their operands and results in; an operand's written space comes first where the unit takes it."""
    wishes: dict[Buffer, tuple[str, ...]] = {}
    for node in walk(facts.launch):
        if not isinstance(node, Gemm):
            continue
        unit = products[id(node)].unit
        if unit is None:
            continue
        if unit.c_space:
            wishes.setdefault(node.c.buffer.root, (unit.c_space,))
        for region, spaces in ((node.a, unit.a_spaces), (node.b, unit.b_spaces)):
            root = region.buffer.root
            if spaces and root.space != "global":
                wanted = tuple(sorted(spaces, key=lambda name: not machine.is_of_written_role(name, root.space)))
                both = tuple(s for s in wishes[root] if s in wanted) if root in wishes else wanted
                wishes[root] = both or wanted
    return wishes


def _vector_used(facts: LaunchFacts, products: dict[int, Product]) -> frozenset[Buffer]:
    """Buffers that something else than a copy, a fill or a product of a unit touches."""
    used: set[Buffer] = set()
    for node in walk(facts.launch):
        if isinstance(node, (Copy, Fill)) or (isinstance(node, Gemm) and products[id(node)].unit is not None):
            continue
        for method in ("reads", "writes"):
            regions = getattr(node, method, None)
            if regions is not None:
                used.update(region.buffer.root for region in regions())
    return frozenset(used)


def space_of(region: Region, spaces: dict[Buffer, Space], machine: Machine) -> str:
    """The target's name of the space that a region lies in."""
    root = region.buffer.root
    if root in spaces:
        return spaces[root].name
    return machine.tensor_space if root.space == "global" else root.space


def choose_path(
    copy: Copy, facts: LaunchFacts, spaces: dict[Buffer, Space], machine: Machine
) -> tuple[CopyPath, tuple[tuple[str, str], ...]]:
    """The path of a copy and, for each earlier one that does not serve, why."""
    source, destination = space_of(copy.src, spaces, machine), space_of(copy.dst, spaces, machine)
    offered = offered_copy(copy, facts, spaces, machine)
    if offered is not None:
        operation, taken = offered
        return _offered(operation, taken, copy, facts, machine), taken.rejected
    rejected: list[tuple[str, str]] = []
    for path in machine.paths(source, destination):
        reason = _unfit(path, copy, facts)
        if reason is None:
            return path, tuple(rejected)
        rejected.append((path.mechanism, reason))
    return CopyPath(source=source, destination=destination, mechanism="moves", engine=machine.main_engine), tuple(rejected)


def offered_copy(copy: Copy, facts: LaunchFacts, spaces: dict[Buffer, Space], machine: Machine) -> tuple[Operation, Best] | None:
    """The best of what the backend offers for a copy; None where it leaves the choice to its capabilities. E420: it offers nothing."""
    if machine.ask is None:
        return None
    operation = described(copy, facts.launch, spaces=(space_of(copy.src, spaces, machine), space_of(copy.dst, spaces, machine)))
    answers = machine.ask(operation)
    return None if answers is None else (operation, best(operation, answers, machine))


def _offered(operation: Operation, taken: Best, copy: Copy, facts: LaunchFacts, machine: Machine) -> CopyPath:
    """The path of the candidate taken; E703 for one that cannot make the copy."""
    path = taken.candidate.path
    if path is None:
        return CopyPath(source=operation.spaces[0], destination=operation.spaces[1], mechanism=taken.candidate.mechanism or "moves",
                        engine=taken.candidate.engine or machine.main_engine)  # fmt: skip
    ends = ((path.source, operation.spaces[0]), (path.destination, operation.spaces[1]))
    wrong = next((f"it goes from {path.source} to {path.destination}" for end, space in ends if end not in ("*", space)), None)
    wrong = wrong or _unfit(path, copy, facts)
    if wrong is not None:
        reason = f"its candidate {taken.candidate.name} of the hook candidates cannot execute the {operation.text}: {wrong}"
        raise catalogue.E703.error(name=machine.name, reason=reason)
    return path


def _unfit(path: CopyPath, copy: Copy, facts: LaunchFacts) -> str | None:
    if not path.casts and copy.src.buffer.dtype != copy.dst.buffer.dtype:
        return f"cannot convert {copy.src.buffer.dtype} to {copy.dst.buffer.dtype}"
    for region in (copy.src, copy.dst):
        buffer = region.buffer
        if buffer.root.space != "global":
            continue
        if (
            path.fills_out_of_bounds
            and region is copy.src
            and any(safe.buffer.root is buffer.root and constant_value(safe.value) != 0 for safe in facts.launch.safe_values)
        ):
            return f"fills with zeros, and {buffer.name} has another safe value"
        reason = _of_another_shape(region, path, facts)
        if reason is None and path.alignment > 1:
            reason = _misaligned(region, path, facts)
        if reason is not None:
            return reason
    return None


def _of_another_shape(region: Region, path: CopyPath, facts: LaunchFacts) -> str | None:
    """Why a path does not take regions of so many dimensions, those of one element left out, or rows that lie so far apart."""
    buffer = region.buffer
    wide = [dimension for dimension, extent in enumerate(region.extents) if constant_value(extent) != 1]
    if path.ranks is not None and not path.ranks[0] <= max(len(wide), 1) <= path.ranks[1]:
        return f"takes regions of {path.ranks[0]} to {path.ranks[1]} dimensions, that of {buffer.name} has {max(len(wide), 1)}"
    if path.largest_stride is None:
        return None
    strides = element_strides(buffer, facts) or []
    for dimension in wide:
        stride = strides[dimension].constant
        if stride is None:
            return f"takes pitches of up to {path.largest_stride} bytes, one of {buffer.name} is known at run time only"
        if abs(stride) * buffer.dtype.storage_bits > 8 * path.largest_stride:
            return f"takes pitches of up to {path.largest_stride} bytes, {buffer.name} has a larger one"
    return None


def _misaligned(region: Region, path: CopyPath, facts: LaunchFacts) -> str | None:
    """Why the addresses or the pitch of a global region do not suit a path: both must be multiples for every value of the variables."""
    buffer = region.buffer
    bits = buffer.dtype.storage_bits
    strides = element_strides(buffer, facts)
    if strides is None or strides[-1].constant != 1:
        return f"needs rows of {buffer.name} whose elements are next to each other"
    for dimension, stride in enumerate(strides[:-1]):
        if constant_value(region.extents[dimension]) == 1 and divides(facts.scope, stride, path.alignment * 8, bits):
            continue
        if not divides(facts.scope, stride, path.alignment * 8, bits):
            return f"needs a pitch of {buffer.name} that is a multiple of {path.alignment} bytes"
    if not divides(facts.scope, facts.scope.form(region.offsets[-1]), path.alignment * 8, bits):
        return f"needs columns of {buffer.name} that begin at multiples of {path.alignment} bytes"
    if not divides(facts.scope, facts.scope.form(region.extents[-1]), path.granule * 8, bits):
        return f"moves rows of multiples of {path.granule} bytes"
    return None


def element_strides(buffer: Buffer, facts: LaunchFacts) -> list[Form] | None:
    """The strides in elements, as written or of the dense shape."""
    if buffer.strides is not None:
        return [facts.scope.form(s) for s in buffer.strides]
    strides = [Form.of(1)]
    for extent in reversed(buffer.shape[1:]):
        strides.insert(0, strides[0] * facts.scope.form(extent))
    return strides if buffer.shape else None


def divides(scope: Scope, form: Form, multiple_bits: int, element_bits: int) -> bool:
    """Whether ``form`` elements of ``element_bits`` are a multiple of ``multiple_bits`` whatever the values of its atoms."""
    return scope.multiple_of(form) * element_bits % multiple_bits == 0
