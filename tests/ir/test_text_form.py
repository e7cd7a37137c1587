"""Kernels survive the way through text, and text that is damaged is refused with a place, never with a crash."""

from __future__ import annotations

import ast
import random
import sys
import textwrap
from collections.abc import Callable

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from zellige.diagnostics import CompileError
from zellige.dtypes import all_dtypes, dtype
from zellige.ir import stmt as s
from zellige.ir.expr import BOOL, INT32, Binary, Buffer, Const, Expr, ExprNode, Load, Node, Unary, Var
from zellige.ir.expression_printer import LINE_SIZE, expression_text
from zellige.ir.parser import parse_kernel
from zellige.ir.printer import print_kernel
from zellige.ir.syntax import VERSION
from zellige.ir.traverse import same_structure, walk
from zellige.ir.verify import verify

FLOAT32 = dtype("float32")

GEMM = '''\
# tile-ir 1.0


@sizes(M=int32, K=int64, lda=int64)
def gemm(
    A: tensor((M, K), float16, strides=(lda, 1)),
    B: tensor((K, 256), float16),
    scale: scalar(float32),
    C: tensor((M, 256), float32, role="output"),
) -> (C,):
    with launch((M + 127) // 128, 2, threads=(128,)) as (by, bx):
        safe_value(A, float16(-inf))
        layout(A_shared, "swizzle")
        layout(C_local, "map", lambda i, j: ((i % 64, j ^ i), i // 64), replicate=2)
        raster(8, "row")
        hint("min_blocks", 2)
        A_shared = alloc((128, 32), float16, "shared")
        B_shared = alloc((32, 128), float16, "shared", strides=(136, 1))
        C_local = alloc((128, 128), float32, "fragment")
        fill(C_local[:, :], 0.0)
        for k in pipelined(cast((K + int64(31)) // int64(32), int32), stages=3):
            copy(A[by * 128:+128, cast(k, int64) * int64(32):+32], A_shared[:, :])
            B_rows = view(B, (K * int64(2), 128), float16)
            copy(B_rows[k * 32:+32, :], B_shared[:, :], swizzle="bank", vector_width=8, is_async=True)
            gemm(A_shared[:, :], B_shared[:, :], C_local[:, :], clear=False, policy="full_row")
        rows: int32 = min(M - by * 128, 128)
        for i, j in parallel(128, 128, vector_width=4):
            C_local[i, j] = C_local[i, j] * scale if i < rows and not isnan(scale) else neg(0.0)
        if rows == 128:
            copy(C_local[:, :], C[by * 128:+128, bx * 128:+128])
        elif rows > 0:
            copy(C_local[:, :], C[by * 128:+128, bx * 128:+128], eviction="first")
        else:
            assert rows == 0, "a \\"quoted\\" word"
'''


def of_text(body: str) -> s.Kernel:
    """A kernel whose launch has this body; it has a size n, a float32 tensor A of (n, 8) and an int32 tensor B of 4."""
    head = "@sizes(n=int32)\ndef k(A: tensor((n, 8), float32), B: tensor((4,), int32)):\n    with launch(n) as (bx,):\n"
    return parse_kernel("# tile-ir 1.0\n" + head + textwrap.indent(textwrap.dedent(body).strip("\n"), " " * 8) + "\n")


def kernel_of(*body: s.Stmt, hints: tuple[s.Hint, ...] = (), params: tuple[s.Param, ...] = ()) -> s.Kernel:
    return s.Kernel(name="k", params=params, launches=(s.Launch(grid_vars=(), grid=(), hints=hints, body=body),))


def number(value: int) -> Const:
    return Const(value=value, dtype=INT32)


def bound(value: Expr, name: str = "x") -> s.Bind:
    return s.Bind(var=Var(name=name, dtype=value.dtype, kind="value"), value=value)


def assert_round_trip(kernel: s.Kernel) -> str:
    text = print_kernel(kernel)
    ast.parse(text)
    parsed = parse_kernel(text)
    assert same_structure(parsed, kernel)
    assert print_kernel(parsed) == text
    return text


