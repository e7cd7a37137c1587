"""Functions found again without tracing them: found where nothing that tracing reads has changed, never where something has."""

from __future__ import annotations

import importlib.util
import pickle
import shutil
import sys
import types
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import zellige
import zellige.language as T
from zellige.cache import memo, recall, store
from zellige.frontend import eager, primfunc
from zellige.frontend.fingerprint import fingerprint
from zellige.frontend.primfunc import KernelFunction

HEAD = """
import math, os, sys
import numpy as np
import zellige as zl
import zellige.language as T
"""

EAGER = HEAD + """
@zl.jit(target="cpu")
def kernel(A, factor=2.0):
    N = T.const("N")
    A: T.Tensor((N,), "float32")
    B = T.empty((N,), "float32")
    with T.Kernel(1) as _:
        for j in T.Parallel(N):
            B[j] = A[j] * factor + {term}
    return B
"""

LAZY = HEAD + """
@zl.jit(target="cpu", out_idx=[-1])
def kernel(N, factor=2.0):
    @T.prim_func
    def scale(A: T.Tensor((N,), "float32"), B: T.Tensor((N,), "float32")):
        with T.Kernel(1) as _:
            for j in T.Parallel(N):
                B[j] = A[j] * factor + {term}

    return scale
"""

A = np.arange(16, dtype=np.float32)


