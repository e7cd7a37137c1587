"""A keyword that holds what it cannot mean is refused, also one that changes no result: as ``swizzle="banks"`` would go unseen else.

Values that programs written for TileLang pass are taken, and so is None where a keyword may be left out.
"""

from __future__ import annotations

import re
from types import SimpleNamespace

import numpy as np
import pytest

import zellige as zl
import zellige.language as T
from zellige import layout

WRONG = {
    "E258": [
        lambda k: T.copy(k.A, k.a, swizzle="banks"),
        lambda k: T.copy(k.A, k.a, loop_layout="a"),
        lambda k: T.copy(k.A, k.a, prefer_instruction=1),
        lambda k: T.copy(k.A, k.a, annotations=[1]),
        lambda k: T.async_copy(k.A, k.a, swizzle=1),
        lambda k: T.async_copy(k.A, k.a, eviction_policy="never"),
        lambda k: T.gemm(k.a, k.a, k.c, wg_wait="a"),
        lambda k: T.gemm(k.a, k.a, k.c, wg_wait=-2),
        lambda k: T.gemm(k.a, k.a, k.c, mbar=3),
        lambda k: T.gemm(k.a, k.a, k.c, annotations=3),
        lambda k: T.reduce_sum(k.c, k.v, annotations="a"),
        lambda k: T.atomic_add(k.A[0, 0], 1.0, annotations=1),
        lambda k: T.Parallel(4, loop_layout="a"),
        lambda k: T.Parallel(4, prefer_async="yes"),
        lambda k: T.Pipelined(4, sync=1),
        lambda k: T.unroll(4, explicit="a"),
        lambda k: T.Kernel(1, prelude=1),
        lambda k: T.Kernel(1, is_cpu="a"),
        lambda k: T.print(k.x, msg=3),
        lambda k: T.print(k.x, warp_id=-1),
        lambda k: T.print(k.x, span="here"),
        lambda k: T.device_assert(k.x > 0, 3),
        lambda k: T.device_assert(k.x > 0, no_stack_info="a"),
        lambda k: T.max(k.x, 1.0, nan_propagate="a"),
        lambda k: T.rng_init(1, generator=3),
        lambda k: T.use_swizzle(4, enable="no"),
        lambda k: T.annotate_l2_hit_ratio({k.A: True}),
        lambda k: T.alloc_buffer((4,), "float32", annotations=1),
        lambda k: T.alloc_global((4,), "float32", scope="shared"),
        lambda k: T.ptr("float32", "shared"),
        lambda k: T.access_ptr(k.A, "x"),
        lambda k: T.access_ptr(k.A[0:4, 0:4], "r", 4),
        lambda k: T.comm_reducer(3, [0]),
        lambda k: T.launch_thread(["threadIdx.x"], 1),
        lambda k: T.PersistentTileScheduler(4, 4, 2, column_major="a"),
        lambda k: T.PersistentTileScheduler(4, 4, 2, name=3),
        lambda k: layout.Layout((4,), "map"),
        lambda k: layout.Fragment((4,), forward_thread_fn=3),
        lambda k: layout.Fragment((4,), lambda i: (i, 0), replicate=1.5),
        lambda k: layout.make_swizzled_layout(k.a, allow_pad="a"),
        lambda k: layout.make_linear_layout(2, 3).repeat("a", 2),
    ],
    "E217": [
        lambda k: T.exp(k.x, dtype="int33"),
        lambda k: T.if_then_else(k.x > 0, k.x, 0.0, dtype=3),
        lambda k: T.print(k.x, dtype="flaot32"),
    ],
    "E259": [
        lambda k: T.alloc_buffer((4, 4), "float32", strides=(8, 1)),
        lambda k: T.alloc_buffer((4, 4), "float32", elem_offset=4),
    ],
    "E202": [lambda k: T.likely("a"), lambda k: layout.make_linear_layout("a")],
    "E205": [
        lambda k: T.PersistentTileScheduler(4, 2.5),
        lambda k: T.get_warp_group_idx(32, 2.5),
        lambda k: layout.Layout(2.5, lambda i: i),
        lambda k: zl.next_power_of_2(2.5),
        lambda k: zl.cdiv("a", 2),
    ],
    "E105": [lambda k: zl.next_power_of_2(k.n)],
    "E222": [lambda k: layout.make_swizzled_layout(3), lambda k: layout.make_half_bank_swizzled_layout((4, 4))],
    "E233": [lambda k: T.alloc_reducer((4,), "float32", op=["sum"])],
    "E245": [lambda k: T.get_lane_idx(-1)],
    "E257": [lambda k: T.reduce(k.c, k.v, ["sum"], 1, True)],
    "E243": [lambda k: T.match_any_sync(k.n, 2.5)],
    "E218": [lambda k: T.Tensor((4,), "float32", scope=1)],
    "E637": [
        lambda k: zl.do_bench(None),
        lambda k: zl.do_bench(print, rep="x"),
        lambda k: zl.do_bench(print, quantiles=0.5),
        lambda k: zl.do_bench(print, _n_repeat=1.5),
        lambda k: zl.do_bench(print, early_stop_baseline="x"),
        lambda k: zl.testing.assert_allclose(np.ones(2), np.ones(2), rtol="a"),
        lambda k: zl.autotune(warmup="long"),
        lambda k: zl.autotune(ref_prog=3),
    ],
    "E159": [lambda k: zl.set_log_level(None), lambda k: zl.jit(verbose="loud")],
}


