"""What passes and methods of backends get wrong without raising anything: each is said, and nothing runs that computes something else."""

from __future__ import annotations

import re
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from broken_sources import backend, works

import zellige as zl
import zellige.language as T
from zellige.claims import asked_apart
from zellige.diagnostics import CompileError, Span, ZelligeError
from zellige.ir.expr import Const, Unary, Var, const
from zellige.ir.printer import print_kernel
from zellige.ir.traverse import rewrite
from zellige.passes.kept import changed_parameters, is_changed
from zellige.plugin.fields import type_problems
from zellige.plugin.registry import Registry

Install = Callable[..., Registry]


@T.prim_func
def through_tile(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
    with T.Kernel(2) as i:
        tile = T.alloc_shared((32,), "float32")
        T.copy(A[i * 32], tile)
        for j in T.Parallel(32):
            tile[j] = tile[j] * 2.0
        T.copy(tile, B[i * 32])


def of_launches(**changes: Any) -> Callable[[Any], Any]:
    return lambda value: replace(value, launches=tuple(replace(launch, **changes) for launch in value.launches))


def of_parts(part: str, **changes: Any) -> Callable[[Any], Any]:
    """Each part of a plan's launches changed."""

    def change(planned: Any) -> Any:
        launches = (replace(one, **{part: tuple(replace(p, **changes) for p in getattr(one, part))}) for one in planned.launches)
        return replace(planned, launches=tuple(launches))

    return change


def of_integers(node: Any) -> Any:
    """A number, with an operator that its type does not have."""
    return Unary(op="invert", value=node) if isinstance(node, Const) and node.dtype.is_float else node


UNREADABLE = "it cannot be read, since a field holds what does not belong there"


@pytest.mark.parametrize(
    "stage, function, words",
    [
        ("legalise", lambda kernel: replace(kernel, params=None), UNREADABLE),
        ("legalise", lambda kernel: replace(kernel, launches=None), UNREADABLE),
        ("legalise", of_launches(grid=None), UNREADABLE),
        ("legalise", of_launches(body=None), "body of a Launch is a NoneType, not a tuple"),
        ("legalise", of_launches(body=[]), "body of a Launch is a list, not a tuple"),
        ("legalise", of_launches(grid_vars=(Var(name="i", dtype="int32", kind="grid"),)), "dtype of variable i is 'int32', not an"),
        ("lower", lambda planned: rewrite(planned, of_integers), "invert is not defined for float32 (invariant 6)"),
        ("sync", lambda planned: replace(planned, kernel=replace(planned.kernel, name="a\0b")), "is no name of a kernel"),
        ("lower", of_launches(roles=None), "roles of a launch is a NoneType, not a tuple"),
        ("lower", of_launches(placements=None), "placements of a launch is a NoneType, not a tuple"),
        ("lower", of_launches(roles=(None,)), UNREADABLE),
        ("lower", of_launches(placements=()), "tile is used and has no placement"),
        ("lower", of_parts("placements", space="moon"), "tile in moon: the target has no such space"),
        ("lower", of_parts("roles", body=()), "nothing writes B any more"),
        ("allocate", lambda planned: replace(planned, target="cpu"), "its target is 'cpu', and was 'template'"),
    ],
)  # fmt: skip
def test_a_pass_that_breaks_a_program_is_named(stage: str, function: Callable[[Any], Any], words: str) -> None:
    def mine(value: Any) -> Any:
        return function(value)

    with pytest.raises(CompileError) as caught:
        zl.compile(through_tile, target="template", passes=[(stage, mine)])
    assert caught.value.code == "E713", caught.value
    assert "the pass mine of jit" in str(caught.value) and words in str(caught.value)
    a, b = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    zl.compile(through_tile, target="template", passes=[(stage, lambda value: value)])(a, b)
    assert np.array_equal(b, a * 2)


def test_a_pass_that_takes_a_layout_from_a_product_is_named() -> None:
    @T.prim_func
    def product(A: T.Tensor((8, 8), "float32"), B: T.Tensor((8, 8), "float32"), C: T.Tensor((8, 8), "float32")):
        with T.Kernel(1):
            a, b, c = T.alloc_shared((8, 8), "float32"), T.alloc_shared((8, 8), "float32"), T.alloc_fragment((8, 8), "float32")
            T.copy(A, a)
            T.copy(B, b)
            T.gemm(a, b, c, clear_accum=True)
            T.copy(c, C)

    with pytest.raises(CompileError, match="E713") as caught:
        zl.compile(product, target="cpu", passes=[("lower", of_parts("choices", layouts=()))])
    assert "still takes the operand a, whose layout is gone" in str(caught.value)


ODD_PLACES: list[tuple[object, str]] = [
    ("k.py:3", " is 'k.py:3', expected Span"),
    ((3, 4), " is (3, 4), expected Span"),
    (Span(Path("k.py"), 3), ".file is PosixPath('k.py'), expected str"),  # type: ignore[arg-type]
    (Span("k.py", "3"), ".line is '3', expected int"),  # type: ignore[arg-type]
    (Span("k.py", np.int64(3)), "(3), expected int"),  # type: ignore[arg-type]
    (Span("k.py", 3, None), ".column is None, expected int"),  # type: ignore[arg-type]
    (Span("k.py", 3, 0, 3.0), ".end_line is 3.0, expected int"),  # type: ignore[arg-type]
    (Span(None, 3), ".file is None, expected str"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize("stage", ["legalise", "lower"])
@pytest.mark.parametrize("place, words", ODD_PLACES, ids=[words for _, words in ODD_PLACES])
def test_a_pass_that_puts_down_a_wrong_place_is_named(stage: str, place: Any, words: str) -> None:
    def mine(value: Any) -> Any:
        found = value.kernel if stage == "lower" else value
        (launch,) = found.launches
        first, *others = launch.body
        changed = replace(found, launches=(replace(launch, body=(replace(first, span=place), *others)),))
        return replace(value, kernel=changed) if stage == "lower" else changed

    with pytest.raises(CompileError) as caught:
        zl.compile(through_tile, target="template", passes=[(stage, mine)])
    assert caught.value.code == "E713" and "the pass mine of jit" in str(caught.value), caught.value
    assert re.search(r"the span of a \w+[. ]", str(caught.value)) and words in str(caught.value), caught.value


WRONG_TEXTS: list[tuple[dict[str, Any], str]] = [
    ({"text": ["a", "b"]}, "Emitted.text is ['a', 'b'], expected str"),
    ({"text": None}, "Emitted.text is None, expected str"),
    ({"text": b"a"}, "Emitted.text is b'a', expected str"),
    ({"text": np.str_("a")}, "Emitted.text is of the class str_, a kind of str"),
    ({"text": "a\udcff"}, "which holds characters that are no text"),
    ({"format": None}, "Emitted.format is None, expected str"),
    ({"text": ""}, "its text is empty"),
    ({"facts": {"a": 1}}, "Emitted.facts is {'a': 1}, expected str"),
    ({"spans": None}, "Emitted.spans is None, expected a tuple"),
    ({"spans": ("k.py:3",)}, "Emitted.spans[0] is 'k.py:3', expected Span"),
    ({"spans": (Span("k.py", "3"),)}, "Emitted.spans[0].line is '3', expected int"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize("fields, words", WRONG_TEXTS, ids=[words for _, words in WRONG_TEXTS])
def test_a_pass_on_the_text_that_makes_something_else_is_named(fields: dict[str, Any], words: str) -> None:
    def mine(value: Any) -> Any:
        return replace(value, **fields)

    with pytest.raises(CompileError) as caught:
        zl.compile(through_tile, target="template", passes=[("post", mine)])
    assert caught.value.code == "E713", caught.value
    assert "the pass mine of jit" in str(caught.value) and words in str(caught.value)


STRATEGIES: dict[str, tuple[str, str, str]] = {
    "answers_none": ("return None", "E713", "the pass deep of the backend answers_none (its hook schedules) made a NoneType"),
    "fails": ("raise KeyError('tile')", "E718", "the pass deep of the backend fails (its hook schedules) failed: KeyError: 'tile'"),
    "in_place": (
        "object.__setattr__(kernel.launches[0], 'body', ()); return kernel",
        "E703",
        "the backend 'in_place'",
    ),
}


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_strategy_of_a_backend_is_not_said_to_be_the_users(install: Install, name: str) -> None:
    does, code, words = STRATEGIES[name]
    strategy = f"class Deep:\n    name = 'deep'\n    def __call__(self, kernel):\n        {does}\n"
    install({name: strategy + backend(f"@hookimpl\ndef schedules(self): return {{'{name}.deep': Deep()}}")})
    with pytest.raises(ZelligeError) as caught:
        zl.compile(through_tile, target=name, schedule=f"{name}.deep")
    assert caught.value.code == code and words in str(caught.value), caught.value
    assert "jit(" not in str(caught.value)


def of_params(change: Callable[[tuple[Any, ...]], tuple[Any, ...]]) -> Callable[[Any], Any]:
    return lambda kernel: replace(kernel, params=change(kernel.params))


def of_buffers(**changes: Any) -> Callable[[Any], Any]:
    """Other parameters everywhere that they stand, so that the program is well formed."""

    def change(kernel: Any) -> Any:
        made = {id(p.buffer): replace(p.buffer, **changes) for p in kernel.params}

        def with_made(node: Any) -> Any:
            given = made.get(id(getattr(node, "buffer", None)))
            return node if given is None else replace(node, buffer=given)

        launches = tuple(rewrite(launch, with_made) for launch in kernel.launches)
        return replace(kernel, params=tuple(map(with_made, kernel.params)), launches=launches)

    return change


PARAMETERS: list[tuple[Callable[[Any], Any], str]] = [
    (of_params(lambda params: params[::-1]), "A: tensor((64,), float32) became B: tensor((64,), float32)"),
    (of_params(lambda params: (*params, replace(params[0], buffer=replace(params[0].buffer, name="Z")))), "it had 2 and has 3"),
    (of_params(lambda params: tuple(replace(p, role="workspace") for p in params)), 'became A: tensor((64,), float32, role="workspace")'),
    (of_buffers(name="Z"), "A: tensor((64,), float32) became Z: tensor((64,), float32)"),
    (of_buffers(strides=(const(2),)), "became A: tensor((64,), float32, strides=(2,))"),
    (lambda kernel: replace(kernel, results=(1,)), "became ) -> (B,):"),
]


@pytest.mark.parametrize("target", ["cpu", "interp", "template"])
@pytest.mark.parametrize("is_plan", [False, True], ids=["tiles", "plans"])
def test_a_pass_keeps_the_parameters_of_a_kernel(target: str, is_plan: bool) -> None:
    for function, words in PARAMETERS:

        def mine(value: Any, function: Callable[[Any], Any] = function) -> Any:
            return replace(value, kernel=function(value.kernel)) if is_plan else function(value)

        with pytest.raises(CompileError, match="its parameters are others than those that calls were laid out for") as caught:
            zl.compile(through_tile, target=target, passes=[("lower" if is_plan else "layout", mine)])
        assert caught.value.code == "E713" and "the pass mine of jit" in str(caught.value)
        assert words in str(caught.value), caught.value
    assert doubles(target)


def test_parameters_that_only_look_like_those_before_are_others() -> None:
    before = deepcopy(through_tile.kernel)
    assert changed_parameters(before, deepcopy(before)) == ""
    for param in before.params:
        object.__setattr__(param.buffer, "name", "A")
    assert changed_parameters(before, replace(before, params=before.params[::-1])) == "parameter 0 is what was parameter 1"


def doubles(target: str, **options: Any) -> bool:
    a, b = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    zl.compile(through_tile, target=target, **options)(a, b)
    return np.array_equal(b, a * 2)


def empties(value: Any) -> Any:
    """In place, at whichever stage."""
    for launch in getattr(value, "launches", ()):
        object.__setattr__(launch, "body" if hasattr(launch, "body") else "roles", ())
    if not hasattr(value, "launches"):
        object.__setattr__(value, "text", "")
    return value


def loses_its_parameters(value: Any) -> Any:
    object.__setattr__(getattr(value, "kernel", value), "params", ())
    return value


@pytest.mark.parametrize(("stage", "change"), [
    ("legalise", empties), ("pipeline", empties), ("allocate", empties), ("lower", empties), ("post", empties),
    ("legalise", loses_its_parameters), ("sync", loses_its_parameters),
])  # fmt: skip
@pytest.mark.parametrize("target", ["cpu", "template"])
def test_a_users_pass_that_changes_what_it_is_shown_is_said(target: str, stage: str, change: Callable[[Any], Any]) -> None:
    text = print_kernel(through_tile.kernel)
    with pytest.raises(CompileError, match="changed the program that it was shown; a pass answers with another one") as caught:
        zl.compile(through_tile, target=target, passes=[(stage, change)])
    assert caught.value.code == "E713" and f"the pass {change.__name__} of jit" in str(caught.value)
    assert print_kernel(through_tile.kernel) == text
    assert doubles(target)


def test_a_strategy_of_a_users_gets_a_copy_too() -> None:
    text = print_kernel(through_tile.kernel)
    with pytest.raises(CompileError, match="the pass empties of jit"):
        zl.compile(through_tile, target="cpu", schedule=empties)
    assert print_kernel(through_tile.kernel) == text


@pytest.mark.parametrize("stage", ["legalise", "layout", "sync", "post"])
def test_a_pass_of_a_backend_that_changes_what_it_is_shown_breaks_the_contract(stage: str, install: Install) -> None:
    body = f"""
        @hookimpl
        def passes(self, stage, ctx):
            class Emptying:
                name = "emptying"
                def __call__(self, value):
                    for launch in getattr(value, "launches", ()):
                        object.__setattr__(launch, "body" if hasattr(launch, "body") else "roles", ())
                    if hasattr(value, "text"):
                        object.__setattr__(value, "text", "")
                    return value
            return (Insert(step=Emptying()),) if stage == {stage!r} else ()
    """
    install({"inplace": f"from zellige.plugin.contract import Insert\n{backend(_undented(body))}"})
    text = print_kernel(through_tile.kernel)
    with pytest.raises(ZelligeError, match="its pass emptying changed the program that it was shown") as caught:
        zl.compile(through_tile, target="inplace")
    assert caught.value.code == "E703" and "'inplace'" in str(caught.value)
    assert print_kernel(through_tile.kernel) == text
    assert doubles("cpu")


@pytest.mark.parametrize(
    "line, kind",
    [
        ("async def launch(self, pointers, scalars, sizes): return 1", "a coroutine"),
        ("async def launch(self, pointers, scalars, sizes): yield 1", "a coroutine"),
        ("def launch(self, pointers, scalars, sizes): yield 1", "a generator"),
    ],
)
def test_a_method_that_only_makes_something_later_is_refused(line: str, kind: str, install: Install) -> None:
    body = f"""
        @hookimpl
        def runtime(self, ctx):
            class Kernel:
                {line}
                def source(self): return ""
                def assembly(self): return ""
            class Runtime:
                def load(self, binary, kernel, source): return Kernel()
            return Runtime()
    """
    install({"later": backend(_undented(body))})
    with pytest.raises(ZelligeError, match=f"its method launch is {kind}, which does nothing when it is called") as caught:
        works("later")
    assert caught.value.code == "E703"
    assert works("cpu")


SECOND = """
class Kernel:
    def launch(self, pointers, scalars, sizes): return [][3]
    def source(self): return ""
    def assembly(self): return ""
class Runtime:
    def load(self, binary, kernel, source): return Kernel()
"""


def test_a_kernel_of_a_second_package_is_the_backends_code_too(install: Install, site: Path) -> None:
    (site / "plug_second_rt.py").write_text(SECOND)
    stated = "from plug_second_rt import Runtime\n"
    body = "@hookimpl\ndef runtime(self, ctx):\n    return Runtime()"
    named = "@hookimpl\ndef manifest(self):\n    return replace(AcmeBackend.manifest(self), code_packages=('plug_second_rt',))\n"
    install({"second": f"from dataclasses import replace\n{stated}{backend(named + body)}"})
    with pytest.raises(ZelligeError, match="the backend 'second' raised in its hook runtime: IndexError") as caught:
        works("second")
    assert caught.value.code == "E709"


SILENT = "class Mine(ZelligeError):\n    def __init__(self): pass\n"


def test_an_error_that_says_nothing_is_a_failure_of_its_backend(install: Install) -> None:
    body = "@hookimpl\ndef emit(self, planned, ctx):\n    raise Mine()"
    install({"silent": f"from zellige.diagnostics import ZelligeError\n{SILENT}{backend(body)}"})
    with pytest.raises(ZelligeError, match="the backend 'silent' raised in its hook emit: Mine") as caught:
        works("silent")
    assert caught.value.code == "E709"


def test_an_error_of_a_pass_that_says_nothing_is_a_failure_of_the_pass() -> None:
    class Mine(ZelligeError):
        def __init__(self) -> None:
            pass

    def mine(value: Any) -> Any:
        raise Mine

    with pytest.raises(ZelligeError, match="mine") as caught:
        zl.compile(through_tile, target="template", passes=[mine])
    assert caught.value.code == "E718"


def test_texts_of_other_classes_are_not_taken_for_texts() -> None:
    kind = type("Mine", (str,), {"encode": lambda *_: b""})
    assert list(type_problems(str, kind("a"), "text")) == ["text is of the class Mine, a kind of str; expected a str itself"]
    assert not list(type_problems(str, "a", "Emitted.text"))


def test_a_process_that_ends_without_its_answer_crashed_whatever_its_status(install: Install) -> None:
    install({"ends": backend("@hookimpl\ndef describe(self, target):\n    import os\n    os._exit(0)")})
    found = asked_apart("ends", "", 60.0)
    assert [(one.field, one.verdict, one.reason) for one in found if one.verdict == "does not hold"] == [
        ("describe", "does not hold", "the process ended with exit code 0")
    ]


def _undented(text: str) -> str:
    from textwrap import dedent

    return dedent(text).strip()


def test_what_cannot_be_looked_at_was_changed_unless_the_machine_is_to_blame() -> None:
    def fails(error: Exception) -> Callable[[Any], object]:
        def look(value: Any) -> object:
            raise error

        return look

    assert is_changed(1, "1", fails(AttributeError("no shape"))) and is_changed(1, "2", str) and not is_changed(1, "1", str)
    with pytest.raises(MemoryError, match="full"):
        is_changed(1, "1", fails(MemoryError("full")))
