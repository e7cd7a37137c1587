"""Expressions: Python's meaning for what is known while compiling, the same meaning at run time for what is not."""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import zellige.language as T
from zellige.diagnostics import CompileError, ZelligeWarning
from zellige.ir.expr import Binary, Select
from zellige.ir.stmt import Bind, If
from zellige.ir.traverse import walk

Run = Callable[..., Any]


def test_chained_comparison_and_boolean_operators(run: Run) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((8,), "int32"), B: T.Tensor((8,), "int32")):
        with T.Kernel(1):
            for i in T.Parallel(8):
                if 2 <= A[i] < 6 and not A[i] == 4 or A[i] == 7:
                    B[i] = 1

    b = np.zeros(8, np.int32)
    run(kernel, np.arange(8, dtype=np.int32), b)
    assert b.tolist() == [int((2 <= v < 6 and not v == 4) or v == 7) for v in range(8)]


def test_constant_operands_decide_while_compiling() -> None:
    yes, no = True, False

    @T.prim_func
    def kernel(A: T.Tensor((8,), "int32"), B: T.Tensor((8,), "int32")):
        with T.Kernel(1):
            for i in T.serial(8):
                if no and A[i] > 0:
                    B[i] = 1
                if yes or A[i] > 0:
                    B[i] = 2
                if A[i] > 0 and yes:
                    B[i] = 3
                if 0 < 1 < 2 and (None or "x"):
                    B[i] = 4

    nodes = list(walk(kernel.kernel.launches[0]))
    assert sum(isinstance(n, If) for n in nodes) == 1
    assert not any(isinstance(n, Binary) and n.op in ("and", "or") for n in nodes)


def test_the_absolute_value_of_a_condition_and_the_float_of_math_fabs(run: Run) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((2,), "bool"), N: T.Tensor((2,), "int32"), B: T.Tensor((5,), "float32")):
        with T.Kernel(1):
            B[0] = abs(A[0]) + abs(A[1])
            B[1] = abs(N[0] > N[1]) + 1
            B[2] = math.fabs(A[0])
            B[3] = math.fabs(N[0]) / 2
            B[4] = 7 // math.fabs(N[0])

    b = np.zeros(5, np.float32)
    run(kernel, np.array([True, True]), np.array([-3, 2], np.int32), b)
    assert b.tolist() == [abs(True) + abs(True), abs(-3 > 2) + 1, math.fabs(True), math.fabs(-3) / 2, 7 // math.fabs(-3)]


def test_conditional_expression_and_its_guarded_load(run: Run) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((8,), "int32"), B: T.Tensor((8,), "int32")):
        with T.Kernel(1):
            for i in T.Parallel(8):
                B[i] = A[i - 3] if i >= 3 else -i

    b = np.zeros(8, np.int32)
    run(kernel, np.arange(8, dtype=np.int32) * 10, b)
    assert b.tolist() == [0, -1, -2, 0, 10, 20, 30, 40]
    assert any(isinstance(n, Select) for n in walk(kernel.kernel.launches[0]))


def test_macro_with_effects_in_a_condition_runs_only_where_python_would(run: Run) -> None:
    @T.macro
    def note(B, at):
        B[at] = B[at] + 1
        return True

    @T.prim_func
    def kernel(A: T.Tensor((4,), "int32"), B: T.Tensor((4,), "int32"), C: T.Tensor((4,), "int32")):
        with T.Kernel(1):
            for i in T.serial(4):
                if A[i] > 1 and note(B, i):
                    C[i] = 1
                C[i] = C[i] + (10 if A[i] > 2 or note(B, i) else 20)

    b, c = np.zeros(4, np.int32), np.zeros(4, np.int32)
    run(kernel, np.arange(4, dtype=np.int32), b, c)
    assert b.tolist() == [1, 1, 2, 1]
    assert c.tolist() == [10, 10, 11, 11]


