"""Kernels defined in files, on the command line, on the standard input, in strings, notebooks and interactive sessions."""

from __future__ import annotations

import code
import linecache
import marshal
import os
import re
import runpy
import subprocess
import sys
import textwrap
import types
import zipfile
from pathlib import Path
from typing import Any

import pytest

import zellige as zl
import zellige.language as T
from zellige.diagnostics import CompileError
from zellige.frontend.source import function_source

PROGRAM = """
import zellige.language as T

@T.prim_func
def kernel(A: T.Tensor((4,), "int32")):
    with T.Kernel(1):
        for i in T.serial(4):
            A[i] = i{end}
print("traced", len(kernel.kernel.launches))
"""


def python(*arguments: str, text: str | None = None, path: Path | None = None) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    if path is not None:
        with path.open() as stream:
            return subprocess.run([sys.executable, *arguments], stdin=stream, capture_output=True, text=True, env=environment, check=False)
    return subprocess.run([sys.executable, *arguments], input=text, capture_output=True, text=True, env=environment, check=False)


def test_command_line() -> None:
    done = python("-c", PROGRAM.format(end=""))
    assert done.stdout == "traced 1\n", done.stderr
    wrong = python("-Bc", PROGRAM.format(end="[0]"))
    assert "E110" in wrong.stderr and "A[i] = i[0]" in wrong.stderr


def test_a_text_that_the_command_line_runs_is_not_called_changed() -> None:
    done = python("-c", f"exec({PROGRAM.format(end='')!r})")
    assert "E116: the source of kernel cannot be found: there is no text for <string>\n" in done.stderr


def test_file_on_the_standard_input(tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM.format(end=""))
    done = python("-", path=path)
    assert done.stdout == "traced 1\n", done.stderr


def test_pipe_on_the_standard_input_is_refused_with_the_reason() -> None:
    done = python("-", text=PROGRAM.format(end=""))
    assert "E116" in done.stderr and "define the kernel in a file" in done.stderr


def test_string_without_text_is_refused() -> None:
    with pytest.raises(CompileError) as caught:
        exec(compile(PROGRAM.format(end=""), "<nowhere>", "exec"), {})
    assert caught.value.code == "E116" and "<nowhere>" in str(caught.value)


def test_string_registered_with_linecache() -> None:
    source = PROGRAM.format(end="")
    linecache.cache["<cell 1>"] = (len(source), None, source.splitlines(keepends=True), "<cell 1>")
    namespace: dict[str, Any] = {}
    exec(compile(source, "<cell 1>", "exec"), namespace)
    assert namespace["kernel"].kernel.span.file == "<cell 1>"


def test_module_in_an_archive(tmp_path: Path) -> None:
    archive = tmp_path / "kernels.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("kernel_in_archive.py", PROGRAM.format(end=""))
        file.writestr("wrong_in_archive.py", PROGRAM.format(end="[0]"))
        file.writestr("__main__.py", PROGRAM.format(end=""))
    reach = f"import sys; sys.path.insert(0, {str(archive)!r}); "
    found = python("-c", reach + "import kernel_in_archive as k; print(k.kernel.kernel.span)")
    assert found.stdout.splitlines() == ["traced 1", f"{archive}/kernel_in_archive.py:5:1"], found.stderr
    wrong = python("-c", reach + "import wrong_in_archive")
    assert f"{archive}/wrong_in_archive.py:8:20\n    8 |             A[i] = i[0]\n      |                    ^^^^" in wrong.stderr
    assert python(str(archive)).stdout == "traced 1\n"


def test_interactive_session(monkeypatch: pytest.MonkeyPatch) -> None:
    typed = [
        "import zellige.language as T",
        "@T.prim_func",
        'def kernel(A: T.Tensor((4,), "int32")):',
        "    with T.Kernel(1):",
        "        A[0] = 1",
        "",
        "x = 3",
        "@T.prim_func",
        'def kernel(A: T.Tensor((4,), "int32")):',
        "    with T.Kernel(1):",
        "        A[0] = 2",
        "",
        "kernel",
    ]
    readline = types.ModuleType("readline")
    readline.get_current_history_length = lambda: len(typed)  # type: ignore[attr-defined]
    readline.get_history_item = lambda i: typed[i - 1]  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "readline", readline)
    for lines, want in ((typed[1:5], 1), (typed[7:11], 2)):
        namespace: dict[str, Any] = {"T": T}
        exec(compile("\n".join(lines) + "\n", "<stdin>", "single"), namespace)
        assert f"= {want}" in namespace["kernel"].script()


