"""Every example runs at small odd sizes within its bound, in every element type it offers, and fails where a result is wrong."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from click.testing import CliRunner

from zellige.cli.explain import explain
from zellige.plan.invented_machines import TEST_TARGETS

FOLDER = Path(__file__).parents[2] / "examples"

sys.path.insert(0, str(FOLDER.parent / "tools"))
from example_sizes import SHAPES  # noqa: E402

WITHOUT_TORCH = "import sys, runpy; sys.modules['torch'] = None; sys.path.insert(0, '.'); runpy.run_path('gemm.py', run_name='__main__')"

BITWISE = (
    "convolution", "gemm", "gemm_batched", "gemm_direct", "gemm_eager", "gemm_grouped", "gemm_int4", "gemm_layout", "gemm_persistent",
    "gemm_split_k", "gemm_stream_k", "linear_attention", "vector_add",
)  # fmt: skip
"""Those that only add and multiply: with small integers nothing rounds before the end, and every bit must be right."""

LINE = re.compile(r"^\S.*\berror \S+  error/bound (\S+) +\S+ ms +\S+ (GFLOP|GB)/s  (\S.*)$")


def options(module: ModuleType, name: str) -> list[str]:
    """The choices of one of an example's options."""
    return list(next(p for p in module.main.params if p.name == name).type.choices)


def names() -> list[str]:
    return sorted(path.stem for path in FOLDER.glob("[a-z]*.py"))


def test_every_example_is_run_here() -> None:
    assert sorted(SHAPES) == names()


def test_the_index_lists_every_example() -> None:
    assert sorted(re.findall(r"\[(\w+)\]\(\1\.py\)", (FOLDER / "README.md").read_text(encoding="utf-8"))) == names()


@pytest.mark.parametrize("name", sorted(SHAPES))
def test_example_is_within_its_bound(name: str, load_example: Callable[[str], ModuleType]) -> None:
    module = load_example(name)
    runs = [(SHAPES[name][0], dtype) for dtype in options(module, "dtype")]
    runs += [(shape, options(module, "dtype")[0]) for shape in SHAPES[name][1:]]
    for shape, dtype in runs:
        result = CliRunner().invoke(module.main, ["--shape", shape, "--dtype", dtype, "--milliseconds", "0.1"], catch_exceptions=False)
        lines = [LINE.match(line) for line in result.output.splitlines()]
        assert lines and all(lines), result.output
        assert result.exit_code == 0, result.output
        assert all(float(line[1]) <= 1 and line[3] == "ok" for line in lines if line), result.output


@pytest.mark.parametrize("name", BITWISE)
def test_example_is_exact_with_integers(name: str, load_example: Callable[[str], ModuleType]) -> None:
    module = load_example(name)
    arguments = ["--shape", SHAPES[name][0], "--data", "integers", "--milliseconds", "0.1"]
    for dtype in options(module, "dtype"):
        result = CliRunner().invoke(module.main, [*arguments, "--dtype", dtype], catch_exceptions=False)
        assert result.exit_code == 0, result.output
        assert all("error 0.00e+00" in line for line in result.output.splitlines()), result.output


@pytest.mark.parametrize("name", ["vector_add", "gemm", "softmax"])
def test_example_runs_as_a_script_on_another_target(name: str, tmp_path: Path) -> None:
    command = [sys.executable, str(FOLDER / f"{name}.py"), "--shape", SHAPES[name][0], "--target", "interp", "--milliseconds", "0.1"]
    done = subprocess.run(command, cwd=tmp_path, env=dict(os.environ), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert all(LINE.match(line) for line in done.stdout.splitlines())


@pytest.mark.parametrize("name", sorted(SHAPES))
def test_example_does_not_ask_for_its_target(name: str) -> None:
    tree = ast.parse((FOLDER / f"{name}.py").read_text(encoding="utf-8"))
    assert ast.get_docstring(tree)
    used = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)} | {
        node.id for node in ast.walk(tree) if isinstance(node, ast.Name)
    }
    assert not used & {"target", "device"}
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    assert {"zellige", "zellige.language"} <= imported
    assert all(name.partition(".")[0] != "zellige" or name in ("zellige", "zellige.language") for name in imported)


