"""Walking and rewriting the IR, without recursion: one place for all traversal.

``children`` yields the nodes directly under a node (expressions, regions, hints; with bodies also statements); ``walk`` yields all of
them, parents first, and ``walk_into`` those that it is told to enter; ``operands_first`` children first; ``rewrite`` rebuilds bottom up and
returns the same object where nothing changed.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, replace
from functools import cache
from typing import Any, Final, TypeVar

from zellige.dtypes import DType
from zellige.ir.expr import Binary, Buffer, Expr, ExprNode, Load, Node, Select, Var

N = TypeVar("N", bound=Node)

_DERIVED: Final = ("span", "structural_hash")
_LABELS: Final = (*_DERIVED, "name", "source_name")


def _child_fields(node: Node, *, bodies: bool) -> tuple[str, ...]:
    kind: Any = type(node)  # mypy takes the hash of an instance for that of the class
    return _fields(kind, bodies)


@cache
def _fields(kind: Any, bodies: bool) -> tuple[str, ...]:
    """The fields of a kind of node that hold nodes: looked up once, since every walk asks at every node."""
    names: tuple[str, ...] = kind.CHILDREN
    return names + getattr(kind, "BODIES", ()) if bodies else names


_LAST_FIRST: Final[tuple[dict[type, tuple[str, ...]], ...]] = ({}, {})
"""Without bodies and with them, by kind of node: those fields, the last first."""


def children(node: Node, *, bodies: bool = True) -> Iterator[Node]:
    """The nodes directly under ``node``, in the order of its fields."""
    for name in _child_fields(node, bodies=bodies):
        value = getattr(node, name)
        if isinstance(value, tuple):
            yield from value
        elif value is not None:
            yield value


def walk(node: Node, *, bodies: bool = True) -> Iterator[Node]:
    """``node`` and everything under it, parents before children, left to right; a shared sub-expression once."""
    known = _LAST_FIRST[bodies]
    if known.get(type(node)) == ():  # most walks are over a variable or a number
        yield node
        return
    # the loop of walk_into, written out: a compilation walks over so many nodes that a call for each is seen in its time
    seen: set[int] = set()
    pending: list[Any] = [node]
    while pending:
        top = pending.pop()
        if id(top) in seen:
            continue
        seen.add(id(top))
        yield top
        kind: Any = type(top)
        names = known.get(kind)
        if names is None:
            names = known[kind] = _fields(kind, bodies)[::-1]
        for name in names:
            value = getattr(top, name)
            if isinstance(value, tuple):
                pending.extend(value[::-1])
            elif value is not None:
                pending.append(value)


def walk_into(nodes: Iterable[Node], below: Callable[[Node], Iterable[Node]]) -> Iterator[Node]:
    """``nodes``, what ``below`` gives of each, and of those again: parents before what is below them, the last first; a shared one once."""
    pending = list(nodes)
    seen: set[int] = set()
    while pending:
        top = pending.pop()
        if id(top) not in seen:
            seen.add(id(top))
            yield top
            pending.extend(below(top))


def operands_first(expr: Expr) -> list[Expr]:
    """``expr`` and every expression under it, operands before what uses them, left to right; a shared one once."""
    done: dict[int, Expr] = {}
    pending: list[tuple[Any, bool]] = [(expr, False)]
    while pending:
        top, is_ready = pending.pop()
        if id(top) in done:
            continue
        if is_ready:
            done[id(top)] = top
            continue
        pending.append((top, True))
        pending.extend((child, False) for child in reversed(tuple(children(top, bodies=False))))
    return list(done.values())


def always_evaluated(node: Node) -> Iterator[Node]:
    """``node`` and what under it (nested statements apart) is evaluated whatever the values are: nothing in a branch of a Select, or on the
    right of ``and`` and ``or``. Parents come first, operands from the right; a shared one once."""
    return walk_into((node,), _always_below)


def _always_below(node: Node) -> Iterable[Node]:
    match node:
        case Select():
            return (node.condition,)
        case Binary(op="and" | "or"):
            return (node.left,)
        case _:
            return children(node, bodies=False)


def loads_in(node: Node) -> list[Load]:
    """Every Load in the expressions of ``node``, nested statements apart."""
    return [n for n in walk(node, bodies=False) if isinstance(n, Load)]


def buffers_in(node: Node) -> list[Buffer]:
    """Every buffer named under ``node`` (bodies included), each once, in order of appearance."""
    seen: dict[Buffer, None] = {}
    for n in walk(node):
        buffer = getattr(n, "buffer", None)
        if isinstance(buffer, Buffer):
            seen.setdefault(buffer)
    return list(seen)


def own_tiles(buffers: Iterable[Buffer], suffix: str = "") -> dict[Buffer, Buffer]:
    """A buffer of its own for each of these that is no tensor, and for those that they are views of, with ``suffix`` behind its name."""
    found: dict[Buffer, Buffer] = {}

    def own(buffer: Buffer) -> Buffer:
        if buffer.root.space == "global":
            return buffer
        if buffer not in found:
            alias = None if buffer.alias is None else own(buffer.alias)
            found[buffer] = rebuilt(buffer, name=buffer.name + suffix, alias=alias)
        return found[buffer]

    for buffer in buffers:
        own(buffer)
    return found


def rebuilt(node: N, **changes: Any) -> N:
    """``node`` with other field values; derived fields are computed anew."""
    return replace(node, **changes)  # type: ignore[type-var]


def rewrite(node: N, visit: Callable[[Any], Any], *, bodies: bool = True) -> N:
    """``node`` with ``visit`` applied to every node under it, children first, then to itself.

    ``visit`` returns its argument to keep it or another node of the same sort. For a statement in a body it may return a
    tuple of statements, which takes its place (an empty one removes it). Shared sub-expressions are visited once.
    """
    done: dict[int, Any] = {}
    alive: list[Node] = []  # ids in `done` stay valid while the nodes live
    pending: list[tuple[Node, bool]] = [(node, False)]
    while pending:
        top, is_ready = pending.pop()
        if id(top) in done:
            continue
        if not is_ready:
            pending.append((top, True))
            pending.extend((child, False) for child in children(top, bodies=bodies) if id(child) not in done)
            continue
        changes: dict[str, Any] = {}
        for name in _child_fields(top, bodies=bodies):
            old = getattr(top, name)
            if old is None:
                continue
            if not isinstance(old, tuple):
                new: Any = done[id(old)]
                if new is not old:
                    changes[name] = new
                continue
            items: list[Any] = []
            for child in old:
                replacement = done[id(child)]
                items.extend(replacement) if isinstance(replacement, tuple) else items.append(replacement)
            if len(items) != len(old) or any(a is not b for a, b in zip(items, old)):
                changes[name] = tuple(items)
        kept = rebuilt(top, **changes) if changes else top
        alive.append(top)
        done[id(top)] = visit(kept)
    result: N = done[id(node)]
    return result


def substitute(node: N, values: Mapping[Var, ExprNode], buffers: Mapping[Buffer, Buffer] | None = None) -> N:
    """``node`` with variables replaced by expressions and, where given, buffers by buffers."""
    swaps = buffers or {}

    def visit(n: Node) -> Node:
        if isinstance(n, Var):
            return values.get(n, n)
        buffer = getattr(n, "buffer", None)
        if isinstance(buffer, Buffer) and buffer in swaps:
            return rebuilt(n, buffer=swaps[buffer])
        return n

    return rewrite(node, visit)


def same_structure(left: Node, right: Node) -> bool:
    """Whether two programs are the same up to spans and the names and identity of variables and buffers.

    Each variable or buffer of one must stand for exactly one of the other; everything else of them (dtype, kind, shape,
    strides, space, alias) must agree.
    """
    renamed: dict[int, int] = {}
    reverse: dict[int, int] = {}
    compared: set[tuple[int, int]] = set()
    pending: list[tuple[Any, Any]] = [(left, right)]
    while pending:
        a, b = pending.pop()
        if isinstance(a, tuple) and isinstance(b, tuple):
            if len(a) != len(b):
                return False
            pending.extend(zip(a, b))
            continue
        if type(a) is not type(b):
            if isinstance(a, DType) and isinstance(b, DType) and a == b:  # the language's own kind of it
                continue
            return False
        if isinstance(a, (Var, Buffer)) and (renamed.setdefault(id(a), id(b)) != id(b) or reverse.setdefault(id(b), id(a)) != id(a)):
            return False
        if not isinstance(a, Node):
            if a != b and not (a != a and b != b):
                return False
            if isinstance(a, float) and repr(a) != repr(b):
                return False
            continue
        if (id(a), id(b)) in compared:  # shared sub-expressions: 60 self-doublings have 2**60 paths
            continue
        compared.add((id(a), id(b)))
        skipped = _LABELS if isinstance(a, (Var, Buffer)) else _DERIVED
        pending.extend((getattr(a, f.name), getattr(b, f.name)) for f in fields(a) if f.name not in skipped)  # type: ignore[arg-type]
    return True


_deep_lock = threading.Lock()
_deep = 0
_limit = 0


@contextmanager
def deep_nesting() -> Iterator[None]:
    """Room for code that follows the nesting of bodies by calling itself: bodies are 64 deep at most, but a chain of a thousand ``elif``
    is a thousand deep, and each level is a few frames."""
    global _deep, _limit
    with _deep_lock:  # threads come and go in any order: the first raises the limit, the last puts it back
        if _deep == 0:
            _limit = sys.getrecursionlimit()
            sys.setrecursionlimit(max(_limit, 8000))
        _deep += 1
    try:
        yield
    finally:
        with _deep_lock:
            _deep -= 1
            if _deep == 0:
                sys.setrecursionlimit(_limit)
