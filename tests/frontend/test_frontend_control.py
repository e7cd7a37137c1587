"""if, while, for, break, continue and return: the traced kernel does what the same Python would do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import zellige as zl
import zellige.language as T
from zellige.diagnostics import CompileError, ZelligeError
from zellige.ir.stmt import For, If, Map, While
from zellige.ir.traverse import walk


def zeros(*shape: int, dtype: str = "int32") -> np.ndarray[Any, Any]:
    return np.zeros(shape, dtype)


def iota(count: int, dtype: str = "int32") -> np.ndarray[Any, Any]:
    return np.arange(count, dtype=dtype)


def kinds(kernel: Any) -> list[str]:
    return [type(n).__name__ for launch in kernel.kernel.launches for n in walk(launch) if isinstance(n, (For, If, Map, While))]


def test_name_rebound_under_if_becomes_a_variable(run: Any) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((8,), "int32"), B: T.Tensor((8,), "int32")):
        with T.Kernel(1):
            for i in T.Parallel(8):
                v = A[i]
                if v > 4:
                    v = 4
                elif v < 2:
                    v = v + 100
                B[i] = v

    b = zeros(8)
    run(kernel, iota(8), b)
    assert b.tolist() == [100, 101, 2, 3, 4, 4, 4, 4]


def test_constant_condition_traces_only_the_taken_side(run: Any) -> None:
    flag = False

    @T.prim_func
    def kernel(B: T.Tensor((1,), "int32")):
        with T.Kernel(1):
            if flag:
                B[0] = undefined_name  # noqa: F821
            else:
                B[0] = 3

    b = zeros(1)
    run(kernel, b)
    assert b[0] == 3 and kinds(kernel) == []


def test_serial_sum_with_a_python_name(run: Any) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((10,), "int32"), B: T.Tensor((2,), "int32")):
        with T.Kernel(1):
            total = 0
            for i in range(10):
                total += A[i]
            B[0] = total
            for i in range(9, -1, -3):
                total = total - i
            B[1] = total

    b = zeros(2)
    run(kernel, iota(10), b)
    assert b.tolist() == [45, 45 - 9 - 6 - 3 - 0]


def test_loop_variable_is_readable_after_the_loop(run: Any) -> None:
    @T.prim_func
    def kernel(B: T.Tensor((2,), "int32")):
        with T.Kernel(1):
            for i in T.serial(7):
                B[0] = i * 10
            B[1] = i

    b = zeros(2)
    run(kernel, b)
    assert b.tolist() == [60, 6]


def test_loop_variable_may_be_changed_in_the_body(run: Any) -> None:
    @T.prim_func
    def kernel(B: T.Tensor((4,), "int32")):
        with T.Kernel(1):
            for i in T.serial(4):
                j = i
                i = i * 2
                B[j] = i

    b = zeros(4)
    run(kernel, b)
    assert b.tolist() == [0, 2, 4, 6]


def test_while_with_variables_and_python_numbers(run: Any) -> None:
    @T.prim_func
    def kernel(B: T.Tensor((3,), "int32"), n: T.int32):
        with T.Kernel(1):
            i = T.alloc_var("int32", init=1)
            steps = 0
            while i < n:
                i = i * 3
                steps = steps + 1
            B[0] = i
            B[1] = steps
            k = 100
            while k > 7:
                k //= 2  # known while compiling
            B[2] = k

    b = zeros(3)
    run(kernel, b, 50)
    assert b.tolist() == [81, 4, 6]
    assert kinds(kernel) == ["While"]


def test_while_true_with_break_and_continue(run: Any) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((16,), "int32"), B: T.Tensor((2,), "int32")):
        with T.Kernel(1):
            i = 0
            odd = 0
            while True:
                i += 1
                if i >= 16:
                    break
                if A[i] % 2 == 0:
                    continue
                odd += A[i]
            B[0] = odd
            B[1] = i

    b = zeros(2)
    run(kernel, iota(16), b)
    assert b.tolist() == [sum(range(1, 16, 2)), 16]


def test_condition_of_while_with_a_macro_that_stores(run: Any) -> None:
    @T.macro
    def count(counter, place: T.Ref):
        place = place + 1
        return place < 5

    @T.prim_func
    def kernel(B: T.Tensor((2,), "int32")):
        with T.Kernel(1):
            calls = T.alloc_var("int32")
            rounds = 0
            while count(0, calls):
                rounds += 1
            B[0] = calls
            B[1] = rounds

    b = zeros(2)
    run(kernel, b)
    assert b.tolist() == [5, 4]


def test_break_and_continue_in_nested_loops(run: Any) -> None:
    @T.prim_func
    def kernel(B: T.Tensor((5,), "int32")):
        with T.Kernel(1):
            for i in T.serial(5):
                found = 0
                for j in T.serial(10):
                    if j < i:
                        continue
                    if j * j > 8:
                        break
                    found += j
                B[i] = found

    want = []
    for i in range(5):
        found = 0
        for j in range(10):
            if j < i:
                continue
            if j * j > 8:
                break
            found += j
        want.append(found)
    b = zeros(5)
    run(kernel, b)
    assert b.tolist() == want


def test_unrolled_loop_with_constant_break_and_else(run: Any) -> None:
    @T.prim_func
    def kernel(B: T.Tensor((4,), "int32")):
        with T.Kernel(1):
            for at, value in enumerate([5, 6, 7, 8]):
                if value == 7:
                    break
                B[at] = value
            for at in (2, 3):
                B[at] = 1
            else:
                B[3] = 9

    b = zeros(4)
    run(kernel, b)
    assert b.tolist() == [5, 6, 1, 9] and kinds(kernel) == []


def test_else_of_a_run_time_loop_runs_unless_it_was_left(run: Any) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((4, 8), "int32"), n: T.int32, B: T.Tensor((4, 6), "int32")):
        with T.Kernel(4) as bx:
            for i in T.serial(8):
                if A[bx, i] == 7:
                    B[bx, 0] = i
                    break
            else:
                B[bx, 0] = -1
            total = 0
            while total < n:
                total += 3
                last = total
                if total == 9:
                    break
            else:
                total += 100
                B[bx, 5] = last
            B[bx, 1] = total
            found = 0
            for i in range(n):
                for j in range(8):
                    if A[bx, j] == i:
                        break
                else:
                    found = i + 1
                    break
            else:
                found = 50
            B[bx, 2] = found
            left = 5
            for i in range(n):
                if i > 20:
                    continue
                left += 1
            else:
                left *= 2
            B[bx, 3] = left
            for at in [1, 2, 3]:
                if at == 9:
                    break
            else:
                B[bx, 4] = at

    values = np.array([[0, 1, 2, 3, 4, 5, 6, 7], [7] * 8, [0, 1, 2, 4, 5, 6, 0, 0], [9] * 8], "int32")
    for n in (1, 8, 9, 30):
        b = zeros(4, 6)
        run(kernel, values, n, b)
        for row, got in zip(values, b.tolist()):
            hit = int(np.argmax(row == 7)) if 7 in row else -1
            steps = -(-n // 3) * 3
            missing = next((i + 1 for i in range(n) if i not in row), 50)
            total = 9 if n > 6 else steps + 100
            assert got == [hit, total, missing, (5 + min(n, 21)) * 2, 3, 0 if n > 6 else steps]


def test_else_of_a_run_time_loop_without_break_always_runs(run: Any) -> None:
    @T.prim_func
    def kernel(B: T.Tensor((2,), "int32")):
        with T.Kernel(1):
            for i in T.serial(2):
                B[0] = i
            else:
                B[1] = 5

    b = zeros(2)
    run(kernel, b)
    assert b.tolist() == [1, 5]


def test_grid_loops_and_tuple_target(run: Any) -> None:
    @T.prim_func
    def kernel(B: T.Tensor((2, 3), "int32"), C: T.Tensor((2, 3), "int32")):
        with T.Kernel(1):
            for i, j in T.grid(2, 3):
                B[i, j] = i * 10 + j
            for at in T.grid(2, 3):
                C[at] = at[0] - at[1]

    b, c = zeros(2, 3), zeros(2, 3)
    run(kernel, b, c)
    assert b.tolist() == [[0, 1, 2], [10, 11, 12]]
    assert c.tolist() == [[0, -1, -2], [1, 0, -1]]


@pytest.mark.parametrize("blocks", [1, 3, 5])
def test_persistent_visits_every_tile_once(run: Any, blocks: int) -> None:
    @T.prim_func
    def kernel(B: T.Tensor((4, 11), "int32")):
        with T.Kernel(blocks) as b:
            for i, j in T.Persistent([4, 11], blocks, b, group_size=4):
                B[i, j] = B[i, j] + 1

    b = zeros(4, 11)
    run(kernel, b)
    assert np.all(b == 1)


def test_early_return_ends_the_block(run: Any) -> None:
    @T.prim_func
    def kernel(B: T.Tensor((6,), "int32")):
        with T.Kernel(6) as bx:
            if bx % 2 == 0:
                return
            B[bx] = 1

    b = zeros(6)
    run(kernel, b)
    assert b.tolist() == [0, 1, 0, 1, 0, 1]


def test_constant_return_ends_the_trace(run: Any) -> None:
    @T.prim_func
    def kernel(B: T.Tensor((2,), "int32")):
        with T.Kernel(1):
            B[0] = 1
            return
            B[1] = 1

    b = zeros(2)
    run(kernel, b)
    assert b.tolist() == [1, 0]


def test_name_first_assigned_inside_is_readable_outside(run: Any) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((4,), "float32"), B: T.Tensor((4,), "float32")):
        with T.Kernel(1):
            for i in T.serial(4):
                if A[i] > 1.5:
                    last = A[i] * 2
            B[0] = last

    b = zeros(4, dtype="float32")
    run(kernel, iota(4, "float32"), b)
    assert b[0] == 6.0


def test_different_types_in_different_loops_need_no_variable(run: Any) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((4,), "float32"), B: T.Tensor((4,), "int32")):
        with T.Kernel(1):
            for i in T.serial(4):
                v = A[i] * 2.0
                A[i] = v
            for i in T.serial(4):
                v = B[i] + 1
                B[i] = v

    a, b = iota(4, "float32"), iota(4)
    run(kernel, a, b)
    assert a.tolist() == [0, 2, 4, 6] and b.tolist() == [1, 2, 3, 4]


def test_implied_variable_keeps_its_type() -> None:
    with pytest.raises(CompileError) as caught:

        @T.prim_func
        def kernel(A: T.Tensor((4,), "float32"), B: T.Tensor((4,), "float32")):
            with T.Kernel(1):
                total = 0
                for i in T.serial(4):
                    total = total + A[i]
                B[0] = total

    assert caught.value.code == "E206"


def test_float_literal_fits_a_narrow_variable(run: Any) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((4,), "float16"), B: T.Tensor((4,), "float16")):
        with T.Kernel(1):
            for i in T.serial(4):
                v = A[i]
                if v > 2:
                    v = 0.5
                B[i] = v

    b = zeros(4, dtype="float16")
    run(kernel, iota(4, "float16"), b)
    assert b.tolist() == [0, 1, 2, 0.5]


def test_variable_written_in_parallel_is_private_to_the_point(run: Any) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((4, 3), "int32"), B: T.Tensor((4,), "int32"), C: T.Tensor((1,), "int32")):
        with T.Kernel(1):
            s = T.alloc_var("int32", init=7)
            for i in T.Parallel(4):
                s = 0
                for k in T.serial(3):
                    s += A[i, k]
                B[i] = s
            s = 5
            C[0] = s

    a, b, c = np.arange(12, dtype=np.int32).reshape(4, 3), zeros(4), zeros(1)
    run(kernel, a, b, c)
    assert b.tolist() == a.sum(1).tolist() and c[0] == 5


def test_point_starts_with_the_outer_value(run: Any) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((4,), "int32"), B: T.Tensor((4,), "int32")):
        with T.Kernel(1):
            s = T.alloc_var("int32", init=10)
            for i in T.Parallel(4):
                s += A[i]
                B[i] = s

    b = zeros(4)
    run(kernel, iota(4), b)
    assert b.tolist() == [10, 11, 12, 13]


def test_sum_over_parallel_points_is_refused() -> None:
    with pytest.raises(CompileError) as caught:

        @T.prim_func
        def kernel(A: T.Tensor((4,), "int32"), B: T.Tensor((1,), "int32")):
            with T.Kernel(1):
                s = 0
                for i in T.Parallel(4):
                    s += A[i]
                B[0] = s

    assert caught.value.code == "E115"


def test_match_statement(run: Any) -> None:
    mode = ("scale", 3)

    @T.prim_func
    def kernel(A: T.Tensor((6,), "int32"), B: T.Tensor((6,), "int32")):
        with T.Kernel(1):
            for i in T.serial(6):
                match mode:
                    case ("shift", by):
                        B[i] = A[i] + by
                    case ("scale", by):
                        B[i] = A[i] * by
                match A[i]:
                    case 0 | 1:
                        B[i] = -1
                    case 4 as four if i > 3:
                        B[i] = four + 100
                    case _:
                        B[i] = B[i] + 1

    b = zeros(6)
    run(kernel, iota(6), b)
    assert b.tolist() == [-1, -1, 7, 10, 104, 16]


def test_same_object_in_both_branches(run: Any) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((4,), "int32"), B: T.Tensor((4,), "int32")):
        with T.Kernel(1):
            for i in T.serial(4):
                if A[i] > 1:
                    out = B
                    name = "large"
                else:
                    out = B
                    name = "large"
                if name == "large":
                    out[i] = 1

    b = zeros(4)
    run(kernel, iota(4), b)
    assert b.tolist() == [1, 1, 1, 1]


def test_tiles_swapped_in_a_run_time_loop_are_refused() -> None:
    with pytest.raises(CompileError) as caught:

        @T.prim_func
        def kernel(A: T.Tensor((4,), "int32")):
            with T.Kernel(1):
                cur = T.alloc_shared((4,), "int32")
                nxt = T.alloc_shared((4,), "int32")
                for _k in T.serial(4):
                    T.copy(A, cur)
                    cur, nxt = nxt, cur

    assert caught.value.code == "E109"


def test_tiles_swapped_in_an_unrolled_loop_work(run: Any) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((2,), "int32"), B: T.Tensor((2,), "int32")):
        with T.Kernel(1):
            cur = T.alloc_shared((2,), "int32")
            nxt = T.alloc_shared((2,), "int32")
            for k in (1, 2, 3):
                T.fill(cur, k)
                cur, nxt = nxt, cur
            T.copy(cur, A)
            T.copy(nxt, B)

    a, b = zeros(2), zeros(2)
    run(kernel, a, b)
    assert a.tolist() == [2, 2] and b.tolist() == [3, 3]


def test_empty_range_is_not_traced() -> None:
    @T.prim_func
    def kernel(B: T.Tensor((1,), "int32")):
        with T.Kernel(1):
            for _i in range(0):
                B[0] = not_defined  # noqa: F821
            for _i in T.serial(3, 3):
                B[0] = not_defined  # noqa: F821

    assert kinds(kernel) == []


def test_kernel_without_blocks_is_one_block(run: Any) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((4,), "int32")):
        for i in T.serial(4):
            A[i] = A[i] + 1
        if A[0] > 0:
            A[0] = 50

    a = iota(4)
    run(kernel, a)
    assert a.tolist() == [50, 2, 3, 4]


def test_several_blocks_run_in_order(run: Any) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((4,), "int32"), B: T.Tensor((4,), "int32")):
        with T.Kernel(4) as bx:
            A[bx] = bx + 1
        with T.Kernel(4) as bx:
            B[bx] = A[3 - bx]

    a, b = zeros(4), zeros(4)
    run(kernel, a, b)
    assert b.tolist() == [4, 3, 2, 1]


def test_run_time_assert_on_a_size_outside_of_the_block(run: Any) -> None:
    m = T.dynamic("m")

    @T.prim_func
    def kernel(A: T.Tensor((m,), "int32")):
        assert m % 2 == 0, "m is even"
        assert m == m
        with T.Kernel(1):
            A[0] = 1

    run(kernel, zeros(4))
    with pytest.raises(Exception, match="m is even"):
        run(kernel, zeros(3))


def test_name_used_up_by_a_loop_is_free_again(run: Any) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((4,), "int32"), B: T.Tensor((2,), "int32")):
        with T.Kernel(1):
            a = 3
            for a in range(A[0]):
                if a > 1:
                    a = 1
                B[0] = a
            if A[1] > 0:
                a = A[2]
            else:
                a = 7
            B[1] = a

    b = zeros(2)
    run(kernel, np.array([4, 1, 9, 0], np.int32), b)
    assert b.tolist() == [1, 9]


def test_while_loop_followed_while_compiling_restarts_at_a_run_time_break(run: Any) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((8,), "int32"), B: T.Tensor((2,), "int32")):
        with T.Kernel(1):
            k = 0
            while k < 8:
                if A[k] == 5:
                    break
                k += 1
            else_value = k * 10
            B[0] = k
            B[1] = else_value

    b = zeros(2)
    run(kernel, iota(8), b)
    assert b.tolist() == [5, 50] and kinds(kernel)[0] == "While"


def test_a_known_value_of_a_name_that_is_a_variable_decides_while_compiling(run: Any) -> None:
    """An earlier loop made the name a variable; in a loop over Python values it means the value, afterwards the variable."""

    @T.prim_func
    def kernel(A: T.Tensor((4,), "int32"), B: T.Tensor((6,), "int32")):
        with T.Kernel(1):
            i = 5
            for j in range(A[0]):
                i = j
            B[0] = i
            for i in [1, 2, 3, 4]:
                if i == 2:
                    continue
                if i == 4:
                    break
                B[1] += i * A[i]
            B[2] = i
            v = 7
            if A[0] > 0:
                v = 8
            for i, v in enumerate((5, 6)):
                B[3 + i] = v if i == 1 else v * 10
            B[5] = v

    b = zeros(6)
    run(kernel, np.array([3, 1, 2, 3], np.int32), b)
    assert b.tolist() == [2, 1 + 9, 4, 50, 6, 6]


@pytest.mark.parametrize(("start", "stop", "step"), [(0, 10, 3), (10, 0, -3), (5, 2, 1), (-(2**31), 2**31 - 1, 2**30), (0, 4, 0)])
def test_a_range_whose_step_is_a_number_of_the_run(run: Any, start: int, stop: int, step: int) -> None:
    @T.prim_func
    def kernel(B: T.Tensor((8,), "int32"), start: T.int32, stop: T.int32, step: T.int32):
        with T.Kernel(1):
            n = 0
            for i in range(start, stop, step):
                B[n] = i
                n += 1
            B[7] = n

    b = np.zeros(8, np.int32)
    if step == 0:
        with pytest.raises(ZelligeError, match=r"range\(\) arg 3 must not be zero"):
            run(kernel, b, start, stop, step)
        return
    run(kernel, b, start, stop, step)
    assert b[: b[7]].tolist() == list(range(start, stop, step))


def test_a_step_that_is_found_to_be_0() -> None:
    @T.prim_func
    def kernel(B: T.Tensor((8,), "int32"), n: T.int32, wanted: T.bool):
        with T.Kernel(1):
            if wanted:
                for i in range(0, 8, B[n] - B[n]):
                    B[i] = 1
            B[0] = 2

    b = np.zeros(8, np.int32)
    compiled = zl.compile(kernel, target="cpu")
    compiled(b, 3, False)
    assert b[0] == 2
    with pytest.raises(ZelligeError, match=r"range\(\) arg 3 must not be zero"):
        compiled(b, 3, True)
