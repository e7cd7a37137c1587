"""Reductions and scans of the CPU backend against NumPy, in every dtype and along every axis, and that nothing else is written."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from zellige.diagnostics import InternalError
from zellige.dtypes import DType, all_dtypes, dtype
from zellige_cpu.host import running_host
from zellige_cpu.leaf import reduce as reduce_module
from zellige_cpu.leaf.reduce import ReduceSpec, emit_reduce, reduction_dtype
from zellige_cpu.leaf.scan import ScanSpec, emit_scan
from zellige_cpu.text import Module

GUARD = 70
BIT = ("bitand", "bitor", "bitxor")
OPS = ("sum", "prod", "max", "min", "absmax", "abssum", *BIT, "any", "all")
SHAPES = [
    ((1,), 0),
    ((37,), 0),
    ((5, 7), 0),
    ((5, 7), 1),
    ((64, 33), 0),
    ((33, 64), 1),
    ((3, 80, 5), 1),
    ((3, 17, 33), 1),
    ((2, 3, 100), 2),
    ((9, 3, 1), 0),
]
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # NaN and overflow in the references


def storage(t: DType) -> np.dtype:
    return np.dtype(np.int8 if t.is_signed else np.uint8) if t.is_integer and t.bits == 4 else t.numpy


def dense(shape: tuple[int, ...]) -> tuple[int, ...]:
    strides = [1]
    for extent in reversed(shape[1:]):
        strides.append(strides[-1] * extent)
    return tuple(reversed(strides))


def data(random: np.random.Generator, count: int, t: DType, op: str) -> np.ndarray:
    """Small integers, whose sums are exact in any order; some NaN for max and min, powers of two for products."""
    if t.is_bool:
        return random.integers(0, 2, count).astype(bool)
    if t.name == "float8_e8m0fnu":
        return (2.0 ** random.integers(-2, 3, count)).astype(np.float32).astype(t.numpy)
    if op == "prod" and t.is_float:
        return random.choice([0.5, 1, 1, 2, -1] if t.is_signed else [1.0], count).astype(np.float32).astype(t.numpy)
    values = random.integers(-6 if t.is_signed else 0, 7, count).astype(np.float32)
    if t.is_float and op in ("max", "min", "absmax"):
        values[random.random(count) < 0.4] = np.nan
    return values.astype(t.numpy).astype(storage(t))


def numbers(values: np.ndarray, source: DType, accumulator: DType) -> np.ndarray:
    """Values in the type they are combined in; floats in float64, where these small sums are exact."""
    if accumulator.is_float:
        return values.astype(np.float32).astype(np.float64) if source.is_float and source.bits <= 16 else values.astype(np.float64)
    return values.astype(bool) if accumulator.is_bool else values.astype(np.int64).astype(storage(accumulator))


UFUNC = {
    "sum": np.add, "abssum": np.add, "prod": np.multiply, "max": np.fmax, "absmax": np.fmax, "min": np.fmin,
    "bitand": np.bitwise_and, "bitor": np.bitwise_or, "bitxor": np.bitwise_xor, "any": np.logical_or, "all": np.logical_and,
}  # fmt: skip


def finished(result: np.ndarray, accumulator: DType, target: DType) -> np.ndarray:
    """The accumulated numbers in the target's storage."""
    result = np.asarray(result)
    if target.is_bool:
        return result.astype(bool)
    if target.is_float:
        wide = result.astype(np.float64)
        return wide if target.name == "float64" else wide.astype(np.float32).astype(target.numpy)
    whole = result.astype(np.int64) if result.dtype.kind == "f" else result  # a float result here is small and whole
    if 4 in (target.bits, accumulator.bits):
        whole = whole.astype(np.int64) & 15
        is_signed = (accumulator if accumulator.bits == 4 else target).is_signed
        whole = np.where(whole > 7, whole - 16, whole) if is_signed else whole
    return whole.astype(storage(target))


def same(got: np.ndarray, expected: np.ndarray) -> bool:
    return np.array_equal(got.astype(np.float64), expected.astype(np.float64), equal_nan=True)


