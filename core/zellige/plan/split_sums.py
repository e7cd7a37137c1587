"""A sum over many steps in parts that blocks of their own compute: :class:`SplitSums`, a strategy that a user asks for.

In: a kernel whose launches fill accumulators with zeros, add products to them in a loop and use the sums. Out: one in which so many blocks
as there are parts share the steps of each tile's loop, write their sums to a workspace, and a second launch adds those, part after part,
and goes on with what the kernel did with the sum. E304 where a launch is not of that form.

A launch with few tiles and many steps keeps few processors at work; in parts it keeps more. It is never done unasked: the terms of a sum
are then added in another order, which is another result in floating point. Where the parts begin follows from the number of steps and of
parts alone, so stages, roles and targets change no bit of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import ClassVar, Final

from zellige.diagnostics import catalogue
from zellige.ir.expr import INT32, Binary, Buffer, Const, Expr, Load, Region, Var, constant_value
from zellige.ir.lanes import has_lane_code
from zellige.ir.naming import unused_name
from zellige.ir.stmt import (
    Alloc,
    Assign,
    Atomic,
    AtomicTile,
    Bind,
    Copy,
    Dialect,
    Fill,
    For,
    Gemm,
    Kernel,
    Launch,
    Map,
    Persistent,
    Print,
    Return,
    Serial,
    Stmt,
    Store,
    TensorParam,
    is_whole,
    whole,
)
from zellige.ir.traverse import buffers_in, own_tiles, rebuilt, substitute, walk
from zellige.plan.capabilities import Machine
from zellige.plan.draft import Decisions
from zellige.plan.facts import LaunchFacts, bytes_of, statements_in
from zellige.records import dataclass

QUESTION: Final = "is the sum over the steps of a tile split?"

_ONCE_A_BLOCK: Final[dict[type, str]] = {
    Atomic: "its atomic operations", AtomicTile: "its atomic operations", Dialect: "its operations of one target",
    Return: "its return", Print: "its print",
}  # fmt: skip

FEWEST_STEPS: Final = 4
"""Steps that a part should have, so that its loop is longer than what stands around it."""

MOST: Final = 64
"""Parts at most: the second launch reads all of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitSums:
    """``jit(schedule=SplitSums(parts=n))``: the steps of each tile's sum are shared by ``n`` blocks, 2 to 64. The parts are added in their
    order by a second launch. E304: a launch without such a sum; E245: another number of parts.
    """

    parts: int
    changes_parameters: ClassVar[bool] = True
    """The kernel gets a workspace, so it is changed as it was written, before anything reads its parameters."""

    def __post_init__(self) -> None:
        if not isinstance(self.parts, int) or isinstance(self.parts, bool) or not 2 <= self.parts <= MOST:
            hint = f"SplitSums takes a number of parts from 2 to {MOST}"
            raise catalogue.E245.error(wanted=f"a Python int from 2 to {MOST}", given=f"{self.parts!r} as parts of a sum", hint=hint)

    @property
    def name(self) -> str:
        """What messages call the pass."""
        return f"sums in {self.parts} parts"

    def __call__(self, kernel: Kernel) -> Kernel:
        """The kernel with two launches instead of each."""
        launches: list[Launch] = []
        params = list(kernel.params)
        taken = {p.buffer.name if isinstance(p, TensorParam) else p.var.name for p in params}
        for launch in kernel.launches:
            found = sum_of(kernel, launch)
            if isinstance(found, str):
                raise catalogue.E304.error(launch.span, reason=found)
            spaces = [_workspace(launch, buffer, self.parts, taken) for buffer in found.sums]
            params += [TensorParam(buffer=buffer, role="workspace") for buffer in spaces]
            launches += [_parts(launch, found, spaces, self.parts), _added(launch, found, spaces, self.parts)]
        return rebuilt(kernel, params=tuple(params), launches=tuple(launches))


