"""Backends whose hook ``fit``, or whose answers about pipelines, are broken or lie: each is said with the hook's name, the user's kernel
stays as it is, and all others work on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from broken_sources import works

import zellige as zl
import zellige.language as T
from zellige.cache import memo
from zellige.diagnostics import ZelligeError
from zellige.explain import explain
from zellige.ir.printer import print_kernel
from zellige.plugin.registry import Registry

Install = Callable[..., Registry]

SOURCE = """
from acme_machine import *
from dataclasses import replace
from zellige.diagnostics import CompileError, InternalError
from zellige.plan.nodes import Decision
from zellige.plugin.contract import Fitted, Revision, Synchronisation
MINE = CopyPath(source="global", destination="shared", mechanism="mover", engine="move", is_asynchronous=True)
TICKS, TOCKS = (Synchronisation(mechanism=m, scope="token") for m in ("ticks", "tocks"))
def about(chosen="less", question="how much?"):
    return Decision(question=question, chosen=chosen, because="it must")
def asking(**changes):
    return [Revision(**{"launch": 0, "decisions": (), **changes})]
%s
class Broken(AcmeBackend):
    @hookimpl
    def describe(self, target):
        before = AcmeBackend.describe(self, target)
        engines = (*before.engines, Engine(name="move", kind="copy", is_asynchronous=True))
        return replace(before, copies=(MINE, *before.copies), engines=engines, synchronisation=(TICKS, TOCKS))
    @hookimpl
    %s