class Guarded:
    """An array amid elements that must survive."""

    def __init__(self, values: np.ndarray, strides: tuple[int, ...]) -> None:
        span = 1 + sum((e - 1) * s for e, s in zip(values.shape, strides))
        self.memory = (
            np.frombuffer(np.random.default_rng(0).bytes((span + 2 * GUARD) * values.itemsize), np.uint8).copy().view(values.dtype)
        )
        bits = self.memory[GUARD:].view(f"u{values.itemsize}")  # NumPy cannot stride over every ml_dtypes type
        self.view = np.lib.stride_tricks.as_strided(bits, values.shape, [s * values.itemsize for s in strides]).view(values.dtype)
        self.view[...] = values
        marks = np.zeros(len(self.memory), bool)
        np.lib.stride_tricks.as_strided(marks[GUARD:], values.shape, strides)[...] = True
        self.outside = ~marks
        self.before = self.memory.view(f"u{values.itemsize}").copy()

    @property
    def origin(self) -> np.ndarray:
        return self.memory[GUARD:]

    @property
    def is_intact(self) -> bool:
        return np.array_equal(self.memory.view(self.before.dtype)[self.outside], self.before[self.outside])


class Batch:
    """Many specs in one module, since compiling one costs more than running it."""

    def __init__(self, host) -> None:
        self.module = Module("reductions", host)
        self.entries: list[str] = []

    def add(self, name: str) -> str:
        entry = f"run{len(self.entries)}"
        fn = self.module.function(entry, "void", [("src", "ptr"), ("dst", "ptr")], is_exported=True)
        fn.call(name, *fn.params)
        self.entries.append(entry)
        return entry


def reduce_reference(x: np.ndarray, old: np.ndarray, spec: ReduceSpec) -> np.ndarray:
    wide = reduction_dtype(spec.src, spec.dst)
    values, before = numbers(x, spec.src, wide), numbers(old, spec.dst, wide)
    if spec.op in ("absmax", "abssum") and not wide.is_bool:
        values = np.abs(values)
    if spec.op in ("any", "all"):
        values, before = values != 0, before != 0
    combine = {"max": np.maximum, "absmax": np.maximum, "min": np.minimum}[spec.op] if spec.nan_propagate else UFUNC[spec.op]
    result = combine.reduce(values, axis=spec.axis, dtype=values.dtype)
    return finished(result if spec.clear else combine(before, result), wide if spec.op not in ("any", "all") else dtype("bool"), spec.dst)


def check_reductions(program, host, specs: list[ReduceSpec]) -> None:
    random = np.random.default_rng(3)
    batch = Batch(host)
    entries = [batch.add(emit_reduce(batch.module, spec)) for spec in specs]
    loaded = program(batch.module, entries)
    for spec, entry in zip(specs, entries):
        kept = tuple(e for i, e in enumerate(spec.shape) if i != spec.axis)
        source = Guarded(data(random, int(np.prod(spec.shape)), spec.src, spec.op).reshape(spec.shape), spec.src_strides)
        target = Guarded(data(random, int(np.prod(kept)), spec.dst, spec.op).reshape(kept), spec.dst_strides)
        expected = reduce_reference(source.view, target.view.copy(), spec)
        loaded(entry, source.origin, target.origin)
        assert same(target.view, expected), (spec, target.view, expected)
        assert target.is_intact, spec


def reduce_spec(shape, axis, src, dst, op, **options) -> ReduceSpec:
    kept = tuple(e for i, e in enumerate(shape) if i != axis)
    return ReduceSpec(
        shape=shape,
        axis=axis,
        src_strides=dense(shape),
        dst_strides=dense(kept) if kept else (),
        src=dtype(src),
        dst=dtype(dst),
        op=op,
        **options,
    )


@pytest.mark.parametrize("shape,axis", SHAPES)
def test_shapes_and_operations(program, extreme_host, shape, axis):
    pairs = [("float32", "float32"), ("int32", "int32"), ("float16", "float16")]
    specs = [
        reduce_spec(shape, axis, src, dst, op, clear=clear)
        for i, ((src, dst), op) in enumerate(itertools.product(pairs, OPS))
        for clear in ((True, False) if src == "float32" else (i % 2 == 0,))
        if not (op in BIT and src.startswith("float"))
    ]
    check_reductions(program, extreme_host, specs)


SOME = [dtype(name) for name in ("float16", "bfloat16", "float8_e4m3fn", "float64", "int8", "bool")]
BY_HOST = [pytest.param(host, t, id=f"{host}-{t}") for host, types in (("native", all_dtypes()), ("baseline", SOME)) for t in types]


@pytest.mark.parametrize("host_name,src", BY_HOST)
def test_every_dtype(program, host_named, host_name, src):
    """Onto the same dtype and onto a wide one, along a contiguous axis and across it, with a masked last vector of one lane."""
    wide = "float64" if src.name == "float64" else "float32" if src.is_float else "bool" if src.is_bool else "int64"
    specs = [
        reduce_spec((3, 33), axis, src, dst, op, clear=(i + axis) % 2 == 0)
        for dst, axis, (i, op) in itertools.product({str(src), wide}, (0, 1), enumerate(OPS))
        if not (op in BIT and src.is_float)
    ]
    check_reductions(program, host_named(host_name), specs)


