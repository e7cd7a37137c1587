"""Every invariant of the verifier, broken: each kernel of ``refused/*.tile`` marks the lines where it expects diagnostics.

A mark is a comment ``#! E274 28``, code and invariant, once for each diagnostic on that line; ``#! -`` marks a line where one might
be looked for in vain. Kernels that text cannot express are built here.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from zellige.diagnostics import CompileError, Diagnostic
from zellige.dtypes import dtype
from zellige.ir import stmt as s, verify as verifier
from zellige.ir.expr import BOOL, INT32, Binary, Buffer, Cast, Const, Expr, Load, Math, Region, Unary, Var
from zellige.ir.parser import parse_kernel
from zellige.ir.verifier.context import CODE_OF
from zellige.ir.verify import check, verify

REFUSED = Path(__file__).parent / "refused"
HEADER = "# tile-ir 1.0\n"
MARK = re.compile(r"(E\d{3,4}) (\d+)")
FLOAT32 = dtype("float32")


def cases() -> list[tuple[str, str]]:
    """Each kernel of each file, with the name of its function."""
    found = []
    for path in sorted(REFUSED.glob("*.tile")):
        for part in path.read_text(encoding="utf-8").split(HEADER)[1:]:
            name = re.search(r"^def (\w+)", part, re.MULTILINE)
            assert name is not None
            found.append((f"{path.stem}-{name[1]}", HEADER + part))
    return found


def invariant_of(diagnostic: Diagnostic) -> int:
    found = re.search(r"\(invariant (\d+)\)$", diagnostic.message)
    assert found is not None, diagnostic.message
    return int(found[1])


@pytest.mark.parametrize(("name", "text"), cases(), ids=[name for name, _ in cases()])
def test_a_broken_invariant_is_reported_at_its_line(name: str, text: str) -> None:
    wanted = [
        (number, code, int(invariant))
        for number, line in enumerate(text.splitlines(), start=1)
        if "#!" in line
        for code, invariant in MARK.findall(line.split("#!")[1])
    ]
    kernel = parse_kernel(text)
    diagnostics = verify(kernel)
    found = sorted((d.span.line if d.span else 0, d.code, invariant_of(d)) for d in diagnostics)
    assert found == sorted(wanted), "\n".join(d.render() for d in diagnostics)
    with pytest.raises(CompileError) as raised:
        check(kernel)
    assert len(raised.value.diagnostics) == len(wanted)


def kernel_of(*body: s.Stmt, params: tuple[s.Param, ...] = (), name: str = "k", launches: tuple[s.Launch, ...] | None = None) -> s.Kernel:
    launch = s.Launch(grid_vars=(), grid=(), body=body)
    return s.Kernel(name=name, params=params, launches=(launch,) if launches is None else launches)


def number(value: int = 0) -> Const:
    return Const(value=value, dtype=INT32)


def variable(kind: str = "value", name: str = "x") -> Var:
    return Var(name=name, dtype=INT32, kind=kind)  # type: ignore[arg-type]


def built() -> dict[str, tuple[list[int], s.Kernel]]:
    """Kernels that text cannot say, with the invariants that they break."""
    x, y, late = variable(), variable(), variable(name="late")
    buffer = Buffer(name="S", dtype=INT32, shape=(number(4),), space="shared")
    other = Buffer(name="T", dtype=INT32, shape=(number(4),), space="shared")
    view = Buffer(name="V", dtype=INT32, shape=(number(4),), space="shared", alias=other)
    elsewhere = Buffer(name="W", dtype=INT32, shape=(number(4),), space="global", alias=buffer)
    tensor = s.TensorParam(buffer=Buffer(name="A", dtype=INT32, shape=(number(4),)))
    on_chip = s.TensorParam(buffer=buffer)
    loop_index, store = variable("loop", "i"), s.Store(buffer=buffer, indices=(number(),), value=number())
    deep: s.Stmt = s.Bind(var=variable(), value=number())
    for _ in range(80):
        deep = s.If(condition=Const(value=True, dtype=BOOL), then=(deep,))
    wrong: s.Stmt = s.If(condition=Const(value=True, dtype=BOOL), then=(number(),))  # type: ignore[arg-type]
    for _ in range(80):
        wrong = s.If(condition=Const(value=True, dtype=BOOL), then=(wrong,))
    chain: s.Stmt = s.Break()
    for _ in range(500):
        chain = s.If(condition=Const(value=True, dtype=BOOL), then=(), otherwise=(chain,))
    looped = Buffer(name="L", dtype=INT32, shape=(number(4),), space="shared", alias=buffer)
    object.__setattr__(looped, "alias", looped)
    foreign = Buffer(name="F", dtype=INT32, shape=(number(4),), space="shared")
    hinted = s.Launch(grid_vars=(), grid=(), hints=(s.NamedHint(name="n", value=1, buffer=foreign),))
    points = s.Map(axes=(variable("loop", "p"),), extents=(number(2),), body=())
    bad_region = Region(buffer=buffer, offsets=(number(), number()), extents=(number(1),))
    return {
        "a variable before its value": ([1], kernel_of(s.Bind(var=x, value=late), s.Bind(var=late, value=number()))),
        "a variable out of its body": ([1], kernel_of(
            s.If(condition=Const(value=True, dtype=BOOL), then=(s.Bind(var=x, value=number()),)), s.Bind(var=y, value=x))),
        "a variable in its own value": ([1], kernel_of(s.Bind(var=x, value=Binary(op="add", left=x, right=x)))),
        "a buffer that is not allocated": ([1], kernel_of(store)),
        "a buffer out of its body": ([1], kernel_of(s.If(condition=Const(value=True, dtype=BOOL), then=(s.Alloc(buffer=buffer),)), store)),
        "a view of a buffer that is not allocated": ([1], kernel_of(s.Store(buffer=view, indices=(number(),), value=number()))),
        "a variable bound twice": ([2], kernel_of(s.Bind(var=x, value=number()), s.Bind(var=x, value=number()))),
        "a buffer allocated twice": ([2], kernel_of(s.Alloc(buffer=buffer), s.Alloc(buffer=buffer))),
        "a loop variable used twice": ([2], kernel_of(*(
            s.For(var=loop_index, start=number(), stop=number(2), step=number(1), kind=s.Serial(), body=()) for _ in range(2)))),
        "a tensor given twice": ([2], kernel_of(params=(tensor, tensor))),
        "a loop variable of another kind": ([3], kernel_of(
            s.For(var=variable("value"), start=number(), stop=number(2), step=number(1), kind=s.Serial(), body=()))),
        "a bound variable of another kind": ([3], kernel_of(s.Bind(var=variable("grid"), value=number()))),
        "a scalar parameter of another kind": ([3], kernel_of(params=(s.ScalarParam(var=variable("loop")),))),
        "a grid variable of another kind": ([3], kernel_of(launches=(s.Launch(grid_vars=(variable("loop"),), grid=(number(1),)),))),
        "a math result of another type": ([6], kernel_of(
            s.Bind(var=x, value=Math(function="exp", args=(Const(value=1.0, dtype=FLOAT32),), dtype=INT32)))),
        "an unknown function": ([7], kernel_of(s.Bind(var=x, value=Math(function="cbrtf", args=(number(),), dtype=INT32)))),
        "a function of too many operands": ([7], kernel_of(
            s.Bind(var=x, value=Math(function="abs", args=(number(), number()), dtype=INT32)))),
        "a region of too many offsets": ([10], kernel_of(s.Alloc(buffer=buffer), s.Fill(dst=bad_region, value=number()))),
        "a view that is allocated": ([12], kernel_of(s.Alloc(buffer=other), s.Alloc(buffer=view))),
        "a view in another space": ([12], kernel_of(
            s.Alloc(buffer=buffer), s.Store(buffer=elsewhere, indices=(number(),), value=number()))),
        "a view of itself": ([12], kernel_of(s.Store(buffer=looped, indices=(number(),), value=number()))),
        "a parameter on chip": ([13], kernel_of(params=(on_chip,))),
        "a parameter that is a view": ([1, 13], kernel_of(params=(s.TensorParam(buffer=Buffer(
            name="P", dtype=INT32, shape=(Load(buffer=buffer, indices=(number(),)),), alias=tensor.buffer)),))),
        "a result that is no parameter": ([15], s.Kernel(name="k", params=(), launches=(), results=(3,))),
        "a kernel without a name": ([17], kernel_of(name="")),
        "a launch that is none": ([17], kernel_of(launches=(store,))),  # type: ignore[arg-type]
        "a hint on a buffer of nowhere": ([23], kernel_of(launches=(hinted,))),
        "a hint that is none": ([31], kernel_of(launches=(s.Launch(grid_vars=(), grid=(), hints=(number(),)),))),  # type: ignore[arg-type]
        **{f"hints that are none: {given!r:.9}": ([31], kernel_of(replace(points, hints=given)))  # type: ignore[arg-type]
           for given in (number(), (number(),), ("ab",), ((1, 2),), 3)},
        "hints of one wish twice": ([31], kernel_of(replace(points, hints=(("a", 1), ("a", 2))))),
        "a hint of a list": ([31], kernel_of(replace(points, hints=(("a", [1]),)))),  # type: ignore[arg-type]
        "a safe value that is none": ([31], kernel_of(
            launches=(s.Launch(grid_vars=(), grid=(), safe_values=(number(),)),))),  # type: ignore[arg-type]
        "bodies too deep": ([25], kernel_of(deep)),
        "a long chain of elif is not deep": ([24], kernel_of(chain)),
        "an unknown operator": ([31], kernel_of(s.Bind(var=x, value=Binary(op="nand", left=number(), right=number())))),  # type: ignore[arg-type]
        "an unknown unary operator": ([31], kernel_of(s.Bind(var=x, value=Unary(op="abs", value=number())))),  # type: ignore[arg-type]
        "an unknown rounding": ([31], kernel_of(s.Bind(var=x, value=Cast(value=number(), dtype=INT32, rounding="odd")))),  # type: ignore[arg-type]
        "an unknown role": ([31], kernel_of(params=(s.TensorParam(buffer=tensor.buffer, role="guest"),))),  # type: ignore[arg-type]
        "an unknown kind of variable": ([1, 31], kernel_of(s.Assume(condition=Var(name="v", dtype=BOOL, kind="odd")))),  # type: ignore[arg-type]
        "an unknown kind of loop": ([31], kernel_of(
            s.For(var=variable("loop"), start=number(), stop=number(2), step=number(1), kind="fast", body=()))),  # type: ignore[arg-type]
        "a statement that is none": ([31], kernel_of(number())),  # type: ignore[arg-type]
        "a statement that is none, where lanes are told apart": ([31], kernel_of(launches=(s.Launch(
            grid_vars=(), grid=(), threads=(number(32),), lane_vars=(variable("lane"),), body=(number(),)),))),  # type: ignore[arg-type]
        "a statement that is none, deeper than is looked, where lanes are told apart": ([25], kernel_of(launches=(s.Launch(
            grid_vars=(), grid=(), threads=(number(32),), lane_vars=(variable("lane"),), body=(wrong,)),))),
        "an expression that is none": ([31], kernel_of(s.Print(value=3))),  # type: ignore[arg-type]
    }  # fmt: skip


@pytest.mark.parametrize("name", built())
def test_kernels_that_text_cannot_say(name: str) -> None:
    wanted, kernel = built()[name]
    diagnostics = verify(kernel)
    assert sorted(map(invariant_of, diagnostics)) == wanted, [d.render() for d in diagnostics]


def test_every_invariant_is_stated_and_broken_by_a_test() -> None:
    stated = {int(number) for number in re.findall(r"^ +(\d+)\. ", verifier.__doc__ or "", re.MULTILINE)}
    assert stated == set(CODE_OF)
    marked = {int(invariant) for _, text in cases() for _, invariant in MARK.findall(text)}
    assert stated == marked | {invariant for wanted, _ in built().values() for invariant in wanted}


def test_a_diagnostic_is_reported_under_the_code_of_its_invariant() -> None:
    for _, text in cases():
        for diagnostic in verify(parse_kernel(text)):
            assert diagnostic.code == CODE_OF[invariant_of(diagnostic)].id


def test_all_errors_are_collected_and_name_the_place() -> None:
    text = HEADER + "def k(A: tensor((4,), float32)):\n    with launch(1) as (bx,):\n        A[0, 0] = 1\n        A[0] = 2\n"
    diagnostics = verify(parse_kernel(text))
    assert [d.code for d in diagnostics] == ["E266", "E264", "E264"]
    assert diagnostics[0].render().splitlines()[1].endswith(":4:9")
    assert diagnostics[2].render().splitlines()[3] == "      |                ^"


def test_expressions_shared_by_many_statements_are_checked_once() -> None:
    """A large expression in many statements: the work would be the product of both without sharing."""
    value: Expr = number(1)
    for _ in range(3000):
        value = Binary(op="add", left=value, right=number(1))
    statements = [s.Bind(var=variable(), value=value) for _ in range(3000)]
    assert verify(kernel_of(*statements)) == []
