"""Instructions of 64-byte vectors give the bits of the general code: played here by the manual's pseudo-code, so that any machine tests
the code around them; where a processor has them the other tests of the leaves execute them."""

from __future__ import annotations

import re

import numpy as np
import pytest

from zellige.dtypes import dtype
from zellige_cpu.host import running_host
from zellige_cpu.leaf.convert import cast
from zellige_cpu.leaf.math import call
from zellige_cpu.text import Function, Module
from zellige_cpu.values import Value, constant

F32, BRAIN = dtype("float32"), dtype("bfloat16")
NEEDED = frozenset(("avx512f", "avx512bw", "avx512dq", "avx512bf16"))

PLAYED = """
declare <16 x float> @llvm.roundeven.v16f32(<16 x float>)
declare <16 x float> @llvm.floor.v16f32(<16 x float>)
declare <16 x float> @llvm.ldexp.v16f32.v16i32(<16 x float>, <16 x i32>)
declare <16 x i32> @llvm.fptosi.sat.v16i32.v16f32(<16 x float>)
define internal <16 x float> @played.reduce(<16 x float> %x, i32 %mode, <16 x float> %other, i16 %mask, i32 %rounding) {
  %whole = call <16 x float> @llvm.roundeven.v16f32(<16 x float> %x)
  %rest = fsub <16 x float> %x, %whole
  %up = fcmp oeq <16 x float> %x, splat (float 0x7FF0000000000000)
  %down = fcmp oeq <16 x float> %x, splat (float 0xFFF0000000000000)
  %endless = or <16 x i1> %up, %down
  %r = select <16 x i1> %endless, <16 x float> zeroinitializer, <16 x float> %rest
  ret <16 x float> %r
}
define internal <16 x float> @played.scalef(<16 x float> %x, <16 x float> %y, <16 x float> %other, i16 %mask, i32 %rounding) {
  %floor = call <16 x float> @llvm.floor.v16f32(<16 x float> %y)
  %power = call <16 x i32> @llvm.fptosi.sat.v16i32.v16f32(<16 x float> %floor)
  %r = call <16 x float> @llvm.ldexp.v16f32.v16i32(<16 x float> %x, <16 x i32> %power)
  ret <16 x float> %r
}
define internal <16 x i1> @played.fpclass(<16 x float> %x, i32 %classes) {
  %bits = bitcast <16 x float> %x to <16 x i32>
  %size = and <16 x i32> %bits, splat (i32 2147483647)
  %some = icmp ne <16 x i32> %size, zeroinitializer
  %small = icmp ult <16 x i32> %size, splat (i32 8388608)
  %r = and <16 x i1> %some, %small
  ret <16 x i1> %r
}
define internal <16 x i16> @played.round(<16 x float> %x) {
  %bits = bitcast <16 x float> %x to <16 x i32>
  %exponent = and <16 x i32> %bits, splat (i32 2139095040)
  %none = icmp eq <16 x i32> %exponent, zeroinitializer
  %sign = and <16 x i32> %bits, splat (i32 -2147483648)
  %high = lshr <16 x i32> %bits, splat (i32 16)
  %odd = and <16 x i32> %high, splat (i32 1)
  %bias = add <16 x i32> %odd, splat (i32 32767)
  %sum = add <16 x i32> %bits, %bias
  %nan = fcmp uno <16 x float> %x, %x
  %quiet = or <16 x i32> %bits, splat (i32 4194304)
  %normal = select <16 x i1> %nan, <16 x i32> %quiet, <16 x i32> %sum
  %all = select <16 x i1> %none, <16 x i32> %sign, <16 x i32> %normal
  %top = lshr <16 x i32> %all, splat (i32 16)
  %r = trunc <16 x i32> %top to <16 x i16>
  ret <16 x i16> %r
}
define internal <16 x bfloat> @played.one(<16 x float> %x) {
  %i = call <16 x i16> @played.round(<16 x float> %x)
  %r = bitcast <16 x i16> %i to <16 x bfloat>
  ret <16 x bfloat> %r
}
define internal <32 x bfloat> @played.two(<16 x float> %high, <16 x float> %low) {
  %h = call <16 x i16> @played.round(<16 x float> %high)
  %l = call <16 x i16> @played.round(<16 x float> %low)
  %i = shufflevector <16 x i16> %l, <16 x i16> %h, <32 x i32> <ORDER>
  %r = bitcast <32 x i16> %i to <32 x bfloat>
  ret <32 x bfloat> %r
}
""".replace("ORDER", ", ".join(f"i32 {i}" for i in range(32)))