@given(data=st.data())
@settings(max_examples=150)
def test_kernels_round_trip(kernels: st.SearchStrategy[s.Kernel], data: st.DataObject) -> None:
    kernel = data.draw(kernels)
    assert [d.render() for d in verify(kernel)] == []
    text = assert_round_trip(kernel)
    parsed = parse_kernel(text)
    assert verify(parsed) == []
    assert all(getattr(node, "span", "none") is not None for node in walk(parsed))


def test_a_kernel_reads_as_its_author_would_write_it() -> None:
    kernel = parse_kernel(GEMM)
    assert verify(kernel) == []
    assert print_kernel(kernel) == GEMM


def test_what_text_says_is_what_the_nodes_hold() -> None:
    """The parser against nodes built by hand, so that printer and parser cannot share a mistake."""
    kernel = parse_kernel(GEMM)
    m, lda = kernel.params[0].buffer.shape[0], kernel.params[0].buffer.strides[0]  # type: ignore[union-attr,index]
    assert isinstance(m, Var)
    assert isinstance(lda, Var)
    assert (m.name, m.dtype, m.kind, lda.dtype) == ("M", INT32, "size", dtype("int64"))
    assert kernel.results == (3,)
    launch = kernel.launches[0]
    assert launch.grid[0] == Binary(op="floordiv", left=Binary(op="add", left=m, right=number(127)), right=number(128))
    assert launch.safe_values[0].value == Const(value=float("-inf"), dtype=dtype("float16"))
    layout = launch.hints[1]
    assert isinstance(layout, s.LayoutHint)
    assert (layout.kind, layout.replicate, layout.buffer.name, len(layout.axes), len(layout.forward)) == ("map", 2, "C_local", 2, 2)
    loop = launch.body[4]
    assert isinstance(loop, s.For)
    assert loop.kind == s.Pipelined(stages=3)
    assert (loop.start, loop.step) == (number(0), number(1))
    first, second, product = loop.body
    assert isinstance(first, s.Copy)
    assert isinstance(second, s.Copy)
    assert isinstance(product, s.Gemm)
    by = launch.grid_vars[0]
    assert first.src.offsets[0] == Binary(op="mul", left=by, right=number(128))
    assert [e.value for e in first.src.extents] == [128, 32]  # type: ignore[union-attr]
    assert first.dst.extents == first.dst.buffer.shape
    assert second.src.buffer.alias is kernel.params[1].buffer  # type: ignore[union-attr]
    assert (second.swizzle, second.vector_width, second.is_async, second.eviction) == ("bank", 8, True, None)
    assert (product.policy, product.clear, product.transpose_a) == ("full_row", Const(value=False, dtype=BOOL), False)
    region = launch.body[6]
    assert isinstance(region, s.Map)
    store = region.body[0]
    assert isinstance(store, s.Store)
    assert store.value.otherwise == Unary(op="neg", value=Const(value=0.0, dtype=FLOAT32))  # type: ignore[union-attr]
    last = launch.body[7]
    assert isinstance(last, s.If)
    assert isinstance(last.otherwise[0], s.If)
    assert last.otherwise[0].otherwise[0].message == 'a "quoted" word'  # type: ignore[union-attr]