@pytest.mark.parametrize(
    "src,dst",
    [("float16", "bfloat16"), ("float32", "float16"), ("int8", "uint8"), ("uint8", "int32"), ("int32", "float32"), ("bool", "int32")],
)
def test_between_dtypes(program, src, dst):
    ops = [op for op in OPS if op not in BIT]
    check_reductions(
        program, running_host(), [reduce_spec((4, 19), axis, src, dst, op, clear=c) for axis in (0, 1) for op in ops for c in (True, False)]
    )


@pytest.mark.parametrize("t", ["float32", "float16", "float64"])
def test_nan_is_skipped_or_propagated(program, host, t):
    specs = [
        reduce_spec(shape, axis, t, t, op, clear=clear, nan_propagate=propagate)
        for shape, axis in (((6, 20), 0), ((6, 20), 1), ((50, 1), 0))
        for op in ("max", "min", "absmax")
        for clear in (True, False)
        for propagate in (True, False)
    ]
    check_reductions(program, host, specs)
    batch = Batch(host)
    entry = batch.add(emit_reduce(batch.module, reduce_spec((2, 40), 1, t, t, "max")))
    out = np.zeros(2, t)
    program(batch.module, [entry])(entry, np.array([[np.nan] * 40, [np.nan] * 39 + [-np.inf]], t), out)
    assert np.isnan(out[0])
    assert out[1] == -np.inf


@pytest.mark.parametrize("t", ["float32", "float64", "bfloat16"])
def test_rows_together_give_the_bits_of_rows_one_by_one(program, host, t, monkeypatch):
    """Sums in the same order, and a row without a number, or with nothing but the worst, amid others."""
    random = np.random.default_rng(8)
    x = random.standard_normal((2, 37, 133)).astype(dtype(t).numpy)
    x[0, 3], x[1, 20] = np.nan, -np.inf
    x[1, 4, :100], x[0, 7, 99:] = np.inf, np.nan
    specs = [
        reduce_spec(x.shape, 2, t, t, op, clear=clear, nan_propagate=propagate)
        for op, propagate in (*((op, False) for op in ("sum", "prod", "abssum", "max", "min", "absmax")), ("max", True))
        for clear in (True, False)
    ]  # fmt: skip
    together, one_by_one = [], []
    for found, rows in ((together, None), (one_by_one, 0)):
        if rows is not None:
            monkeypatch.setattr(reduce_module._Reduction, "rows_at_once", rows)
        batch = Batch(host)
        loaded = program(batch.module, [batch.add(emit_reduce(batch.module, spec)) for spec in specs])
        for entry in batch.entries:
            out = np.full((2, 37), 0.75, dtype(t).numpy)
            loaded(entry, x, out)
            found.append(out)
    for spec, ours, theirs in zip(specs, together, one_by_one):
        assert np.array_equal(ours.view(np.uint8), theirs.view(np.uint8)), (spec.op, ours, theirs)


def test_the_order_of_rows_holds_each_once():
    for count in (2, 4, 8, 16, 32):
        assert sorted(reduce_module.order_of_rows(count)) == list(range(count))


def test_strided_tiles(program, host):
    """Rows with gaps, columns with steps, a result that is not dense."""
    base = reduce_spec((5, 40), 1, "float32", "float32", "sum")
    specs = [
        replace(base, src_strides=(50, 1)),
        replace(base, src_strides=(90, 2)),
        replace(base, src_strides=(1, 5)),
        replace(base, src_strides=(1, 5), dst_strides=(3,)),
        replace(base, axis=0, src_strides=(48, 1), dst_strides=(2,)),
        replace(base, shape=(2, 5, 40), axis=1, src_strides=(300, 44, 1), dst_strides=(41, 1), clear=False),
    ]
    check_reductions(program, host, specs)


def test_sums_accumulate_in_float32(program):
    """4096 ones in float16 and bfloat16 would stop at 2048 and 256."""
    batch = Batch(running_host())
    entries = {
        (t, axis): batch.add(emit_reduce(batch.module, reduce_spec((4096, 1) if axis == 0 else (1, 4096), axis, t, "float32", "sum")))
        for t in ("float16", "bfloat16") for axis in (0, 1)
    }  # fmt: skip
    loaded = program(batch.module, list(entries.values()))
    for (t, _), entry in entries.items():
        out = np.zeros(1, np.float32)
        loaded(entry, np.ones(4096, dtype(t).numpy), out)
        assert out[0] == 4096