@dataclass(frozen=True, slots=True, kw_only=True)
class Sum:
    """The parts of a launch's body: what stands before the loop of the sum, the loop, what follows; ``sums`` are the accumulators."""

    before: tuple[Stmt, ...]
    loop: For
    after: tuple[Stmt, ...]
    sums: tuple[Buffer, ...]


def sum_of(kernel: Kernel, launch: Launch) -> Sum | str:
    """The sum of a launch, or the reason why its steps cannot be shared by several blocks."""
    reason = _why_not_at_all(launch)
    if reason is not None:
        return reason
    loops = [s for s in launch.body if isinstance(s, For) and any(isinstance(n, Gemm) for n in s.body)]
    if len(loops) != 1:
        return f"it has {len(loops)} loops of products" if loops else "it has no loop of products"
    (loop,) = loops
    place = launch.body.index(loop)
    before, after = launch.body[:place], launch.body[place + 1 :]
    if isinstance(loop.kind, Persistent) or constant_value(loop.step) != 1 or constant_value(loop.start) != 0:
        return "its loop does not count from 0 in steps of 1"
    facts = LaunchFacts(kernel, launch)
    sums = tuple(dict.fromkeys(s.c.buffer.root for s in statements_in(loop.body) if isinstance(s, Gemm)))
    reason = _why_not_added(facts, loop, sums) or _why_not_begun(facts, before, sums) or _why_not_used(facts, loop, after, sums)
    return reason if reason is not None else Sum(before=before, loop=loop, after=after, sums=sums)


def _why_not_at_all(launch: Launch) -> str | None:
    if len(launch.grid) > 2:
        return "its grid has three dimensions, and the parts need one"
    if has_lane_code(launch):
        return "its author programs the lanes"
    if launch.cluster is not None:
        return "its blocks form clusters"
    if any(isinstance(n, Var) and n.kind not in ("size", "value") for extent in launch.grid for n in walk(extent)):
        return "its grid is not known from the sizes of tensors"
    for statement in statements_in(launch.body):
        word = _ONCE_A_BLOCK.get(type(statement))
        if word is not None:
            return f"every part of a block would have {word}"
    return None


def _why_not_added(facts: LaunchFacts, loop: For, sums: tuple[Buffer, ...]) -> str | None:
    """Why the steps of the loop do more than add to the sums."""
    for statement in statements_in(loop.body):
        if isinstance(statement, Assign):
            return f"a step needs {statement.var.name} from the step before"
        if isinstance(statement, Gemm) and constant_value(statement.clear) is not False:
            return f"a product of the loop clears {statement.c.buffer.name}"
    for statement in loop.body:
        touched = facts.roots(statement) & set(sums)
        if touched and not isinstance(statement, Gemm):
            return f"the loop does more with {min(b.name for b in touched)} than add products"
        if isinstance(statement, Gemm) and {statement.a.buffer.root, statement.b.buffer.root} & set(sums):
            return "a product takes a sum as an operand"
    held: set[Buffer] = set()
    for statement in loop.body:
        for root in facts.roots(statement):
            if root in sums or root in held or root not in facts.written(loop):
                continue
            if root.space == "global":
                return f"a step writes {root.name}"
            if not (facts.kills(statement, root) or (isinstance(statement, Alloc) and statement.buffer.root is root)):
                return f"a step needs what the step before left in {root.name}"
            held.add(root)
    return None


def _why_not_begun(facts: LaunchFacts, before: Sequence[Stmt], sums: tuple[Buffer, ...]) -> str | None:
    """Why a part does not begin with zeros, or what stands before would be done by every part."""
    zeros: set[Buffer] = set()
    for statement in before:
        written = facts.written(statement)
        if any(root.space == "global" for root in written):
            return f"what stands before the loop writes {min(root.name for root in written)}"
        for root in written & set(sums):
            is_zero = isinstance(statement, Fill) and constant_value(statement.value) == 0 and is_whole(statement.dst)
            if not is_zero:
                return f"{root.name} begins with something else than zeros"
            zeros.add(root)
    missing = [root.name for root in sums if root not in zeros]
    return f"{missing[0]} is not filled with zeros before the loop" if missing else None