def stored_by_dropped_expressions(store: Callable[..., Any], A: Any, B: Any, C: Any, i: Any) -> None:
    (store(A, i, 1), store(B, i, 2)) if C[i] > 2 else (store(A, i, 7),)
    C[i] == 5 and store(B, i, 9)
    C[i] > 4 or A[i] == 1 or [store(C, i, 20)]
    (first, (second, third)) = (store(A, i, A[i] + 10), (2, 3)) if C[i] > 3 else (5, (store(B, i, 4), 1))
    C[i] += first + 10 * second + 100 * third
    None if C[i] > 300 else "nothing" if C[i] > 200 else store(B, i, 30)


def test_an_expression_whose_value_nobody_takes_does_what_stands_in_the_arm_that_is_taken(run: Run) -> None:
    @T.macro
    def store(X, i, value):
        X[i] = value
        return value

    body = T.macro(stored_by_dropped_expressions)

    @T.prim_func
    def kernel(A: T.Tensor((8,), "int32"), B: T.Tensor((8,), "int32"), C: T.Tensor((8,), "int32")):
        with T.Kernel(8) as i:
            body(store, A, B, C, i)

    def python(X: list[int], i: int, value: int) -> int:
        X[i] = value
        return value

    given = [np.arange(8, dtype=np.int32) for _ in range(3)]
    wanted = [list(range(8)) for _ in range(3)]
    for i in range(8):
        stored_by_dropped_expressions(python, *wanted, i)
    run(kernel, *given)
    assert [array.tolist() for array in given] == wanted


def test_a_choice_between_tuples_of_two_lengths_says_so() -> None:
    with pytest.raises(CompileError, match="E134.*cannot choose between a tuple of 2 and one of 3") as caught:

        @T.prim_func
        def kernel(A: T.Tensor((8,), "int32"), B: T.Tensor((8,), "int32")):
            with T.Kernel(8) as i:
                A[i], B[i] = (1, 2) if A[i] > 2 else (3, 4, 5)

    assert "tuples of one length" in str(caught.value)


def test_operand_keeps_the_value_it_had_before_the_next_operand_changed_it(run: Run) -> None:
    @T.macro
    def bump(place: T.Ref):
        place += 1
        return place

    @T.prim_func
    def kernel(B: T.Tensor((3,), "int32")):
        with T.Kernel(1):
            x = T.alloc_var("int32", init=5)
            B[0] = x + bump(x)
            B[1] = x * 100
            B[2] = 1 if x < bump(x) else 0

    b = np.zeros(3, np.int32)
    run(kernel, b)
    assert b.tolist() == [11, 600, 1]


def test_swaps_take_the_old_values(run: Run) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((4,), "float32")):
        with T.Kernel(1):
            a = T.alloc_var("float32", A[0])
            b = T.alloc_var("float32", A[1])
            a, b = b, a
            A[0], A[1] = a, b
            A[2], A[3] = A[3], A[2]

    a = np.arange(4, dtype=np.float32)
    run(kernel, a)
    assert a.tolist() == [1, 0, 3, 2]


def test_names_keep_the_value_of_an_element(run: Run) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((2,), "int32"), B: T.Tensor((4,), "int32")):
        with T.Kernel(1):
            x = A[0]
            pair = (A[0], A[1] + 1)
            names = {"first": A[0]}
            A[0] = 77
            B[0] = x
            B[1] = pair[0]
            B[2] = pair[1]
            B[3] = names["first"]

    b = np.zeros(4, np.int32)
    run(kernel, np.array([3, 4], np.int32), b)
    assert b.tolist() == [3, 3, 5, 3]


def test_alloc_var_assignment_stores_and_reading_copies(run: Run) -> None:
    @T.prim_func
    def kernel(B: T.Tensor((4,), "int32")):
        with T.Kernel(1):
            a = T.alloc_var("int32", init=1)
            b = a
            a = 2
            c = T.alloc_var("int32")
            c = a
            a += 40
            B[0], B[1], B[2] = a, b, c
            d: T.int32 = a
            a = 0
            B[3] = d

    b = np.zeros(4, np.int32)
    run(kernel, b)
    assert b.tolist() == [42, 1, 2, 42]


