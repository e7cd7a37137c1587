"""A backend decides what executes copies and reductions, and replaces core's passes: ranked, labelled, refused with the table."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import zellige as zl
import zellige.language as T
from zellige.diagnostics import Unsupported, ZelligeError
from zellige.explain import explain
from zellige.ir.stmt import Copy, Gemm, Reduce
from zellige.plugin.registry import Registry

Install = Callable[[dict[str, str]], Registry]

BACKEND = """
from acme_machine import *
from zellige.plugin.contract import Replace, Synchronisation
class Offers(AcmeBackend):
    @hookimpl
    def candidates(self, operation, ctx):
        (path,) = ctx.capabilities.copies
        %s
    @hookimpl
    def passes(self, stage, ctx):
        %s
backend = Offers('offers')
"""


def summed(dtype: str = "float32") -> Any:
    @T.prim_func
    def main(A: T.Tensor((8, 16), dtype), B: T.Tensor((8,), dtype)):
        with T.Kernel(1) as _:
            tile = T.alloc_shared((8, 16), dtype)
            total = T.alloc_fragment((8,), dtype)
            T.copy(A, tile)
            T.reduce_sum(tile, total, dim=1)
            T.copy(total, B)

    return main


def installed(install: Install, answers: str, passes: str = "return ()") -> None:
    install({"offers": BACKEND % (answers, passes)})


def run() -> None:
    a, b = np.arange(128, dtype=np.float32).reshape(8, 16), np.zeros(8, np.float32)
    zl.compile(summed(), target="offers")(a, b)
    np.testing.assert_array_equal(b, a.sum(axis=1))


COPIES = """if operation.kind != "copy": return None
        if operation.spaces[0] == "global":
            return (Candidate(name="burst", because="takes whole lines", priority=2, path=path), Rejection(name="gather", reason="is slow"))
        return (Candidate(name="by hand", because="nothing writes lines", is_native=False, avoided_by="a result of 64 bytes"),)"""


def test_copies_are_ranked_and_emulations_of_them_labelled(install: Install) -> None:
    installed(install, COPIES)
    found = explain(summed(), "offers")
    into, out = (d for d in found.decisions if d.question.startswith("how is"))
    assert (into.chosen, dict(into.rejected)) == ("moves", {"gather": "is slow"})
    assert into.because.endswith("; takes whole lines")
    assert out.chosen == "moves (emulated)"
    assert out.because.endswith("; nothing writes lines; avoided by a result of 64 bytes")
    (launch,) = found.planned.launches
    assert [c.is_native for c in launch.choices if isinstance(c.operation, Copy)] == [True, False]
    run()


def test_reductions_see_shape_types_spaces_and_layouts(install: Install) -> None:
    installed(
        install,
        """if operation.kind != "reduce": return None
        seen = f"{operation.shape} {operation.dtypes} {operation.spaces} {operation.layouts}"
        return (Candidate(name="tree", because=seen, is_native=False, avoided_by="8 rows of 8"),
                Rejection(name="adder", reason="is gone"))""",
    )
    found = explain(summed(), "offers")
    (told,) = found.about("tree")
    assert told.chosen == "tree (emulated)"
    assert told.because == "(8,) ('float32', 'float32') ('shared', 'fragment') ('', ''); avoided by 8 rows of 8"
    assert dict(told.rejected) == {"adder": "is gone"}
    (launch,) = found.planned.launches
    assert [c.is_native for c in launch.choices if isinstance(c.operation, Reduce)] == [False]
    run()


@T.prim_func
def multiplied(
    A: T.Tensor((16, 16), "float16"), B: T.Tensor((16, 16), "float16"), S: T.Tensor((16,), "int32"), C: T.Tensor((16, 16), "float32")
):
    with T.Kernel(1) as _:
        a, b = T.alloc_shared((16, 16), "float16"), T.alloc_shared((16, 16), "float16")
        c = T.alloc_fragment((16, 16), "float32")
        T.copy(A, a)
        T.copy(B, b)
        T.clear(c)
        T.gemm(a, b, c)
        for i, j in T.Parallel(16, 16):
            scale = T.alloc_var("float32")
            scale = T.cast(S[i], "float32")
            c[i, j] = c[i, j] * scale + T.cast(a[i, j], "float32")
        T.copy(c, C)


def test_points_see_the_types_and_spaces_that_they_read_then_those_that_they_write(install: Install) -> None:
    installed(
        install,
        """if operation.kind != "map": return None
        return (Candidate(name="points", because=f"{operation.shape} {operation.dtypes} {operation.spaces} {operation.layouts}"),)""",
    )
    (told,) = explain(multiplied, "offers").about("points")
    assert told.question == "what executes the map 16x16 of int32, float16, float32?"
    assert told.because == "(16, 16) ('int32', 'float16', 'float32') ('global', 'shared', 'fragment') ('', '', '')"


@pytest.mark.parametrize("who", ["the hook", "the unit"])
def test_a_product_of_a_unit_that_other_instructions_play_is_labelled(install: Install, who: str) -> None:
    """Whether the backend says so of the candidate or of the unit."""
    hook = "is_native=False, avoided_by='a newer card', unit=unit" if who == "the hook" else "is_native=unit.is_native, unit=unit"
    answers = f"""if operation.kind != "gemm": return None
        (unit,) = ctx.capabilities.matmul
        return (Candidate(name="played", because="by two instructions", {hook}),)"""
    unit = f"MatmulUnit(name='cube', engine='vec', a='float16', b='float16', c='float32', is_native={who == 'the hook'})"
    with_engines(install, f"matmul=({unit},)", answers)
    found = explain(multiplied, "offers")
    (told,) = found.about("what executes the product")
    assert told.chosen == "cube (emulated)"
    assert told.because == "by two instructions" + ("; avoided by a newer card" if who == "the hook" else "")
    (launch,) = found.planned.launches
    assert [c.is_native for c in launch.choices if isinstance(c.operation, Gemm)] == [False]


@pytest.mark.parametrize("kind", ["copy", "reduce"])
def test_nothing_that_fits_is_refused_with_the_table(install: Install, kind: str) -> None:
    rejections = 'Rejection(name="burst", reason="takes 64 bytes"), Rejection(name="by hand", reason="is out of order")'
    installed(install, f"""return ({rejections}) if operation.kind == "{kind}" else None""")
    with pytest.raises(Unsupported) as caught:
        zl.compile(summed(), target="offers")
    assert caught.value.code == "E420"
    assert "    burst    takes 64 bytes\n    by hand  is out of order" in str(caught.value)


@pytest.mark.parametrize(
    ("kind", "fields", "words"),
    [
        ("copy", "unit=ctx.capabilities.matmul[0]", "it names cube, which multiplies"),
        ("reduce", "unit=ctx.capabilities.matmul[0]", "it names cube, which multiplies"),
        ("reduce", "path=path", "it names moves, which copies"),
        ("copy", "synchronisation=Synchronisation(mechanism='ticks', scope='token')", "it names ticks, which waits for copies"),
        ("reduce", "engine='tree'", "the target has no engine tree (vec)"),
        ("copy", "path=CopyPath(source='*', destination='*', mechanism='m', engine='mover')", "the target has no engine mover (vec)"),
    ],
)
def test_candidates_are_of_the_kind_of_their_operation(install: Install, kind: str, fields: str, words: str) -> None:
    """Whichever is taken: one that is not is as wrong."""
    answers = f"Candidate(name='good', because='y', priority=9), Candidate(name='x', because='y', {fields})"
    installed(install, f"""return ({answers}) if operation.kind == "{kind}" else None""")
    with pytest.raises(ZelligeError) as caught:
        zl.compile(summed(), target="offers")
    assert caught.value.code == "E703"
    assert f"its candidate x of the hook candidates cannot execute the {kind} " in str(caught.value)
    assert words in str(caught.value)


WITH_ENGINES = """
    @hookimpl
    def describe(self, target):
        return replace(AcmeBackend.describe(self, target), %s)