def test_float_sum_error(program, host):
    """Within the bound of a chain as long as the axis, for random signs."""
    random = np.random.default_rng(12)
    x = random.standard_normal((8, 1000)).astype(np.float32)
    batch = Batch(host)
    entry = batch.add(emit_reduce(batch.module, reduce_spec((8, 1000), 1, "float32", "float32", "sum")))
    out = np.zeros(8, np.float32)
    loaded = program(batch.module, [entry])
    loaded(entry, x, out)
    exact = x.astype(np.float64).sum(1)
    assert (np.abs(out - exact) <= 1000 * 2.0**-24 * np.abs(x).astype(np.float64).sum(1)).all()
    again = np.zeros(8, np.float32)
    loaded(entry, x, again)
    assert np.array_equal(out, again)


# -- scans ---------------------------------------------------------------------------------------------------------------


def scan_reference(x: np.ndarray, spec: ScanSpec) -> np.ndarray:
    wide = reduction_dtype(spec.src, spec.dst)
    values = numbers(x, spec.src, wide)
    if wide.name == "float32":
        values = values.astype(np.float32)  # in the order of the elements, so to the bit
    if spec.reverse:
        values = np.flip(values, spec.axis)
    result = UFUNC[spec.op].accumulate(values, axis=spec.axis, dtype=values.dtype)
    return finished(np.flip(result, spec.axis) if spec.reverse else result, wide, spec.dst)


def check_scans(program, host, specs: list[ScanSpec], *, in_place: bool = False) -> None:
    random = np.random.default_rng(4)
    batch = Batch(host)
    entries = [batch.add(emit_scan(batch.module, spec)) for spec in specs]
    loaded = program(batch.module, entries)
    for spec, entry in zip(specs, entries):
        values = data(random, int(np.prod(spec.shape)), spec.src, spec.op).reshape(spec.shape)
        if spec.src.name == "float32" and spec.op == "sum":
            values = random.standard_normal(spec.shape).astype(np.float32)
        source = Guarded(values, spec.src_strides)
        target = source if in_place else Guarded(data(random, values.size, spec.dst, "sum").reshape(spec.shape), spec.dst_strides)
        expected = scan_reference(values, spec)
        loaded(entry, source.origin, target.origin)
        assert same(target.view, expected), (spec, target.view, expected)
        assert target.is_intact, spec


def scan_spec(shape, axis, src, dst, op, reverse=False) -> ScanSpec:
    return ScanSpec(
        shape=shape, axis=axis, src_strides=dense(shape), dst_strides=dense(shape), src=dtype(src), dst=dtype(dst), op=op, reverse=reverse
    )


SCANS = list(itertools.product(("sum", "prod", "max", "min"), (False, True)))


@pytest.mark.parametrize("shape,axis", SHAPES)
def test_scan_shapes(program, extreme_host, shape, axis):
    pairs = [("float32", "float32"), ("int32", "int32"), ("float16", "float16")]
    specs = [scan_spec(shape, axis, *pair, op, (i + j) % 2 == 0) for i, pair in enumerate(pairs) for j, (op, _) in enumerate(SCANS[::2])]
    check_scans(program, extreme_host, specs)
    check_scans(program, extreme_host, [replace(spec, reverse=not spec.reverse) for spec in specs], in_place=True)


@pytest.mark.parametrize("host_name,t", BY_HOST)
def test_scan_dtypes(program, host_named, host_name, t):
    wide = "float64" if t.name == "float64" else "float32" if t.is_float else "bool" if t.is_bool else "int64"
    specs = [scan_spec((3, 33), axis, t, dst, op, reverse) for dst in {str(t), wide} for axis in (0, 1) for op, reverse in SCANS]
    check_scans(program, host_named(host_name), specs)


def test_strided_scans(program, host):
    base = scan_spec((5, 40), 1, "float32", "float32", "sum")
    specs = [
        replace(base, src_strides=(50, 1), dst_strides=(44, 1)),
        replace(base, src_strides=(1, 5)),
        replace(base, axis=0, src_strides=(48, 1), dst_strides=(41, 1), reverse=True),
        replace(base, axis=0, src_strides=(90, 2), dst_strides=(41, 1)),
    ]
    check_scans(program, host, specs)


def test_malformed_specs_are_refused():
    module = Module("refused", running_host())
    with pytest.raises(InternalError):
        emit_reduce(module, reduce_spec((4, 0), 0, "float32", "float32", "sum"))
    with pytest.raises(InternalError):
        emit_reduce(module, replace(reduce_spec((4, 5), 0, "float32", "float32", "sum"), axis=2))
    with pytest.raises(InternalError):
        emit_scan(module, replace(scan_spec((4, 5), 0, "float32", "float32", "sum"), axis=-1))
