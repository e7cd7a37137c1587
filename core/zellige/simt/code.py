"""The program under construction: nested lists of statements, and where barriers must stand in them.

In: statements, and before each the memory that the lanes are about to touch together. Out: bodies in which a barrier of the block stands
before every touch that would meet another lane's unfinished one. Which barriers are needed is a dataflow question: what may have been
read, written or changed atomically since the last barrier on any path, loops included.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field, replace
from typing import Any

from zellige.ir.expr import Buffer
from zellige.ir.stmt import Barrier, Break, Continue, For, If, While
from zellige.ir.traverse import rebuilt
from zellige.records import dataclass
from zellige.simt.ir import Fence

Resource = object
"""Something that lanes share: a buffer of the tile IR, or a name for the free or filled slots of a channel."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Touch:
    """What the statements up to the next Touch read, write and change atomically. ``marks`` are noted without needing a barrier, and
    ``waits`` need one where they were noted since the last: what has landed, which slots are free. What engines read (``engine_reads``)
    must have been shown to them by a fence after lanes wrote it, and the barrier comes after the fence."""

    reads: frozenset[Resource] = frozenset()
    writes: frozenset[Resource] = frozenset()
    atomics: frozenset[Resource] = frozenset()
    marks: frozenset[Resource] = frozenset()
    waits: frozenset[Resource] = frozenset()
    engine_reads: frozenset[Resource] = frozenset()
    span: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """A tile in shared ``memory`` is declared here: an iteration of the loop around does not need what the one before left in it."""

    memory: Buffer


class Code:
    """A stack of lists: statements go to the innermost one."""

    def __init__(self) -> None:
        self._stack: list[list[Any]] = [[]]
        self._is_quiet = 0

    def emit(self, *statements: Any) -> None:
        self._stack[-1].extend(statements)

    def touch(
        self, *, reads: Iterable[Resource] = (), writes: Iterable[Resource] = (), atomics: Iterable[Resource] = (),
        engine_reads: Iterable[Resource] = (), span: Any = None,
    ) -> None:  # fmt: skip
        """The lanes, or engines that they ask, are about to touch these. Inside :meth:`quiet` code the touch around it has said so."""
        touch = Touch(
            reads=frozenset(reads), writes=frozenset(writes), atomics=frozenset(atomics), engine_reads=frozenset(engine_reads), span=span
        )
        if not self._is_quiet and (touch.reads or touch.writes or touch.atomics or touch.engine_reads):
            self._stack[-1].append(touch)

    def mark(self, *names: Resource) -> None:
        """Note that other lanes see what the names stand for after a barrier only."""
        self._stack[-1].append(Touch(marks=frozenset(names)))

    def wait(self, *names: Resource, span: Any = None) -> None:
        """What the names stand for is needed from here on."""
        self._stack[-1].append(Touch(waits=frozenset(names), span=span))

    @property
    def is_quiet(self) -> bool:
        """Whether no barrier may stand here."""
        return bool(self._is_quiet)

    @contextmanager
    def quiet(self) -> Iterator[None]:
        """Code that only some lanes reach, or each at its own pace: no barrier may stand in it."""
        self._is_quiet += 1
        try:
            yield
        finally:
            self._is_quiet -= 1

    @contextmanager
    def nested(self) -> Iterator[list[Any]]:
        """Statements emitted meanwhile go to the list given, for the caller to put into a statement."""
        body: list[Any] = []
        self._stack.append(body)
        try:
            yield body
        finally:
            self._stack.pop()

    @property
    def statements(self) -> list[Any]:
        """The outermost list."""
        return self._stack[0]


@dataclass(frozen=True, slots=True)
class _Pending:
    """What may have been touched since the last barrier."""

    reads: frozenset[Resource] = frozenset()
    writes: frozenset[Resource] = frozenset()
    atomics: frozenset[Resource] = frozenset()
    marks: frozenset[Resource] = frozenset()
    unfenced: frozenset[Resource] = frozenset()
    """What lanes wrote since the last fence, barriers or not."""

    def joined(self, other: _Pending) -> _Pending:
        return _Pending(
            self.reads | other.reads, self.writes | other.writes, self.atomics | other.atomics, self.marks | other.marks,
            self.unfenced | other.unfenced,
        )  # fmt: skip

    def after(self, touch: Touch) -> _Pending:
        written = touch.writes | touch.atomics
        return _Pending(
            self.reads | touch.reads, self.writes | touch.writes, self.atomics | touch.atomics, self.marks | touch.marks,
            self.unfenced | written,
        )  # fmt: skip

    def after_barrier(self, *, is_fenced: bool = False) -> _Pending:
        return _Pending(unfenced=frozenset() if is_fenced else self.unfenced)

    def conflicts(self, touch: Touch) -> bool:
        plain = self.reads | self.writes
        return bool(
            touch.waits & self.marks
            or touch.writes & (plain | self.atomics)
            or touch.reads & (self.writes | self.atomics)
            or touch.atomics & plain
        )


