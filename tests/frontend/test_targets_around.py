"""``with tvm.target.Target(...)``: what compiles inside, and names no target, is compiled for it."""

from __future__ import annotations

import numpy as np
import pytest

import zellige as zl
import zellige.language as T


def test_the_target_around_stands_in_where_none_is_given():
    @T.prim_func
    def k(A: T.Tensor((8,), "float32")):
        with T.Kernel(1):
            for i in T.Parallel(8):
                A[i] = i

    with zl.tvm.target.Target("interp") as around:
        assert str(around) == "interp"
        inside = zl.compile(k)
        with zl.tvm.target.Target({"kind": "cpu"}, host="c"):
            assert str(zl.compile(k, target="auto").target) == "cpu"
        assert str(zl.compile(k, target="cpu").target) == "cpu"
        assert str(zl.compile(k, target="auto").target) == "interp"
    assert str(inside.target) == "interp"
    assert str(zl.compile(k, target="cpu").target) == "cpu"


def test_a_jit_function_is_compiled_for_each_target_around():
    @zl.jit
    def lazy(n):
        @T.prim_func
        def k(A: T.Tensor((n,), "int32")):
            with T.Kernel(1):
                for i in T.Parallel(n):
                    A[i] = i

        return k

    @zl.jit
    def eager(A):
        A: T.Tensor((8,), "int32")
        with T.Kernel(1):
            for i in T.Parallel(8):
                A[i] += 1

    a = np.zeros(8, np.int32)
    targets = []
    for name in ("interp", "cpu", "interp"):
        with zl.tvm.target.Target(name):
            targets.append((str(lazy(8).target), str(eager.compile(a).target)))
            eager(a)
    assert targets == [("interp", "interp"), ("cpu", "cpu"), ("interp", "interp")]
    np.testing.assert_array_equal(a, np.full(8, 3))


def test_a_target_around_that_is_none():
    with pytest.raises(zl.CompileError, match="E159"):
        zl.tvm.target.Target({"arch": "x"})
    with pytest.raises(zl.CompileError, match="E707"):
        zl.tvm.target.Target(":x")
