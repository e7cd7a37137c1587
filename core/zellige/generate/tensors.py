"""The parameters of a kernel while it is made: tensors with their contents, symbolic sizes, scalars.

In: what the launches ask for. Out: parameters and the arguments that go with them, those that nothing uses left out.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np

from zellige.dtypes import DType, dtype as as_dtype
from zellige.elements.conversion import Array
from zellige.generate.choices import Picker
from zellige.generate.context import Shape, Tile, number
from zellige.generate.data import make_array
from zellige.generate.facts import Fact, fact_of, fact_of_number
from zellige.generate.program import Argument, Program
from zellige.generate.statement_facts import State
from zellige.ir.expr import Buffer, Expr, Node, Var
from zellige.ir.sizes import SizeSystem
from zellige.ir.stmt import Kernel, Launch, Param, ParamRole, ScalarParam, TensorParam
from zellige.ir.traverse import walk

INPUT_TYPES: Final[tuple[tuple[int, str], ...]] = (
    (30, "float32"), (16, "float16"), (10, "bfloat16"), (16, "int32"), (10, "int8"), (6, "uint8"), (6, "float64"), (4, "int64"),
    (3, "float8_e4m3fn"), (3, "float8_e5m2"), (2, "int16"), (2, "uint16"), (2, "uint32"), (2, "uint64"), (3, "bool"),
    (2, "float8_e4m3fnuz"), (2, "float8_e5m2fnuz"), (1, "float8_e4m3b11fnuz"), (1, "float8_e3m4"), (1, "float8_e4m3"),
    (1, "float8_e8m0fnu"), (1, "float6_e2m3fn"), (1, "float6_e3m2fn"), (2, "float4_e2m1fn"), (2, "int4"), (2, "uint4"), (2, "tfloat32"),
)  # fmt: skip
"""The types of tensors, with how often each occurs."""


@dataclass(frozen=True, slots=True, eq=False)
class Dimension:
    """An extent that several tensors may have: its value and how it is written."""

    size: int
    extent: Expr


@dataclass(slots=True)
class Tensors:
    """The parameters so far. ``dimensions`` says by tensor which named extents it has."""

    picker: Picker
    index: DType
    params: list[Param] = field(default_factory=list)
    arguments: list[Argument] = field(default_factory=list)
    dimensions: dict[Buffer, tuple[Dimension, ...]] = field(default_factory=dict)
    facts: State = field(default_factory=dict)
    names: int = 0

    def dimension(self, size: int, name: str) -> Dimension:
        """A new extent, at times symbolic."""
        if self.picker.chance(35):
            var = Var(name=name, dtype=self.index, kind="size")
            self.facts[var] = Fact(low=size, high=size)
            return Dimension(size, var)
        return Dimension(size, number(size, self.index))

    def scalar(self, dtype: DType) -> Var:
        """A scalar parameter."""
        var = Var(name=self._name("s"), dtype=dtype, kind="scalar")
        value: int | float = self.picker.integer(0, 10) - 5
        value = max(int(dtype.min), int(value)) if dtype.is_integer else value / 2
        self.params.append(ScalarParam(var=var))
        self.arguments.append(value)
        self.facts[var] = fact_of_number(value, dtype)
        return var

    def _name(self, stem: str) -> str:
        self.names += 1
        return f"{stem}{self.names}"

    def add(
        self,
        dtype: DType,
        dimensions: tuple[Dimension, ...],
        role: ParamRole,
        content: Array | None,
        strides: tuple[Expr, ...] | None = None,
    ) -> Tile:
        """A tensor parameter; ``content`` is None where the kernel makes it."""
        buffer = Buffer(
            name=self._name({"argument": "A", "output": "C", "workspace": "W"}[role]),
            dtype=dtype,
            shape=tuple(dimension.extent for dimension in dimensions),
            strides=strides,
        )
        self.params.append(TensorParam(buffer=buffer, role=role))
        self.arguments.append(content)
        self.dimensions[buffer] = dimensions
        if content is not None:
            self.facts[buffer] = fact_of(content, dtype)
        return Tile(buffer, tuple(dimension.size for dimension in dimensions), is_global=True)

    def input(self, dimensions: tuple[Dimension, ...], dtype: DType | None = None) -> Tile:
        """A tensor with contents; at times its rows lie apart."""
        chosen = dtype or as_dtype(self.picker.weighted(INPUT_TYPES))
        shape: Shape = tuple(dimension.size for dimension in dimensions)
        if chosen.bits == 4 and (not shape or shape[-1] % 2):
            chosen = as_dtype("int8")
        content = make_array(self.picker, chosen, shape)
        if len(shape) > 1 and content.size and chosen.bits != 4 and self.picker.chance(15):
            return self._strided(chosen, dimensions, content)
        return self.add(chosen, dimensions, "argument", content)

    def _strided(self, dtype: DType, dimensions: tuple[Dimension, ...], content: Array) -> Tile:
        gap = self.picker.integer(1, 5)
        rows = content.shape[-1] + gap
        wide = np.zeros((*content.shape[:-1], rows), content.dtype)
        wide.view(np.uint8)[...] = 0x5A  # what lies between the rows is never read
        wide[..., : content.shape[-1]] = content
        numbers = [stride // content.itemsize for stride in wide.strides]
        strides: list[Expr] = [number(stride, self.index) for stride in numbers]
        if self.picker.chance(40):
            var = Var(name=self._name("ld"), dtype=self.index, kind="size")
            self.facts[var] = Fact(low=numbers[-2], high=numbers[-2])
            strides[-2] = var
        return self.add(dtype, dimensions, "argument", wide[..., : content.shape[-1]], tuple(strides))

    def mark(self) -> int:
        """The parameters so far, to come back to."""
        return len(self.params)

    def rewind(self, mark: int) -> None:
        """Forget the parameters added since ``mark``."""
        del self.params[mark:], self.arguments[mark:]

    def program(self, name: str, launches: list[Launch]) -> Program:
        """The finished kernel with its arguments; a size that no tensor gives becomes a scalar parameter."""
        used: set[int] = set()
        for launch in launches:
            for node in walk(launch):
                buffer = getattr(node, "buffer", None)
                used.add(id(node))
                if isinstance(buffer, Buffer):
                    used.add(id(buffer.root))
                    used.update(_inside(buffer))
        pairs = [(p, a) for p, a in zip(self.params, self.arguments) if id(p.var if isinstance(p, ScalarParam) else p.buffer) in used]
        results = [i for i, (p, _) in enumerate(pairs) if isinstance(p, TensorParam) and p.role == "output"]
        kernel = Kernel(name=name, params=tuple(p for p, _ in pairs), launches=tuple(launches), results=tuple(results))
        # sizes that stand in launches only are solved like those in shapes
        shown = {id(var) for var in SizeSystem.of(kernel).variables}
        missing = list(SizeSystem.of(kernel).unsolved) + [
            node for node in self.facts if isinstance(node, Var) and node.kind == "size" and id(node) in used and id(node) not in shown
        ]
        extra: list[tuple[Param, Argument]] = [(ScalarParam(var=var), int(self.facts[var].low)) for var in missing]
        pairs = [*extra, *pairs]
        results = [index + len(extra) for index in results]
        kernel = Kernel(name=name, params=tuple(p for p, _ in pairs), launches=tuple(launches), results=tuple(results))
        return Program(kernel=kernel, arguments=tuple(a for _, a in pairs))


def _inside(buffer: Buffer) -> set[int]:
    nodes: list[Node] = [*buffer.shape, *(buffer.strides or ())]
    return {id(node) for root in nodes for node in walk(root)}