# ---- expressions -------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [t.name for t in all_dtypes()])
def test_constants_keep_their_value_and_type(name: str) -> None:
    of = dtype(name)
    if of.is_float:
        values: list[bool | int | float] = [0.0, -0.0, 1.5, -2.0, 1e-300, 1.7976931348623157e308, float("inf"), float("-inf"), float("nan")]
    else:
        values = [of.min, of.max, 0, 1] if of.is_integer else [True, False]
    kernel = kernel_of(*(bound(Const(value=value, dtype=of)) for value in values))
    text = assert_round_trip(kernel)
    for before, after in zip(kernel.launches[0].body, parse_kernel(text).launches[0].body):
        assert repr(before.value) == repr(after.value)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("text", "again"),
    [
        ("(bx + 1) + 2", "bx + 1 + 2"),
        ("bx + (1 + 2)", "bx + (1 + 2)"),
        ("(bx - 1) * 2 - -3", "(bx - 1) * 2 - -3"),
        ("-bx // -(2 + bx)", "-bx // -(2 + bx)"),
        ("neg(5) + - -5", "neg(5) + neg(-5)"),
        ("~bx << 2 & 3 | 4 ^ 5", "~bx << 2 & 3 | 4 ^ 5"),
        ("(bx | 1) & (2 << (1 + 1))", "(bx | 1) & 2 << 1 + 1"),
        ("(1 if bx < 2 else 3) if bx < 4 else (5 if bx < 6 else 7)", "(1 if bx < 2 else 3) if bx < 4 else 5 if bx < 6 else 7"),
        ("cast(bx < 1 and (bx < 2 and bx < 3) or not bx < 4, int32)", "cast(bx < 1 and (bx < 2 and bx < 3) or not bx < 4, int32)"),
        ("cast((bx < 1) == (bx < 2), int32)", "cast((bx < 1) == (bx < 2), int32)"),
        ("cast((not bx < 1) == True, int32)", "cast((not bx < 1) == True, int32)"),
        ("min(bx, truncdiv(bx, 2)) % abs(bx)", "min(bx, truncdiv(bx, 2)) % abs(bx)"),
        ("cast(exp(A[0, 1], precision='fast'), int32, saturate=True, rounding='up')",
         'cast(exp(A[0, 1], precision="fast"), int32, rounding="up", saturate=True)'),
        ("B[B[B[0]]]", "B[B[B[0]]]"),
    ],
)  # fmt: skip
def test_parentheses_stand_where_python_needs_them(text: str, again: str) -> None:
    printed = print_kernel(of_text(f"x: int32 = {text}"))
    assert printed.splitlines()[-1].strip() == f"x: int32 = {again}"
    assert_round_trip(of_text(f"x: int32 = {text}"))


def sum_of(count: int, *, leans_left: bool) -> Expr:
    terms: list[Expr] = [Const(value=float(i), dtype=FLOAT32) for i in range(count)]
    total = terms[0]
    for term in terms[1:]:
        total = Binary(op="add", left=total, right=term) if leans_left else Binary(op="add", left=term, right=total)
    return total


@pytest.mark.parametrize("leans_left", [True, False])
def test_a_sum_of_five_thousand_terms(leans_left: bool) -> None:
    text = assert_round_trip(kernel_of(bound(sum_of(5000, leans_left=leans_left))))
    assert max(map(len, text.splitlines())) < 20 * LINE_SIZE
    assert len(text) < 40 * 5000


def test_sixty_self_doublings() -> None:
    value: Expr = sum_of(10, leans_left=True)
    for _ in range(60):
        value = Binary(op="mul", left=value, right=value)
    text = assert_round_trip(kernel_of(bound(value), bound(value)))
    assert len(text.splitlines()) < 140
    assert len(list(walk(parse_kernel(text)))) < 2000  # what is shared stays shared


def test_names_of_parts_do_not_depend_on_which_nodes_are_shared() -> None:
    shared = sum_of(6, leans_left=True)
    one = kernel_of(bound(Binary(op="mul", left=shared, right=shared)))
    other = kernel_of(bound(Binary(op="mul", left=sum_of(6, leans_left=True), right=sum_of(6, leans_left=True))))
    assert print_kernel(one) == print_kernel(other)
    assert "e1 = let(0.0 + 1.0 + 2.0 + 3.0 + 4.0 + 5.0)" in print_kernel(one)


def test_an_expression_in_a_message_is_one_short_line() -> None:
    x = Var(name="x", dtype=INT32, kind="value")
    assert expression_text(Binary(op="mul", left=Binary(op="add", left=x, right=number(1)), right=x)) == "(x + 1) * x"
    assert "..." in expression_text(sum_of(500, leans_left=True))
    assert len(expression_text(sum_of(500, leans_left=True))) < 400


# ---- names ---------------------------------------------------------------------------------------------------------------------------