@pytest.mark.parametrize("target", ["cpu", *(f"test:{name}" for name in TEST_TARGETS)])
@pytest.mark.parametrize("name", ["gemm", "gemm_direct"])
def test_an_example_can_be_explained(name: str, target: str) -> None:
    result = CliRunner().invoke(explain, [str(FOLDER / f"{name}.py"), "--target", target], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    assert f"gemm for {target}" in result.output
    assert "A_tile" in result.output


@pytest.mark.parametrize("wrong", ["value", "shape", "nan"])
def test_a_wrong_result_ends_with_status_1(wrong: str, load_example: Callable[[str], ModuleType], monkeypatch: pytest.MonkeyPatch) -> None:
    module = load_example("gemm")
    right = module.gemm

    def damaged(*sizes: object) -> Callable[..., object]:
        kernel = right(*sizes)

        def run(*arrays: object) -> object:
            result = kernel(*arrays)
            if wrong == "shape":
                return result[:-1]
            result[3, 4] = np.nan if wrong == "nan" else result[3, 4] + 1e-3
            return result

        return run

    monkeypatch.setattr(module, "gemm", damaged)
    result = CliRunner().invoke(module.main, ["--shape", "67x45x31", "--milliseconds", "0.1"], catch_exceptions=False)
    assert result.exit_code == 1
    assert "OVER THE BOUND" in result.output


@pytest.mark.parametrize("name", ["attention", "gemm", "gemm_fp8", "histogram", "moe", "transpose"])
def test_example_takes_torch_tensors(name: str, load_example: Callable[[str], ModuleType]) -> None:
    module = load_example(name)
    for dtype in options(module, "dtype"):
        arguments = ["--shape", SHAPES[name][0], "--dtype", dtype, "--device", "cpu", "--milliseconds", "0.1"]
        result = CliRunner().invoke(module.main, arguments, catch_exceptions=False)
        assert result.exit_code == 0 and " ok\n" in result.output, result.output


@pytest.mark.parametrize(
    "name, shape, reason",
    [
        ("attention", "1x4x3x8x8x8", "multiple of kv_heads"),
        ("attention", "1x4x2x9x8x8", "keys must be at least queries"),
        ("flash_decoding", "1x4x3x8x8x2", "multiple of kv_heads"),
        ("moe", "8x2x3x8x8", "k must be at most experts"),
        ("top_k", "8x2x3", "k must be at most columns"),
        ("convolution", "1x5x5x2x2x5x1x3", "must fit the image"),
        ("vector_add", "99999999999999999999", "more than any machine holds"),
    ],
)
def test_sizes_without_meaning_are_refused(name: str, shape: str, reason: str, load_example: Callable[[str], ModuleType]) -> None:
    result = CliRunner().invoke(load_example(name).main, ["--shape", shape])
    assert result.exit_code == 2
    assert reason in result.output


@pytest.mark.parametrize("shape", ["12x13", "a", "12x0x3", ""])
def test_a_wrong_shape_is_refused(shape: str, load_example: Callable[[str], ModuleType]) -> None:
    result = CliRunner().invoke(load_example("gemm").main, ["--shape", shape])
    assert result.exit_code == 2
    assert "expected 3 positive sizes, M x N x K, not " in result.output


def test_a_device_that_torch_does_not_have_is_said_in_a_line(load_example: Callable[[str], ModuleType]) -> None:
    pytest.importorskip("torch")
    for device in ("hpu:7", "nonsense"):
        result = CliRunner().invoke(load_example("vector_add").main, ["--shape", "10", "--device", device])
        assert result.exit_code == 1 and result.exception is not None and isinstance(result.exception, SystemExit)
        assert result.output.startswith(f"Error: --device {device}: ") and "--target cuda:sm_80,simulate" in result.output
        assert len(result.output.splitlines()) == 1


def test_a_target_or_device_that_is_not_here_is_said_in_a_line() -> None:
    def run(*arguments: str) -> str:
        command = [sys.executable, "-c", WITHOUT_TORCH, *arguments]
        done = subprocess.run(command, cwd=FOLDER, env=dict(os.environ), capture_output=True, text=True, check=False)
        assert done.returncode == 1 and "Traceback" not in done.stderr
        return done.stderr

    assert run("--target", "hip").startswith("Error: error E706: the target 'hip' is not available")
    assert run("--device", "cuda").startswith("Error: --device cuda needs torch")