def traced(act):
    """Calls ``act`` in a kernel, with its tiles and values."""

    @T.prim_func
    def kernel(A: T.Tensor((16, 16), "float32"), N: T.Tensor((16,), "int32")):
        with T.Kernel(1, threads=64) as bx:
            a = T.alloc_shared((16, 16), "float16")
            c = T.alloc_fragment((16, 16), "float32")
            v = T.alloc_fragment((16,), "float32")
            act(SimpleNamespace(A=A, a=a, c=c, v=v, x=A[bx, 0], n=N[bx]))


@pytest.mark.parametrize("code", WRONG)
def test_values_that_a_keyword_cannot_mean(code):
    for act in WRONG[code]:
        with pytest.raises(zl.ZelligeError) as caught:
            traced(act)
        assert caught.value.code == code, f"line {act.__code__.co_firstlineno}: {caught.value}"
        assert caught.value.span is None or caught.value.span.file == __file__


def test_what_is_wanted_of_a_count():
    for act, words in (
        (lambda k: zl.SplitSums(parts=1), "a Python int from 2 to 64 is needed here, not 1 as parts of a sum"),
        (lambda k: T.shuffle_elect(-1), "a Python int from 0 on is needed here, not int -1 as thread_extent"),
        (lambda k: T.Persistent((4,), 0, k.n), "a positive Python int is needed here, not 0 as wave_size of T.Persistent"),
        (lambda k: T.Persistent((4,), 2, k.n, group_size=-1), "a Python int from 0 on is needed here, not -1 as group_size"),
        (lambda k: T.gemm(k.a, k.a, k.c, k_pack=3), "1 or 2 is needed here, not int 3 as k_pack"),
        (lambda k: T.Pipelined(4, order=[0, 0], stage=[0, 1]), "order cannot be [0, 0]: two statements would have one place"),
    ):
        with pytest.raises(zl.ZelligeError, match=re.escape(words)):
            traced(act)


RIGHT = [
    lambda k: T.copy(k.A, k.a, swizzle="bank", loop_layout=None, prefer_instruction="tma", annotations={}),
    lambda k: T.async_copy(k.A, k.a, swizzle=None, eviction_policy="evict_last"),
    lambda k: T.gemm(k.a, k.a, k.c, wg_wait=-1, mbar=T.alloc_barrier(1)[0], annotations=None),
    lambda k: T.Parallel(4, loop_layout=layout.Layout((4,), lambda i: i), prefer_async=np.bool_(True)),
    lambda k: T.print(k.x, msg="x", warp_group_id=0, warp_id=1, dtype="float32", span=None),
    lambda k: T.device_assert(k.x > 0, "x", no_stack_info=True),
    lambda k: T.alloc_buffer((4,), "float32", "shared", strides=[], elem_offset=0, align=-1, offset_factor=0, buffer_type="default"),
    lambda k: T.access_ptr(k.A[2, 0], 3, 4),
    lambda k: layout.Layout(np.int64(4), lambda i: i),
    lambda k: T.exp(k.x, dtype=np.float16),
    lambda k: T.alloc_global((4,), "float32", "global"),
]


def test_values_that_programs_pass():
    for act in RIGHT:
        traced(act)
    assert zl.next_power_of_2(np.int64(5)) == 8 and zl.cdiv(np.int32(7), 2) == 4
    assert not layout.make_linear_layout(2).is_equal(None)  # type: ignore[arg-type]


def test_extents_of_a_pointer_into_a_tile():
    """``T.access_ptr(A, "r", 2, 4)`` is the first two rows of four."""

    @T.prim_func
    def kernel(A: T.Tensor((4, 4), "float32"), B: T.Tensor((4, 4), "float32")):
        with T.Kernel(1):
            T.copy(T.access_ptr(A, "r", 2, 4), T.access_ptr(B, "w", 2, 4))

    a, b = np.arange(16, dtype=np.float32).reshape(4, 4), np.zeros((4, 4), np.float32)
    zl.compile(kernel, target="interp")(a, b)
    assert (b == np.where(np.arange(4)[:, None] < 2, a, 0)).all()
