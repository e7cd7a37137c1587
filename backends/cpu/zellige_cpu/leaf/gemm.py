"""The product of two tiles in memory: ``c = (0 if clear else c) + op(a) @ op(b)``.

In: a :class:`GemmSpec`. Out: the name of a function ``void (ptr a, ptr b, ptr c, i1 clear, ptr scratch)`` in the module.

Operands are packed into scratch memory (:mod:`zellige_cpu.leaf.packing`) and multiplied from there (:mod:`zellige_cpu.leaf.blocks`); an
operand whose elements the unit takes as they are is read where it lies, b only where too few rows would pay for packing it. Sizes and
strides are constants; any size from 1 up is allowed.
"""

from __future__ import annotations

from functools import cache

from zellige.dtypes import DType, dtype
from zellige.plan.products import equal_blocks, register_rows, rows_beside
from zellige.records import dataclass
from zellige_cpu.host import Host
from zellige_cpu.leaf.blocks import Macro, emit_macro
from zellige_cpu.leaf.packing import Packing, emit_packing, round_up
from zellige_cpu.leaf.units import Unit, general_unit
from zellige_cpu.text import Function, Module
from zellige_cpu.types import element_bytes, memory_type, register_type
from zellige_cpu.values import Value, constant


@dataclass(frozen=True, slots=True, kw_only=True)
class Matrix:
    """Row-major elements in a tile, ``stride`` elements from row to row."""

    rows: int
    columns: int
    stride: int
    dtype: DType


@dataclass(frozen=True, slots=True, kw_only=True)
class GemmSpec:
    """Sizes of the product (c is m by n), dtypes, and elements from one stored row to the next.

    ``transpose_a`` says that a is stored k by m, ``transpose_b`` that b is stored n by k. Elements are stored as tiles store them.
    ``unit`` multiplies; without one, operands are converted to the accumulator's type.
    """

    m: int
    n: int
    k: int
    a: DType
    b: DType
    c: DType
    a_stride: int
    b_stride: int
    c_stride: int
    transpose_a: bool = False
    transpose_b: bool = False
    unit: Unit | None = None

    @property
    def accumulator(self) -> DType:
        """The type that products are summed in: float64 if any is, float32 if any is a float, else 32- or 64-bit integers like c."""
        types = (self.a, self.b, self.c)
        if any(t.name == "float64" for t in types):
            return dtype("float64")
        if any(t.is_float for t in types):
            return dtype("float32")
        return dtype("int64" if self.c.bits == 64 else "int32")

    @property
    def stored_a(self) -> Matrix:
        rows, columns = (self.k, self.m) if self.transpose_a else (self.m, self.k)
        return Matrix(rows=rows, columns=columns, stride=self.a_stride, dtype=self.a)

    @property
    def stored_b(self) -> Matrix:
        rows, columns = (self.n, self.k) if self.transpose_b else (self.k, self.n)
        return Matrix(rows=rows, columns=columns, stride=self.b_stride, dtype=self.b)


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocking:
    """``rows`` by ``vectors * lanes`` elements of c stay in registers, ``narrow_rows`` in panels that are a vector narrower."""

    lanes: int
    rows: int
    narrow_rows: int
    vectors: int


