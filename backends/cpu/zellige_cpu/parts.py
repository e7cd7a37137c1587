"""Long bodies cut into functions of their own, so that LLVM's time grows in proportion to the program.

In: a body of many loops and tile operations. Out: functions ``i32 part(ptr env)`` and their calls. Several of LLVM's passes take time that
grows with the square of a function's loops.

A part reads what it needs of the code around it (variables, addresses) from ``env``, an array of 64-bit words on the caller's stack that is
filled before the call; what it needs is known once it is written. Its result says how it ended: 0 at its end, else one of the jumps.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from typing import Any, Final, TypeVar

from zellige.ir.expr import Buffer, Var
from zellige.ir.stmt import (
    Assign,
    AtomicTile,
    Barrier,
    Copy,
    Fill,
    For,
    Gemm,
    If,
    Map,
    Reduce,
    ReducerInit,
    Scan,
    Stmt,
    Store,
    Transpose,
    While,
)
from zellige_cpu.context import Context, Level, LoopLabels, Slot, Storage
from zellige_cpu.values import Value, constant

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

_HEAVY: Final = (AtomicTile, Copy, Fill, For, Gemm, If, Map, Reduce, ReducerInit, Scan, Transpose, While)
_LIGHT: Final = (Assign, Barrier, Store)
"""Statements that declare nothing, so that a part may hold them."""

_LONG: Final = 24
"""Heavy statements beyond which a body is cut."""

_LENGTH: Final = 400
"""Instructions after which a part ends."""

_STOP, _CELL_END, _AFTER, _FOLLOWING = 1, 2, 3, 4


def is_long(ctx: Context, body: Sequence[Stmt]) -> bool:
    """Whether a body is worth cutting: never inside vectors, whose registers no function could take over."""
    if len(body) <= _LONG or ctx.lanes is not None or ctx.plan is None:
        return False
    return sum(isinstance(s, _HEAVY) for s in body) > _LONG


def emit_in_parts(ctx: Context, body: Sequence[Stmt], emit: Callable[[Context, Stmt], None]) -> None:
    """The body's statements, runs of heavy ones in functions of their own."""
    part: _Part | None = None
    for statement in body:
        if isinstance(statement, _HEAVY) or (part is not None and isinstance(statement, _LIGHT)):
            if part is None:
                part = _Part(ctx)
            emit(part.ctx, statement)
            if part.length > _LENGTH:
                part.finish()
                part = None
            continue
        if part is not None:
            part.finish()
            part = None
        emit(ctx, statement)
        if ctx.fn.is_terminated:
            return
    if part is not None:
        part.finish()


class _Imported(dict[K, V]):
    """A table of the code around, each entry brought over when it is first asked for."""

    def __init__(self, outer: Any, bring: Callable[[V], V]) -> None:
        super().__init__()
        self._outer = outer
        self._bring = bring

    def __missing__(self, key: K) -> V:
        value = self[key] = self._bring(self._outer[key])
        return value

    def get(self, key: K, default: Any = None) -> Any:
        return self[key] if key in self else default  # noqa: SIM401 - dict.get would not bring it over

    def __contains__(self, key: object) -> bool:
        return super().__contains__(key) or key in self._outer


class _Part:
    """One function under construction and the context in which its statements are emitted."""

    def __init__(self, outer: Context) -> None:
        self._outer = outer
        module = outer.module
        self._name = f"{outer.fn.name}_part{module.function_count}"
        self.fn = module.function(self._name, "i32", [("env", "ptr")], inline=False)
        self._prologue = self.fn.reserve()
        self._words: list[Value] = []
        self._brought: dict[str, Value] = {}
        loops = [LoopLabels(self.fn.fresh_label("following"), self.fn.fresh_label("after"))] if outer.loops else []
        self.ctx = replace(
            outer,
            fn=self.fn,
            scope=outer.scope.inner(),
            values=_Imported[Var, Value](outer.values, self._bring),
            var_levels=_Imported[Var, int](outer.var_levels, lambda level: 0),
            storages=_Imported[Buffer, Storage](outer.storages, lambda s: replace(s, pointer=self._bring(s.pointer), level=0)),
            slots=_Imported[Var, Slot](outer.slots, lambda s: Slot(self._bring(s.pointer), s.element, s.lanes)),
            levels=[Level([])],
            loops=loops,
            cell_end=self.fn.fresh_label("leave"),
            stop=self.fn.fresh_label("stop"),
            scratch=None if outer.scratch is None else self._bring(outer.scratch),
            is_first=None,
            leaf=None if outer.leaf is None else self._bring(outer.leaf),
            status=None if outer.status is None else self._bring(outer.status),
            printer=None if outer.printer is None else self._bring(outer.printer),
        )

    @property
    def length(self) -> int:
        return self.fn.length

    def _bring(self, value: Value) -> Value:
        """A scalar of the code around, loaded from the environment at the start of the part."""
        if value.is_constant:
            return value
        found = self._brought.get(value.name)
        if found is None:
            place = len(self._words)
            self._words.append(value)
            with self.fn.inside(self._prologue):
                address = self.fn.offset(self.fn.params[0], 8 * place)
                if value.type == "i1":
                    found = self.fn.convert("trunc", self.fn.load(address, "i8", align=8), "i1")
                else:
                    found = self.fn.load(address, value.type, align=8)
            self._brought[value.name] = found
        return found

    def finish(self) -> None:
        """End the part and call it where the code around stands."""
        fn, ctx, outer = self.fn, self.ctx, self._outer
        fn.ret(constant("i32", 0))
        ends = [(_STOP, ctx.stop, outer.stop), (_CELL_END, ctx.cell_end, outer.cell_end)]
        if ctx.loops:
            ends.append((_AFTER, ctx.loops[-1].after, outer.loops[-1].after))
            ends.append((_FOLLOWING, ctx.loops[-1].following, outer.loops[-1].following))
        for code, label, _ in ends:
            fn.label(label)
            fn.ret(constant("i32", code))
        caller = outer.fn
        env = caller.alloca("i64", max(1, len(self._words)))
        for place, value in enumerate(self._words):
            word = caller.convert("zext", value, "i8") if value.type == "i1" else value
            caller.store(word, caller.offset(env, 8 * place), align=8)
        result = caller.call(self._name, env)
        going = caller.fresh_label("going")
        caller.switch(result, going, [(code, target) for code, _, target in ends])
        caller.label(going)
