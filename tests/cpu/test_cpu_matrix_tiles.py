"""Products by matrix tiles: the code around the instructions executed everywhere, with tiles played by plain code, and the instructions
themselves where this processor has them.

Played tiles are memory, and what the five instructions do with them is written below by the manual's pseudo-code, so that packing, edges,
conversions and the loops are compared with the interpreter on any x86-64 machine.
"""

from __future__ import annotations

import re
from collections import Counter

import numpy as np
import pytest

from zellige.dtypes import dtype
from zellige.ir.stmt import Gemm
from zellige.options import CompileOptions, options
from zellige.plan.planner import plan
from zellige_cpu import tiles_permission
from zellige_cpu.backend import CpuBackend, capabilities_of
from zellige_cpu.host import Host, make_host, running_host, without_tiles
from zellige_cpu.jit import assembly
from zellige_cpu.kernel import CpuKernel
from zellige_cpu.launch import lower
from zellige_cpu.leaf.units import refusals, units
from zellige_cpu.program import Program
from zellige_intrinsics import Product, changed, family

FEATURES = ("amx-tile", "amx-bf16", "amx-int8")
WIDE = {f"avx512{x}" for x in ("f", "bw", "vl", "dq", "cd", "vnni", "bf16")} | {"avx2", "avx", "fma", "f16c", "sse2", "bmi2"}
BRAIN, SIGNED = ("bfloat16", "bfloat16", "float32"), ("int8", "int8", "int32")

needs_x86 = pytest.mark.skipif(not running_host().is_x86, reason=f"tiles are of x86-64, this machine is {running_host().triple}")


def machine() -> Host:
    """A machine with tiles and 64-byte vectors, to look at its code."""
    return make_host("x86_64-unknown-linux-gnu", "sapphirerapids", dict.fromkeys(WIDE | set(FEATURES), True))._replace(cores=2)


def here() -> Host:
    """This machine as if it had tiles."""
    host = running_host()
    return host._replace(features=host.features | set(FEATURES), disabled=host.disabled - set(FEATURES), withheld=frozenset())


# -- tiles played ----------------------------------------------------------------------------------------------------------

MOVES = """
@played.tiles = internal global [8 x [1024 x i8]] zeroinitializer, align 64
@played.is_configured = internal global i8 0

define internal ptr @played.tile(i8 %t) {
  %i = zext i8 %t to i64
  %p = getelementptr [8 x [1024 x i8]], ptr @played.tiles, i64 0, i64 %i
  %ok = load i8, ptr @played.is_configured
  %yes = icmp eq i8 %ok, 1
  %q = select i1 %yes, ptr %p, ptr null
  ret ptr %q
}
define internal void @played.ldtilecfg(ptr %c) {
  %palette = load i8, ptr %c
  store i8 %palette, ptr @played.is_configured
  ret void
}
define internal void @played.tilerelease() {
  store i8 0, ptr @played.is_configured
  ret void
}
define internal void @played.tilezero(i8 %t) {
  %p = call ptr @played.tile(i8 %t)
  call void @llvm.memset.p0.i64(ptr %p, i8 0, i64 1024, i1 false)
  ret void
}
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
"""

MOVE = """
define internal void @played.tile{verb}64(i8 %t, ptr %m, i64 %pitch) {{
entry:
  %p = call ptr @played.tile(i8 %t)
  br label %loop
loop:
  %r = phi i64 [ 0, %entry ], [ %next, %loop ]
  %o = mul i64 %r, %pitch
  %outer = getelementptr i8, ptr %m, i64 %o
  %i = mul i64 %r, 64
  %inner = getelementptr i8, ptr %p, i64 %i
  %v = load <64 x i8>, ptr %{source}, align 1
  store <64 x i8> %v, ptr %{target}, align 1
  %next = add i64 %r, 1
  %more = icmp ult i64 %next, 16
  br i1 %more, label %loop, label %done
done:
  ret void
}}
"""