NAMES = {
    "llvm.x86.avx512.mask.reduce.ps.512": "reduce",
    "llvm.x86.avx512.mask.scalef.ps.512": "scalef",
    "llvm.x86.avx512.fpclass.ps.512": "fpclass",
    "llvm.x86.avx512bf16.cvtneps2bf16.512": "one",
    "llvm.x86.avx512bf16.cvtne2ps2bf16.512": "two",
}


def played(text: str) -> str:
    for name, play in NAMES.items():
        text = re.sub(rf"^declare [^\n]*@{re.escape(name)}\([^\n]*\n", "", text, flags=re.MULTILINE)
        text = text.replace(f"@{name}(", f"@played.{play}(")
    declared = set(re.findall(r"^declare [^\n]*@([\w.]+)\(", text, re.MULTILINE))
    lines = [line for line in PLAYED.splitlines() if not (line.startswith("declare") and line.split("@")[1].split("(")[0] in declared)]
    return text + "\n".join(lines) + "\n"


class Played:
    """A module whose text has the instructions played; what the fixture ``program`` takes."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.host = running_host()
        self.symbols = module.symbols

    def text(self) -> str:
        return played(self.module.text())


def emit(fn: Function, what: str, x: Value) -> Value:
    return call(fn, "exp2", [x], F32) if what == "exp2" else cast(fn, x, F32, BRAIN)


def build(what: str, lanes: int, *, has_instructions: bool) -> Module:
    host = running_host()
    features = host.features | NEEDED if has_instructions else host.features - NEEDED
    module = Module("instructions", host._replace(features=features))
    size = 4 if what == "exp2" else 2
    fn = module.function("run", "void", [("n", "i64"), ("src", "ptr"), ("dst", "ptr")], is_exported=True)
    n, source, target = fn.params
    with fn.loop(constant("i64", 0), n, lanes) as loop:
        x = fn.load(fn.offset(source, fn.binary("mul", loop.index, constant("i64", 4))), "float", lanes, align=4)
        fn.store(emit(fn, what, x), fn.offset(target, fn.binary("mul", loop.index, constant("i64", size))), align=size)
    return module


def arguments() -> np.ndarray:
    """Numbers of all classes: neighbourhoods of halves and of the ends of the range, and any bits."""
    random = np.random.default_rng(5)
    any_bits = random.integers(0, 1 << 32, 1 << 16, dtype=np.uint64).astype(np.uint32).view(np.float32)
    halves = (np.arange(-330, 330, dtype=np.float32) / 2)[:, None] * np.array([1, 1 - 2.0**-23, 1 + 2.0**-23], np.float32)
    special = np.array([0x7FC00001, 0xFFC00123, 0x7F800001, 0x7F800000, 0xFF800000, 0, 0x80000000, 1, 0x80000001, 0x7FFFFF, 0x7F7FFFFF],
                       np.uint32).view(np.float32)  # fmt: skip
    ties = (random.integers(0, 1 << 16, 1 << 12, dtype=np.uint32) << 16 | 0x8000).view(np.float32)
    without = random.standard_normal(1 << 14).astype(np.float32)  # no subnormal number among many lanes
    found = np.concatenate([any_bits, halves.ravel(), special, ties, without, random.uniform(-160, 140, 1 << 15).astype(np.float32)])
    return np.concatenate([found, np.zeros(-len(found) % 64, np.float32)])


@pytest.mark.parametrize("what", ["exp2", "cast"])
@pytest.mark.parametrize("lanes", [16, 32, 64])
def test_bits_are_those_of_general_code(program, what, lanes):
    x = arguments()
    results = []
    for has_instructions in (True, False):
        module = build(what, lanes, has_instructions=has_instructions)
        used = [name for name in NAMES if f"@{name}(" in module.text()]
        assert bool(used) is has_instructions
        out = np.zeros(len(x), np.uint32 if what == "exp2" else np.uint16)
        program(Played(module), ["run"])("run", len(x), x, out)
        results.append(out)
    differ = np.flatnonzero(results[0] != results[1])
    assert not len(differ), [(x[i], hex(results[0][i]), hex(results[1][i])) for i in differ[:4]]


@pytest.mark.parametrize("lanes", [1, 4, 8, 24, 48])
@pytest.mark.parametrize("what", ["exp2", "cast"])
def test_lanes_that_fill_no_registers_take_general_code(what, lanes):
    text = build(what, lanes, has_instructions=True).text()
    assert not any(f"@{name}(" in text for name in NAMES)
