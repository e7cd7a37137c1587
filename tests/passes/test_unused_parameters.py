"""zellige.transform.simplify leaves out the tensors that a kernel does not mention, and nothing that its calls need."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import zellige as zl
import zellige.language as T
from zellige.ir.verify import verify
from zellige.transform.simplify import apply_simplify, simplify_prim_func


def biased(size: Any, *, with_bias: bool) -> Any:
    @T.prim_func
    def main(A: T.Tensor((size,), "float32"), Bias: T.Tensor((size,), "float32"), factor: T.float32, B: T.Tensor((size,), "float32")):
        with T.Kernel(1):
            for i in T.Parallel(size):
                B[i] = A[i] * factor + Bias[i] if with_bias else A[i]

    return main


def names(program: Any) -> list[str]:
    assert not verify(program.kernel)
    assert [p.name for p in zl.compile(program, target="interp").params] == list(program.signature.parameters)
    return list(program.signature.parameters)


@pytest.mark.parametrize("size", [6, T.dynamic("n")])
def test_a_tensor_that_nothing_mentions_is_no_parameter(size: Any) -> None:
    assert names(apply_simplify(biased(size, with_bias=False))) == ["A", "factor", "B"]
    a, b = np.arange(6, dtype=np.float32), np.zeros(6, np.float32)
    zl.compile(apply_simplify(biased(size, with_bias=False)), target="interp")(a, 2.0, b)
    np.testing.assert_array_equal(b, a)


def test_a_kernel_that_mentions_all_stays_as_it_is() -> None:
    program = biased(6, with_bias=True)
    assert apply_simplify(program) is program


def test_a_tensor_that_alone_gives_a_size_stays() -> None:
    m, n = T.dynamic("m"), T.dynamic("n")

    @T.prim_func
    def main(A: T.Tensor((m,), "float32"), C: T.Tensor((n,), "float32"), D: T.Tensor((m, 3), "float32"), B: T.Tensor((4,), "int32")):
        with T.Kernel(1):
            for i in T.Parallel(4):
                B[i] = m

    assert names(apply_simplify(main)) == ["A", "B"]


def test_a_tensor_of_a_hint_stays() -> None:
    @T.prim_func
    def main(A: T.Tensor((8,), "float32"), B: T.Tensor((8,), "float32")):
        with T.Kernel(1):
            T.annotate_l2_hit_ratio({A: 0.5})
            T.fill(B, 1)

    assert names(apply_simplify(main)) == ["A", "B"]


def test_results_are_counted_anew() -> None:
    @T.prim_func
    def main(Unused: T.Tensor((8,), "float32"), A: T.Tensor((8,), "float32")):
        B = T.empty((8,), "float32")
        with T.Kernel(1):
            T.copy(A, B)
        return B

    a = np.arange(8, dtype=np.float32)
    np.testing.assert_array_equal(zl.compile(apply_simplify(main), target="interp")(a), a)


def test_the_decorator_stands_between_jit_and_the_function() -> None:
    @zl.jit(target="interp", out_idx=-1)
    @simplify_prim_func
    def scaled(size: int, with_bias: bool = False) -> Any:
        return biased(size, with_bias=with_bias)

    a = np.arange(6, dtype=np.float32)
    np.testing.assert_array_equal(scaled(6)(a, 2.0), a)
    np.testing.assert_array_equal(scaled(6, with_bias=True)(a, a, 2.0), 3 * a)
