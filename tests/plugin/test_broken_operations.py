"""Operations of a dialect that are broken: each is said of the backend that brings it, never of the kernel that uses it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from broken_sources import backend, works

import zellige as zl
import zellige.language as T
from zellige.diagnostics import ZelligeError
from zellige.ir.parser import parse_kernel
from zellige.ir.printer import print_kernel
from zellige.plugin.registry import Registry

Install = Callable[..., Registry]

ASKED = "its operation T.{name} asks for what cannot be: "
OPERATIONS: dict[str, tuple[str, str, str]] = {
    "op_generator": ("lambda s, d: (yield 1)", "E703", "its operation T.{name} is a generator, which does nothing when it is called"),
    "op_later": ("later", "E703", "its operation T.{name} is a coroutine, which does nothing when it is called"),
    "op_five": ("5", "E703", "its hook dialect answered 5 for T.{name}, expected a function"),
    "op_none": ("None", "E703", "its hook dialect answered None for T.{name}, expected a function"),
    "op_divides": ("lambda s, d: 1 / 0", "E709", "raised in its operation T.{name}: ZeroDivisionError: division by zero"),
    "op_exits": ("lambda s, d: sys.exit(3)", "E709", "raised in its operation T.{name}: SystemExit: 3"),
    "op_part": ("partial(lambda x, s, d: 1 / 0, 1)", "E709", "raised in its operation T.{name}: ZeroDivisionError"),
    "op_no_dot": ("lambda s, d: operation('op')", "E703", ASKED + "an operation is called 'op', expected the backend's name, a dot"),
    "op_empty": ("lambda s, d: operation('')", "E703", ASKED + "an operation is called '', expected a line of text"),
    "op_lines": ("lambda s, d: operation('a.b\\n')", "E703", ASKED + "an operation is called 'a.b\\n', expected a line of text"),
    "op_number": ("lambda s, d: operation(5)", "E703", ASKED + "an operation is called 5, expected a line of text"),
    "op_kind": ("lambda s, d: operation(type('S', (str,), {})('a.b'))", "E703", ASKED + "an operation is called 'a.b'"),
    "op_pairs": ("lambda s, d: operation('a.b', attributes=[('x', 1)])", "E703", ASKED + "the attributes of a.b are [('x', 1)]"),
    "op_key": ("lambda s, d: operation('a.b', attributes={5: 1})", "E703", ASKED + "an attribute of a.b is called 5, expected"),
    "op_list": ("lambda s, d: operation('a.b', attributes={'x': [1]})", "E703", ASKED + "the attribute x of a.b is [1], expected a"),
    "op_nothing": ("lambda s, d: operation('a.b', attributes={'x': None})", "E703", ASKED + "the attribute x of a.b is None, expected"),
    "op_long": ("lambda s, d: operation('a.b', attributes={'x': 'x' * 10**8})", "E703", "expected a text of at most 10000 characters"),
    "op_half": ("lambda s, d: operation('a.b', attributes={'x': '\\udcff'})", "E703", "expected a text of at most 10000 characters"),
    "op_wide": ("lambda s, d: operation('a.b', attributes={'x': 1 << 80})", "E703", "expected a number of 64 bits"),
    "op_wish": ("lambda s, d: wish(None)", "E703", ASKED + "a wish is called None, expected a line of text"),
}


def bringing(name: str, function: str) -> str:
    listed = f"dialect=(DialectName(name={name!r}, target={name!r}),)"
    body = (
        f"@hookimpl\ndef manifest(self): return replace(AcmeBackend.manifest(self), {listed})\n"
        f"@hookimpl\ndef dialect(self): return {{{name!r}: {function}}}"
    )
    names = "from functools import partial\nfrom zellige.language.dialects import operation, wish\n"
    return f"import sys\nfrom dataclasses import replace\n{names}async def later(s, d): pass\n{backend(body)}"


def using(name: str, count: int = 2) -> Any:
    @T.prim_func
    def main(A: T.Tensor((16,), "float32"), B: T.Tensor((16,), "float32")):
        with T.Kernel(1):
            tile = T.alloc_shared((16,), "float32")
            T.copy(A, tile)
            getattr(T, name)(*[tile] * count)
            T.copy(tile, B)

    return main


def test_an_operation_that_is_broken_is_said_of_its_backend(install: Install) -> None:
    install({name: bringing(name, function) for name, (function, _, _) in OPERATIONS.items()})
    wrong = []
    for name, (_, code, words) in OPERATIONS.items():
        with pytest.raises(ZelligeError) as caught:
            zl.compile(using(name), target=name)
        said = str(caught.value)
        if caught.value.code != code or words.format(name=name) not in said or f"the backend '{name}'" not in said or len(said) > 4000:
            wrong.append(f"{name}: expected {code} with {words!r}, got {said[:500]}")
    assert not wrong, "\n".join(wrong)
    assert works("cpu")


def test_the_vendors_line_is_named_beside_the_users(install: Install) -> None:
    install({"op_bad": bringing("op_bad", "lambda s, d: operation('op')")})
    with pytest.raises(ZelligeError) as caught:
        zl.compile(using("op_bad"), target="op_bad")
    (told,) = caught.value.diagnostics
    assert told.span is not None and told.span.file == __file__
    assert told.line_of_fault is not None and told.line_of_fault.file.endswith("plug_op_bad.py")


def test_what_a_user_gets_wrong_with_an_operation_stays_the_users(install: Install) -> None:
    install({"op_good": bringing("op_good", "lambda s, d: operation('op_good.move', reads=(s,), writes=(d,))")})
    with pytest.raises(ZelligeError, match=re.escape("missing 1 required positional argument: 'd'")) as caught:
        zl.compile(using("op_good", 1), target="op_good")
    assert caught.value.code == "E110"
    with pytest.raises(ZelligeError, match="has no meaning for op_good.move"):
        zl.compile(using("op_good"), target="cpu")


def test_attributes_that_the_text_form_has_are_taken(install: Install) -> None:
    given = "{'flag': True, 'count': -3, 'scale': float('inf'), 'word': 'two\\nlines'}"
    install({"op_rich": bringing("op_rich", f"lambda s, d: operation('op_rich.move', reads=(s,), writes=(d,), attributes={given})")})
    text = using("op_rich").kernel
    assert print_kernel(parse_kernel(print_kernel(text))) == print_kernel(text)