backend = Broken(__name__.removeprefix("plug_"))
"""


def fits(body: str, before: str = "") -> str:
    lines = "\n        ".join(body.splitlines())
    return SOURCE % (before, f"def fit(self, planned, asked, ctx):\n        {lines}")


def once(answer: str) -> str:
    """Asks once, then is content."""
    return fits(f"if asked: return Fitted()\nreturn {answer}")


def pipes(body: str, before: str = "") -> str:
    lines = "\n        ".join(body.splitlines())
    head = "def candidates(self, operation, ctx):\n        if operation.kind != 'pipeline': return None"
    return SOURCE % (before, f"{head}\n        {lines}")


def offers(fields: str) -> str:
    return pipes(f"return (Candidate(**{{'name': 'x', 'because': 'y', **dict({fields})}}),)")


def sly(kind: str, method: str) -> str:
    return f"class Sly({kind}):\n    def {method}"


CHANGED = "its hook fit changed the plan that it was shown"
FITS: dict[str, tuple[str, str, str]] = {
    "lazy": (fits("yield from asking()"), "E703", "its hook fit answered generator, expected Fitted or a tuple of Revision"),
    "by_launch": (fits("return {0: asking()[0]}"), "E703", "its hook fit answered dict, expected"),
    "the_class": (fits("return Fitted"), "E703", "its hook fit answered type, expected"),
    "undecided": (fits("return [*asking(), Fitted()]"), "E703", "its hook fit answered Fitted, expected"),
    "of_more_memory": (
        once("asking(capabilities=replace(ctx.capabilities, spaces=(*ctx.capabilities.spaces, Space(name='acme.more'))))"),
        "E703",
        "its hook fit asked for a plan for more than its hook describe says that there is: a space 'acme.more'",
    ),
    "of_another_target": (
        once("asking(capabilities=replace(ctx.capabilities, target='cpu'))"),
        "E703",
        "its hook fit answered capabilities that cannot be: target is 'cpu', asked for was 'of_another_target'",
    ),
    "capabilities_as_text": (once("asking(capabilities='less')"), "E703", "its hook fit answered what cannot be: Revision.capabilities is"),
    "no_rate": (once("asking(capabilities=replace(ctx.capabilities, bytes_per_second=float('nan')))"), "E703", "bytes_per_second is nan"),
    "before_the_first": (fits("return asking(launch=-1)"), "E703", "its hook fit asked for a revision of launch -1 of a kernel that has 1"),
    "past_all": (fits("return asking(launch=10**30)"), "E703", "Revision.launch is 1000000000000000000000000000000, expected a number"),
    "the_true_one": (fits("return asking(launch=True)"), "E703", "Revision.launch is True, expected int"),
    "twice_at_once": (once("asking() * 2"), "E703", "its hook fit asked 2 times at once for a revision of launch 0"),
    "hundreds_at_once": (once("asking() * 300"), "E703", "its hook fit asked 300 times at once for a revision of launch 0"),
    "never_content": (fits("return asking(capabilities=ctx.capabilities)"), "E703", "its hook fit asked for another plan 16 times"),
    "swings": (
        fits("return asking(capabilities=replace(ctx.capabilities, threads=1 + len(asked) % 2))"),
        "E703",
        "its hook fit asked for another plan 16 times",
    ),
    "asks_for_nothing_to_run_on": (
        fits("return asking(capabilities=replace(ctx.capabilities, engines=(), copies=(), matmul=(), synchronisation=(), spaces=()))"),
        "E709",
        "raised in its hook candidates: ValueError: not enough values to unpack",
    ),
    "second_plan_as_text": (fits("return Fitted(otherwise='the same')"), "E703", "Fitted.otherwise is 'the same', expected a tuple"),
    "decides_in_numbers": (once("asking(decisions=(about(3),))"), "E703", "Revision.decisions[0].chosen is 3, expected str"),
    "decides_in_a_list": (once("asking(decisions=[about()])"), "E703", "Revision.decisions is [Decision("),
    "decides_nothing": (once("asking(decisions=(about(''),))"), "E703", "Revision.decisions[0].chosen is '', expected a line of text"),
    "clears_the_screen": (once("asking(decisions=(about('\\x1b[2J'),))"), "E703", "decisions[0].chosen is '\\x1b[2J', expected a line of"),
    "rejects_a_word": (once("asking(decisions=(replace(about(), rejected=('x',)),))"), "E703", "rejected[0] is 'x', expected a tuple"),
    "never_ends_deciding": (
        once("asking(decisions=(about(),) * 200_000)"),
        "E703",
        "its hook fit says 200000 decisions of launch 0, more than 10000",
    ),
    "renames_the_target": (fits("object.__setattr__(planned, 'target', 'mine')\nreturn Fitted()"), "E703", CHANGED),
    "drops_the_launches": (fits("object.__setattr__(planned, 'launches', ())\nreturn Fitted()"), "E703", CHANGED),
    "breaks_a_launch": (fits("object.__setattr__(planned.launches[0], 'roles', None)\nreturn Fitted()"), "E703", CHANGED),
    "breaks_a_launch_and_asks": (fits("object.__setattr__(planned.launches[0], 'roles', None)\nreturn asking()"), "E703", CHANGED),
    "drops_decisions": (fits("object.__setattr__(planned.launches[0], 'decisions', ())\nreturn Fitted()"), "E703", CHANGED),
    "shortens_the_kernel": (
        fits("launch = planned.kernel.launches[0]\nobject.__setattr__(launch, 'body', launch.body[:1])\nreturn Fitted()"),
        "E703",
        "its hook",
    ),
    "leaves": (fits("raise SystemExit(3)"), "E709", "raised in its hook fit: SystemExit: 3"),
    "blames_core": (fits("raise InternalError('core is bad')"), "E709", "raised in its hook fit: InternalError"),
    "says_nothing": (fits("raise CompileError()"), "E709", "raised in its hook fit: TypeError: CompileError takes what it tells"),
    "compiles_wrongly": (
        fits("import zellige\nzellige.compile(7)"),
        "E156",
        "note: said by the backend 'compiles_wrongly' in its hook fit",
    ),
    "hides": (
        fits("return Sly()", sly("Fitted", "__getattribute__(self, name): raise OSError('sly')")),
        "E709",
        "raised in its hook fit: OSError: sly",
    ),
    "hides_decisions": (
        fits("return asking(decisions=(Sly(question='q', chosen='c', because='b'),))",
             sly("Decision", "__getattribute__(self, name): raise OSError('sly')")),
        "E709",
        "raised in its hook fit: OSError: sly",
    ),
    "endless_list": (
        fits("return Sly(asking())", sly("list", "__iter__(self):\n        while True: yield 1")),
        "E703",
        "its hook fit asked for another plan 16 times",
    ),
    "no_hash": (
        fits("return asking(capabilities=Sly(target=str(ctx.target)))", sly("Capabilities", "__hash__(self): return 1 / 0")),
        "E709",
        "raised in its method __hash__: ZeroDivisionError",
    ),
}  # fmt: skip
"""Name to source, code and words of the error."""

PIPELINES: dict[str, tuple[str, str, str]] = {
    "free": (offers("cost=float('-inf'), synchronisation=TICKS"), "E703", "answered what cannot be: Candidate.cost is -inf"),
    "first_of_all": (offers("priority=10**30"), "E703", "Candidate.priority is 1000000000000000000000000000000, expected"),
    "half_first": (offers("priority=1.5"), "E703", "Candidate.priority is 1.5, expected int"),
    "maybe_native": (offers("is_native='no'"), "E703", "Candidate.is_native is 'no', expected bool"),
    "nameless": (offers("name=''"), "E703", "Candidate.name is '', expected a line of text"),
    "in_two_lines": (offers("name='a\\nb'"), "E703", "Candidate.name is 'a\\nb', expected a line of text"),
    "long": (offers("name='n' * 3_000_000"), "E703", "nnn', expected a line of text"),
    "no_stage": (offers("synchronisation=replace(TICKS, count=0)"), "E703", "Candidate.synchronisation.count is 0, less than 1"),
    "all_stages": (offers("synchronisation=replace(TICKS, count=10**9)"), "E703", "the scope token is none of what waits for copies"),
    "by_count": (offers("synchronisation=replace(TICKS, counts_bytes=True)"), "E703", "none of what waits for copies"),
    "no_engine": (offers("engine='warp drive', synchronisation=TICKS"), "E703", "the target has no engine warp drive (move, vec)"),
    "multiplies": (offers("unit=ctx.capabilities.matmul[0]"), "E703", "the pipeline 32x32 of float16 in 3 stages: it names cube"),
    "another_way": (offers("path=replace(MINE, alignment=64), synchronisation=TICKS"), "E703", "it issues the copy by mover, and what"),
    "of_nothing": (pipes("return operation.offered[:0]"), "E703", "its hook candidates answered nothing for pipeline 32x32 of float16"),
    "in_a_set": (pipes("return {1, 2}"), "E703", "its hook candidates answered set for pipeline"),
    "by_name": (pipes("return {'x': operation.offered[0]}"), "E703", "its hook candidates answered dict for pipeline"),
    "nested": (pipes("return (operation.offered,)"), "E703", "its hook candidates answered tuple for pipeline"),
    "the_question": (pipes("return operation"), "E703", "its hook candidates answered Operation for pipeline"),
    "a_hundred_thousand": (
        pipes("return tuple(operation.offered[0] for _ in range(100_000))"),
        "E703",
        "its hook candidates answered 100000 items, more than 10000 for pipeline",
    ),
    "turns_the_copy": (
        pipes("object.__setattr__(operation.statement, 'dst', operation.statement.src)\nreturn None"),
        "E703",
        "its hooks or passes changed the kernel that they were shown",
    ),
    "breaks_the_copy": (
        pipes("object.__setattr__(operation.statement, 'dst', None)\nreturn None"),
        "E703",
        "its hooks or passes changed the kernel that they were shown",
    ),
    "spoils_the_offer": (
        pipes("object.__setattr__(operation.offered[0], 'synchronisation', None)\nreturn operation.offered"),
        "E703",
        "it issues the copy by mover, and names nothing that waits for it",
    ),
    "fails_the_second_time": (
        pipes("if operation.statement.dst.buffer.name == 'b': raise OSError('second')\nreturn None"),
        "E709",
        "raised in its hook candidates: OSError: second",
    ),
    "exits": (pipes("raise SystemExit(3)"), "E709", "raised in its hook candidates: SystemExit: 3"),
    "asks_itself": (
        pipes("from zellige.plugin.registry import registry\nreturn registry().backend(ctx.target).ask(ctx)(operation)"),
        "E709",
        "raised in its hook candidates: it asks for itself: it is running 3 times at once for asks_itself",
    ),
    "hidden": (
        pipes("return (Sly(name='x', because='y'),)", sly("Candidate", "__getattribute__(self, name): raise OSError('sly')")),
        "E709",
        "raised in its hook candidates: OSError: sly",
    ),
    "equals_nothing": (
        pipes("return (Candidate(name='x', because='y', synchronisation=Sly(mechanism='hope', scope='token')),)",
              sly("Synchronisation", "__eq__(self, other): raise OSError('equal')\n    __hash__ = None")),
        "E709",
        "raised in its method __eq__: OSError: equal",
    ),
}  # fmt: skip

UNHARMED: dict[str, str] = {
    "changes_its_context": fits("object.__setattr__(ctx, 'target', None)\nreturn Fitted()"),
    "changes_its_options": fits("object.__setattr__(ctx.options, 'passes', None)\nreturn Fitted()"),
    "changes_its_capabilities": fits("object.__setattr__(ctx.capabilities, 'spaces', ())\nreturn Fitted()"),
    "changes_its_question": pipes("object.__setattr__(operation, 'stages', 0)\nreturn None"),
    "changes_what_it_asked": fits("if asked:\n    object.__setattr__(asked[0], 'error', 3)\n    return Fitted()\nreturn asking()"),
    "has_an_odd_program": fits(
        "return Fitted(program=Sly())",
        sly("object", "__bool__(self): raise OSError\n    __eq__ = __repr__ = __bool__\n    __hash__ = None"),
    ),
    "asks_for_too_little": fits(
        "if asked: return Fitted()\nspaces = tuple(replace(space, bytes=1) for space in ctx.capabilities.spaces)\n"
        "return asking(capabilities=replace(ctx.capabilities, spaces=spaces))"
    ),
    "changes_its_mind": pipes("import random\nreturn random.sample(operation.offered, len(operation.offered))"),
    "says_it_twice": pipes("return tuple(Candidate(name='x', because='y', synchronisation=wait) for wait in (TICKS, TOCKS))"),
}  # fmt: skip
"""Backends that do odd things and still compute what was asked."""


def product() -> Any:
    @T.prim_func
    def main(A: T.Tensor((64, 160), "float16"), B: T.Tensor((160, 64), "float16"), C: T.Tensor((64, 64), "float32")):
        with T.Kernel(2, 2, threads=64) as (bx, by):
            a = T.alloc_shared((32, 32), "float16")
            b = T.alloc_shared((32, 32), "float16")
            c = T.alloc_fragment((32, 32), "float32")
            T.clear(c)
            for k in T.Pipelined(5, num_stages=3):
                T.copy(A[by * 32, k * 32], a)
                T.copy(B[k * 32, bx * 32], b)
                T.gemm(a, b, c)
            T.copy(c, C[by * 32, bx * 32])

    return main


def multiplies(program: Any, target: str) -> bool:
    generator = np.random.default_rng(0)
    a, b = (generator.integers(-3, 4, shape).astype(np.float16) for shape in ((64, 160), (160, 64)))
    c = np.zeros((64, 64), np.float32)
    made = zl.compile(program, target=target)
    made(a, b, c)
    assert str(explain(made))
    return bool((c == a.astype(np.float32) @ b.astype(np.float32)).all())


def told(program: Any, target: str) -> tuple[str, str]:
    """The code and the text of the error."""
    try:
        return "", f"no error; the result is {'right' if multiplies(program, target) else 'wrong'}"
    except ZelligeError as error:
        return error.code, str(error)


@pytest.mark.parametrize("cases", [FITS, PIPELINES], ids=["fit", "pipeline"])
def test_every_fault_is_said_and_harms_nothing(cases: dict[str, tuple[str, str, str]], install: Install) -> None:
    assert len(cases) >= 25
    found = install({name: source for name, (source, _, _) in cases.items()})
    assert not found.quarantined
    mine = product()
    text = print_kernel(mine.kernel)
    wrong = []
    for name, (_, code, words) in cases.items():
        got, said = told(mine, name)
        if got != code or words not in said or repr(name) not in said or len(said) > 4000:
            wrong.append(f"{name}: expected {code} with {words!r}, got {said[:4000]}")
        if print_kernel(mine.kernel) != text:
            wrong.append(f"{name}: the user's kernel is another one")
    assert not wrong, "\n\n".join(wrong)
    memo.clear()
    assert multiplies(mine, "cpu")
    assert works("cpu")


def test_what_a_hook_does_to_what_it_is_given_is_its_own_affair(install: Install) -> None:
    install(UNHARMED)
    mine = product()
    assert [name for name in UNHARMED if not multiplies(mine, name)] == []
    assert multiplies(mine, "cpu")


def emits(change: str) -> str:
    """Changes the plan while it is lowered."""
    body = f"def emit(self, planned, ctx, fitted):\n        {change}\n        return Emitted(text='none', format='acme')"
    return SOURCE % ("", body)


EMITS = {
    "emits_and_empties": emits("object.__setattr__(planned, 'launches', ())"),
    "emits_and_breaks": emits("object.__setattr__(planned.launches[0], 'roles', None)"),
    "empties_the_fitted": emits("object.__setattr__(fitted.planned, 'launches', ())"),
}


def test_a_plan_stays_as_it_is_while_it_is_lowered(install: Install) -> None:
    """Reports and dumps show it after that."""
    install(EMITS)
    wrong = [said for name in EMITS if "its hook emit changed the plan that it was shown" not in (said := told(product(), name)[1])]
    assert not wrong, "\n\n".join(wrong)
    assert multiplies(product(), "cpu")


def test_a_backend_has_one_name_in_all_that_is_said_of_it(install: Install) -> None:
    """That of its entry point: the name in its manifest is another here."""
    chosen = {
        "changing": FITS["renames_the_target"][0],
        "lazy": FITS["lazy"][0],
        "lying": FITS["of_another_target"][0],
        "leaving": FITS["leaves"][0],
        "emitting": EMITS["emits_and_empties"],
        "passing": SOURCE % ("def spoil(kernel): object.__setattr__(kernel, 'launches', ())\nspoil.name = 'spoil'",
                             "def passes(self, stage, ctx): return (Insert(step=spoil),) if stage == 'legalise' else ()"),
    }  # fmt: skip
    end = 'Broken(__name__.removeprefix("plug_"))'
    install({name: source.replace(end, f"Broken('made_by_{name}')") for name, source in chosen.items()})
    for name, source in chosen.items():
        assert end in source
        with pytest.raises(ZelligeError) as caught:
            multiplies(product(), f"made_by_{name}")
        assert caught.value.code in ("E703", "E709") and caught.value.diagnostics[0].backend == name, str(caught.value)
