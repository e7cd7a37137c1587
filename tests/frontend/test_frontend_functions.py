"""Macros, functions defined in a kernel, plain helpers: arguments, references, returns, names."""

from __future__ import annotations

import linecache
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import zellige as zl
import zellige.language as T
from zellige.diagnostics import CompileError
from zellige.ir.stmt import Launch

Run = Callable[..., Any]
SCALE = 3


def test_macro_takes_tiles_by_reference_and_numbers_by_value(run: Run) -> None:
    @T.macro
    def add(tile, amount, *, twice=False):
        for i in T.serial(4):
            tile[i] = tile[i] + amount
        if twice:
            amount *= 2
        return amount

    @T.prim_func
    def kernel(B: T.Tensor((4,), "int32"), C: T.Tensor((3,), "int32")):
        with T.Kernel(1):
            v = T.alloc_var("int32", init=5)
            C[0] = add(B, v)
            C[1] = add(B, 1, twice=True)
            C[2] = v

    b, c = np.zeros(4, np.int32), np.zeros(3, np.int32)
    run(kernel, b, c)
    assert b.tolist() == [6] * 4 and c.tolist() == [5, 2, 5]


def test_reference_to_a_variable_and_to_an_element(run: Run) -> None:
    @T.macro
    def double(place: T.Ref, times):
        for _ in T.serial(times):
            place = place * 2
        place += 1

    @T.prim_func
    def kernel(B: T.Tensor((4,), "int32")):
        with T.Kernel(1):
            v = T.alloc_var("int32", init=3)
            double(v, 2)
            B[0] = v
            for i in T.serial(1, 4):
                B[i] = i
                double(B[i], i)

    b = np.zeros(4, np.int32)
    run(kernel, b)
    assert b.tolist() == [13, 3, 9, 25]


def test_macro_returns_values_tiles_and_tuples(run: Run) -> None:
    @T.macro
    def both(x, y):
        low = T.alloc_var("int32", init=x)
        if y < x:
            low = y
        return low, x + y - low

    @T.macro
    def scratch(value):
        tile = T.alloc_shared((2,), "int32")
        T.fill(tile, value)
        return tile

    @T.macro
    def nothing():
        pass

    @T.prim_func
    def kernel(A: T.Tensor((2,), "int32"), B: T.Tensor((4,), "int32")):
        with T.Kernel(1):
            low, high = both(A[0], A[1])
            B[0] = low
            B[1] = high
            B[2] = scratch(7)[1]
            B[3] = 1 if nothing() is None else 0

    b = np.zeros(4, np.int32)
    run(kernel, np.array([9, 4], np.int32), b)
    assert b.tolist() == [4, 9, 7, 1]


def test_returned_value_does_not_change_afterwards(run: Run) -> None:
    @T.macro
    def read(tile):
        return tile[0]

    @T.prim_func
    def kernel(A: T.Tensor((1,), "int32"), B: T.Tensor((1,), "int32")):
        with T.Kernel(1):
            before = read(A)
            A[0] = 50
            B[0] = before

    b = np.zeros(1, np.int32)
    run(kernel, np.array([8], np.int32), b)
    assert b[0] == 8


def test_macro_sees_its_own_closure_and_module(run: Run) -> None:
    offset = 100

    @T.macro
    def shifted(x):
        return x * SCALE + offset

    offset = 1000
    x = 77  # not the macro's x

    @T.prim_func
    def kernel(A: T.Tensor((1,), "int32"), B: T.Tensor((1,), "int32")):
        with T.Kernel(1):
            offset = 5  # noqa: F841
            B[0] = shifted(A[0]) + x

    b = np.zeros(1, np.int32)
    run(kernel, np.array([2], np.int32), b)
    assert b[0] == 6 + 1000 + 77


def test_constant_recursion_ends(run: Run) -> None:
    @T.macro
    def power(x, n):
        if n == 0:
            return 1
        return x * power(x, n - 1)

    @T.prim_func
    def kernel(A: T.Tensor((1,), "int32"), B: T.Tensor((1,), "int32")):
        with T.Kernel(1):
            B[0] = power(A[0], 5)

    b = np.zeros(1, np.int32)
    run(kernel, np.array([3], np.int32), b)
    assert b[0] == 243


