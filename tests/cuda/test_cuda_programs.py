"""Programs for CUDA devices compiled without one: what the machine code holds."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import pytest

import zellige
import zellige.language as T
from zellige.diagnostics import CompileError, LaunchError
from zellige.driver import dump
from zellige.plan.planner import plan
from zellige.simt.lower import lower
from zellige_cuda import compiler, device, disassembly
from zellige_cuda.architectures import ARCHITECTURES
from zellige_cuda.describe import capabilities, lane_machine
from zellige_cuda.helpers import helper_text


def gemm(rows: int, columns: int, depth: int, dtype: str, stages: int) -> Any:
    @T.prim_func
    def product(A: T.Tensor((1024, 512), dtype), B: T.Tensor((512, 1024), dtype), C: T.Tensor((1024, 1024), "float32")):
        with T.Kernel(1024 // columns, 1024 // rows, threads=128) as (bx, by):
            a = T.alloc_shared((rows, depth), dtype)
            b = T.alloc_shared((depth, columns), dtype)
            c = T.alloc_fragment((rows, columns), "float32")
            T.clear(c)
            for k in T.Pipelined(512 // depth, num_stages=stages):
                T.copy(A[by * rows, k * depth], a)
                T.copy(B[k * depth, bx * columns], b)
                T.gemm(a, b, c)
            T.copy(c, C[by * rows, bx * columns])

    return product


def instructions(sass: str) -> Counter[str]:
    """How often each instruction stands in the machine code, without its suffixes."""
    return Counter(re.findall(r"\*/\s+(?:@!?U?P\w+ )?([A-Z][A-Z0-9_]*)", sass))


@pytest.mark.parametrize("arch", ["sm_80", "sm_89", "sm_90", "sm_110", "sm_120"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_a_pipelined_product_uses_the_instructions_of_its_path(arch: str, dtype: str) -> None:
    found = instructions(dump(gemm(64, 64, 32, dtype, 3).kernel, f"cuda:{arch}", "asm"))
    assert found["HMMA"] > 0
    assert found["LDSM"] > 0
    assert found["LDGSTS"] > 0
    assert found["LDL"] == found["STL"] == 0


def test_copies_wait_once_a_step() -> None:
    """One barrier serves what has landed and the slot to fill."""
    text = dump(gemm(64, 64, 32, "float16", 3).kernel, "cuda:sm_80", "source")
    step = text[text.index("k_step") : text.index("k_drain")]
    assert step.count("__syncthreads();") == 1
    assert step.count("cp_async_wait") == 1


def test_the_source_names_the_users_lines() -> None:
    text = dump(gemm(64, 64, 32, "float16", 2).kernel, "cuda:sm_80", "source")
    assert f'"{__file__}"' in text
    assert "// what executes the product" in text


def test_stages_that_do_not_fit_are_fewer() -> None:
    machine = lane_machine(ARCHITECTURES["sm_86"], capabilities(ARCHITECTURES["sm_86"], "cuda:sm_86"))
    module = lower(plan(gemm(128, 128, 64, "float16", 4).kernel, machine.capabilities), machine)
    assert module.functions[0].shared_bytes <= machine.shared_bytes


def test_a_barrier_of_the_grid_is_refused_with_the_way_round_it() -> None:
    @T.prim_func
    def meeting(A: T.Tensor((256,), "int32")):
        with T.Kernel(2, threads=128) as b:
            for i in T.Parallel(128):
                A[b * 128 + i] = 1
            T.sync_grid()
            for i in T.Parallel(128):
                A[b * 128 + i] = A[(1 - b) * 128 + i] + 1

    with pytest.raises(CompileError, match=r"E447.*barrier over the grid(.|\n)*end the T.Kernel block there") as raised:
        dump(meeting.kernel, "cuda:sm_80", "source")
    assert __file__ in str(raised.value)


def test_an_unknown_architecture_is_refused() -> None:
    with pytest.raises(CompileError) as raised:
        dump(gemm(64, 64, 32, "float16", 1).kernel, "cuda:sm_13", "source")
    assert raised.value.code == "E706"
    assert "sm_80" in str(raised.value)


def test_what_the_compiler_refuses_is_said() -> None:
    with pytest.raises(CompileError) as raised:
        compiler.compile_cubin('extern "C" __global__ void f() { nonsense; }', "f", "sm_80")
    assert raised.value.code == "E502"
    assert "nonsense" in str(raised.value)


@pytest.mark.parametrize(
    "flags,told",
    [
        (["-O3"], "NVRTC does not compile with -O3, which was asked for: nvrtc: error: unrecognized option -O3"),
        (["-lineinfo", "--std=c++99"], "NVRTC does not compile with -lineinfo --std=c++99, which was asked for"),
        (["-DC=3"], "NVRTC does not compile with -DC=3, which was asked for"),
        (["-arch=sm_90"], "NVRTC does not compile with -arch=sm_90, which was asked for: the architecture is the target's, sm_80"),
        (["--gpu-architecture", "sm_90"], "with --gpu-architecture, which was asked for: the architecture is the target's, sm_80"),
    ],
)
def test_flags_that_the_compiler_does_not_take_are_the_users(flags: list[str], told: str) -> None:
    with pytest.raises(CompileError) as raised:
        zellige.compile(gemm(64, 64, 32, "float16", 1), target="cuda:sm_80", compile_flags=flags)
    assert raised.value.code == "E506" and told in str(raised.value)


def test_flags_that_the_compiler_takes_are_no_mistake() -> None:
    flags = ["-fmad=false", "--maxrregcount", "128", "-DNOWHERE=1"]
    assert "HMMA" in zellige.compile(gemm(64, 64, 32, "float16", 1), target="cuda:sm_80", compile_flags=flags).get_asm()


def test_a_missing_tool_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disassembly, "tool", lambda name: None)
    with pytest.raises(CompileError) as raised:
        disassembly.disassembled(b"")
    assert raised.value.code == "E501"
    assert "pip install 'zellige[cuda]' brings it" in str(raised.value)


def test_a_refusal_of_the_driver_is_said() -> None:
    class Status(int):
        name = "CUDA_ERROR_INVALID_VALUE"

    with pytest.raises(LaunchError) as raised:
        device.call((Status(1),))
    assert raised.value.code == "E642"


@pytest.mark.parametrize(
    "name",
    ["float8_e4m3fn_of_float32", "float8_e5m2_of_float32_saturated", "float32_of_float6_e2m3fn", "int8_of_float64_saturated",
     "atomic_add_float16", "atomic_max_int8", "atomic_min_float64", "float_floordiv32", "float_floormod64", "splat16_unsigned_short"],
)  # fmt: skip
def test_helpers_compile(name: str) -> None:
    texts: dict[str, str] = {}

    def visit(wanted: str) -> None:
        text, needs = helper_text(wanted, 80)
        for other in needs:
            visit(other)
        texts.setdefault(wanted, text)

    visit(name)
    opening = "struct alignas(8) wide8 { unsigned int x, y; }; struct alignas(16) wide16 { unsigned int x, y, z, w; };\n"
    cubin, _ = compiler.compile_cubin(opening + "\n".join(texts.values()), "helpers", "sm_80")
    assert cubin.startswith(b"\x7fELF")


def test_points_of_sizes_known_at_run_time_are_shared_out() -> None:
    """Every lane does its own points of a T.Parallel; only the block's own statements belong to one lane."""
    n = T.dynamic("n")

    @T.prim_func
    def count(values: T.Tensor((n,), "int32"), counts: T.Tensor((8,), "int32")):
        with T.Kernel(1, threads=64):
            for i in T.Parallel(n):
                T.atomic_add(counts[values[i] % 8], 1)

    text = dump(count.kernel, "cuda:sm_80", "source")
    assert "thread == 0" not in text
    assert "+= 64ll" in text


