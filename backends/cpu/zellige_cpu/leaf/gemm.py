"""The product of two tiles in memory: ``c = (0 if clear else c) + op(a) @ op(b)``.

In: a :class:`GemmSpec`. Out: the name of a function ``void (ptr a, ptr b, ptr c, i1 clear, ptr scratch)`` in the module.

b is packed into panels of a few vectors' width, converted to the accumulator type; a is read where it lies, or from a converted copy, one
element at a time broadcast to all lanes. A micro-kernel holds a block of c in registers over the whole of k, so each element
is one chain of fused multiply-adds in the order of k, that begins at c: the bits do not depend on how k was cut into calls.
The block's shape follows from the register file. Edges in n are padded in the panels and masked at c, edges in m have a micro-kernel of
their own. Sizes and strides are constants; any size from 1 up is allowed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from zellige.dtypes import DType, dtype
from zellige_cpu.host import Host
from zellige_cpu.leaf.convert import cast
from zellige_cpu.leaf.panels import Matrix, emit_converted_copy, emit_panels, lane_mask, load_lanes
from zellige_cpu.text import Function, Module, Value, constant, zero
from zellige_cpu.types import element_bytes, memory_type, register_type

_UNROLL = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class GemmSpec:
    """Sizes of the product (c is m by n), dtypes, and elements from one stored row to the next.

    ``transpose_a`` says that a is stored k by m, ``transpose_b`` that b is stored n by k. Elements are stored as tiles store them.
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
    """``rows`` by ``vectors * lanes`` elements of c stay in registers; the last panel of n may need ``tail_vectors`` only."""

    lanes: int
    rows: int
    vectors: int
    full_panels: int
    tail_columns: int

    @property
    def width(self) -> int:
        """Columns of a full panel."""
        return self.vectors * self.lanes

    @property
    def tail_vectors(self) -> int:
        return -(-self.tail_columns // self.lanes)


@cache
def blocking(host: Host, spec: GemmSpec) -> Blocking:
    """The micro-kernel's shape: enough independent sums to hide the latency of a multiply-add, few enough to stay in registers."""
    lanes = host.lanes(element_bytes(spec.accumulator))
    is_wide = host.vector_registers >= 32
    columns = -(-spec.n // lanes)
    if spec.m == 1:
        vectors = min(columns, 8 if is_wide else 6)
    elif columns == 1:
        vectors = 1
    elif columns == 3 and is_wide:
        vectors = 3
    elif spec.m < 4 and is_wide:
        vectors = min(columns, 4)
    else:
        vectors = 2
    rows = {1: 16, 2: 8, 3: 8}.get(vectors, 4) if is_wide else {1: 8, 2: 4}.get(vectors, 1)
    width = vectors * lanes
    return Blocking(lanes=lanes, rows=min(rows, spec.m), vectors=vectors, full_panels=spec.n // width, tail_columns=spec.n % width)


def _needs_copy(spec: GemmSpec) -> bool:
    """Whether a must be converted before the micro-kernel can broadcast its elements."""
    return register_type(spec.a) != register_type(spec.accumulator) or memory_type(spec.a) != register_type(spec.accumulator)


def _panel_bytes(host: Host, spec: GemmSpec) -> int:
    shape = blocking(host, spec)
    vectors = shape.full_panels * shape.vectors + shape.tail_vectors
    return vectors * shape.lanes * spec.k * element_bytes(spec.accumulator)


def _copy_stride(host: Host, spec: GemmSpec) -> int:
    lanes = host.lanes(element_bytes(spec.accumulator))
    return -(-spec.stored_a.columns // lanes) * lanes


def scratch_bytes(host: Host, spec: GemmSpec) -> int:
    """Bytes of 64-byte aligned memory that a call needs for its own use; nothing in it outlives the call."""
    panels = -(-_panel_bytes(host, spec) // 64) * 64
    if not _needs_copy(spec):
        return panels
    return panels + -(-spec.stored_a.rows * _copy_stride(host, spec) * element_bytes(spec.accumulator) // 64) * 64


def emit_gemm(module: Module, spec: GemmSpec) -> str:
    """The name of the function that multiplies by ``spec``, made on first use."""
    name = (
        f"gemm_{spec.m}x{spec.n}x{spec.k}_{spec.a}_{spec.b}_{spec.c}_{spec.a_stride}_{spec.b_stride}_{spec.c_stride}"
        f"_{'t' if spec.transpose_a else 'n'}{'t' if spec.transpose_b else 'n'}"
    )
    if module.has_function(name):
        return name
    host = module.host
    shape = blocking(host, spec)
    accumulator = spec.accumulator
    size = element_bytes(accumulator)
    fn = module.function(name, "void", [("a", "ptr"), ("b", "ptr"), ("c", "ptr"), ("clear", "i1"), ("scratch", "ptr")], inline=False)
    a, b, c, clear, scratch = fn.params
    source, stride = a, spec.a_stride
    if _needs_copy(spec):
        stride = _copy_stride(host, spec)
        source = fn.offset(scratch, -(-_panel_bytes(host, spec) // 64) * 64)
        emit_converted_copy(fn, spec.stored_a, a, source, accumulator, stride, shape.lanes)
    emit_panels(fn, spec.stored_b, b, scratch, accumulator, shape.lanes, shape.width, is_transposed=spec.transpose_b)
    row_step, k_step = (size, stride * size) if spec.transpose_a else (stride * size, size)
    kernels = _MicroKernels(module, name, spec, shape, row_step, k_step)
    c_size = element_bytes(spec.c)
    panel_bytes = shape.width * spec.k * size
    if shape.full_panels:
        with fn.loop(constant("i64", 0), constant("i64", shape.full_panels)) as loop:
            panel = fn.offset(scratch, fn.binary("mul", loop.index, constant("i64", panel_bytes)))
            columns = fn.offset(c, fn.binary("mul", loop.index, constant("i64", shape.width * c_size)))
            _emit_rows(fn, kernels, source, panel, columns, clear, shape.vectors, 0)
    if shape.tail_columns:
        panel = fn.offset(scratch, shape.full_panels * panel_bytes)
        columns = fn.offset(c, shape.full_panels * shape.width * c_size)
        _emit_rows(fn, kernels, source, panel, columns, clear, shape.tail_vectors, spec.n % shape.lanes)
    return name


@dataclass(frozen=True, slots=True)
class _MicroKernels:
    """The micro-kernels of one product, each made on first use. Steps are in bytes."""

    module: Module
    stem: str
    spec: GemmSpec
    shape: Blocking
    row_step: int
    k_step: int

    def get(self, rows: int, vectors: int, last_lanes: int) -> str:
        """The name of ``void (ptr a, ptr panel, ptr c, i1 clear)`` for a block of that shape; ``last_lanes`` 0: all."""
        name = f"{self.stem}_block_{rows}x{vectors}_{last_lanes}"
        if not self.module.has_function(name):
            params = [("a", "ptr"), ("panel", "ptr"), ("c", "ptr"), ("clear", "i1")]
            _emit_block(self.module.function(name, "void", params, inline=False), self, rows, vectors, last_lanes)
        return name


def _emit_rows(fn: Function, kernels: _MicroKernels, a: Value, panel: Value, c: Value, clear: Value, vectors: int, last_lanes: int) -> None:
    """One panel against all rows of a."""
    spec, shape = kernels.spec, kernels.shape
    c_row = spec.c_stride * element_bytes(spec.c)
    blocks, rest = divmod(spec.m, shape.rows)
    full = kernels.get(shape.rows, vectors, last_lanes)
    with fn.loop(constant("i64", 0), constant("i64", blocks)) as loop:
        rows = fn.offset(a, fn.binary("mul", loop.index, constant("i64", shape.rows * kernels.row_step)))
        fn.call(full, rows, panel, fn.offset(c, fn.binary("mul", loop.index, constant("i64", shape.rows * c_row))), clear)
    if rest:
        rows = fn.offset(a, blocks * shape.rows * kernels.row_step)
        fn.call(kernels.get(rest, vectors, last_lanes), rows, panel, fn.offset(c, blocks * shape.rows * c_row), clear)


def _emit_block(fn: Function, kernels: _MicroKernels, rows: int, vectors: int, last_lanes: int) -> None:
    """The micro-kernel: load c, all of k, store c."""
    spec, lanes = kernels.spec, kernels.shape.lanes
    a, panel, c, clear = fn.params
    places = [(row, v) for row in range(rows) for v in range(vectors)]
    masks = [lane_mask(lanes, last_lanes) if last_lanes and v == vectors - 1 else None for v in range(vectors)]
    sums = _load_block(fn, spec, c, clear, places, masks, lanes)
    step = _Step(fn, kernels, rows, vectors)
    rounds, rest = divmod(spec.k, _UNROLL)
    if rounds > 1:
        with fn.loop(constant("i64", 0), constant("i64", rounds)) as loop:
            carried = [loop.carry(s) for s in sums]
            base_a = fn.offset(a, fn.binary("mul", loop.index, constant("i64", _UNROLL * kernels.k_step)))
            base_b = fn.offset(panel, fn.binary("mul", loop.index, constant("i64", _UNROLL * step.panel_step)))
            current = carried
            for k in range(_UNROLL):
                current = step.emit(base_a, base_b, k, current)
            for old, new in zip(carried, current):
                loop.update(old, new)
        sums = [loop.final(s) for s in carried]
        a, panel = fn.offset(a, rounds * _UNROLL * kernels.k_step), fn.offset(panel, rounds * _UNROLL * step.panel_step)
    else:
        rest = spec.k
    for k in range(rest):
        sums = step.emit(a, panel, k, sums)
    c_size = element_bytes(spec.c)
    for (row, v), total in zip(places, sums):
        address = fn.offset(c, (row * spec.c_stride + v * lanes) * c_size)
        result = cast(fn, total, spec.accumulator, spec.c)
        mask = masks[v]
        if mask is None:
            fn.store(result, address, align=c_size)
        else:
            fn.masked_store(result, address, mask, align=c_size)


def _load_block(
    fn: Function, spec: GemmSpec, c: Value, clear: Value, places: list[tuple[int, int]], masks: list[Value | None], lanes: int
) -> list[Value]:
    """The block of c in the accumulator type, or zeros where the product replaces c; c is then not read."""
    element = register_type(spec.accumulator)
    c_size = element_bytes(spec.c)
    load, join = fn.fresh_label("load"), fn.fresh_label("begin")
    before = fn.current
    fn.branch_if(clear, join, load)
    fn.label(load)
    loaded = [
        load_lanes(fn, fn.offset(c, (row * spec.c_stride + v * lanes) * c_size), spec.c, spec.accumulator, lanes, masks[v])
        for row, v in places
    ]
    end = fn.current
    fn.label(join)
    nothing = zero(element, lanes)
    return [fn.phi((nothing, before), (value, end)) for value in loaded]


@dataclass(frozen=True, slots=True)
class _Step:
    """One k of the micro-kernel: a column of a, each element broadcast, times a row of the panel."""

    fn: Function
    kernels: _MicroKernels
    rows: int
    vectors: int

    @property
    def panel_step(self) -> int:
        """Bytes of one k in the panel."""
        return self.vectors * self.kernels.shape.lanes * element_bytes(self.kernels.spec.accumulator)

    def emit(self, a: Value, panel: Value, k: int, sums: list[Value]) -> list[Value]:
        fn, kernels = self.fn, self.kernels
        element, lanes = register_type(kernels.spec.accumulator), kernels.shape.lanes
        size = element_bytes(kernels.spec.accumulator)
        right = [
            fn.load(fn.offset(panel, k * self.panel_step + v * lanes * size), element, lanes, align=lanes * size)
            for v in range(self.vectors)
        ]
        left = self._column(a, k, element, lanes, size)
        result: list[Value] = []
        for row in range(self.rows):
            broadcast = next(left)
            result.extend(self._multiply_add(broadcast, right[v], sums[row * self.vectors + v]) for v in range(self.vectors))
        return result

    def _column(self, a: Value, k: int, element: str, lanes: int, size: int) -> Iterator[Value]:
        fn, kernels = self.fn, self.kernels
        for row in range(self.rows):
            address = fn.offset(a, row * kernels.row_step + k * kernels.k_step)
            yield fn.splat(fn.load(address, element, align=size), lanes)

    def _multiply_add(self, left: Value, right: Value, total: Value) -> Value:
        fn = self.fn
        if left.element not in ("float", "double"):
            return fn.binary("add", total, fn.binary("mul", left, right))
        # on a machine with the instruction both are the same; on one without, llvm.fma would be a call of the C library
        name = "llvm.fma" if has_fused_multiply_add(fn.module.host) else "llvm.fmuladd"
        return fn.intrinsic(name, left, right, total)


def has_fused_multiply_add(host: Host) -> bool:
    """Whether a fused multiply-add is an instruction."""
    return not host.is_x86 or "fma" in host.features or "avx512f" in host.features