def test_macro_may_hold_the_whole_block(run: Run) -> None:
    @T.macro
    def copy_rows(A, B):
        rows, columns = A.shape
        with T.Kernel(rows) as bx:
            for j in T.Parallel(columns):
                B[bx, j] = A[bx, j]

    @T.prim_func
    def kernel(A: T.Tensor((3, 2), "int32"), B: T.Tensor((3, 2), "int32")):
        copy_rows(A, B)

    a, b = np.arange(6, dtype=np.int32).reshape(3, 2), np.zeros((3, 2), np.int32)
    run(kernel, a, b)
    assert (a == b).all()


def test_macro_as_a_method_and_as_an_argument(run: Run) -> None:
    class Operator:
        def __init__(self, by: int) -> None:
            self.by = by

        @T.macro
        def apply(self, x):
            return x + self.by

    operator = Operator(4)

    @T.macro
    def twice(function, x):
        return function(function(x))

    @T.prim_func
    def kernel(A: T.Tensor((1,), "int32"), B: T.Tensor((2,), "int32")):
        with T.Kernel(1):
            B[0] = twice(operator.apply, A[0])
            B[1] = twice(lambda v: v * 10, A[0])

    b = np.zeros(2, np.int32)
    run(kernel, np.array([1], np.int32), b)
    assert b.tolist() == [9, 100]


def test_macro_defined_in_a_kernel(run: Run) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((4,), "int32"), B: T.Tensor((4,), "int32")):
        with T.Kernel(1):
            limit = 2

            @T.macro
            def put(place: T.Ref, x):
                if x > limit:
                    place = x  # noqa: F841

            for i in T.serial(4):
                put(B[i], A[i])

    b = np.zeros(4, np.int32)
    run(kernel, np.arange(4, dtype=np.int32), b)
    assert b.tolist() == [0, 0, 0, 3]


def test_plain_helper_is_called_by_python(run: Run) -> None:
    calls: list[int] = []

    def helper(tile: Any, at: int) -> Any:
        calls.append(at)
        T.fill(tile, at)
        return tile[at] + at

    @T.prim_func
    def kernel(B: T.Tensor((4,), "int32")):
        with T.Kernel(1):
            tile = T.alloc_shared((4,), "int32")
            B[1] = helper(tile, 1)
            B[2] = helper(tile, 2)

    b = np.zeros(4, np.int32)
    run(kernel, b)
    assert b.tolist() == [0, 2, 4, 0] and calls == [1, 2]


def test_nonlocal_names_a_variable_of_the_kernel(run: Run) -> None:
    @T.prim_func
    def kernel(B: T.Tensor((4,), "int32")):
        with T.Kernel(1):
            count = T.alloc_var("int32", init=1)
            last = T.alloc_var("int32")

            def add(amount):
                nonlocal count, last
                last = amount
                count += amount

            for i in T.serial(4):
                if B[i] > 0:
                    add(B[i])
            B[0] = count
            B[1] = last

    b = np.array([3, 0, 5, -1], np.int32)
    run(kernel, b)
    assert b.tolist() == [9, 5, 5, -1]


@pytest.mark.parametrize("begin", ["count = 0", "count = B[0]", "count = T.alloc_var('int32')"])
def test_nonlocal_names_of_other_things(begin: str) -> None:
    source = f"""
@T.prim_func
def kernel(B: T.Tensor((4,), "int32")):
    with T.Kernel(1):
        {begin}
        def add():
            nonlocal count
            count = B
        add()
"""
    file = f"<nonlocal {begin}>"
    linecache.cache[file] = (len(source), None, source.splitlines(True), file)
    with pytest.raises(CompileError) as caught:
        exec(compile(source, file, "exec"), {"T": T})
    assert caught.value.code == "E130" and "count = T.alloc_var(dtype, init=...)" in str(caught.value.hint)