def _why_not_used(facts: LaunchFacts, loop: For, after: Sequence[Stmt], sums: tuple[Buffer, ...]) -> str | None:
    """Why what follows the loop needs more of it than the sums."""
    for root in sums:
        if any(constant_value(extent) is None for extent in root.shape):
            return f"{root.name} has a size that is not constant"
    own = {s.var for s in statements_in(loop.body) if isinstance(s, Bind)} | {loop.var}
    for statement in after:
        used = facts.used(statement) & own
        if used:
            return f"what follows needs {min(v.name for v in used)} of the last step"
        left = (facts.read(statement) & facts.written(loop)) - set(sums)
        if left:
            return f"what follows needs what the last step left in {min(root.name for root in left)}"
    return None


# ---- the two launches -------------------------------------------------------------------------------------------------------


def _workspace(launch: Launch, buffer: Buffer, parts: int, taken: set[str]) -> Buffer:
    name = unused_name(f"{buffer.name}_parts", taken)
    return Buffer(name=name, dtype=buffer.dtype, shape=(Const(value=parts, dtype=INT32), *launch.grid, *buffer.shape), span=launch.span)


def _region(workspace: Buffer, buffer: Buffer, part: Expr, blocks: Sequence[Expr]) -> Region:
    ones = [Const(value=1, dtype=INT32)] * (1 + len(blocks))
    zeros = [Const(value=0, dtype=INT32)] * len(buffer.shape)
    return Region(buffer=workspace, offsets=(part, *blocks, *zeros), extents=(*ones, *buffer.shape))


def _parts(launch: Launch, found: Sum, spaces: Sequence[Buffer], parts: int) -> Launch:
    """The steps from ``part * length`` on, as many as ``length``, for each part."""
    loop, dtype = found.loop, found.loop.var.dtype
    part = Var(name="part", dtype=INT32, kind="grid")
    length = Var(name="steps", dtype=dtype, kind="value")
    number = Const(value=parts, dtype=dtype)
    rounded = Binary(op="add", left=loop.stop, right=Const(value=parts - 1, dtype=dtype))
    first = Binary(op="mul", left=part, right=length)
    last = Binary(op="min", left=loop.stop, right=Binary(op="add", left=first, right=length))
    body = (
        *found.before, Bind(var=length, value=Binary(op="floordiv", left=rounded, right=number), span=loop.span),
        rebuilt(loop, start=first, stop=last),
        *(
            Copy(src=whole(b), dst=_region(w, b, part, launch.grid_vars), span=loop.span)
            for b, w in zip(found.sums, spaces)
        ),
    )  # fmt: skip
    grid = (*launch.grid, Const(value=parts, dtype=INT32))
    return _fresh(rebuilt(launch, grid_vars=(*launch.grid_vars, part), grid=grid, body=body))


def _added(launch: Launch, found: Sum, spaces: Sequence[Buffer], parts: int) -> Launch:
    """The sums of the parts, one after the other, and what followed the loop."""
    body: list[Stmt] = list(found.before)
    for buffer, workspace in zip(found.sums, spaces):
        zero, one = Const(value=0, dtype=INT32), Const(value=1, dtype=INT32)
        part = Var(name="part", dtype=INT32, kind="loop")
        axes = tuple(Var(name=f"i{d}", dtype=INT32, kind="loop") for d in range(len(buffer.shape)))
        tile = Buffer(name=f"{buffer.name}_part", dtype=buffer.dtype, shape=buffer.shape, space=buffer.space, span=found.loop.span)
        value = Binary(op="add", left=Load(buffer=buffer, indices=axes), right=Load(buffer=tile, indices=axes))
        add = Map(axes=axes, extents=buffer.shape, body=(Store(buffer=buffer, indices=axes, value=value),), span=found.loop.span)
        take = Copy(src=_region(workspace, buffer, part, launch.grid_vars), dst=whole(tile), span=found.loop.span)
        first = Copy(src=_region(workspace, buffer, zero, launch.grid_vars), dst=whole(buffer), span=found.loop.span)
        stop = Const(value=parts, dtype=INT32)
        loop = For(var=part, start=one, stop=stop, step=one, kind=Serial(), body=(take, add), span=found.loop.span)
        body += [Alloc(buffer=tile, span=found.loop.span), first, loop]
    return _fresh(rebuilt(launch, body=(*body, *found.after)))