@pytest.mark.parametrize("name", ["main", "exp", "int", "größe", "shared"])
def test_kernels_may_be_called_anything(name: str) -> None:
    from zellige.ir.parser import parse_kernel

    text = (
        f"# tile-ir 1.0\ndef {name}(A: tensor((64,), float32)):\n    with launch(1) as (bx,):\n        fill(A[:], 1.0)\n"
        if name != "int"
        else "# tile-ir 1.0\ndef int_(A: tensor((64,), float32)):\n    with launch(1) as (bx,):\n        fill(A[:], 1.0)\n"
    )
    assert dump(parse_kernel(text), "cuda:sm_80", "asm")


def test_rows_that_are_reduced_stay_in_one_warp() -> None:
    """The maximum of each row of scores is held where the other product of the same rows needs it: in registers."""

    @T.prim_func
    def step(
        Q: T.Tensor((64, 64), "float16"),
        K: T.Tensor((64, 64), "float16"),
        V: T.Tensor((64, 128), "float16"),
        O: T.Tensor((64, 128), "float32"),
    ):
        with T.Kernel(1, threads=128):
            q = T.alloc_shared((64, 64), "float16")
            k = T.alloc_shared((64, 64), "float16")
            v = T.alloc_shared((64, 128), "float16")
            scores = T.alloc_fragment((64, 64), "float32")
            weights = T.alloc_fragment((64, 64), "float16")
            output = T.alloc_fragment((64, 128), "float32")
            top = T.alloc_fragment((64,), "float32")
            T.copy(Q, q)
            T.copy(K, k)
            T.copy(V, v)
            T.clear(output)
            T.gemm(q, k, scores, transpose_B=True, clear_accum=True)
            T.reduce_max(scores, top, dim=1)
            for i, j in T.Parallel(64, 64):
                scores[i, j] = T.exp2(scores[i, j] - top[i])
            T.copy(scores, weights)
            for i, j in T.Parallel(64, 128):
                output[i, j] *= top[i]
            T.gemm(weights, v, output)
            T.copy(output, O)

    text = dump(step.kernel, "cuda:sm_80", "source")
    assert "lives in shared memory" not in text
    assert "weights_staged" not in text
    assert text.count("shfl_xor") == 2