def test_error_in_a_macro_names_the_calls() -> None:
    @T.macro
    def inner(tile):
        tile[0, 0] = 1

    @T.macro
    def outer(tile):
        inner(tile)

    with pytest.raises(CompileError) as caught:

        @T.prim_func
        def kernel(B: T.Tensor((4,), "int32")):
            with T.Kernel(1):
                outer(B)

    notes = caught.value.diagnostics[0].notes
    assert caught.value.code == "E208"
    assert [n.message.split(",")[0] for n in notes] == ["in inner", "in outer"]
    assert "tile[0, 0]" in str(caught.value) and "outer(B)" in str(caught.value)


def test_deep_chain_of_calls_is_shown_by_its_ends() -> None:
    @T.macro
    def endless(tile, n):
        endless(tile, n + 1)

    with pytest.raises(CompileError) as caught:

        @T.prim_func
        def kernel(B: T.Tensor((4,), "int32")):
            with T.Kernel(1):
                endless(B, 0)

    assert caught.value.code == "E122"
    messages = [n.message for n in caught.value.diagnostics[0].notes]
    assert messages == ["in endless, called from here"] * 4 + ["in 52 more calls"] + ["in endless, called from here"] * 4


def test_a_kernel_that_compiles_itself() -> None:
    @zl.jit(target="interp")
    def kernel(B: T.Tensor((4,), "int32")):
        with T.Kernel(1):
            zl.compile(kernel)

    with pytest.raises(CompileError, match="E122: compilations nest") as caught:
        kernel(np.zeros(4, "int32"))
    assert "outside of each other" in caught.value.hint


def test_standard_library_is_no_helper_of_the_user() -> None:
    with pytest.raises(CompileError) as caught:

        @T.prim_func
        def kernel(B: T.Tensor((4,), "int32")):
            with T.Kernel(1):
                with T.Kernel(2):
                    B[0] = 1

    assert caught.value.code == "E103"
    assert not caught.value.diagnostics[0].notes


def test_exception_of_a_plain_helper_keeps_its_cause() -> None:
    def helper(n: int) -> None:
        raise KeyError(f"no tile for {n}")

    with pytest.raises(CompileError) as caught:

        @T.prim_func
        def kernel(B: T.Tensor((4,), "int32")):
            with T.Kernel(1):
                helper(3)

    assert caught.value.code == "E110" and isinstance(caught.value.__cause__, KeyError)
    assert "KeyError" in str(caught.value) and "helper(3)" in str(caught.value)


def test_macro_outside_of_a_kernel() -> None:
    @T.macro
    def put(tile):
        tile[0] = 1

    with pytest.raises(CompileError) as caught:
        put(None)
    assert caught.value.code == "E101"


@pytest.mark.parametrize("decorate", [T.macro, T.prim_func])
def test_only_functions_can_be_traced(decorate: Any) -> None:
    class Thing:
        pass

    for wrong in (Thing, len, lambda x: x, 3):
        with pytest.raises(CompileError) as caught:
            decorate(wrong)
        assert caught.value.code == "E129"


def test_wrong_call_of_a_macro_is_a_type_error_at_the_call() -> None:
    @T.macro
    def put(tile, at):
        tile[at] = 1

    with pytest.raises(CompileError) as caught:

        @T.prim_func
        def kernel(B: T.Tensor((4,), "int32")):
            with T.Kernel(1):
                put(B)

    assert caught.value.code == "E157" and "missing a required argument: 'at'" in str(caught.value)
    assert "its signature is put(tile, at)" in caught.value.hint


def test_names_follow_the_author() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((4,), "int32")):
        with T.Kernel(4) as row:
            accumulator = T.alloc_fragment((4,), "int32")
            counter = T.alloc_var("int32")
            for step in T.serial(4):
                value = A[row] + step
                counter += value
                accumulator[step] = counter

    launch: Launch = kernel.kernel.launches[0]
    text = kernel.script()
    for name in ("accumulator", "counter", "step", "value"):
        assert f"{name} = " in text or f"{name}: " in text or f"for {name} " in text
    assert [v.name for v in launch.grid_vars] == ["bx"]