def test_names_in_scope_are_kept_apart_and_others_kept_as_they_are() -> None:
    def loop(*body: s.Stmt) -> s.For:
        var = Var(name="i", dtype=INT32, kind="loop")
        return s.For(var=var, start=number(0), stop=number(4), step=number(1), kind=s.Serial(), body=(bound(var, "y"), *body))

    kernel = kernel_of(loop(), loop(loop()), bound(number(1), "y"), bound(number(2), "y"), bound(number(3), "for"), bound(number(4), "a b"))
    text = assert_round_trip(kernel)
    assert [line.split(" in ")[0].strip() for line in text.splitlines() if " in " in line] == ["for i", "for i", "for i_1"]
    names = [line.split(":")[0].strip() for line in text.splitlines() if ": int32 =" in line]
    assert names == ["y", "y", "y_1", "y", "y_1", "for_", "a_b"]


def test_thousands_of_variables_of_one_name() -> None:
    text = assert_round_trip(kernel_of(*(bound(number(i)) for i in range(3000))))
    assert "x_2999: int32 = 2999" in text


def test_a_hint_stands_before_the_buffer_that_it_names() -> None:
    def allocated(name: str) -> s.Alloc:
        return s.Alloc(buffer=Buffer(name=name, dtype=FLOAT32, shape=(number(4),), space="shared"))

    first, second = allocated("S"), allocated("S")
    condition = Const(value=True, dtype=BOOL)
    hint = s.LayoutHint(buffer=second.buffer, kind="swizzle")
    kernel = kernel_of(s.If(condition=condition, then=(first,)), s.If(condition=condition, then=(second,)), hints=(hint,))
    text = assert_round_trip(kernel)
    assert text.splitlines()[5].strip() == 'layout(S, "swizzle")'
    assert [line.split(" =")[0].strip() for line in text.splitlines() if "alloc(" in line] == ["S_1", "S"]


def test_views_are_declared_where_all_their_uses_see_them() -> None:
    kernel = of_text("""
        S = alloc((4, 4), float32, "shared")
        if n > 1:
            V = view(S, (16,), float32)
            V[0] = 1.0
            V[1] = 2.0
        x: int32 = n
        W = view(A, (x,), float32)
        if x > 1:
            W[0] = 1.0
        elif x > 0:
            W[0] = 2.0
        """)
    assert verify(kernel) == []
    text = assert_round_trip(kernel)
    lines = text.splitlines()
    assert lines[lines.index("            V = view(S, (16,), float32)") + 1] == "            V[0] = 1.0"
    assert lines[lines.index("        W = view(A, (x,), float32)") - 1] == "        x: int32 = n"


def test_a_chain_of_elif_of_any_length() -> None:
    link: tuple[s.Stmt, ...] = (bound(number(0)),)
    flag = Const(value=True, dtype=BOOL)
    for i in range(800):
        link = (s.If(condition=flag, then=(bound(number(i)),), otherwise=link),)
    kernel = kernel_of(*link)
    assert verify(kernel) == []
    assert print_kernel(kernel).count("elif") == 799
    assert_round_trip(kernel)


# ---- versions and mistakes -----------------------------------------------------------------------------------------------------------


def test_versions() -> None:
    body = GEMM.split("\n", 1)[1]
    assert VERSION == (1, 0)
    for version in ("2.0", "0.9", "1.1", "10.0"):
        with pytest.raises(CompileError) as raised:
            parse_kernel(f"# tile-ir {version}\n{body}")
        assert raised.value.code == "E261"
        assert version in raised.value.diagnostics[0].message
    for header in ("", "# tile-ir\n", "# tile-ir 1\n", "#tile-ir 1.0\n", " # tile-ir 1.0\n", "# tile-ir 1.0 or so\n"):
        with pytest.raises(CompileError) as raised:
            parse_kernel(header + body)
        assert raised.value.code == "E260"


