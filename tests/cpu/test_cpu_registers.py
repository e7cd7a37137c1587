"""Micro-kernels keep their block in registers: what a step needs beside sums and operands is counted too."""

from __future__ import annotations

import re

import pytest

from zellige.dtypes import dtype
from zellige_cpu import compiler
from zellige_cpu.host import Host, make_host
from zellige_cpu.leaf.gemm import GemmSpec, blocking, emit_gemm
from zellige_cpu.leaf.units import general_unit, units
from zellige_cpu.text import Module

FEATURES = {
    "haswell": "avx avx2 fma bmi2 f16c sse4.2 ssse3 sse4.1 sse3 sse2 sse",
    "skylake-avx512": "avx avx2 fma bmi2 f16c avx512f avx512bw avx512dq avx512vl avx512cd sse4.2 ssse3 sse4.1 sse3 sse2 sse",
}


def host(cpu: str) -> Host:
    return make_host("x86_64-unknown-linux-gnu", cpu, dict.fromkeys(FEATURES[cpu].split(), True))


def vectors_on_the_stack(spec: GemmSpec, machine: Host) -> list[str]:
    """Accesses of micro-kernels to vectors on the stack."""
    module = Module("registers", machine)
    emit_gemm(module, spec)
    text = compiler.compiled(module.text(), machine, "assembly").decode()
    blocks = re.findall(r"^\S*_block_\S*:\n(.*?)^\.Lfunc_end", text, re.MULTILINE | re.DOTALL)
    assert blocks, "no micro-kernel"
    assert all(re.search(r"%[yz]mm", block) for block in blocks)
    return [line for block in blocks for line in block.splitlines() if re.search(r"\(%r[sb]p\).*%[yz]mm|%[yz]mm.*\(%r[sb]p\)", line)]


@pytest.mark.parametrize("cpu", FEATURES)
@pytest.mark.parametrize(
    ("operand", "total"), [("float32", "float32"), ("bfloat16", "float32"), ("int8", "int32"), ("float64", "float64")]
)
@pytest.mark.parametrize(("m", "n"), [(128, 128), (32, 64), (100, 72)])
def test_no_vector_of_a_block_is_spilled(cpu: str, operand: str, total: str, m: int, n: int) -> None:
    machine = host(cpu)
    wide = dtype("int16") if operand == "int8" else None
    unit = next((u for u in units(machine) if wide is not None and (u.a, u.accumulator) == (wide, dtype(total))), None)
    spec = GemmSpec(m=m, n=n, k=64, a=dtype(operand), b=dtype(operand), c=dtype(total), a_stride=64, b_stride=n, c_stride=n, unit=unit)
    assert (unit is None) == (operand != "int8")
    assert vectors_on_the_stack(spec, machine) == []


def test_an_addition_of_its_own_takes_a_register() -> None:
    machine = host("haswell")
    pairs = next(u for u in units(machine) if u.adds and u.accumulator == dtype("int32"))
    fused = general_unit(machine, dtype("float32"))
    for unit, most in ((pairs, machine.vector_registers - 1), (fused, machine.vector_registers)):
        shape = blocking(machine, 128, 128, unit)
        taken = shape.rows * shape.vectors + shape.vectors + 1
        assert taken <= most
        assert unit.step_registers == machine.vector_registers - most
    assert blocking(machine, 128, 128, pairs) != blocking(machine, 128, 128, fused)
