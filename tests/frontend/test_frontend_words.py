"""Messages speak of tiles, elements and slices, whatever Python or a library says about the classes behind them."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path

import pytest

import zellige.frontend.values as values
import zellige.frontend.vectors as vectors
import zellige.language.kernel as kernel_module
from zellige.diagnostics import ZelligeError
from zellige.frontend.words import _WORDS, in_users_words

CASES = {
    "np.sin(A[0, 0])": "E131",
    "np.sum(A)": "E131",
    "np.maximum(A[0, 0], B[0])": "E131",
    "math.sin(A)": "E131",
    "sum(A)": "E106",
    "list(B[0:4])": "E106",
    "sorted(A)": "E106",
    "A > 0": "E202",
    "0 < A[0:32, 0:32]": "E202",
    "A == 1": "E202",
    "A[0, 0] < None": "E202",
    "'x' < A[0, 0]": "E202",
    "0 < bx < 'x'": "E202",
    "T.alloc_var('float16x2') >= None": "E202",
    "B[A > 0]": "E202",
    "abs(A)": "E202",
    "int(A)": "E202",
    "float(B[0:4])": "E202",
    "round(A)": "E202",
    "divmod(A, 2)": "E202",
    "A @ A": "E202",
    "hash(A[0, 0])": "E105",
    "np.arange(4)[bx]": "E105",
    "{0: 1}[bx]": "E105",
    "(1, 2, 3)[bx]": "E105",
    "A[0][1]": "E111",
    "both + 1": "E202",
    "A + both": "E202",
    "A.foo": "E117",
    "A(1)": "E110",
    "'x' % A[0, 0] + 1": "E110",
    "bytes(A)": "E106",
    "isinstance(A)": "E110",
    "len(A[0, 0])": "E131",
    "any()": "E110",
    "all([A[0, 0] > 0], 1)": "E110",
    "any([A[0, 0] > 0], key=abs)": "E110",
    "len(bx, by)": "E131",
    "T.copy(A, np.zeros(4))": "E222",
    "sizes + 1": "E202",
    "T.alloc_shared((sizes,), 'int8')": "E202",
    "reversed(range(bx))": "E111",
    "reversed(T.serial(4))": "E111",
    "locals()": "E111",
    "globals()": "E111",
    "eval('1 + 1')": "E111",
    "exec('B[bx] = 1')": "E111",
    "breakpoint()": "E111",
    "vars()": "E111",
}


def refusal(tmp_path: Path, line: str, kernel: str = "T.Kernel(4, 4) as (bx, by)") -> str:
    program = tmp_path / "program.py"
    program.write_text(
        "import math, os, sys\nimport numpy as np\nimport zellige.language as T\nsizes = T.dynamic('m n')\n"
        "@T.prim_func\ndef kernel(A: T.Tensor((64, 64), 'float32'), B: T.Tensor((64,), 'float32')):\n"
        f"    with {kernel}:\n        {line}\n    with T.Kernel(2, 2) as both:\n        {line}\n"
    )
    with pytest.raises(ZelligeError) as caught:
        runpy.run_path(str(program))
    return str(caught.value)


@pytest.mark.parametrize("expression", CASES)
def test_a_wrong_expression_in_the_words_of_the_language(expression: str, tmp_path: Path) -> None:
    text = refusal(tmp_path, f"x = {expression}", "T.Kernel(4, 4) as both" if "both" in expression else "T.Kernel(4, 4) as (bx, by)")
    message = text.splitlines()[0]
    assert message.startswith(f"error {CASES[expression]}: "), text
    assert in_users_words(message) == message, text
    assert "^" in text and "hint: " in text


def test_a_compiled_kernel_called_in_another(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import zellige as zl, zellige.language as T\n@zl.jit(target='interp')\ndef inner(A: T.Tensor((4,), 'float32')):\n"
        "    with T.Kernel(1):\n        A[0] = 1\n"
        "@T.prim_func\ndef outer(A: T.Tensor((4,), 'float32')):\n    with T.Kernel(1):\n        inner(A)\n"
    )
    with pytest.raises(ZelligeError) as caught:
        runpy.run_path(str(program))
    text = str(caught.value)
    assert "got A, a global float32 tile of shape (4,)" in text and "@T.macro" in text and "program.py:9" in text


def test_every_class_that_a_kernel_can_meet_has_words() -> None:
    found = {
        name for module in (values, vectors, kernel_module) for name, value in vars(module).items()
        if isinstance(value, type) and value.__module__ == module.__name__ and not name.startswith("_")
    }
    assert found - {"LaneWise"} <= set(_WORDS)


@pytest.mark.parametrize(
    ("grid", "names", "message"),
    [
        ("4, 4", "(bx,)", "T.Kernel of 2 extents gives 2 values for 1 name"),
        ("4, 4", "(bx, by, bz)", "T.Kernel of 2 extents gives 2 values for 3 names"),
        ("4", "(bx, by)", "T.Kernel of 1 extent gives 1 value for 2 names"),
        ("4", "(bx, by, *bz)", "1 value for at least 2 names"),
    ],
)
def test_names_of_a_grid(grid: str, names: str, message: str, tmp_path: Path) -> None:
    text = refusal(tmp_path, "pass", f"T.Kernel({grid}) as {names}")
    assert message in text and "E136" in text


@pytest.mark.parametrize(
    "line", ["sys.exit(3)", "exit(3)", "raise SystemExit", "raise SystemExit(3)", "raise KeyboardInterrupt", "os._exit(3)", "os.abort()"]
)
def test_a_kernel_that_would_end_the_process(line: str, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import os, sys\nimport zellige.language as T\ntry:\n    @T.prim_func\n    def kernel(A: T.Tensor((4,), 'float32')):\n"
        f"        with T.Kernel(1):\n            {line}\nexcept Exception as error:\n"
        "    print(error)\nprint('alive')\n"
    )
    done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "E149" in done.stdout and "^" in done.stdout and done.stdout.endswith("alive\n"), done.stdout


def test_several_sizes_in_one_text(tmp_path: Path) -> None:
    assert 'T.dynamic("m, n")' in refusal(tmp_path, 'T.dynamic("m", "n")')


def test_what_cannot_be_unpacked_says_what_to_write(tmp_path: Path) -> None:
    for statement, words in {
        "x, y = A[0, 0]": "an element of A cannot be iterated over|give it one name",
        "x, y = A": "take its elements",
        "for x, y in T.serial(4): pass": "1 loop variable for 2 names",
    }.items():
        text = refusal(tmp_path, statement)
        assert all(part in text for part in words.split("|")), text
