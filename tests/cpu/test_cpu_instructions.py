"""Instructions as data: what the tables of the CPU's family hold decides what is emitted, never what is computed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import zellige as zl
import zellige.language as T
from zellige.diagnostics.error import ZelligeError
from zellige.explain import explain
from zellige_cpu.host import running_host
from zellige_cpu.leaf.units import family_of, units
from zellige_intrinsics import Product, add, changed, family, intrinsic, product_rows, remove
from zellige_intrinsics.tables import copy_row_of, copy_rows, row_of, stamp

FAMILY = family_of(running_host())

pytestmark = pytest.mark.skipif(not FAMILY, reason=f"no family of instructions describes {running_host().triple}")


def product(operand: str, total: str) -> Any:
    @T.prim_func
    def multiplied(A: T.Tensor((70, 80), operand), B: T.Tensor((80, 60), operand), C: T.Tensor((70, 60), total)):
        with T.Kernel(T.ceildiv(60, 32), T.ceildiv(70, 32)) as (bx, by):
            a = T.alloc_shared((32, 16), operand)
            b = T.alloc_shared((16, 32), operand)
            c = T.alloc_fragment((32, 32), total)
            T.clear(c)
            for k in T.Pipelined(5, num_stages=2):
                T.copy(A[by * 32, k * 16], a)
                T.copy(B[k * 16, bx * 32], b)
                T.gemm(a, b, c)
            T.copy(c, C[by * 32, bx * 32])

    return multiplied


def run(kernel: Any, operand: str, total: str) -> tuple[np.ndarray, str]:
    """The result on numbers that every order of summing keeps, and the machine code."""
    numbers = np.random.default_rng(3)
    a, b = (numbers.integers(-9, 10, shape).astype(operand) for shape in ((70, 80), (80, 60)))
    compiled = zl.compile(kernel, target="cpu")
    c = np.zeros((70, 60), total)
    compiled(a, b, c)
    np.testing.assert_array_equal(c, (a.astype(np.float64) @ b.astype(np.float64)).astype(total))
    return c, compiled.get_asm()


def chosen(kernel: Any) -> tuple[str, str, dict[str, str]]:
    """What executes the product by ``explain``: the answer, its reason, and the rejected with theirs."""
    decision = next(d for d in explain(kernel, "cpu").decisions if d.question.startswith("what executes the product"))
    return decision.chosen, decision.because, {name: why for names, why in decision.rejected for name in names.split(", ")}


BIASED = " (a biased)"
"""What the name of a unit has after that of its instruction, where the unit adds 128 to the first operand."""


def serving(operand: str, total: str) -> list[str]:
    """The instructions that serve a product here, best first, those that widen operands last."""
    own = [u.name for u in units(running_host()) if (u.a.name, u.b.name, u.accumulator.name) == (operand, operand, total)]
    wider = [u.name for u in units(running_host()) if u.a.name == u.b.name == "int16" and u.accumulator.name == total]
    return [name.removesuffix(BIASED) for name in own + [name for name in wider if operand == "int8"]]


@contextmanager
def without(names: list[str]) -> Iterator[None]:
    with changed(FAMILY, without=tuple(names)):
        yield


FUSED_BY_LLVM = {"vpmaddwd": "(vpmaddwd|vpdpwssd)", "pmaddwd": "(pmaddwd|vpdpwssd)"}
"""LLVM writes a sum of products of pairs and its addition as one instruction where the processor has it (VNNI)."""

CASES = [("float32", "float32"), ("float64", "float64"), ("int16", "int32"), ("int8", "int32")]


@pytest.mark.parametrize(("operand", "total"), CASES)
def test_without_an_entry_another_instruction_is_taken_and_no_result_changes(operand: str, total: str) -> None:
    kernel = product(operand, total)
    names = serving(operand, total)
    seen: list[str] = []
    for count in range(len(names)):
        with without(names[:count]):
            _, code = run(kernel, operand, total)
            answer, _, rejected = chosen(kernel)
        assert answer.startswith(names[count]), answer
        assert all("taken out of the table" in rejected[name] for name in names[:count] if name in rejected)
        stem, register = names[count].split()[:2]
        stem = stem[:-5] if stem.startswith("vfmadd") else stem
        stem = FUSED_BY_LLVM.get(stem, stem)
        assert re.search(rf"{stem}\w*\s.*%{register}" if FAMILY == "cpu_x86" else stem, code), names[count]
        assert code not in seen or intrinsic(names[count]).spelling == intrinsic(names[count - 1]).spelling
        seen.append(code)


@pytest.mark.parametrize(("operand", "total"), CASES)
def test_without_all_entries_a_labelled_emulation_is_right(operand: str, total: str) -> None:
    if not serving(operand, total):
        pytest.skip(f"{running_host().cpu} has no product of {operand}")
    kernel = product(operand, total)
    _, before = run(kernel, operand, total)
    with without([row.name for row in product_rows(FAMILY)]):
        assert not units(running_host())
        _, code = run(kernel, operand, total)
        answer, because, rejected = chosen(kernel)
    assert code != before
    assert not re.search(r"\bv?(fmadd|fnmadd|pmaddwd|pdp|dpbf16)|\b(fmla|sdot|udot|bfdot)\b", code)
    assert "(emulated)" in answer
    assert "emulated by the engine vector" in because
    for name in serving(operand, total):
        assert f"putting {name} back into the table of instructions" in because
        assert rejected[name] == "it was taken out of the table of instructions"
    assert chosen(kernel)[0].startswith(serving(operand, total)[0])


def test_what_the_processor_lacks_is_told_as_what_would_avoid_an_emulation() -> None:
    if FAMILY != "cpu_x86" or "avx512f" in running_host().features:
        pytest.skip(f"this processor lacks no instruction that the test takes: {running_host().cpu}")
    kernel = product("float32", "float32")
    _, _, rejected = chosen(kernel)
    assert rejected["vfmadd231ps zmm"] == "the processor lacks avx512f"
    with without(serving("float32", "float32")):
        _, because, _ = chosen(kernel)
    assert "avoided by a processor with avx512f (vfmadd231ps zmm)" in because


def changed_product(value: Product, **others: object) -> Product:
    return Product(**{**{f.name: getattr(value, f.name) for f in fields(value)}, **others})


def test_an_added_entry_is_used_and_named_by_explain() -> None:
    """A vendor's instruction: the family's own under another name, which is then the only one."""
    kernel = product("float32", "float32")
    names = serving("float32", "float32")
    mine = changed_product(intrinsic(names[0]), name="mine.multiply_add")
    with changed(FAMILY, without=tuple(names), with_these=(mine,)):
        run(kernel, "float32", "float32")
        assert chosen(kernel)[0].startswith("mine.multiply_add")
        assert mine in family(FAMILY)
    unknown = changed_product(mine, spelling="llvm.mine.multiply_add")
    with changed(FAMILY, without=tuple(names), with_these=(unknown,)):
        run(kernel, "float32", "float32")
        answer, _, rejected = chosen(kernel)
    assert "(emulated)" in answer
    assert rejected["mine.multiply_add"] == "the code generator cannot call llvm.mine.multiply_add"


def test_a_changed_table_never_finds_code_made_before(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    """Neither in this process nor on the disk; the table as it was finds its own again."""
    from zellige.cache import memo

    monkeypatch.setenv("ZELLIGE_CACHE_DIR", str(tmp_path))
    kernel = product("float64", "float64")
    first = serving("float64", "float64")[0]
    codes = {}
    for in_process in (True, False):
        for name, out in (("all", []), ("fewer", [first]), ("all again", [])):
            if not in_process:
                memo.clear()
            with without(out):
                codes[name, in_process] = run(kernel, "float64", "float64")[1]
    assert codes["all", True] == codes["all again", True] == codes["all", False] == codes["all again", False]
    assert codes["fewer", True] == codes["fewer", False] != codes["all", True]


def test_stamps_of_tables() -> None:
    first = product_rows(FAMILY)[0].name
    assert stamp(FAMILY) == ""
    with without([first]):
        one = stamp(FAMILY)
    value = intrinsic(first)
    with changed(FAMILY, without=(first,), with_these=(changed_product(value, requires=("everything",)),)):
        other = stamp(FAMILY)
    with changed(FAMILY, without=(first,), with_these=(value,)):
        same = stamp(FAMILY)
    assert len({"", one, other, same}) == 4
    assert stamp(FAMILY) == ""


def test_wrong_changes_are_refused_and_change_nothing() -> None:
    first = product_rows(FAMILY)[0].name
    for wrong, code in [
        (lambda: remove(FAMILY, "no such instruction"), "E330"),
        (lambda: remove("no such family", first), "E330"),
        (lambda: add(FAMILY, intrinsic(first)), "E331"),
    ]:
        with pytest.raises(ZelligeError) as caught:
            wrong()
        assert caught.value.code == code
    with pytest.raises(ZelligeError), changed(FAMILY, without=(first,), with_these=(intrinsic(first), intrinsic(first))):
        pass
    assert stamp(FAMILY) == ""
    remove(FAMILY, first)
    add(FAMILY, changed_product(intrinsic("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64"), name="elsewhere"))
    try:
        assert first not in {value.name for value in family(FAMILY)}
        with pytest.raises(ZelligeError):
            intrinsic(first)
    finally:
        remove(FAMILY, "elsewhere")
        from zellige_intrinsics import tables

        tables.restore(FAMILY)
    assert stamp(FAMILY) == ""
    assert first in {value.name for value in family(FAMILY)}


@pytest.mark.parametrize("name", ["cpu_x86", "cpu_arm"])
def test_rows_are_what_the_specifications_say(name: str) -> None:
    own = {value.name: value for value in family(name) if isinstance(value, Product)}
    assert {row.name for row in product_rows(name)} == set(own)
    assert all(row == row_of(own[row.name]) for row in product_rows(name))
    every = {value.name: value for value in family(name)}
    assert all(row == copy_row_of(every[row.name]) for row in copy_rows(name))


OF_OTHERS = ("zellige.interp", "zellige.plan.specialised", "zellige.plan.clusters", "zellige.passes.expand_lanes", "zellige_cpu.leaf.math")
"""What the compilation of such a kernel does without: it would take a fifth of its time to load."""

WARM = f"""
import sys
OTHERS = {OF_OTHERS}
import numpy as np
import zellige as zl
import zellige.language as T

@zl.jit(target="cpu")
def doubled():
    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(1) as _:
            for i in T.Parallel(64):
                B[i] = A[i] * 2.0
    return main

a, b = np.ones(64, np.float32), np.zeros(64, np.float32)
doubled()(a, b)
assert b.sum() == 128
print(*(name for name in sys.modules if name.startswith(("zellige_intrinsics", "zellige.layouts", "zellige.plan.products", *OTHERS))))
"""


def test_a_start_loads_what_it_needs(tmp_path: Path) -> None:
    """A kernel found on the disk needs nothing of the tables: that their files are as they were is seen without loading them. One that is
    compiled needs them, and nothing that other kernels and machines need."""
    file = tmp_path / "warm.py"
    file.write_text(WARM)
    environment = {**os.environ, "ZELLIGE_CACHE_DIR": str(tmp_path / "cache")}
    runs = [subprocess.run([sys.executable, str(file)], capture_output=True, text=True, check=True, env=environment) for _ in range(2)]
    cold, warm = (set(done.stdout.split()) for done in runs)
    assert {"zellige_intrinsics", "zellige.plan.products"} <= cold
    assert not [name for name in cold if name.startswith(OF_OTHERS)]
    assert warm == set()
