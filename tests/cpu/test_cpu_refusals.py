"""What the CPU cannot compile is refused with the code of its page."""

from __future__ import annotations

import pytest

import zellige.language as T
from zellige.diagnostics import ZelligeError
from zellige.driver import compile_kernel
from zellige.ir.parser import parse_kernel


def test_an_operation_of_another_dialect() -> None:
    text = "# tile-ir 1.0\ndef k(A: tensor((4,), float32)):\n    with launch(1) as (bx,):\n"
    kernel = parse_kernel(text + "        dialect(\"vendor.fence\")\n")
    with pytest.raises(ZelligeError) as caught:
        compile_kernel(kernel, "cpu")
    assert caught.value.code == "E410"
    assert "vendor.fence" in str(caught.value)
    assert caught.value.span is not None
    assert caught.value.span.line == 4


def test_an_allocation_of_run_time_size() -> None:
    kernel = parse_kernel(
        "# tile-ir 1.0\n@sizes(M=int32)\ndef k(A: tensor((M,), float32)):\n    with launch(1) as (bx,):\n"
        '        scratch = alloc((M,), float32, "global")\n        scratch[0] = 1.0\n        A[0] = scratch[0]\n'
    )
    with pytest.raises(ZelligeError) as caught:
        compile_kernel(kernel, "cpu")
    assert caught.value.code == "E411"
    assert "scratch" in str(caught.value)


def test_a_number_of_lanes_known_at_run_time() -> None:
    n = T.dynamic("n")

    @T.prim_func
    def k(A: T.Tensor((n,), "float32")):
        with T.Kernel(1, threads=n):
            tx = T.get_thread_binding()
            A[tx] = 0.0

    with pytest.raises(ZelligeError) as caught:
        compile_kernel(k.kernel, "cpu")
    assert caught.value.code == "E412"


@pytest.mark.parametrize("target", ["cpu", "interp"])
def test_more_lanes_than_a_block_may_have(target: str) -> None:
    @T.prim_func
    def k(A: T.Tensor((64,), "int32")):
        with T.Kernel(1, threads=10**12):
            lane = T.get_thread_binding()
            if lane < 64:
                A[lane] = lane

    with pytest.raises(ZelligeError) as caught:
        compile_kernel(k.kernel, target)
    assert caught.value.code == "E302"
    assert "1000000000000 threads" in str(caught.value)