PRODUCT = """
define internal void @played.{name}(i8 %tc, i8 %ta, i8 %tb) {{
entry:
  %c = call ptr @played.tile(i8 %tc)
  %a = call ptr @played.tile(i8 %ta)
  %b = call ptr @played.tile(i8 %tb)
  br label %rows
rows:
  %m = phi i64 [ 0, %entry ], [ %m2, %row ]
  %start = mul i64 %m, 64
  %crow = getelementptr i8, ptr %c, i64 %start
  %before = load <16 x {sum}>, ptr %crow, align 1
  br label %steps
steps:
  %k = phi i64 [ 0, %rows ], [ %k2, %steps ]
  {phis}
  %ko = mul i64 %k, 4
  %ao = add i64 %start, %ko
  %ap = getelementptr i8, ptr %a, i64 %ao
  %word = load i32, ptr %ap, align 1
  %w0 = insertelement <16 x i32> poison, i32 %word, i32 0
  %left = shufflevector <16 x i32> %w0, <16 x i32> poison, <16 x i32> zeroinitializer
  %bo = mul i64 %k, 64
  %bp = getelementptr i8, ptr %b, i64 %bo
  %right = load <16 x i32>, ptr %bp, align 1
  {body}
  %k2 = add i64 %k, 1
  %kmore = icmp ult i64 %k2, 16
  br i1 %kmore, label %steps, label %row
row:
  {end}
  store <16 x {sum}> %total, ptr %crow, align 1
  %m2 = add i64 %m, 1
  %mmore = icmp ult i64 %m2, 16
  br i1 %mmore, label %rows, label %done
done:
  ret void
}}
"""


def _brain() -> str:
    """Even and odd places of k apart, from 0."""
    body = []
    for half, pick in ((0, "shl <16 x i32> %{0}, splat (i32 16)"), (1, "and <16 x i32> %{0}, splat (i32 -65536)")):
        for side in ("left", "right"):
            body += [f"%{side}.b{half} = {pick.format(side)}", f"%{side}.f{half} = bitcast <16 x i32> %{side}.b{half} to <16 x float>"]
        body += [f"%p{half} = fmul <16 x float> %left.f{half}, %right.f{half}", f"%n{half} = fadd <16 x float> %s{half}, %p{half}"]
    phis = [f"%s{half} = phi <16 x float> [ zeroinitializer, %rows ], [ %n{half}, %steps ]" for half in (0, 1)]
    end = ["%both = fadd <16 x float> %n0, %n1", "%total = fadd <16 x float> %before, %both"]
    return PRODUCT.format(name="tdpbf16ps", sum="float", phis="\n  ".join(phis), body="\n  ".join(body), end="\n  ".join(end))


def _bytes(name: str) -> str:
    """Four products of bytes a step, each side signed or not as the two letters before the last say."""
    body, last = [], "s"
    for i in range(4):
        for side, letter in (("left", name[-3]), ("right", name[-2])):
            body += [f"%{side}.u{i} = shl <16 x i32> %{side}, splat (i32 {24 - 8 * i})",
                     f"%{side}.v{i} = {'ashr' if letter == 's' else 'lshr'} <16 x i32> %{side}.u{i}, splat (i32 24)"]  # fmt: skip
        body += [f"%p{i} = mul <16 x i32> %left.v{i}, %right.v{i}", f"%t{i} = add <16 x i32> %{last}, %p{i}"]
        last = f"t{i}"
    phi = f"%s = phi <16 x i32> [ %before, %rows ], [ %{last}, %steps ]"
    end = f"%total = add <16 x i32> %{last}, zeroinitializer"
    return PRODUCT.format(name=name, sum="i32", phis=phi, body="\n  ".join(body), end=end)


