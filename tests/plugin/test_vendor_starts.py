"""Another package's backend has warm starts in one piece as zellige's own have: taken while all that made the kernel is what it was."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from zellige import recollection
from zellige.cache import memo, recall, sources
from zellige.diagnostics import ZelligeError
from zellige.options import options
from zellige.plugin import installed
from zellige.plugin.calling import Hooks
from zellige.plugin.handle import BackendHandle
from zellige.plugin.registry import registry

PROGRAM = """
import zellige as zl
import zellige.language as T

@zl.jit(target="{target}")
def kernel(A):
    N = T.const("N")
    A: T.Tensor((N,), "float32")
    B = T.empty((N,), "float32")
    with T.Kernel(1) as _:
        for j in T.Parallel(N):
            B[j] = A[j] * 2.0
    return B
"""

BACKEND = '''
from dataclasses import replace
from pathlib import Path

from acme_machine import AcmeBackend, AcmeError, AcmeRuntime
from zellige.plugin.hooks import hookimpl

DRIVER = Path({driver!r})
LOADED = []


class Runtime(AcmeRuntime):
    def load(self, binary, kernel, source):
        LOADED.append(kernel)
        return AcmeRuntime.load(self, binary, kernel, source)


class Vendor(AcmeBackend):
    @hookimpl
    def manifest(self):
        return replace(AcmeBackend.manifest(self), code_packages=("acme_machine",), aliases=(("also_vendor", "vendor"),), {more})

    @hookimpl
    def describe_key(self, target):
        return "a card"

    @hookimpl
    def emit(self, planned, ctx):
        import plug_vendor.emitting
        return plug_vendor.emitting.emit(planned, ctx)

    @hookimpl
    def runtime(self):
        if not DRIVER.exists():
            raise AcmeError("no driver")
        return Runtime()

    @hookimpl
    def cache_key(self):
        if DRIVER.exists() and "angry" in DRIVER.read_text():
            raise RuntimeError("I will not tell")
        return DRIVER.read_text() if DRIVER.exists() else "none"


backend = Vendor("vendor")
'''

EMITTING = """
from zellige.plugin.contract import Emitted

def emit(planned, ctx):
    return Emitted(text=ctx.ir_text(planned.kernel), format="tile-ir")
