"""Mistakes that published kernels have and that no rule of the language forbids.

In: a verified kernel whose outputs are known. Out: diagnostics among E280 to E296: an error where the kernel cannot
be meant so, a warning where it may. Each looks for one shape of mistake and is silent where it is not sure:

* E280: an output that no statement writes;
* E281: elements of a written tensor that no block writes (:mod:`zellige.analysis.lint_coverage`);
* E294: a last part of a tile of an input that no loop reads (the same module);
* E282: a tile that a product adds to in every iteration of a loop, that each iteration uses as if it were new, and that no
  iteration clears: the attention score tile;
* E283: the result of an exponential rounded to 16 bits and then used for something else than a product;
* E285: an access that is always outside of its buffer (:mod:`zellige.analysis.lint_bounds`);
* E295: tiles at another place than is counted (:mod:`zellige.analysis.lint_tiles`);
* E286 and E289: see :mod:`zellige.analysis.lint_undefined`; E287: :mod:`zellige.analysis.lint_storage`; E293:
  :mod:`zellige.analysis.lint_loops`; E296: :mod:`zellige.analysis.lint_races`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from zellige.analysis.intervals import Interval, interval
from zellige.analysis.lint_bounds import outside
from zellige.analysis.lint_coverage import Missing, Names, Write, dropped_tail, missing
from zellige.analysis.lint_loops import sums_begun_anew
from zellige.analysis.lint_races import shared_elements
from zellige.analysis.lint_storage import overrun_tiles
from zellige.analysis.lint_tiles import Creeping, creeping, exchanged, told_creeping
from zellige.analysis.lint_undefined import accumulated_outputs, undefined_tiles
from zellige.diagnostics import Diagnostic, catalogue
from zellige.ir.expr import Binary, Buffer, Cast, Const, Expr, Load, Math, Node, Var
from zellige.ir.sizes import size_vars
from zellige.ir.stmt import (
    Assign,
    Bind,
    Copy,
    Dialect,
    Fill,
    For,
    Gemm,
    Kernel,
    Launch,
    Map,
    Reduce,
    Scan,
    Stmt,
    StmtNode,
    Store,
    TensorParam,
    While,
)
from zellige.ir.traverse import loads_in, walk
from zellige.records import dataclass

_SAMPLES: Final = (4096, 10007)
"""Values tried for symbolic sizes: a grid that is too small for both is too small."""

_EXPONENTIALS: Final = frozenset(("exp", "exp2", "exp10", "expm1"))


def lint(kernel: Kernel) -> list[Diagnostic]:
    """Everything found: first what concerns outputs and whole tensors, then what concerns the statements of each launch."""
    accesses = _Accesses.of(kernel, {})
    tried = _tried(kernel, accesses)
    found = [*_unwritten_outputs(kernel, accesses), *_uncovered(kernel, tried), *_unread(kernel, accesses)]
    found.extend(_creeping(kernel, tried))
    for launch in kernel.launches:
        found.extend(_uncleared(launch))
        found.extend(_narrowed(launch))
    found.extend(outside(kernel, lambda launch: _with_ranges(launch.body, _launch_ranges(launch, {}))))
    told = {d.span for d in found if d.code == catalogue.E282.id}
    undefined = [d for d in undefined_tiles(kernel) if d.span not in told]
    found.extend(exchanged(kernel))
    return [*found, *accumulated_outputs(kernel), *overrun_tiles(kernel), *undefined, *sums_begun_anew(kernel), *shared_elements(kernel)]


# ---- what is read and written


@dataclass(frozen=True, slots=True)
class _Accesses:
    """Writes of each buffer with the ranges of the variables around them, the buffers that are read, and those that a plugin's operation
    or another view writes."""

    writes: dict[Buffer, list[Write]]
    reads: dict[Buffer, list[Write]]
    read: frozenset[Buffer]
    opaque: frozenset[Buffer]

    @classmethod
    def of(cls, kernel: Kernel, sizes: dict[Var, Interval]) -> _Accesses:
        writes: dict[Buffer, list[Write]] = {}
        reads: dict[Buffer, list[Write]] = {}
        read: set[Buffer] = set()
        opaque: set[Buffer] = set()
        for launch in kernel.launches:
            ranges = _launch_ranges(launch, sizes)
            names = Names(launch.grid_vars)
            for statement, around in _with_ranges(launch.body, ranges):
                names.note(statement, around)
                for region in statement.reads():
                    read.add(region.buffer.root)
                    if region.buffer.space == "global":
                        reads.setdefault(region.buffer, []).append(Write(region, around, names, statement.span))
                for region in statement.writes():
                    root = region.buffer.root
                    if root is not region.buffer or isinstance(statement, Dialect):
                        opaque.add(root)
                    writes.setdefault(root, []).append(Write(region, around, names, statement.span))
        return cls(writes, reads, frozenset(read), frozenset(opaque))


def _launch_ranges(launch: Launch, sizes: dict[Var, Interval]) -> dict[Var, Interval]:
    """The values of the block and lane variables."""
    counted = [*zip(launch.grid_vars, launch.grid), *zip(launch.lane_vars, launch.threads or ())]
    return sizes | {var: Interval(0, _less_one(interval(extent, sizes).high)) for var, extent in counted}


def _range(start: Expr, stop: Expr, ranges: dict[Var, Interval]) -> Interval:
    """The values of a variable that counts from ``start`` up to ``stop``."""
    low, high = interval(start, ranges).low, interval(stop, ranges).high
    return Interval(low, None if high is None else high - 1)


def _with_ranges(body: tuple[Stmt, ...], ranges: dict[Var, Interval]) -> Iterator[tuple[StmtNode, dict[Var, Interval]]]:
    """Every statement under ``body`` with the ranges of the variables that it sees."""
    pending: list[tuple[tuple[Stmt, ...], dict[Var, Interval]]] = [(body, ranges)]
    while pending:
        statements, known = pending.pop()
        seen = dict(known)
        for statement in statements:
            inner = seen
            match statement:
                case Bind() if not statement.var.is_mutable and statement.var.dtype.is_integer:
                    seen[statement.var] = interval(statement.value, seen)
                case For():
                    inner = {**seen, statement.var: _loop_range(statement, seen)}
                case Map():
                    axes = {v: Interval(0, _less_one(interval(e, seen).high)) for v, e in zip(statement.axes, statement.extents)}
                    inner = {**seen, **axes}
                case _:
                    pass
            yield statement, seen
            for name in type(statement).BODIES:
                pending.append((getattr(statement, name), inner))


def _less_one(value: int | None) -> int | None:
    return None if value is None else value - 1


def _loop_range(loop: For, ranges: dict[Var, Interval]) -> Interval:
    step = loop.step.value if isinstance(loop.step, Const) else None
    if step is None:
        return Interval()
    if step > 0:
        return _range(loop.start, loop.stop, ranges)
    low = interval(loop.stop, ranges).low
    return Interval(None if low is None else low + 1, interval(loop.start, ranges).high)


# ---- outputs


def _unwritten_outputs(kernel: Kernel, accesses: _Accesses) -> Iterator[Diagnostic]:
    for index in kernel.results:
        param = kernel.params[index]
        if not isinstance(param, TensorParam) or param.buffer in accesses.writes:
            continue
        is_read = param.buffer in accesses.read
        yield catalogue.E280.diagnose(
            param.buffer.span or kernel.span,
            name=param.buffer.label,
            does="only reads it" if is_read else "never writes it",
            severity="error" if is_read else "warning",
        )


def _tried(kernel: Kernel, accesses: _Accesses) -> list[tuple[dict[Var, Interval], _Accesses]]:
    """Values of the symbolic sizes, each with what the kernel accesses under them; ``accesses`` where there are none."""
    names = size_vars(kernel)
    samples = [{var: Interval(value, value) for var in names} for value in _SAMPLES] if names else []
    return [(sizes, _Accesses.of(kernel, sizes)) for sizes in samples] or [({}, accesses)]


def _uncovered(kernel: Kernel, tried: list[tuple[dict[Var, Interval], _Accesses]]) -> Iterator[Diagnostic]:
    """Tensors of which the blocks write a part: what is missing for all sizes tried is missing."""
    names = size_vars(kernel)
    for param in kernel.params:
        if not isinstance(param, TensorParam) or param.role == "workspace":
            continue
        found = [_missing_of(param, known, sizes) for sizes, known in tried]
        if all(found) and found[0] is not None:
            yield _told(param.buffer, found[0], names)


def _unread(kernel: Kernel, accesses: _Accesses) -> Iterator[Diagnostic]:
    """Tensors of fixed size that loops read but for a last part of a tile. A view of one may read what is missing."""
    views = {buffer.root for buffer in accesses.reads if buffer.root is not buffer}
    for param in kernel.params:
        if not isinstance(param, TensorParam) or param.buffer in accesses.writes or param.buffer in views:
            continue
        shape = [int(size.value) for size in param.buffer.shape if isinstance(size, Const)]
        reads = accesses.reads.get(param.buffer, [])
        found = dropped_tail(reads, shape) if reads and len(shape) == param.buffer.rank else None
        if found is not None and found.axis is not None:
            yield catalogue.E294.diagnose(
                found.span,
                read=found.written,
                name=param.buffer.label,
                shape="(" + ", ".join(map(str, shape)) + ")",
                size=shape[found.axis],
                tile=found.tile,
                severity="warning",
            )


def _creeping(kernel: Kernel, tried: list[tuple[dict[Var, Interval], _Accesses]]) -> Iterator[Diagnostic]:
    """Tensors that are read tile by tile with steps of one element, whatever the sizes."""
    views = {buffer.root for _, accesses in tried for buffer in accesses.reads if buffer.root is not buffer}
    for param in kernel.params:
        if not isinstance(param, TensorParam) or param.buffer in views:
            continue
        found = [_creeping_in(param.buffer, accesses, sizes) for sizes, accesses in tried]
        if found[0] is not None and all(found):
            yield told_creeping(param.buffer, found[0])


def _creeping_in(buffer: Buffer, accesses: _Accesses, sizes: dict[Var, Interval]) -> Creeping | None:
    shape = [interval(size, sizes).high for size in buffer.shape]
    known = [size for size in shape if size is not None]
    reads = accesses.reads.get(buffer, [])
    return creeping(reads, known) if reads and len(known) == len(shape) else None


def _missing_of(param: TensorParam, accesses: _Accesses, sizes: dict[Var, Interval]) -> Missing | None:
    buffer = param.buffer
    is_output = param.role == "output"
    shape = [interval(size, sizes).high for size in buffer.shape]
    known = [size for size in shape if size is not None]
    if buffer not in accesses.writes or buffer in accesses.opaque or len(known) < len(shape):
        return None
    if not is_output and buffer in accesses.read:
        return None
    return missing(accesses.writes[buffer], known, is_output=is_output, is_sample=bool(sizes))


def _told(buffer: Buffer, found: Missing, names: tuple[Var, ...]) -> Diagnostic:
    sizes = buffer.shape if found.axis is None else buffer.shape[found.axis : found.axis + 1]
    given = ", ".join(f"{var.label} = {_SAMPLES[0]}" for var in names if any(n is var for size in sizes for n in walk(size)))
    size = "..." if found.axis is None else _shown(buffer.shape[found.axis])
    hint: str | None = None
    if found.axis is None:
        hint = "every element needs a block that writes it: check the grid, and where the tile of a block begins along each dimension"
    elif found.step:
        hint = f"tiles begin {found.step} apart along dimension {found.axis} and are written {found.tile} long: make both the same"
    return catalogue.E281.diagnose(
        found.span,
        written=found.written + (f" when {given}" if given else ""),
        name=buffer.label,
        shape="(" + ", ".join(_shown(e) for e in buffer.shape) + ")",
        size=size,
        tile=found.tile,
        axis=found.axis,
        severity="warning",
        hint=hint,
    )


def _shown(size: Expr) -> str:
    return str(size.value) if isinstance(size, Const) else size.label if isinstance(size, Var) else "..."


# ---- products


def _uncleared(launch: Launch) -> Iterator[Diagnostic]:
    """Tiles that a loop's product adds to, that its iterations use as new, and that none of them clears."""
    reported: set[Buffer] = set()
    for loop in walk(launch):
        if not isinstance(loop, (For, While)):
            continue
        statements = [s for part in loop.body for s in walk(part) if isinstance(s, StmtNode)]
        for product in statements:
            if not isinstance(product, Gemm) or not isinstance(product.clear, Const) or product.clear.value:
                continue
            tile = product.c.buffer.root
            if tile.space == "global" or tile in reported or _is_cleared(tile, statements) or not _is_used_as_new(tile, statements):
                continue
            reported.add(tile)
            yield catalogue.E282.diagnose(product.span, name=tile.label, severity="warning")


