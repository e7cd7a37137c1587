"""Products of 4-bit integers: by the unit that has them, in machine code and in the simulator; elsewhere widened, and said so."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import zellige
import zellige.language as T
from zellige.driver import dump

sys.path.insert(0, str(Path(__file__).parents[1] / "simt"))
from simulated import lowered  # noqa: E402

from zellige.ir.traverse import walk  # noqa: E402
from zellige.simt.ir import Product  # noqa: E402

M, N, K = 33, 24, 130


def product(a: str, b: str, *, transposed: bool = False) -> Any:
    shape = (N, K) if transposed else (K, N)

    @T.prim_func
    def nibbles(A: T.Tensor((M, K), a), B: T.Tensor(shape, b), C: T.Tensor((M, N), "int32")):
        with T.Kernel(T.ceildiv(M, 32), threads=64) as by:
            left = T.alloc_shared((32, 64), a)
            right = T.alloc_shared((32, 64) if transposed else (64, 32), b)
            sums = T.alloc_fragment((32, 32), "int32")
            T.clear(sums)
            for k in T.Pipelined(T.ceildiv(K, 64), num_stages=2):
                T.copy(A[by * 32, k * 64], left)
                if transposed:
                    T.copy(B[0, k * 64], right)
                else:
                    T.copy(B[k * 64, 0], right)
                T.gemm(left, right, sums, transpose_B=transposed)
            T.copy(sums, C[by * 32, 0])

    return nibbles


def units(function: Any, arch: str) -> set[str]:
    _, module = lowered(function, arch)
    return {node.form.name for node in walk(module.functions[0]) if isinstance(node, Product)}


def packed(values: Any) -> Any:
    """Two elements to a byte, the first in the low bits."""
    return ((values[:, 0::2] & 15) | (values[:, 1::2] & 15) << 4).astype(np.uint8)


KINDS = [("int4", "int4"), ("uint4", "uint4"), ("int4", "uint4"), ("uint4", "int4")]
WORDS = {"int4": "s4", "uint4": "u4"}


@pytest.mark.parametrize("a, b", KINDS)
@pytest.mark.parametrize("arch", ["sm_80", "sm_86", "sm_89"])
def test_the_unit_of_4_bit_integers_is_used_where_it_is(arch: str, a: str, b: str) -> None:
    assert units(product(a, b), arch) == {f"mma.sync.aligned.m16n8k64.row.col.s32.{WORDS[a]}.{WORDS[b]}.s32"}


@pytest.mark.parametrize("arch", ["sm_90a", "sm_120"])
def test_elsewhere_they_are_widened_and_that_is_said(arch: str) -> None:
    function = product("int4", "int4")
    assert units(function, arch) == {"mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32"}
    (decision,) = (d for d in zellige.explain(function, f"cuda:{arch}").decisions if d.question.startswith("what executes the product"))
    assert "s8" in decision.chosen
    assert "int4" in decision.because and "int8" in decision.because
    refused = {name: reason for name, reason in decision.rejected if "m16n8k64" in name}
    assert refused and all("units of 4-bit integers" in reason for reason in refused.values())


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("a, b", KINDS)
def test_products_are_exact_in_the_simulator(arch: str, a: str, b: str, transposed: bool) -> None:
    random = np.random.default_rng(3)
    right = (N, K) if transposed else (K, N)
    A, B = (random.integers(-8 if name == "int4" else 0, 8 if name == "int4" else 16, shape) for name, shape in ((a, (M, K)), (b, right)))
    C = np.zeros((M, N), np.int32)
    zellige.compile(product(a, b, transposed=transposed), target=f"cuda:{arch},simulate")(packed(A), packed(B), C)
    np.testing.assert_array_equal(C, A @ (B.T if transposed else B))


@pytest.mark.parametrize("arch", ["sm_80", "sm_86", "sm_89"])
def test_machine_code_multiplies_nibbles(arch: str) -> None:
    text = dump(product("int4", "int4").kernel, f"cuda:{arch}", "asm")
    assert re.search(r"IMMA\.16864\.S4\.S4", text)
    assert "LDL" not in text and "STL" not in text


def test_machine_code_of_newer_devices_multiplies_bytes() -> None:
    text = dump(product("int4", "int4").kernel, "cuda:sm_90a", "asm")
    assert re.search(r"IMMA\.16832\.S8\.S8", text)