@cache
def blocking(host: Host, m: int, n: int, unit: Unit) -> Blocking:
    """The micro-kernel's shape for a product of m by n."""
    lanes = unit.lanes(host)
    if unit.is_matrix:
        rows, columns = (equal_blocks(size, one, 2 * one) for size, one in ((m, unit.rows), (n, unit.width)))
        return Blocking(lanes=lanes, rows=rows, narrow_rows=rows, vectors=columns // lanes)
    rows, columns = register_rows(m, n, lanes, host.vector_registers - unit.step_registers)
    vectors = columns // lanes
    return Blocking(lanes=lanes, rows=min(rows, m), narrow_rows=narrow_rows(host, unit, m, rows, vectors), vectors=vectors)


def narrow_rows(host: Host, unit: Unit, m: int, rows: int, vectors: int) -> int:
    """Rows of blocks in panels that are a vector narrower than ``vectors``, in whose blocks of ``rows`` rows the plan fits."""
    if unit.is_matrix or vectors == 1:
        return rows
    return max(rows, min(m, rows_beside(m, vectors - 1, host.vector_registers - unit.step_registers)))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Layout:
    """How the operands of one product are read: packed, or (None) where they lie."""

    unit: Unit
    a: Packing | None
    b: Packing | None
    macro: Macro

    @property
    def b_offset(self) -> int:
        return 0 if self.a is None else round_up(self.a.target_bytes, 64)

    @property
    def spare_offset(self) -> int:
        return self.b_offset + (0 if self.b is None else round_up(self.b.target_bytes, 64))

    @property
    def scratch_bytes(self) -> int:
        return self.spare_offset + max((p.spare_bytes for p in (self.a, self.b) if p is not None), default=0)


@cache
def _layout(host: Host, spec: GemmSpec) -> _Layout:
    unit = spec.unit or general_unit(host, spec.accumulator)
    shape = blocking(host, spec.m, spec.n, unit)
    depth = round_up(spec.k, unit.depth) if unit.is_matrix else spec.k
    common = {"unit": unit, "depth": depth, "granule": depth, "lanes": shape.lanes}
    a = Packing(operand="a", dtype=spec.a, extent=spec.m, is_along=not spec.transpose_a, **common)  # type: ignore[arg-type]
    b = Packing(operand="b", dtype=spec.b, extent=spec.n, is_along=spec.transpose_b, vectors=shape.vectors, **common)  # type: ignore[arg-type]
    lies_a = lies_ready(spec.a, unit, spec.m, spec.k, is_transposed=spec.transpose_a)
    lies_b = unit.group == 1 and not spec.transpose_b and has_bits_of(spec.b, unit.b)
    lies_b = lies_b and spec.m <= 2 * shape.rows and spec.n % shape.lanes == 0
    size_a, size_b = element_bytes(spec.a), element_bytes(spec.b)
    row_step, k_step = a.row_step, unit.word_bytes
    if lies_a:
        row_step, k_step = (size_a, spec.a_stride * size_a) if spec.transpose_a else (spec.a_stride * size_a, unit.word_bytes)
    macro = Macro(
        unit=unit, m=spec.m, n=spec.n, c=spec.c, c_stride=spec.c_stride, lanes=shape.lanes, rows=shape.rows,
        narrow_rows=shape.narrow_rows, vectors=shape.vectors, a_row_step=row_step, a_k_step=k_step,
        panel_step=shape.vectors * shape.lanes * size_b if lies_b else b.panel_step,
        narrow_step=(shape.vectors - 1) * shape.lanes * size_b if lies_b else b.panel_step,
        b_k_step=spec.b_stride * size_b if lies_b else 0,
        b_alignment=size_b if lies_b else 0,
        header=b.header,
        multiple=-(-depth // unit.group),
    )  # fmt: skip
    return _Layout(unit=unit, a=None if lies_a else a, b=None if lies_b else b, macro=macro)


def lies_ready(dtype: DType, unit: Unit, rows: int, depth: int, *, is_transposed: bool) -> bool:
    """Whether a unit can take the elements of operand a where they lie, ``rows`` of ``depth`` of k."""
    if unit.is_biased or not has_bits_of(dtype, unit.a):
        return False
    if unit.is_matrix:
        return not is_transposed and rows % unit.rows == 0 and depth % unit.depth == 0
    return unit.group == 1 or (not is_transposed and depth % unit.group == 0)


def has_bits_of(own: DType, wanted: DType) -> bool:
    """Whether elements of ``own`` in memory are what they would be as ``wanted``."""
    if own.name == wanted.name:
        return memory_type(own) == register_type(own)
    names = {own.name, wanted.name}
    return names == {"tfloat32", "float32"} or (own.is_integer and wanted.is_integer and own.bits == wanted.bits == 8 * element_bytes(own))


def scratch_bytes(host: Host, spec: GemmSpec) -> int:
    """Bytes of 64-byte aligned memory that a call needs for its own use; nothing in it outlives the call."""
    return _layout(host, spec).scratch_bytes


def emit_gemm(module: Module, spec: GemmSpec) -> str:
    """The name of the function that multiplies by ``spec``, made on first use."""
    layout = _layout(module.host, spec)
    unit = layout.unit
    name = (
        f"gemm_{spec.m}x{spec.n}x{spec.k}_{spec.a}_{spec.b}_{spec.c}_{spec.a_stride}_{spec.b_stride}_{spec.c_stride}"
        f"_{'t' if spec.transpose_a else 'n'}{'t' if spec.transpose_b else 'n'}_{unit.a}_{unit.group}x{unit.width}x{unit.rows}"
    )
    if module.has_function(name):
        return name
    fn = module.function(name, "void", [("a", "ptr"), ("b", "ptr"), ("c", "ptr"), ("clear", "i1"), ("scratch", "ptr")], inline=False)
    a, b, c, clear, scratch = fn.params
    spare = fn.offset(scratch, layout.spare_offset)
    if layout.a is not None:
        a = _packed(fn, layout.a, spec.stored_a, a, scratch, spare)
    if layout.b is not None:
        b = _packed(fn, layout.b, spec.stored_b, b, fn.offset(scratch, layout.b_offset), spare)
    sizes = [constant("i64", size) for size in (layout.macro.multiple, spec.m, spec.n)]
    fn.call(emit_macro(module, layout.macro, layout.macro.multiple), a, b, c, *sizes, clear)
    return name


def _packed(fn: Function, packing: Packing, matrix: Matrix, source: Value, target: Value, spare: Value) -> Value:
    numbers = (matrix.stride * element_bytes(matrix.dtype), matrix.rows, matrix.columns, packing.depth)
    fn.call(emit_packing(fn.module, packing), source, *[constant("i64", n) for n in numbers], target, spare)
    return target