@pytest.mark.parametrize("name", ["<console>", "<of an application>"])
def test_console_of_pythons_code_module(name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.delitem(sys.modules, "readline", raising=False)
    console = code.InteractiveConsole({"T": T, "zl": zl}, name)

    def enter(*lines: str) -> None:
        for line in (*lines, ""):
            console.push(line)

    kernel = ('    def kernel(A: T.Tensor((4,), "int32")):', "        with T.Kernel(1):", "            A[0] = {}")
    for number in (1, 2):
        enter("if True:", "    @T.prim_func", *kernel[:2], kernel[2].format(number))
        assert f"= {number}" in console.locals["kernel"].script()
    enter("@zl.jit", "def make(n):", "    @T.prim_func", *kernel[:2], kernel[2].format("n"), "    return kernel")
    enter("made = make.get_tir(5)")  # runs the text of an earlier statement
    assert "= 5" in console.locals["made"].script(), capsys.readouterr().err
    enter("def plain(n):", "    @T.prim_func", *kernel[:2], kernel[2].format("n"), "    return kernel")
    enter("plain(5)")  # nothing of ours ran while its text was there
    assert "hint: a console of Python's code module keeps no text of the statements before" in capsys.readouterr().err
    enter("if True:", "    @T.prim_func", *kernel[:2], kernel[2].format("q"), "", "kernel.script()")
    assert f"--> <{name.strip('<>')} " in capsys.readouterr().err


def test_functions_of_one_name_are_told_apart() -> None:
    kernels = []
    for which in (True, False):
        if which:

            @T.prim_func
            def kernel(A: T.Tensor((4,), "int32")):
                with T.Kernel(1):
                    A[0] = 1

        else:

            @T.prim_func
            def kernel(A: T.Tensor((4,), "int32")):
                with T.Kernel(1):
                    A[0] = 2

        kernels.append(kernel.script())
    assert "= 1" in kernels[0] and "= 2" in kernels[1]


def test_files_whose_functions_differ_in_annotations_only_are_told_apart(tmp_path: Path) -> None:
    """Python calls their code objects equal: annotations in a body leave no trace in them."""
    found = []
    for number, dtype in enumerate(("float16", "float32")):
        program = f'''
import zellige.language as T

@T.prim_func
def kernel(A):
    A: T.Tensor((4,), "{dtype}")
    with T.Kernel(1):
        A[0] = 1
'''
        file = tmp_path / f"kernel{number}.py"
        file.write_text(program)
        found.append(runpy.run_path(str(file))["kernel"].kernel.params[0])
    assert [param.buffer.dtype.name for param in found] == ["float16", "float32"]
    assert [Path(param.buffer.span.file).name for param in found] == ["kernel0.py", "kernel1.py"]


def test_an_annotation_that_is_text_and_fails_is_located(tmp_path: Path) -> None:
    file = tmp_path / "kernel.py"
    file.write_text(
        "from __future__ import annotations\nimport zellige as zl, zellige.language as T\n@zl.jit\ndef kernel(A: T.Tensor((4,), 'x')(3)):\n"
        "    with T.Kernel(1):\n        A[0] = 1\nkernel([1])\n"
    )
    with pytest.raises(CompileError) as caught:
        runpy.run_path(str(file))
    assert caught.value.code == "E217"
    assert caught.value.span is not None and caught.value.span.line == 4


def test_decorators_over_several_lines_and_odd_indentation() -> None:
    def passing(value: Any) -> Any:
        return lambda function: function

    # fmt: off
    if True:
          @passing(
              [1,
               2],
          )
          @passing(None)
          def function(a,
                       b):
              return a + b
    # fmt: on
    source = function_source(function)
    assert source.node.name == "function" and source.text.span(source.node).column == 10


def test_columns_count_characters(tmp_path: Path) -> None:
    path = tmp_path / "umlaut.py"
    path.write_text(
        textwrap.dedent(
            '''
            import zellige.language as T

            @T.prim_func
            def kernel(A: T.Tensor((4,), "int32")):
                with T.Kernel(1):
                    größe = "äöü"; A[0] = undefined
            '''
        ),
        encoding="utf-8",
    )
    namespace: dict[str, Any] = {}
    with pytest.raises(CompileError) as caught:
        exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), namespace)
    span = caught.value.span
    assert span is not None and span.line == 7 and span.column == 8 + len('größe = "äöü"; A[0] = ')