WRONG_BODIES = [
    ("x: int32 = y", "y is not declared", "y"),
    ("x: int32 = A", "A is a buffer", "A"),
    ("x: int32 = 1\nx: int32 = 2", "x is in scope already", "x"),
    ("for bx in serial(4):\n    pass", "bx is in scope already", "bx"),
    ("if n > 1:\n    x: int32 = 1\ny: int32 = x", "x is not declared", "x"),
    ("y = 1", "y is not declared", "y"),
    ("e = let(n + 1)\ne = 3", "names a part of an expression", "e"),
    ("x: int33 = 1", "element type", "int33"),
    ("x: int = 1", "element type", "int"),
    ("x: int32 = 1 < n < 3", "not chained", "1 < n < 3"),
    ("x: int32 = n ** 2", "BinOp is not an expression", "n ** 2"),
    ("x: int32 = [1]", "List is not an expression", "[1]"),
    ("x: int32 = 'one'", "not a number", "'one'"),
    ("x: int32 = 1j", "literal is needed", "1j"),
    ("x: int32 = sin(n, n)", "2 positional arguments where 1", "sin(n, n)"),
    ("x: int32 = float16(n)", "literal is needed", "n"),
    ("x: int32 = foo(n)", "element type", "foo"),
    ("x: int32 = cast(n, int32, rounding='odd')", "'odd' is none of", "'odd'"),
    ("x: int32 = cast(n, int32, speed=1)", "speed is not an argument", "1"),
    ("x: int32 = exp(1.0, precision=1)", "type str", "1"),
    ("x: int32 = A[0:+2, 0]", "Slice is not an expression", "0:+2"),
    ("x: int32 = n[0]", "n is not a buffer", "n"),
    ("x: int32 = copy", "copy is not declared", "copy"),
    ("copy(A[0:2, :], A[:, :])", "start:+extent", "0:2"),
    ("copy(A[0:+2:1, :], A[:, :])", "no step", "0:+2:1"),
    ("copy(A[0:, :], A[:, :])", "start:+extent", "0:"),
    ("copy(A[0], A[:, :])", "2 dimensions but 1", "A[0]"),
    ("copy(A, A[:, :])", "region of a buffer", "A"),
    ("copy(A[:, :])", "1 positional arguments where 2", "copy(A[:, :])"),
    ("copy(*A[:, :], *A[:, :])", "* has no meaning", "*A[:, :]"),
    ("copy(A[:, :], A[:, :], fast=True)", "fast is not an argument", "True"),
    ("copy(A[:, :], A[:, :], **n)", "** is not an argument", "n"),
    ("copy(A[:, :], A[:, :], is_async=1)", "type bool", "1"),
    ("copy(A[:, :], A[:, :], vector_width=True)", "type int", "True"),
    ("gemm(A[:, :], A[:, :], A[:, :])", "clear is missing", "gemm(A[:, :], A[:, :], A[:, :])"),
    ("print('', value=n, region=A[:, :])", "exclude each other", "print('', value=n, region=A[:, :])"),
    ("paint(n)", "paint is not a statement", "paint(n)"),
    ("raster(4, 'row')\nx: int32 = 1\nraster(4, 'row')", "head of a launch", "raster(4, 'row')"),
    ("layout(S, 'swizzle')", "S is not a buffer", "S"),
    ("layout(A, 'map', 3)", "lambda", "3"),
    ("layout(A, 'map', lambda i, j: (i, j, 1, 2))", "a layout map gives", "(i, j, 1, 2)"),
    ("hint('x', None)", "type scalar", "None"),
    ("x: int32 = barrier('block')", "barrier has no result", "barrier('block')"),
    ("atomic('add', B, 1)", "element of a buffer", "B"),
    ("dialect('a.b', attributes=[1])", "dictionary", "[1]"),
    ("dialect('a.b', result=int32)", "stands only in a `with`", "int32"),
    ("with barrier('block'):\n    pass", "barrier has no body", "barrier('block')"),
    ("with dialect('a.b') as x:\n    pass", "given twice", "with dialect('a.b') as x:"),
    ("for i in range(4):\n    pass", "a loop has one variable", "range(4)"),
    ("for i, j in serial(4):\n    pass", "a loop has one variable", "serial(4)"),
    ("for i, j in parallel(4):\n    pass", "2 variables for 1", "i, j"),
    ("for i in serial():\n    pass", "0 positional arguments", "serial()"),
    ("for i in serial(4):\n    pass\nelse:\n    pass", "For is not a statement", "for i in serial(4):"),
    ("for i in unrolled(4, factor='all'):\n    pass", "type int", "'all'"),
    ("return n", "Return is not a statement", "return n"),
    ("x: int32", "AnnAssign is not a statement", "x: int32"),
    ("A[0, 0], x = 1, 2", "target of an assignment", "A[0, 0], x"),
    ("x += 1", "AugAssign is not a statement", "x += 1"),
    ("import os", "Import is not a statement", "import os"),
    ("V = view(n, (4,), int32)", "n is not a buffer", "n"),
    ("V = view(A, 4, int32)", "tuple is needed", "4"),
    ("S = alloc((4,), int32, shared)", "literal is needed", "shared"),
]


