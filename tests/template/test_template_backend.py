"""The template backend: programs in its own instructions, executed by its own machine, equal to the interpreter's results."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import zellige as zl
import zellige.language as T
from zellige.diagnostics import InternalError, LaunchError, Unsupported
from zellige.driver import compile_kernel
from zellige.generate import Program, check_program, generate_seeded
from zellige.ir.expr import Cast
from zellige.ir.traverse import rebuilt, rewrite
from zellige.plugin.registry import registry
from zellige_template import instructions
from zellige_template.backend import TemplateBackend

PACKAGE = Path(instructions.__file__).parent
EXAMPLES = Path(__file__).parents[2] / "examples"

SHAPES = {
    "attention": "1x2x1x33x65x32", "attention_backward": "1x1x65x32", "attention_varlen": "1x33x1x32", "convolution": "1x9x9x3x5x3x1x2",
    "flash_decoding": "1x1x1x65x32x2", "gemm": "67x45x33", "gemm_batched": "2x35x33x17", "gemm_direct": "33x37x45",
    "gemm_eager": "67x37x45", "gemm_fp8": "33x65x131", "gemm_grouped": "2x65x67x45", "gemm_int4": "67x69x131", "gemm_layout": "67x67x45",
    "gemm_persistent": "130x67x45", "gemm_split_k": "33x65x117", "gemm_stream_k": "67x133x133", "histogram": "1001x37",
    "layer_norm": "3x129", "linear_attention": "1x1x65x40", "moe": "7x4x2x37x33", "rms_norm": "3x129", "softmax": "3x129",
    "top_k": "3x129x5", "transpose": "67x129", "vector_add": "1007",
}  # fmt: skip
QUICK = ("gemm", "softmax", "vector_add")


@zl.jit(out_idx=[-1])
def gemm(M=70, N=50, K=90, dtype="float16", accumulator="float32", stages=3):
    @T.prim_func
    def gemm(A: T.Tensor((M, K), dtype), B: T.Tensor((K, N), dtype), C: T.Tensor((M, N), accumulator)):
        with T.Kernel(T.ceildiv(N, 32), T.ceildiv(M, 32)) as (bx, by):
            a = T.alloc_shared((32, 24), dtype)
            b = T.alloc_shared((24, 32), dtype)
            c = T.alloc_fragment((32, 32), accumulator)
            T.clear(c)
            for k in T.Pipelined(T.ceildiv(K, 24), num_stages=stages):
                T.copy(A[by * 32, k * 24], a)
                T.copy(B[k * 24, bx * 32], b)
                T.gemm(a, b, c)
            T.copy(c, C[by * 32, bx * 32])

    return gemm


def integers(*shape: int, dtype: str = "float32") -> Any:
    return np.random.default_rng(0).integers(-3, 4, shape).astype(dtype)


def test_no_module_of_it_loads_the_interpreter() -> None:
    names = ", ".join(f"zellige_template.{path.stem}" for path in PACKAGE.glob("*.py") if path.stem != "__init__")
    program = f"import sys, {names}; print([m for m in sys.modules if m.startswith('zellige.interp')])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
    assert not [path for path in PACKAGE.glob("*.py") if re.search(r"zellige\.interp\b|zellige import interp", path.read_text("utf-8"))]


def test_it_stays_small_and_says_what_a_vendor_replaces() -> None:
    texts = [path.read_text(encoding="utf-8") for path in PACKAGE.glob("*.py")]
    assert sum(text.count("\n") for text in texts) < LINES
    assert all("vendor" in text.split('"""')[1] for text in texts)


LINES = 700
"""Lines of all files of the package, with comments, docstrings and empty ones."""


def test_auto_never_chooses_it() -> None:
    assert str(registry().resolve("auto")) != "template"
    assert str(registry().resolve("template")) == "template"


@pytest.mark.parametrize("stages", [1, 2, 3])
@pytest.mark.parametrize("dtype, accumulator", [("float16", "float32"), ("float32", "float32"), ("int8", "int32"), ("float16", "float16")])
def test_products_are_exact_on_integers(dtype: str, accumulator: str, stages: int) -> None:
    a, b = integers(70, 90, dtype=dtype), integers(90, 50, dtype=dtype)
    expected = a.astype(np.float64) @ b.astype(np.float64)
    for target in ("template", "interp"):
        made = zl.compile(gemm.get_tir(dtype=dtype, accumulator=accumulator, stages=stages), out_idx=[-1], target=target)
        assert np.array_equal(made(a, b).astype(np.float64), expected), target