def played(text: str) -> str:
    """A module with its tiles in memory."""
    text = re.sub(r"^declare void @llvm\.x86\.(ldtilecfg|tile\w+|tdp\w+)\(.*$\n", "", text, flags=re.MULTILINE)
    text = re.sub(r"@llvm\.x86\.(ldtilecfg|tile|tdp)", r"@played.\1", text)
    parts = [MOVES, MOVE.format(verb="loadd", source="outer", target="inner"), MOVE.format(verb="stored", source="inner", target="outer")]
    moves = "".join(parts)
    if re.search(r"^declare void @llvm\.memset", text, re.MULTILINE):
        moves = moves.replace("declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)\n", "")
    return text + moves + _brain() + "".join(map(_bytes, ("tdpbssd", "tdpbusd", "tdpbsud", "tdpbuud")))


@pytest.fixture(autouse=True)
def one_thread(monkeypatch):
    """Played tiles are of one thread."""
    monkeypatch.setenv("ZELLIGE_NUM_THREADS", "1")
    options.cache_clear()
    yield
    monkeypatch.undo()
    options.cache_clear()


def product(size, tile, types, *, into=None, ta=False, tb=False, staged="") -> str:
    """A product of tensors by tiles; ``staged`` names an operand that is not packed from its tensor but from a tile that is computed."""
    (m, n, k), (bm, bn, bk), (a, b, c), out = size, tile, types, into or types[2]
    shapes = {"A": ((k, m) if ta else (m, k)), "B": ((n, k) if tb else (k, n))}
    tiles = {"a": ((bk, bm) if ta else (bm, bk)), "b": ((bn, bk) if tb else (bk, bn))}
    at_a = f"kk * {bk}:+{bk}, by * {bm}:+{bm}" if ta else f"by * {bm}:+{bm}, kk * {bk}:+{bk}"
    at_b = f"bx * {bn}:+{bn}, kk * {bk}:+{bk}" if tb else f"kk * {bk}:+{bk}, bx * {bn}:+{bn}"
    touch = f"            copy({staged}[0:+1, 0:+1], spare[:, :])\n" if staged else ""
    spare = f'        spare = alloc((1, 1), {a if staged == "a" else b}, "shared")\n' if staged else ""
    return f"""
def k(A: tensor({shapes['A']}, {a}), B: tensor({shapes['B']}, {b}), C: tensor({(m, n)}, {out})):
    with launch(({n} + {bn - 1}) // {bn}, ({m} + {bm - 1}) // {bm}) as (bx, by):
        a = alloc({tiles['a']}, {a}, "shared")
        b = alloc({tiles['b']}, {b}, "shared")
        c = alloc(({bm}, {bn}), {c}, "fragment")
{spare}        fill(c[:, :], cast(0, {c}))
        for kk in pipelined(({k} + {bk - 1}) // {bk}, stages=2):
            copy(A[{at_a}], a[:, :])
            copy(B[{at_b}], b[:, :])
            gemm(a[:, :], b[:, :], c[:, :], {'transpose_a=True, ' * ta}{'transpose_b=True, ' * tb}clear=False)
{touch}        copy(c[:, :], C[by * {bm}:+{bm}, bx * {bn}:+{bn}])
"""


def small(random, shape, name):
    """Small whole numbers, of which all sums are exact."""
    t = dtype(name)
    return random.integers(-3 if t.is_signed else 0, 4, shape).astype(np.float32).astype(t.numpy)


def operands(random, size, types, *, into=None, ta=False, tb=False):
    m, n, k = size
    a, b = small(random, (k, m) if ta else (m, k), types[0]), small(random, (n, k) if tb else (k, n), types[1])
    return [a, b, np.zeros((m, n), dtype(into or types[2]).numpy)]


def check(tools, text: str, arguments) -> Program:
    """The kernel with tiles played equals the interpreter; the program."""
    from zellige.interp import interpret

    kernel, host = tools["kernel_of"](text), here()
    program = lower(plan(kernel, capabilities_of(host)), host, CompileOptions())
    assert "@llvm.x86.tdp" in program.text
    mine = Program(text=played(program.text), launches=program.launches, symbols=program.symbols)
    ours, theirs = [x.copy() for x in arguments], [x.copy() for x in arguments]
    tools["run_on"](CpuKernel(kernel, mine, running_host()), kernel, ours)
    interpret(kernel, theirs)
    tools["same"](ours[2], theirs[2])
    assert np.abs(ours[2].astype(np.float64)).max() > 0
    return program


