"""What is said of the roles of a block is true of the target and the kernel."""

from __future__ import annotations

from typing import Any

import pytest

import zellige as zl
import zellige.language as T

ROLES = "which roles does a block have?"
AHEAD = "do copies run ahead of their loop?"


def product(dtype: str, stages: int, *, is_branching: bool = False) -> Any:
    @T.prim_func
    def main(A: T.Tensor((128, 128), dtype), B: T.Tensor((128, 128), dtype), C: T.Tensor((128, 128), "float32")):
        with T.Kernel(2, 2, threads=128) as (bx, by):
            a = T.alloc_shared((64, 32), dtype)
            b = T.alloc_shared((32, 64), dtype)
            c = T.alloc_fragment((64, 64), "float32")
            T.clear(c)
            for k in T.Pipelined(4, num_stages=stages):
                if is_branching:
                    if k < 3:
                        T.copy(A[by * 64, k * 32], a)
                else:
                    T.copy(A[by * 64, k * 32], a)
                T.copy(B[k * 32, bx * 64], b)
                T.gemm(a, b, c)
            T.copy(c, C[by * 64, bx * 64])

    return main


def reasons(kernel: Any, target: str, **options: Any) -> dict[str, tuple[str, str]]:
    return {one.question: (one.chosen, one.because) for one in zl.explain(kernel, target=target, **options).decisions}


@pytest.mark.parametrize(
    "dtype, target, because",
    [
        ("float32", "cuda:sm_90a", "none of its products runs beside the lanes"),
        ("float32", "cuda:sm_80", "the target's roles cannot run programs of their own"),
        ("float16", "cuda:sm_80", "the target's roles cannot run programs of their own"),
    ],
)
def test_one_role_for_the_true_reason(dtype: str, target: str, because: str) -> None:
    assert reasons(product(dtype, 3), target)[ROLES] == ("one", because)


def test_roles_where_products_run_beside_the_lanes() -> None:
    chosen, because = reasons(product("float16", 3), "cuda:sm_90a")[ROLES]
    assert chosen.startswith("a producer for copies")
    assert "so they run ahead" in because


@pytest.mark.parametrize("stages, because", [(1, "the loop asks for one stage"), (0, "the loop asks for no stages")])
def test_a_loop_that_asks_for_fewer_stages_is_told_so(stages: int, because: str) -> None:
    assert reasons(product("float16", stages), "cuda:sm_80")[AHEAD] == ("no", because)


def test_a_copy_in_a_branch_is_told_so() -> None:
    found = reasons(product("float16", 3, is_branching=True), "cuda:sm_80")
    assert found["can the copy to a run ahead?"][0] == "no"
    assert "stands in a branch" in found["can the copy to a run ahead?"][1]
    assert found[AHEAD][0] != "no"


def test_without_a_loop_there_is_nothing_to_run_ahead() -> None:
    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=32):
            tile = T.alloc_shared((64,), "float32")
            T.copy(A, tile)
            T.copy(tile, B)

    assert reasons(main, "cuda:sm_80")[AHEAD] == ("no", "there is no pipelined loop whose copies could run ahead")


@pytest.mark.parametrize("target", ["cpu", "template"])
def test_targets_in_order_say_what_they_lack(target: str) -> None:
    chosen, because = reasons(product("float32", 3), target)[ROLES]
    assert chosen == "one" and because
    assert ("vector engine" in because) is False