def test_products_copies_and_pipeline_are_its_own_instructions() -> None:
    text = zl.compile(gemm.get_tir(), out_idx=[-1], target="template").get_kernel_source()
    m, n, k = instructions.PRODUCT
    assert re.search(rf"product\.float16\.float16\.float32\.nn {m}x{n}x{k} ", text)
    assert f"32:int32 {m}:int64" in text
    steady = text[text.index("dma copies") :]
    assert re.search(r"wait copies [1-9]", steady), "copies are waited for one by one"
    assert not re.search(r"map .*\n.*op\.mul\.float", text), "a product is not a map"


def test_a_copy_in_flight_is_late() -> None:
    """The queue's copies happen when they are waited for: a program that waits for too few reads what was there before."""
    emitted = zl.compile(gemm.get_tir(), out_idx=[-1], target="template").get_kernel_source()
    damaged = re.sub(r"wait copies ([1-9])", lambda found: f"wait copies {int(found[1]) + 2}", emitted)
    assert damaged != emitted
    a, b, c = integers(70, 90, dtype="float16"), integers(90, 50, dtype="float16"), np.zeros((70, 50), np.float32)
    pointers = [array.ctypes.data for array in (a, b, c)]
    _run(emitted, pointers)
    assert np.array_equal(c, a.astype(np.float32) @ b.astype(np.float32))
    _run(damaged, pointers)
    assert not np.array_equal(c, a.astype(np.float32) @ b.astype(np.float32))


def _run(text: str, pointers: list[int]) -> None:
    from zellige.plugin.contract import Emitted
    from zellige_template.machine import LoadedProgram

    LoadedProgram(instructions.assemble(text), Emitted(text=text, format="")).launch(pointers, (), ())


