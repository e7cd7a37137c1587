"""Claims of backends are tried on their targets: honest ones hold, each kind of lie is shown, whatever it does to the process."""

from __future__ import annotations

import json
import logging
import re
import sys
import threading
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from broken_sources import backend
from click.testing import CliRunner

from zellige.claims import PROBES, Finding, _said, _tried, examined, examined_apart
from zellige.claims.machine import Subject
from zellige.cli.main import group
from zellige.diagnostics import InternalError
from zellige.plugin.contract import MatmulUnit
from zellige.plugin.registry import Registry, registry

Install = Callable[[dict[str, str]], Registry]


def found_of(target: str) -> list[Finding]:
    resolved = registry().resolve(target)
    return list(examined(registry().backend(resolved), resolved))


@pytest.mark.parametrize("target", ["cpu", "template", "cuda:sm_75,simulate", pytest.param("cuda:sm_80,simulate", marks=pytest.mark.slow)])
def test_the_claims_of_our_own_backends_hold(target: str) -> None:
    found = found_of(target)
    assert [one for one in found if one.verdict != "holds"] == []
    holding = {one.probe for one in found if one.verdict == "holds"}
    assert holding >= {"element types", "arithmetic", "sizes", "products", "copies"}
    described = registry().backend(registry().resolve(target)).describe(registry().resolve(target))
    assert sum(one.probe == "products" for one in found) == len(described.matmul)


def test_the_claims_of_many_units_hold() -> None:
    """Of those that differ in signs alone one; the slow test above takes all."""
    target = registry().resolve("cuda:sm_80,simulate")
    subject = Subject.of(registry().backend(target), target)
    units = tuple(unit for unit in subject.capabilities.matmul if unit.a == unit.b and not unit.a.startswith("uint"))
    assert len(subject.capabilities.matmul) > len(units) >= 10
    few = replace(subject, capabilities=replace(subject.capabilities, matmul=units))
    found = [_tried(name, claim) for name, probe in PROBES.items() for claim in probe(few)]
    assert [one for one in found if one.verdict != "holds"] == []
    assert sum(one.probe == "products" for one in found) == len(units)


NARROW = ("as_dtype(total).is_integer else as_dtype(total).numpy", "as_dtype(total).is_integer else np.dtype(np.float16)")
FIRST = ("_Processor(pointers,", "_Processor(self.__dict__.setdefault('first', pointers),")
HALVED = (
    "frame.registers[name] = execute(it.suffixes, [frame[operand] for operand in operands])",
    """found = np.asarray(execute(it.suffixes, [frame[operand] for operand in operands]))
        is_wide = found.dtype.kind in "iuf" and found.dtype.itemsize > 2
        narrow = np.dtype(f"{found.dtype.kind}{found.dtype.itemsize // 2}") if is_wide else found.dtype
        frame.registers[name] = found.astype(narrow).astype(found.dtype)""",
)
OF_MACHINES: dict[str, tuple[tuple[str, str], str, str, str]] = {
    "sums of a narrower float": (NARROW, "products", "matmul", "the product has"),
    "sums of int16": (("np.dtype(np.int64) if as", "np.dtype(np.int16) if as"), "products", "matmul", "the product has"),
    "no fractions": (("(c + a @ b)", "(c + np.trunc(a) @ b)"), "products", "matmul", "the product has"),
    "no fractions of b": (("(c + a @ b)", "(c + a @ np.trunc(b))"), "products", "matmul", "the product has"),
    "steps by twos": (("(c + a @ b)", "(c + a[:, : len(b) // 2 * 2] @ b[: len(b) // 2 * 2])"), "products", "matmul", "x 17 has"),
    "steps by sixteens": (("(c + a @ b)", "(c + (a @ b if len(b) % 16 != 8 else 0))"), "products", "matmul", "17 x 17 x 40 has"),
    "no last row": (("(c + a @ b)", "(c + a @ b * (c.shape[0] > 1))"), "products", "matmul", "17 x 17 x 40 has"),
    "no last column": (("(c + a @ b)", "(c + a @ b * (c.shape[1] != 1))"), "products", "matmul", "17 x 17 x 40 has"),
    "no rows but whole ones": (("(c + a @ b)", "(c + a @ b * (c.shape[0] != 15))"), "products", "matmul", "15 x 15 x 17 has"),
    "steps below a unit": (("(c + a @ b)", "(c + a @ b * (len(b) != 15))"), "products", "matmul", "1 x 17 x 15 has"),
    "a as it stands": (('a.T if flags[0] == "t" else a', "a"), "products", "matmul", "a and b transposed has"),
    "b as it stands": (('b.T if flags[1] == "t" else b', "b"), "products", "matmul", "a and b transposed has"),
    "ones outside": (("frame[operands[begin + 1]])", "np.float32(1))"), "copies", "copies", "its row outside of the tensor has 1.0"),
    "half of the memory": (("np.full(LOCAL_BYTES,", "np.full(LOCAL_BYTES // 2,"), "spaces", "spaces", "ValueError"),
    "axes of the grid exchanged": (("np.array(cell[::-1])", "np.array(cell)"), "sizes", "dynamic_shapes", "blocks are numbered with has"),
    "arrays of an earlier launch": (FIRST, "sizes", "dynamic_shapes", "33 elements has 0.0"),
    "sums of narrower types": (HALVED, "arithmetic", "compute_dtypes", "the sum has"),
    "numbers without a sign": (
        ("json.dumps(self._numbers[kind][int(index)])", "json.dumps(abs(self._numbers[kind][int(index)]))"),
        "arithmetic", "compute_dtypes", "with the numbers has",
    ),
    "numbers exchanged": (('"scalar": scalars,', '"scalar": scalars[::-1],'), "arithmetic", "compute_dtypes", "with the numbers has"),
}
"""What is replaced in the machine of the template by what, the probe that sees it, the field of the claim, words of the reason."""


