"""The code in docs/write-a-backend.md runs: the object of section 2 with the hooks of sections 5 and 7 is a backend that is used."""

from __future__ import annotations

import ast
import re
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # comes with pytest there

import zellige as zl
import zellige.language as T
from zellige.diagnostics import ZelligeError
from zellige.plugin.contract import Unavailable
from zellige.plugin.registry import Registry
from zellige.plugin.signatures import hook_parameters

PAGE = (Path(__file__).parents[2] / "docs" / "write-a-backend.md").read_text(encoding="utf-8")


def blocks(section: str) -> list[str]:
    """The Python of a section, whose title begins so; of a class that other sections add to, what is added."""
    (text,) = re.findall(rf"^## {re.escape(section)}.*?\n(.*?)(?=^## |\Z)", PAGE, flags=re.DOTALL | re.MULTILINE)
    whole = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    return whole if section == "2." else [re.sub(r"^class AcmeBackend:.*\n", "", block, flags=re.MULTILINE) for block in whole]


@pytest.fixture
def found(install: Callable[..., Registry]) -> Registry:
    """The manual's backend, with capabilities and the last steps of the machine of the tests."""
    (whole,), (chosen, _), (words, _) = blocks("2."), blocks("5."), blocks("7.")
    function, method = words.split("    # Manifest(")
    entry = re.findall(r"Manifest\(\.\.\., (dialect=.*)\)\n", words)[0]
    object_, made = whole.split("backend = AcmeBackend()")
    imports, chosen = chosen.split("    @hookimpl\n")
    hooks = f"@hookimpl\n{textwrap.dedent(chosen)}\n{textwrap.dedent(method.split(chr(10), 1)[1])}"
    assert "targets=" in object_
    manifest = object_.replace("targets=", f"{entry}, targets=")
    source = "\n".join([
        "from acme_machine import AcmeBackend as Machine",
        "from acme_machine import replace",
        imports, function, manifest, textwrap.indent(hooks, "    "),
        "class Whole(AcmeBackend):",
        "    @hookimpl\n    def describe(self, target):",
        "        stated = Machine('acme').describe(target)",
        "        (cube,) = stated.matmul",
        "        return replace(stated, matmul=(replace(cube, name='wide', a='float32', b='float32'), cube))",
        "    @hookimpl\n    def emit(self, planned, ctx): return Machine('acme').emit(planned, ctx)",
        "    @hookimpl\n    def compile(self, emitted): return Machine('acme').compile(emitted)",
        "    @hookimpl\n    def runtime(self): return Machine('acme').runtime()",
        f"backend = Whole(){made}",
    ])  # fmt: skip
    return install({"acme": source})


@T.prim_func
def product(A: T.Tensor((16, 16), "float16"), B: T.Tensor((16, 16), "float16"), C: T.Tensor((16, 16), "float32")):
    with T.Kernel(1) as _:
        a = T.alloc_shared((16, 16), "float16")
        b = T.alloc_shared((16, 16), "float16")
        c = T.alloc_fragment((16, 16), "float32")
        T.copy(A, a)
        T.copy(B, b)
        T.gemm(a, b, c, clear_accum=True)
        T.copy(c, C)


RUN_BY = {
    ("A vendor's first hour", "console"): 4,  # tests/template/test_new_backend.py
    ("To a tuned GEMM", "python"): 1,  # the same
    ("1. Announce it", "toml"): 1,  # here
    ("1. Announce it", "console"): 1,  # tests/plugin/test_claims.py
    ("2. Say who it is", "python"): 1,  # here, as the rest
    ("5. Choose instructions", "python"): 2,
    ("7. Your own words", "python"): 2,
}
"""How many blocks of which kind each section has, and where they are run."""


def test_every_block_of_the_manual_is_run_somewhere() -> None:
    found: dict[tuple[str, str], int] = {}
    for part in re.split(r"^## ", PAGE, flags=re.MULTILINE)[1:]:
        for kind in re.findall(r"^```(\w+)$", part, flags=re.MULTILINE):
            key = (part.split("\n")[0], kind)
            found[key] = found.get(key, 0) + 1
    assert found == RUN_BY


def test_every_python_block_is_a_program_as_it_stands() -> None:
    found = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    assert len(found) == sum(count for (_, kind), count in RUN_BY.items() if kind == "python")
    for block in found:
        ast.parse(block)


def test_what_announces_it_is_what_is_found(site: Path, install: Callable[..., Registry], announce: Callable[..., Path]) -> None:
    """The project file of section 1, as an installer writes it down, with the object of section 2."""
    (text,) = re.findall(r"```toml\n(.*?)```", PAGE, flags=re.DOTALL)
    project = tomllib.loads(text)["project"]
    points = project["entry-points"]["zellige.backends"]
    (site / "zellige_acme.py").write_text(blocks("2.")[0], encoding="utf-8")
    needs = "".join(f"Requires-Dist: {one}\n" for one in project["dependencies"])
    announce(site, project["name"], "".join(f"{name} = {at}\n" for name, at in points.items()), more=needs)
    found = install({})
    assert found.named("acme").manifest.vendor == "Acme"
    assert found.named("acme").origin.text.replace("_", "-").startswith("zellige-acme: ")


