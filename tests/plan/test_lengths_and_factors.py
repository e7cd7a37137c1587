"""Which blocks run first where their loops differ, and which products with factors of rows may be passed over."""

# Kernels are read by the front end, not run by Python.
# mypy: ignore-errors

from __future__ import annotations

import pytest

import zellige.language as T
from zellige.ir.stmt import Map
from zellige.plan.invented_machines import LANES_ASYNC, LANES_COPIES, QUEUES_CUBE, SCALAR_VECTOR_CPU
from zellige.plan.planner import plan


def triangle(how="grows", rows=4):
    """Row block bx of a triangle; ``how`` its loop depends on the block."""

    @T.prim_func
    def triangle(A: T.Tensor((512, 512), "float32"), total: T.Tensor((64, 512), "float32"), n: T.int32):
        with T.Kernel(64, rows, threads=64) as (bx, by):
            tile = T.alloc_fragment((32,), "float32")
            T.clear(tile)
            if how == "grows":
                last = T.min(n, (bx + 1) * 32)
                for k in T.serial(T.ceildiv(last, 32)):
                    for i in T.Parallel(32):
                        tile[i] += A[k * 32 + i, by]
            elif how == "grows along the second":
                for k in T.serial(2 * by + n - 1):
                    for i in T.Parallel(32):
                        tile[i] += A[k * 32 + i, bx]
            elif how == "becomes less":
                for k in T.serial(64 - bx):
                    for i in T.Parallel(32):
                        tile[i] += A[k * 32 + i, by]
            elif how == "begins later":
                for k in T.serial(bx, 64):
                    for i in T.Parallel(32):
                        tile[i] += A[k * 32 + i, by]
            elif how == "differs otherwise":
                for k in T.serial(bx % 3 + 1):
                    for i in T.Parallel(32):
                        tile[i] += A[k * 32 + i, by]
            elif how == "counts blocks":
                for k in T.serial(bx + 1):
                    for i in T.Parallel(32):
                        T.atomic_add(total[k, i], A[k * 32 + i, by])
            elif how == "is asked for":
                T.use_swizzle(2)
                for k in T.serial(bx + 1):
                    for i in T.Parallel(32):
                        tile[i] += A[k * 32 + i, by]
            else:
                for k in T.serial(16):
                    for i in T.Parallel(32):
                        tile[i] += A[k * 32 + i, by]
            for i in T.Parallel(32):
                total[bx, by * 32 + i] = tile[i]

    return triangle.kernel


def order(how, machine=LANES_COPIES, rows=4):
    (launch,) = plan(triangle(how, rows), machine).launches
    var = launch.order.from_last
    return None if var is None else var.name


@pytest.mark.parametrize(
    "how, expected, beside, sets", [("grows", "bx", 4, ", 4 along by beside each other"), ("grows along the second", "by", 1, "")]
)
def test_the_longest_blocks_run_first(how, expected, beside, sets):
    assert order(how) == order(how, LANES_ASYNC) == expected
    (launch,) = plan(triangle(how), LANES_COPIES).launches
    assert launch.order.panel == beside
    said = next(d for d in launch.decisions if d.question == "in which order do blocks run?")
    assert said.chosen == f"along {expected} from the last to the first{sets}"
    assert f"the loop over k has more iterations where {expected} is larger" in said.because


@pytest.mark.parametrize("how", ["becomes less", "begins later", "differs otherwise", "counts blocks", "is asked for", "is the same"])
def test_other_blocks_run_as_they_are_numbered(how):
    """Among them those that may wait for others, by atomics, and those whose author names an order."""
    assert order(how) is None


def test_blocks_that_all_run_at_once_need_no_order():
    assert LANES_COPIES.threads < 2 * 64
    assert order("grows", rows=1) is None
    assert order("grows", rows=2) == "bx"


@pytest.mark.parametrize("machine", [SCALAR_VECTOR_CPU, QUEUES_CUBE])
def test_machines_that_share_out_blocks_otherwise_are_left_alone(machine):
    assert order("grows", machine) is None


def rescaled(how="rows"):
    """Sums of products, multiplied by a factor of each row between them."""

    @T.prim_func
    def rescaled(A: T.Tensor((64, 256), "float16"), B: T.Tensor((256, 64), "float16"), C: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=128):
            As = T.alloc_shared((64, 32), "float16")
            Bs = T.alloc_shared((32, 64), "float16")
            sums = T.alloc_fragment((64, 64), "float32")
            factors = T.alloc_fragment((64,), "float32")
            every = T.alloc_fragment((64, 64), "float32")
            T.clear(sums)
            T.fill(every, 1)
            for k in T.Pipelined(8, num_stages=2):
                T.copy(A[0, k * 32], As)
                T.copy(B[k * 32, 0], Bs)
                for i in T.Parallel(64):
                    factors[i] = T.if_then_else(k % 2 == 1 and i < 16, 0.5, 1)
                if how == "rows":
                    for i, j in T.Parallel(64, 64):
                        sums[i, j] *= factors[i]
                elif how == "columns, the factor first":
                    for i, j in T.Parallel(64, 64):
                        sums[i, j] = factors[j] * sums[i, j]
                elif how == "of each element":
                    for i, j in T.Parallel(64, 64):
                        sums[i, j] *= every[i, j]
                elif how == "turned":
                    for i, j in T.Parallel(64, 64):
                        sums[i, j] = sums[j, i] * factors[i]
                elif how == "added to":
                    for i, j in T.Parallel(64, 64):
                        sums[i, j] += factors[i]
                elif how == "two stores":
                    for i, j in T.Parallel(64, 64):
                        sums[i, j] *= factors[i]
                        every[i, j] = sums[i, j]
                else:
                    for i, j in T.Parallel(64, 64):
                        every[i, j] *= factors[i]
                T.gemm(As, Bs, sums)
            for i, j in T.Parallel(64, 64):
                C[i, j] = sums[i, j] * factors[i] + every[i, j]

    return rescaled.kernel


def factors(how, machine=LANES_ASYNC):
    (launch,) = plan(rescaled(how), machine).launches
    return [choice.factor.name for choice in launch.choices if isinstance(choice.operation, Map) and choice.factor is not None]


@pytest.mark.parametrize("how", ["rows", "columns, the factor first"])
def test_sums_need_not_be_multiplied_by_one(how):
    assert factors(how) == factors(how, LANES_COPIES) == ["factors"]
    (launch,) = plan(rescaled(how), LANES_ASYNC).launches
    said = next(d for d in launch.decisions if d.question == "is sums multiplied by factors in every iteration?")
    assert said.chosen == "only by lanes that meet a factor other than 1"


@pytest.mark.parametrize("how", ["of each element", "turned", "added to", "two stores", "no sums of a product"])
def test_other_maps_always_run(how):
    """Where looking at the factors costs as much as multiplying, or more than a product is stored."""
    assert factors(how) == []


def test_machines_without_lanes_do_not_ask():
    assert factors("rows", SCALAR_VECTOR_CPU) == factors("rows", QUEUES_CUBE) == []
