"""The interpreter as the backend of the target ``interp``."""

from __future__ import annotations

import numpy as np
import pytest

from zellige.diagnostics import CompileError, Unsupported, ZelligeWarning
from zellige.interp.kernel import InterpretedKernel, memory_at
from zellige.ir.parser import parse_kernel
from zellige.ir.stmt import Dialect, Launch
from zellige.ir.traverse import rebuilt, same_structure
from zellige.options import CompileOptions, options
from zellige.plan.planner import plan
from zellige.plugin.contract import CompiledKernel
from zellige.plugin.fit import FittedKernel
from zellige.plugin.registry import registry
from zellige.target import Target

SCALED = """# tile-ir 1.0


@sizes(m=int32)
def scaled(A: tensor((m, 6), int4), x: scalar(float32), B: tensor((m, 6), float32, role="output")) -> (B,):
    with launch(m) as (bx,):
        for i in parallel(6):
            B[bx, i] = cast(A[bx, i], float32) * x
"""


@pytest.fixture
def environment(monkeypatch):
    def set_variable(name, value):
        monkeypatch.setenv(name, value)
        options.cache_clear()

    yield set_variable
    options.cache_clear()


def compiled(text: str) -> CompiledKernel:
    handle = registry().backend(Target(name="interp"))
    ctx = handle.context(Target(name="interp"), CompileOptions())
    return handle.compile_kernel(FittedKernel(planned=plan(parse_kernel(text), ctx.capabilities)), ctx)


def test_it_is_found_and_never_chosen_by_itself():
    handle = registry().backend(registry().resolve("interp"))
    assert handle.manifest.kind == "reference" and handle.works
    capabilities = handle.describe(Target(name="interp"))
    assert capabilities.lanes == options().lanes and capabilities.has_storage("float4_e2m1fn") and capabilities.has_storage("tfloat32")


def test_launch_on_addresses():
    kernel = compiled(SCALED)
    packed = np.array([[0x21, 0xF3, 0x80], [0x00, 0x7F, 0x19]], np.uint8)
    out = np.zeros((2, 6), np.float32)
    kernel.launch([packed.ctypes.data, out.ctypes.data], [0.5], [2])
    assert out.tolist() == [[0.5, 1.0, 1.5, -0.5, 0.0, -4.0], [0.0, 0.0, -0.5, 3.5, -3.5, 0.5]]


def test_launch_on_nothing():
    compiled(SCALED).launch([0, 0], [0.5], [0])
    assert memory_at(0, 0).cells.size == 0


def test_source_is_the_tile_ir_and_there_is_no_assembly():
    kernel = compiled(SCALED)
    assert same_structure(parse_kernel(kernel.source()), parse_kernel(SCALED))
    with pytest.raises(Unsupported) as caught:
        kernel.assembly()
    assert caught.value.code == "E440" and "interp" in str(caught.value)


def test_checks_come_as_warnings(environment):
    environment("ZELLIGE_CHECKS", "bounds,races")
    kernel = compiled(SCALED.replace("B[bx, i]", "B[bx, i + 1]"))
    packed, out = np.zeros((2, 3), np.uint8), np.zeros((2, 6), np.float32)
    with pytest.warns(ZelligeWarning, match="E298"):
        kernel.launch([packed.ctypes.data, out.ctypes.data], [1.0], [2])
    assert isinstance(kernel, InterpretedKernel) and [f.code for f in kernel.findings] == ["E298"]


def test_lanes_come_from_the_environment(environment):
    text = SCALED[: SCALED.index("@sizes")] + (
        "def k(B: tensor((16,), int32)):\n    with launch(1, threads=(16,)) as (bx,), lanes() as (tx,):\n"
        '        x: int32 = vote("count", "warp", tx >= 0)\n        B[tx] = x\n'
    )
    for lanes in (4, 8):
        environment("ZELLIGE_LANES", str(lanes))
        out = np.zeros(16, np.int32)
        compiled(text).launch([out.ctypes.data], [], [])
        assert out.tolist() == [lanes] * 16


def test_a_plugins_operation_has_no_meaning_here():
    kernel = parse_kernel(SCALED)
    launch: Launch = kernel.launches[0]
    foreign = rebuilt(kernel, launches=(rebuilt(launch, body=(Dialect(op="acme.fetch", span=launch.body[0].span),)),))
    packed, out = np.zeros((1, 3), np.uint8), np.zeros((1, 6), np.float32)
    with pytest.raises(Unsupported) as caught:
        InterpretedKernel(foreign).launch([packed.ctypes.data, out.ctypes.data], [0.5], [1])
    assert caught.value.code == "E445" and "acme.fetch" in str(caught.value) and caught.value.span is not None


def test_tile_larger_than_the_machine_is_the_kernels_mistake() -> None:
    program = """# tile-ir 1.0


def large(A: tensor((1,), float32)):
    with launch(1) as (bx,):
        tile = alloc((1048576, 1048576), float32, "shared")
        A[0] = tile[3, 3]
"""
    array = np.zeros(1, np.float32)
    with pytest.raises(CompileError) as caught:
        compiled(program).launch([array.ctypes.data], [], [])
    assert caught.value.code == "E301"
    assert "this machine's memory of the target interp holds" in str(caught.value)