"""
POINTS = "[zellige.backends]\nvendor = plug_vendor.backend:backend\n"
A = np.arange(16, dtype=np.float32)
FAST = "compiles_in_process=True, loads_from_signature=True"


class Vendor:
    """A package with a backend, and processes that use it."""

    def __init__(self, site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.site, self.package, self.driver = site, site / "plug_vendor", site.parent / "driver.txt"
        self._asked: list[str] = []
        for name, owner in (("conditions_of", recollection), ("emit_step", BackendHandle)):
            monkeypatch.setattr(owner, name, self._counted(name, getattr(owner, name)))

    def _counted(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*arguments: Any) -> Any:
            self._asked.append(name)
            return function(*arguments)

        return counted

    def install(self, more: str = FAST) -> Vendor:
        self.package.mkdir()
        self.driver.write_text("7")
        (self.package / "__init__.py").write_text("")
        (self.package / "backend.py").write_text(BACKEND.format(driver=str(self.driver), more=more))
        (self.package / "emitting.py").write_text(EMITTING)
        (self.package / "unused.py").write_text("a = 1\n")
        self.announce("plug_vendor", POINTS)
        return self

    def announce(self, name: str, points: str, version: str = "1.0") -> Path:
        info = self.site / f"{name}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        (info / "entry_points.txt").write_text(points)
        return info

    def run(self, target: str = "vendor") -> str:
        """What a new process does for the kernel: takes the start, finds its parts one by one, or compiles it."""
        for name in [name for name in sys.modules if name.partition(".")[0] in ("plug_vendor", "acme_machine", "plug_other")]:
            del sys.modules[name]
        for cached in (registry, options, recall._conditions, installed._names, installed.installed_version):
            cached.cache_clear()
        importlib.invalidate_caches()
        memo.clear()
        sources._digests.clear()
        self._asked.clear()
        path = self.site.parent / "program.py"
        path.write_text(PROGRAM.format(target=target))
        spec = importlib.util.spec_from_file_location("program_of_a_vendor", path)
        assert spec is not None
        assert spec.loader is not None
        module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        assert np.array_equal(module.kernel(A), A * 2)
        return "compiled" if "emit_step" in self._asked else "found" if self._asked else "start"

    @property
    def loaded(self) -> Any:
        """The kernel that the backend was given last."""
        return sys.modules["plug_vendor.backend"].LOADED[-1]  # type: ignore[attr-defined]

    @property
    def served_by(self) -> str:
        """The distribution whose backend the target has."""
        return registry().named("vendor").origin.distribution

    @property
    def took_all(self) -> bool:
        """Whether other backends were loaded too."""
        return "plug_other" in sys.modules


@pytest.fixture
def vendor(site: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Vendor]:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.setattr(sources, "LOADED_NS", 2**62)  # its files are younger than this process
    monkeypatch.setattr(installed, "LOADED_NS", 2**62)
    yield Vendor(site, monkeypatch)
    for cached in (registry, recall._conditions, installed._names, installed.installed_version):
        cached.cache_clear()
    sources._digests.clear()
    sys.modules.pop("program_of_a_vendor", None)


def _edit(path: Path, *change: str) -> None:
    """A change of the text, at another time."""
    path.write_text(path.read_text().replace(*change) if change else path.read_text() + "\n# changed\n")
    os.utime(path, ns=(1, 1))


@pytest.mark.parametrize("more", ["", FAST])
def test_a_vendors_kernel_is_found_in_one_piece(vendor: Vendor, more: str) -> None:
    vendor.install(more)
    assert [vendor.run() for _ in range(3)] == ["compiled", "start", "start"]
    assert bool(vendor.loaded.launches[0].body) == (not more), "who does not say that it needs no statements gets them"


def test_what_others_are_installed_is_not_loaded(vendor: Vendor) -> None:
    vendor.install()
    (vendor.site / "plug_other.py").write_text("import acme_machine\nbackend = acme_machine.AcmeBackend('other')\n")
    vendor.announce("plug_other", "[zellige.backends]\nother = plug_other:backend\n")
    assert vendor.run() == "compiled"
    assert vendor.took_all
    spec = importlib.util.find_spec("plug_other")
    assert spec is not None
    assert spec.origin is not None
    Path(spec.origin).write_text("raise SystemExit('loaded')\n")
    vendor.announce("plug_garbled", "[zellige.backends\n")
    shutil.rmtree(vendor.site / "plug_garbled-1.0.dist-info")
    assert vendor.run() == "start"


def test_another_name_of_a_target_has_starts_too(vendor: Vendor) -> None:
    vendor.install()
    assert [vendor.run("also_vendor") for _ in range(2)] == ["compiled", "start"]
    assert vendor.run() == "found"


def _another_version(vendor: Vendor) -> None:
    shutil.rmtree(vendor.site / "plug_vendor-1.0.dist-info")
    vendor.announce("plug_vendor", POINTS, "1.1")


CHANGES: dict[str, tuple[Callable[[Vendor], object], str]] = {
    "source that emits": (lambda v: _edit(v.package / "emitting.py"), "compiled"),
    "source of the hooks": (lambda v: _edit(v.package / "backend.py"), "compiled"),
    "source of another package of its": (lambda v: _edit(v.site / "acme_machine.py"), "compiled"),
    "a new file": (lambda v: (v.package / "table.txt").write_text("1"), "compiled"),
    "the version that it says": (lambda v: _edit(v.package / "backend.py", "code_packages", "version='2', code_packages"), "compiled"),
    "the version that is installed": (_another_version, "found"),
    "the driver's version": (lambda v: v.driver.write_text("8"), "compiled"),
    "a package with its name before": (lambda v: (v.site / "plug_vendor.zip").write_bytes(b""), "found"),
    "another backend": (lambda v: v.announce("plug_more", "[zellige.backends]\nmore = acme_machine:backend\n"), "found"),
    "its list of entry points": (lambda v: _edit(v.site / "plug_vendor-1.0.dist-info" / "entry_points.txt", "]\n", "]\n\n"), "found"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_changes_is_seen(vendor: Vendor, change: str) -> None:
    vendor.install()
    vendor.run()
    assert vendor.run() == "start"
    make, then = CHANGES[change]
    make(vendor)
    assert vendor.run() == then
    assert vendor.run() == "start", "and is kept again"


def test_modules_that_had_no_part_may_change_where_the_backend_says_so(vendor: Vendor) -> None:
    vendor.install()
    vendor.run()
    _edit(vendor.package / "unused.py")
    assert vendor.run() == "start"


def test_modules_that_seem_to_have_no_part_count_where_it_does_not(vendor: Vendor) -> None:
    vendor.install("")
    vendor.run()
    _edit(vendor.package / "unused.py")
    assert vendor.run() == "compiled"


def test_a_backend_of_the_same_name_elsewhere_is_seen(vendor: Vendor) -> None:
    vendor.install()
    vendor.run()
    assert vendor.run() == "start"
    (vendor.site / "plug_other.py").write_text("import acme_machine\nbackend = acme_machine.AcmeBackend('vendor')\n")
    vendor.announce("plug_other", "[zellige.backends]\nvendor = plug_other:backend\n")
    for _ in range(2):  # neither what was kept nor the one that comes first: whose the name is nobody knows
        with pytest.raises(ZelligeError, match="its name 'vendor' is also that of plug_vendor: plug_vendor.backend:backend") as caught:
            vendor.run()
        assert caught.value.code == "E703"
        assert "plug_other: plug_other:backend is this one" in str(caught.value)


@pytest.mark.parametrize("is_begun", [False, True])
def test_without_its_driver_the_error_is_that_of_compiling(vendor: Vendor, is_begun: bool) -> None:
    vendor.install()
    if is_begun:
        vendor.run()
    vendor.driver.unlink()
    with pytest.raises(ZelligeError, match="the card fell off the bus") as caught:
        vendor.run()
    assert caught.value.code == "E710"
    vendor.driver.write_text("7")
    assert vendor.run() == ("start" if is_begun else "compiled")


def test_a_hook_that_raises_says_so_and_harms_nothing(vendor: Vendor) -> None:
    vendor.install()
    vendor.run()
    vendor.driver.write_text("angry")
    with pytest.raises(ZelligeError, match="I will not tell") as caught:
        vendor.run()
    assert caught.value.code == "E709"
    vendor.driver.write_text("7")
    assert vendor.run() == "start"


COMPAT_LESS = """
    @hookimpl
    def runtime(self):
