"""Launches of lanes made of what tells lanes apart: values, conditions and jumps that all lanes share beside those of each lane's own.

In: a source of choices. Out: a :class:`Program` of integers, so that every backend has the same bits. How an expression is written says
whether all lanes share it ("shared") or not ("own"), and nobody is asked: operands of what the block does together are shared, what is
own goes into a lane's own places. The rest is for :mod:`zellige.ir.lanes` to find out. Nothing races: in code that
some lanes leave out, a lane writes to its own places and to sums alone.

The names of the text: A inputs, S a shared tile, U the block's row of a tensor, G the lane's element of one, L and M arrays of the lane (in
M all lanes have the same), X sums, C results, u and v variables, of which all lanes have the same u.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from zellige.elements.conversion import Array
from zellige.generate.choices import Choices, Picker
from zellige.generate.program import Program
from zellige.ir.parser import parse_kernel

_THREADS: Final[tuple[tuple[int, ...], ...]] = ((32,), (1,), (2,), (48,), (64,), (96,), (33,), (8, 4), (16, 3), (3, 5), (4, 2, 2))
_BLOCKS: Final[tuple[tuple[int, ...], ...]] = ((1,), (2,), (3,), (2, 2))
_INPUT: Final = 64
_OWN: Final = 4
_SUMS: Final = 8
_DEPTH: Final = 3
_OPERATIONS: Final = ("+", "-", "*", "^", "&", "|", "min", "max", "//", "%", "select", "int8", "uint8", "int64", "<<", ">>", "neg")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Names:
    """What may be used here. ``arrays`` may be read. ``is_together``: all lanes come by. ``loop``: who may leave the loop at hand."""

    shared: tuple[str, ...]
    own: tuple[str, ...]
    arrays: str = "SULMG"
    is_together: bool = True
    loop: str = ""
    depth: int = 0


@dataclass(slots=True, kw_only=True)
class _Writer:
    """The lines of the body so far, and what was made for it."""

    picker: Picker
    threads: tuple[int, ...]
    blocks: tuple[int, ...]
    names: _Names
    budget: int
    lines: list[str] = field(default_factory=list)
    indent: int = 2
    made: int = 0
    rows: int = 0

    @property
    def count(self) -> int:
        return math.prod(self.threads)

    @property
    def lane(self) -> str:
        """The number of the lane."""
        terms, below = ["tx"], 1
        for name, extent in zip(("ty", "tz"), self.threads[:-1]):
            below *= extent
            terms.append(f"{name} * {below}")
        return " + ".join(terms)

    @property
    def block(self) -> str:
        """The number of the block."""
        return "bx" if len(self.blocks) == 1 else f"by * {self.blocks[0]} + bx"

    def line(self, text: str) -> None:
        self.lines.append("    " * self.indent + text)

    def name(self, stem: str) -> str:
        self.made += 1
        return f"{stem}{self.made}"

    def know(self, name: str, *, is_shared: bool) -> None:
        """Another name that may be used from here on."""
        names = self.names
        self.names = replace(names, shared=(*names.shared, name)) if is_shared else replace(names, own=(*names.own, name))

    def declare(self, text: str, *, is_shared: bool) -> str:
        """Another value with a name."""
        name = self.name("x" if is_shared else "y")
        self.line(f"{name}: int32 = {text}")
        self.know(name, is_shared=is_shared)
        return name

    def result(self, text: str) -> None:
        """A value of each lane that the caller sees."""
        self.line(f"C[{self.rows}, {self.block}, {self.lane}] = {text}")
        self.rows += 1

    def barrier(self) -> None:
        """Nearly always; the compiler sees to the rest."""
        if not self.picker.chance(15):
            self.line('barrier("block")')

    # ---- expressions ----

    def shared(self, depth: int = 2) -> str:
        """An int32 that all lanes share."""
        return self._composed(depth, self.shared, self._shared_atom)

    def own(self, depth: int = 2) -> str:
        """An int32 that lanes may differ in."""
        return self._composed(depth, lambda below: self.own(below) if self.picker.chance(60) else self.shared(below), self._own_atom)

    def condition(self, *, is_shared: bool) -> str:
        return self._comparison(self.shared if is_shared else self.own, 1)

    def _composed(self, depth: int, operand: Callable[[int], str], atom: Callable[[], str]) -> str:
        picker = self.picker
        if depth <= 0 or picker.chance(30):
            return atom()
        kind = picker.some(_OPERATIONS)
        left = atom() if picker.chance(50) else operand(depth - 1)
        match kind:
            case "min" | "max":
                return f"{kind}({left}, {operand(depth - 1)})"
            case "//" | "%":
                return f"(({left}) {kind} {picker.some((2, 3, 7, 32))})"
            case "select":
                return f"(({left}) if {self._comparison(operand, depth - 1)} else ({operand(depth - 1)}))"
            case "int8" | "uint8" | "int64":
                return f"cast(cast({left}, {kind}), int32)"
            case "<<" | ">>":
                return f"(({left}) {kind} {picker.integer(0, 4)})"
            case "neg":
                return f"(0 - ({left}))"
            case _:
                return f"(({left}) {kind} ({operand(depth - 1)}))"

    def _comparison(self, operand: Callable[[int], str], depth: int) -> str:
        picker = self.picker
        text = f"(({operand(depth)}) {picker.some(('<', '<=', '>', '==', '!='))} ({operand(depth)}))"
        if picker.chance(20):
            text = f"({text} {picker.some(('and', 'or'))} ({operand(depth)}) < {picker.integer(0, 9)})"
        return f"(not {text})" if picker.chance(10) else text

    def _shared_atom(self) -> str:
        picker, arrays = self.picker, self.names.arrays
        some = picker.some(self.names.shared)
        places = {
            "A": f"A[({some}) % {_INPUT}]", "S": f"S[({some}) % {self.count}]", "U": f"U[{self.block}, ({some}) % {_OWN}]",
            "M": f"M[({some}) % {_OWN}]",
        }  # fmt: skip
        kind = picker.weighted(((40, "name"), (20, "number"), (10, "A"), (12, "S"), (8, "U"), (10, "M")))
        if kind == "number":
            return str(picker.integer(0, 9))
        return places[kind] if kind == "A" or kind in arrays else some

    def _own_atom(self) -> str:
        picker, arrays = self.picker, self.names.arrays
        some = picker.some(self.names.own)
        places = {
            "A": f"A[({some}) % {_INPUT}]", "outside": f"A[({some}) % {_INPUT + 30} - 9]", "S": f"S[({some}) % {self.count}]",
            "L": f"L[({some}) % {_OWN}]", "G": f"G[{self.block}, {self.lane}]",
        }  # fmt: skip
        kind = picker.weighted(((50, "name"), (8, "A"), (4, "outside"), (10, "S"), (10, "L"), (8, "G"), (10, "shared")))
        if kind == "shared":
            return self._shared_atom()
        return places[kind] if kind in ("A", "outside") or kind in arrays else some

    # ---- bodies ----

    @contextmanager
    def inside(
        self, head: str, *, is_together: bool, shared: Sequence[str] = (), own: Sequence[str] = (), loop: str | None = None
    ) -> Iterator[None]:
        """A body under ``head``; what is declared in it is not known behind it."""
        kept = self.names
        self.names = replace(
            kept, shared=(*kept.shared, *shared), own=(*kept.own, *own), depth=kept.depth + 1,
            is_together=kept.is_together and is_together, loop=kept.loop if loop is None else loop,
        )  # fmt: skip
        self.line(head)
        self.indent += 1
        before = len(self.lines)
        try:
            yield
        finally:
            if len(self.lines) == before:
                self.line("pass")
            self.indent -= 1
            self.names = kept

    @contextmanager
    def only(self, arrays: str) -> Iterator[None]:
        """Expressions that read no other arrays than these."""
        kept = self.names.arrays
        self.names = replace(self.names, arrays=arrays)
        yield
        self.names = replace(self.names, arrays=kept)

    def part(self) -> None:
        """From here to the end of the body lanes are not together."""
        self.names = replace(self.names, is_together=False)


def lane_values_program(choices: Choices) -> Program:
    """A program of one launch."""
    picker = Picker(choices)
    threads, blocks = picker.some(_THREADS), picker.some(_BLOCKS)
    grid, lanes = ("bx", "by")[: len(blocks)], ("tx", "ty", "tz")[: len(threads)]
    names = _Names(shared=("n", "3", *grid), own=lanes)
    writer = _Writer(picker=picker, threads=threads, blocks=blocks, names=names, budget=8 + picker.integer(0, 16))
    _start(writer)
    _steps(writer, 100)
    writer.result(writer.own())
    writer.result(writer.shared())
    if picker.chance(30):  # lanes that end before the others
        with writer.inside(f"if {writer.condition(is_shared=picker.chance(25))}:", is_together=False):
            writer.line("return")
        writer.part()
        writer.budget = 4
        _steps(writer, 4)
        writer.result(writer.own())
    total = math.prod(blocks)
    head = (
        "# tile-ir 1.0\n"
        f"def k(A: tensor(({_INPUT},), int32), n: scalar(int32), U: tensor(({total}, {_OWN}), int32), "
        f"G: tensor(({total}, {writer.count}), int32), X: tensor(({_SUMS},), int32), "
        f"C: tensor(({writer.rows}, {total}, {writer.count}), int32)):\n"
        f"    with launch({', '.join(map(str, blocks))}, threads=({', '.join(map(str, threads))},)) as ({', '.join(grid)},), "
        f"lanes() as ({', '.join(lanes)},):\n"
    )
    inputs = np.array([picker.integer(0, 40) - 20 for _ in range(_INPUT)], np.int32)
    rows, cells = _numbers(5, total, _OWN), _numbers(3, total, writer.count)
    sums, results = _numbers(0, _SUMS), _numbers(0, writer.rows, total, writer.count)
    kernel = parse_kernel(head + "\n".join(writer.lines) + "\n")
    return Program(kernel=kernel, arguments=(inputs, picker.integer(0, 9), rows, cells, sums, results))


def _numbers(step: int, *shape: int) -> Array:
    """Small numbers, or zeros for a step of 0."""
    found: Array = (np.arange(math.prod(shape)) * step % 23).astype(np.int32).reshape(shape)
    return found


def _start(w: _Writer) -> None:
    """The tiles, arrays and variables that the body works on, each with contents."""
    for name, extent, space in (("S", w.count, "shared"), ("L", _OWN, "local"), ("M", _OWN, "local")):
        w.line(f'{name} = alloc(({extent},), int32, "{space}")')
    w.line(f"S[{w.lane}] = A[({w.lane}) % {_INPUT}]")
    w.line('barrier("block")')
    for name, text in (("L", w.picker.some(("i + tx", "i * 2"))), ("M", "i * 3 + n")):
        with w.inside(f"for i in {w.picker.some(('serial', 'unrolled', 'parallel'))}({_OWN}):", is_together=True):
            w.line(f"{name}[i] = {text}")
    w.line(f"u: mutable(int32) = {w.shared(1)}")
    w.line(f"v: mutable(int32) = {w.own(1) if w.picker.chance(50) else w.shared(1)}")
    w.know("u", is_shared=True)
    w.know("v", is_shared=False)


def _steps(w: _Writer, most: int) -> None:
    for _ in range(w.picker.integer(1, most) if most < 100 else most):
        if w.budget > 0:
            _step(w)


def _step(w: _Writer) -> None:
    """One statement, with what is in it."""
    w.budget -= 1
    is_deep = w.names.depth >= _DEPTH
    menu: list[tuple[int, Callable[[_Writer], None]]] = [
        (10, _let), (12, _assign), (8, _own_store), (6, _cell), (8, _sum), (10, _result), (8, _own_tiles), (4, _own_map), (6, _own_atomic),
        (5, _warp_vote),
    ]  # fmt: skip
    if not is_deep:
        menu += [(14, _if), (10, _for), (6, _while)]
    if w.names.loop:
        menu.append((8, _jump))
    if w.names.is_together:
        menu += [
            (8, _shared_let), (8, _shared_assign), (6, _shared_array), (10, _exchange), (10, _repeated_store), (8, _shuffle), (8, _vote),
            (8, _block_map), (8, _block_tiles),
        ]  # fmt: skip
    w.picker.weighted(menu)(w)


# ---- a lane's own ----


def _let(w: _Writer) -> None:
    w.declare(w.own(3), is_shared=False)


def _assign(w: _Writer) -> None:
    w.line(f"v = {w.own()}")


def _own_store(w: _Writer) -> None:
    w.line(f"L[({w.own(1)}) % {_OWN}] = {w.own()}")


def _cell(w: _Writer) -> None:
    w.line(f"G[{w.block}, {w.lane}] = {w.own()}")


def _sum(w: _Writer) -> None:
    w.line(f'atomic("add", X[({w.own(1)}) % {_SUMS}], {w.own()})')


def _result(w: _Writer) -> None:
    w.result(w.own())


def _own_tiles(w: _Writer) -> None:
    """Tile operations that each lane does for itself."""
    place = w.own(1) if w.picker.chance(70) else w.shared(1)
    match w.picker.some(("copy", "fill", "tile", "part")):
        case "copy":
            w.line(f"copy(A[({place}) % {_INPUT}:+{_OWN}], L[:])")
        case "fill":
            w.line(f"fill(L[:], {w.own()})")
        case "tile":
            w.line(f"copy(S[({place}) % {w.count}:+{_OWN}], L[:])")
        case _:
            w.line(f"copy(A[({place}) % {_INPUT}:+2], L[({w.own(1)}) % {_OWN - 1}:+2])")


def _own_map(w: _Writer) -> None:
    """A Map over an array of the lane: its points read no other element of it."""
    axis = w.name("i")
    with w.inside(f"for {axis} in parallel({_OWN}):", is_together=False, own=(axis,), loop=""), w.only("SUMG"):
        w.line(f"L[{axis}] = {w.own()}")


def _own_atomic(w: _Writer) -> None:
    if w.picker.chance(50):
        w.line(f'atomic("add", L[({w.own(1)}) % {_OWN}], {w.own(1)})')
        return
    name = w.name("z")
    w.line(f'{name}: int32 = atomic("add", G[{w.block}, {w.lane}], {w.own(1)})')
    w.know(name, is_shared=False)


def _warp_vote(w: _Writer) -> None:
    _any_vote(w, "warp")


# ---- the block's ----


def _shared_let(w: _Writer) -> None:
    w.declare(w.shared(3), is_shared=True)


def _shared_assign(w: _Writer) -> None:
    w.line(f"u = {w.shared()}")


def _shared_array(w: _Writer) -> None:
    w.line(f"M[({w.shared(1)}) % {_OWN}] = {w.shared()}")


def _exchange(w: _Writer) -> None:
    """Each lane writes its own element of the shared tile."""
    value = w.declare(w.own(), is_shared=False)
    w.barrier()
    w.line(f"S[{w.lane}] = {value}")
    w.barrier()


def _repeated_store(w: _Writer) -> None:
    """What every lane stores alike."""
    target = f"S[({w.shared(1)}) % {w.count}]" if w.picker.chance(60) else f"U[{w.block}, ({w.shared(1)}) % {_OWN}]"
    w.line(f"{target} = {w.shared()}")


def _shuffle(w: _Writer) -> None:
    picker = w.picker
    mode, width = picker.some(("xor", "up", "down", "index")), picker.some((32, 2, 8, 1))
    operand = str(picker.integer(0, width - 1)) if picker.chance(60) else f"({w.own(1)}) % {width}"
    name = w.name("s")
    w.line(f'{name}: int32 = shuffle("{mode}", {w.shared() if picker.chance(30) else w.own()}, {operand}, width={width})')
    w.know(name, is_shared=False)


def _vote(w: _Writer) -> None:
    _any_vote(w, "block")


def _any_vote(w: _Writer, scope: str) -> None:
    picker = w.picker
    mode = picker.some(("any", "all", "count", *(("ballot",) if scope == "warp" else ())))
    dtype = {"any": "bool", "all": "bool", "count": "int32", "ballot": "uint32"}[mode]
    name = w.name("b")
    w.line(f'{name}: {dtype} = vote("{mode}", "{scope}", {w.condition(is_shared=picker.chance(30))})')
    w.declare(name if dtype == "int32" else f"cast({name}, int32)", is_shared=scope == "block")


def _block_map(w: _Writer) -> None:
    """A Map of the block into a tile of its own, which is copied to the shared one."""
    axis, tile, extent = w.name("i"), w.name("T"), w.picker.some((w.count, 1, 5, 40))
    w.barrier()
    w.line(f'{tile} = alloc(({extent},), int32, "{w.picker.some(("shared", "fragment"))}")')
    with w.inside(f"for {axis} in parallel({extent}):", is_together=True, shared=(axis,), loop=""), w.only("SU"):
        w.line(f"{tile}[{axis}] = {w.shared()}")
    size = min(extent, w.count)
    w.line(f"copy({tile}[0:+{size}], S[0:+{size}])")
    w.barrier()


def _block_tiles(w: _Writer) -> None:
    """Tile operations of the block, and a Map that changes the shared tile in place."""
    size = min(_OWN, w.count)
    w.barrier()
    match w.picker.some(("fill", "copy", "out", "map")):
        case "fill":
            w.line(f"fill(S[({w.shared(1)}) % {w.count}:+{w.picker.integer(1, size)}], {w.shared()})")
        case "copy":
            w.line(f"copy(A[({w.shared(1)}) % {_INPUT}:+{size}], S[({w.shared(1)}) % {w.count}:+{size}])")
        case "out":
            w.line(f"copy(S[0:+{w.count}], C[{w.rows}, {w.block}, :])")
            w.rows += 1
        case _:
            axis = w.name("i")
            with w.inside(f"for {axis} in parallel({w.count}):", is_together=True, loop=""):
                w.line(f"S[{axis}] = S[{axis}] * 3 + {w.picker.some(w.names.shared)} + {axis}")
    w.barrier()


# ---- control ----


def _if(w: _Writer) -> None:
    is_shared = w.picker.chance(45)
    with w.inside(f"if {w.condition(is_shared=is_shared)}:", is_together=is_shared):
        _steps(w, 3)
    if w.picker.chance(35):
        with w.inside("else:", is_together=is_shared):
            _steps(w, 2)


def _for(w: _Writer) -> None:
    picker = w.picker
    is_shared = picker.chance(65)
    loop = picker.weighted(((50, ""), (25, "own"), (25, "shared"))) if w.names.is_together and is_shared else picker.some(("", "own"))
    kind = "serial" if loop else picker.weighted(((60, "serial"), (20, "unrolled"), (20, "pipelined")))
    bound = f"({w.shared(1) if is_shared else w.own(1)}) % {picker.some((3, 4, 5))}"
    if kind != "serial" or picker.chance(30):
        bound, is_shared = str(picker.integer(1, 4)), True
    begin = picker.some(("", "", "0, ", "1, "))
    var = w.name("k")
    known: dict[str, tuple[str, ...]] = {"shared": (var,), "own": (var,)} if is_shared else {"own": (var,)}
    with w.inside(f"for {var} in {kind}({begin}{bound}):", is_together=is_shared and loop != "own", loop=loop, **known):
        if not loop and kind == "serial" and w.names.is_together and picker.chance(30):
            _steps(w, 2)
            with w.inside(f"if {w.condition(is_shared=False)}:", is_together=False):
                w.line("continue")
            w.part()
        _steps(w, 3)


def _while(w: _Writer) -> None:
    picker = w.picker
    is_shared = picker.chance(60)
    loop = picker.weighted(((50, ""), (25, "own"), (25, "shared"))) if w.names.is_together and is_shared else "own"
    var, limit = w.name("c"), w.name("e")
    w.line(f"{var}: mutable(int32) = 0")
    w.line(f"{limit}: int32 = ({w.shared(1) if is_shared else w.own(1)}) % {picker.some((3, 4))}")
    is_together = is_shared and loop != "own"
    known: dict[str, tuple[str, ...]] = {"shared": (var,), "own": (var,)} if is_together else {"own": (var,)}
    with w.inside(f"while {var} < {limit}:", is_together=is_together, loop=loop, **known):
        w.line(f"{var} = {var} + 1")
        _steps(w, 3)


def _jump(w: _Writer) -> None:
    """Leaves the loop or the iteration: by a condition of all lanes where they stay together, else by a lane's own at times."""
    is_shared = w.names.loop == "shared" and w.names.is_together
    if w.names.loop == "shared" and not is_shared:
        return  # some lanes would leave a loop in which the others are together
    with w.inside(f"if {w.condition(is_shared=is_shared or w.picker.chance(30))}:", is_together=False):
        w.line(w.picker.some(("break", "continue")))