def test_list_of_variables(run: Run) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((4,), "int32"), B: T.Tensor((2,), "int32")):
        with T.Kernel(1):
            sums = [T.alloc_var("int32") for _ in range(2)]
            for i in T.serial(4):
                if A[i] % 2 == 0:
                    sums[0] += A[i]
                else:
                    sums[1] = sums[1] + A[i]
            for at, value in enumerate(sums):
                B[at] = value

    b = np.zeros(2, np.int32)
    run(kernel, np.array([1, 2, 3, 4], np.int32), b)
    assert b.tolist() == [6, 4]


def test_comprehensions_lambdas_and_nested_functions(run: Run) -> None:
    weights = [1, 2, 3]

    @T.prim_func
    def kernel(A: T.Tensor((3,), "int32"), B: T.Tensor((6,), "int32")):
        with T.Kernel(1):
            parts = [w * A[j] for j, w in enumerate(weights) if w != 2]
            B[0] = sum(parts)
            square = lambda v, by=2: v * v + by  # noqa: E731
            B[1] = square(A[2])
            table = {w: w + 1 for w in weights}
            B[2] = table[3] + len({w % 2 for w in weights})

            def clip(v, low=0, *, high=2):
                if v > high:
                    v = high
                return T.max(v, low)

            B[3] = clip(A[2] * 5) + clip(-A[1], -7)
            B[4] = functools.reduce(lambda x, y: x * y, [A[1], A[2], 7])
            B[5] = sum(x for x in (A[0], A[1], A[2]))

    a, b = np.array([3, 4, 5], np.int32), np.zeros(6, np.int32)
    run(kernel, a, b)
    assert b.tolist() == [3 + 15, 27, 4 + 2, 2 + -4, 140, 12]


def test_python_builtins_on_run_time_values(run: Run) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((4,), "float32"), B: T.Tensor((10,), "float32"), n: T.int32):
        with T.Kernel(1):
            B[0] = max(A[0], A[1])
            B[1] = min(A[0], 0.5, A[1])
            B[2] = abs(A[2])
            B[3] = round(A[3])
            B[4] = int(A[3])
            B[5] = float(n) / 2
            B[6] = sum([A[0], A[1]])
            B[7] = 1 if any(A[j] > 2 for j in range(4)) else 0
            B[8] = 1 if all([A[0] > 0, A[1] > 5]) else 0
            quotient, rest = divmod(n, 4)
            B[9] = quotient * 10 + rest

    a, b = np.array([1, 2, -3, 2.5], np.float32), np.zeros(10, np.float32)
    run(kernel, a, b, 7)
    assert b.tolist() == [2, 0.5, 3, 2, 2, 3.5, 3, 1, 0, 13]


def test_functions_of_math_on_run_time_values(run: Run) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((1,), "float32"), B: T.Tensor((2,), "float32")):
        with T.Kernel(1):
            B[0] = math.exp(A[0]) * math.sqrt(4)
            B[1] = math.pi

    b = np.zeros(2, np.float32)
    run(kernel, np.array([1], np.float32), b)
    np.testing.assert_allclose(b, [2 * math.e, math.pi], rtol=1e-6)


def test_membership_of_a_run_time_value(run: Run) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((6,), "int32"), B: T.Tensor((6,), "int32")):
        with T.Kernel(1):
            for i in T.serial(6):
                if A[i] in (1, 4):
                    B[i] = 1
                if A[i] not in (0, 1, 2):
                    B[i] = B[i] + 10

    b = np.zeros(6, np.int32)
    run(kernel, np.arange(6, dtype=np.int32), b)
    assert b.tolist() == [0, 1, 0, 10, 11, 10]