"""
COMPAT = """
    @hookimpl
    def probe(self):
        return (Device(name="card", index=0, target="vendor"),)

    @hookimpl
    def compat(self, binary, device):
        return Compatibility(verdict="ok")
""" + COMPAT_LESS


@pytest.mark.parametrize("has_compat", [False, True])
def test_a_start_asks_the_hooks_that_the_manual_says(vendor: Vendor, monkeypatch: pytest.MonkeyPatch, has_compat: bool) -> None:
    page = (Path(__file__).parents[2] / "docs" / "write-a-backend.md").read_text(encoding="utf-8")
    sentence = r"of your hooks (`manifest`.*?) called, and where you have (.*?), about whose first"
    ((always, with_compat),) = re.findall(sentence, page, flags=re.DOTALL)
    vendor.install()
    source = vendor.package / "backend.py"
    text = source.read_text()
    text = text.replace("\n    @hookimpl\n    def runtime(self):\n", COMPAT if has_compat else f"\n    compat = None\n{COMPAT_LESS}")
    source.write_text(text.replace("import hookimpl\n", "import hookimpl\nfrom zellige.plugin.contract import Compatibility, Device\n"))
    asked: list[str] = []
    call = Hooks.call

    def counted(self: Hooks, hook: str, arguments: Any) -> Any:
        asked.append(hook)
        return call(self, hook, arguments)

    monkeypatch.setattr(Hooks, "call", counted)
    assert vendor.run() == "compiled"
    asked.clear()
    assert vendor.run() == "start"
    expected = {*re.findall(r"`(\w+)`", f"{always} {with_compat if has_compat else ''}")} - {"describe"}  # it has describe_key
    assert set(asked) == expected
