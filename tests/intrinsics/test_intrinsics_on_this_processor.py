"""Instructions of processors compiled to what they are named for; this processor's executed and compared with their specifications.

Only those are executed whose features this processor has; the others are skipped and say which feature is missing.
"""

from __future__ import annotations

import ctypes
from functools import cache

import llvmlite.binding as llvm
import numpy as np
import pytest

from zellige_cpu.host import running_host
from zellige_intrinsics import Function, Product, family, run, scatter

LLVM_TYPES = {
    "float16": "half",
    "float32": "float",
    "float64": "double",
    "bfloat16": "bfloat",
    "int8": "i8",
    "int16": "i16",
    "uint8": "i8",
    "int32": "i32",
}


@cache
def features() -> frozenset[str]:
    """Those that this process may use: the registers of tiles have to be asked for."""
    return running_host().features


def target_machine() -> llvm.TargetMachine:
    """A new one each time: the engine that takes it owns it."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    triple = llvm.get_process_triple()
    flags = llvm.get_host_cpu_features().flatten()
    return llvm.Target.from_triple(triple).create_target_machine(cpu=llvm.get_host_cpu_name(), features=flags, opt=1)


@cache
def compiled(text: str, arguments: int) -> tuple[object, object]:
    """The engine, which must live, and the function ``main`` of a module, which takes addresses."""
    module = llvm.parse_assembly(text)
    module.verify()
    engine = llvm.create_mcjit_compiler(module, target_machine())
    engine.finalize_object()
    return engine, ctypes.CFUNCTYPE(None, *([ctypes.c_void_p] * arguments))(engine.get_function_address("main"))


def execute(text: str, arrays: list[np.ndarray]) -> None:
    """Run the function ``main`` of a module on the addresses of arrays."""
    compiled(text, len(arrays))[1](*(array.ctypes.data for array in arrays))


def needs(value: Product | Function, prefix: str) -> None:
    """Skip what this processor cannot execute."""
    if not llvm.get_process_triple().startswith(prefix):
        pytest.skip(f"this processor is {llvm.get_process_triple()}")
    missing = [name for name in value.requires if name not in features()]
    if missing:
        pytest.skip(f"this processor lacks {', '.join(missing)}")


def product_text(value: Product) -> str:
    """A function that loads a group of a, vectors of b and c, and stores d."""
    if value.operand("a").space == "tile":
        return tile_text(value)
    a, c = (LLVM_TYPES[str(value.operand(name).element())] for name in ("a", "c"))
    wide = f"<{value.n * value.k} x {a}>"
    sums = f"<{value.m * value.n} x {c}>"
    bits = 8 * value.m * value.k * value.operand("a").element().itemsize
    count = value.n // value.m  # a group for each column, or one for the whole of a small tile
    splat = f"<{count} x i{bits}>"
    lines = [
        f"declare {sums} @{value.spelling}({'' if value.adds else sums + ', '}{wide}, {wide})",
        "define void @main(ptr %a, ptr %b, ptr %c, ptr %d) {",
        f"%g = load i{bits}, ptr %a, align 1",
        f"%i = insertelement {splat} poison, i{bits} %g, i32 0",
        f"%s = shufflevector {splat} %i, {splat} poison, <{count} x i32> zeroinitializer",
        f"%x = bitcast {splat} %s to {wide}",
        f"%y = load {wide}, ptr %b, align 1",
        f"%z = load {sums}, ptr %c, align 1",
        f"%{'q' if value.adds else 'r'} = call {sums} @{value.spelling}({_arguments(value, sums, wide)})",
        *([f"%r = add {sums} %q, %z"] if value.adds else []),
        f"store {sums} %r, ptr %d, align 1",
        "ret void",
        "}",
    ]
    return "\n".join(lines)


def tile_text(value: Product) -> str:
    """The same of tiles: all of 16 rows of 64 bytes, the first three of which are c, a and b."""
    kinds = [64 if i < 3 else 0 for i in range(16)], [16 if i < 3 else 0 for i in range(16)]
    configuration = [1, *[0] * 15, *(byte for width in kinds[0] for byte in (width, 0)), *kinds[1]]
    loads = [f"call void @llvm.x86.tileloadd64(i8 {tile}, ptr %{name}, i64 64)" for tile, name in enumerate("cab")]
    lines = [
        "declare void @llvm.x86.ldtilecfg(ptr)",
        "declare void @llvm.x86.tilerelease()",
        "declare void @llvm.x86.tileloadd64(i8, ptr, i64)",
        "declare void @llvm.x86.tilestored64(i8, ptr, i64)",
        f"declare void @{value.spelling}(i8, i8, i8)",
        f"@configuration = private constant [64 x i8] [{', '.join(f'i8 {byte}' for byte in configuration)}]",
        "define void @main(ptr %a, ptr %b, ptr %c, ptr %d) {",
        "call void @llvm.x86.ldtilecfg(ptr @configuration)",
        *loads,
        f"call void @{value.spelling}(i8 0, i8 1, i8 2)",
        "call void @llvm.x86.tilestored64(i8 0, ptr %d, i64 64)",
        "call void @llvm.x86.tilerelease()",
        "ret void",
        "}",
    ]
    return "\n".join(lines)


def _arguments(value: Product, sums: str, wide: str) -> str:
    """A plain multiply-add takes the sum last, dot products first; one whose sum is an instruction of its own does not take it."""
    if value.adds:
        return f"{wide} %x, {wide} %y"
    return f"{wide} %x, {wide} %y, {sums} %z" if value.k == 1 else f"{sums} %z, {wide} %x, {wide} %y"


TRIPLES = {"cpu_x86": "x86_64-unknown-linux-gnu", "cpu_arm": "aarch64-unknown-linux-gnu"}


@pytest.mark.parametrize(
    ("name", "value"),
    [(name, value) for name in TRIPLES for value in family(name) if isinstance(value, Product)],
    ids=lambda given: given if isinstance(given, str) else given.name,
)
def test_spellings_compile_to_the_instruction(name: str, value: Product) -> None:
    """The assembler text of the loop body holds the mnemonic, in registers of the width named."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    flags = ",".join(f"+{word}" for word in value.requires)
    machine = llvm.Target.from_triple(TRIPLES[name]).create_target_machine(features=flags, opt=2)
    module = llvm.parse_assembly(product_text(value))
    module.verify()
    assembly = machine.emit_assembly(module)
    mnemonic, *registers = value.name.split()
    stem = mnemonic[:-5] if mnemonic.startswith("vfmadd") else mnemonic  # the order of operands is the compiler's choice
    lines = [line.split("#")[0].replace("{vex}", "").strip() for line in assembly.splitlines()]
    found = [line for line in lines if line.startswith(stem)]
    assert found, assembly
    arrangement = {"tmm": "tmm", "zmm": "zmm", "ymm": "ymm", "xmm": "xmm"}.get(registers[0], registers[0].removeprefix("v"))
    assert any(arrangement in line for line in found), found


