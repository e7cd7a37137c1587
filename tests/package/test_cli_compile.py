"""``zellige compile``: which kernels a file holds, which stages are printed, and how wrong requests are refused."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from zellige.cli.compile import compile_command
from zellige.cli.kernels import select
from zellige.diagnostics import CompileError

ONE = '''
import zellige as zl
import zellige.language as T

@T.prim_func
def double(a: T.Tensor((8,), "float32"), b: T.Tensor((8,), "float32")):
    with T.Kernel(1, threads=32):
        for i in T.Parallel(8):
            b[i] = a[i] * 2
'''

TWO = (
    ONE
    + '''

def make(factor):
    @T.prim_func
    def scale(a: T.Tensor((8,), "float32"), b: T.Tensor((8,), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(8):
                b[i] = a[i] * factor
    return scale

triple = make(3)

@zl.jit
def copied(a: T.Tensor((8,), "float32"), b: T.Tensor((8,), "float32")):
    with T.Kernel(1, threads=32):
        for i in T.Parallel(8):
            b[i] = a[i]

@zl.jit
def built(n=8):
    return make(n)

@zl.jit
def takes_a_number(n):
    return make(n)

@zl.jit
def takes_a_tensor(A):
    N = T.const("N")
    A: T.Tensor((N,), "float32")
    B = T.empty((N,), "float32")
    with T.Kernel(1, threads=32):
        for i in T.Parallel(N):
            B[i] = A[i]
    return B

same = triple
numbers = [1, 2, 3]

if __name__ == "__main__":
    raise SystemExit("the main part must not run")
'''
)


@pytest.fixture
def one(tmp_path: Path) -> Path:
    path = tmp_path / "one.py"
    path.write_text(ONE)
    return path


@pytest.fixture
def two(tmp_path: Path) -> Path:
    path = tmp_path / "two.py"
    path.write_text(TWO)
    return path


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(compile_command, list(arguments))


def refused(*arguments: str) -> CompileError:
    error = invoke(*arguments).exception
    assert isinstance(error, CompileError)
    return error


def test_the_kernels_of_a_file_are_those_at_its_top_level(two: Path) -> None:
    assert list(select(str(two))) == ["double", "triple", "copied", "built"]
    assert list(select(f"{two}:triple")) == ["triple"]
    assert select(f"{two}:triple")["triple"].name == "scale"


def test_without_a_stage_every_kernel_is_compiled(two: Path) -> None:
    done = invoke(str(two), "--target", "interp")
    assert done.exit_code == 0, done.output
    assert [line.split(" in ")[0] for line in done.output.splitlines()] == [
        f"{name}: compiled for interp" for name in ("double", "triple", "copied", "built")
    ]


def test_stages_are_printed_in_the_order_asked_for(one: Path) -> None:
    text = invoke(str(one), "--target", "interp", "--dump", "tile-ir").output
    assert text.startswith("# tile-ir ")
    assert "double" in text
    both = invoke(str(one), "--target", "interp", "--dump", "legal", "--dump", "tile-ir").output
    assert both.index("# ---- legal ----") < both.index("# ---- tile-ir ----")


def test_every_stage_is_written_where_the_environment_says(one: Path, tmp_path: Path) -> None:
    program = f"from zellige.cli.compile import compile_command; compile_command([{str(one)!r}, '--target', 'cpu'])"
    settings = {**os.environ, "ZELLIGE_DEBUG_ROOT": str(tmp_path / "stages")}
    subprocess.run([sys.executable, "-c", program], check=True, env=settings, capture_output=True)
    written = sorted(path.name for path in (tmp_path / "stages" / "double").iterdir())
    assert written == ["1-tile-ir.tile", "2-legal.tile", "3-plan.txt", "4-source.txt", "5-asm.txt"]


@pytest.mark.parametrize("stage", ["tile-ir", "legal", "source", "asm"])
def test_every_stage_prints_for_the_cpu(one: Path, stage: str) -> None:
    done = invoke(f"{one}:double", "--target", "cpu", "--dump", stage)
    assert done.exit_code == 0, done.output
    assert len(done.output.splitlines()) > 5


def test_printed_tile_ir_is_compiled_as_a_file(one: Path, tmp_path: Path) -> None:
    text = invoke(str(one), "--target", "interp", "--dump", "tile-ir").output
    saved = tmp_path / "double.tile"
    saved.write_text(text)
    assert invoke(str(saved), "--target", "interp", "--dump", "tile-ir").output == text
    assert invoke(f"{saved}:double", "--target", "interp").exit_code == 0


def test_an_error_in_tile_ir_text_has_its_place(tmp_path: Path) -> None:
    saved = tmp_path / "broken.tile"
    saved.write_text("# tile-ir 1.0\nnonsense (\n")
    error = refused(str(saved), "--target", "interp")
    assert error.span is not None
    assert (error.span.file, error.span.line) == (str(saved), 2)


@pytest.mark.parametrize(
    ("suffix", "says"),
    [(":nonsense", "holds no kernel 'nonsense': it has double, triple, copied, built"), (":numbers", "holds no kernel 'numbers'")],
)
def test_an_unknown_kernel_lists_those_there_are(two: Path, suffix: str, says: str) -> None:
    error = refused(f"{two}{suffix}", "--target", "interp")
    assert error.code == "E742"
    assert says in str(error)


def test_a_stage_of_several_kernels_asks_for_one(two: Path) -> None:
    error = refused(str(two), "--target", "interp", "--dump", "tile-ir")
    assert error.code == "E742"
    assert "holds several kernels: double, triple, copied, built" in str(error)


def test_a_file_that_is_not_there_or_holds_nothing(tmp_path: Path) -> None:
    assert "is no file that can be read" in str(refused(str(tmp_path / "none.py")))
    empty = tmp_path / "empty.py"
    empty.write_text("x = 1\n")
    assert "holds no kernel at its top level" in str(refused(str(empty)))


def test_an_unknown_stage_lists_the_stages(one: Path) -> None:
    error = refused(str(one), "--dump", "assembler")
    assert error.code == "E743"
    assert "tile-ir, legal, plan, source, asm" in error.hint


def test_a_target_that_is_not_built_says_so(one: Path) -> None:
    error = refused(str(one), "--target", "hip:gfx942")
    assert error.code == "E706"
    assert "not built yet" in str(error)


def test_a_file_that_is_not_python_is_refused_where_it_goes_wrong(tmp_path: Path) -> None:
    prose = tmp_path / "notes.md"
    prose.write_text("# Notes\nrows = )\n")
    error = refused(str(prose))
    assert error.code == "E742" and error.span is not None
    assert (error.span.line, error.span.column) == (2, 7)
    assert "is no Python file: unmatched ')'" in str(error)
    (tmp_path / "image.py").write_bytes(b"\0\1\2")
    assert "is no Python file: source code" in str(refused(str(tmp_path / "image.py")))


def test_a_mistake_inside_a_module_of_the_user_stays_python_s_own(tmp_path: Path) -> None:
    (tmp_path / "wrong_neighbour.py").write_text("x = = 1\n")
    (tmp_path / "kernels.py").write_text("import wrong_neighbour\n")
    result = CliRunner().invoke(compile_command, [str(tmp_path / "kernels.py")])
    assert isinstance(result.exception, SyntaxError) and result.exception.filename == str(tmp_path / "wrong_neighbour.py")


def test_a_file_that_ends_the_process_says_so(tmp_path: Path) -> None:
    path = tmp_path / "ends.py"
    path.write_text("import sys\n\nsys.exit(3)\n")
    with pytest.raises(CompileError, match="ends the process when it is run") as caught:
        select(str(path))
    assert caught.value.code == "E742"
    assert caught.value.span is not None
    assert (caught.value.span.file, caught.value.span.line) == (str(path), 3)


def test_functions_that_need_arguments_are_named(tmp_path: Path) -> None:
    lazy = tmp_path / "lazy.py"
    lazy.write_text(
        "import zellige as zl\nimport zellige.language as T\n\n@zl.jit\ndef scale(n):\n    @T.prim_func\n"
        '    def scale(a: T.Tensor((n,), "float32")):\n        with T.Kernel(1):\n            a[0] = 1\n    return scale\n'
    )
    error = refused(str(lazy), "--target", "interp")
    assert "holds no kernel that is ready: scale takes arguments" in str(error)
    assert "kernel = scale.compile(...)" in error.hint
    assert "holds no kernel that is ready: scale takes arguments" in str(refused(f"{lazy}:scale", "--target", "interp"))
    lazy.write_text(lazy.read_text() + "kernel = scale.compile(8)\n")
    assert CliRunner().invoke(compile_command, [str(lazy), "--target", "interp"], catch_exceptions=False).exit_code == 0


def test_what_a_file_prints_is_not_among_the_stages(one: Path) -> None:
    alone = CliRunner().invoke(compile_command, [str(one), "--dump", "tile-ir"], catch_exceptions=False)
    one.write_text(one.read_text() + "print('loaded')\n")
    result = CliRunner().invoke(compile_command, [str(one), "--dump", "tile-ir"], catch_exceptions=False)
    assert result.stdout == alone.stdout and "loaded" not in result.stdout
    assert "loaded" in result.stderr


SET = '''
import zellige as zl
import zellige.language as T

def scaled(n, dtype, block):
    @T.prim_func
    def kernel(A: T.Tensor((n,), dtype), B: T.Tensor((n,), dtype)):
        with T.Kernel(T.ceildiv(n, block)) as bx:
            for i in T.Parallel(block):
                B[bx * block + i] = A[bx * block + i] * 2
    return kernel

@zl.jit
def lazy(n, dtype="float32", block=16):
    return scaled(n, dtype, block)

@zl.autotune(configs=[{"block": 32}, {"block": 64, "pass_configs": {}}])
@zl.jit
def tuned(n=100, dtype="float32", block=16):
    return scaled(n, dtype, block)

@zl.autotune
@zl.jit
def proposed(n=100, dtype="float32", block=8):
    return scaled(n, dtype, block)

@zl.jit
def eager(A, block=16):
    N = T.const("N")
    A: T.Tensor((N,), "float16")
    B = T.empty((N,), "float16")
    with T.Kernel(T.ceildiv(N, block)) as bx:
        for i in T.Parallel(block):
            B[bx * block + i] = A[bx * block + i] * 2
    return B
'''


@pytest.fixture
def parameters(tmp_path: Path) -> Path:
    path = tmp_path / "parameters.py"
    path.write_text(SET)
    return path


def dumped(*arguments: str) -> str:
    done = invoke(*arguments, "--target", "cpu", "--dump", "tile-ir")
    assert done.exit_code == 0, done.output
    return done.output


def test_values_for_the_parameters_of_a_lazy_function(parameters: Path) -> None:
    text = dumped(f"{parameters}:lazy", "--set", "n=70", "--set", "dtype=float16", "--set", "block=64")
    assert "A: tensor((70,), float16)" in text and "launch(2," in text
    assert "n takes arguments" not in text


def test_the_type_and_shape_of_a_tensor(parameters: Path) -> None:
    text = dumped(f"{parameters}:eager", "--set", "A=float16[1024]", "--set", "block=128")
    assert "A: tensor((1024,), float16)" in text and "launch(8," in text


def test_a_configuration_of_a_tuned_function_is_said(parameters: Path) -> None:
    text = dumped(f"{parameters}:tuned")
    assert "tuned: configuration 1 of 2: block=32\n" in text and "launch(4," in text
    text = dumped(f"{parameters}:tuned", "--config", "2", "--set", "n=640")
    assert "tuned: configuration 2 of 2: block=64, pass_configs={}\n" in text and "launch(10," in text
    assert "launch(13," in dumped(f"{parameters}:tuned", "--set", "block=8")  # what is given is not tuned
    assert "launch(13," in dumped(f"{parameters}:proposed")  # without configurations: its defaults
    wrong = invoke(f"{parameters}:tuned", "--config", "3")
    assert wrong.exit_code == 2 and "tuned has 2 configurations, not 3" in wrong.output
    for name, settings in {"eager": ("--set", "A=float16[1024]"), "proposed": ()}.items():
        wrong = invoke(f"{parameters}:{name}", "--config", "7", *settings)
        assert wrong.exit_code == 2 and f"{name} has no configurations: leave the option out" in wrong.output, wrong.output


def test_only_ready_kernels_are_meant_without_a_name(parameters: Path) -> None:
    assert list(select(str(parameters))) == ["tuned", "proposed"]
    assert list(select(str(parameters), {"n": 50})) == ["lazy", "tuned", "proposed"]


def test_a_value_for_a_parameter_that_no_kernel_has(parameters: Path, one: Path) -> None:
    error = refused(f"{parameters}:lazy", "--set", "blok=8")
    assert error.code == "E747" and "lazy has no parameter 'blok'; did you mean 'block'?" in str(error)
    assert error.hint == "parameters are: n, dtype, block"
    error = refused(str(one), "--set", "n=8")
    assert error.code == "E747" and "takes none" in error.hint
    error = refused(f"{parameters}:lazy", "--set", "block=8")
    assert error.code == "E742" and "--set NAME=VALUE" in error.hint


@pytest.mark.parametrize("text", ["n", "=3", "2n=3", "A=float16[4,x]"])
def test_a_setting_of_another_form(parameters: Path, text: str) -> None:
    wrong = invoke(f"{parameters}:lazy", "--set", text)
    assert wrong.exit_code == 2 and "--set" in wrong.output


def test_explain_takes_the_same(parameters: Path) -> None:
    from zellige.cli.explain import explain

    done = CliRunner().invoke(explain, [f"{parameters}:lazy", "--set", "n=64", "--set", "dtype=bfloat16", "--target", "cpu", "--program"])
    assert done.exit_code == 0 and "bfloat16" in done.output, done.output
