"""Which lanes take part in an exchange where the lanes of a warp part: named before they part, for machines whose lanes wait for each
other only where they are named.

In: the body of a thread-level program, with its exchanges among lanes that may have parted (PartedShuffle, PartedVote). Out: the body in
which each of them says the lanes ``among`` which it is. Before a branch, and at each way around a loop, lanes that are together take note
of who goes which way (Taking). Lanes that returned may still be named: they count for nothing. Nothing is known of who is left
behind a jump in a loop that only some lanes of a branch take, or in a loop that they leave so: exchanges there name nobody, and happen
among those lanes that a machine finds together.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from zellige.dtypes import dtype as as_dtype
from zellige.ir.expr import BOOL, INT64, Binary, Cast, Compare, Const, Expr, Load, Select, Unary, Var, const, constant_value
from zellige.ir.stmt import Bind, Break, Continue, For, If, Return, Shuffle, Vote, While
from zellige.ir.traverse import rebuilt, walk
from zellige.simt.ir import WARP, PartedShuffle, PartedVote, Taking

EXCHANGES: Final = (PartedShuffle, PartedVote)
_JUMPS: Final = (Break, Continue, Return)
_MASK: Final = as_dtype("uint64")
_TRUE: Final = Const(value=True, dtype=BOOL)


class _Unknown:
    """Who is there is not known."""


_UNKNOWN: Final = _Unknown()
_Lanes = Var | None | _Unknown
"""The variable that names the lanes at hand; None: all of the warp."""


class _Scattered(Exception):
    """Lanes leave a loop where not all that are still in it know."""


def with_lanes_named(body: Sequence[Any], uniform: Iterable[Var]) -> tuple[Any, ...]:
    """The body with the lanes of its exchanges named; ``uniform`` are variables that all lanes have the same value of."""
    if not any(isinstance(node, EXCHANGES) for statement in body for node in walk(statement)):
        return tuple(body)
    return _without_idle(tuple(_Naming(body, uniform).body(body, None)[0]))


class _Naming:
    """``going`` names the lanes that are still in the innermost loop, where they are known. ``_inside`` are by statement whether it holds
    an exchange, and which jumps lead out of it."""

    def __init__(self, body: Sequence[Any], uniform: Iterable[Var]) -> None:
        self._uniform = {WARP, *uniform}
        self._going: Var | None = None
        self._inside: dict[int, tuple[bool, frozenset[type]]] = {}
        for statement in body:
            self._look(statement)

    def _look(self, top: Any) -> None:
        """Fills ``_inside`` for a statement and all in it, inner ones first."""
        pending = [(top, False)]
        while pending:
            statement, is_ready = pending.pop()
            below = [inner for name in type(statement).BODIES for inner in getattr(statement, name)]
            if not is_ready:
                pending.append((statement, True))
                pending.extend((inner, False) for inner in below)
                continue
            jumps = {type(statement)} if isinstance(statement, _JUMPS) else set().union(*(self._inside[id(s)][1] for s in below))
            if isinstance(statement, (For, While)):
                jumps &= {Return}
            has_exchange = isinstance(statement, EXCHANGES) or any(self._inside[id(s)][0] for s in below)
            self._inside[id(statement)] = has_exchange, frozenset(jumps)

    def body(self, statements: Sequence[Any], lanes: _Lanes) -> tuple[list[Any], _Lanes]:
        """The statements for the lanes at hand, and who is there behind them of those that did not jump."""
        made: list[Any] = []
        for statement in statements:
            lanes = self._statement(made, statement, lanes)
        return made, lanes

    def _statement(self, made: list[Any], statement: Any, lanes: _Lanes) -> _Lanes:
        has_exchange, jumps = self._inside[id(statement)]
        match statement:
            case PartedShuffle() | PartedVote():
                made.append(_among(statement, lanes))
            case If() if has_exchange or jumps:
                return self._if(made, statement, lanes)
            case For() | While() if has_exchange or jumps:
                return self._loop(made, statement, lanes)
            case _:
                if isinstance(statement, Break) and self._going is not None and lanes is not self._going:
                    raise _Scattered
                if isinstance(statement, Bind) and not statement.var.is_mutable and self._is_uniform(statement.value):
                    self._uniform.add(statement.var)
                made.append(statement)
        return lanes

    # ---- branches ----

    def _if(self, made: list[Any], statement: If, lanes: _Lanes) -> _Lanes:
        if isinstance(lanes, _Unknown) or self._is_uniform(statement.condition):
            return self._if_together(made, statement, lanes)
        condition = self._named(made, "decided", statement.condition)
        opposite = Unary(op="not", value=condition)
        leaving = next((n for n in ("then", "otherwise") if self._leaves(statement, n)), "")
        jump = getattr(statement, leaving)[-1] if leaving else None
        if isinstance(jump, Break) and self._going is not None and lanes is not self._going:
            raise _Scattered
        leaves_loop = isinstance(jump, (Break, Return)) and self._going is not None and lanes is self._going
        of: dict[str, Var] = {}
        for name, test in sorted((("then", condition), ("otherwise", opposite)), key=lambda side: side[0] != leaving):
            stays = leaves_loop and name != leaving
            of[name] = lanes if stays and isinstance(lanes, Var) else self._fresh("lanes")
            made.append(Taking(result=of[name], among=lanes, condition=test, span=statement.span))
        parts: dict[str, tuple[Any, ...]] = {}
        for name, chosen in of.items():
            inside = getattr(statement, name)
            given, _ = self.body(inside[:-1] if name == leaving else inside, chosen)
            parts[name] = (*given, *inside[-1:]) if name == leaving else tuple(given)
        made.append(rebuilt(statement, condition=condition, **parts))
        if leaving:
            return of["otherwise" if leaving == "then" else "then"]
        return _UNKNOWN if self._inside[id(statement)][1] - {Return} else lanes

    def _if_together(self, made: list[Any], statement: If, lanes: _Lanes) -> _Lanes:
        """A branch that the lanes at hand go through together, or of which nobody knows who is there."""
        then, after = self.body(statement.then, lanes)
        otherwise, after_otherwise = self.body(statement.otherwise, lanes)
        made.append(rebuilt(statement, then=tuple(then), otherwise=tuple(otherwise)))
        stay = not self._inside[id(statement)][1] - {Return} or (after is lanes and after_otherwise is lanes)
        return lanes if stay else _UNKNOWN

    def _leaves(self, statement: If, name: str) -> bool:
        """Whether all lanes that take this way jump at its end, and nobody jumps elsewhere in the statement."""
        inside = getattr(statement, name)
        other = statement.otherwise if name == "then" else statement.then
        if not inside or not isinstance(inside[-1], _JUMPS):
            return False
        return not any(self._inside[id(s)][1] for s in (*inside[:-1], *other))

    # ---- loops ----

    def _loop(self, made: list[Any], statement: For | While, lanes: _Lanes) -> _Lanes:
        has_exchange, _ = self._inside[id(statement)]
        before = self._going
        try:
            if has_exchange and not isinstance(lanes, _Unknown):
                made += self._loop_of_known(statement, lanes)
            else:
                raise _Scattered
        except _Scattered:
            self._going = None
            made += self._loop_of_unknown(statement)
        finally:
            self._going = before
        return lanes

    def _loop_of_known(self, statement: For | While, lanes: Var | None) -> list[Any]:
        own: frozenset[type] = frozenset().union(*(self._inside[id(s)][1] for s in statement.body))
        made: list[Any] = []
        match statement:
            case For():
                bounds = {name: self._named(made, name, getattr(statement, name)) for name in ("start", "stop", "step")}
                parts = not all(map(self._is_uniform, bounds.values()))
                if not parts:
                    self._uniform.add(statement.var)
                elif Continue in own:
                    raise _Scattered  # who goes around again is noted at the end of the body
                first = _goes_on(bounds, bounds["start"]) if parts else _TRUE
            case While(condition=condition):
                if not self._is_uniform(condition):
                    raise _Scattered
                bounds, parts, first = {}, False, _TRUE
        if not parts and not own - {Return}:
            inside, _ = self.body(statement.body, lanes)  # all lanes go around together
            return [*made, rebuilt(statement, body=tuple(inside), **bounds)]
        self._going = going = self._fresh("going", is_mutable=True)
        made.append(Taking(result=going, among=lanes, condition=first, span=statement.span))
        inside, after = self.body(statement.body, going)
        if parts:
            if after is not going:
                raise _Scattered
            assert isinstance(statement, For)
            following = Binary(op="add", left=_wide(statement.var), right=_wide(bounds["step"]))
            inside.append(Taking(result=going, among=going, condition=_goes_on(bounds, following), span=statement.span))
        return [*made, rebuilt(statement, body=tuple(inside), **bounds)]

    def _loop_of_unknown(self, statement: For | While) -> list[Any]:
        if not self._inside[id(statement)][0]:
            return [statement]
        inside, _ = self.body(statement.body, _UNKNOWN)
        return [rebuilt(statement, body=tuple(inside))]

    # ---- values ----

    def _fresh(self, name: str, *, is_mutable: bool = False) -> Var:
        return Var(name=name, dtype=_MASK, kind="mutable" if is_mutable else "value")

    def _named(self, made: list[Any], name: str, value: Expr) -> Expr:
        """The value, computed once."""
        if isinstance(value, Const) or (isinstance(value, Var) and not value.is_mutable):
            return value
        var = Var(name=name, dtype=value.dtype, kind="value")
        made.append(Bind(var=var, value=value))
        if self._is_uniform(value):
            self._uniform.add(var)
        return var

    def _is_uniform(self, expr: Expr) -> bool:
        """Whether it is plain that all lanes of a warp have the same value of it."""
        nodes = list(walk(expr))
        return not any(isinstance(n, Load) or (isinstance(n, Var) and n not in self._uniform) for n in nodes)


def _among(statement: PartedShuffle | PartedVote, lanes: _Lanes) -> Any:
    match statement, lanes:
        case _, _Unknown():
            return statement
        case _, Var():
            return rebuilt(statement, among=lanes)
        case PartedShuffle(result=result, mode=mode, value=value, operand=operand, width=width), _:
            return Shuffle(result=result, mode=mode, value=value, operand=operand, width=width, span=statement.span)
        case _:
            return Vote(
                result=statement.result, mode=statement.mode, scope=statement.scope, predicate=statement.predicate, span=statement.span
            )


def _wide(value: Expr) -> Expr:
    return value if value.dtype == INT64 else Cast(value=value, dtype=INT64)


def _goes_on(bounds: Mapping[str, Expr], at: Expr) -> Expr:
    """Whether a loop has an iteration ``at`` this number."""
    below = Compare(op="lt", left=_wide(at), right=_wide(bounds["stop"]))
    above = Compare(op="gt", left=_wide(at), right=_wide(bounds["stop"]))
    step = constant_value(bounds["step"])
    if step is not None:
        return below if step > 0 else above
    return Select(condition=Compare(op="gt", left=_wide(bounds["step"]), right=const(0, INT64)), then=below, otherwise=above)


def _without_idle(body: tuple[Any, ...]) -> tuple[Any, ...]:
    """Without the notes that nobody needs."""
    notes = [node for statement in body for node in walk(statement) if isinstance(node, Taking)]
    needed = {node.among for statement in body for node in walk(statement) if isinstance(node, EXCHANGES) and node.among is not None}
    before = -1
    while len(needed) != before:
        before = len(needed)
        needed |= {note.among for note in notes if note.result in needed and note.among is not None}
    return _kept(body, needed)


def _kept(body: Sequence[Any], needed: set[Var]) -> tuple[Any, ...]:
    made = []
    for statement in body:
        if isinstance(statement, Taking) and statement.result not in needed:
            continue
        changes = {name: _kept(getattr(statement, name), needed) for name in type(statement).BODIES if getattr(statement, name)}
        made.append(rebuilt(statement, **changes) if changes else statement)
    return tuple(made)
