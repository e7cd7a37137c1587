"""Where the text form declares views, which the IR itself declares nowhere.

In: a kernel. Out: for each place, the views to declare there. A place is a body and an index: before that statement of it. A
view is declared before the first statement that uses it in the innermost body that holds all its uses, so that its storage and
the variables of its shape are in scope there. One that only hints name is declared right after its storage.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, TypeAlias

from zellige.ir.expr import Buffer
from zellige.ir.stmt import Alloc, Kernel, Launch, RasterHint, Stmt
from zellige.ir.traverse import walk

BodyKey: TypeAlias = tuple[int, str]
"""A body: the id of the node that holds it, and the field."""
Place: TypeAlias = tuple[BodyKey, int]

KERNEL: Final[BodyKey] = (0, "launches")
"""The body of the kernel itself, whose statements are the launches."""

_Path = tuple[Place, ...]


def view_placement(kernel: Kernel) -> dict[Place, list[Buffer]]:
    """The views of a kernel by the place where they are declared, storage before what stands on it."""
    paths: dict[int, _Path] = {}
    storage: dict[int, _Path] = {}  # where allocated buffers are declared
    views: dict[int, Buffer] = {}
    hinted: list[Buffer] = []

    def use(buffer: Buffer, path: _Path) -> None:
        view: Buffer | None = buffer
        while view is not None and view.alias is not None:
            known = paths.get(id(view))
            paths[id(view)] = path if known is None else _meet(known, path)
            views[id(view)] = view
            if known is not None and paths[id(view)] is known:
                break  # what is under it has been met by this path already
            view = view.alias

    for index, launch in enumerate(kernel.launches):
        hinted.extend(h.buffer for h in (*launch.safe_values, *launch.hints) if not isinstance(h, RasterHint) and h.buffer is not None)
        for path, statement in _statements(launch, (KERNEL, index)):
            if isinstance(statement, Alloc):
                storage[id(statement.buffer)] = path
            for buffer in _buffers(statement):
                if buffer.alias is not None:
                    use(buffer, path)
    for buffer in hinted:
        chain: list[Buffer] = []
        view: Buffer | None = buffer
        while view is not None and view.alias is not None and id(view) not in paths:
            chain.append(view)
            view = view.alias
        for item in reversed(chain):
            under = item.alias
            path = paths.get(id(under)) or storage.get(id(under)) or ((KERNEL, 0),)
            body, position = path[-1]
            paths[id(item)] = (*path[:-1], (body, position + (id(under) in storage)))
            views[id(item)] = item
    placed: dict[Place, list[Buffer]] = {}
    for key in sorted(views, key=lambda key: _depth(views[key])):
        placed.setdefault(paths[key][-1], []).append(views[key])
    return placed


def _statements(launch: Launch, place: Place) -> Iterator[tuple[_Path, Stmt]]:
    pending: list[tuple[_Path, Stmt]] = [((place, ((id(launch), "body"), i)), s) for i, s in reversed(list(enumerate(launch.body)))]
    while pending:
        path, statement = pending.pop()
        yield path, statement
        for field in reversed(type(statement).BODIES):
            body = getattr(statement, field)
            key = (id(statement), field)
            pending.extend(((*path, (key, i)), s) for i, s in reversed(list(enumerate(body))))


def _buffers(statement: Stmt) -> Iterator[Buffer]:
    for node in walk(statement, bodies=False):
        buffer: Any = getattr(node, "buffer", None)
        if isinstance(buffer, Buffer):
            yield buffer


def _meet(left: _Path, right: _Path) -> _Path:
    """The innermost place before both; ``left`` itself where it is that."""
    for level, (a, b) in enumerate(zip(left, right)):
        if a == b:
            continue
        if a[0] != b[0]:
            return left[:level]
        return left[: level + 1] if a[1] < b[1] else right[: level + 1]
    return left if len(left) <= len(right) else right


def _depth(view: Buffer) -> int:
    depth, buffer = 0, view
    while buffer.alias is not None:
        depth, buffer = depth + 1, buffer.alias
    return depth

