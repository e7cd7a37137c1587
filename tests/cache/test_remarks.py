"""Kernels without remarks are looked at once; those with remarks each time, and again after the compiler or the kernel has changed."""

from __future__ import annotations

import ast
import warnings
from pathlib import Path
from typing import Any

import pytest

import zellige
import zellige as zl
import zellige.language as T
from zellige import preparation
from zellige.cache import memo, sources
from zellige.cache.remarks import is_unremarkable, note_unremarkable
from zellige.diagnostics import Diagnostic

N = 64


def kernel(factor: float) -> Any:
    @T.prim_func
    def scaled(A: T.Tensor((N,), "float32"), B: T.Tensor((N,), "float32")):
        with T.Kernel(1) as _:
            for i in T.Parallel(N):
                B[i] = A[i] * factor

    return scaled


def reaching_out() -> Any:
    @T.prim_func
    def copied(A: T.Tensor((64, 16), "float32"), B: T.Tensor((64, 16), "float32")):
        with T.Kernel(4) as bx:
            tile = T.alloc_shared((16, 16), "float32")
            T.copy(A[bx * 16, 16], tile)
            T.copy(tile, B[bx * 16, 0])

    return copied


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    seen: list[Any] = []
    lint = preparation.lint

    def counted(kernel: Any) -> tuple[Diagnostic, ...]:
        seen.append(kernel)
        return tuple(lint(kernel))

    monkeypatch.setattr(preparation, "lint", counted)
    return seen


def test_a_kernel_without_remarks_is_looked_at_once(folder: Path, looks: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    zl.compile(kernel(2.0), target="cpu")
    zl.compile(kernel(2.0), target="cpu")
    assert len(looks) == 1
    zl.compile(kernel(3.0), target="cpu")
    assert len(looks) == 2
    monkeypatch.setattr("zellige.cache.remarks.source_digest", lambda package, store: "of another compiler")
    zl.compile(kernel(2.0), target="cpu")
    assert len(looks) == 3


def test_remarks_are_made_each_time(folder: Path, looks: list[Any]) -> None:
    for count in (1, 2):
        with pytest.warns(Warning, match="E285"):
            zl.compile(reaching_out(), target="cpu")
        assert len(looks) == count


def test_nothing_is_known_without_a_cache(folder: Path, looks: list[Any]) -> None:
    memo.switch(False)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            zl.compile(kernel(2.0), target="cpu")
            zl.compile(kernel(2.0), target="cpu")
    finally:
        memo.switch(True)
    assert len(looks) == 2


def test_a_damaged_note_is_no_note(folder: Path) -> None:
    one = kernel(5.0).kernel
    note_unremarkable(one)
    assert is_unremarkable(one)
    (path,) = (path for path in (folder / "v1" / "remarks").rglob("*") if path.is_file())
    path.write_bytes(path.read_bytes()[:-1] + b"!")
    assert not is_unremarkable(one)


def test_what_is_left_out_of_the_compilers_digest_makes_no_code() -> None:
    """No module that decides on kernels or code imports from the parts whose source is in no key, but for the words of diagnostics."""
    root = Path(zellige.__file__).parent
    parts = ("analysis", "frontend", "ir", "language", "layouts", "passes", "plan", "plugin", "simt")
    backends = [Path(__file__).parents[2] / "backends" / name for name in ("cpu/zellige_cpu", "cuda/zellige_cuda")]
    files = [path for place in (*(root / part for part in parts), *backends) for path in place.rglob("*.py")]
    assert len(files) > 200
    wrong: list[str] = []
    for path in files:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom):
                named = [node.module or ""]
            else:
                named = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            for name in named:
                part = name.split(".")[1] if name.startswith("zellige.") and name.count(".") else ""
                if part in sources.WITHOUT_EFFECT - {"diagnostics", "interp", "cache"}:
                    wrong.append(f"{path.name}: {name}")
    assert wrong == []