_NOTHING = _Pending()


@dataclass(slots=True)
class _Placement:
    """Finds the touches that need a barrier before them."""

    needed: set[int] = field(default_factory=set)
    fenced: set[int] = field(default_factory=set)
    meets: Mapping[Resource, frozenset[Resource]] = field(default_factory=dict)
    exits: list[_Pending] = field(default_factory=list)
    nexts: list[_Pending] = field(default_factory=list)

    def run(self, body: Iterable[Any], pending: _Pending) -> _Pending:
        for item in body:
            match item:
                case Touch():
                    touch = self._with_neighbours(item)
                    if item.engine_reads & pending.unfenced:
                        self.fenced.add(id(item))
                        self.needed.add(id(item))
                    if id(item) in self.needed or pending.conflicts(touch):
                        self.needed.add(id(item))
                        pending = pending.after_barrier(is_fenced=id(item) in self.fenced)
                    pending = pending.after(touch)
                case Barrier(scope="block" | "cluster" | "grid"):
                    pending = pending.after_barrier()
                case If():
                    pending = self.run(item.then, pending).joined(self.run(item.otherwise, pending))
                case For() | While():
                    pending = self._loop(item.body, pending)
                case Break() if self.exits:
                    self.exits[-1] = self.exits[-1].joined(pending)
                case Continue() if self.nexts:
                    self.nexts[-1] = self.nexts[-1].joined(pending)
                case _:
                    pass
        return pending

    def _with_neighbours(self, touch: Touch) -> Touch:
        """What is written ends what stood in the same bytes."""
        changed = [self.meets[r] for r in touch.writes | touch.atomics if r in self.meets]
        return replace(touch, writes=touch.writes.union(*changed)) if changed else touch

    def _loop(self, body: Iterable[Any], pending: _Pending) -> _Pending:
        """Up to the fixed point: what the end of an iteration, or a way out of it, leaves meets what follows."""
        while True:
            count = len(self.needed) + len(self.fenced)
            self.exits.append(_NOTHING)
            self.nexts.append(_NOTHING)
            after = pending.joined(self.run(body, pending)).joined(self.nexts.pop())
            exits = self.exits.pop()
            if after == pending and len(self.needed) + len(self.fenced) == count:
                return after.joined(exits)
            pending = after


def with_barriers(body: Iterable[Any], meets: Mapping[Resource, frozenset[Resource]] | None = None) -> tuple[Any, ...]:
    """The statements with a block barrier before every touch that needs one, a fence before that where engines read what lanes wrote, and
    without the touches. ``meets`` are by each resource those that share bytes with it."""
    items = tuple(body)
    placement = _Placement(meets=meets or {})
    placement.run(items, _NOTHING)

    def before(touch: Touch) -> tuple[Any, ...]:
        if id(touch) not in placement.needed:
            return ()
        barrier = Barrier(scope="block", span=touch.span)
        return (Fence(to="engines", span=touch.span), barrier) if id(touch) in placement.fenced else (barrier,)

    return _placed(items, before)


def without_barriers(body: Iterable[Any]) -> tuple[Any, ...]:
    """The statements without the touches, for programs whose author synchronises."""
    return _placed(tuple(body), lambda touch: ())


def _placed(items: tuple[Any, ...], before: Callable[[Touch], tuple[Any, ...]]) -> tuple[Any, ...]:
    out: list[Any] = []
    for item in items:
        if isinstance(item, Declared):
            continue
        if isinstance(item, Touch):
            out.extend(before(item))
            continue
        changes = {name: _placed(getattr(item, name), before) for name in getattr(type(item), "BODIES", ())}
        out.append(rebuilt(item, **changes) if changes else item)
    return tuple(out)
