"""Specifications that are wrong in a field, or contradict themselves, are refused when they are made, by name and with the reason."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from zellige.diagnostics.error import CompileError
from zellige.layouts import Layout, mixed
from zellige_intrinsics import Operand, Product, Source, add, changed, family, meanings, remove, run, stamp

LEFT = mixed({"register": [(4, {"k": 1})], "lane": [(16, {"m": 1}), (4, {"k": 4})]}, {"m": 16, "k": 16})
RIGHT = mixed({"register": [(4, {"k": 1})], "lane": [(16, {"n": 1}), (4, {"k": 4})]}, {"k": 16, "n": 16})
SUMS = mixed({"register": [(4, {"m": 1})], "lane": [(16, {"n": 1}), (4, {"m": 4})]}, {"m": 16, "n": 16})
OVERLAPPING = mixed({"register": [(4, {"k": 1})], "lane": [(16, {"m": 1}), (4, {"k": 2})]}, {"m": 16, "k": 16})


def operands(left: Any = LEFT, types: Any = ("float16",), sums: tuple[str, ...] = ("float32",)) -> tuple[Operand, ...]:
    return (
        Operand(name="a", types=types, space="register", layout=left),
        Operand(name="b", types=types, space="register", layout=RIGHT),
        Operand(name="c", types=sums, space="register", layout=SUMS),
        Operand(name="d", types=sums, space="register", layout=SUMS, is_result=True),
    )


def product(**changes: Any) -> Product:
    given: dict[str, Any] = {
        "name": "acme_dot", "spelling": "__dot({a}, {b}, {c})", "scope": "warp", "lanes": 64, "m": 16, "n": 16, "k": 16,
        "operands": operands(), "meaning": meanings.multiply_add, "sources": (Source(manual="Acme Two", section="4.2"),), **changes,
    }  # fmt: skip
    return Product(**given)


def test_the_one_that_the_others_are_made_from_is_right() -> None:
    assert product().multiplications == 4096
    assert isinstance(LEFT, Layout)


def test_a_spelling_may_name_fields_of_the_instruction_and_print_braces() -> None:
    assert product(spelling="__dot.{mode} {{{a}, {b}}}", fields=("mode",)).fields == ("mode",)
    assert product(spelling="", notes="the vendor's compiler places it").spelling == ""


def held_by(holder: Any) -> tuple[Operand, ...]:
    return (Operand(name="a", types=("float16",), space="register", layout=LEFT, holder=holder), *operands()[1:])


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "not a number": ({"m": float("nan")}, "m is nan, expected int"),
    "half a number": ({"m": 16.5}, "m is 16.5, expected int"),
    "text for a number": ({"k": "16"}, "k is '16', expected int"),
    "truth for a number": ({"n": True}, "n is True, expected int"),
    "no columns": ({"n": 0}, "b has 16 along n, the instruction 16 x 0 x 16"),
    "too many rows": ({"m": 32}, "a has 16 along m, the instruction 32 x 16 x 16"),
    "lanes that are no number": ({"lanes": float("nan")}, "lanes is nan, expected int"),
    "no lanes": ({"lanes": 0}, "a is held by 64 lanes, the instruction has 0"),
    "no source": ({"sources": ()}, "it names no source"),
    "no name": ({"name": ""}, "it has no name"),
    "no operands": ({"operands": ()}, "a product has no operand a, b, c, d"),
    "no result": ({"operands": operands()[:3]}, "a product has no operand d"),
    "an operand twice": ({"operands": (*operands(), operands()[0])}, "two operands have one name"),
    "a formula as text": ({"meaning": "a @ b + c"}, "meaning is 'a @ b + c', expected a function"),
    "no formula": ({"meaning": None}, "it has no meaning: nobody could say what a product without one computes"),
    "another holder": ({"operands": lambda: held_by("pocket")}, "holder is 'pocket', expected one of register, pointer, memory, immediate"),
    "a name of two lines": ({"name": "acme\n\x1b[31m"}, "its name is no line of text"),
    "another scope": ({"scope": "galaxy"}, "scope is 'galaxy', expected one of thread, lane, warp"),
    "a word for words": ({"requires": "acme2"}, "requires is 'acme2', expected tuple"),
    "the name of a wait": ({"completion": "acme_wait"}, "completion is 'acme_wait', expected Completion"),
    "elements held twice": ({"operands": lambda: operands(OVERLAPPING)}, "not every element of a is held equally often"),
    "no layout": ({"operands": lambda: operands(None)}, "an operand has a layout, an immediate number has none"),
    "a layout by name": ({"operands": lambda: operands("row")}, "layout is 'row', expected Layout"),
    "a type that is none": ({"operands": lambda: operands(types=("float17",))}, "'float17' is not an element type"),
    "no type": ({"operands": lambda: operands(types=())}, "it names no element type"),
    "a type as text": ({"operands": lambda: operands(types="float16")}, "types is 'float16', expected tuple"),
    "no spelling": ({"spelling": ""}, "it has no spelling, and no notes that say why a program never names it"),
    "two lines": ({"spelling": "__dot({a},\n{b})"}, "expected a line without spaces around it"),
    "spaces around": ({"spelling": " __dot({a}, {b})"}, "expected a line without spaces around it"),
    "half a brace": ({"spelling": "__dot({a}, {b)"}, "braces that are printed are written twice"),
    "a brace alone": ({"spelling": "__dot({a}, b})"}, "braces that are printed are written twice"),
    "a place without a name": ({"spelling": "__dot({}, {b})"}, "spelling holds {}, expected a name in braces"),
    "a place by number": ({"spelling": "__dot({0}, {b})"}, "spelling holds {0}, expected a name in braces"),
    "an attribute": ({"spelling": "__dot({a.name}, {b})"}, "spelling holds {a.name}, expected a name in braces"),
    "a format": ({"spelling": "__dot({a:x}, {b})"}, "spelling holds {a:x}, expected a name in braces"),
    "a conversion": ({"spelling": "__dot({a!r}, {b})"}, "spelling holds {a!r}, expected a name in braces"),
    "no such operand": ({"spelling": "__dot({e}, {b})"}, "spelling holds {e}, which is no operand (a, b, c, d) and none of its fields"),
    "a misspelt field": ({"spelling": "__dot{varaint}({a})"}, "did you mean {variant}?"),
    "fields as text": ({"fields": "mode"}, "fields is 'mode', expected tuple"),
    "types that do not go together": (
        {"operands": lambda: operands(types=("float16", "bfloat16", "int8"), sums=("float32", "float32"))},
        "operands have different numbers of element types",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_specification_is_refused(name: str) -> None:
    changes, reason = WRONG[name]
    with pytest.raises(CompileError) as caught:
        product(**{field: value() if field == "operands" and callable(value) else value for field, value in changes.items()})
    assert caught.value.code == "E331"
    assert reason in str(caught.value)


def test_a_name_that_a_family_has_is_refused() -> None:
    before = family("amd")
    with pytest.raises(CompileError, match="E331: .*the family amd has an instruction of that name"):
        add("amd", product(name=before[0].name))
    assert family("amd") == before


def raising(inputs: Any) -> Any:
    raise OSError("no formula")


@pytest.mark.parametrize(
    ("meaning", "words"),
    [
        (lambda a, b: {"d": a @ b}, "its meaning raised TypeError: "),
        (raising, "its meaning raised OSError: no formula"),
        (lambda inputs: None, "its meaning made None, expected results by name"),
        (lambda inputs: {"c": inputs["c"]}, "its meaning made none for d, expected an array of (16, 16)"),
        (lambda inputs: {"d": inputs["c"].tolist()}, "its meaning made a list for d, expected an array of (16, 16)"),
        (lambda inputs: {"d": None}, "its meaning made none for d, expected an array of (16, 16)"),
        (lambda inputs: {"d": [[1], [2, 3]]}, "its meaning made a list for d, expected an array of (16, 16)"),
        (lambda inputs: {"d": inputs["c"][:3]}, "its meaning made an array of (3, 16) for d, expected an array of (16, 16)"),
    ],
)
def test_a_meaning_that_does_not_make_the_results_is_said_by_name(meaning: Any, words: str) -> None:
    made = product(meaning=meaning)
    held = {operand.name: np.zeros(tuple(operand.layout.input_sizes.values())) for operand in made.operands if operand.layout}
    with pytest.raises(CompileError) as caught:
        run(made, held)
    assert caught.value.code == "E331"
    assert "acme_dot" in str(caught.value) and words in str(caught.value)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"with_these": ("x",)}, "it holds 'x', expected a specification of one"),
        ({"with_these": None}, "it is given None, expected a tuple"),
        ({"without": "mma"}, "it is given 'mma', expected a tuple"),
        ({"without": (5,)}, "it holds 5, expected the name of an instruction"),
    ],
)
def test_a_change_of_something_else_is_refused_and_changes_nothing(change: Any, words: str) -> None:
    before = stamp("nvidia")
    with pytest.raises(CompileError) as caught, changed("nvidia", **change):
        raise AssertionError("the change was taken")
    assert caught.value.code == "E331"
    assert words in str(caught.value)
    assert stamp("nvidia") == before


def test_what_is_no_specification_is_not_added_and_what_is_no_name_not_taken_out() -> None:
    before = stamp("nvidia")
    for ask, words in (
        (lambda: add("nvidia", 5), "it holds 5, expected a specification of one"),  # type: ignore[arg-type]
        (lambda: remove("nvidia", 5), "it holds 5, expected the name of an instruction"),  # type: ignore[arg-type]
    ):
        with pytest.raises(CompileError, match=words) as caught:
            ask()
        assert caught.value.code == "E331"
    assert stamp("nvidia") == before
