"""What a plugin may do to the passes of a stage, a user may too: insert, replace, leave out; and hints reach the backend that has them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pytest

import zellige as zl
import zellige.language as T
from zellige import driver
from zellige.cache import memo
from zellige.cache.keys import options_text
from zellige.diagnostics import ZelligeError
from zellige.frontend.builder import Settings
from zellige.ir.expr import Binary, Const
from zellige.ir.parser import parse_kernel
from zellige.ir.printer import print_kernel
from zellige.ir.stmt import Atomic, AtomicTile, Copy, For, Gemm, Kernel, Map, Reduce, Store
from zellige.ir.traverse import rewrite, walk
from zellige.jit_options import options_of
from zellige.options import CompileOptions
from zellige.plugin.contract import Insert, Replace, Veto
from zellige.plugin.registry import Registry
from zellige.target import Target

Install = Callable[..., Registry]


@T.prim_func
def shifted(A: T.Tensor((8,), "float32"), B: T.Tensor((8,), "float32")):
    with T.Kernel(1) as _:
        for i in T.serial(8):
            B[i] = A[i] * 1.0 + 6.0


@dataclass(frozen=True)
class Changed:
    """What is stored, ``op`` a number."""

    name: str
    op: Literal["add", "mul"]
    number: float

    def __call__(self, kernel: Kernel) -> Kernel:
        def changed(node: Any) -> Any:
            if not isinstance(node, Store):
                return node
            return replace(node, value=Binary(op=self.op, left=node.value, right=Const(value=self.number, dtype=node.value.dtype)))

        return replace(kernel, launches=tuple(rewrite(launch, changed) for launch in kernel.launches))


def scaled(factor: float) -> Changed:
    return Changed("scaled", "mul", factor)


def added(summand: float) -> Changed:
    return Changed("added", "add", summand)


def _run(passes: list[Any], target: str = "cpu") -> Any:
    a, b = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)
    zl.compile(shifted, target=target, passes=passes)(a, b)
    return b - 6


@pytest.mark.parametrize("target", ["cpu", "interp"])
def test_a_user_inserts_before_and_after(target: str) -> None:
    a = np.arange(8, dtype=np.float32)
    assert (_run([Insert(step=scaled(2.0)), Insert(step=added(1.0))], target) == (a + 6) * 2 + 1 - 6).all()
    assert (_run([Insert(step=scaled(2.0)), Insert(step=added(1.0), before=("scaled",))], target) == (a + 7) * 2 - 6).all()
    assert (_run([Insert(step=scaled(2.0), after=("added",)), ("legalise", Insert(step=added(1.0)))], target) == (a + 7) * 2 - 6).all()


def _options(passes: list[Any]) -> CompileOptions:
    return options_of({"passes": passes}, "compile").compile_options(Settings(), Target(name="cpu"))


def _legal(passes: list[Any]) -> str:
    return driver.dump(shifted.kernel, "cpu", "legal", _options(passes))


def test_a_user_leaves_a_pass_out_and_replaces_it() -> None:
    assert "A[i] + 6.0" in _legal([])
    assert "A[i] * 1.0 + 6.0" in _legal([Veto(name="simplify", reason="to see what was written")])
    assert "(A[i] * 1.0 + 6.0) * 2.0" in _legal([Replace(name="simplify", step=scaled(2.0))])
    a = np.arange(8, dtype=np.float32)
    assert (_run([Veto(name="simplify", reason="")]) == a).all()
    assert (_run([Replace(name="simplify", step=scaled(2.0))]) == (a + 6) * 2 - 6).all()


def test_a_user_changes_what_a_plugin_brought(install: Install) -> None:
    assert install({"acme": "from acme_machine import backend\n"}).named("acme")
    log = sys.modules["acme_machine"].backend.log
    log.clear()
    _run([Veto(name="acme-simplify", reason="")], "acme")
    assert "acme-simplify" not in log
    assert {"acme-sync", "acme-lower"} <= set(log)


class Raising:
    """A pass that raises where it is asked for an attribute."""

    def __init__(self, attribute: str) -> None:
        self.attribute = attribute

    def __getattr__(self, name: str) -> Any:
        raise OSError(name) if name == self.attribute else AttributeError(name)

    def __call__(self, kernel: Kernel) -> Kernel:
        return kernel


def again(kernel: Kernel) -> Kernel:
    _run([again])
    return kernel


@pytest.mark.parametrize(
    ("passes", "code", "words"),
    [
        ([Veto(name="nothing", reason="")], "E712", "cannot leave out the pass 'nothing' at the stage 'legalise'"),
        ([("allocate", Veto(name="plan", reason=""))], "E712", "nothing else makes a plan"),
        ([("allocate", Replace(name="plan", step=scaled(1.0)))], "E712", "nothing else makes a plan"),
        ([Veto(name="simplify", reason=""), Replace(name="simplify", step=scaled(1.0))], "E712", "leaves it out already"),
        ([Insert(step=scaled(1.0), before=("missing",))], "E712", "the stage has no pass 'missing'"),
        ([Insert(step=scaled(1.0), after=("added",)), Insert(step=added(1.0), after=("scaled",))], "E711", "scaled"),
        ([Replace(name="simplify", step=lambda kernel: None)], "E713", "made a NoneType"),
        ([Insert(step=lambda kernel: kernel.nonsense)], "E718", "failed: AttributeError"),
        ([Insert(step="simplify")], "E159", "Insert: its step str 'simplify' is no pass: expected a function"),
        ([Insert(step=scaled(1.0), before="simplify")], "E159", "Insert: its before is 'simplify', expected a tuple of names"),
        ([Veto(name=4, reason="")], "E159", "Veto: its name is 4, expected the name of a pass"),
        ([("tidying", Veto(name="simplify", reason=""))], "E159", "'tidying' is no stage"),
        ([Raising("name")], "E159", "a pass of the class Raising raises where it is asked for its name: OSError: name"),
        ([Insert(step=Raising("name"))], "E159", "raises where it is asked for its name: OSError: name"),
        ([Raising("stage")], "E159", "raises where it is asked for its stage: OSError: stage"),
        ([lambda kernel: _run([again]) and kernel], "E718", "it compiles with itself: it is running 3 times at once"),
    ],
)
def test_what_a_user_gets_wrong_is_told(passes: list[Any], code: str, words: str) -> None:
    with pytest.raises(ZelligeError) as caught:
        zl.compile(shifted, target="cpu", passes=passes)
    assert caught.value.code == code
    assert words in str(caught.value)


def test_a_strategy_that_raises_where_it_is_asked_for_its_name_is_told() -> None:
    with pytest.raises(ZelligeError, match="schedule: a pass of the class Raising raises where it is asked for its name") as caught:
        zl.compile(shifted, target="cpu", schedule=Raising("name"))
    assert caught.value.code == "E159"


def test_changes_belong_to_the_key_of_the_cache() -> None:
    asked: list[list[Any]] = [
        [], [scaled(2.0)], [Insert(step=scaled(3.0))], [Insert(step=scaled(2.0), before=("simplify",))],
        [Replace(name="simplify", step=scaled(2.0))], [Veto(name="simplify", reason="")], [("layout", Insert(step=scaled(2.0)))],
    ]  # fmt: skip
    texts = [options_text(_options(passes)) for passes in asked]
    assert len(set(texts)) == len(asked)
    assert _run([Veto(name="simplify", reason="")]) is not None
    memo.clear()
    assert (_run([Replace(name="simplify", step=scaled(2.0))]) != _run([])).any(), "not what was compiled without it"


# ---- hints of a backend


HINTED = '''
from acme_machine import AcmeBackend, replace
from zellige.plugin.hooks import hookimpl

SEEN = []

class Hinted(AcmeBackend):
    @hookimpl
    def manifest(self):
        return replace(AcmeBackend.manifest(self), name="hinted", targets=("hinted",), hints=("acme_priority", "acme_word"), dialect=())
    @hookimpl
    def emit(self, planned, ctx):
        for launch in planned.launches:
            SEEN.extend(choice.operation.hints for choice in launch.choices if getattr(choice.operation, "hints", ()))
        return AcmeBackend.emit(self, planned, ctx)

backend = Hinted("hinted")
'''


def _hinted() -> Any:
    @T.prim_func
    def main(
        A: T.Tensor((16, 32), "float16"), B: T.Tensor((32, 16), "float16"), C: T.Tensor((16, 16), "float32"), D: T.Tensor((16,), "float32")
    ):
        with T.Kernel(1, acme_word="launch") as _:
            a, b = T.alloc_shared((16, 16), "float16"), T.alloc_shared((16, 16), "float16")
            c, d = T.alloc_fragment((16, 16), "float32"), T.alloc_fragment((16,), "float32")
            T.clear(c)
            for k in T.Pipelined(2, num_stages=2, acme_priority=1):
                T.copy(A[0, k * 16], a, acme_priority=3)
                T.async_copy(B[k * 16, 0], b, acme_word="b")
                T.gemm(a, b, c, acme_priority=0.5)
            T.reduce_sum(c, d, dim=1, acme_word="sum")
            for i in T.Parallel(16, acme_word="points"):
                d[i] = d[i] + 1.0
            T.copy(c, C)
            T.atomic_add(D, d, acme_word="tile")
            T.atomic_add(D[0], 1.0, acme_word="element")

    return main


def test_hints_stand_in_the_statements_and_in_the_text(install: Install) -> None:
    install({"hinted": HINTED})
    kernel = _hinted().kernel
    found: dict[str, list[Any]] = {}
    for node in walk(kernel):
        if isinstance(node, (Copy, Gemm, Reduce, Map, Atomic, AtomicTile)):
            found.setdefault(type(node).__name__, []).append(node.hints)
        elif isinstance(node, For):
            found.setdefault("Pipelined", []).append(getattr(node.kind, "hints", ()))
    assert found["Copy"][:2] == [(("acme_priority", 3),), (("acme_word", "b"),)]
    assert found["Gemm"] == [(("acme_priority", 0.5),)]
    assert found["Reduce"] == [(("acme_word", "sum"),)]
    assert found["Pipelined"] == [(("acme_priority", 1),)]
    assert (("acme_word", "points"),) in found["Map"]
    assert found["AtomicTile"] == [(("acme_word", "tile"),)]
    assert found["Atomic"] == [(("acme_word", "element"),)]
    text = print_kernel(kernel)
    assert 'hints={"acme_priority": 3})\n' in text
    assert 'hint("acme_word", "launch")' in text
    assert print_kernel(parse_kernel(text)) == text


def test_hints_reach_the_lowering_of_their_backend_and_change_nothing_elsewhere(install: Install) -> None:
    install({"hinted": HINTED})
    main = _hinted()
    rng = np.random.default_rng(3)
    a, b = rng.integers(-3, 4, (16, 32)).astype(np.float16), rng.integers(-3, 4, (32, 16)).astype(np.float16)
    expected = a.astype(np.float32) @ b.astype(np.float32)
    for target in ("hinted", "cpu", "interp", "template"):
        c, d = np.zeros((16, 16), np.float32), np.zeros(16, np.float32)
        zl.compile(main, target=target)(a, b, c, d)
        assert (c == expected).all(), target
        assert (d == expected.sum(1) + 1 + (np.arange(16) == 0)).all(), target
    seen = sys.modules["plug_hinted"].SEEN
    assert {(("acme_priority", 3),), (("acme_word", "b"),), (("acme_priority", 0.5),), (("acme_word", "sum"),)} <= set(seen)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda a, b: T.copy(a, b, acme_priority=[3]), "T.copy takes a bool, a number or a string as the hint 'acme_priority', not"),
        (lambda a, b: T.copy(a[0], b[0], acme_priority=3), "T.copy has no place for the hint 'acme_priority': a copy of one element"),
        (lambda a, b: T.copy(a, b, acme_priorty=3), "T.copy has no argument 'acme_priorty'"),
    ],
)
def test_a_hint_that_cannot_arrive_is_refused(call: Any, words: str, install: Install) -> None:
    install({"hinted": HINTED})

    def main(A: T.Tensor((8,), "float32"), B: T.Tensor((8,), "float32")):
        with T.Kernel(1) as _:
            call(A, B)

    with pytest.raises(ZelligeError) as caught:
        zl.compile(T.prim_func(main), target="cpu")
    assert caught.value.code == "E259"
    assert words in str(caught.value)


