"""Chains that are long in the author's text and deep in Python's tree of it."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import zellige

CHAIN = 400


def kernel_of(source: str, folder: Path) -> Any:
    path = folder / "chain.py"
    path.write_text("import zellige.language as T\n" + source, encoding="utf-8")
    spec = importlib.util.spec_from_file_location("chain", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.k


@pytest.mark.parametrize("target", ["interp", "cpu"])
def test_a_chain_of_elif_may_be_long(target: str, tmp_path: Path) -> None:
    lines = [
        "@T.prim_func",
        "def k(A: T.Tensor((2,), 'int32')):",
        "    with T.Kernel(1, threads=32):",
        "        if A[0] == -1:",
        "            A[1] = 7",
    ]
    for number in range(CHAIN):
        lines += [f"        elif A[0] == {number}:", f"            A[1] = {number * 3}"]
    kernel = zellige.compile(kernel_of("\n".join(lines) + "\n", tmp_path), target=target)
    for given, expected in ((-1, 7), (0, 0), (CHAIN - 1, 3 * (CHAIN - 1)), (CHAIN, -5)):
        values = np.array([given, -5], np.int32)
        kernel(values)
        assert values.tolist() == [given, expected]
