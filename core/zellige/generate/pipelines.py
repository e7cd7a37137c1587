"""Programs of pipelined loops: tiles that are copied, changed, multiplied, reduced, stored, and read again where that is awkward.

In: a seed. Out: a :class:`Program` whose loops give a planner something to do: copies that may run ahead and copies that may not, tiles
that keep a part of an older iteration, uses before the copy and after the loop, sibling and nested pipelines, gathered addresses,
atomics, conditions. Every element that is read has been written. The values are not compared with a bound but bit for bit, so they may
overflow."""

from __future__ import annotations

import random
from typing import Final

import numpy as np

from zellige.dtypes import dtype as as_dtype
from zellige.generate.program import Argument, Program
from zellige.ir.parser import parse_kernel

_HEAD: Final = "# tile-ir 1.0\n\n\n"


def pipeline_program(seed: int) -> Program:
    """The program of a seed. Some have run-time extents, whose values the arguments give."""
    return _Pipelines(random.Random(seed)).program()


class _Pipelines:
    """Writes one program as text; a line is kept with its indentation."""

    def __init__(self, choose: random.Random) -> None:
        self._choose = choose
        self._is_plain = choose.random() < 0.7
        self._has_d = False
        self._a = self._b = self._d = ""
        self._lines: list[str] = []
        self._depth = 2
        self._serial = 0
        self._rows = choose.choice((16, 32, 64, 64))
        self._columns = choose.choice((8, 16, 32))
        self._step = choose.choice((16, 16, 32))
        self._is_symbolic = choose.random() < 0.4
        self._length = max(1, self._step * choose.choice((1, 2, 3, 4, 6)) - choose.choice((0, 0, 0, 1, 5, self._step - 1)))
        self._extent = "L" if self._is_symbolic else str(self._length)
        self._trips = f"(L + {self._step - 1}) // {self._step}" if self._is_symbolic else str(-(-self._length // self._step))
        self._type, self._sum = choose.choice((("float16", "float32"), ("float16", "float32"), ("float32", "float32"), ("int8", "int32")))
        self._height = self._rows * 2 - choose.choice((0, 0, 3))
        self._width = self._columns * 2 - choose.choice((0, 0, 3))

    def _say(self, line: str) -> None:
        self._lines.append("    " * self._depth + line)

    def _chance(self, share: float) -> bool:
        return self._choose.random() < share

    def _name(self, stem: str) -> str:
        self._serial += 1
        return f"{stem}{self._serial}"

    def program(self) -> Program:
        """The text, parsed, with arguments."""
        rows, columns, step, wide = self._rows, self._columns, self._step, self._sum
        self._allocate("acc", (rows, columns), wide, "fragment")
        self._allocate("extra", (rows, columns), wide, "fragment")
        self._allocate("scores", (rows, columns), wide, "fragment", is_filled=False)
        self._allocate("weights", (rows, step), self._type, "fragment", is_filled=False)
        self._allocate("sums", (rows,), wide, "fragment")
        if not self._is_plain:
            self._allocate_tiles()
            if self._chance(0.3):
                self._say(f"copy(A[by * {rows}:+{rows}, 0:+{step}], {self._a}[:, :])")
        for _ in range(1 + self._chance(0.25)):
            if self._is_plain:
                self._allocate_tiles()
            self._loop()
            if not self._is_plain and self._chance(0.3):
                self._choose.choice((self._product, self._row_sums, self._scale))("0")
        self._say(f"copy(acc[:, :], C[by * {rows}:+{rows}, bx * {columns}:+{columns}])")
        self._say(f"copy(extra[:, :], E[by * {rows}:+{rows}, bx * {columns}:+{columns}])")
        self._say(f"for i in parallel({rows}):")
        self._say(f"    S[bx, by * {rows} + i] = sums[i]")
        return Program(kernel=parse_kernel(self._text()), arguments=self._arguments())

    def _text(self) -> str:
        small, wide = self._type, self._sum
        parameters = [
            f"A: tensor(({self._height}, {self._extent}), {small})",
            f"B: tensor(({self._extent}, {self._width}), {small})",
            "P: tensor((64,), int32)",
            f"C: tensor(({self._height}, {self._width}), {wide})",
            f"E: tensor(({self._height}, {self._width}), {wide})",
            f"S: tensor((2, {2 * self._rows}), {wide})",
            f"H: tensor((64, {2 * self._rows}, {2 * self._columns}), {wide})",
            f"X: tensor(({self._rows}, {self._columns}), {wide})",
        ]
        sizes = "@sizes(L=int32)\n" if self._is_symbolic else ""
        head = f"{sizes}def pipelines({', '.join(parameters)}):\n    with launch(2, 2, threads=(128,)) as (bx, by):\n"
        return _HEAD + head + "\n".join(self._lines) + "\n"

    def _allocate(self, name: str, shape: tuple[int, ...], kind: str, space: str, *, is_filled: bool = True) -> None:
        self._say(f'{name} = alloc(({", ".join(map(str, shape))},), {kind}, "{space}")')
        if is_filled:
            self._say(f"fill({name}[{', '.join(':' for _ in shape)}], {kind}({'0.0' if kind.startswith('float') else '0'}))")

    def _allocate_tiles(self) -> None:
        """Tiles for one loop, or for all. Those of a plain program are copied in every iteration and used nowhere else."""
        self._a, self._b, self._d = (self._name(stem) for stem in ("A_tile", "B_tile", "D_tile"))
        shapes = {self._a: (self._rows, self._step), self._b: (self._step, self._columns), self._d: (self._step, self._columns)}
        for name, shape in shapes.items():
            self._allocate(name, shape, self._type, "shared", is_filled=not self._is_plain)

    def _loop(self) -> None:
        """One loop; the statements of an iteration in a random order that keeps what is read written."""
        var = self._name("k")
        stages = self._choose.choice((0, 1, 2, 3, 4))
        self._say(f"for {var} in pipelined({self._trips}, stages={stages}):")
        self._depth += 1
        if not self._is_plain and self._chance(0.15):
            self._choose.choice((self._product, self._row_sums))(var)  # sees the tiles of the iteration before
        page = var
        if self._chance(0.2):
            page = self._name("page")
            self._say(f"{page}: int32 = P[{var}]")
        copies = [self._copy_a, self._copy_b]
        self._has_d = self._is_plain and self._chance(0.5)
        if self._has_d or (not self._is_plain and self._chance(0.3)):
            copies.append(self._copy_d)
        self._choose.shuffle(copies)
        for copy in copies:
            if not self._is_plain and self._chance(0.1):
                self._say(f"if {var} != 1:")
                self._depth += 1
                copy(page)
                self._depth -= 1
            else:
                copy(page)
        steps = [
            self._product, self._product, self._row_sums, self._scale, self._two_products, self._store, self._add_atomically,
            self._product_of_changed, self._inner_loop, self._conditional,
        ]  # fmt: skip
        for _ in range(self._choose.choice((1, 1, 2, 3))):
            self._choose.choice(steps)(var)
        self._depth -= 1

    def _copy_a(self, at: str) -> None:
        self._say(f"copy(A[by * {self._rows}:+{self._rows}, {at} * {self._step}:+{self._step}], {self._a}[:, :])")

    def _copy_b(self, at: str) -> None:
        self._say(f"copy(B[{at} * {self._step}:+{self._step}, bx * {self._columns}:+{self._columns}], {self._b}[:, :])")

    def _copy_d(self, at: str) -> None:
        half = self._step // 2
        if not self._is_plain and self._chance(0.3):  # the other half is an older iteration's
            self._say(f"copy(B[{at} * {self._step}:+{half}, bx * {self._columns}:+{self._columns}], {self._d}[0:+{half}, :])")
        else:
            self._say(f"copy(B[{at} * {self._step}:+{self._step}, bx * {self._columns}:+{self._columns}], {self._d}[:, :])")

    def _product(self, at: str) -> None:
        operand = self._choose.choice((self._b, self._b, self._other()))
        self._say(f"gemm({self._a}[:, :], {operand}[:, :], {self._choose.choice(('acc', 'acc', 'extra'))}[:, :], clear=False)")

    def _other(self) -> str:
        """The tile D where it holds something, else B."""
        return self._d if self._has_d or not self._is_plain else self._b

    def _row_sums(self, at: str) -> None:
        self._say(f'reduce("sum", {self._a}[:, :], sums[:], axis=1, clear=False)')

    def _scale(self, at: str) -> None:
        factor = f"cast({at} + 1, {self._sum})"
        self._say(f"for i, j in parallel({self._rows}, {self._columns}):")
        self._say(f"    extra[i, j] = extra[i, j] + acc[i, j] * {factor}")

    def _two_products(self, at: str) -> None:
        """Scores, weights made of them, and a product with the weights: the shape of attention."""
        self._say(f"gemm({self._a}[:, :], {self._b}[:, :], scores[:, :], clear=True)")
        self._say('reduce("max", scores[:, :], sums[:], axis=1, clear=False)')
        self._say(f"for i, j in parallel({self._rows}, {self._step}):")
        self._say(f"    weights[i, j] = cast(sums[i] - scores[i, j % {self._columns}], {self._type})")
        self._say(f"gemm(weights[:, :], {self._other()}[:, :], acc[:, :], clear=False)")

    def _store(self, at: str) -> None:
        rows, columns = self._rows, self._columns
        self._say(f"copy(acc[:, :], H[{at}, by * {rows}:+{rows}, bx * {columns}:+{columns}])")

    def _add_atomically(self, at: str) -> None:
        self._say(f'atomic_tile("add", {self._choose.choice(("acc", "extra"))}[:, :], X[:, :])')

    def _product_of_changed(self, at: str) -> None:
        """A tile changed in place between its copy and its use."""
        self._say(f"for i, j in parallel({self._rows}, {self._step}):")
        self._say(f"    {self._a}[i, j] = {self._a}[i, j] + {self._a}[i, j]")
        self._product(at)

    def _inner_loop(self, at: str) -> None:
        var = self._name("q")
        half = self._step // 2
        kind = self._choose.choice(("serial(2)", "pipelined(2, stages=2)"))
        self._say(f"for {var} in {kind}:")
        if not self._is_plain and self._chance(0.5):
            self._say(f"    copy(B[{var} * {half}:+{half}, bx * {self._columns}:+{self._columns}], {self._d}[{var} * {half}:+{half}, :])")
        self._say(f"    gemm({self._a}[:, {var} * {half}:+{half}], {self._b}[{var} * {half}:+{half}, :], acc[:, :], clear=False)")

    def _conditional(self, at: str) -> None:
        self._say(f"if {self._choose.choice((f'{at} % 2 == 0', 'bx == by', f'P[{at}] > 1'))}:")
        self._depth += 1
        self._choose.choice((self._product, self._row_sums, self._scale))(at)
        self._depth -= 1

    def _arguments(self) -> tuple[Argument, ...]:
        generator = np.random.default_rng(self._choose.randrange(1 << 30))

        def values(shape: tuple[int, ...], name: str) -> Argument:
            native = as_dtype(name).numpy
            if name.startswith("float"):
                return generator.standard_normal(shape).astype(native)
            return generator.integers(-7, 8, shape).astype(native)

        trips = -(-self._length // self._step)
        pages = generator.integers(0, trips, 64).astype(np.int32)
        zeros = [(self._height, self._width)] * 2 + [
            (2, 2 * self._rows),
            (64, 2 * self._rows, 2 * self._columns),
            (self._rows, self._columns),
        ]
        wide = as_dtype(self._sum).numpy
        return (
            values((self._height, self._length), self._type), values((self._length, self._width), self._type), pages,
            *(np.zeros(shape, wide) for shape in zeros),
        )  # fmt: skip
