"""How copies of loops with stages are issued and waited for is a choice of the backend too: ranked, labelled, refused, checked; and without
the instruction that it names the next one is taken, and no result changes."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import zellige as zl
import zellige.language as T
from zellige.diagnostics import Unsupported, ZelligeError
from zellige.explain import explain
from zellige.plan.nodes import Decision
from zellige.plugin.contract import Capabilities
from zellige.plugin.registry import Registry
from zellige_intrinsics import changed, product_rows
from zellige_intrinsics.tables import copy_rows

Install = Callable[[dict[str, str]], Registry]

M, N, K = 64, 64, 160

BACKEND = """
from acme_machine import *
from zellige.plugin.contract import Synchronisation
MINE = CopyPath(source="global", destination="shared", mechanism="mover", engine="move", is_asynchronous=True)
TICKS, TOCKS, DOOR = (Synchronisation(mechanism=m, scope=s) for m, s in (("ticks", "token"), ("tocks", "token"), ("door", "block")))
class Offers(AcmeBackend):
    @hookimpl
    def describe(self, target):
        before = AcmeBackend.describe(self, target)
        engines = (*before.engines, Engine(name="move", kind="copy", is_asynchronous=True))
        return replace(before, copies=(MINE, *before.copies), engines=engines, synchronisation=(TICKS, TOCKS, DOOR))
    @hookimpl
    def candidates(self, operation, ctx):
        if operation.kind != "pipeline": return None
        %s