@pytest.mark.parametrize(
    "text",
    [
        "# another first line\n\ndef g(a):\n    return a\n",
        "def f(b):\n    return b\n",
        "def f(a, b):\n    return a\n",
        "def f():\n    return a\n",
        "def f(a):\n    return b\n",
        "def f(a):\n    return a + 1\n",
    ],
)
def test_file_changed_since_it_was_loaded(tmp_path: Path, text: str) -> None:
    path = tmp_path / "changed.py"
    path.write_text("def f(a):\n    return a\n")
    namespace: dict[str, Any] = {}
    exec(compile(path.read_text(), str(path), "exec"), namespace)
    path.write_text(text)
    with pytest.raises(CompileError) as caught:
        function_source(namespace["f"])
    assert caught.value.code == "E116" and "changed since it was loaded" in str(caught.value)


def test_a_file_written_meanwhile_that_holds_what_was_loaded(tmp_path: Path) -> None:
    """The order of a constant set depends on whether it was compiled or loaded from a file of byte code."""
    path = tmp_path / "same.py"
    path.write_text("def f(a):\n    return a in {8, 0, 16}\n")
    namespace: dict[str, Any] = {}
    exec(marshal.loads(marshal.dumps(compile(path.read_text(), str(path), "exec"))), namespace)
    assert function_source(namespace["f"]).node.lineno == 1


@pytest.mark.parametrize("optimize", [0, 1, 2])
def test_a_file_written_meanwhile_whose_assertions_were_left_out(tmp_path: Path, optimize: int) -> None:
    path = tmp_path / "same.py"
    path.write_text('def f(a):\n    "What it gives."\n    assert a\n    return a\n')
    namespace: dict[str, Any] = {}
    exec(compile(path.read_text(), str(path), "exec", optimize=optimize), namespace)
    assert function_source(namespace["f"]).node.lineno == 1


def test_what_is_defined_in_a_function_is_read_from_the_text_that_was_loaded(tmp_path: Path) -> None:
    path = tmp_path / "changed.py"
    text = """import zellige as zl
import zellige.language as T

@zl.jit(target="interp", out_idx=[0])
def filled(n):
    @T.prim_func
    def kernel(A: T.Tensor((n,), "int32")):
        with T.Kernel(n) as i:
            A[i] = 5
    return kernel
"""
    path.write_text(text)
    namespace: dict[str, Any] = {}
    exec(compile(path.read_text(), str(path), "exec"), namespace)
    path.write_text(text.replace("A[i] = 5", "A[i] = 77"))
    assert namespace["filled"](3)().tolist() == [5, 5, 5]


def test_coroutines_and_generators_are_refused() -> None:
    async def coroutine() -> None:
        pass

    def generator() -> Any:
        yield 1

    for wrong in (coroutine, generator):
        with pytest.raises(CompileError) as caught:
            function_source(wrong)  # type: ignore[arg-type]
        assert caught.value.code == "E129"


def test_source_that_nests_too_deeply(tmp_path: Path) -> None:
    path = tmp_path / "deep.py"
    path.write_text("def f(a):\n    return a\n")
    namespace: dict[str, Any] = {}
    exec(compile(path.read_text(), str(path), "exec"), namespace)
    path.write_text("def f(a):\n    return a\n\nx = " + "-" * 60000 + "1\n")
    with pytest.raises(CompileError) as caught:
        function_source(namespace["f"])
    assert caught.value.code in ("E135", "E116")


def test_an_interactive_session_without_a_person_is_told_apart_from_a_changed_file(tmp_path: Path) -> None:
    path = tmp_path / "typed.py"
    path.write_text(PROGRAM.format(end="").replace("\nprint", "\n\nprint"))
    for done in (python("-i", path=path), python("-i", text=path.read_text())):
        text = done.stdout + done.stderr
        assert "E116" in text and "reads its statements from a file or pipe" in text and "without -i" in text, text
        assert "changed since" not in text