@pytest.mark.parametrize(("body", "message", "marked"), WRONG_BODIES, ids=[body.replace("\n", ";") for body, _, _ in WRONG_BODIES])
def test_a_mistake_is_shown_with_its_place(body: str, message: str, marked: str) -> None:
    with pytest.raises(CompileError) as raised:
        of_text(body)
    (diagnostic,) = raised.value.diagnostics
    assert diagnostic.code == "E260"
    assert message in diagnostic.message
    assert diagnostic.span is not None
    lines = diagnostic.span.excerpt().splitlines()
    start = lines[1].index("^")
    assert lines[0][start : start + lines[1].count("^")] == marked


WRONG_TEXTS = [
    ("", "one kernel"),
    ("x = 1\n", "one kernel"),
    ("def f():\n    pass\ndef g():\n    pass\n", "one kernel"),
    ("def f(a):\n    pass\n", "a has no annotation"),
    ("def f(a: tensor((4,), int32) = 1):\n    pass\n", "parameters are plain"),
    ("def f(*a: tensor((4,), int32)):\n    pass\n", "parameters are plain"),
    ("def f(a: array((4,), int32)):\n    pass\n", "array is none of"),
    ("def f(a: int32):\n    pass\n", "tensor(...)"),
    ("def f(a: tensor((4,), int32, role='guest')):\n    pass\n", "'guest' is none of"),
    ("def f(a: tensor((m,), int32)):\n    pass\n", "m is not declared"),
    ("def f(a: tensor((4,), int32), b: tensor((a[0],), int32)):\n    pass\n", "a is not a buffer in scope"),
    ("def f() -> (a,):\n    pass\n", "a is not a parameter"),
    ("@jit\ndef f():\n    pass\n", "@sizes"),
    ("@shapes(m=int32)\ndef f():\n    pass\n", "neither sizes nor name"),
    ("def f():\n    x: int32 = 1\n", "made of launches"),
    ("def f():\n    with launch(1):\n        pass\n", "names are needed"),
    ("def f():\n    with launch(1) as bx:\n        pass\n", "tuple is needed"),
    ("def f():\n    with launch(1) as (bx,), threads() as (tx,):\n        pass\n", "lanes(...) is needed"),
    ("def f():\n    with launch(1, dtypes=(int64, int64)) as (bx,):\n        pass\n", "2 dtypes for 1"),
    ("def f():\n    with launch(1, cluster=(1, 2.0)) as (bx,):\n        pass\n", "type ints"),
    ("def f():\n  pass\n pass\n", "indent"),
    ("def f(:\n    pass\n", "invalid syntax"),
    ("def f():\n    pass\n\0\n", "null"),
    ("def f():\n    x = let(" + "(" * 300 + "1" + ")" * 300 + ")\n", "nested"),
    ("def f():\n    x = let(" + " + ".join(["1"] * 20_000) + ")\n", "nested too deeply"),
    ("def f():\n    x = let(" + "- " * 50_000 + "x)\n", "nested too deeply"),
]


@pytest.mark.parametrize(("text", "message"), WRONG_TEXTS, ids=[text[:40].replace("\n", ";") for text, _ in WRONG_TEXTS])
def test_a_mistake_outside_of_a_launch(text: str, message: str) -> None:
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(1000)  # one of the texts is too deep for Python's own parser only at its usual limit
    try:
        _check_mistake(text, message)
    finally:
        sys.setrecursionlimit(before)


def _check_mistake(text: str, message: str) -> None:
    with pytest.raises(CompileError) as raised:
        parse_kernel("# tile-ir 1.0\n" + text)
    assert raised.value.code == "E260"
    assert message in raised.value.diagnostics[0].message


