"""Lane kernels as loops over the lanes: tile IR to tile IR without lanes, for machines that have none.

In: a launch with lane variables of constant extents, and the width of a warp. Out: a launch without, with the same meaning: stretches
of code that lanes may run one after the other become Maps over the lanes, everything that lanes do together stands between them.

- Control flow whose condition is the same in all lanes stays outside of the Maps where it holds something that ends a stretch.
- Control flow that differs between lanes stays inside; where something in it ends a stretch, masks take its place: an array says for each
  lane whether it takes part, a jump clears the lane's flag, a loop goes round while any lane is left in it.
- What a lane keeps from one stretch to the next (variables, local buffers) becomes an array with one entry a lane, in
  :mod:`zellige.passes.lane_stretches`.

A stretch ends at a barrier, at a shuffle or vote, at a collective operation, and where lanes may meet in memory
(:mod:`zellige.analysis.lane_hazards`), which is where a compiler for a machine with lanes would put a barrier.
"""

from __future__ import annotations

from collections.abc import Sequence

from zellige.analysis.bounds import Scope
from zellige.analysis.forms import ZERO
from zellige.analysis.lane_hazards import HazardSet, LaneSpace
from zellige.diagnostics import catalogue
from zellige.ir.expr import BOOL, INT64, Binary, Buffer, Compare, CompareOp, Const, Expr, Load, Region, Unary, Var, constant_value
from zellige.ir.lanes import PRIVATE, LaneDependence, is_collective, lane_dependence
from zellige.ir.stmt import (
    Alloc,
    Assign,
    Assume,
    Atomic,
    Barrier,
    Bind,
    Break,
    Continue,
    Copy,
    For,
    If,
    Launch,
    Map,
    Print,
    ReducerUpdate,
    Return,
    Shuffle,
    Stmt,
    Store,
    Vote,
    While,
    whole,
)
from zellige.ir.traverse import loads_in, rebuilt, walk
from zellige.passes.guarded_returns import with_structured_returns
from zellige.passes.lane_exchange import any_lane, shuffle_pieces, vote_pieces
from zellige.passes.lane_stretches import Branch, Lanes, Once, Piece, Repeat, Stretch, assemble
from zellige.records import dataclass


def expand_lanes(launch: Launch, *, warp: int, target: str) -> Launch:
    """The launch without lanes; itself where it has none. ``target`` is named when it cannot be done (E412, E446, E447)."""
    if not launch.lane_vars:
        return launch
    launch = with_structured_returns(launch)
    extents = [constant_value(extent) for extent in launch.threads or ()]
    if any(extent is None for extent in extents):
        raise catalogue.E412.error(launch.span, target=target)
    lanes = Lanes(launch.lane_vars, tuple(int(e) for e in extents if e is not None))
    expansion = _Expansion(launch, lanes, warp, target)
    pieces = expansion.launch_pieces()
    body = assemble(lanes, pieces, expansion.lifted)
    return rebuilt(launch, body=body, lane_vars=())


@dataclass(frozen=True, slots=True)
class _Loop:
    """A loop around the code at hand. A masked one has a mask of the lanes that are still in it and one of this iteration."""

    is_masked: bool
    outer_masks: int