@pytest.fixture
def loaded(tmp_path: Path) -> Callable[[str], types.ModuleType]:
    """Loads a program from always the same file, as a new process would."""
    path = tmp_path / "program.py"

    def load(text: str) -> types.ModuleType:
        path.write_text(text)
        for old in (tmp_path / "__pycache__").glob("*.pyc"):
            old.unlink()
        memo.clear()
        recall._conditions.cache_clear()
        spec = importlib.util.spec_from_file_location("program_under_test", path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
        return module

    return load


@pytest.fixture
def traces(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the functions traced since the list was emptied."""
    found: list[str] = []
    trace = primfunc.trace_kernel

    def counted(function: Any, *arguments: Any, **named: Any) -> Any:
        found.append(function.name)
        return trace(function, *arguments, **named)

    monkeypatch.setattr(primfunc, "trace_kernel", counted)
    monkeypatch.setattr(eager, "trace_kernel", counted)
    return found


def mark(module: types.ModuleType, values: tuple[Any, ...] = ()) -> str | None:
    function = module.kernel._kernel_function
    assert isinstance(function, KernelFunction)
    return fingerprint(function.source, function.function, function.closure.definers, values)


# ---- the whole way


@pytest.mark.usefixtures("folder")
def test_an_eager_function_is_found_without_a_trace(loaded: Any, traces: list[str]) -> None:
    text = EAGER.format(term="1.0")
    first = loaded(text)
    assert np.array_equal(first.kernel(A), A * 2 + 1)
    assert traces
    traces.clear()
    again = loaded(text)
    assert np.array_equal(again.kernel(A), A * 2 + 1)
    assert np.array_equal(again.kernel(A), A * 2 + 1)
    assert np.array_equal(again.kernel(np.ones(16, np.float32)), np.full(16, 3, np.float32))
    assert not traces
    assert np.array_equal(again.kernel(A, 4.0), A * 4 + 1)
    assert np.array_equal(again.kernel(A[:8].copy()), A[:8] * 2 + 1)
    assert len(traces) >= 2, "other constants and sizes are traced"


@pytest.mark.usefixtures("folder")
def test_a_lazy_function_is_found_without_a_trace(loaded: Any, traces: list[str]) -> None:
    text = LAZY.format(term="1.0")
    assert np.array_equal(loaded(text).kernel(16)(A), A * 2 + 1)
    assert traces
    traces.clear()
    again = loaded(text)
    kernel = again.kernel(16)
    assert np.array_equal(kernel(A), A * 2 + 1)
    assert not traces
    assert kernel.out_idx == [1]
    assert [p.name for p in kernel.params] == ["A", "B"]
    assert again.kernel(8) is not kernel
    assert traces == ["scale"]


@pytest.mark.usefixtures("folder")
def test_what_a_kernel_that_is_found_was_compiled_from_has_no_outputs_of_out_idx(loaded: Any, traces: list[str]) -> None:
    text = LAZY.format(term="1.0")
    for _ in range(2):
        B = np.zeros_like(A)
        zellige.compile(loaded(text).kernel(16).prim_func, target="cpu")(A, B)
        assert np.array_equal(B, A * 2 + 1)
    assert traces == ["scale"]


@pytest.mark.usefixtures("folder")
def test_a_kernel_of_symbolic_sizes_is_found_without_a_trace(loaded: Any, traces: list[str]) -> None:
    text = HEAD + """
@zl.jit(target="cpu")
def kernel(block=16):
    n = T.dynamic("n")

    @T.prim_func
    def double(A: T.Tensor((n, 2), "float32"), B: T.Tensor((n, 2), "float32"), s: T.float32, k: T.int32):
        with T.Kernel(T.ceildiv(n, block)) as bx:
            for i, j in T.Parallel(block, 2):
                if bx * block + i < n:
                    B[bx * block + i, j] = A[bx * block + i, j] * s + k

    return double
"""
    for is_first in (True, False):
        traces.clear()
        kernel = loaded(text).kernel()
        assert bool(traces) is is_first
        for rows in (1, 16, 17, 40):
            given = np.arange(2 * rows, dtype=np.float32).reshape(rows, 2)
            found = np.zeros_like(given)
            kernel(given, found, 3.0, 2)
            assert np.array_equal(found, given * 3 + 2)
        with pytest.raises(Exception, match="E604"):
            kernel(A, A, 1.0, 1)


@pytest.mark.usefixtures("folder")
def test_what_is_found_shows_what_was_traced(loaded: Any, traces: list[str]) -> None:
    text = EAGER.format(term="math.sqrt(4.0)")
    kernel = loaded(text).kernel.compile(A)
    ir, source = kernel.get_tir(), kernel.get_kernel_source()
    traces.clear()
    again = loaded(text).kernel.compile(A)
    assert (again.get_tir(), again.get_kernel_source()) == (ir, source)
    assert again.prim_func.script() == ir
    assert not traces
    assert np.array_equal(pickle.loads(pickle.dumps(again))(A), A * 2 + 2)
    profiler = again.get_profiler()
    profiler.assert_allclose(lambda a: a * 2 + 2)


@pytest.mark.usefixtures("folder")
def test_the_way_of_every_check_in_python_works_without_statements(loaded: Any) -> None:
    text = EAGER.format(term="1.0")
    loaded(text).kernel(A)
    kernel = loaded(text).kernel.compile(A)
    for _ in range(5):
        assert np.array_equal(kernel(A), A * 2 + 1)
    with pytest.raises(Exception, match="E607"):
        kernel(A.astype(np.float64))


MODULE = "import types\nm = types.ModuleType('a_config')\nm.V = {}\nsys.modules['a_config'] = m\ndef helper():\n    "

CHANGES = {
    "a global": ("OFFSET", "OFFSET = 1.0", "OFFSET = 5.0"),
    "the content of a list": ("OFFSETS[1]", "OFFSETS = [0.0, 1.0]", "OFFSETS = [0.0, 5.0]"),
    "the content of a dictionary": ("OFFSETS['a'][0]", "OFFSETS = {'a': [1.0]}", "OFFSETS = {'a': [5.0]}"),
    "the body of a function": ("helper(0)", "def helper(x):\n    return x + 1.0", "def helper(x):\n    return x + 5.0"),
    "a default of a function": ("helper()", "def helper(x=1.0):\n    return x", "def helper(x=5.0):\n    return x"),
    "what a function reads": ("helper()", "Z = 1.0\ndef helper():\n    return Z", "Z = 5.0\ndef helper():\n    return Z"),
    "a function that a function calls": (
        "helper()", "def inner():\n    return 1.0\ndef helper():\n    return inner()",
        "def inner():\n    return 5.0\ndef helper():\n    return inner()",
    ),
    "the body of a macro": (
        "helper(0.0)", "@T.macro\ndef helper(x):\n    return x + 1.0", "@T.macro\ndef helper(x):\n    return x + 5.0",
    ),
    "what a macro reads": (
        "helper(0.0)", "Z = 1.0\n@T.macro\ndef helper(x):\n    return x + Z", "Z = 5.0\n@T.macro\ndef helper(x):\n    return x + Z",
    ),
    "what stands for a builtin": ("max(1.0, 5.0)", "max = min", ""),
    "a name that was a builtin": ("abs(-1.0)", "", "def abs(x):\n    return 5.0"),
    "a value in a closure": (
        "helper(0.0)", "def make(n):\n    def helper(x):\n        return x + n\n    return helper\nhelper = make(1.0)",
        "def make(n):\n    def helper(x):\n        return x + n\n    return helper\nhelper = make(5.0)",
    ),
    "a module's attribute": (
        "config.VALUE", "import types\nconfig = types.ModuleType('a_config')\nconfig.VALUE = 1.0\nsys.modules['a_config'] = config",
        "import types\nconfig = types.ModuleType('a_config')\nconfig.VALUE = 5.0\nsys.modules['a_config'] = config",
    ),
    "an attribute of a module of a module": (
        "config.inner.VALUE",
        "import types\nconfig, i = types.ModuleType('a_config'), types.ModuleType('an_inner')\nconfig.inner, i.VALUE = i, 1.0\n"
        "sys.modules.update(a_config=config, an_inner=i)",
        "import types\nconfig, i = types.ModuleType('a_config'), types.ModuleType('an_inner')\nconfig.inner, i.VALUE = i, 5.0\n"
        "sys.modules.update(a_config=config, an_inner=i)",
    ),
    "the attribute of an object": (
        "config.value", "class Config:\n    value = 1.0\nconfig = Config()", "class Config:\n    value = 5.0\nconfig = Config()",
    ),
    "a property": (
        "config.value", "class Config:\n    @property\n    def value(self):\n        return 1.0\nconfig = Config()",
        "class Config:\n    @property\n    def value(self):\n        return 5.0\nconfig = Config()",
    ),
    "a class": ("Config.value", "class Config:\n    value = 1.0", "class Config:\n    value = 5.0"),
    "a lambda": ("helper(0.0)", "helper = lambda x: x + 1.0", "helper = lambda x: x + 5.0"),
    "a partial function": (
        "helper()", "import functools\nhelper = functools.partial(float, 1.0)", "import functools\nhelper = functools.partial(float, 5.0)",
    ),
    "the environment": (
        "helper()", "os.environ['ZV'] = '1'\ndef helper():\n    return float(os.environ['ZV'])",
        "os.environ['ZV'] = '5'\ndef helper():\n    return float(os.environ['ZV'])",
    ),
    "what an import inside finds": (
        "helper()",
        MODULE.format(1.0) + "import a_config\n    return a_config.V",
        MODULE.format(5.0) + "import a_config\n    return a_config.V",
    ),
    "what getattr finds": (
        "helper()", MODULE.format(1.0) + "return getattr(m, 'V')", MODULE.format(5.0) + "return getattr(m, 'V')",
    ),
    "an array": ("float(VALUES[0])", "VALUES = np.array([1.0])", "VALUES = np.array([5.0])"),
    "a file": (
        "helper()", "open(__file__ + '.txt', 'w').write('1')\ndef helper():\n    return float(open(__file__ + '.txt').read())",
        "open(__file__ + '.txt', 'w').write('5')\ndef helper():\n    return float(open(__file__ + '.txt').read())",
    ),
    "an attribute of a function": (
        "helper.value", "def helper():\n    pass\nhelper.value = 1.0", "def helper():\n    pass\nhelper.value = 5.0",
    ),
    "a word of the language by another name": (
        "float(helper(1, 5))", "helper = T.bitwise_and", "helper = T.bitwise_or",
    ),
    "a number longer than Python prints": (
        "float(helper >> 20000)", "helper = 1 << 20000", "helper = 5 << 20000",
    ),
    "what a decorator of the package holds": (
        "helper()", "import zellige.testing\n@zellige.testing.requires_llvm\ndef helper():\n    return 1.0",
        "import zellige.testing\n@zellige.testing.requires_llvm\ndef helper():\n    return 5.0",
    ),
    "what text finds": (
        "helper()", MODULE.format(1.0) + "return float(('{0.' + 'V' + 'ALUE}').format(m))\nm.VALUE = 1.0",
        MODULE.format(1.0) + "return float(('{0.' + 'V' + 'ALUE}').format(m))\nm.VALUE = 5.0",
    ),
    "what the frame of a generator finds": (
        "helper()", "VALUE = 1.0\ndef helper():\n    return (i for i in ()).gi_frame.f_globals['VAL' + 'UE']",
        "VALUE = 5.0\ndef helper():\n    return (i for i in ()).gi_frame.f_globals['VAL' + 'UE']",
    ),
    "a word of the language": ("T.min(1.0, 5.0)", "", "real = T.min\nT.min = T.max\nimport atexit"),
}  # fmt: skip


UNCLEAR = frozenset(
    (
        "the attribute of an object", "a property", "a class", "a lambda", "a partial function", "the environment",
        "what an import inside finds", "what getattr finds", "an array", "a file", "what a decorator of the package holds",
        "what text finds", "what the frame of a generator finds",
    )
)  # fmt: skip
"""What nobody can vouch for in another process, so that the function is traced each time."""


@pytest.mark.parametrize("name", list(CHANGES))
def test_what_can_be_told_apart_is(name: str, loaded: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    term, before, after = CHANGES[name]
    monkeypatch.setattr(T, "min", T.min)
    marks = [mark(loaded(EAGER.format(term=term) + text)) for text in (before, before, after)]
    if name in UNCLEAR:
        assert marks == [None, None, None]
    else:
        assert marks[0] is not None
        assert marks[0] == marks[1]
        assert marks[2] != marks[0]


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("style", [EAGER, LAZY], ids=["eager", "lazy"])
@pytest.mark.parametrize("name", list(CHANGES))
def test_a_change_is_never_missed(name: str, style: str, loaded: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same function in the same file on the same line; what it reads stands below it and is another in the second process."""
    term, before, after = CHANGES[name]
    monkeypatch.setattr(T, "min", T.min)  # put back at the end
    assert value_of(loaded(style.format(term=term) + before)) == 1.0
    assert value_of(loaded(style.format(term=term) + after)) == 5.0


def value_of(module: types.ModuleType) -> float:
    """What the function adds."""
    zeros = np.zeros(16, np.float32)
    kernel = module.kernel
    return float((kernel(zeros) if "const" in Path(str(module.__file__)).read_text() else kernel(16)(zeros))[3])


@pytest.mark.usefixtures("folder")
def test_annotations_of_local_names_count(loaded: Any, traces: list[str]) -> None:
    """Python compiles no annotation of a local name, so that its names stand in no byte code."""
    text = HEAD + """
@zl.jit(target="cpu")
def kernel(A):
    A: T.Tensor((16,), KIND)
    B = T.empty((16,), "float32")
    with T.Kernel(1) as _:
        for j in T.Parallel(16):
            B[j] = T.cast(A[j], "float32")
    return B
"""
    bits = A.view(np.int32)
    assert np.array_equal(loaded(text + "KIND = 'float32'").kernel(A), A)
    assert np.array_equal(loaded(text + "KIND = 'int32'").kernel(bits), bits.astype(np.float32))
    module = loaded(text + "KIND = 'float32'")
    assert np.array_equal(module.kernel(A), A)
    module.KIND = "int32"
    assert np.array_equal(module.kernel(bits), bits.astype(np.float32)), "in one process too"
    first = mark(loaded(text + "KIND = 'float32'"))
    assert first is not None
    assert mark(loaded(text + "KIND = 'int32'")) not in (None, first)


@pytest.mark.usefixtures("folder")
def test_other_lines_of_the_file_do_not_count_but_its_own_place_does(loaded: Any, traces: list[str]) -> None:
    text = EAGER.format(term="1.0")
    loaded(text).kernel(A)
    traces.clear()
    assert np.array_equal(loaded(text + "\n# a remark\nUNUSED = 3\nA = np.ones(3)\n").kernel(A), A * 2 + 1)
    assert not traces
    loaded("\n" + text).kernel(A)
    assert traces


def test_values_of_a_call_are_told_apart(loaded: Any) -> None:
    module = loaded(EAGER.format(term="1.0"))
    values = [1, 1.0, True, "1", b"1", None, 0.0, -0.0, float("nan"), (1,), [1], {"a": 1}, {"b": 1}, {1}, frozenset((1,)), int]
    values += [T.float32, T.float16]
    marks = [mark(module, (value,)) for value in values]
    assert None not in marks
    assert len(set(marks)) == len(values)
    assert marks == [mark(module, (value,)) for value in values]
    for value in (object(), np.ones(2), module.kernel, lambda: 1, {1: object()}, sys.stdout, print, open, [[[object()]]]):
        assert mark(module, (value,)) is None, value
    cyclic: list[Any] = []
    cyclic.append(cyclic)
    assert mark(module, (cyclic,)) is None


def test_a_trace_with_a_warning_or_a_place_is_made_each_time(folder: Path, loaded: Any, traces: list[str]) -> None:
    told = HEAD + """
@zl.jit(target="cpu")
def kernel(A):
    A: T.Tensor((16,), "float32")
    B = T.empty((16,), "float32")
    with T.Kernel(1) as _:
        for j in T.Parallel(16):
            print(A[j])
            B[j] = A[j]
    return B
"""
    asserted = EAGER.format(term="1.0").replace("        for j", "        T.device_assert(A[0] < 3.0, 'too large')\n        for j")
    for _ in range(2):
        traces.clear()
        module = loaded(told)
        with warnings.catch_warnings(record=True) as shown:
            warnings.simplefilter("always")
            module.kernel(A)
        assert any("E137" in str(w.message) for w in shown)
        assert traces
        traces.clear()
        shutil.rmtree(folder / "v1" / "starts", ignore_errors=True)  # where code is kept with its places: test_starts.py
        assert np.array_equal(loaded(asserted).kernel(A), A * 2 + 1)
        assert traces


@pytest.mark.usefixtures("folder")
def test_options_and_passes_count(loaded: Any, traces: list[str]) -> None:
    text = EAGER.format(term="1.0")
    loaded(text).kernel(A)
    for more in ('pass_configs={"tl.enable_fast_math": True}', 'passes=[("legalise", lambda k: k)]'):
        traces.clear()
        assert np.array_equal(loaded(text.replace('target="cpu"', f'target="cpu", {more}')).kernel(A), A * 2 + 1)
        assert traces
    traces.clear()
    loaded(text).kernel(A)
    assert not traces


def test_another_compiler_traces_anew(folder: Path, loaded: Any, traces: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    text = EAGER.format(term="1.0")
    loaded(text).kernel(A)
    traces.clear()
    for name, changed in {"installed_version": lambda _name: "99", "source_digest": lambda name, _store: f"other {name}"}.items():
        shutil.rmtree(folder / "v1" / "starts")  # test_starts.py says what they see
        with monkeypatch.context() as other:
            other.setattr(f"zellige.cache.keys.{name}", changed)
            loaded(text).kernel(A)
            assert traces, name
            traces.clear()


def test_a_damaged_entry_is_traced_anew(folder: Path, loaded: Any, traces: list[str]) -> None:
    text = EAGER.format(term="1.0")
    loaded(text).kernel(A)
    entries = [path for path in (folder / "v1" / "traces").rglob("*") if path.is_file()]
    assert len(entries) == 1
    whole = entries[0].read_bytes()
    for damaged in (whole[:-1], whole[:60], b"", whole[:-1] + bytes((whole[-1] ^ 1,))):
        entries[0].write_bytes(damaged)
        shutil.rmtree(folder / "v1" / "starts")
        traces.clear()
        assert np.array_equal(loaded(text).kernel(A), A * 2 + 1)
        assert traces
    shutil.rmtree(folder / "v1" / "starts")
    store().keep("traces", entries[0].name, b"\x05\0\0\0 {}[]proven but no trace")
    traces.clear()
    assert np.array_equal(loaded(text).kernel(A), A * 2 + 1)
    assert traces


@pytest.mark.usefixtures("folder")
def test_a_function_that_changes_what_it_reads_is_not_kept(loaded: Any, traces: list[str]) -> None:
    head = "with T.Kernel(1) as _:\n"
    text = LAZY.format(term="once").replace(head, f"{head}            once = helper()\n")
    text += "SEEN = []\ndef helper():\n    SEEN.append(1)\n    return 1.0 * len(SEEN)\n"
    for _ in range(2):
        traces.clear()
        module = loaded(text)
        assert value_of(module) == 1.0
        assert traces
        assert module.SEEN
