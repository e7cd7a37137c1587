"""Conversions of printed kernels, compiled for the host as they stand and compared with the meaning that the interpreter gives them."""

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
from zellige_cuda.helpers import helper_text

NARROW = ("float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e4m3b11fnuz", "float8_e3m4",
          "float8_e8m0fnu", "float6_e2m3fn", "float6_e3m2fn", "float4_e2m1fn")  # fmt: skip
ROUNDINGS = ("nearest_even", "toward_zero", "down", "up")

HOST = r"""
#include <cmath>
#include <cstring>
#define __device__
#define __forceinline__ inline
static float __uint_as_float(unsigned int x) { float y; memcpy(&y, &x, 4); return y; }
static unsigned int __float_as_uint(float x) { unsigned int y; memcpy(&y, &x, 4); return y; }
static double __longlong_as_double(long long x) { double y; memcpy(&y, &x, 8); return y; }
static long long __double_as_longlong(double x) { long long y; memcpy(&y, &x, 8); return y; }
static unsigned int __float2uint_rn(float x) { return (unsigned int)nearbyintf(x); }
static unsigned short float16_of_float32(float x) { _Float16 h = (_Float16)x; unsigned short y; memcpy(&y, &h, 2); return y; }
static unsigned short bfloat16_of_float32(float x) {
  const unsigned int b = __float_as_uint(x);
  return x != x ? 0x7fff : (unsigned short)((b + 0x7fffu + ((b >> 16) & 1u)) >> 16);
}
static float float32_of_float16(unsigned short x) { _Float16 h; memcpy(&h, &x, 2); return (float)h; }
"""


def values() -> Any:
    random = np.random.default_rng(3)
    found = [np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 0.3]
    found += [448.0, 464.0, 480.0, 65504.0, 65519.9, 65520.0, 1e-8, 2.0**-127, 2.0**-128, 2.0**127, 3e38]
    spread = random.standard_normal(400) * 2.0 ** random.integers(-20, 20, 400)
    return np.array([*found, *spread, *(-spread), np.nan], np.float64)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("no compiler of the host")
    texts: dict[str, str] = {}

    def visit(name: str) -> None:
        text, needs = helper_text(name, 80)
        for other in needs:
            visit(other)
        if name not in ("float16_of_float32", "bfloat16_of_float32", "float32_of_float16"):
            texts.setdefault(name, text)

    exported = []
    for name in (*NARROW, "float32", "tfloat32", "float64"):
        for rounding in ROUNDINGS:
            for tail in ("", "_saturated"):
                helper = f"rounded_{name}_{rounding}{tail}"
                visit(helper)
                kind = "double" if name == "float64" else "float" if as_dtype(name).bits > 16 else _bits(name)
                exported.append(f'extern "C" void run_{helper}(const double* x, {kind}* y, long n) '
                                f"{{ for (long i = 0; i < n; ++i) y[i] = {helper}(x[i]); }}")  # fmt: skip
    for name in NARROW:
        visit(f"nextafter_{name}")
        kind = _bits(name)
        exported.append(f'extern "C" void run_nextafter_{name}(const {kind}* a, const {kind}* b, {kind}* y, long n) '
                        f"{{ for (long i = 0; i < n; ++i) y[i] = nextafter_{name}(a[i], b[i]); }}")  # fmt: skip
    folder = tmp_path_factory.mktemp("host")
    source, made = folder / "helpers.cpp", folder / "helpers.so"
    source.write_text("\n".join([HOST, *texts.values(), *exported]), encoding="utf-8")
    subprocess.run([compiler, "-O1", "-std=c++17", "-shared", "-fPIC", "-w", str(source), "-o", str(made)], check=True, timeout=120)
    return ctypes.CDLL(str(Path(made)))


def _bits(name: str) -> str:
    return "unsigned short" if as_dtype(name).bits == 16 else "unsigned char"


def same(found: Any, expected: Any) -> Any:
    """Bit for bit, any NaN for any NaN."""
    wide, wanted = found.astype(np.float64), expected.astype(np.float64)
    size = f"u{found.dtype.itemsize}"
    return (np.isnan(wide) & np.isnan(wanted)) | (found.view(size) == expected.view(size)) | ((wide == wanted) & (wide != 0))


@pytest.mark.parametrize("tail", ["", "_saturated"])
@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("name", [*NARROW, "float32", "tfloat32", "float64"])
def test_a_rounding_is_the_interpreters(library: ctypes.CDLL, name: str, rounding: str, tail: str) -> None:
    given, target = values(), as_dtype(name)
    if tail:
        given = given[~np.isnan(given)]
    found = np.zeros(given.size, target.numpy)
    getattr(library, f"run_rounded_{name}_{rounding}{tail}")(
        given.ctypes.data_as(ctypes.c_void_p), ctypes.c_void_p(found.ctypes.data), ctypes.c_long(given.size)
    )
    with np.errstate(all="ignore"):
        expected = cast(given, as_dtype("float64"), target, rounding, saturate=bool(tail))  # type: ignore[arg-type]
    wrong = ~same(found, expected)
    assert not wrong.any(), (given[wrong][:5], found[wrong][:5], expected[wrong][:5])


@pytest.mark.parametrize("name", [n for n in NARROW if n != "float8_e8m0fnu"])
def test_a_neighbour_is_numpys(library: ctypes.CDLL, name: str) -> None:
    target = as_dtype(name)
    codes = np.arange(1 << target.bits if target.bits <= 8 else 1 << 8).astype(np.uint8 if target.bits <= 8 else np.uint16)
    if target.bits == 16:
        codes = codes * 257
    a, b = (x.ravel().copy() for x in np.meshgrid(codes, codes[::5]))
    found = np.zeros_like(a)
    getattr(library, f"run_nextafter_{name}")(*(ctypes.c_void_p(x.ctypes.data) for x in (a, b, found)), ctypes.c_long(a.size))
    with np.errstate(all="ignore"):
        expected = np.nextafter(a.view(target.numpy), b.view(target.numpy))
    wrong = ~same(found.view(target.numpy), expected)
    assert not wrong.any(), (a[wrong][:5], b[wrong][:5], found[wrong][:5], expected[wrong][:5])
