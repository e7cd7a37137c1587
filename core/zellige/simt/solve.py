"""Which elements of which fragment each lane holds.

In: a planned launch, the products and their warps. Out: :class:`Solution`: a distribution for every fragment that can live in registers,
the distribution of every Map and Reduce that registers decide, and the fragments that live in shared memory instead, with the reason.

Accumulators are fixed by the product that makes them. From them the distributions spread through Maps (a fragment whose indices are the
Map's axes) and reductions (the result is held by the lanes that hold the row). What is left, the largest first, gets the plain
distribution of its shape. A fragment used in a way that no lane could serve alone lives in shared memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field
from math import prod

from zellige.ir.expr import Buffer, Load, Region, constant_value
from zellige.ir.lanes import PRIVATE
from zellige.ir.stmt import (
    Alloc,
    Atomic,
    AtomicTile,
    Copy,
    Fill,
    Gemm,
    Map,
    Reduce,
    ReducerInit,
    ReducerUpdate,
    Scan,
    Stmt,
    StmtNode,
    Store,
    TileOperation,
    Transpose,
)
from zellige.ir.traverse import loads_in, walk
from zellige.passes import tile_operations
from zellige.plan.facts import STRUCTURE
from zellige.plan.nodes import PlannedLaunch
from zellige.records import dataclass
from zellige.simt.distribution import (
    Digit,
    Distribution,
    distribute,
    moved,
    reach,
)
from zellige.simt.elements import pattern_of, projected
from zellige.simt.statements import statements_of
from zellige.simt.warps import WarpTiling

FRAGMENT = "fragment"


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """A fragment in a Map: which axis each of its dimensions is."""

    buffer: Buffer
    pattern: tuple[int | None, ...]
    is_written: bool


@dataclass(slots=True, kw_only=True)
class MapUses:
    """A Map (or a tile operation written as one) and the fragments in it."""

    statement: Stmt
    map: Map
    extents: tuple[int, ...]
    uses: tuple[Use, ...]


@dataclass(slots=True, kw_only=True)
class Solution:
    """``maps`` by the identity of the statement."""

    distributions: dict[Buffer, Distribution] = field(default_factory=dict)
    maps: dict[int, Distribution] = field(default_factory=dict)
    as_maps: dict[int, Map] = field(default_factory=dict)
    shared: dict[Buffer, str] = field(default_factory=dict)


def as_map(statement: Stmt) -> Map | None:
    """A tile operation that is elementwise, as a Map; None for any other statement."""
    match statement:
        case Map():
            return statement
        case Copy() | Transpose():
            return tile_operations.copy_as_map(statement)
        case AtomicTile():
            return tile_operations.atomic_as_map(statement)
        case Fill():
            last = tile_operations.fill_as_map(statement)[-1]
            return last if isinstance(last, Map) else None
        case ReducerInit():
            last = tile_operations.fill_as_map(tile_operations.reducer_fill(statement))[-1]
            return last if isinstance(last, Map) else None
        case _:
            return None


class Solver:
    """Finds the distributions of one launch. ``tilings`` are those of the products that a form executes, by identity of the Gemm.
    ``are_warps_whole`` False: the block ends within a warp, and nothing is spread over registers."""

    def __init__(
        self, planned: PlannedLaunch, tilings: dict[int, WarpTiling], *, lanes: int, warps: int, are_warps_whole: bool = True
    ) -> None:
        self._are_warps_whole = are_warps_whole
        self._planned = planned
        self._tilings = tilings
        self._lanes = lanes
        self._warps = warps
        self._maps: list[MapUses] = []
        self._reductions: list[Reduce] = []
        self._shapes: dict[Buffer, tuple[int, ...]] = {}
        self._fixed: dict[Buffer, Distribution] = {}
        self.solution = Solution()

    def solve(self) -> Solution:
        statements = [s for role in self._planned.roles for s in statements_of(role.body)]
        self._collect(statements)
        while True:
            self._assign()
            wrong = self._conflicts()
            if wrong is None:
                break
            self._to_shared(*wrong)
        return self.solution

    # ---- what is there ----

    def _collect(self, statements: Sequence[StmtNode]) -> None:
        for statement in statements:
            for buffer in _fragments(statement):
                if buffer.root not in self._shapes:
                    extents = [constant_value(e) for e in buffer.root.shape]
                    self._shapes[buffer.root] = tuple(int(e or 0) for e in extents)
                if not self._are_warps_whole:
                    self._to_shared(buffer.root, "the block ends within a warp")
                if buffer.alias is not None:
                    self._to_shared(buffer.root, "it is seen in another shape or type")
        for statement in statements:
            self._statement(statement)

    def _statement(self, statement: StmtNode) -> None:
        if not self._planned.launch.lane_vars and _changes_private(statement):
            for buffer in _fragments(statement):
                self._to_shared(buffer.root, "every lane needs all of it for a tile of its own")
        if not isinstance(statement, Map):
            for load in loads_in(statement):  # an offset, the value of a fill, whether a product clears its result
                self._to_shared(load.buffer.root, "single elements of it are used by the whole block")
        match statement:
            case Gemm():
                self._gemm(statement)
            case Reduce():
                self._reduce(statement)
            case Scan():
                for region in (statement.src, statement.dst):
                    self._to_shared(region.buffer.root, "a scan runs along it")
            case _:
                written = as_map(statement)  # type: ignore[arg-type]
                if written is not None:
                    self.solution.as_maps[id(statement)] = written
                    self._map(statement, written)  # type: ignore[arg-type]
                    return
                for region in (*statement.reads(), *statement.writes()):
                    self._to_shared(region.buffer.root, "single elements of it are used by the whole block")

    def _gemm(self, gemm: Gemm) -> None:
        tiling = self._tilings.get(id(gemm))
        if tiling is None:
            written = tile_operations.gemm_as_map(gemm)[-1]
            assert isinstance(written, Map)
            self.solution.as_maps[id(gemm)] = written
            self._map(gemm, written)
            return
        root = gemm.c.buffer.root
        if root.space == FRAGMENT and root not in self.solution.shared:
            if not _is_whole(gemm.c):
                self._to_shared(root, "a product adds to a part of it")
            elif root not in self._fixed:
                self._fixed[root] = tiling.accumulator
        for region in (gemm.a, gemm.b):
            if region.buffer.root.space == FRAGMENT and not _is_whole(region):
                self._to_shared(region.buffer.root, "a part of it is an operand")

    def _reduce(self, reduce: Reduce) -> None:
        self._reductions.append(reduce)
        for region in (reduce.src, reduce.dst):
            if region.buffer.root.space == FRAGMENT and not _is_whole(region):
                self._to_shared(region.buffer.root, "a part of it is reduced")

    def _map(self, statement: Stmt, written: Map) -> None:
        extents = tuple(int(constant_value(e) or 0) for e in written.extents)
        uses: dict[tuple[Buffer, tuple[int | None, ...]], bool] = {}
        is_constant = all(isinstance(constant_value(e), int) for e in written.extents)
        inside = _made_inside(written)
        for node in walk(written):
            match node:
                case Load(buffer=buffer, indices=indices):
                    is_written = False
                case Store(buffer=buffer, indices=indices):
                    is_written = True
                case Atomic(buffer=buffer, indices=indices) | ReducerUpdate(buffer=buffer, indices=indices) if (
                    buffer.root.space == FRAGMENT
                ):
                    self._to_shared(buffer.root, "points of a T.Parallel change elements of it together")
                    continue
                case Region(buffer=buffer) if buffer.root.space == FRAGMENT and node is not None:
                    self._to_shared(buffer.root, "a tile operation inside a T.Parallel uses it")
                    continue
                case _:
                    continue
            root = buffer.root
            if root.space != FRAGMENT or root in inside or root in self.solution.shared:
                continue
            pattern = pattern_of(indices, self._shapes[root], written.axes) if is_constant else None
            if pattern is None:
                self._to_shared(root, "an index of it is not an axis of its T.Parallel")
                continue
            if is_written and any(a not in pattern for a, e in enumerate(extents) if e != 1):
                self._to_shared(root, "several points of a T.Parallel may write one element of it")
                continue
            uses[root, pattern] = uses.get((root, pattern), False) or is_written
        found = tuple(Use(buffer=b, pattern=p, is_written=w) for (b, p), w in uses.items())
        if found:
            self._maps.append(MapUses(statement=statement, map=written, extents=extents, uses=found))

    def _to_shared(self, root: Buffer, reason: str) -> None:
        if root.space == FRAGMENT:
            self.solution.shared.setdefault(root, reason)
            self._fixed.pop(root, None)

    # ---- spreading ----

    def _assign(self) -> None:
        found = dict(self._fixed)
        waiting = [b for b in self._shapes if b not in self.solution.shared and b not in found]
        waiting.sort(key=lambda b: -prod(self._shapes[b]))
        while True:
            while self._spread(found):
                pass
            left = [b for b in waiting if b not in found]
            if not left:
                break
            found[left[0]] = self._plain(left[0])
        self.solution.distributions = found

    def _plain(self, buffer: Buffer) -> Distribution:
        shape = self._shapes[buffer]
        vector = max(1, 16 // self._narrowest(buffer))
        last = shape[-1] if shape else 1
        while vector > 1 and (last % vector or prod(shape) // vector < self._lanes * self._warps):
            vector //= 2
        return distribute(shape or (1,), lanes=self._lanes, warps=self._warps, vector=vector)

    def _narrowest(self, buffer: Buffer) -> int:
        """Bytes of the narrowest element that moves between the fragment and a tensor: its accesses are to be wide."""
        sizes = [max(1, buffer.dtype.bytes)]
        for entry in self._maps:
            if any(use.buffer is buffer for use in entry.uses):
                accesses = (n for n in walk(entry.map) if isinstance(n, (Load, Store)))
                sizes += (max(1, n.buffer.dtype.bytes) for n in accesses if n.buffer.root.space == "global")
        return min(sizes)

    def _spread(self, found: dict[Buffer, Distribution]) -> bool:
        changed = False
        for entry in self._maps:
            distribution = self._of_map(entry, found)
            if distribution is None:
                continue
            for use in entry.uses:
                if use.buffer not in found and use.buffer not in self.solution.shared:
                    part = projected(distribution, use.pattern, self._shapes[use.buffer])
                    if _covers(part.digits, self._shapes[use.buffer]):
                        found[use.buffer] = part
                        changed = True
        for reduce in self._reductions:
            source, target = reduce.src.buffer.root, reduce.dst.buffer.root
            if source in found and target.space == FRAGMENT and target not in found and target not in self.solution.shared:
                made = result_of(found[source], reduce, self._shapes[target])
                if made is not None:
                    found[target] = made
                    changed = True
        return changed

    def _of_map(self, entry: MapUses, found: dict[Buffer, Distribution]) -> Distribution | None:
        """The distribution of a Map's points: that of a fragment that every axis is a dimension of, the largest first."""
        needed = {a for a, e in enumerate(entry.extents) if e != 1}
        best: Distribution | None = None
        size = -1
        for use in entry.uses:
            if use.buffer in found and use.buffer not in self.solution.shared and needed <= {a for a in use.pattern if a is not None}:
                if prod(self._shapes[use.buffer]) > size:
                    made = lifted(found[use.buffer], use.pattern, entry.extents)
                    if made is not None:
                        best, size = made, prod(self._shapes[use.buffer])
        return best

    # ---- what does not fit ----

    def _conflicts(self) -> tuple[Buffer, str] | None:
        """A fragment that must go to shared memory, and why; None where all agree. Settles the distributions of Maps on the way."""
        found = self.solution.distributions
        self.solution.maps.clear()
        for entry in self._maps:
            uses = [u for u in entry.uses if u.buffer not in self.solution.shared]
            if not uses:
                continue
            distribution = self._of_map(entry, found)
            if distribution is None:
                smallest = min(uses, key=lambda u: prod(self._shapes[u.buffer]))
                return smallest.buffer, "a T.Parallel reads it along more axes than it has"
            for use in sorted(uses, key=lambda u: prod(self._shapes[u.buffer])):
                made = projected(distribution, use.pattern, self._shapes[use.buffer])
                if made.digits != found[use.buffer].digits:
                    return use.buffer, "two operations need its elements on different lanes"
            if distribution.replicated and any(u.is_written for u in uses) and _has_result_of_atomic(entry.map):
                written = next(u for u in uses if u.is_written)
                return written.buffer, "it takes what an atomic operation returns, which one lane alone may ask for"
            if distribution.replicated and any(u.is_written for u in uses) and self._reads_what_it_changes(entry.map):
                written = next(u for u in uses if u.is_written)
                return written.buffer, "lanes with copies of it would read in memory what one of them has changed there"
            self.solution.maps[id(entry.statement)] = distribution
        return None

    def _reads_what_it_changes(self, written: Map) -> bool:
        """Whether a Map reads memory that lanes have in common and that it changes too."""
        nodes = list(walk(written))
        read = {node.buffer.root for node in nodes if isinstance(node, Load)}
        changed = {region.buffer.root for node in nodes if isinstance(node, StmtNode) for region in node.writes()}
        return any(r.space not in (*PRIVATE, FRAGMENT) or r in self.solution.shared for r in (read & changed) - _made_inside(written))


