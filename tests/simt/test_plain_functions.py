"""The functions that printed kernels call, in plain C++, compiled for the host and compared with the meaning that the interpreter gives."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from zellige.dtypes import dtype as as_dtype
from zellige.elements.conversion import cast
from zellige.simt.functions import plain_function, storage_of

NARROW = ("float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e4m3b11fnuz", "float8_e3m4",
          "float8_e8m0fnu", "float6_e2m3fn", "float6_e3m2fn", "float4_e2m1fn")  # fmt: skip
INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
DIVISIONS = {"floordiv": np.floor_divide, "floormod": np.remainder, "truncdiv": None, "truncmod": np.fmod}
KINDS = {"float32": "float", "float64": "double", "int64": "long long", "uint64": "unsigned long long", "int32": "int",
         "uint32": "unsigned int", "int16": "short", "uint16": "unsigned short", "int8": "signed char",
         "uint8": "unsigned char"}  # fmt: skip


def kind_of(name: str) -> str:
    return KINDS.get(name) or storage_of(as_dtype(name))


def functions() -> dict[str, tuple[str, tuple[str, ...]]]:
    """Each function under test: the type of its result and those of its arguments."""
    found: dict[str, tuple[str, tuple[str, ...]]] = {}
    for name in NARROW:
        found[f"float32_of_{name}"] = ("float32", (name,))
        found |= {f"{name}_of_float32{tail}": (name, ("float32",)) for tail in ("", "_saturated")}
        for rounding in ("nearest_even", "toward_zero", "down", "up"):
            found |= {f"rounded_{name}_{rounding}{tail}": (name, ("float64",)) for tail in ("", "_saturated")}
    for name in INTEGERS:
        found |= {f"{name}_of_{wide}_saturated": (name, (wide,)) for wide in ("float32", "float64")}
    found["float32_of_float64_odd"] = ("float32", ("float64",))
    found["float64_of_int64_odd"] = ("float64", ("int64",))
    found |= {f"int_{op}": ("int64", ("int64", "int64")) for op in DIVISIONS}
    found |= dict.fromkeys(("ones_of", "leading_zeros_of"), ("int32", ("uint64",)))
    return found


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("no compiler of the host")
    texts: dict[str, str] = {}

    def visit(name: str) -> None:
        made = plain_function(name, "static inline")
        assert made is not None, name
        for other in made[1]:
            visit(other)
        texts.setdefault(name, made[0])

    exported = []
    for name, (result, given) in functions().items():
        visit(name)
        heads = ", ".join(f"const {kind_of(t)}* x{i}" for i, t in enumerate(given))
        call = f"{name}({', '.join(f'x{i}[i]' for i in range(len(given)))})"
        loop = f"for (long i = 0; i < n; ++i) y[i] = {call};"
        exported.append(f'extern "C" void run_{name}({kind_of(result)}* y, long n, {heads}) {{ {loop} }}')
    folder = tmp_path_factory.mktemp("host")
    source, made = folder / "functions.cpp", folder / "functions.so"
    source.write_text("\n".join(["#include <math.h>", *texts.values(), *exported]), encoding="utf-8")
    flags = ["-O1", "-std=c++17", "-fno-strict-aliasing", "-shared", "-fPIC", "-w"]
    subprocess.run([compiler, *flags, str(source), "-o", str(made)], check=True, timeout=120)
    return ctypes.CDLL(str(Path(made)))


def run(library: ctypes.CDLL, name: str, *given: Any) -> Any:
    found = np.zeros(given[0].size, as_dtype(functions()[name][0]).numpy)
    arrays = [np.ascontiguousarray(x) for x in given]
    getattr(library, f"run_{name}")(
        ctypes.c_void_p(found.ctypes.data), ctypes.c_long(found.size), *(ctypes.c_void_p(x.ctypes.data) for x in arrays)
    )
    return found


def reals() -> Any:
    random = np.random.default_rng(3)
    special = [np.inf, -np.inf, 0.0, -0.0, 0.3, 448.0, 464.0, 480.0, 65504.0, 65519.9, 65520.0, 1e-8, 2.0**-127, 2.0**127, 3e38, 1e300]
    edges = [127.5, 128.0, 255.9, 256.0, 32767.9, 65535.5, 2.0**31, -(2.0**31) - 1, 2.0**32, 2.0**63, -(2.0**63), 2.0**64]
    spread = random.standard_normal(400) * 2.0 ** random.integers(-30, 40, 400)
    return np.array([*special, *edges, *spread, *(-spread), np.nan], np.float64)


def same(found: Any, expected: Any) -> Any:
    """Bit for bit, any NaN for any NaN."""
    size = f"u{found.dtype.itemsize}"
    return (found.view(size) == expected.view(size)) | (np.isnan(found.astype(np.float64)) & np.isnan(expected.astype(np.float64)))


def expect(found: Any, expected: Any, given: Any) -> None:
    wrong = ~same(found, expected)
    assert not wrong.any(), (given[wrong][:5], found[wrong][:5], expected[wrong][:5])


@pytest.mark.parametrize("name", NARROW)
def test_every_code_of_a_narrow_float_is_widened(library: ctypes.CDLL, name: str) -> None:
    target = as_dtype(name)
    codes = np.arange(1 << target.bits).astype(f"u{max(8, target.bits) // 8}").view(target.numpy)
    with np.errstate(all="ignore"):
        expect(run(library, f"float32_of_{name}", codes), codes.astype(np.float32), codes)


@pytest.mark.parametrize("tail", ["", "_saturated"])
@pytest.mark.parametrize("name", NARROW)
def test_a_float_is_narrowed_to_the_nearest(library: ctypes.CDLL, name: str, tail: str) -> None:
    with np.errstate(all="ignore"):
        given = reals().astype(np.float32)
        given = given[~np.isnan(given)] if tail else given
        expected = cast(given, as_dtype("float32"), as_dtype(name), "nearest_even", saturate=bool(tail))
    expect(run(library, f"{name}_of_float32{tail}", given), expected, given)


@pytest.mark.parametrize("rounding", ["nearest_even", "toward_zero", "down", "up"])
@pytest.mark.parametrize("name", NARROW)
def test_a_double_is_rounded_once(library: ctypes.CDLL, name: str, rounding: Any) -> None:
    given = reals()
    with np.errstate(all="ignore"):
        expected = cast(given, as_dtype("float64"), as_dtype(name), rounding)
    found = run(library, f"rounded_{name}_{rounding}", given)
    wrong = ~(same(found, expected) | ((found.astype(np.float64) == expected.astype(np.float64)) & (given != 0)))
    assert not wrong.any(), (given[wrong][:5], found[wrong][:5], expected[wrong][:5])


@pytest.mark.parametrize("wide", ["float32", "float64"])
@pytest.mark.parametrize("name", INTEGERS)
def test_a_float_becomes_an_integer(library: ctypes.CDLL, name: str, wide: str) -> None:
    with np.errstate(all="ignore"):
        given = reals().astype(wide)
        expected = cast(given, as_dtype(wide), as_dtype(name))
    expect(run(library, f"{name}_of_{wide}_saturated", given), expected, given)


def test_an_odd_last_bit_lets_two_roundings_be_one(library: ctypes.CDLL) -> None:
    random = np.random.default_rng(1)
    given = random.standard_normal(4000) * 2.0 ** random.integers(-20, 14, 4000)
    half = np.float64(1) + 2.0**-11 + 2.0**-40  # to nearest twice would round this down
    given = np.array([half, -half, *given])
    with np.errstate(all="ignore"):
        found = run(library, "float16_of_float32", run(library, "float32_of_float64_odd", given))
        expect(found, cast(given, as_dtype("float64"), as_dtype("float16")), given)
    edges = np.array([-(1 << 63), (1 << 63) - 1, (1 << 62) + (1 << 38) + 1])
    integers = np.concatenate([random.integers(-(1 << 63), 1 << 63, 4000), edges])
    odd = run(library, "float64_of_int64_odd", integers).astype(np.float32)
    assert np.array_equal(odd, integers.astype(np.float32))


@pytest.mark.parametrize("op", DIVISIONS)
def test_integers_divide_as_the_ir_says(library: ctypes.CDLL, op: str) -> None:
    edges = np.array([0, 1, -1, 2, -2, 7, -7, (1 << 63) - 1, -(1 << 63)], np.int64)
    a, b = (x.ravel() for x in np.meshgrid(edges, edges))
    safe = (b != 0) & ~((b == -1) & (a == -(1 << 63)))
    divisor = np.where(safe, b, 1)
    numpy = DIVISIONS[op]
    expected = numpy(a, divisor) if numpy else (a - np.fmod(a, divisor)) // divisor
    assert np.array_equal(run(library, f"int_{op}", a, b), np.where(safe, expected, 0))


def test_bits_are_counted(library: ctypes.CDLL) -> None:
    given = np.array([0, 1, 3, 1 << 63, (1 << 64) - 1, 0xF0F0], np.uint64)
    assert run(library, "ones_of", given).tolist() == [int(x).bit_count() for x in given]
    assert run(library, "leading_zeros_of", given).tolist() == [64 - int(x).bit_length() for x in given]