def test_text_walrus_stars_and_named_tuples(run: Run) -> None:
    class Size(NamedTuple):
        rows: int
        columns: int

    size = Size(2, 3)
    indices = (1, 2)
    keywords = {"dtype": "int32"}

    @T.prim_func
    def kernel(B: T.Tensor((2, 3), "int32")):
        with T.Kernel(1):
            tile = T.alloc_shared(size, **keywords)
            T.clear(tile)
            first, *rest = [*indices, 5]
            B[0, 0] = len(f"{size.rows}x{size.columns:03d}{'ab'!r}")
            if (n := size.rows * 2) > 3:
                B[0, 1] = n
            B[0, 2] = first + sum(rest)
            B[indices] = 9 if tile.shape == (2, 3) else 0
            T.copy(*[tile[0, 0:2], B[1, 0:2]])

    b = np.ones((2, 3), np.int32)
    run(kernel, b)
    assert b.tolist() == [[len("2x003'ab'"), 4, 8], [0, 0, 9]]


def test_negative_index_and_python_slices(run: Run) -> None:
    values = [10, 20, 30, 40]

    @T.prim_func
    def kernel(B: T.Tensor((5,), "int32")):
        with T.Kernel(1):
            B[-1] = values[-1]
            B[-2] = sum(values[1:3])
            B[0:2] = 7

    b = np.zeros(5, np.int32)
    run(kernel, b)
    assert b.tolist() == [7, 7, 0, 50, 40]


def test_thousands_of_terms_written_as_a_sum(run: Run) -> None:
    namespace: dict[str, Any] = {}
    source = "@T.prim_func\ndef kernel(A: T.Tensor((4,), 'int32'), B: T.Tensor((1,), 'int32')):\n  with T.Kernel(1):\n"
    source += "    B[0] = " + " + ".join(f"A[{i % 4}]" for i in range(900)) + "\n"
    import linecache

    linecache.cache["<long sum>"] = (len(source), None, source.splitlines(keepends=True), "<long sum>")
    exec(compile(source, "<long sum>", "exec"), {"T": T}, namespace)
    b = np.zeros(1, np.int32)
    run(namespace["kernel"], np.arange(4, dtype=np.int32), b)
    assert b[0] == 225 * 6


def test_thousands_of_terms_made_by_a_loop(run: Run) -> None:
    def total(values: Any) -> Any:
        result = values[0]
        for i in range(1, 5000):
            result = result + values[i % 4]
        return result

    @T.prim_func
    def kernel(A: T.Tensor((4,), "int32"), B: T.Tensor((1,), "int32")):
        with T.Kernel(1):
            B[0] = total(A)

    b = np.zeros(1, np.int32)
    run(kernel, np.array([1, 2, 3, 4], np.int32), b)
    assert b[0] == 1250 * 10