def _changes_private(statement: StmtNode) -> bool:
    """Whether a tile operation writes a tile that every lane has for itself."""
    if not isinstance(statement, TileOperation):
        return False
    inside = {node.buffer for node in walk(statement) if isinstance(node, Alloc)}
    written = {r.buffer.root for node in walk(statement) if isinstance(node, StmtNode) for r in node.writes()}
    return any(root.space in PRIVATE for root in written - inside)


def lifted(distribution: Distribution, pattern: Sequence[int | None], extents: Sequence[int]) -> Distribution | None:
    """The distribution of a Map's axes whose projection a buffer's is; None where the buffer's covers too little."""
    digits = moved(distribution.digits, pattern)
    return Distribution(shape=tuple(extents), digits=digits) if _covers(digits, extents) else None


def result_of(source: Distribution, reduce: Reduce, shape: Sequence[int]) -> Distribution | None:
    """Who holds the result of a reduction: the lanes that held the row, in each of them."""
    kept = [d for d in range(len(source.shape)) if d != reduce.axis]
    narrow = source.onto(kept)
    if len(shape) == len(source.shape) and shape[reduce.axis] == 1:
        return Distribution(shape=tuple(shape), digits=moved(narrow.digits, kept))
    if tuple(shape) == tuple(source.shape[d] for d in kept) or (len(shape) == len(kept) and _covers(narrow.digits, shape)):
        return Distribution(shape=tuple(shape), digits=narrow.digits)
    return None


def _covers(digits: Sequence[Digit], shape: Sequence[int]) -> bool:
    return all(reach(digits, dimension) >= extent for dimension, extent in enumerate(shape))


def _fragments(statement: StmtNode) -> Iterator[Buffer]:
    """The fragments that a statement names, nested statements of a branch or loop apart, which are asked themselves."""
    for node in walk(statement, bodies=not isinstance(statement, STRUCTURE)):
        buffer = getattr(node, "buffer", None)
        if isinstance(buffer, Buffer) and buffer.root.space == FRAGMENT:
            yield buffer


def _made_inside(written: Map) -> set[Buffer]:
    return {node.buffer for node in walk(written) if isinstance(node, Alloc)}


def _is_whole(region: Region) -> bool:
    """Whether the region is all of its (dense) buffer."""
    buffer = region.buffer
    return (
        buffer.alias is None
        and all(constant_value(o) == 0 for o in region.offsets)
        and all(constant_value(e) == constant_value(s) is not None for e, s in zip(region.extents, buffer.shape))
    )


def _has_result_of_atomic(written: Map) -> bool:
    return any(isinstance(node, Atomic) and node.result is not None for node in walk(written))