def test_the_object_is_a_backend_whose_driver_is_missing(found: Registry) -> None:
    assert not [entry for entry in found.quarantined if entry.origin.name == "acme"], [str(e.error) for e in found.quarantined]
    handle = found.named("acme")
    assert handle.manifest.vendor == "Acme"
    assert handle.devices == Unavailable(code="missing-package", reason="acme-driver is not installed")


def test_its_choices_and_words_are_used(found: Registry) -> None:
    assert "takes float16" in str(zl.explain(product, target="acme"))
    (launch,) = zl.explain(product, target="acme").planned.launches
    assert [choice.unit for choice in launch.choices if choice.unit] == ["cube"], "not the first that there is"
    a = np.eye(16, dtype=np.float16)
    c = np.zeros((16, 16), np.float32)
    zl.compile(product, target="acme")(a, a, c)
    assert (c == a).all()
    assert T.acme_dma.__name__ == "acme_dma"


@pytest.mark.parametrize("stages, chosen", [(3, "issued ahead by mover, waited for by ticks"), (6, "in its turn (emulated)")])
def test_its_choice_of_how_copies_run_ahead_is_used(stages: int, chosen: str, install: Callable[..., Registry]) -> None:
    source = "\n".join([
        "from acme_machine import *",
        "from zellige.plugin.contract import Synchronisation",
        "class Ahead(AcmeBackend):",
        "    @hookimpl\n    def describe(self, target):\n        before = AcmeBackend.describe(self, target)",
        "        move = CopyPath(source='global', destination='shared', mechanism='mover', engine='move', is_asynchronous=True)",
        "        engines = (*before.engines, Engine(name='move', kind='copy', is_asynchronous=True))",
        "        ticks = (Synchronisation(mechanism='ticks', scope='token'),)",
        "        return replace(before, copies=(move, *before.copies), engines=engines, synchronisation=ticks)",
        textwrap.indent(textwrap.dedent(blocks("5.")[1]), "    "),
        "backend = Ahead('ahead')",
    ])  # fmt: skip
    install({"ahead": source})

    @T.prim_func
    def summed(A: T.Tensor((8, 128), "float32"), B: T.Tensor((8,), "float32")):
        with T.Kernel(1) as _:
            tile = T.alloc_shared((8, 16), "float32")
            total = T.alloc_fragment((8,), "float32")
            T.clear(total)
            for k in T.Pipelined(8, num_stages=stages):
                T.copy(A[0, k * 16], tile)
                T.reduce_sum(tile, total, dim=1, clear=False)
            T.copy(total, B)

    (decision,) = [d for d in zl.explain(summed, target="ahead").decisions if "overlap with its loop" in d.question]
    assert decision.chosen == chosen
    assert ("mover", "its queue holds 4 copies") in decision.rejected or stages == 3
    a, b = np.arange(1024, dtype=np.float32).reshape(8, 128), np.zeros(8, np.float32)
    zl.compile(summed, target="ahead")(a, b)
    np.testing.assert_array_equal(b, a.sum(axis=1))


@T.prim_func
def moved(A: T.Tensor((16,), "float32"), B: T.Tensor((16,), "float32")):
    with T.Kernel(1) as _:
        tile = T.alloc_shared((16,), "float32")
        T.copy(A, tile)
        T.copy(tile, B)


def test_wishes_reach_the_lowering(install: Callable[..., Registry]) -> None:
    imports, method = blocks("7.")[1].split("    # Manifest(")
    (entries,) = re.findall(r"^\.\.\., (.*)\)$", method.split("\n")[0])
    source = "\n".join([
        "from acme_machine import *",
        imports,
        "FOUND = []",
        "def lowered(planned, ctx, is_deep, priorities):\n    FOUND.append((is_deep, priorities))",
        "    return AcmeBackend('wishing').emit(planned, ctx)",
        "class Wishing(AcmeBackend):",
        f"    @hookimpl\n    def manifest(self): return replace(AcmeBackend.manifest(self), {entries})",
        method.split("\n", 1)[1],
        "backend = Wishing('wishing')",
    ])  # fmt: skip
    install({"wishing": source})

    @T.prim_func
    def main(A: T.Tensor((16,), "float32"), B: T.Tensor((16,), "float32")):
        with T.Kernel(1) as _:
            tile = T.alloc_shared((16,), "float32")
            T.copy(A, tile, acme_priority=3)
            T.copy(tile, B)

    a, b = np.arange(16, dtype=np.float32), np.zeros(16, np.float32)
    zl.compile(main, target="wishing", pass_configs={"acme.deep": True})(a, b)
    np.testing.assert_array_equal(a, b)
    (found,) = sys.modules["plug_wishing"].FOUND
    assert found[0] is True and sorted(found[1]) == [0, 3]


def test_without_it_its_words_are_refused(install: Callable[..., Registry]) -> None:
    install({})
    with pytest.raises((ZelligeError, AttributeError)):
        T.acme_dma  # noqa: B018
    a, b = np.ones(16, np.float32), np.zeros(16, np.float32)
    zl.compile(moved, target="cpu")(a, b)
    assert (b == 1).all()


def test_every_hook_stands_in_the_manual_s_table() -> None:
    rows = [line for line in PAGE.splitlines() if line.startswith("| `")]
    named = {name for row in rows for name in re.findall(r"`(\w+)\(", row.split("|")[1])}
    assert sorted(hook_parameters()) == sorted(named)
