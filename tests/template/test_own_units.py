"""A package that begins as the template describes units of its own: their shape, types and names are those that its programs use."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import zellige as zl
import zellige.language as T
from zellige.cli.new_backend import write_package
from zellige.diagnostics import ZelligeError
from zellige.explain import explain
from zellige.plugin.registry import registry
from zellige_intrinsics import changed, families, family, find, gather, homes, run, scatter
from zellige_intrinsics.lookup import Request

PAGE = Path(__file__).parents[2] / "docs" / "add-an-intrinsic.md"

Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own_cache: Path, announce: Callable[..., Path]) -> Iterator[Write]:
    """Writes and installs a package, in this process alone; the edits are of its files, each with what stands there and what shall."""
    names: list[str] = []

    def written(name: str, start: str, edits: dict[str, tuple[tuple[str, str], ...]]) -> Path:
        folder = write_package(name, start, tmp_path)
        for file, pairs in edits.items():
            path = folder / f"zellige_{name}" / file
            text = path.read_text(encoding="utf-8") if path.exists() else ""
            for before, after in pairs:
                assert text.count(before) == 1 or not text, before
                text = text.replace(before, after) if text else after
            path.write_text(text, encoding="utf-8")
        announce(folder, f"zellige-{name}", f"{name} = zellige_{name}:backend\n")
        monkeypatch.syspath_prepend(folder)
        importlib.invalidate_caches()
        registry.cache_clear()
        names.append(f"zellige_{name}")
        return folder

    yield written
    monkeypatch.undo()
    for module in [one for one in sys.modules if one.split(".")[0] in names]:
        del sys.modules[module]


@T.prim_func
def gemm(A: T.Tensor((70, 90), "float16"), B: T.Tensor((90, 50), "float16"), C: T.Tensor((70, 50), "float32")):
    with T.Kernel(T.ceildiv(50, 32), T.ceildiv(70, 32)) as (bx, by):
        a = T.alloc_shared((32, 32), "float16")
        b = T.alloc_shared((32, 32), "float16")
        c = T.alloc_fragment((32, 32), "float32")
        T.clear(c)
        for k in T.Pipelined(T.ceildiv(90, 32), num_stages=3):
            T.copy(A[by * 32, k * 32], a)
            T.copy(B[k * 32, bx * 32], b)
            T.gemm(a, b, c)
        T.copy(c, C[by * 32, bx * 32])


def is_exact(target: str) -> bool:
    random = np.random.default_rng(0)
    a, b = (random.integers(-3, 4, shape).astype(np.float16) for shape in ((70, 90), (90, 50)))
    c = np.zeros((70, 50), np.float32)
    zl.compile(gemm, target=target)(a, b, c)
    return bool(np.array_equal(c, a.astype(np.float32) @ b.astype(np.float32)))


def executes(target: str) -> Any:
    return next(d for d in explain(gemm, target).decisions if d.question.startswith("what executes the product"))


UNITS = 'contract.MatmulUnit(name=f"product.{a}.{c}", engine="vector", a=a, b=a, c=c, m=m, n=n, k=k) for a, c in PRODUCT_TYPES'
CUBE = """contract.MatmulUnit(name="cube", engine="vector", a=a, b=a, c="float32", m=7, n=32, k=24) for a in ("%s",)"""


@pytest.mark.parametrize("taken, because", [("float16", "takes float16 operands as they are"), ("float32", "are widened to float32")])
def test_a_unit_of_another_name_and_shape_is_the_one_that_runs(taken: str, because: str, write: Write) -> None:
    write("cubes", "vector", {"backend.py": ((UNITS, CUBE % taken),)})
    decision = executes("cubes")
    assert because in decision.because and "cut into 7x32x24" in decision.because
    text = zl.compile(gemm, target="cubes").get_kernel_source()
    assert f"product.{taken}.{taken}.float32.nn 7x32x24 " in text
    assert re.search(r"loop .* 32:int32 7:int64|0:int64 32:int32 7:int64", text), "rows are cut by the unit"
    assert is_exact("cubes")


HOOK = """    @hookimpl
    def candidates(self, operation: object, ctx: contract.CompileContext) -> object:
        if operation.kind != "gemm":
            return None
        return (contract.Candidate(name="first", because="is there", unit=ctx.capabilities.matmul[0]),)

    @hookimpl
    def probe("""


def test_a_unit_that_a_hook_chooses_and_that_converts_says_so(write: Write) -> None:
    """The first unit of the template multiplies float32."""
    write("firsts", "vector", {"backend.py": (("    @hookimpl\n    def probe(", HOOK),)})
    assert executes("firsts").because.startswith("is there; float16 operands are widened to float32, which holds all their values")
    assert "product.float32.float32.float32.nn 16x16x16 " in zl.compile(gemm, target="firsts").get_kernel_source()
    assert is_exact("firsts")


def test_a_unit_that_its_capabilities_lack_is_refused_with_the_hook(write: Write) -> None:
    """Also where it is not the best of what the hook answers."""
    more = """(contract.Candidate(name="first", because="is there", unit=ctx.capabilities.matmul[0]),
                contract.Candidate(name="cube", because="is wide", cost=9, unit=contract.MatmulUnit(name="cube", a="float16", b="float16",
                                                                                                   c="float32")))"""
    hook = HOOK.replace('(contract.Candidate(name="first", because="is there", unit=ctx.capabilities.matmul[0]),)', more)
    assert hook != HOOK
    write("others", "vector", {"backend.py": (("    @hookimpl\n    def probe(", hook),)})
    with pytest.raises(ZelligeError, match="E703: the backend 'others' .*: its candidate cube of the hook candidates") as caught:
        explain(gemm, "others")
    assert "that hook describe answered have no unit cube of float16 (product.float32.float32 16x16x16" in str(caught.value)


def test_units_of_one_name_are_refused(write: Write) -> None:
    write("twins", "vector", {"backend.py": ((UNITS, UNITS.replace('f"product.{a}.{c}"', '"cube"')),)})
    with pytest.raises(ZelligeError, match=r"E703: .*matmul\[0\] and matmul\[1\].* are both named cube"):
        explain(gemm, "twins")


@pytest.mark.parametrize(
    "before, after, words",
    [
        ("name=form.name, engine", 'name=f"my {form.name}", engine', "the unit my product_16x16x16_float16_float32 and has no product of"),
        ("c=form.c.name, m=form.m,", "c=form.c.name, m=form.m * 2,", "of 32x16x16 of float16, "),
    ],
)
def test_units_that_are_none_of_its_lane_programs_are_refused(before: str, after: str, words: str, write: Write) -> None:
    write("strays", "simt", {"machine.py": ((before, after),)})
    with pytest.raises(ZelligeError, match="E703: ") as caught:
        zl.compile(gemm, target="strays")
    assert words in str(caught.value)


def test_a_family_of_instructions_of_its_own_is_as_the_manual_says(write: Write) -> None:
    """The files of section 7 of the page on intrinsics, put into a package that the command writes."""
    part = PAGE.read_text(encoding="utf-8").split("\n## 7. ")[1]
    dots, units, hook = re.findall(r"^```python\n(.*?)^```", part, re.MULTILINE | re.DOTALL)
    edits = {
        "dots.py": (("", dots),),
        "backend.py": (
            ("if TYPE_CHECKING:\n", f"{units}\nif TYPE_CHECKING:\n"),
            (f"matmul=tuple(\n                {UNITS}\n            ),", 'matmul=units({"acme1"}),'),
            ("    @hookimpl\n    def probe(", f"{hook}\n    @hookimpl\n    def probe("),
        ),
    }
    folder = write("acme", "vector", edits)
    try:
        registry().named("acme").manifest  # noqa: B018 - loads it
        assert "acme" in families() and homes.home_of("acme") == "zellige_acme.dots" not in sys.modules
        assert "cut into 8x8x8" in executes("acme").because
        (dot,) = family("acme")
        assert executes("acme").chosen.startswith("acme dot 8x8x8 of float16")
        assert [value.name for value in find(Request(kind="product", types={"a": "float16"}), among=family("acme")).fitting] == [dot.name]
        whole = {name: np.random.default_rng(1).integers(-3, 4, (8, 8)).astype(t) for name, t in (("a", "f2"), ("b", "f2"), ("c", "f4"))}
        held = {}
        for operand in dot.operands:
            registers = np.zeros(tuple(operand.layout.input_sizes.values()), operand.element().numpy)
            held[operand.name] = registers if operand.is_result else scatter(operand, whole[operand.name], registers)
        assert (gather(dot.operand("d"), run(dot, held)["d"]) == whole["a"].astype("f4") @ whole["b"].astype("f4") + whole["c"]).all()
        assert is_exact("acme")
        own = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests"]
        done = subprocess.run(own, env={**os.environ, "PYTHONPATH": str(folder)}, cwd=folder, capture_output=True, text=True, check=False)
        assert "5 passed" in done.stdout, done.stdout + done.stderr
        first = zl.compile(gemm, target="acme").get_kernel_source()
        assert "product.float16.float16.float32.nn 8x8x8 " in first
        with changed("acme", without=(dot.name,)):
            assert "emulated" in executes("acme").because
            assert f"avoided by putting {dot.name} back into the table of instructions" in executes("acme").because
            assert (dot.name, "it was taken out of the table of instructions") in executes("acme").rejected
            assert "product." not in zl.compile(gemm, target="acme").get_kernel_source(), "made for other tables"
            assert is_exact("acme")
        assert zl.compile(gemm, target="acme").get_kernel_source() == first
    finally:
        forget("acme")


def forget(name: str) -> None:
    """A process has a family for its life; other tests shall not."""
    homes._others.pop(name, None)
    homes._loaded.pop(name, None)