def test_columns_count_characters() -> None:
    with pytest.raises(CompileError) as raised:
        of_text("é: int32 = n\nß: int32 = é + ö")
    assert raised.value.span is not None
    assert raised.value.span.excerpt().splitlines()[0].index("ö") == raised.value.span.excerpt().splitlines()[1].index("^")


def test_a_text_that_was_read_from_a_file_names_it(tmp_path: object) -> None:
    with pytest.raises(CompileError) as raised:
        parse_kernel("# tile-ir 1.0\nx = 1\n", "broken.tile")
    assert str(raised.value.span).startswith("broken.tile:2:1")


def damaged(text: str, rng: random.Random) -> str:
    """``text`` with a few places changed: characters lost or doubled, words swapped for others, lines moved."""
    edits: list[Callable[[str], str]] = [
        lambda t: t[: (i := rng.randrange(len(t)))] + t[i + rng.randrange(1, 4) :],
        lambda t: t[: (i := rng.randrange(len(t)))] + rng.choice("()[],:=+-*1x\"' \n.") + t[i:],
        lambda t: "\n".join(rng.sample(lines := t.split("\n"), len(lines)) if rng.randrange(9) == 0 else swapped(t.split("\n"), rng)),
        lambda t: word_swapped(t, rng),
        lambda t: word_swapped(t, rng),
    ]
    for _ in range(rng.randrange(1, 4)):
        text = rng.choice(edits)(text) or " "
    return text


def swapped(lines: list[str], rng: random.Random) -> list[str]:
    i, j = rng.randrange(len(lines)), rng.randrange(len(lines))
    lines[i], lines[j] = lines[j], lines[i]
    return lines


def word_swapped(text: str, rng: random.Random) -> str:
    words = text.split(" ")
    fresh = "int32 float16 0 -1 1.5 None True A x let(x) inf () A[:,:] view(A,(4,),int8) 'sum'".split()
    words[rng.randrange(len(words))] = rng.choice([*fresh, rng.choice(words)])
    return " ".join(words)


@given(data=st.data(), seed=st.integers(0, 2**32))
@settings(max_examples=250)
def test_damaged_text_is_read_or_refused(kernels: st.SearchStrategy[s.Kernel], data: st.DataObject, seed: int) -> None:
    text = GEMM if seed % 3 == 0 else print_kernel(data.draw(kernels))
    header, body = text.split("\n", 1)
    changed = f"{header}\n{damaged(body, random.Random(seed))}"
    kernel: s.Kernel | None = None
    refusal: CompileError | None = None
    try:
        kernel = parse_kernel(changed)
    except CompileError as error:
        refusal = error
    if kernel is None:
        assert refusal is not None
        assert refusal.code == "E260"
        assert refusal.span is not None
        return
    for diagnostic in verify(kernel):
        assert diagnostic.render()
    assert print_kernel(parse_kernel(print_kernel(kernel))) == print_kernel(kernel)


# ---- kernels that are not well formed ------------------------------------------------------------------------------------------------


def test_a_kernel_that_is_not_well_formed_prints_all_the_same() -> None:
    lost = Buffer(name="lost", dtype=FLOAT32, shape=(number(4),), space="shared")
    unbound = Var(name="unbound", dtype=INT32, kind="value")
    kernel = kernel_of(s.Store(buffer=lost, indices=(unbound,), value=Load(buffer=lost, indices=(unbound,))))
    assert print_kernel(kernel).splitlines()[-1].strip() == "lost[unbound] = lost[unbound]"
    with pytest.raises(CompileError, match="lost is not a buffer in scope"):
        parse_kernel(print_kernel(kernel))


def test_every_node_class_that_the_tests_make_is_known_to_the_walk() -> None:
    """Parsed nodes are ordinary nodes: each is reached by the traversal that passes use."""
    reached = {type(node) for node in walk(parse_kernel(GEMM))}
    assert {s.Kernel, s.Launch, s.TensorParam, s.ScalarParam, s.LayoutHint, s.For, s.Map, s.If, s.Copy, s.Gemm, Load, Const} <= reached
    assert all(issubclass(node, Node) for node in reached)
    assert any(issubclass(node, ExprNode) for node in reached)