def _is_cleared(tile: Buffer, statements: list[StmtNode]) -> bool:
    for statement in statements:
        match statement:
            case Fill() | Copy() if statement.dst.buffer.root is tile:
                return True
            case Gemm() if statement.c.buffer.root is tile and not (isinstance(statement.clear, Const) and not statement.clear.value):
                return True
            case Store() if statement.buffer.root is tile and all(load.buffer.root is not tile for load in loads_in(statement)):
                return True
            case _:
                pass
    return False


def _is_used_as_new(tile: Buffer, statements: list[StmtNode]) -> bool:
    """Whether an iteration reduces the tile, takes exponentials of it, or replaces it by anything but a multiple of itself
    and what is added to that."""
    for statement in statements:
        if isinstance(statement, (Reduce, Scan)) and statement.src.buffer.root is tile:
            return True
        if not isinstance(statement, (Store, Bind, Assign)):
            continue
        if any(_reads(n, tile) for n in walk(statement.value) if isinstance(n, Math) and n.function in _EXPONENTIALS):
            return True
        if isinstance(statement, Store) and statement.buffer.root is tile and _reads(statement.value, tile):
            if not _is_multiple(statement.value, tile):
                return True
    return False


def _reads(expr: Node, buffer: Buffer) -> bool:
    return any(isinstance(n, Load) and n.buffer.root is buffer for n in walk(expr))


