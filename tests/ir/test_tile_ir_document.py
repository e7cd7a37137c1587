"""docs/tile-ir.md says what the code does: nodes and fields, words, functions, grammar, invariants, and its NumPy lines when run."""

from __future__ import annotations

import dataclasses
import io
import itertools
import keyword
import math
import re
import sys
import tokenize
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_args

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from zellige.dtypes import dtype
from zellige.interp import interpret
from zellige.ir import expr, stmt, verify
from zellige.ir.expr import BOOL, INT32, Binary, Buffer, Compare, Const, Expr, ExprNode, Load, Math, Node, Unary, Var
from zellige.ir.functions import FUNCTIONS
from zellige.ir.parser import parse_kernel
from zellige.ir.printer import print_kernel
from zellige.ir.syntax import FORMS, LOOPS, VERSION

DOCUMENT = (Path(__file__).parents[2] / "docs" / "tile-ir.md").read_text(encoding="utf-8")
SECTIONS = {part.split("\n", 1)[0].strip(): part for part in re.split(r"^###? ", DOCUMENT, flags=re.MULTILINE)[1:]}


def node_classes() -> list[type]:
    """The classes of the IR that programs are made of, and the kinds of loops."""
    found = [c for module in (expr, stmt) for c in vars(module).values() if isinstance(c, type) and dataclasses.is_dataclass(c)]
    abstract = {ExprNode, expr._Derived, stmt.StmtNode, stmt._Control}
    return sorted({c for c in found if c not in abstract and c.__module__ in (expr.__name__, stmt.__name__)}, key=lambda c: c.__name__)


# ---- nodes, words, functions, invariants -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("node", node_classes(), ids=lambda node: node.__name__)
def test_every_node_has_a_section_that_mentions_its_fields(node: type) -> None:
    section = SECTIONS[node.__name__]
    for field in dataclasses.fields(node):
        if field.name not in ("span", "structural_hash") and not (field.name == "dtype" and not field.init):
            assert f"`{field.name}`" in section, field.name


def test_every_section_of_a_node_has_its_node() -> None:
    named = {title for title in SECTIONS if re.fullmatch(r"[A-Z]\w+", title)}
    assert named == {c.__name__ for c in node_classes()}
    assert {c.__name__ for c in node_classes() if issubclass(c, Node)} >= {c.__name__ for c in get_args(stmt.Stmt) + get_args(expr.Expr)}


@pytest.mark.parametrize(
    ("section", "words"),
    [
        ("Var", get_args(expr.VarKind)),
        ("Unary", get_args(expr.UnaryOp)),
        ("Binary", get_args(expr.BinaryOp)),
        ("Compare", get_args(expr.CompareOp)),
        ("Cast", get_args(expr.Rounding)),
        ("Math", get_args(expr.Precision)),
        ("Reduce", get_args(stmt.ReduceOp)),
        ("Scan", get_args(stmt.ScanOp)),
        ("AtomicTile", get_args(stmt.MemoryOrder)),
        ("AtomicTile", tuple(set(get_args(stmt.AtomicOp)) - {"load", "exchange"})),
        ("Atomic", ("load", "exchange")),
        ("Barrier", get_args(stmt.Scope)),
        ("TensorParam", get_args(stmt.ParamRole)),
        ("Shuffle", ("xor", "up", "down", "index")),
        ("Vote", ("any", "all", "count", "ballot")),
        ("RasterHint", ("row", "column")),
    ],
)
def test_every_word_is_listed(section: str, words: tuple[str, ...]) -> None:
    listed = set(re.findall(r'`"?(\w+)"?`', SECTIONS[section]))
    assert set(words) <= listed


def test_the_table_of_functions_is_the_code_s() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (\d) (\w+) \| (\w+) \| `(.+)` \|$", SECTIONS["13. Math functions"], re.MULTILINE)
    assert rows == [(f.name, str(f.arity), f.operands, f.result, f.numpy) for f in FUNCTIONS.values()]


def test_the_invariants_are_the_verifier_s() -> None:
    assert verify.__doc__ is not None
    stated = verify.__doc__[verify.__doc__.index("Names\n") :].strip()
    assert fenced(SECTIONS["14. Invariants"], "text").strip() == stated


def test_the_version_is_the_code_s() -> None:
    assert DOCUMENT.startswith("# The tile IR, version {}.{}\n".format(*VERSION))


