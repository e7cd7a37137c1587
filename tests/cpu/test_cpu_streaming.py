"""Stores past the caches: under which conditions they are there, and that results are right whatever the addresses."""

from __future__ import annotations

import numpy as np
import pytest

from zellige_cpu.host import Host, running_host
from zellige_intrinsics import changed
from zellige_intrinsics.tables import copy_rows

pytestmark = pytest.mark.skipif(not running_host().is_x86, reason="only there")

BODY = """
    a = alloc((4, 64), float32, "fragment")
    copy(X[bx * 4:+4, by * 64:+64], a[0:+4, 0:+64])
    for i, j in parallel(4, 64):
        a[i, j] = a[i, j] * 2.0
    copy(a[0:+4, 0:+64], Y[bx * 4:+4, by * 64:+64])
"""
LAUNCH = "launch((n + 3) // 4, (m + 63) // 64) as (bx, by)"


def small_cache() -> Host:
    """This machine with a last cache of 4 KiB: every test tensor is large."""
    return running_host()._replace(cache_bytes=4096)


def kernel(tools, body: str = BODY):
    return tools["kernel_of"](
        "def k(n: size(int32), m: size(int32), X: tensor((n, m), float32), Y: tensor((n, m), float32)):\n    with "
        + LAUNCH + ":\n" + "\n".join("    " + line for line in body.strip("\n").splitlines())
    )  # fmt: skip


def at_address(shape: tuple[int, int], shift: int) -> np.ndarray:
    """Zeros whose first element lies ``shift`` bytes behind a multiple of 64."""
    size = 4 * shape[0] * shape[1]
    memory = np.zeros(size + 128, np.uint8)
    start = -memory.ctypes.data % 64 + shift
    return memory[start : start + size].view(np.float32).reshape(shape)


@pytest.mark.parametrize("shape", [(64, 128), (8, 64), (62, 128), (64, 100), (5, 7), (64, 136)])
@pytest.mark.parametrize("shift", [0, 4, 16, 32])
def test_results_do_not_depend_on_size_or_address(tools, random, shape, shift):
    program = kernel(tools)
    ready = tools["compile_for"](program, small_cache())
    x = random.standard_normal(shape).astype(np.float32)
    y = at_address(shape, shift)
    tools["run_on"](ready, program, [*shape, x, y])
    np.testing.assert_array_equal(y, 2 * x)


def test_whole_vectors_of_large_results_pass_by(tools):
    text = tools["compile_for"](kernel(tools), small_cache()).source()
    assert "!nontemporal" in text
    assert text.count("sfence()") == 2  # declared, and called once at the end


def test_without_the_entry_stores_are_plain_and_results_the_same(tools, random):
    """The table of instructions decides, and with it the machine code; not one bit of the result."""
    program, x = kernel(tools), random.standard_normal((64, 128)).astype(np.float32)
    names = tuple(row.name for row in copy_rows("cpu_x86"))
    results, codes = [], []
    for without in ((), names):
        with changed("cpu_x86", without=without):
            compiled = tools["compile_for"](program, small_cache())
        y = at_address((64, 128), 0)
        tools["run_on"](compiled, program, [64, 128, x, y])
        results.append(y)
        codes.append(compiled.assembly())
    np.testing.assert_array_equal(*results)
    assert ["movntps" in code or "movntpd" in code or "movntdq" in code for code in codes] == [True, False]


@pytest.mark.parametrize(
    "body",
    [
        BODY + '    o: float32 = atomic("add", Y[0, 0], 1.0)\n',  # blocks that speak to each other
        BODY.replace("    copy(a[0:+4, 0:+64], Y[", "    copy(a[0:+4, 0:+64], X["),  # what is read stays where it can be read again
        BODY.replace("copy(a[0:+4, 0:+64], Y[bx * 4:+4, by * 64:+64])", "for i, j in parallel(4, 64):\n        Y[i, j * 2] = a[i, j]"),
    ],
)
def test_others_do_not(tools, body):
    assert "!nontemporal" not in tools["compile_for"](kernel(tools, body), small_cache()).source()


def test_the_machine_knows_its_cache():
    assert 1 << 18 <= running_host().last_cache_bytes <= 1 << 32
