"""Instructions as data: what the table of the device's family holds decides what is emitted, never what is computed."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import numpy as np
import pytest

import zellige as zl
import zellige.language as T
from zellige.driver import dump
from zellige.explain import explain
from zellige_cuda import backend
from zellige_cuda.architectures import ARCHITECTURES
from zellige_cuda.forms import FAMILY, units_of
from zellige_intrinsics import Product, changed, family, product_rows
from zellige_intrinsics.tables import copy_row_of, copy_rows, row_of

ARCH = "sm_80"


def product(operand: str, total: str) -> Any:
    @T.prim_func
    def multiplied(A: T.Tensor((64, 64), operand), B: T.Tensor((64, 32), operand), C: T.Tensor((64, 32), total)):
        with T.Kernel(1, 2, threads=64) as (bx, by):
            a = T.alloc_shared((32, 32), operand)
            b = T.alloc_shared((32, 32), operand)
            c = T.alloc_fragment((32, 32), total)
            T.clear(c)
            for k in T.Pipelined(2, num_stages=2):
                T.copy(A[by * 32, k * 32], a)
                T.copy(B[k * 32, bx * 32], b)
                T.gemm(a, b, c)
            T.copy(c, C[by * 32, bx * 32])

    return multiplied


def run(kernel: Any, operand: str, total: str) -> np.ndarray:
    """The result on the simulator for numbers that every order of summing keeps."""
    numbers = np.random.default_rng(5)
    a, b = (numbers.integers(-5, 6, shape).astype(operand) for shape in ((64, 64), (64, 32)))
    c = np.zeros((64, 32), total)
    zl.compile(kernel, target=f"cuda:{ARCH},simulate")(a, b, c)
    np.testing.assert_array_equal(c, (a.astype(np.float64) @ b.astype(np.float64)).astype(total))
    return c


def chosen(kernel: Any) -> tuple[str, str, dict[str, str]]:
    decision = next(d for d in explain(kernel, f"cuda:{ARCH}").decisions if d.question.startswith("what executes the product"))
    return decision.chosen, decision.because, {name: why for names, why in decision.rejected for name in names.split(", ")}


def machine_code(kernel: Any) -> str:
    return dump(kernel.kernel, f"cuda:{ARCH}", "asm")


def instructions(code: str) -> Counter[str]:
    return Counter(re.findall(r"\*/\s+(?:@!?U?P\w+ )?([A-Z][A-Z0-9_]*)", code))


def rows_of(operand: str) -> list[str]:
    """The rows that take the operands here, best first."""
    return [u.row.name for u in units_of(ARCHITECTURES[ARCH]) if u.a.name == u.b.name == operand]


CASES = [("float16", "float32", "HMMA"), ("int8", "int32", "IMMA"), ("float64", "float64", "DMMA")]


@pytest.mark.parametrize(("operand", "total", "word"), CASES)
def test_without_an_entry_another_instruction_is_taken_and_no_result_changes(operand: str, total: str, word: str) -> None:
    kernel, rows = product(operand, total), rows_of(operand)
    assert len(rows) == (1 if operand == "float64" else 2)
    sources = []
    for count, row in enumerate(rows):
        with changed(FAMILY, without=tuple(rows[:count])):
            run(kernel, operand, total)
            answer, _, rejected = chosen(kernel)
            source = dump(kernel.kernel, f"cuda:{ARCH}", "source")
            code = machine_code(kernel) if count else ""
        stem = row.partition(".row.col")[0]
        assert answer.startswith(stem)
        assert stem in source
        assert not code or instructions(code)[word] > 0
        assert [name for name, why in rejected.items() if "taken out" in why] or not count
        sources.append(source)
    assert len(set(sources)) == len(rows)


@pytest.mark.parametrize(("operand", "total", "word"), CASES)
def test_without_all_entries_a_labelled_emulation_is_right(operand: str, total: str, word: str) -> None:
    kernel = product(operand, total)
    with changed(FAMILY, without=tuple(row.name for row in product_rows(FAMILY))):
        run(kernel, operand, total)
        answer, because, _ = chosen(kernel)
        code = machine_code(kernel)
    assert "(emulated)" in answer
    assert "putting mma.sync.aligned" in because
    assert instructions(code)[word] == 0
    assert instructions(machine_code(kernel))[word] > 0


def test_an_architecture_without_the_product_says_which_would_have_it() -> None:
    decision = next(d for d in explain(product("float64", "float64"), "cuda:sm_75").decisions if d.question.startswith("what executes"))
    assert "(emulated)" in decision.chosen
    assert "avoided by an architecture from sm_80 on (mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64)" in decision.because


def test_without_asynchronous_copies_tiles_are_loaded_and_stored() -> None:
    kernel = product("float16", "float32")
    names = [row.name for row in copy_rows(FAMILY) if row.is_asynchronous]
    with_all = instructions(machine_code(kernel))
    with changed(FAMILY, without=tuple(names[:-1])):
        run(kernel, "float16", "float32")
        assert instructions(machine_code(kernel))["LDGSTS"] > 0
    with changed(FAMILY, without=tuple(names)):
        run(kernel, "float16", "float32")
        without = instructions(machine_code(kernel))
    assert with_all["LDGSTS"] > 0
    assert without["LDGSTS"] == 0
    assert without["LDG"] > 0


def test_without_matrix_loads_elements_are_loaded() -> None:
    kernel = product("float16", "float32")
    with changed(FAMILY, without=tuple(row.name for row in copy_rows(FAMILY) if row.name.startswith("ldmatrix"))):
        run(kernel, "float16", "float32")
        without = instructions(machine_code(kernel))
    assert instructions(machine_code(kernel))["LDSM"] > 0
    assert without["LDSM"] == 0


def test_the_table_belongs_to_the_key() -> None:
    from zellige.options import CompileOptions
    from zellige.plugin.registry import registry

    target = registry().resolve(f"cuda:{ARCH}")
    ctx = registry().backend(target).context(target, CompileOptions())
    assert backend.cache_key(ctx) == ""
    with changed(FAMILY, without=(rows_of("float16")[0],)):
        assert backend.cache_key(ctx) != ""


def test_rows_are_what_the_specifications_say() -> None:
    own = {value.name: value for value in family(FAMILY)}
    assert all(row == row_of(own[row.name]) for row in product_rows(FAMILY))
    assert all(row == copy_row_of(own[row.name]) for row in copy_rows(FAMILY))
    fragments = {name for name, value in own.items() if isinstance(value, Product) and not value.is_asynchronous}
    assert {row.name for row in product_rows(FAMILY)} == fragments


def powers(is_fast: bool) -> Any:
    @T.prim_func
    def powers(A: T.Tensor((128,), "float32"), B: T.Tensor((128,), "float32")):
        with T.Kernel(1, threads=128):
            for i in T.Parallel(128):
                B[i] = T.__exp2(A[i]) if is_fast else T.exp2(A[i])

    return powers


@pytest.mark.parametrize("is_asked_for_all", [False, True])
@pytest.mark.parametrize("is_fast", [False, True])
def test_the_fast_power_of_two_is_the_instruction_alone(is_fast: bool, is_asked_for_all: bool) -> None:
    """Where its author, or the caller for all functions, asks for it; else small numbers are scaled before and after it."""
    kernel = zl.compile(powers(is_fast), target="cuda:sm_80,simulate", pass_configs={"tl.enable_fast_math": is_asked_for_all})
    text = kernel.get_kernel_source()
    assert ("ex2.approx.ftz.f32" in text) == ("exp2f(" not in text) == (is_fast or is_asked_for_all)
    a = np.linspace(-20, 20, 128, dtype=np.float32)
    b = np.zeros_like(a)
    kernel(a, b)
    np.testing.assert_allclose(b, np.exp2(a), rtol=2**-22)