class _Expansion:
    def __init__(self, launch: Launch, lanes: Lanes, warp: int, target: str) -> None:
        self._launch = launch
        self._lanes = lanes
        self._warp = warp
        self._target = target
        self._dependence: LaneDependence = lane_dependence(launch)
        scope = Scope()
        self._space = LaneSpace(
            lanes=tuple(zip(lanes.variables, lanes.extents)), scope=scope, is_lane_dependent=self._dependence.is_lane_dependent
        )
        self._pure: set[Var] = set()
        self.lifted: dict[Var, Expr] = {}
        """Variables that stand for index arithmetic, taken out of the program to be written again wherever they are needed."""
        self._declare(scope)

    def _declare(self, scope: Scope) -> None:
        """Ranges of lanes and loops, and the variables that stand for index arithmetic."""
        for lane, count in self._space.lanes:
            scope.add_variable(lane, ZERO, scope.form(Const(value=count - 1, dtype=INT64)))
        for var in self._launch.grid_vars:
            scope.add_variable(var, ZERO, None)
        for node in walk(self._launch):
            if isinstance(node, Var) and node.kind in ("size", "scalar") and not scope.is_index_variable(node):
                scope.add_parameter(node)
        for node in walk(self._launch):
            match node:
                case For():
                    low, high = constant_value(node.start), constant_value(node.stop)
                    known = low is not None and high is not None and (constant_value(node.step) or 0) > 0
                    first, last = (scope.form(node.start), scope.form(node.stop) - 1) if known else (None, None)
                    scope.add_variable(node.var, first, last)
                case Map():
                    for axis, extent in zip(node.axes, node.extents):
                        size = constant_value(extent)
                        scope.add_variable(axis, ZERO, None if size is None else scope.form(extent) - 1)
                case Bind() if not node.var.is_mutable and scope.define(node.var, node.value):
                    self._pure.add(node.var)
                case _:
                    pass

    # -- the whole launch -----------------------------------------------------------------------------------------------

    def launch_pieces(self) -> list[Piece]:
        body = self._launch.body
        if not self._has_divergent_return(body):
            return self._pieces(body, (), ())
        alive = self._lanes.array("alive", BOOL)
        start = Stretch([self._set(alive, True)])
        return [Once(Alloc(buffer=alive)), start, *self._pieces(body, (alive,), ())]

    def _has_divergent_return(self, body: Sequence[Stmt]) -> bool:
        """Whether some lanes may end before others."""
        pending: list[tuple[Stmt, bool]] = [(s, False) for s in body]
        while pending:
            statement, is_divergent = pending.pop()
            if isinstance(statement, Return) and is_divergent:
                return True
            inside = is_divergent or self._is_divergent(statement)
            pending.extend((s, inside) for name in type(statement).BODIES for s in getattr(statement, name))
        return False

    # -- what differs between lanes -------------------------------------------------------------------------------------

    def _depends(self, *expressions: Expr) -> bool:
        return self._dependence.differs(*expressions)

    def _is_divergent(self, statement: Stmt) -> bool:
        """Whether lanes may go different ways at this statement."""
        match statement:
            case If() | While():
                return self._depends(statement.condition)
            case For():
                return self._depends(statement.start, statement.stop, statement.step)
            case _:
                return False

    def _is_together(self, statement: Stmt) -> bool:
        """Whether the statement itself is done once for all lanes, or ends a stretch."""
        match statement:
            case Map():
                return not self._dependence.is_private(statement)
            case Barrier() | Shuffle() | Vote() | Print() | Return():
                return True
            case Bind() | Assign():
                return False
            case _:
                return is_collective(statement) and not self._dependence.is_private(statement)

    def _is_lane_code(self, statement: Stmt) -> bool:
        """Whether a lane can run the statement with everything in it by itself."""
        declared: set[Var] = set()
        for node in walk(statement):
            if isinstance(node, (Bind, For)):
                declared.add(node.var)
            elif isinstance(node, Atomic) and node.result is not None:
                declared.add(node.result)
        for node, is_in_map, has_loop in _statements_in(statement):
            if is_in_map:
                continue
            if self._is_together(node) or (isinstance(node, (Break, Continue)) and not has_loop):
                return False
            if isinstance(node, Assign) and node.var not in declared and not self._dependence.is_lane_dependent(node.var):
                return False
        return True

    def _is_once(self, statement: Stmt) -> bool:
        """Whether a simple statement concerns the block and not its lanes: it gives a variable that all lanes share its value."""
        match statement:
            case Bind() | Assign():
                return not self._dependence.is_lane_dependent(statement.var) and not self._depends(statement.value)
            case Alloc(buffer=buffer):
                return buffer.space not in PRIVATE
            case _:
                return False

    # -- pieces ---------------------------------------------------------------------------------------------------------

    def _pieces(self, body: Sequence[Stmt], masks: tuple[Buffer, ...], loops: tuple[_Loop, ...]) -> list[Piece]:
        """The body as pieces; ``masks`` are in force, the last one says which lanes take part."""
        pieces: list[Piece] = []
        stretch = Stretch([], masks[-1] if masks else None)
        hazards = HazardSet(self._space)
        pending = list(reversed(body))
        while pending:
            statement = pending.pop()
            if isinstance(statement, Bind) and statement.var in self._pure:
                self.lifted[statement.var] = statement.value
                continue
            if self._is_once(statement):
                if isinstance(statement, Alloc):
                    pieces.append(Once(statement))
                    continue
            elif self._is_lane_code(statement):
                if hazards.admits(statement):
                    stretch.statements.append(statement)
                    continue
                if stretch.statements:
                    pieces.append(stretch)
                    stretch, hazards = Stretch([], stretch.mask), HazardSet(self._space)
                    pending.append(statement)
                    continue
            if stretch.statements:
                pieces.append(stretch)
                stretch, hazards = Stretch([], stretch.mask), HazardSet(self._space)
            pieces.extend(self._alone(statement, masks, loops))
            last = pieces[-1] if pieces else None
            if isinstance(last, Stretch) and last.mask is stretch.mask and all(hazards.admits(s) for s in last.statements):
                stretch = last  # go on where the parts of the statement ended
                pieces.pop()
            else:
                hazards = HazardSet(self._space)
        if stretch.statements:
            pieces.append(stretch)
        return pieces

    def _alone(self, statement: Stmt, masks: tuple[Buffer, ...], loops: tuple[_Loop, ...]) -> list[Piece]:
        """One statement that no stretch takes as it is."""
        mask = masks[-1] if masks else None
        match statement:
            case _ if self._is_once(statement):
                return [Once(statement)]
            case Barrier(scope="warp" | "block"):
                return []
            case Barrier():
                raise catalogue.E447.error(statement.span, operation="a barrier", scope=statement.scope, target=self._target)
            case Shuffle():
                return shuffle_pieces(self._lanes, statement, mask, warp=self._warp, target=self._target)
            case Vote():
                is_shared = not self._dependence.is_lane_dependent(statement.result)
                return vote_pieces(self._lanes, statement, mask, warp=self._warp, target=self._target, is_shared=is_shared)
            case Print(value=Region() as region) if not self._is_private(region):
                return [Once(statement)]
            case Print():
                # an end of its own, so that all lanes print this before any prints the next
                return [Stretch(_printed_alone(statement), mask), Once(Assume(condition=Const(value=True, dtype=BOOL)))]
            case If():
                return self._if(statement, masks, loops)
            case For() if self._is_divergent(statement) or self._has_divergent_jump(statement):
                return self._masked_for(statement, masks, loops)
            case For():
                body = self._pieces(statement.body, masks, (*loops, _Loop(False, len(masks))))
                return [Repeat(statement, body)]
            case While() if self._is_divergent(statement) or self._has_divergent_jump(statement):
                return self._masked_while(statement, masks, loops)
            case While():
                body = self._pieces(statement.body, masks, (*loops, _Loop(False, len(masks))))
                return [Repeat(statement, body)]
            case Break() | Continue() | Return():
                return self._jump(statement, masks, loops)
            case Store() | Atomic() | ReducerUpdate() if self._reads_other_lanes(statement):
                return self._in_two_steps(statement, mask)
            case _ if self._is_together(statement):
                return [Once(statement)]
            case _:
                return [Stretch([statement], mask)]

    def _is_private(self, region: Region) -> bool:
        return region.buffer.root.space in PRIVATE or self._depends(*region.offsets, *region.extents)

    def _reads_other_lanes(self, statement: Store | Atomic | ReducerUpdate) -> bool:
        return statement.value is not None and any(load.buffer.root is statement.buffer.root for load in loads_in(statement))

    def _in_two_steps(self, statement: Store | Atomic | ReducerUpdate, mask: Buffer | None) -> list[Piece]:
        """All lanes read before any writes."""
        assert statement.value is not None
        indices = tuple(Var(name="place", dtype=i.dtype, kind="value") for i in statement.indices)
        value = Var(name="value", dtype=statement.value.dtype, kind="value")
        first: list[Stmt] = [Bind(var=v, value=i) for v, i in zip(indices, statement.indices)]
        first.append(Bind(var=value, value=statement.value))
        return [Stretch(first, mask), Stretch([rebuilt(statement, indices=indices, value=value)], mask)]

    # -- control flow by masks --------------------------------------------------------------------------------------------

    def _at(self, mask: Buffer) -> Load:
        return Load(buffer=mask, indices=(self._lanes.number,))

    def _set(self, mask: Buffer, value: Expr | bool) -> Store:
        if isinstance(value, bool):
            value = Const(value=value, dtype=BOOL)
        return Store(buffer=mask, indices=(self._lanes.number,), value=value)

    def _if(self, statement: If, masks: tuple[Buffer, ...], loops: tuple[_Loop, ...]) -> list[Piece]:
        if not self._is_divergent(statement):
            sides = (self._pieces(side, masks, loops) for side in (statement.then, statement.otherwise))
            return [Branch(statement, *sides)]
        mask = masks[-1] if masks else None
        then, other = self._lanes.array("then", BOOL), self._lanes.array("other", BOOL)
        condition = Var(name="condition", dtype=BOOL, kind="value")
        pieces: list[Piece] = [Once(Alloc(buffer=then)), Once(Alloc(buffer=other))]
        pieces.append(Stretch([self._set(then, False), self._set(other, False)]))
        negated = Unary(op="not", value=condition)
        decided: list[Stmt] = [Bind(var=condition, value=statement.condition), self._set(then, condition), self._set(other, negated)]
        pieces.append(Stretch(decided, mask))
        pieces.extend(self._pieces(statement.then, (*masks, then), loops))
        pieces.extend(self._pieces(statement.otherwise, (*masks, other), loops))
        return pieces

    def _has_divergent_jump(self, loop: For | While) -> bool:
        """Whether some lanes may leave the loop, or an iteration of it, before others."""
        pending: list[tuple[Stmt, bool, bool]] = [(s, False, False) for s in loop.body]
        while pending:
            statement, is_divergent, is_nested = pending.pop()
            if isinstance(statement, (Break, Continue)) and is_divergent and not is_nested:
                return True
            inside = is_divergent or self._is_divergent(statement)
            nested = is_nested or isinstance(statement, (For, While))
            pending.extend((s, inside, nested) for name in type(statement).BODIES for s in getattr(statement, name))
        return False

    def _jump(self, statement: Break | Continue | Return, masks: tuple[Buffer, ...], loops: tuple[_Loop, ...]) -> list[Piece]:
        """A jump of some lanes clears their flags; one of all lanes stays as it is."""
        if isinstance(statement, Return):
            if not masks:
                return [Once(statement)]
            left = masks
        else:
            loop = loops[-1]
            if not loop.is_masked:
                return [Once(statement)]
            # of the loop's own two masks the first says who is in the loop, the second who is in this iteration
            left = masks[loop.outer_masks + (1 if isinstance(statement, Continue) else 0) :]
        return [Stretch([self._set(mask, False) for mask in left], masks[-1])]

    def _masked_for(self, statement: For, masks: tuple[Buffer, ...], loops: tuple[_Loop, ...]) -> list[Piece]:
        dtype = statement.var.dtype
        at, stop, step = (Var(name=name, dtype=dtype, kind="mutable") for name in ("at", "stop", "step"))
        zero = Const(value=0, dtype=dtype)
        first = [
            Bind(var=at, value=statement.start),
            Bind(var=stop, value=statement.stop),
            Bind(var=step, value=statement.step),
        ]
        up = Binary(op="and", left=_compare("gt", step, zero), right=_compare("lt", at, stop))
        down = Binary(op="and", left=_compare("lt", step, zero), right=_compare("gt", at, stop))
        goes_on = Binary(op="or", left=up, right=down)
        # the loop variable is that of this iteration, whatever the body did
        head: list[Stmt] = [Bind(var=statement.var, value=at)]
        last: list[Stmt] = [Assign(var=at, value=Binary(op="add", left=at, right=step))]
        return self._masked_loop(first, goes_on, head, statement.body, last, masks, loops)

    def _masked_while(self, statement: While, masks: tuple[Buffer, ...], loops: tuple[_Loop, ...]) -> list[Piece]:
        return self._masked_loop([], statement.condition, [], statement.body, [], masks, loops)

    def _masked_loop(
        self,
        first: Sequence[Stmt],
        goes_on: Expr,
        head: list[Stmt],
        body: tuple[Stmt, ...],
        last: list[Stmt],
        masks: tuple[Buffer, ...],
        loops: tuple[_Loop, ...],
    ) -> list[Piece]:
        """A loop that goes round while any lane is in it."""
        inside, now = self._lanes.array("inside", BOOL), self._lanes.array("now", BOOL)
        going = Var(name="going", dtype=BOOL, kind="mutable")
        inner = (*masks, inside, now)
        iteration: list[Piece] = [
            Stretch([self._set(inside, goes_on)], inside),
            Stretch([self._set(now, self._at(inside))]),
            *any_lane(self._lanes, inside, going),
        ]
        work: list[Piece] = []
        if head:
            work.append(Stretch(list(head)))
        work.extend(self._pieces(body, inner, (*loops, _Loop(True, len(masks)))))
        if last:
            work.append(Stretch(list(last)))
        guard = If(condition=going, then=(), otherwise=())
        iteration.append(Branch(guard, work, []))
        return [
            Once(Alloc(buffer=inside)),
            Once(Alloc(buffer=now)),
            Stretch([self._set(inside, False), self._set(now, False)]),
            *([Stretch(list(first))] if first else []),
            Stretch([self._set(inside, True)], masks[-1] if masks else None),
            Once(Bind(var=going, value=Const(value=True, dtype=BOOL))),
            Repeat(While(condition=going, body=()), iteration),
        ]