def test_print_of_a_run_time_value_warns_and_shows_it(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.warns(ZelligeWarning, match="E137"):

        @T.prim_func
        def kernel(A: T.Tensor((4,), "int32")):
            with T.Kernel(1) as bx:
                print("block", bx, 3)
                A[bx] = 1

    assert "block" in capsys.readouterr().out


def test_a_run_time_value_in_a_text_warns(run: Run) -> None:
    with pytest.warns(ZelligeWarning, match="E137.* an f-string shows"):

        @T.prim_func
        def kernel(A: T.Tensor((4,), "int32")):
            with T.Kernel(1) as bx:
                T.print(A[bx], f"after {A[bx]} of {A}")
                A[bx] = 1


def test_print_of_constants_is_silent(capsys: pytest.CaptureFixture[str]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")

        @T.prim_func
        def kernel(A: T.Tensor((4,), "int32")):
            with T.Kernel(1):
                print("tile", A.shape[0], sep="=")
                A[0] = 1

    assert capsys.readouterr().out == "tile=4\n"


def test_try_with_and_raise_while_compiling(run: Run) -> None:
    class Block:
        entered = 0

        def __enter__(self) -> int:
            Block.entered += 1
            return 5

        def __exit__(self, *_: object) -> None:
            Block.entered += 10

    table = {"a": 1}

    @T.prim_func
    def kernel(B: T.Tensor((4,), "int32")):
        with T.Kernel(1):
            try:
                B[0] = table["b"]
            except KeyError as error:
                B[0] = len(str(error))
            else:
                B[0] = 100
            finally:
                B[1] = 4
            with Block() as five, Block():
                B[2] = five
            try:
                raise ValueError("x")
            except (TypeError, ValueError):
                B[3] = 8

    b = np.zeros(4, np.int32)
    run(kernel, b)
    assert b.tolist() == [3, 4, 5, 8] and Block.entered == 22


def test_imports_and_annotations_in_the_body(run: Run) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((2,), "float32")):
        import math as m
        from os.path import join

        with T.Kernel(1):
            one: float = m.floor(1.5)
            two: T.float16 = 2.0
            A[0] = one
            A[1] = two / 3 if join("a", "b") else 0

    a = np.zeros(2, np.float32)
    run(kernel, a)
    assert a.tolist() == [1, float(np.float16(2) / np.float16(3))]


def test_values_are_bound_once() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((4,), "float32"), B: T.Tensor((4,), "float32")):
        with T.Kernel(1):
            for i in T.Parallel(4):
                v = A[i] * 2.0
                w = v
                B[i] = v + w

    assert sum(isinstance(n, Bind) for n in walk(kernel.kernel.launches[0])) == 1


def test_numpy_numbers_and_sizes_of_numpy(run: Run) -> None:
    rows = np.int64(4)

    @T.prim_func
    def kernel(A: T.Tensor((rows,), "int32")):
        with T.Kernel(rows) as bx:
            A[bx] = A[bx] + np.int32(3)

    a = np.zeros(4, np.int32)
    run(kernel, a)
    assert a.tolist() == [3, 3, 3, 3]


def test_nonlocal_names_are_read(run: Run) -> None:
    step = 3

    @T.prim_func
    def kernel(A: T.Tensor((2,), "int32")):
        nonlocal step
        with T.Kernel(1):
            A[0] = step

    a = np.zeros(2, np.int32)
    run(kernel, a)
    step = 4
    assert a[0] == 3


def test_assignment_to_an_outer_name_is_refused() -> None:
    step = 3
    with pytest.raises(CompileError) as caught:

        @T.prim_func
        def kernel(A: T.Tensor((2,), "int32")):
            nonlocal step
            step = 4
            with T.Kernel(1):
                A[0] = step

    assert caught.value.code == "E130" and step == 3


def test_a_list_of_tiles_is_looped_over_and_not_indexed_at_run_time(run: Run) -> None:
    def indexed(A: T.Tensor((2, 4), "int32"), B: T.Tensor((2, 4), "int32")):
        with T.Kernel(1):
            rows = [T.alloc_fragment((4,), "int32") for _ in range(2)]
            for r in range(2):
                T.copy(A[r, :], rows[r])

    with pytest.raises(CompileError) as caught:
        T.prim_func(indexed)
    assert caught.value.code == "E105" and "for tile in tiles" in str(caught.value.hint)

    @T.prim_func
    def looped(A: T.Tensor((2, 4), "int32"), B: T.Tensor((2, 4), "int32")):
        with T.Kernel(1):
            rows = [T.alloc_fragment((4,), "int32") for _ in range(2)]
            for r, row in enumerate(rows):
                T.copy(A[r, :], row)
                T.copy(row, B[1 - r, :])

    a, b = np.arange(8, dtype=np.int32).reshape(2, 4), np.zeros((2, 4), np.int32)
    run(looped, a, b)
    assert b.tolist() == a[::-1].tolist()
