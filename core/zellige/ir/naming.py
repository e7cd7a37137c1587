"""Names for the text form: unique among those in scope, as the author wrote them wherever that allows it.

In: variables and buffers, and the opening and closing of bodies. Out: their names. Also the names of parts of expressions, and of what
passes add to a program.
"""

from __future__ import annotations

from zellige.ir.expr import Buffer, Var
from zellige.ir.syntax import identifier


def unused_name(wanted: str, taken: set[str]) -> str:
    """The name ``wanted``, with a number behind it where it is among those ``taken``, to which it is added."""
    name, number = wanted, 1
    while name in taken:
        number += 1
        name = f"{wanted}_{number}"
    taken.add(name)
    return name


class Names:
    """Gives every variable and buffer a name that is unique among those in scope."""

    def __init__(self) -> None:
        self._names: dict[int, str] = {}
        self._visible: set[str] = set()
        self._scopes: list[list[str]] = [[]]
        self._suffixes: list[dict[str, int]] = [{}]  # by scope, where to look for the next free name of a stem
        self._reserved: dict[int, str] = {}  # buffers that a hint of the launch names
        self._taken: set[str] = set()  # their names
        self._lets = 0

    def open(self) -> None:
        self._scopes.append([])
        self._suffixes.append({})

    def close(self) -> None:
        self._visible.difference_update(self._scopes.pop())
        self._suffixes.pop()

    def declare(self, named: Var | Buffer) -> str:
        name = self._reserved.get(id(named))
        if name is None:
            name = self._free(identifier(named.name))
        self._enter(name)
        self._names[id(named)] = name
        return name

    def reserve(self, named: Buffer) -> None:
        """Sets aside the name of a buffer that is declared later, for the whole launch."""
        if id(named) not in self._names and id(named) not in self._reserved:
            name = self._free(identifier(named.name))
            self._reserved[id(named)] = self._names[id(named)] = name
            self._taken.add(name)

    def forget_reserved(self) -> None:
        self._reserved.clear()
        self._taken.clear()

    def let(self) -> str:
        """A new name for a part of an expression."""
        while True:
            self._lets += 1
            name = f"e{self._lets}"
            if name == self._free(name):
                self._enter(name)
                return name

    def __call__(self, named: Var | Buffer) -> str:
        name = self._names.get(id(named))
        if name is None:  # declared nowhere: the kernel is not well formed, but it can be looked at
            name = self._free(identifier(named.name))
            self._visible.add(name)
            self._names[id(named)] = name
        return name

    def _enter(self, name: str) -> None:
        self._visible.add(name)
        self._scopes[-1].append(name)

    def _free(self, name: str) -> str:
        if name not in self._visible and name not in self._taken:
            return name
        suffix = next((scope[name] for scope in reversed(self._suffixes) if name in scope), 1)
        while f"{name}_{suffix}" in self._visible or f"{name}_{suffix}" in self._taken:
            suffix += 1
        self._suffixes[-1][name] = suffix
        return f"{name}_{suffix}"