def _printed_alone(statement: Print) -> list[Stmt]:
    """The statement, with a region of a lane's own taken from a copy of its buffer: what the lanes hold together has an axis more."""
    region = statement.value
    if not isinstance(region, Region) or region.buffer.root.space not in PRIVATE:
        return [statement]
    shown = Buffer(name=region.buffer.name, dtype=region.buffer.dtype, shape=region.buffer.shape, space="local")
    copied = Copy(src=whole(region.buffer, statement.span), dst=whole(shown, statement.span), span=statement.span)
    return [Alloc(buffer=shown), copied, rebuilt(statement, value=rebuilt(region, buffer=shown))]


def _compare(op: CompareOp, left: Expr, right: Expr) -> Expr:
    return Compare(op=op, left=left, right=right)


def _statements_in(statement: Stmt) -> list[tuple[Stmt, bool, bool]]:
    """The statement and all nested in it: whether each is inside a Map, and inside a loop, that is itself in ``statement``."""
    found: list[tuple[Stmt, bool, bool]] = []
    pending: list[tuple[Stmt, bool, bool]] = [(statement, False, False)]
    while pending:
        top, in_map, in_loop = pending.pop()
        found.append((top, in_map, in_loop))
        inner_map = in_map or isinstance(top, Map)
        inner_loop = in_loop or isinstance(top, (For, While))
        pending.extend((s, inner_map, inner_loop) for name in type(top).BODIES for s in getattr(top, name))
    return found