def test_scalar_parameters_and_python_annotations(run: Run) -> None:
    @T.prim_func
    def kernel(B: T.Tensor((4,), "float32"), n: T.int32, x: float, flag: bool, half: "T.float16", times=2):  # noqa: UP037
        with T.Kernel(1):
            B[0] = n
            B[1] = x * times
            if flag:
                B[2] = half

    b = np.zeros(4, np.float32)
    run(kernel, b, 7, 1.5, True, 0.25)
    assert b.tolist() == [7, 3, 0.25, 0]


def test_annotations_in_the_body(run: Run) -> None:
    m = T.dynamic("m")

    @T.prim_func
    def kernel(A, B, n: T.int32):
        A: T.Tensor[[m, 2], T.int32]
        B: T.Tensor((m,), "int32")
        with T.Kernel(m) as bx:
            B[bx] = A[bx, 0] + A[bx, 1] * n

    b = np.zeros(3, np.int32)
    run(kernel, np.arange(6, dtype=np.int32).reshape(3, 2), b, 10)
    assert b.tolist() == [10, 32, 54]


def test_the_body_may_name_the_types_of_numbers(run: Run) -> None:
    class Config:
        number = T.float32

    @T.prim_func
    def kernel(A, x, n, count):
        A: T.Tensor((4,), "float32")
        x: Config.number
        n: int
        count: T.int64
        with T.Kernel(1):
            for i in T.Parallel(4):
                A[i] = x * n + count

    assert [str(param.var.dtype) for param in kernel.kernel.params[1:]] == ["float32", "int32", "int64"]
    a = np.zeros(4, np.float32)
    run(kernel, a, 1.5, 3, 10)
    assert a.tolist() == [14.5] * 4


def test_names_used_only_in_text_annotations_come_from_the_defining_scope(run: Run) -> None:
    namespace: dict[str, Any] = {}
    source = '''
from __future__ import annotations
import zellige.language as T

def make(n, dtype):
    @T.prim_func
    def kernel(A: T.Tensor((n,), dtype)):
        with T.Kernel(1):
            A[0] = 1
    return kernel
'''
    import linecache

    linecache.cache["<future>"] = (len(source), None, source.splitlines(keepends=True), "<future>")
    exec(compile(source, "<future>", "exec"), namespace)
    kernel = namespace["make"](5, "int32")
    assert [int(e.value) for e in kernel.kernel.params[0].buffer.shape] == [5]


def test_error_in_a_plain_helper_names_its_line() -> None:
    def helper(tile: Any) -> None:
        T.copy(tile[0:3], tile[0:2])

    with pytest.raises(CompileError) as caught:

        @T.prim_func
        def kernel(B: T.Tensor((4,), "int32")):
            with T.Kernel(1):
                helper(B)

    assert caught.value.code == "E223" and caught.value.span is not None
    assert "helper(B)" in caught.value.span.excerpt()
    note = caught.value.diagnostics[0].notes[0]
    assert note.message == "in helper, a Python function" and note.span is not None
    assert "T.copy(tile[0:3], tile[0:2])" in note.span.excerpt()


def test_traceback_leaves_the_interpretation_out() -> None:
    import traceback

    with pytest.raises(CompileError) as caught:

        @T.prim_func
        def kernel(B: T.Tensor((4,), "int32")):
            with T.Kernel(1):
                if B[0] > 1:
                    B[0, 0] = 1

    files = [entry.name for entry in traceback.extract_tb(caught.value.__traceback__)]
    assert "execute" not in files and len(files) < 10


def test_older_annotation_of_a_reference(run: Run) -> None:
    @T.macro
    def put(place: T.Var, x):
        place = x  # noqa: F841

    @T.prim_func
    def kernel(B: T.Tensor((1,), "int32")):
        with T.Kernel(1):
            v = T.alloc_var("int32")
            put(v, 5)
            B[0] = v

    b = np.zeros(1, np.int32)
    run(kernel, b)
    assert b[0] == 5