def fenced(section: str, language: str) -> str:
    found = re.search(rf"^```{language}\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    assert found is not None, language
    return found[1]


def test_the_example_is_a_kernel_as_it_is_printed() -> None:
    example = fenced(SECTIONS["2. Text form"], "text")
    kernel = parse_kernel(example)
    assert verify.verify(kernel) == []
    assert print_kernel(kernel) == example


# ---- the grammar -------------------------------------------------------------------------------------------------------------------------


BRACKETS = {"(": ("group", ")"), "[": ("optional", "]"), "{": ("repeat", "}")}


class Grammar:
    """The document's EBNF, and a recogniser for it: every way to read a text is followed, so the order of choices is free."""

    def __init__(self, text: str) -> None:
        self.rules: dict[str, Any] = {}
        self.used: set[str] = set()
        tokens = re.findall(r'"[^"]*"|\w+|[=;|{}()\[\]]', text)
        position = 0
        while position < len(tokens):
            name = tokens[position]
            assert tokens[position + 1] == "=", tokens[position : position + 4]
            self.rules[name], position = self._choice(tokens, position + 2)
            assert tokens[position] == ";", name
            position += 1

    def _choice(self, tokens: list[str], position: int) -> tuple[Any, int]:
        options = []
        while True:
            items: list[Any] = []
            while tokens[position] not in ";|)}]":
                token = tokens[position]
                if token in BRACKETS:
                    kind, closing = BRACKETS[token]
                    inner, position = self._choice(tokens, position + 1)
                    items.append((kind, inner))
                    assert tokens[position] == closing
                else:
                    items.append(("word", token[1:-1]) if token.startswith('"') else ("name", token))
                position += 1
            options.append(items)
            if tokens[position] != "|":
                return options, position
            position += 1

    def recognises(self, text: str) -> bool:
        tokens = [
            t for t in tokenize.generate_tokens(io.StringIO(text).readline) if t.type not in (tokenize.COMMENT, tokenize.NL)
        ]
        memo: dict[tuple[str, int], frozenset[int]] = {}
        kinds = {"NEWLINE": tokenize.NEWLINE, "INDENT": tokenize.INDENT, "DEDENT": tokenize.DEDENT, "END": tokenize.ENDMARKER}

        def terminal(name: str, position: int) -> bool:
            token = tokens[position]
            if name == "NAME":
                return token.type == tokenize.NAME and not keyword.iskeyword(token.string)
            if name in ("INT", "FLOAT"):
                return token.type == tokenize.NUMBER and token.string.isdigit() == (name == "INT")
            if name == "STRING":
                return token.type == tokenize.STRING
            return token.type == kinds[name]

        def ends(item: Any, position: int) -> frozenset[int]:
            kind, value = item
            if position >= len(tokens):
                return frozenset()
            if kind == "word":
                return frozenset((position + 1,)) if tokens[position].string == value else frozenset()
            if kind == "group":
                return choice(value, position)
            if kind == "optional":
                return choice(value, position) | {position}
            if kind == "repeat":
                found, fresh = {position}, {position}
                while fresh:
                    fresh = {end for start in fresh for end in choice(value, start)} - found
                    found |= fresh
                return frozenset(found)
            if value not in self.rules:
                return frozenset((position + 1,)) if terminal(value, position) else frozenset()
            known = memo.get((value, position))
            if known is None:
                known = memo[(value, position)] = choice(self.rules[value], position)
                if known:
                    self.used.add(value)
            return known

        def choice(options: Any, position: int) -> frozenset[int]:
            found: set[int] = set()
            for items in options:
                starts = {position}
                for item in items:
                    starts = {end for start in starts for end in ends(item, start)}
                found |= starts
            return frozenset(found)

        limit = sys.getrecursionlimit()
        sys.setrecursionlimit(20_000)
        try:
            return len(tokens) in ends(("name", "file"), 0)
        finally:
            sys.setrecursionlimit(limit)


GRAMMAR = Grammar(fenced(SECTIONS["2.1 Grammar"], "ebnf"))


@given(data=st.data())
@settings(max_examples=40)
def test_the_grammar_derives_every_text_that_is_printed(kernels: st.SearchStrategy[stmt.Kernel], data: st.DataObject) -> None:
    assert GRAMMAR.recognises(print_kernel(data.draw(kernels)))


def test_the_grammar_has_no_rule_that_is_never_printed(program: Callable[[int], stmt.Kernel]) -> None:
    """Rules that a few hundred kernels do not need are rules that the printer does not emit."""
    unused = set(GRAMMAR.rules) - GRAMMAR.used
    for seed in itertools.count():
        if not unused or seed == 600:
            break
        assert GRAMMAR.recognises(print_kernel(program(seed)))
        unused = set(GRAMMAR.rules) - GRAMMAR.used
    assert not unused


@pytest.mark.parametrize(
    ("text", "instead"),
    [
        (":+128", ":128"),
        ("for k in", "for k of"),
        ("clear=False", "clean=False"),
        (") -> (C,)", ") -> C"),
        ("fill(C_local[:, :], 0.0)", "fill(0.0)"),
        ("float32, \"fragment\"", "float32, fragment"),
    ],
)
def test_the_grammar_refuses_other_text(text: str, instead: str) -> None:
    example = fenced(SECTIONS["2. Text form"], "text")
    assert text in example
    assert GRAMMAR.recognises(example)
    assert not GRAMMAR.recognises(example.replace(text, instead))


def test_the_grammar_has_every_form_and_keyword() -> None:
    text = fenced(SECTIONS["2.1 Grammar"], "ebnf")
    rules = {m[1]: m[2] for m in re.finditer(r"^(\w+) *= (.*?) ;$", text, re.MULTILINE | re.DOTALL)}
    for form in FORMS:
        rule = rules[form.name] + (rules["dialect_args"] if form.name == "dialect" else "")
        assert f'"{form.name}"' in rule
        assert all(f'"{slot.field}"' in rule for slot in form.keywords)
    for word, (_, slots) in LOOPS.items():
        assert all(f'"{slot.field}"' in rules[word] for slot in slots)
        assert f"| {word}" in rules["for"] or f"( {word}" in rules["for"]
    for function in FUNCTIONS:
        assert function not in rules, "a function would be taken for a form"


# ---- the NumPy lines ---------------------------------------------------------------------------------------------------------------------


def rows(section: str) -> list[tuple[str, str, str]]:
    """Operator, NumPy line and operands of the table of a section."""
    found = re.findall(r"^\| `(\w+)` \| `.*?[^\\]` \| `(.+?)` \|(?: (.+) \|)?$", SECTIONS[section], re.MULTILINE)
    return [(op, line, kinds or "numbers") for op, line, kinds in found]


def evaluated(make: Callable[..., Expr], *operands: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """An expression over the elements of arrays, by the interpreter."""
    point = Var(name="i", dtype=INT32, kind="loop")
    count = Const(value=len(operands[0]), dtype=INT32)
    inputs = [Buffer(name=f"in{i}", dtype=dtype(a.dtype), shape=(count,)) for i, a in enumerate(operands)]
    value = make(*(Load(buffer=b, indices=(point,)) for b in inputs))
    output = Buffer(name="out", dtype=value.dtype, shape=(count,))
    region = stmt.Map(axes=(point,), extents=(count,), body=(stmt.Store(buffer=output, indices=(point,), value=value),))
    params = (*(stmt.TensorParam(buffer=b) for b in inputs), stmt.TensorParam(buffer=output, role="output"))
    launch = stmt.Launch(grid_vars=(), grid=(), body=(region,))
    kernel = stmt.Kernel(name="k", params=params, launches=(launch,), results=(len(inputs),))
    verify.check(kernel)
    (result,) = interpret(kernel, [*operands, None])
    return result


INTEGERS = np.array([0, 1, -1, 5, -5, 7, 12, -12, 2**31 - 1, -(2**31)], np.int32)
FLOATS = np.array([0.0, 1.0, -1.5, 2.75, -7.25, 1e30, np.inf, -np.inf, np.nan], np.float32)
BOOLS = np.array([True, False])


def operand_pairs(kinds: str, op: str) -> Iterator[tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]]:
    """Operands for which the NumPy line is the whole meaning."""
    if "integers" in kinds or "numbers" in kinds:
        x, y = (a.ravel() for a in np.meshgrid(INTEGERS, INTEGERS))
        if op in ("shl", "shr"):
            y = np.abs(y % 32)
        if op.endswith(("div", "mod")):
            keep = (y != 0) & ~((x == -(2**31)) & (y == -1))
            x, y = x[keep], y[keep]
        yield x, y
    if "floats" in kinds or "numbers" in kinds:
        x, y = (a.ravel() for a in np.meshgrid(FLOATS, FLOATS))
        yield x, y
    if "bool" in kinds:
        x, y = (a.ravel() for a in np.meshgrid(BOOLS, BOOLS))
        yield x, y


def assert_equal(found: np.ndarray[Any, Any], wanted: Any) -> None:
    np.testing.assert_array_equal(found, np.asarray(wanted).astype(found.dtype))


@pytest.mark.parametrize(("op", "line", "kinds"), rows("Binary"), ids=[r[0] for r in rows("Binary")])
def test_binary_lines(op: Any, line: str, kinds: str) -> None:
    ran = 0
    for x, y in operand_pairs(kinds, op):
        with np.errstate(all="ignore"):
            assert_equal(evaluated(lambda a, b: Binary(op=op, left=a, right=b), x, y), eval(line, {"np": np, "x": x, "y": y}))
        ran += 1
    assert ran >= 1


@pytest.mark.parametrize(("op", "line", "kinds"), rows("Compare"), ids=[r[0] for r in rows("Compare")])
def test_compare_lines(op: Any, line: str, kinds: str) -> None:
    for x, y in operand_pairs("numbers, bool", op):
        found = evaluated(lambda a, b: Compare(op=op, left=a, right=b), x, y)
        assert_equal(found, eval(line, {"np": np, "x": x, "y": y}))


@pytest.mark.parametrize(("op", "line", "kinds"), rows("Unary"), ids=[r[0] for r in rows("Unary")])
def test_unary_lines(op: Any, line: str, kinds: str) -> None:
    ran = 0
    for x, _ in operand_pairs(kinds, op):
        assert_equal(evaluated(lambda a: Unary(op=op, value=a), x), eval(line, {"np": np, "x": x}))
        ran += 1
    assert ran >= 1


def test_the_tables_list_every_operator() -> None:
    assert [r[0] for r in rows("Binary")] == list(get_args(expr.BinaryOp))
    assert {r[0] for r in rows("Unary")} == set(get_args(expr.UnaryOp))
    assert [r[0] for r in rows("Compare")] == list(get_args(expr.CompareOp))


def executable(line: str) -> bool:
    try:
        compile(line, "line", "eval")
    except SyntaxError:
        return False
    return True


LINES = [f for f in FUNCTIONS.values() if executable(f.numpy) and f.operands != "integer"]


def test_most_functions_are_executable_lines() -> None:
    assert len(LINES) >= 35


@pytest.mark.parametrize("function", LINES, ids=lambda f: f.name)
def test_function_lines(function: Any) -> None:
    x, y = (np.array(v, np.float32) for v in zip(*itertools.product([0.5, -0.75, 2.0, 0.0, -3.0, np.nan], [1.5, -2.0, 0.25])))
    operands = (x, y)[: function.arity]
    of = BOOL if function.result == "bool" else dtype("float32")
    found = evaluated(lambda *a: Math(function=function.name, args=a, dtype=of), *operands)
    with np.errstate(all="ignore"):
        wanted = [eval(function.numpy, {"np": np, "math": math, "x": a, "y": b, "int": int}) for a, b in zip(x, y)]
    np.testing.assert_allclose(found.astype(np.float64), np.array(wanted, np.float64), rtol=3e-7)


COMBINE = {
    "sum": np.add, "abssum": np.add, "prod": np.multiply, "max": np.fmax, "absmax": np.fmax, "min": np.fmin,
    "bitand": np.bitwise_and, "bitor": np.bitwise_or, "bitxor": np.bitwise_xor, "any": np.logical_or, "all": np.logical_and,
}  # fmt: skip


def compare_with_document(node: str, statement: str, arrays: dict[str, np.ndarray[Any, Any]], fields: str, **names: Any) -> None:
    """Runs a statement by the interpreter and the document's lines on copies; ``fields`` binds the names of the lines to arrays."""
    params = ", ".join(f"{name}: tensor({tuple(map(int, a.shape))}, {a.dtype.name})" for name, a in arrays.items())
    kernel = parse_kernel(f"# tile-ir 1.0\ndef k({params}):\n    with launch(1) as (bx,):\n        {statement}\n")
    verify.check(kernel)
    ours = {name: a.copy() for name, a in arrays.items()}
    interpret(kernel, list(ours.values()))
    theirs = {name: a.copy() for name, a in arrays.items()}
    scope: dict[str, Any] = {"np": np, "drop": np.squeeze, **theirs, **names}
    exec(fields, scope)
    exec(fenced(SECTIONS[node], "python"), scope)
    for name in arrays:
        np.testing.assert_array_equal(ours[name], theirs[name], err_msg=name)
    assert any(not np.array_equal(ours[name], arrays[name]) for name in arrays), "the statement did nothing"


def small(*shape: int, of: Any = np.float32) -> np.ndarray[Any, Any]:
    """Small integers, so that sums are exact in any order."""
    return np.random.default_rng(sum(shape)).integers(-4, 5, shape).astype(of)


def test_copy_lines() -> None:
    compare_with_document("Copy", "copy(A[1, 0:+3], B[:])", {"A": small(2, 4), "B": small(3, of=np.int8)}, "src, dst = A[1:2, 0:3], B")


def test_fill_lines() -> None:
    compare_with_document("Fill", "fill(A[1, :], 7.5)", {"A": small(2, 4)}, "dst, value = A[1:2, :], 7.5")


@pytest.mark.parametrize("clear", [True, False])
@pytest.mark.parametrize("transpose_a", [True, False])
@pytest.mark.parametrize("transpose_b", [True, False])
@pytest.mark.parametrize(
    ("of", "into", "wide"), [("float16", "float32", "float32"), ("int8", "int32", "int32"), ("float64", "float32", "float64")]
)
def test_gemm_lines(of: str, into: str, wide: str, transpose_a: bool, transpose_b: bool, clear: bool) -> None:
    a, b, c = small(*((5, 3) if transpose_a else (3, 5)), of=of), small(*((4, 5) if transpose_b else (5, 4)), of=of), small(3, 4, of=into)
    flags = f"clear={clear}, transpose_a={transpose_a}, transpose_b={transpose_b}"
    names = {"wide": wide, "clear": clear, "transpose_a": transpose_a, "transpose_b": transpose_b}
    compare_with_document("Gemm", f"gemm(A[:, :], B[:, :], C[:, :], {flags})", {"A": a, "B": b, "C": c}, "a, b, c = A, B, C", **names)


@pytest.mark.parametrize("clear", [True, False])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("op", get_args(stmt.ReduceOp))
def test_reduce_lines(op: str, axis: int, clear: bool) -> None:
    of = np.int32 if op.startswith("bit") else np.float32
    src, dst = small(3, 4, of=of), small(*((1, 4), (3, 1))[axis], of=of)
    dst[:] = {"max": -9, "absmax": -9, "any": 0, "all": 3}.get(op, 30)
    prepare = np.abs if op.startswith("abs") else lambda x: x
    names = {"axis": axis, "clear": clear, "combine": COMBINE[op], "prepare": prepare, "wide": of}
    text = f'reduce("{op}", A[:, :], B[:, :], axis={axis}, clear={clear})'
    compare_with_document("Reduce", text, {"A": src, "B": dst}, "src, dst = A, B", **names)


@pytest.mark.parametrize("reverse", [True, False])
@pytest.mark.parametrize("op", get_args(stmt.ScanOp))
def test_scan_lines(op: str, reverse: bool) -> None:
    names = {"axis": 1, "reverse": reverse, "combine": COMBINE[op], "wide": np.float32}
    text = f'scan("{op}", A[:, :], B[:, :], axis=1, reverse={reverse})'
    compare_with_document("Scan", text, {"A": small(3, 4), "B": small(3, 4) + 50}, "src, dst = A, B", **names)


def test_transpose_lines() -> None:
    compare_with_document("Transpose", "transpose(A[1, :, :], B[:, :])", {"A": small(2, 3, 4), "B": small(4, 3)}, "src, dst = A[1:2], B")


@pytest.mark.parametrize("op", ["add", "sub", "max", "min", "and", "or", "xor", "store"])
def test_atomic_tile_lines(op: str) -> None:
    of = np.int32 if op in ("and", "or", "xor") else np.float32
    line = {r[0]: r[1] for r in rows("Binary")}.get({"and": "bitand", "or": "bitor", "xor": "bitxor"}.get(op, op), "y")
    names = {"apply": lambda x, y: eval(line, {"np": np, "x": x, "y": y})}
    arrays = {"A": small(1, 4, of=np.int32), "B": small(4, of=of) + 1}
    compare_with_document("AtomicTile", f'atomic_tile("{op}", A[:, :], B[:])', arrays, "src, dst = A, B", **names)