def test_a_few_registers_fewer_for_one_more_block() -> None:
    arch = ARCHITECTURES["sm_90"]
    assert compiler.more_blocks(129, arch, 256, 64 * 1024) == 2
    assert compiler.more_blocks(128, arch, 256, 64 * 1024) is None
    assert compiler.more_blocks(200, arch, 256, 64 * 1024) is None  # too many to lose
    assert compiler.more_blocks(129, arch, 256, 200 * 1024) is None  # no memory for another block
    assert compiler.more_blocks(36, arch, 1024, 0) == 2


def test_the_compilers_report_is_read() -> None:
    log = """
ptxas info    : Compiling entry function 'gemm' for 'sm_90'
ptxas         .     8 bytes stack frame, 4 bytes spill stores, 12 bytes spill loads
ptxas info    : Used 129 registers, used 1 barriers
"""
    assert compiler.usage_of(log) == {"gemm": compiler.Usage(registers=129, spilled_bytes=16, stack_bytes=8, stored_bytes=4)}


def test_the_kernel_with_one_block_more_is_kept() -> None:
    text = dump(gemm(128, 128, 32, "float16", 4).kernel, "cuda:sm_90", "source")
    assert "LANES(128) product(" in text
    cubin, log = compiler.compile_cubin(text, "kernel", "sm_90", ("-DBLOCKS_BESIDE=3",))
    assert cubin.startswith(b"\x7fELF")
    assert all(usage.registers <= 168 for usage in compiler.usage_of(log).values())