def _is_multiple(expr: Expr, tile: Buffer) -> bool:
    """Whether ``expr`` is an element of the tile times or divided by something, or with something added: the rescaling of a running
    accumulator, or another term of its sum."""
    while True:
        if isinstance(expr, Cast):
            expr = expr.value
        elif isinstance(expr, Binary) and expr.op in ("mul", "truediv"):
            if _reads(expr.left, tile):
                expr = expr.left
            elif expr.op == "mul":
                expr = expr.right
            else:
                return False
        elif isinstance(expr, Binary) and expr.op == "add" and _reads(expr.left, tile) != _reads(expr.right, tile):
            expr = expr.left if _reads(expr.left, tile) else expr.right
        else:
            return isinstance(expr, Load) and expr.buffer.root is tile


# ---- precision


def _narrowed(launch: Launch) -> Iterator[Diagnostic]:
    """Tiles of 16-bit floats that receive exponentials and are then read by something else than a product."""
    reported: set[Buffer] = set()
    pending: list[tuple[Stmt, ...]] = [launch.body]
    while pending:
        body = pending.pop()
        for position, statement in enumerate(body):
            pending.extend(getattr(statement, name) for name in type(statement).BODIES)
            for store in _exponential_stores(statement):
                tile = store.buffer.root
                if tile in reported or tile.space == "global":
                    continue
                use = _use_after(tile, body[position + 1 :])
                if use is not None:
                    reported.add(tile)
                    yield catalogue.E283.diagnose(use.span, name=tile.label, dtype=tile.dtype, severity="warning")


