"""The registry of the CPU's benchmark rows.

In: functions decorated with :func:`row`, each of which makes a :class:`Case`. Out: :data:`ROWS`, which ``benchmarks/cpu.py`` measures.
A module of rows is named in :data:`MODULES`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

MODULES: Final = ("cpu_products", "cpu_neural")


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What is timed: ``ours`` and ``others`` by name, each called without arguments. ``work`` of one call in ``unit`` (1e9 a second).

    ``check`` raises where ours gives a wrong result; it runs once, before anything is timed.
    """

    ours: Callable[[], Any]
    others: dict[str, Callable[[], Any]]
    work: float
    unit: str
    check: Callable[[], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of the table. ``bar`` is the ratio to the fastest of the others that is to be reached, 0 where there is none."""

    name: str
    bar: float
    make: Callable[[], Case]


ROWS: Final[list[Row]] = []


def row(name: str, *, bar: float = 0.0) -> Callable[[Callable[[], Case]], Callable[[], Case]]:
    """Registers the decorated function as a row of the table."""

    def register(make: Callable[[], Case]) -> Callable[[], Case]:
        if any(known.name == name for known in ROWS):
            raise ValueError(f"there are two rows {name!r}")
        ROWS.append(Row(name=name, bar=bar, make=make))
        return make

    return register
