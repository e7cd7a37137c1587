"""A package that changes what is zellige's or Python's own while it is loaded is set aside and named, everything is as it was, and the
other targets work: each case in a process of its own, where the package loads what it changes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from broken_sources import backend

from zellige.plugin.registry import Registry

Install = Callable[..., Registry]

FINDER = """
import sys
class Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        {does}
sys.meta_path.{put}
"""

HOOK = """
import sys
def hook(folder):
    {does}
sys.path_hooks.insert(0, hook)
"""

CHANGES: dict[str, tuple[str, str, str]] = {
    "module": (
        "import sys, types, zellige.plan.planner\nsys.modules['zellige.plan.planner'] = types.ModuleType('fake')",
        "E703",
        "sys.modules['zellige.plan.planner']",
    ),
    "module_in_its_package": (
        "import sys, types, zellige.ir, zellige.ir.printer as own\nfake = types.ModuleType('zellige.ir.printer')\n"
        "fake.__dict__.update(own.__dict__)\n"
        "fake.print_kernel = None\nsys.modules['zellige.ir.printer'] = zellige.ir.printer = fake",
        "E703",
        "sys.modules['zellige.ir.printer'], zellige.ir.printer",
    ),
    "module_gone": ("import sys, zellige.dtypes\ndel sys.modules['zellige.dtypes']", "E703", "sys.modules['zellige.dtypes']"),
    "module_that_nobody_has_loaded": (
        "import sys, types, zellige.plan\nassert 'zellige.plan.planner' not in sys.modules\n"
        "sys.modules['zellige.plan.planner'] = zellige.plan.planner = types.ModuleType('zellige.plan.planner')",
        "E703",
        "sys.modules['zellige.plan.planner']",
    ),
    "all_modules": ("import sys\nsys.modules = dict(sys.modules)", "E703", "sys.modules"),
    "folders": ("import zellige.plan\nzellige.plan.__path__.clear()", "E703", "zellige.plan.__path__"),
    "code": ("import zellige.dtypes as d\nd.dtype.__code__ = (lambda *a, **k: 1 / 0).__code__", "E701", "zellige.dtypes.dtype.__code__"),
    "code_of_a_method": (
        "from zellige.target import Target\nTarget.__str__.__code__ = (lambda self: 1 / 0).__code__",
        "E703",
        "zellige.target.Target.__str__.__code__",
    ),
    "defaults": (
        "import zellige.ir.printer as p\np.print_kernel.__defaults__ = (None,)",
        "E703",
        "zellige.ir.printer.print_kernel.__defaults__",
    ),
    "function_of_a_backend": ("import zellige_cpu.host as h\nh.running_host = None", "E703", "zellige_cpu.host.running_host"),
    "method_of_a_backend": (
        "from zellige_cpu import backend as c\ntype(c).emit = lambda self: 1 / 0",
        "E703",
        "zellige_cpu.backend.CpuBackend.emit",
    ),
    "new_method_of_a_backend": (
        "from zellige_cpu import backend as c\ntype(c).__getattribute__ = lambda self, name: 1 / 0",
        "E703",
        "zellige_cpu.backend.CpuBackend.__getattribute__",
    ),
    "object_of_a_backend": ("import zellige_cpu\nzellige_cpu.backend = None", "E703", "zellige_cpu.backend"),
    "method_of_an_object": (
        "from zellige_cpu import backend\nbackend.emit = lambda *a, **k: 1 / 0",
        "E703",
        "zellige_cpu.backend.CpuBackend.emit of an object",
    ),
    "module_that_holds_what_was_replaced": (
        "import sys, zellige.dtypes as d\nassert 'zellige.plan.choices' not in sys.modules\nd.dtype = lambda given: 1 / 0\n"
        "import zellige.plan.choices",
        "E70",
        "zellige.dtypes.dtype",
    ),
    "builtin": ("import builtins\nbuiltins.sorted = None", "E70", "builtins.sorted"),
    "builtins_that_the_guard_needs": (
        "import builtins\nfor name in ('next', 'list', 'any', 'getattr', 'isinstance', 'StopIteration'): delattr(builtins, name)",
        "E70",
        "builtins.any",
    ),
    "finder_that_raises": (
        FINDER.format(does="if name.startswith('zellige'): raise OSError('mine')", put="insert(0, Finder)"),
        "E70",
        "sys.meta_path",
    ),
    "finder_that_raises_of_one": (
        FINDER.format(does="if name == 'zellige.plan.planner': raise OSError('mine')", put="insert(0, Finder)"),
        "E70",
        "sys.meta_path",
    ),
    "finder_that_answers": (
        FINDER.format(
            does="from importlib.machinery import ModuleSpec\n"
            "        return ModuleSpec(name, None) if name == 'zellige.plan.planner' else None",
            put="insert(0, Finder)",
        ),
        "E70",
        "sys.meta_path",
    ),
    "hook_that_raises": (HOOK.format(does="raise OSError('mine')"), "E70", "sys.path_hooks"),
    "hook_that_finds_nothing": (
        HOOK.format(does="from importlib.machinery import FileFinder\n    return FileFinder(folder)"),
        "E70",
        "sys.path_hooks",
    ),
}
"""Name to what the package does, how the code of the error begins, and what the error says that it replaced."""

KEPT = "\n".join((
    FINDER.format(does="if name.startswith('zellige'): raise OSError('mine')", put="append(Finder)"),
    FINDER.format(does="return None", put="insert(0, Finder)"),
    HOOK.format(does="raise ImportError(folder)"),
    HOOK.format(
        does="from importlib.machinery import FileFinder, SourceFileLoader, ExtensionFileLoader, EXTENSION_SUFFIXES as suffixes\n"
        "    return FileFinder(folder, (ExtensionFileLoader, suffixes), (SourceFileLoader, ['.py']))"
    ),
    "import builtins\nbuiltins._ = print",
))  # fmt: skip
"""A finder at the end that raises, one before others that finds nothing, a hook of other folders, one that finds the same; a new name."""

ASK = """
import sys
sys.path[1:1] = [{folders}]
from zellige.plugin.registry import registry
found = registry()
set_aside = [entry for entry in found.quarantined if entry.origin.name == "stranger"]
print(*[" ".join(str(entry.error).split()) for entry in set_aside] or ["taken in"])
import builtins
print(all(callable(getattr(builtins, name)) for name in ("sorted", "next", "list", "any")))
print(sum(entry.__name__ in ("Finder", "hook") for entry in [*sys.meta_path, *sys.path_hooks] if hasattr(entry, "__name__")))
from broken_sources import works
import zellige.ir.printer, zellige.plan.planner
print(works("cpu"), *(() if set_aside else (works("stranger"),)))
"""


def _asked(source: str, install: Install, site: Path) -> list[str]:
    """What a process prints that looks for all backends, and uses cpu."""
    install({"stranger": f"{source}\n{backend('')}"})
    folders = ", ".join(repr(str(folder)) for folder in (site, Path(__file__).parent / "sources"))
    program = site / "program_of_the_test.py"  # kernels are read from their source
    program.write_text(ASK.format(folders=folders))
    done = subprocess.run(
        [sys.executable, str(program)], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize("change", CHANGES)
def test_what_is_not_its_own_is_given_back_and_said(change: str, install: Install, site: Path) -> None:
    source, code, what = CHANGES[change]
    error, *state = _asked(source, install, site)
    assert code in error and "E709" not in error, error
    assert f"loading it replaced {what}" in error or f", {what}" in error, error
    assert "that was undone" in error
    assert state == ["True", "0", "True"]


def test_what_leaves_everybody_elses_imports_working_may_stay(install: Install, site: Path) -> None:
    assert _asked(KEPT, install, site) == ["taken in", "True", "4", "True True"]