def _fresh(launch: Launch) -> Launch:
    """The launch with variables and tiles of its own."""
    bound = {v for s in statements_in(launch.body) for v in _bound(s)} | set(launch.grid_vars)
    names: dict[Var, Var] = {var: Var(name=var.name, dtype=var.dtype, kind=var.kind) for var in bound}
    return substitute(launch, names, own_tiles(buffers_in(launch)))


def _bound(statement: Stmt) -> tuple[Var, ...]:
    match statement:
        case For() | Bind():
            return (statement.var,)
        case Map():
            return statement.axes
        case _:
            return ()


# ---- what the planner says of it --------------------------------------------------------------------------------------------


def splits_of(kernel: Kernel, launch: Launch) -> tuple[int, int]:
    """How many blocks share the sum of a tile in the launch, and the bytes of the workspace that they write; 1 and 0 where none does."""
    own = {p.buffer for p in kernel.params if isinstance(p, TensorParam) and p.role == "workspace"}
    found: dict[Buffer, None] = {}
    parts = 1
    for statement in launch.body:
        if isinstance(statement, Copy) and statement.dst.buffer in own and launch.grid and statement.dst.offsets[0] is launch.grid_vars[-1]:
            count = constant_value(launch.grid[-1])
            if count is not None and constant_value(statement.dst.buffer.shape[0]) == count:
                parts, found[statement.dst.buffer] = int(count), None
    return parts, sum(bytes_of(buffer) or 0 for buffer in found)


def tell_splits(kernel: Kernel, launch: Launch, machine: Machine, decisions: Decisions) -> tuple[int, int]:
    """The parts of a sum and the bytes of their workspace; says so, and of a launch with few tiles and many steps what parts would
    bring."""
    parts, size = splits_of(kernel, launch)
    if parts > 1:
        decisions.take(
            QUESTION, f"into {parts} parts, {size} bytes of workspace", "it was asked for; the next launch adds the parts in their order",
            rejected=(("one sum a block", "the kernel or its schedule shares the steps of a tile"),),
        )  # fmt: skip
        return parts, size
    known = [constant_value(extent) for extent in launch.grid]
    workers = machine.capabilities.threads
    if None in known or workers < 2 or 2 * (cells := prod(int(extent or 0) for extent in known)) > workers or not cells:
        return parts, size
    found = sum_of(kernel, launch)
    if isinstance(found, str):
        return parts, size
    steps = constant_value(found.loop.stop)
    wanted = min(workers // cells, MOST, MOST if steps is None else int(steps) // FEWEST_STEPS)
    if wanted < 2:
        return parts, size
    needed = wanted * cells * sum(bytes_of(buffer) or 0 for buffer in found.sums)
    is_exact = all(buffer.dtype.is_integer for buffer in found.sums)
    order = "they would be added by a second launch" if is_exact else "their terms would be added in another order, which is another result"
    decisions.take(
        QUESTION, "no", f"{order}: it is done where it is asked for, by jit(schedule=zl.SplitSums(parts={wanted}))",
        rejected=((f"{wanted} parts, {needed} bytes of workspace", f"{cells} blocks leave most of {workers} without work, but {order}"),),
        where=found.loop.span,
    )  # fmt: skip
    return parts, size