NOTEBOOK = """
import sys
from IPython.core.interactiveshell import InteractiveShell

shell = InteractiveShell.instance()
for cell in {cells!r}:
    if not shell.run_cell(cell, store_history={history}).success:
        print("failed")
"""

KERNEL = """
def made(factor):
    @T.prim_func
    def kernel(A: T.Tensor((8,), "int32"), B: T.Tensor((8,), "int32")):
        with T.Kernel(1):
            for i in T.Parallel(8):
                B[i] = A[i] * factor{end}
    return zl.compile(kernel, out_idx=-1, target="cpu")(np.ones(8, "int32"))[0]
"""

START = "import numpy as np, zellige as zl, zellige.language as T"


def notebook(*cells: str, history: bool = True) -> str:
    pytest.importorskip("IPython")
    done = python("-c", NOTEBOOK.format(cells=list(cells), history=history))
    return re.sub(r"\x1b\[[0-9;]*m", "", done.stdout + done.stderr)


def test_cells_of_a_notebook_are_read_as_they_are_now() -> None:
    text = notebook(
        START,
        KERNEL.format(end="") + "print('first', made(2))",
        "print('again', made(3))",
        KERNEL.format(end=" + 1") + "print('redefined', made(2))",
        "%%time\n" + KERNEL.format(end=" + 2") + "print('timed', made(2))",
        "%time print('one line', made(2))",
    )
    lines = [line for line in text.splitlines() if line.split(" ")[-1].isdecimal()]
    assert lines == ["first 2", "again 3", "redefined 3", "timed 4", "one line 4"], text


def test_a_cell_may_import_what_its_kernel_calls() -> None:
    """A notebook compiles each statement of a cell by itself, and Python then does not see that a name was imported. A cell may wait."""
    cell = START + KERNEL.format(end="") + "print('one cell', made(2))"
    waiting = "import asyncio\nawait asyncio.sleep(0)\n" + cell
    text = notebook(cell, "from __future__ import annotations\n" + cell, "%%time\n" + cell, waiting)
    assert [line for line in text.splitlines() if line.startswith("one cell")] == ["one cell 2"] * 4, text


def test_a_timed_cell_is_read_where_no_history_is_kept() -> None:
    cells = ["%%time\n" + KERNEL.format(end=end) + "print('timed', made(2))" for end in (" + 2", " - 2")]
    text = notebook(START, *cells, history=False)
    assert [line for line in text.splitlines() if line.startswith("timed")] == ["timed 4", "timed 0"], text


def test_a_timed_cell_that_nobody_keeps_is_refused_with_the_magic_as_the_reason() -> None:
    later = "def plain(A: T.Tensor((8,), 'int32')):\n    with T.Kernel(1):\n        A[0] = 1"
    text = notebook(START, "%%time\n" + later + "\nx = 1", "T.prim_func(plain)", history=False)
    assert "E116" in text and "define the kernel in a cell without it" in text, text


def test_functions_that_differ_in_an_operator_alone_are_told_apart() -> None:
    cells = ["%%time\n" + KERNEL.format(end=f" {sign} A[i]") + f"{name} = made" for sign, name in (("+", "first"), ("-", "second"))]
    text = notebook(START, *cells, "print('kept', first(2), second(2))")
    assert [line for line in text.splitlines() if line.startswith("kept")] == ["kept 3 1"], text


def test_an_error_names_the_line_of_its_cell() -> None:
    cell = "# a comment\n" + KERNEL.format(end="[0]") + "made(2)"
    text = notebook(START, cell, "%%time\n" + cell)
    assert text.count("    8 |                 B[i] = A[i] * factor[0]") == 2 and len(re.findall(r":8:\d+\n", text)) == 2, text
    assert "--> <cell 3, below %%time>:8:" in text, text


def test_a_cell_that_is_measured_again_and_again_has_no_text() -> None:
    text = notebook(START, "%%timeit -n 1 -r 1\n" + KERNEL.format(end="") + "made(2)")
    assert "E116" in text and "define the kernel in a cell without it" in text, text