def _exponential_stores(statement: Stmt) -> Iterator[Store]:
    """Stores under ``statement`` that round an exponential, or the value of a name that holds one, to 16 bits."""
    held: set[Var] = set()
    for node in walk(statement):
        if isinstance(node, (Bind, Assign)) and _has_exponential(node.value, held):
            held.add(node.var)
        if isinstance(node, Store) and node.buffer.dtype.is_float and node.buffer.dtype.bits == 16 and _has_exponential(node.value, held):
            yield node


def _has_exponential(expr: Expr, held: set[Var]) -> bool:
    return any((isinstance(n, Math) and n.function in _EXPONENTIALS) or (isinstance(n, Var) and n in held) for n in walk(expr))


def _use_after(tile: Buffer, statements: tuple[Stmt, ...]) -> StmtNode | None:
    """The first statement that reads the tile for something else than a product's operand or a copy, until the tile is overwritten."""
    for statement in statements:
        for node in walk(statement):
            if not isinstance(node, StmtNode):
                continue
            match node:
                case Gemm() | Copy():
                    continue
                case _:
                    if any(region.buffer.root is tile for region in node.reads()):
                        return node
        if isinstance(statement, (Fill, Copy)) and statement.dst.buffer.root is tile:
            return None
        if isinstance(statement, Gemm) and statement.c.buffer.root is tile:
            return None
    return None