backend = Offers"""


def with_engines(install: Install, capabilities: str, answers: str) -> None:
    install({"offers": (BACKEND % (answers, "return ()")).replace("\nbackend = Offers", WITH_ENGINES % capabilities)})


TREE = """return (Candidate(name="x", because="y", engine="tree"),) if operation.kind == "%s" else None"""


def test_another_engine_than_the_main_one_may_execute_an_operation(install: Install) -> None:
    with_engines(install, 'engines=(Engine(name="vec", kind="vector"), Engine(name="tree", kind="scalar"))', TREE % "reduce")
    (launch,) = explain(summed(), "offers").planned.launches
    assert {c.executor for c in launch.choices if isinstance(c.operation, Reduce)} == {"tree"}
    assert {c.executor for c in launch.choices if not isinstance(c.operation, Reduce)} == {"vec"}
    run()


@pytest.mark.parametrize("kind", ["copy", "reduce"])
def test_a_target_that_lists_no_engines_has_none_to_name(install: Install, kind: str) -> None:
    moves = 'CopyPath(source="*", destination="*", mechanism="moves")'
    with_engines(install, f"engines=(), matmul=(), copies=({moves},)", TREE % kind)
    with pytest.raises(ZelligeError) as caught:
        zl.compile(summed(), target="offers")
    assert caught.value.code == "E703"
    assert "the target has no engine tree (it lists none)" in str(caught.value)


def test_a_pass_is_replaced_inserted_before_and_after(install: Install) -> None:
    installed(
        install,
        "return None",
        """if stage != "legalise": return ()
        first, last = Seen("first", self.log), Seen("last", self.log)
        return (Insert(step=last, after=("simplify",)), Insert(step=first, before=("simplify",)),
                Replace(name="simplify", step=Seen("mine", self.log)))""",
    )
    run()
    assert sys.modules["plug_offers"].backend.log == ["first", "mine", "last"]


CHANGES = """if stage != "legalise": return ()
        ONE = Seen("mine", [])
        return (%s,)"""


@pytest.mark.parametrize(
    ("passes", "code", "words"),
    [
        ('return (Replace(name="nothing", step=Seen("x", [])),) if stage == "layout" else ()', "E712", "the stage has no such pass"),
        ('return (Replace(name="plan", step=Seen("x", [])),) if stage == "allocate" else ()', "E712", "nothing else makes a plan"),
        (CHANGES % 'Replace(name="simplify", step=ONE), Replace(name="simplify", step=ONE)', "E712", "replaces it already"),
        (CHANGES % 'Replace(name="simplify", step=ONE), Veto(name="simplify", reason="")', "E712", "offers replaces it already"),
        (CHANGES % 'Veto(name="simplify", reason=""), Replace(name="simplify", step=ONE)', "E712", "offers leaves it out already"),
        (CHANGES % 'Veto(name="simplify", reason=""), Veto(name="simplify", reason="")', "E712", "leaves it out already"),
        (CHANGES % 'Insert(step=Seen("", []))', "E712", "its name is '', expected a line of text"),
        (CHANGES % 'Replace(name="simplify", step=Seen("a\\n\\x1b[31m", []))', "E712", "its name is 'a.*31m', expected a line"),
        ('return (Veto(name="plan", reason="no"),) if stage == "allocate" else ()', "E712", "nothing else makes a plan"),
    ],
)
def test_what_cannot_be_replaced_is_said(install: Install, passes: str, code: str, words: str) -> None:
    installed(install, "return None", passes)
    with pytest.raises(ZelligeError, match=words) as caught:
        zl.compile(summed(), target="offers")
    assert caught.value.code == code