backend = Offers('offers')
"""


@T.prim_func
def product(A: T.Tensor((M, K), "float16"), B: T.Tensor((K, N), "float16"), C: T.Tensor((M, N), "float32")):
    with T.Kernel(T.ceildiv(N, 32), T.ceildiv(M, 32), threads=64) as (bx, by):
        a = T.alloc_shared((32, 32), "float16")
        b = T.alloc_shared((32, 32), "float16")
        c = T.alloc_fragment((32, 32), "float32")
        T.clear(c)
        for k in T.Pipelined(T.ceildiv(K, 32), num_stages=3):
            T.copy(A[by * 32, k * 32], a)
            T.copy(B[k * 32, bx * 32], b)
            T.gemm(a, b, c)
        T.copy(c, C[by * 32, bx * 32])


def told(target: str) -> list[Decision]:
    """What is decided for the copy of a, then of b."""
    return [d for d in explain(product, target).decisions if re.fullmatch(r"how does the copy to [ab] overlap with its loop\?", d.question)]


def run(target: str) -> Any:
    a = np.random.default_rng(0).integers(-3, 4, (M, K)).astype(np.float16)
    b = np.random.default_rng(1).integers(-3, 4, (K, N)).astype(np.float16)
    c = np.zeros((M, N), np.float32)
    made = zl.compile(product, target=target)
    made(a, b, c)
    np.testing.assert_array_equal(c, a.astype(np.float32) @ b.astype(np.float32))
    return made


def depth(target: str) -> int:
    (launch,) = explain(product, target).planned.launches
    return max((channel.depth for channel in launch.channels), default=1)


def test_without_an_answer_the_capabilities_offer(install: Install) -> None:
    install({"offers": BACKEND % "return None"})
    for decision in told("offers"):
        assert decision.chosen == "issued ahead by mover, waited for by ticks"
        assert dict(decision.rejected) == {
            "mover with tocks": "fits as well; mover with ticks comes first",
            "in its turn": "an emulation comes behind what the target has, here mover with ticks",
        }
    assert (len(told("offers")), depth("offers")) == (2, 3)
    run("offers")


def test_answers_see_the_copy_and_are_ranked(install: Install) -> None:
    install({"offers": BACKEND % """seen = (operation.shape, operation.dtypes, operation.spaces, operation.stages, len(operation.offered))
        return (Candidate(name="early", because="it may", cost=9, path=MINE, synchronisation=TICKS), *operation.offered[-1:],
                Candidate(name="late", because=str(seen), cost=1, synchronisation=TOCKS),
                Rejection(name="lift", reason="goes up only"))"""})  # fmt: skip
    first = told("offers")[0]
    assert first.chosen == "issued ahead by mover, waited for by tocks"
    assert first.because == "((32, 32), ('float16', 'float16'), ('global', 'shared'), 3, 3)"
    assert dict(first.rejected)["early"] == "fits, at a cost of 9 above 1"
    assert dict(first.rejected)["lift"] == "goes up only"
    (launch,) = explain(product, "offers").planned.launches
    assert [channel.mechanism for channel in launch.channels] == ["tocks"]
    run("offers")


def test_an_emulation_is_labelled_and_copies_stay_in_their_place(install: Install) -> None:
    install({"offers": BACKEND % """return (Candidate(name="by turns", because="the mover sleeps", is_native=False, avoided_by="waking it"),
                Rejection(name="mover", reason="sleeps"))"""})  # fmt: skip
    for decision in told("offers"):
        assert (decision.chosen, decision.because) == ("by turns (emulated)", "the mover sleeps; avoided by waking it")
        assert dict(decision.rejected) == {"mover": "sleeps"}
    assert depth("offers") == 1
    run("offers")


def test_copies_that_two_queues_hold_do_not_run_ahead_together(install: Install) -> None:
    install({"offers": BACKEND % """wait = TICKS if operation.statement.dst.buffer.name == "a" else TOCKS
        return (Candidate(name="mover", because="it may", synchronisation=wait),)"""})  # fmt: skip
    assert [decision.question for decision in told("offers")] == ["how does the copy to a overlap with its loop?"]
    (other,) = [d for d in explain(product, "offers").decisions if d.question == "can the copy to b run ahead?"]
    assert (other.chosen, other.because.split(",")[0]) == ("no", "it is issued or waited for otherwise than the copy to a")
    run("offers")


def test_only_rejections_are_refused_with_the_table(install: Install) -> None:
    install({"offers": BACKEND % 'return (Rejection(name="mover", reason="sleeps"), Rejection(name="by hand", reason="has none"))'})
    with pytest.raises(Unsupported) as caught:
        zl.compile(product, target="offers")
    assert caught.value.code == "E420"
    assert "executes pipeline 32x32 of float16 in 3 stages:\n    mover    sleeps\n    by hand  has none" in str(caught.value)


WRONG = {
    "return ('fast',)": "answered str for pipeline 32x32 of float16 in 3 stages, expected a tuple of candidates",
    "return ()": "answered nothing for pipeline 32x32 of float16 in 3 stages",
    "return (Candidate(name='x', because='y', synchronisation='ticks'),)": "Candidate.synchronisation is 'ticks', expected Synchronisation",
    "return (Candidate(name='x', because='y', path=ctx.capabilities.copies[1]),)":
        "it issues the copy by moves, and what executes it is mover",
    "return (Candidate(name='x', because='y', path=MINE),)": "it issues the copy by mover, and names nothing that waits for it",
    "return (Candidate(name='x', because='y', synchronisation=DOOR),)":
        "door of the scope block is none of what waits for copies on this target (ticks, tocks)",
    "return (Candidate(name='x', because='y', synchronisation=Synchronisation(mechanism='hope', scope='token')),)":
        "hope of the scope token is none of what waits for copies",
}  # fmt: skip


@pytest.mark.parametrize("answer", WRONG)
def test_an_impossible_answer_is_said(answer: str, install: Install) -> None:
    install({"offers": BACKEND % answer})
    with pytest.raises(ZelligeError) as caught:
        zl.compile(product, target="offers")
    assert caught.value.code == "E703"
    assert WRONG[answer] in str(caught.value)
    run("cpu")


def test_a_wait_for_what_is_not_asynchronous_is_said(install: Install) -> None:
    source = BACKEND % "return (Candidate(name='x', because='y', synchronisation=TICKS),)"
    install({"offers": source.replace("copies=(MINE, *before.copies)", "copies=before.copies")})
    with pytest.raises(ZelligeError, match="ticks has nothing to wait for: moves, which executes the copy, is not asynchronous") as caught:
        zl.compile(product, target="offers")
    assert caught.value.code == "E703"


def test_an_answer_that_raises_is_said(install: Install) -> None:
    install({"offers": BACKEND % "return operation.nothing"})
    with pytest.raises(ZelligeError, match="raised in its hook candidates: AttributeError") as caught:
        zl.compile(product, target="offers")
    assert caught.value.code == "E709"


# ---- our own


def test_the_template_issues_and_waits_and_without_the_wait_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    from dataclasses import replace

    from zellige.cache import memo
    from zellige.plugin.hooks import hookimpl
    from zellige.plugin.registry import registry
    from zellige_template.backend import TemplateBackend

    assert {d.chosen for d in told("template")} == {"issued ahead by dma, waited for by counted wait"}
    assert re.search(r"dma copies .*\n(.*\n)*.*wait copies \d", run("template").get_kernel_source())
    describe = TemplateBackend.describe

    @hookimpl
    def without_waits(self: TemplateBackend, target: Any) -> Capabilities:
        return replace(describe(self, target), synchronisation=())

    try:
        with monkeypatch.context() as patch:
            patch.setattr(TemplateBackend, "describe", without_waits)
            registry.cache_clear()
            memo.clear()
            for decision in told("template"):
                assert decision.chosen == "in its turn (emulated)"
                way = "an asynchronous copy from global to local, and what waits for it"
                assert decision.because == f"nothing waits for the dma; avoided by {way}"
            text = run("template").get_kernel_source()
            assert "wait at_once 0" in text
            assert "wait copies" not in text
    finally:
        registry.cache_clear()
        memo.clear()


def prefetches(made: Any) -> int:
    return len(re.findall(r"\bprefetcht1\b|\bprfm\s+pldl2keep", made.get_asm()))


def test_the_processor_asks_for_lines_and_without_the_instruction_does_not() -> None:
    family, name = next((f, row.name) for f in ("cpu_x86", "cpu_arm") for row in copy_rows(f) if row.destination == "cache" and is_ours(f))
    assert {d.chosen for d in told("cpu")} == {f"lines asked for ahead by {name}"}
    assert prefetches(run("cpu")) > 0
    with changed(family, without=(name,)):
        for decision in told("cpu"):
            assert decision.chosen == "in its turn (emulated)"
            assert decision.because.endswith(f"or putting {name} back into the table of instructions")
        assert prefetches(run("cpu")) == 0
    assert prefetches(run("cpu")) > 0


def is_ours(family: str) -> bool:
    """Whether this processor has instructions of a family."""
    units = {unit.name for unit in explain_capabilities("cpu").matmul}
    return any(row.name in units for row in product_rows(family))


def explain_capabilities(target: str) -> Capabilities:
    from zellige.plugin.registry import registry

    resolved = registry().resolve(target)
    return registry().backend(resolved).describe(resolved)


def test_a_copy_that_no_product_packs_is_in_its_turn_on_the_processor() -> None:
    @T.prim_func
    def summed(A: T.Tensor((8, 64), "float32"), B: T.Tensor((8,), "float32")):
        with T.Kernel(1) as _:
            tile = T.alloc_shared((8, 16), "float32")
            total = T.alloc_fragment((8,), "float32")
            T.clear(total)
            for k in T.Pipelined(4, num_stages=2):
                T.copy(A[0, k * 16], tile)
                T.reduce_sum(tile, total, dim=1, clear=False)
            T.copy(total, B)

    (decision,) = [d for d in explain(summed, "cpu").decisions if d.question == "how does the copy to tile overlap with its loop?"]
    assert decision.chosen == "in its turn (emulated)"
    assert decision.because.endswith("or a product that packs the operand")


@pytest.mark.parametrize("name", ["cp.async.wait_group", "cp.async.commit_group"])
def test_lanes_wait_for_groups_and_without_the_instruction_load_in_turn(name: str) -> None:
    assert {d.chosen for d in told("cuda:sm_80")} == {"issued ahead by cp.async, waited for by cp.async groups"}
    assert "cp.async.wait_group" in zl.compile(product, target="cuda:sm_80,simulate").get_kernel_source()
    with changed("nvidia", without=(name,)):
        for decision in told("cuda:sm_80"):
            assert decision.chosen == "in its turn (emulated)"
            assert dict(decision.rejected)[name] == "it was taken out of the table of instructions"
        made = run("cuda:sm_80,simulate")
        assert "cp.async" not in made.get_kernel_source()
    assert {d.chosen for d in told("cuda:sm_75")} == {"in its turn (emulated)"}
    assert all("avoided by" in d.because and "an architecture from sm_80 on" in d.because for d in told("cuda:sm_75"))