@pytest.mark.parametrize("name", OF_MACHINES)
def test_a_machine_that_does_something_else_is_shown(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from zellige_template import machine

    (old, new), probe, field, words = OF_MACHINES[name]
    source = Path(machine.__file__).read_text(encoding="utf-8")
    assert source.count(old) == 1
    other = ModuleType(machine.__name__)
    monkeypatch.setitem(sys.modules, machine.__name__, other)  # the hook runtime looks there
    exec(compile(source.replace(old, new), machine.__file__, "exec"), other.__dict__)
    target = registry().resolve("template")
    subject = Subject.of(registry().backend(target), target)
    found = [_tried(probe, claim) for claim in PROBES[probe](subject)]
    wrong = [one for one in found if one.verdict == "does not hold"]
    assert wrong and all(one.field.startswith(field) for one in wrong), found
    assert any(words in one.reason for one in wrong), wrong


def test_why_a_unit_is_not_taken_is_told() -> None:
    target = registry().resolve("template")
    subject = Subject.of(registry().backend(target), target)
    unit = MatmulUnit(name="short sums", engine="vector", a="bfloat16", b="bfloat16", c="bfloat16", m=16, n=16, k=16)
    few = replace(subject, capabilities=replace(subject.capabilities, matmul=(unit,)))
    (found,) = (_tried("products", claim) for claim in PROBES["products"](few))
    assert found.verdict == "does not hold"
    assert "an emulation is (accumulates in bfloat16, the product in float32)" in found.reason


LIAR = """
from acme_machine import *
from dataclasses import replace
from zellige.plugin.contract import AtomicSupport, Conversion, Device
class Liar(AcmeBackend):
    @hookimpl
    def probe(self):
        return (Device(name="liar 1", index=0, target=self.name),)
    @hookimpl
    def describe(self, target):
        honest = super().describe(target)
        return replace(honest, %s)
    @hookimpl
    def candidates(self, operation, ctx):
        return None
    %s
backend = Liar('liar')
"""

EMITS = """@hookimpl
    def emit(self, planned, ctx):
        text = ctx.ir_text(planned.kernel)
        %s
        return Emitted(text=text, format="tile-ir")
"""

LIES = {
    "a lane count": ("lanes=8", "", "lanes", "the lanes' numbers"),
    "a unit that adds wrongly": (
        "lanes=0",
        EMITS % "text = text.replace('fill(c[:, :], 0.0)', 'fill(c[:, :], 1.0)')",
        "matmul[0]",
        "the product has",
    ),
    "arithmetic that it cannot compile": (
        "lanes=0",
        EMITS % "if 'probe_arithmetic' in text and 'int32' in text: raise RuntimeError('no adder')",
        "compute_dtypes",
        "no adder",
    ),
    "an atomic operation": (
        "atomics=(AtomicSupport(op='xor', dtypes=('int32',)), AtomicSupport(op='max', dtypes=('int32',)))",
        EMITS % "text = text.replace('max', 'min')",
        "atomics[1]",
        "the element has",
    ),
    "a conversion": (
        "conversions=(Conversion(source='float32', destination='int32'),)",
        EMITS % "text = text.replace('cast(A[i], int32)', '7')",
        "conversions[0]",
        "the converted numbers",
    ),
}


@pytest.mark.parametrize("name", LIES)
def test_a_lie_is_shown(install: Install, name: str) -> None:
    fields, hooks, field, words = LIES[name]
    install({"liar": LIAR % (fields, hooks)})
    found = found_of("liar")
    wrong = {one.field: one.reason for one in found if one.verdict == "does not hold"}
    assert set(wrong) == {field}, wrong
    assert words in wrong[field]


def run(*words: str) -> Any:
    return CliRunner().invoke(group, ["backends", "doctor", *words, "--seconds", "600"])  # nothing here hangs, and the machine may be busy


@pytest.mark.usefixtures("in_this_process")
def test_doctor_prints_what_does_not_hold(install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    """As docs/write-a-backend.md shows it."""
    page = (Path(__file__).parents[2] / "docs" / "write-a-backend.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```console\n\$ zellige backends doctor (acme --probe)\n(.*?)```", page, flags=re.DOTALL)
    install({"acme": (LIAR % ("lanes=64", "")).replace("'liar'", "'acme'")})
    monkeypatch.setenv("COLUMNS", "200")
    result = run(*block[0].split())
    assert result.exit_code == 1
    printed = [" ".join(line.replace("│", " ").split()) for line in result.output.splitlines()]
    assert [line for line in block[1].splitlines() if " ".join(line.split()) not in printed] == []
    (report,) = json.loads(run("acme", "--probe", "--json").output)
    assert [one["field"] for one in report["claims"] if one["verdict"] == "does not hold"] == ["lanes"]
    assert run("acme").exit_code == 0


def test_a_claim_that_ends_the_process_is_named(install: Install) -> None:
    install({"liar": LIAR % ("lanes=0", EMITS % "import os; os._exit(9) if 'probe_product' in text else None")})
    found = json.loads(run("liar", "--probe", "--json").output)[0]["claims"]
    assert (found[-1]["field"], found[-1]["verdict"]) == ("matmul[0]", "does not hold")
    assert "ended with exit code 9" in found[-1]["reason"]
    assert all(one["verdict"] == "holds" for one in found[:-1])


def test_a_claim_that_hangs_is_left_after_a_while(install: Install) -> None:
    install({"liar": LIAR % ("lanes=0", EMITS % "import time; time.sleep(600)")})
    *before, last = examined_apart("liar", "", 3.0)
    assert before == []
    assert (last.field in ("dtypes", "describe"), last.verdict) == (True, "does not hold")
    assert last.reason == "it took more than 3 s"


CUTS = """
@hookimpl
def passes(self, stage, ctx):
    from zellige.ir.stmt import Gemm
    class Cut:
        name = "cut"
        def __call__(self, kernel):
            def cut(node):
                return {made} if isinstance(node, Gemm) else node
            return replace(kernel, launches=tuple(rewrite(launch, cut) for launch in kernel.launches))
    return (Insert(step=Cut()),) if stage == "legalise" else ()
"""


@pytest.mark.parametrize(
    "made, verdict, reason",
    [
        ("(node, node)", "does not hold", "the product has "),
        ("Dialect(op='cuts.mm', inputs=(node.a, node.b), outputs=(node.c,), span=node.span)", "not checked", "the backend's passes put "),
    ],
)
def test_a_pass_may_make_several_products_of_one_or_none(made: str, verdict: str, reason: str, install: Install) -> None:
    install({"cuts": backend(CUTS.format(made=made))})
    target = registry().resolve("cuts")
    (claim,) = PROBES["products"](Subject.of(registry().backend(target), target))
    found = _tried("products", claim)
    assert (found.verdict, found.reason.startswith(reason)) == (verdict, True), found


LEAVES = """
@hookimpl
def dialect(self):
    import logging, random, sys, threading, warnings
    sys.path.append("/opt/acme/python")
    sys.setrecursionlimit(sys.getrecursionlimit() + 7)
    random.seed(0)
    warnings.filterwarnings("ignore", message="acme: ")
    logging.getLogger().addHandler(logging.NullHandler())
    threading.Thread(target=sys.over_of_the_test.wait, name="acme-pool").start()
    return AcmeBackend.dialect(self)
"""
STAYS = (
    "folders in sys.path: /opt/acme/python; threads: acme-pool; filters of warnings: ignore Warning acme: ; handlers of the root logger:"
    " NullHandler; a higher limit of recursion; random numbers of Python's that were drawn or seeded\n"
)


@pytest.mark.usefixtures("in_this_process")
def test_doctor_says_what_stays_in_the_process_which_is_no_fault(install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    over = threading.Event()
    monkeypatch.setattr(sys, "over_of_the_test", over, raising=False)
    monkeypatch.setattr(logging.root, "handlers", list(logging.root.handlers))
    limit = sys.getrecursionlimit()
    with warnings.catch_warnings():
        install({"leaves": backend(LEAVES)})
        result = run("leaves")
    over.set()
    sys.setrecursionlimit(limit)
    assert result.exit_code == 0, result.output
    assert f"leaves: stays in the process: {STAYS}" in result.output
    assert "hooks that answer: manifest, probe, describe, dialect" in result.output and "process," not in result.output


@pytest.mark.usefixtures("in_this_process")
def test_an_architecture_that_there_is_not_is_no_fault_of_the_backend() -> None:
    result = run("cpu", "--target", "zen9", "--probe")
    assert result.exit_code == 0, result.output
    assert "cpu: not asked: describe: error E719: the target cpu has no architecture 'zen9'" in result.output
    assert "cpu: no claim was tried: its target cannot be described" in result.output
    assert "Traceback" not in result.output and "broken" not in result.output


@pytest.mark.usefixtures("in_this_process")
def test_without_a_device_nothing_is_tried_and_the_reason_is_said(install: Install) -> None:
    install({"acme": "from acme_machine import *\nbackend = AcmeBackend('acme')\n"})
    result = run("acme", "--probe")
    assert result.exit_code == 0
    assert "acme: no claim was tried: no device of it is here" in result.output


def test_numbers_of_probes_are_exact_in_every_type() -> None:
    from zellige.claims.probes import _numbers
    from zellige.dtypes import all_dtypes

    for t in all_dtypes():
        if t.storage_bits % 8 or t.lanes != 1:
            continue
        values = np.unique(_numbers(t, (200,), 1).astype(np.float64))
        assert np.array_equal(values, np.round(values)), t.name
        assert len(values) >= 2, t.name


def test_elements_of_four_bits_lie_two_in_a_byte_the_first_in_the_lower_half() -> None:
    from zellige.claims.probes import _packed, _unpacked
    from zellige.dtypes import dtype

    for name, values, held in (("int4", [1, -2, -8, 7], [0xE1, 0x78]), ("uint4", [1, 14, 0, 15], [0xE1, 0xF0])):
        t = dtype(name)
        given = np.array([values, values]).astype(t.numpy)
        assert _packed(t, given).tolist() == [held, held]
        assert _unpacked(t, _packed(t, given)).astype(np.int64).tolist() == [values, values]


def test_every_hook_is_asked_or_left_for_a_reason() -> None:
    """A hook that is new in the contract has a place among the questions, or this fails."""
    from zellige.claims import hooks
    from zellige.plugin.signatures import hook_parameters

    resolved = registry().resolve("cpu")
    asked = hooks._Asking(registry().backend(resolved), resolved).by_hook()
    places = [*asked, *hooks.LEFT, *hooks._BEFORE, *hooks._ON_THE_WAY]
    assert sorted(places) == sorted(hook_parameters())
    with pytest.raises(InternalError, match="nothing says how the hook dream is asked"):
        hooks._left("dream")


def test_what_an_exception_says_is_one_line_even_where_it_cannot_be_said(install: Install) -> None:
    mute = "type('Mute', (Exception,), {'__str__': lambda self: 1 / 0})()"
    install({"liar": LIAR % ("lanes=0", EMITS % f"if 'probe_arithmetic' in text and 'int32' in text: raise {mute}")})
    (reason,) = {one.reason for one in found_of("liar") if one.verdict == "does not hold"}
    assert "Mute: (its text cannot be made)" in reason and "raised at" in reason and "plug_liar.py" in reason
    assert _said(Mute()) == "Mute: (its text cannot be made)"
    assert _said(InternalError("two\nlines")) == "internal error: two" and _said(ValueError("two\nlines")) == "ValueError: two"


class Mute(Exception):
    def __str__(self) -> str:
        raise OSError


@pytest.mark.usefixtures("in_this_process")
def test_probes_have_names_that_describe_prints() -> None:
    text = CliRunner().invoke(group, ["backends", "describe", "cpu"]).output
    assert "contract, probe lanes" in text
    assert len(PROBES) == 11