SIZES = [
    ((64, 64, 128), (32, 32, 32)), ((33, 29, 37), (16, 16, 16)), ((7, 5, 3), (16, 16, 8)), ((50, 70, 190), (13, 11, 14)),
    ((130, 100, 300), (128, 128, 32)), ((1, 40, 50), (1, 32, 16)), ((61, 90, 20), (48, 80, 4)), ((96, 64, 96), (48, 48, 96)),
]  # fmt: skip


@needs_x86
@pytest.mark.parametrize("size, tile", SIZES, ids=str)
@pytest.mark.parametrize("types", [BRAIN, SIGNED], ids=lambda t: t[0])
@pytest.mark.parametrize("layout", ["nn", "tt"])
def test_products_with_tiles_played(tools, random, size, tile, types, layout):
    t = layout == "tt"
    check(tools, product(size, tile, types, ta=t, tb=t), operands(random, size, types, ta=t, tb=t))


@needs_x86
@pytest.mark.parametrize("types", [("uint8", "int8", "int32"), ("int8", "uint8", "int32"), ("uint8", "uint8", "int32")], ids="-".join)
def test_signs_of_bytes(tools, random, types):
    """The extreme values of each type, in sums that pass 32 bits."""
    size = (20, 33, 200)
    arguments = operands(random, size, types)
    for array in arguments[:2]:
        array[...] = random.choice([np.iinfo(array.dtype).min, np.iinfo(array.dtype).max, 0, 1], array.shape)
    check(tools, product(size, (16, 32, 64), types), arguments)


