"""A lowered kernel: the text of its module and what is needed to run it, which can be written down and read back.

In: what :mod:`zellige_cpu.launch` found, or an :class:`Emitted` of an earlier process. Out: a :class:`Program`. Nothing here knows how
code is written, so that a kernel found in the cache starts without loading the emitters. The types are written out for the same reason:
making a frozen dataclass takes Python most of a millisecond.
"""

from __future__ import annotations

import json
from typing import Any, Final, Literal, TypeAlias

from zellige.diagnostics import Span
from zellige.dtypes import DType, dtype as as_dtype
from zellige.ir.sizes import size_vars
from zellige.ir.stmt import Kernel
from zellige.plugin.contract import Emitted

FORMAT: Final = "llvm-ir"

STATUS_WORDS: Final = 30
"""Words behind the status word, for the values that a message shows."""


INTERRUPTED: Final = -1
"""The status word of a launch that the exception of a signal's handler has stopped; numbers of places are positive. The next word is the
exception's address, whose reference the reader owns."""

MemorySizes: TypeAlias = "tuple[int, int, int, int]"
"""Bytes of tiles and of the leaf function's memory of each thread, of states and of packed operands that all threads share."""


class Site:
    """A place of the program that reports to Python while it runs.

    ``rank`` and ``dtype`` are of what is printed, if anything is; ``rank`` and ``width`` the numbers of extents of both sides.
    ``safe_value`` stands for elements outside the buffer.
    """

    __slots__ = ("dtype", "is_packed", "kind", "message", "rank", "safe_value", "span", "width")

    def __init__(
        self,
        *,
        kind: Literal["assert", "print", "extents", "reach"],
        message: str,
        span: Span | None,
        dtype: DType | None = None,
        rank: int = 0,
        width: int = 0,
        is_packed: bool = False,
        safe_value: int | float = 0,
    ) -> None:
        self.kind: Final = kind
        self.message: Final = message
        self.span: Final = span
        self.dtype: Final = dtype
        self.rank: Final = rank
        self.width: Final = width
        self.is_packed: Final = is_packed
        self.safe_value: Final = safe_value


class LaunchProgram:
    """One launch: its functions, bytes of memory that it needs, and the places that report.

    A launch that prints runs its cells in order; one that ``is_single`` has one cell, whatever its arguments. Of one that ``is_apart`` a
    worker finds more of what it has packed where it runs cells that are neighbours.
    """

    __slots__ = ("cells", "function", "is_apart", "is_single", "memory", "prints", "sites")

    def __init__(
        self,
        *,
        function: str,
        cells: str,
        memory: MemorySizes,
        sites: tuple[Site, ...],
        prints: bool,
        is_single: bool,
        is_apart: bool,
    ) -> None:
        self.function: Final = function
        self.cells: Final = cells
        self.memory: Final = memory
        self.sites: Final = sites
        self.prints: Final = prints
        self.is_single: Final = is_single
        self.is_apart: Final = is_apart


class Program:
    """The module's text, or what has it, its launches in order, and the functions of the process that it calls."""

    __slots__ = ("_text", "launches", "symbols")

    def __init__(self, *, text: str | Emitted, launches: tuple[LaunchProgram, ...], symbols: frozenset[str]) -> None:
        self._text: Final = text
        self.launches: Final = launches
        self.symbols: Final = symbols

    @property
    def text(self) -> str:
        """LLVM IR; of a program that was found it may be unpacked only now."""
        return self._text if isinstance(self._text, str) else self._text.text

    @property
    def exported(self) -> list[str]:
        return [name for launch in self.launches for name in (launch.function, launch.cells)]


def argument_slots(kernel: Kernel) -> int:
    """How many slots the arguments take, before those of the runtime."""
    return len(kernel.params) + len(size_vars(kernel))


def emitted(program: Program) -> Emitted:
    """The program as the contract has it. Places are numbers into ``spans``; the rest is JSON in ``facts``."""
    spans: dict[Span, int] = {}
    launches = []
    for launch in program.launches:
        sites = []
        for site in launch.sites:
            place = None if site.span is None else spans.setdefault(site.span, len(spans))
            name = None if site.dtype is None else site.dtype.name
            sites.append([site.kind, site.message, place, name, site.rank, site.width, site.is_packed, site.safe_value])
        launches.append([launch.function, launch.cells, launch.memory, sites, launch.prints, launch.is_single, launch.is_apart])
    facts = json.dumps({"launches": launches, "symbols": sorted(program.symbols)})
    return Emitted(text=program.text, format=FORMAT, facts=facts, spans=tuple(spans))


def program_of(source: Emitted) -> Program:
    """What :func:`emitted` wrote."""
    facts = json.loads(source.facts)
    launches = tuple(
        LaunchProgram(
            function=function,
            cells=cells,
            memory=(scratch, leaf, states, shared),
            sites=tuple(_site(entry, source.spans) for entry in sites),
            prints=prints,
            is_single=is_single,
            is_apart=is_apart,
        )
        for function, cells, (scratch, leaf, states, shared), sites, prints, is_single, is_apart in facts["launches"]
    )
    return Program(text=source, launches=launches, symbols=frozenset(facts["symbols"]))


def _site(entry: list[Any], spans: tuple[Span | None, ...]) -> Site:
    kind, message, place, name, rank, width, is_packed, safe_value = entry
    return Site(
        kind=kind,
        message=message,
        span=None if place is None else spans[place],
        dtype=None if name is None else as_dtype(name),
        rank=rank,
        width=width,
        is_packed=is_packed,
        safe_value=safe_value,
    )
