"""What the machine code of kernels over rows holds: every element moved once, 16 bytes at a time, and nothing in local memory."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import zellige
import zellige.language as T

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))

TARGET = "cuda:sm_90"
SIXTEEN_BYTES = 8  # elements of bfloat16
LANES = 128


def words_of(kernel: Any) -> Counter[str]:
    """Instructions by their first word, loads and stores of tensors by their width too."""
    words = re.findall(r"/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9_.]*)", kernel.get_asm())
    found: Counter[str] = Counter()
    for word in words:
        name = word.split(".")[0]
        found[name] += 1
        if name in ("LDG", "STG", "LDGSTS", "LDS") and ".128" in word:
            found[f"{name}.128"] += 1
    return found


def softmax(columns: int, block: int) -> Any:
    import softmax as example

    return zellige.compile(example.softmax(columns, "bfloat16", block_rows=1, block_columns=block).prim_func, target=TARGET)


@pytest.fixture
def default_target() -> Iterator[None]:
    """Examples are compiled for the process's target; here for the interpreter, which compiles nothing."""
    from zellige import options

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ZELLIGE_TARGET", "interp")
        options.options.cache_clear()
        yield
    options.options.cache_clear()


@pytest.mark.usefixtures("default_target")
def test_a_row_of_one_block_is_read_once() -> None:
    found = words_of(softmax(4096, 4096))
    accesses = 4096 // LANES // SIXTEEN_BYTES
    assert (found["LDG"], found["LDG.128"]) == (accesses, accesses)
    assert (found["STG"], found["STG.128"]) == (accesses, accesses)
    assert not found["LDL"] + found["STL"]
    assert found["FCHK"] <= 4  # quotients of a row share its reciprocal


@pytest.mark.usefixtures("default_target")
@pytest.mark.parametrize("columns", [8192, 16384])
def test_two_passes_over_a_row_in_blocks_bring_it_once(columns: int) -> None:
    """A loop that brings the row, two that read it from shared memory: one block of it a text, and registers for many lanes."""
    kernel = softmax(columns, 4096)
    found = words_of(kernel)
    accesses = 4096 // LANES // SIXTEEN_BYTES * (2 if columns == 8192 else 1)  # two iterations stand one by one
    assert (found["LDG"], found["LDGSTS"], found["LDGSTS.128"]) == (0, accesses, accesses)
    assert found["LDS.128"] >= 2 * accesses  # and the parts of the warps' sums
    assert (found["STG"], found["STG.128"]) == (accesses, accesses)
    assert not found["LDL"] + found["STL"]
    assert found["FCHK"] <= 4
    (usage,) = kernel.resource_usage
    assert usage.shared_bytes >= 2 * columns
    assert usage.registers <= 72


@pytest.mark.usefixtures("default_target")
@pytest.mark.parametrize("columns,lanes", [(4096, 128), (16384, 256)])
def test_a_row_stays_in_registers_between_its_sum_and_its_scaling(columns: int, lanes: int) -> None:
    import rms_norm as example

    kernel = zellige.compile(example.rms_norm(columns, "bfloat16", block_rows=1).prim_func, target=TARGET)
    (usage,) = kernel.resource_usage
    assert usage.threads == lanes  # of a wide row, as many as have the registers
    found = words_of(kernel)
    accesses = columns // lanes // SIXTEEN_BYTES
    assert (found["LDG.128"], found["STG.128"]) == (2 * accesses, accesses)  # the row and the weights
    assert not found["LDL"] + found["STL"]


def test_a_sum_of_a_lanes_elements_is_four_chains() -> None:
    @T.prim_func
    def total(A: T.Tensor((8192,), "float32"), B: T.Tensor((1,), "float32")):
        with T.Kernel(1, threads=128):
            a = T.alloc_fragment((1, 8192), "float32")
            s = T.alloc_fragment((1,), "float32")
            T.copy(A, a)
            T.reduce_sum(a, s, dim=1)
            T.copy(s, B)

    kernel = zellige.compile(total, target=TARGET)
    longest: dict[str, int] = {}
    for line in kernel.get_asm().splitlines():
        match = re.search(r"\bFADD (R\d+)(?:\.reuse)?, (R\d+)(?:\.reuse)?, (R\d+)(?:\.reuse)?", line)
        if match:
            target, *operands = match.groups()
            longest[target] = 1 + max(longest.get(o, 0) for o in operands)
    assert 16 <= max(longest.values()) < 40  # 64 elements a lane: 16 a chain, then those of lanes and warps
