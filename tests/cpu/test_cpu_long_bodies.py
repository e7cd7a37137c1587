"""Bodies of many statements: what LLVM makes of them stays where it was written."""

from __future__ import annotations

import re

from zellige_cpu import jit
from zellige_cpu.host import running_host


def test_a_chain_of_values_stays_beside_its_operands(tools):
    """Sunk into the last block, each product would leave its operand behind in a register of its own."""
    lines = ["v0: float32 = A[0]"] + [f"v{k + 1}: float32 = v{k} * A[{k % 64}]" for k in range(600)] + ["A[0] = v600"]
    kernel = tools["block_kernel"]("A: tensor((64,), float32)", "\n".join(lines))
    optimised = jit.optimised(tools["compile_for"](kernel).source(), running_host())
    body = optimised[optimised.index("@launch_0") :]
    blocks = re.split(r"\n\S+:", body)
    counts = [(block.count("load float"), block.count("fmul float")) for block in blocks]
    assert sum(products for _, products in counts) == 600
    assert max(products for _, products in counts) < 150
    assert all(abs(loads - products) <= 2 for loads, products in counts)


def test_a_long_body_gives_the_same_as_the_interpreter(check_block, random):
    lines = ["v0: float32 = A[0]"] + [f"v{k + 1}: float32 = v{k} * A[{k % 8}] + 1.0" for k in range(300)] + ["B[0] = v300"]
    a = random.uniform(-1, 1, 8).astype("float32")
    check_block("A: tensor((8,), float32), B: tensor((1,), float32)", "\n".join(lines), a, a[:1] * 0)