@zl.jit(out_idx=[-1])
def points(N=37):
    @T.prim_func
    def points(A: T.Tensor((N,), "int32"), B: T.Tensor((N,), "int32")):
        with T.Kernel(1):
            for i in T.Parallel(N):
                own = T.alloc_local((4,), "int32")
                T.clear(own)
                x = A[i]
                while x > 0:
                    own[x % 4] += x
                    x = x // 2
                    if x == 5:
                        break
                if i % 3 == 0:
                    B[i] = own[0] - own[1] * own[2]
                else:
                    B[i] = (own[3] << 3) ^ (-i // 4)

    return points


def test_control_flow_of_points_is_masked() -> None:
    a = np.random.default_rng(1).integers(-5, 100, 37).astype(np.int32)
    results = [zl.compile(points.get_tir(), out_idx=[-1], target=target)(a) for target in ("template", "interp")]
    assert np.array_equal(*results)


@zl.jit(out_idx=[-2, -1])
def rare(N=64):
    @T.prim_func
    def rare(A: T.Tensor((N,), "float32"), B: T.Tensor((N,), "float8_e8m0fnu"), C: T.Tensor((N,), "int32")):
        with T.Kernel(1):
            for i in T.Parallel(N):
                B[i] = T.cast(A[i], "float8_e8m0fnu")
                C[i] = T.popcount(T.reinterpret(A[i], "int32")) + T.cast(T.fma(A[i], A[i], 1.0), "int32")

    return rare


def test_rare_types_and_functions_of_bits_are_the_interpreters() -> None:
    a = np.exp(np.random.default_rng(5).normal(0, 3, 64)).astype(np.float32)
    template, reference = (zl.compile(rare.get_tir(), out_idx=[-2, -1], target=target)(a) for target in ("template", "interp"))
    for ours, theirs in zip(template, reference):
        assert np.array_equal(ours.view(f"u{ours.itemsize}"), theirs.view(f"u{theirs.itemsize}"))
    assert len(set(template[0].view(np.uint8).tolist())) > 5


@zl.jit
def lanes(A: T.Tensor((32,), "float32")):
    with T.Kernel(1, threads=32):
        t = T.get_thread_binding(0)
        A[t] = 1.0


def test_lanes_are_refused() -> None:
    with pytest.raises(Unsupported, match="E410.*template.*lanes"):
        zl.compile(lanes.get_tir(), target="template")(integers(32))


@zl.jit
def checked(A: T.Tensor((8,), "float32")):
    with T.Kernel(1):
        for i in T.serial(8):
            T.device_assert(A[i] < 3, "too large for this")


def test_a_failed_assertion_names_the_line() -> None:
    with pytest.raises(LaunchError, match="E620.*too large for this") as caught:
        zl.compile(checked.get_tir(), target="template")(np.arange(8, dtype=np.float32))
    assert Path(__file__).name in str(caught.value)


@pytest.mark.parametrize("first, count", [(0, 8), pytest.param(1000, 600, marks=pytest.mark.slow)])
def test_generated_programs_are_the_interpreters(first: int, count: int) -> None:
    """Every generated program that the machine does not refuse agrees with the interpreter, with any number of stages."""
    accepted = 0
    for seed in range(first, first + count):
        program = plain(generate_seeded(seed, flavour="blocks"))
        try:
            compile_kernel(program.kernel, "template")
        except Unsupported:
            continue
        accepted += 1
        problems = check_program(program, ("template",), is_thorough=False)
        assert [problem for problem in problems if problem.kind != "rule"] == [], program.script()  # rule: what `plain` left has no bound
    assert accepted > count // 2


def plain(program: Program) -> Program:
    """The program without the rarest of what the machine refuses: stochastic rounding."""

    def visit(node: Any) -> Any:
        return rebuilt(node, rounding="nearest_even") if isinstance(node, Cast) and node.rounding == "stochastic" else node

    return Program(kernel=rewrite(program.kernel, visit), arguments=program.arguments)


@pytest.mark.parametrize("name", [pytest.param(n, marks=[] if n in QUICK else [pytest.mark.slow]) for n in sorted(SHAPES)])
def test_example_runs_unedited(name: str, tmp_path: Path) -> None:
    command = [sys.executable, str(EXAMPLES / f"{name}.py"), "--shape", SHAPES[name], "--milliseconds", "0.01", "--target", "template"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " ok" in done.stdout


def test_every_example_is_here() -> None:
    assert sorted(SHAPES) == sorted(path.stem for path in EXAMPLES.glob("[a-z]*.py"))


@pytest.mark.parametrize("keeps", ["none", "global"])
@pytest.mark.usefixtures("asked_anew")
def test_tiles_of_spaces_that_are_not_stated_never_lie_on_each_other(monkeypatch: pytest.MonkeyPatch, keeps: str) -> None:
    """Capabilities that name no space leave each space of the language its own memory; those that name some have no others (E413)."""
    stated = TemplateBackend().describe(registry().resolve("template"))
    spaces = tuple(space for space in stated.spaces if space.name == keeps)
    described = replace(stated, spaces=spaces, copies=stated.copies[1:])
    monkeypatch.setattr(registry().named("template"), "describe", lambda target: described)
    a, b = integers(70, 90, dtype="float16"), integers(90, 50, dtype="float16")
    kernel = gemm.get_tir(stages=1 + len(spaces))
    if spaces:
        with pytest.raises(Unsupported, match="the target template has no memory space 'shared', which .* is allocated in") as caught:
            zl.compile(kernel, out_idx=[-1], target="template")
        assert caught.value.code == "E413"
        return
    expected = a.astype(np.float64) @ b.astype(np.float64)
    assert np.array_equal(zl.compile(kernel, out_idx=[-1], target="template")(a, b).astype(np.float64), expected)


@pytest.mark.parametrize("part", [0.0, 0.5, 0.99])
def test_a_program_that_was_cut_short_is_not_run(part: float) -> None:
    code = instructions.assemble(zl.compile(gemm.get_tir(), out_idx=[-1], target="template").get_kernel_source())
    assert instructions.decode(code)
    with pytest.raises(InternalError, match="the program is cut short"):
        instructions.decode(code[: int(part * len(code))])


def test_a_program_whose_last_blocks_do_not_end_is_refused() -> None:
    """An assembler puts its mark behind whatever text it gets."""
    whole = "launch %x int32 1:int32\n  map 0\n  end\nend\n"
    assert instructions.decode(instructions.assemble(whole))
    for text in (whole.removesuffix("end\n"), whole + "end\n"):
        with pytest.raises(InternalError, match="the program is cut short"):
            instructions.decode(instructions.assemble(text))