@needs_x86
@pytest.mark.parametrize("types", [("int4", "int4", "int32"), ("uint4", "int8", "int32")], ids="-".join)
@pytest.mark.parametrize("size, tile", [((40, 64, 128), (32, 32, 64)), ((21, 36, 46), (16, 16, 12))], ids=str)
def test_nibbles_are_widened_to_bytes(tools, random, types, size, tile):
    m, n, k = size
    a = random.integers(0, 256, (m, k // 2)).astype(np.uint8)
    b = random.integers(0, 256, (k, n // 2)).astype(np.uint8) if types[1] == "int4" else small(random, (k, n), types[1])
    check(tools, product(size, tile, types), [a, b, np.zeros((m, n), np.int32)])


@needs_x86
@pytest.mark.parametrize(("types", "into"), [(BRAIN, "bfloat16"), (BRAIN, "float16"), (SIGNED, "int8"), (("bfloat16",) * 3, None)], ids=str)
def test_results_of_other_types(tools, random, types, into):
    check(tools, product((40, 50, 64), (32, 48, 32), types, into=into), operands(random, (40, 50, 64), types, into=into))


def placed(array: np.ndarray, shift: int = 0, gap: int = 0) -> np.ndarray:
    """The array where a line begins, ``shift`` bytes behind it, with ``gap`` bytes between its rows."""
    pitch = array.shape[1] * array.itemsize + gap
    memory = np.zeros(array.shape[0] * pitch + 128, np.uint8)
    first = -memory.ctypes.data % 64 + shift
    found = np.ndarray(array.shape, array.dtype, memory, first, (pitch, array.itemsize))
    found[...] = array
    return found


@needs_x86
@pytest.mark.parametrize("types", [BRAIN, SIGNED], ids=lambda t: t[0])
@pytest.mark.parametrize(
    "size, shift, is_read",
    [
        ((64, 48, 192), 0, True), ((64, 48, 192), 32, False), ((40, 48, 192), 0, False), ((64, 48, 130), 0, False),
        ((64, 48, 128), 0, True), ((64, 48, 64), 0, True),
    ],
    ids=str,
)
def test_whole_rows_of_a_are_read_where_they_lie(tools, types, size, shift, is_read):
    """Where rows begin on lines and all of a tile exists nothing packs them: without the calls of their packing the result is the same."""
    from zellige.interp import interpret

    kernel, host = tools["kernel_of"](product(size, (32, 32, 32), types)), here()
    program = lower(plan(kernel, capabilities_of(host)), host, CompileOptions())
    a, b, c = operands(np.random.default_rng([*size, shift]), size, types)  # numbers that no packing has left in memory
    ours, theirs = [placed(a, shift), b, c.copy()], [a, b, c.copy()]
    interpret(kernel, theirs)
    text, removed = re.subn(r"call void @pack_a_[^\n]*", "", played(program.text))
    assert removed
    for code, is_same in ((text, is_read), (played(program.text), True)):
        mine = Program(text=code, launches=program.launches, symbols=program.symbols)
        tools["run_on"](CpuKernel(kernel, mine, running_host()), kernel, ours)
        assert np.array_equal(ours[2], theirs[2]) is is_same


@needs_x86
@pytest.mark.parametrize("staged", ["a", "b"])
@pytest.mark.parametrize("tile", [(32, 32, 64), (64, 96, 64), (96, 64, 32), (24, 40, 40)], ids=str)
@pytest.mark.parametrize("layout", ["nn", "tt"])
def test_operands_in_tiles_of_the_kernel(tools, random, staged, tile, layout):
    t, size = layout == "tt", (64, 80, 160)
    check(tools, product(size, tile, BRAIN, ta=t, tb=t, staged=staged), operands(random, size, BRAIN, ta=t, tb=t))


@needs_x86
@pytest.mark.parametrize(
    "types, tile, is_written", [(BRAIN, (64, 96, 64), True), (SIGNED, (64, 64, 64), True), (BRAIN, (64, 80, 64), False)], ids=str
)
def test_blocks_of_a_small_product_are_written_out(tools, random, types, tile, is_written):
    """Those of whole tiles; others go round in loops."""
    size = (2 * tile[0], tile[1], 3 * tile[2])
    program = check(tools, product(size, tile, types, staged="a"), operands(random, size, types))
    found = re.search(r"define internal void @product_\w+_of_\d+\(.*?\n}", program.text, re.DOTALL)
    assert (found is not None) is is_written
    if found is not None:
        blocks = tile[0] // 32 * (tile[1] // 32)
        moves = Counter(re.findall(r"@llvm\.x86\.(tilestored64|tdp)", found[0]))
        assert moves == {"tilestored64": 4 * blocks, "tdp": 4 * blocks * tile[2] * dtype(types[0]).itemsize // 64}


@needs_x86
def test_merging_steps_does_not_change_a_bit(tools, random):
    """Iterations of whole blocks of k merge, and add up as they would one by one; others stay apart."""
    results = []
    for staged in ("", "a"):
        program = product((40, 50, 256), (32, 32, 32), BRAIN, staged=staged)
        kernel, host = tools["kernel_of"](program), here()
        planned = plan(kernel, capabilities_of(host))
        choice = next(c for c in planned.launches[0].choices if isinstance(c.operation, Gemm))
        assert (choice.merge > 1) is (not staged)
        lowered = lower(planned, host, CompileOptions())
        mine = Program(text=played(lowered.text), launches=lowered.launches, symbols=lowered.symbols)
        numbers = np.random.default_rng(5)
        a, b = (numbers.standard_normal(shape).astype(dtype("bfloat16").numpy) for shape in ((40, 256), (256, 50)))
        c = np.zeros((40, 50), np.float32)
        tools["run_on"](CpuKernel(kernel, mine, running_host()), kernel, [a, b, c])
        results.append(c)
    np.testing.assert_array_equal(results[0].view(np.uint32), results[1].view(np.uint32))
    apart = plan(tools["kernel_of"](product((40, 50, 256), (32, 32, 16), BRAIN)), capabilities_of(here()))
    assert next(c for c in apart.launches[0].choices if isinstance(c.operation, Gemm)).merge == 1
    whole = plan(tools["kernel_of"](product((40, 50, 256), (32, 32, 16), SIGNED)), capabilities_of(here()))
    assert next(c for c in whole.launches[0].choices if isinstance(c.operation, Gemm)).merge > 1


@needs_x86
def test_tiles_are_configured_again_behind_code_of_others(tools, capfd):
    """A record that is printed in the midst of products: the played registers are then released, as Python code might have done."""
    text = product((32, 32, 64), (32, 32, 32), BRAIN, staged="a")
    text = text.replace("clear=False)\n", 'clear=False)\n            print("step", value=kk)\n', 1)
    kernel, host = tools["kernel_of"](text), here()
    lowered = lower(plan(kernel, capabilities_of(host)), host, CompileOptions())
    calls = re.findall(r"call void %\w+\(i64 \d+, ptr %\w+\)\n\s*(\S[^\n]*)", lowered.text)
    assert calls
    assert all("@llvm.x86.ldtilecfg" in line for line in calls), calls
    code = re.sub(r"(call void %\w+\(i64 \d+, ptr %\w+\)\n)", r"\1call void @llvm.x86.tilerelease()\n", lowered.text)
    mine = Program(text=played(code), launches=lowered.launches, symbols=lowered.symbols)
    a, b, c = operands(np.random.default_rng(2), (32, 32, 64), BRAIN)
    tools["run_on"](CpuKernel(kernel, mine, running_host()), kernel, [a, b, c])
    np.testing.assert_array_equal(c, a.astype(np.float32) @ b.astype(np.float32))


# -- what is emitted -------------------------------------------------------------------------------------------------------


def code_of(tools, types, host: Host) -> str:
    kernel = tools["kernel_of"](product((256, 256, 512), (128, 128, 32), types))
    return assembly(lower(plan(kernel, capabilities_of(host)), host, CompileOptions()).text, host)


@pytest.mark.parametrize(("types", "mnemonic"), [(BRAIN, "tdpbf16ps"), (SIGNED, "tdpbssd")])
def test_a_block_is_four_products_of_four_loads(tools, types, mnemonic):
    code = code_of(tools, types, machine())
    found = re.findall(rf"^\s*{mnemonic}\s+%tmm(\d), %tmm(\d), %tmm(\d)", code, re.MULTILINE)
    expected = sorted((str(b), str(a), str(2 * (a - 4) + b - 6)) for a in (4, 5) for b in (6, 7))
    assert sorted(found[:4]) == sorted(found[4:]) == expected, "in the loop and behind it"
    inside = re.search(rf"^(\.LBB\d+_\d+):((?:(?!^\.L).)*{mnemonic}.*?)j\w+\s+\1$", code, re.MULTILINE | re.DOTALL)
    assert inside is not None, code
    loads = re.findall(r"tileload\S*\s+\([^)]*\), %tmm(\d)", inside[2])
    assert sorted(loads) == ["4", "5", "6", "7"]
    for tile in loads:
        *_, behind = re.split(rf"tileload\S*\s+\([^)]*\), %tmm{tile}", inside[2])
        assert not re.search(rf"{mnemonic}.*%tmm{tile}\b", behind), "the next round's operand, behind the last use of this one's"
    assert "vmov" not in inside[2], "nothing but tiles moves in the loop"
    assert code.count("ldtilecfg") == 2, "at the start, and where a signal's handler may have run"
    assert code.count("tilerelease") == 1


def test_without_the_entry_vectors_multiply(tools):
    """The next best instruction serves, and the plan says that the entry was taken out."""
    host = machine()
    for types, name, instead in ((BRAIN, "tdpbf16ps tmm", "vfmadd"), (SIGNED, "tdpbssd tmm", "vpdpbusd")):
        assert units_of(host, types)[0] == name
        with changed("cpu_x86", without=(name,)):
            assert name not in units_of(host, types)
            code = code_of(tools, types, host)
            told = {r.name: r for r in refusals(host, *map(dtype, types))}
            assert told[name].reason == "it was taken out of the table of instructions"
        assert "tdp" not in code
        assert instead in code


def units_of(host: Host, types) -> list[str]:
    return [u.name for u in units(host) if (u.a.name, u.b.name, u.accumulator.name) == types]


def test_without_the_kernels_leave_no_tile_is_offered(tools):
    """The features go, the reason stays: in what doctor prints of the device and in why the unit is refused."""
    host = without_tiles(machine(), "the kernel refuses their registers to this process (for this test)")
    assert not any(feature.startswith("amx") for feature in host.features)
    assert not any(u.is_matrix for u in units(host))
    assert "tdp" not in code_of(tools, BRAIN, host)
    found = {r.name: r.reason for r in refusals(host, *map(dtype, BRAIN))}
    assert found["tdpbf16ps tmm"].endswith("but the kernel refuses their registers to this process (for this test)")


def test_the_rate_of_other_instructions_stays_that_of_the_processor(tools):
    """A processor with tiles is slow at dot products of pairs, with or without leave to use the tiles: operands are widened instead."""
    host = without_tiles(machine(), "the kernel refuses their registers to this process (for this test)")
    found = {r.name: r.reason for r in refusals(host, *map(dtype, BRAIN))}
    assert found["vdpbf16ps zmm"] == "processors with amx-bf16 execute it at half the rate of multiply-adds of vectors"
    code = code_of(tools, BRAIN, host)
    assert "vdpbf16ps" not in code
    assert "vfmadd" in code


def test_the_device_says_what_is_withheld(monkeypatch):
    host = without_tiles(machine(), "the kernel refuses their registers to this process (for this test)")
    monkeypatch.setattr("zellige_cpu.host.running_host", lambda: host)
    (device,) = CpuBackend().probe()
    assert "no amx-bf16, amx-int8, amx-tile: the kernel refuses their registers" in device.name


# -- where there are tiles -------------------------------------------------------------------------------------------------


def needs_tiles() -> None:
    host = running_host()
    missing = [feature for feature in FEATURES if feature not in host.features]
    if missing:
        pytest.skip(f"{host.cpu} has no {', '.join(missing)}" + (f" to use: {host.withheld_because}" if host.withheld else ""))


def test_permission_is_asked_for_once():
    needs_tiles()
    assert tiles_permission.asked_for() == ""


@pytest.mark.parametrize("types", [BRAIN, SIGNED, ("uint8", "int8", "int32"), ("uint8", "uint8", "int32")], ids="-".join)
@pytest.mark.parametrize("size, tile", SIZES, ids=str)
def test_products_on_tiles(check_text, random, size, tile, types):
    needs_tiles()
    check_text(product(size, tile, types), *operands(random, size, types))


@needs_x86
@pytest.mark.parametrize("k", [1, 2, 31, 64, 640])
def test_the_bound_of_the_entry_holds(k):
    """The meaning of the entry on random numbers, within the bound that its notes state: rounding u = 2^-24 of the sum of magnitudes."""
    entry = next(v for v in family("cpu_x86") if v.name == "tdpbf16ps tmm")
    assert isinstance(entry, Product)
    random, kind = np.random.default_rng(k), dtype("bfloat16").numpy
    a, b = (random.standard_normal(shape).astype(kind) for shape in ((16, k), (k, 16)))
    total = np.zeros((16, 16), np.float32)
    for start in range(0, k, 32):
        pieces = np.zeros((16, 32), kind), np.zeros((32, 16), kind)
        width = min(32, k - start)
        pieces[0][:, :width], pieces[1][:width] = a[:, start : start + width], b[start : start + width]
        total = entry.meaning({"a": pieces[0], "b": pieces[1], "c": total})["d"]
    wide = a.astype(np.float64), b.astype(np.float64)
    roundings = k / 2 + 1 if k <= 32 else 17 + -(-k // 32)
    assert (np.abs(total - wide[0] @ wide[1]) <= roundings * 2.0**-24 * (np.abs(wide[0]) @ np.abs(wide[1]))).all()
    assert entry.notes
