"""Tile products of the CPU backend against NumPy: sizes, dtypes, transpositions, strides, and that nothing else is touched."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from zellige.dtypes import DType, all_dtypes, dtype
from zellige_cpu.host import running_host
from zellige_cpu.leaf.gemm import GemmSpec, blocking, emit_gemm, scratch_bytes
from zellige_cpu.leaf.units import general_unit
from zellige_cpu.text import Module

ENTRY = [("a", "ptr"), ("b", "ptr"), ("c", "ptr"), ("clear", "i1"), ("scratch", "ptr")]
GUARD = 77  # elements before and after each matrix that must survive


def storage(t: DType) -> np.dtype:
    """How a tile holds ``t``."""
    return np.dtype(np.int8 if t.is_signed else np.uint8) if t.is_integer and t.bits == 4 else t.numpy


def spec_of(
    m: int, n: int, k: int, a: str = "float32", b: str = "float32", c: str = "float32", *, ta: bool = False, tb: bool = False, pad: int = 0
):
    return GemmSpec(
        m=m,
        n=n,
        k=k,
        a=dtype(a),
        b=dtype(b),
        c=dtype(c),
        a_stride=(m if ta else k) + pad,
        b_stride=(k if tb else n) + pad,
        c_stride=n + pad,
        transpose_a=ta,
        transpose_b=tb,
    )


class Matrix:
    """A matrix with guard elements around it and in the gaps between rows."""

    def __init__(self, rows: int, columns: int, stride: int, t: DType, random: np.random.Generator) -> None:
        count = rows * stride + 2 * GUARD
        low, high = (-4, 5) if t.is_signed else (0, 5)
        self.memory = random.integers(low, high, count).astype(np.float32).astype(t.numpy).astype(storage(t))
        self.rows, self.columns, self.stride, self.dtype = rows, columns, stride, t

    @property
    def origin(self) -> np.ndarray:
        return self.memory[GUARD:]

    @property
    def values(self) -> np.ndarray:
        used = self.memory[GUARD : GUARD + self.rows * self.stride].reshape(self.rows, self.stride)[:, : self.columns]
        return used.astype(np.float32).astype(np.float64) if self.dtype.bits <= 16 else used.astype(np.float64)


def aligned(size: int) -> np.ndarray:
    memory = np.full(size + 128, 0xA5, np.uint8)
    start = -memory.ctypes.data % 64
    return memory[start : start + size + 64]


def run(program, host, spec: GemmSpec, clear: bool, seed: int = 0) -> tuple[np.ndarray, np.ndarray, Matrix]:
    """(what c should hold, what it holds, c). Small integers, so that float sums are exact in any order."""
    module = Module("gemm", host)
    name = emit_gemm(module, spec)
    entry = module.function("run", "void", ENTRY, is_exported=True)
    entry.call(name, *entry.params)
    loaded = program(module, ["run"])
    random = np.random.default_rng(seed)
    a = Matrix(spec.stored_a.rows, spec.stored_a.columns, spec.a_stride, spec.a, random)
    b = Matrix(spec.stored_b.rows, spec.stored_b.columns, spec.b_stride, spec.b, random)
    c = Matrix(spec.m, spec.n, spec.c_stride, spec.c, random)
    if clear and spec.c.is_float and spec.c.name in ("float32", "float16", "bfloat16", "float64"):
        c.memory[GUARD : GUARD + 5] = np.nan  # what is cleared is not read
    left = a.values.T if spec.transpose_a else a.values
    right = b.values.T if spec.transpose_b else b.values
    expected = left @ right + (0 if clear else c.values)
    before = c.memory.copy()
    size = scratch_bytes(host, spec)
    scratch = aligned(size)
    loaded("run", a.origin, b.origin, c.origin, clear, scratch)
    assert (scratch[size:] == 0xA5).all(), "scratch memory overrun"
    touched = np.zeros(len(before), bool)
    touched[GUARD : GUARD + spec.m * spec.c_stride].reshape(spec.m, spec.c_stride)[:, : spec.n] = True
    bits = before.view(np.uint8).reshape(len(before), -1)
    assert np.array_equal(bits[~touched], c.memory.view(np.uint8).reshape(bits.shape)[~touched]), "memory beside c was written"
    return expected, c.values, c


def rounded(values: np.ndarray, t: DType) -> np.ndarray:
    if t.is_integer:
        whole = values.astype(np.int64) % (1 << min(t.bits, 62))
        return np.where(whole > t.max, whole - (1 << t.bits), whole).astype(np.float64) if t.bits < 62 else values
    with np.errstate(all="ignore"):
        return values.astype(np.float32).astype(t.numpy).astype(np.float64) if t.bits <= 32 else values


SIZES = [
    (1, 1, 1),
    (1, 128, 128),
    (128, 1, 16),
    (5, 7, 3),
    (8, 32, 4),
    (16, 16, 16),
    (37, 53, 19),
    (64, 80, 48),
    (80, 112, 33),
    (9, 33, 65),
    (2, 300, 8),
]


FEW = [(5, 7, 3), (37, 53, 19), (2, 300, 8)]
ON_HOSTS = [
    pytest.param(h, s, id=f"{h}-{'x'.join(map(str, s))}")
    for h in ("native", "short_vectors", "baseline")
    for s in (SIZES if h == "native" else FEW)
]


@pytest.mark.parametrize("host_name,size", ON_HOSTS)
@pytest.mark.parametrize("layout", ["nn", "nt", "tn", "tt"])
def test_sizes_and_transpositions(program, host_named, host_name, size, layout):
    spec = spec_of(*size, ta=layout[0] == "t", tb=layout[1] == "t", pad=3 if size[0] % 2 else 0)
    for clear in (False, True):
        expected, got, _ = run(program, host_named(host_name), spec, clear)
        assert np.array_equal(got, expected)


TYPES = [
    *[(t, t, "float32") for t in ("float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz")],
    *[(t, t, "float32") for t in ("float6_e3m2fn", "float4_e2m1fn")],
    ("float16", "float16", "float16"), ("bfloat16", "bfloat16", "bfloat16"), ("float8_e5m2", "float16", "bfloat16"),
    ("tfloat32", "tfloat32", "float32"), ("float64", "float64", "float64"), ("float32", "float64", "float32"),
    ("int8", "int8", "int32"), ("uint8", "int8", "int32"), ("uint8", "uint8", "uint32"), ("int4", "int4", "int32"),
    ("uint4", "int4", "int8"), ("int16", "int16", "int16"), ("int32", "int32", "int32"), ("int32", "uint32", "int64"),
    ("int8", "float16", "float32"), ("int8", "int8", "float32"),
]  # fmt: skip


TYPES_ON_HOSTS = [
    pytest.param(h, t, id="-".join((h, *t))) for h in ("native", "baseline") for t in (TYPES if h == "native" else TYPES[:3] + TYPES[-6:-3])
]


@pytest.mark.parametrize("host_name,types", TYPES_ON_HOSTS)
def test_dtypes(program, host_named, host_name, types):
    for ta, tb in ((False, False), (True, True)):
        spec = spec_of(21, 35, 18, *types, ta=ta, tb=tb, pad=1)
        for clear in (False, True):
            expected, got, _ = run(program, host_named(host_name), spec, clear)
            assert np.array_equal(got, rounded(expected, spec.c))


def test_sub_32_bit_floats_are_rounded_once(program):
    """1 + 1000 * 2**-12 in float16: adding one term at a time in float16 would stay at 1."""
    spec = spec_of(1, 16, 1000, "float16", "float16", "float16")
    module = Module("once", running_host())
    name = emit_gemm(module, spec)
    entry = module.function("run", "void", ENTRY, is_exported=True)
    entry.call(name, *entry.params)
    a, b, c = np.full(1000, 2.0**-6, np.float16), np.full((1000, 16), 2.0**-6, np.float16), np.ones(16, np.float16)
    program(module, ["run"])("run", a, b, c, False, aligned(scratch_bytes(running_host(), spec)))
    assert (c == np.float16(1 + 1000 * 2.0**-12)).all()


def test_bits_do_not_depend_on_how_k_is_cut(program):
    """One product over k equals products over its pieces, bit for bit."""
    host = running_host()
    random = np.random.default_rng(1)
    m, n, k = 20, 40, 48
    a, b = random.standard_normal((m, k)).astype(np.float32), random.standard_normal((k, n)).astype(np.float32)
    whole, pieces = np.zeros((m, n), np.float32), np.zeros((m, n), np.float32)
    module = Module("cut", host)
    long = replace(spec_of(m, n, k), a_stride=k)
    short = replace(spec_of(m, n, 16), a_stride=k)
    names = {"long": emit_gemm(module, long), "short": emit_gemm(module, short)}
    for label, name in names.items():
        entry = module.function(label, "void", ENTRY, is_exported=True)
        entry.call(name, *entry.params)
    loaded = program(module, list(names))
    scratch = aligned(scratch_bytes(host, long))
    loaded("long", a, b, whole, True, scratch)
    for start in range(0, k, 16):
        loaded("short", a[:, start:], b[start:], pieces, start == 0, scratch)
    assert np.array_equal(whole, pieces)


def test_float32_error_is_that_of_a_chain(program, host):
    """Within k units of rounding of the sum of magnitudes."""
    spec = spec_of(33, 47, 200)
    module = Module("error", host)
    name = emit_gemm(module, spec)
    entry = module.function("run", "void", ENTRY, is_exported=True)
    entry.call(name, *entry.params)
    random = np.random.default_rng(9)
    a, b = random.standard_normal((33, 200)).astype(np.float32), random.standard_normal((200, 47)).astype(np.float32)
    c = np.zeros((33, 47), np.float32)
    program(module, ["run"])("run", a, b, c, True, aligned(scratch_bytes(host, spec)))
    exact = a.astype(np.float64) @ b.astype(np.float64)
    assert (np.abs(c - exact) <= 201 * 2.0**-24 * (np.abs(a).astype(np.float64) @ np.abs(b).astype(np.float64))).all()


@settings(max_examples=12)
@given(
    st.tuples(*[st.integers(1, 70)] * 3),
    st.booleans(),
    st.booleans(),
    st.sampled_from(["float32", "float16", "int8"]),
    st.integers(0, 9),
    st.booleans(),
)
def test_any_shape(program, size, ta, tb, t, pad, clear):
    spec = spec_of(*size, t, t, {"int8": "int32"}.get(t, t), ta=ta, tb=tb, pad=pad)
    expected, got, _ = run(program, running_host(), spec, clear)
    assert np.array_equal(got, rounded(expected, spec.c))


def test_micro_kernel_fits_the_registers(host):
    for m, n in ((128, 128), (1, 512), (2, 64), (3, 64), (64, 16), (64, 48), (17, 80), (5, 8)):
        for accumulator in ("float32", "float64"):
            shape = blocking(host, m, n, general_unit(host, dtype(accumulator)))
            beside = shape.vectors + 1 if shape.rows > 1 else 1  # a single row takes vectors of b from memory
            assert shape.rows * shape.vectors + beside <= host.vector_registers
            assert shape.rows * shape.vectors >= min(8, m * -(-n // shape.lanes), host.vector_registers // 2)


def test_every_dtype_multiplies(program):
    """Each element type as both operands; the accumulator follows from c."""
    for t in all_dtypes():
        if t.is_bool or t.name == "float8_e8m0fnu":
            continue
        c = "int32" if t.is_integer else "float64" if t.name == "float64" else "float32"
        expected, got, _ = run(program, running_host(), spec_of(4, 20, 6, str(t), str(t), c, tb=True), False)
        assert np.array_equal(got, expected), t
