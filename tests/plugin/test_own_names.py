"""A package that changes what is zellige's or Python's own while it is loaded is set aside and named, everything is as it was, and the
other targets work: each case in a process of its own, where the package loads what it changes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from broken_sources import backend

from zellige import dtypes
from zellige.ir import printer
from zellige.plugin.registry import Registry
from zellige.target import Target

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
    "code": (
        "import zellige.dtypes as d\nd.dtype.__code__ = (lambda *a, **k: 1 / 0).__code__\nd.dtype('float32')",
        "E701",
        "zellige.dtypes.dtype.__code__",
    ),
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

FORKING = """
import os, runpy, sys
import llvmlite.binding, numpy
import zellige.plugin.registry
for line in sys.stdin:
    program, printed, cache = line.rstrip().split("\\t")
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            sys.stdout = sys.stderr = open(printed, "w")
            os.environ["ZELLIGE_CACHE_DIR"] = cache
            sys.argv[:] = [program]
            sys.path[0] = os.path.dirname(program)
            runpy.run_path(program, run_name="__main__")
            code = 0
        except BaseException:
            sys.excepthook(*sys.exc_info())
        finally:
            sys.stderr.flush()
            os._exit(code)
    print(os.waitpid(child, 0)[1], flush=True)
"""
"""A process that has loaded the registry and nothing else of zellige's, and makes one of its own for each program that it is told: to start
Python and to load NumPy takes longer than what is asked."""


@pytest.fixture(scope="module")
def forking() -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", FORKING]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process


@pytest.fixture
def asked(install: Install, site: Path, forking: subprocess.Popen[str], own_cache: Path) -> Callable[[str], list[str]]:
    def answer(source: str) -> list[str]:
        """What a process prints that looks for all backends, and uses cpu."""
        install({"stranger": f"{source}\n{backend('')}"})
        folders = ", ".join(repr(str(folder)) for folder in (site, Path(__file__).parent / "sources"))
        program, printed = site / "program_of_the_test.py", site / "printed"  # kernels are read from their source
        program.write_text(ASK.format(folders=folders))
        assert forking.stdin is not None and forking.stdout is not None
        print(program, printed, own_cache, sep="\t", file=forking.stdin, flush=True)
        status = forking.stdout.readline()
        assert status == "0\n", status + printed.read_text()
        return printed.read_text().splitlines()

    return answer


@pytest.mark.parametrize("change", CHANGES)
def test_what_is_not_its_own_is_given_back_and_said(change: str, asked: Callable[[str], list[str]]) -> None:
    source, code, what = CHANGES[change]
    error, *state = asked(source)
    assert code in error and "E709" not in error, error
    assert f"loading it replaced {what}" in error or f", {what}" in error, error
    assert "that was undone" in error
    assert state == ["True", "0", "True"]


def test_what_leaves_everybody_elses_imports_working_may_stay(asked: Callable[[str], list[str]]) -> None:
    assert asked(KEPT) == ["taken in", "True", "4", "True True"]


def test_what_the_user_replaced_between_two_strangers_is_the_users(install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each stranger is held to what it finds, also where an earlier one found something else."""
    replaces = (
        "import zellige.ir.printer as p, zellige.dtypes as d\nfrom zellige.target import Target\n"
        "p.print_kernel = Target.__str__ = lambda *a: 1 / 0\nd.dtype.__code__ = p.print_kernel.__code__"
    )
    install({"first": backend("")})
    plainly, code = Target.__str__, dtypes.dtype.__code__.replace(co_name="of_the_user")
    monkeypatch.setattr(printer, "print_kernel", own := lambda *a, **k: "mine")
    monkeypatch.setattr(Target, "__str__", said := lambda self: plainly(self))
    monkeypatch.setattr(dtypes.dtype, "__code__", code)
    assert not install({"second": backend("")}).quarantined
    (broken,) = install({"third": replaces}).quarantined
    assert printer.print_kernel is own and Target.__str__ is said and dtypes.dtype.__code__ is code
    for what in ("zellige.ir.printer.print_kernel", "zellige.target.Target.__str__", "zellige.dtypes.dtype.__code__"):
        assert what in str(broken.error)
