"""Every example on every architecture: the page of paths is what is emitted, nothing goes another way than the tables have, and the machine
code of each line holds the instructions of its path."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import zellige.language as T
from zellige.ir.traverse import rebuilt
from zellige.simt.ir import AsyncCopy, MatrixLoad, Product

ROOT = Path(__file__).parents[2]


def _tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("cuda_paths", ROOT / "tools" / "cuda_paths.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["cuda_paths"] = module
    spec.loader.exec_module(module)
    return module


TOOL = _tool()
NAMES = sorted(path.stem for path in (ROOT / "examples").glob("[a-z]*.py"))
COMPILED = ("sm_80", "sm_89", "sm_90a", "sm_120")


def test_every_example_has_a_section() -> None:
    assert sorted(TOOL.SHAPES) == NAMES
    page = TOOL.PAGE.read_text(encoding="utf-8")
    assert sorted(re.findall(r"^## (\w+),", page, re.MULTILINE)) == NAMES
    assert page.startswith(TOOL.HEADER)


ENGINES = {"UTMALDG", "UTMASTG", "HGMMA", "IGMMA", "QGMMA"}
"""Instructions that ask engines: the compiler shares them between lines, so each stands somewhere in the kernel."""


@pytest.mark.parametrize("name", NAMES)
def test_the_page_is_what_is_emitted_and_no_fallback_is_taken_where_a_native_path_is_legal(name: str) -> None:
    section = "\n".join(TOOL.section(TOOL.example(name)))
    assert section in TOOL.PAGE.read_text(encoding="utf-8") + "\n", "run python tools/cuda_paths.py"
    found = [f for arch in TOOL.TARGETS for kernel in TOOL.example(name).kernels for f in TOOL.fallbacks(TOOL.lowered(kernel, arch))]
    assert not found


@pytest.mark.parametrize("arch", COMPILED)
@pytest.mark.parametrize("name", NAMES)
def test_machine_code_of_every_line_takes_the_path(name: str, arch: str) -> None:
    """An instruction of a helper function that the compiler places at the helper counts for the lines that call it, and for no others."""
    for kernel in TOOL.example(name).kernels:
        text, cubin = TOOL.compiled(kernel, arch)
        found = TOOL.machine_code(cubin)
        everywhere = set().union(*found.values())
        helpers = TOOL.instructions_of_helpers(text, found)
        missing = {}
        for place, words in TOOL.expected_instructions(TOOL.lowered(kernel, arch)).items():
            lacking = (words - ENGINES - found.get(place, set()) - helpers.get(place, set())) | ((words & ENGINES) - everywhere)
            if lacking:
                missing[place] = lacking
        assert not missing, kernel.name
        spilled = {place for place, words in found.items() if words & {"LDL", "STL"}}
        assert not spilled, f"{kernel.name}: {spilled}"


# ---- the checks find what they are for ----


def test_instructions_count_for_the_lines_that_call_their_helper() -> None:
    text = "\n".join(
        [
            "static __device__ __forceinline__ void inner(int x) {", '  asm("one");', "}",
            "template <class T> static __device__ __forceinline__ T outer(T x) { inner(x); return x; }",
            "static __device__ __forceinline__ void other() {}",
            'extern "C" __global__ void product() {', "  int head = 0;", '#line 7 "author.py"', "  outer<int>(head);", "  head += 1;",
            '#line 8 "author.py"', "  other();", "}",
        ]
    )  # fmt: skip
    found = {("kernel.cu", 2): {"HMMA"}, ("kernel.cu", 5): {"LDSM"}, ("kernel.cu", 7): {"LDGSTS"}, ("author.py", 7): {"IADD3"}}
    assert TOOL.instructions_of_helpers(text, found) == {("author.py", 7): {"HMMA"}, ("author.py", 8): {"LDSM"}}


@T.prim_func
def plain(A: T.Tensor((64, 64), "float16"), B: T.Tensor((64, 64), "float16"), C: T.Tensor((64, 64), "float32")):
    with T.Kernel(1, threads=64):
        a = T.alloc_shared((64, 32), "float16")
        b = T.alloc_shared((32, 64), "float16")
        c = T.alloc_fragment((64, 64), "float32")
        T.clear(c)
        for k in T.Pipelined(2, num_stages=2):
            T.copy(A[0, k * 32], a)
            T.copy(B[k * 32, 0], b)
            T.gemm(a, b, c)
        T.copy(c, C)


def without(body: Any, kind: type) -> Any:
    """The statements but those of a kind."""
    kept = [s for s in body if not isinstance(s, kind)]
    return tuple(rebuilt(s, **{name: without(getattr(s, name), kind) for name in type(s).BODIES}) if type(s).BODIES else s for s in kept)


@pytest.mark.parametrize(
    "kind, said",
    [
        (Product, "a product of float16 and float16 does not use mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"),
        (MatrixLoad, "the operand a in shared memory is not brought by ldmatrix"),
        (AsyncCopy, "the copy to a does not use cp.async of 16 bytes"),
    ],
)
def test_a_fallback_is_found(kind: type, said: str) -> None:
    program = TOOL.lowered(plain.kernel, "sm_80")
    assert not TOOL.fallbacks(program)
    (function,) = program.functions
    damaged = rebuilt(function, body=without(function.body, kind))
    found = TOOL.fallbacks(TOOL.Lowered(arch=program.arch, planned=program.planned, functions=(damaged,)))
    assert found and said in found[0]