def held(operand, whole: np.ndarray) -> np.ndarray:
    return scatter(operand, whole, np.zeros(tuple(operand.layout.input_sizes.values()), whole.dtype))


PRODUCTS = [value for value in family("cpu_x86") if isinstance(value, Product)]


@pytest.mark.parametrize("value", PRODUCTS, ids=lambda value: value.name)
def test_products(value: Product) -> None:
    needs(value, "x86_64")
    given = {}
    for seed, operand in enumerate(value.operands):
        element = operand.element().numpy
        low = 0 if np.issubdtype(element, np.unsignedinteger) else -90
        numbers = np.random.default_rng(seed).integers(low, 90, tuple(operand.sizes.values())).astype(np.float64)
        given[operand.name] = held(operand, numbers.astype(element))
    expected = run(value, given)["d"]
    result = np.zeros_like(expected)
    execute(product_text(value), [given["a"], given["b"], given["c"], result])
    np.testing.assert_array_equal(result, expected)
    assert np.abs(expected.astype(np.float64)).max() > 0


@pytest.mark.parametrize("value", [value for value in PRODUCTS if value.operand("a").element().is_float], ids=lambda value: value.name)
def test_whether_subnormal_numbers_count(value: Product) -> None:
    needs(value, "x86_64")
    given = {}
    for operand in value.operands:
        element = operand.element().numpy
        fill = 0.0 if operand.name in "cd" else 1.0
        given[operand.name] = held(operand, np.full(tuple(operand.sizes.values()), fill).astype(element))
    tiny = 2.0**-1060 if value.operand("a").element().bits == 64 else 2.0**-130
    given["a"] = given["a"] * np.asarray(tiny, given["a"].dtype)
    result = np.zeros_like(given["d"])
    execute(product_text(value), [given["a"], given["b"], given["c"], result])
    assert bool((result != 0).all()) == value.keeps_subnormals


def test_sums_of_tiles_are_those_of_the_meaning_bit_by_bit() -> None:
    """In numbers that are not whole, where each order of summing gives bits of its own."""
    value = next(value for value in PRODUCTS if value.name == "tdpbf16ps tmm")
    needs(value, "x86_64")
    for seed in range(50):
        random = np.random.default_rng(seed)
        given = {
            operand.name: held(operand, random.standard_normal(tuple(operand.sizes.values())).astype(operand.element().numpy))
            for operand in value.operands
        }
        expected = run(value, given)["d"]
        result = np.zeros_like(expected)
        execute(product_text(value), [given["a"], given["b"], given["c"], result])
        np.testing.assert_array_equal(result.view(np.uint32), expected.view(np.uint32))


FUNCTIONS = {
    "vscalefps zmm": "<16 x float> %x, <16 x float> %y, <16 x float> zeroinitializer, i16 -1, i32 4",
    "vrcp14ps zmm": "<16 x float> %x, <16 x float> zeroinitializer, i16 -1",
    "vrsqrt14ps zmm": "<16 x float> %x, <16 x float> zeroinitializer, i16 -1",
    "vrsqrtps ymm": "<8 x float> %x",
}


@pytest.mark.parametrize("value", [value for value in family("cpu_x86") if isinstance(value, Function)], ids=lambda value: value.name)
def test_functions_stay_within_their_error(value: Function) -> None:
    needs(value, "x86_64")
    width = value.operand("x").layout.points
    vector = f"<{width} x float>"
    arguments = FUNCTIONS[value.name]
    types = ", ".join(part.strip().rsplit(" ", 1)[0] for part in arguments.split(","))
    text = f"""
declare {vector} @{value.spelling}({types})
define void @main(ptr %a, ptr %b, ptr %d) {{
%x = load {vector}, ptr %a, align 1
%y = load {vector}, ptr %b, align 1
%r = call {vector} @{value.spelling}({arguments})
store {vector} %r, ptr %d, align 1
ret void
}}"""
    random = np.random.default_rng(1)
    for _ in range(50):
        x = random.uniform(0.01, 100, width).astype(np.float32)
        y = random.uniform(-8, 8, width).astype(np.float32)
        given = {"x": x, "y": y, "result": np.zeros_like(x)}
        expected = value.meaning(given)["result"]
        result = np.zeros_like(x)
        execute(text, [x, y, result])
        np.testing.assert_allclose(result, expected, rtol=value.error or 2.0**-24)
