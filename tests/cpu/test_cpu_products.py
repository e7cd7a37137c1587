"""Products as the CPU's plan has them: packed from tensors, merged steps, blocks left out, shared cells, against the interpreter."""

from __future__ import annotations

import re

import numpy as np
import pytest

from zellige.dtypes import dtype
from zellige.ir.stmt import Gemm
from zellige.ir.traverse import walk
from zellige.options import CompileOptions
from zellige.plan.capabilities import Machine
from zellige.plan.planner import plan
from zellige.plan.products import choose_product, holds
from zellige.plugin.schema import problems
from zellige_cpu.backend import capabilities_of
from zellige_cpu.host import Host, make_host, running_host
from zellige_cpu.jit import assembly, compile_object
from zellige_cpu.launch import lower
from zellige_cpu.leaf.units import units
from zellige_cpu.planned import choices_of, products_of, unit_of
from zellige_cpu.preparation import expanded, joined


def text(m, n, k, tile, types=("float32", "float32", "float32"), *, stages=3, ta=False, tb=False, into=None, k_steps=None, batch=0):
    """A product of tensors by tiles; sizes may be names of symbolic ones."""
    bm, bn, bk = tile
    a, b, c = types
    out = into or c
    lead, at = (f"{batch}, ", "bz, ") if batch else ("", "")
    shape_a, shape_b = (f"({lead}{k}, {m})" if ta else f"({lead}{m}, {k})"), (f"({lead}{n}, {k})" if tb else f"({lead}{k}, {n})")
    tile_a, tile_b = ((bk, bm) if ta else (bm, bk)), ((bn, bk) if tb else (bk, bn))
    source_a = f"{at}kk * {bk}:+{bk}, by * {bm}:+{bm}" if ta else f"{at}by * {bm}:+{bm}, kk * {bk}:+{bk}"
    source_b = f"{at}bx * {bn}:+{bn}, kk * {bk}:+{bk}" if tb else f"{at}kk * {bk}:+{bk}, bx * {bn}:+{bn}"
    grid = f"({n} + {bn - 1}) // {bn}, ({m} + {bm - 1}) // {bm}" + (f", {batch}" if batch else "")
    names = "bx, by" + (", bz" if batch else "")
    steps = k_steps if k_steps is not None else f"({k} + {bk - 1}) // {bk}"
    zero = f"cast(0, {c})"
    symbols = ", ".join(f"{name}=int32" for name in dict.fromkeys((m, n, k)) if isinstance(name, str))
    declared = f"@sizes({symbols})" if symbols else ""
    loop = f"pipelined({steps}, stages={stages})" if stages else f"serial({steps})"
    return f"""{declared}
def k(A: tensor({shape_a}, {a}), B: tensor({shape_b}, {b}), C: tensor(({lead}{m}, {n}), {out})):
    with launch({grid}) as ({names}):
        a = alloc({tile_a}, {a}, "shared")
        b = alloc({tile_b}, {b}, "shared")
        c = alloc(({bm}, {bn}), {c}, "fragment")
        fill(c[:, :], {zero})
        for kk in {loop}:
            copy(A[{source_a}], a[:, :])
            copy(B[{source_b}], b[:, :])
            gemm(a[:, :], b[:, :], c[:, :], {'transpose_a=True, ' * ta}{'transpose_b=True, ' * tb}clear=False)
        copy(c[:, :], C[{at}by * {bm}:+{bm}, bx * {bn}:+{bn}])
"""


def numbers(random, shape, name):
    """Small whole numbers, of which all sums are exact."""
    t = dtype(name)
    low, high = (-3, 4) if t.is_signed else (0, 5)
    return random.integers(low, high, shape).astype(np.float32).astype(t.numpy)


def operands(random, m, n, k, types, *, ta=False, tb=False, into=None, batch=0):
    lead = (batch,) if batch else ()
    a = numbers(random, lead + ((k, m) if ta else (m, k)), types[0])
    b = numbers(random, lead + ((n, k) if tb else (k, n)), types[1])
    return a, b, np.zeros((*lead, m, n), dtype(into or types[2]).numpy)


def planned_choice(tools, kernel_text, host=None):
    planned = plan(tools["kernel_of"](kernel_text), capabilities_of(host or running_host()))
    return next(c for launch in planned.launches for c in launch.choices if isinstance(c.operation, Gemm))


SIZES = [
    ((40, 48, 64), (16, 16, 8)),
    ((33, 29, 37), (16, 16, 16)),
    ((7, 5, 3), (16, 16, 8)),
    ((50, 70, 90), (13, 11, 7)),
    ((64, 64, 300), (32, 64, 32)),
    ((1, 40, 50), (1, 32, 16)),
    ((61, 9, 20), (24, 8, 4)),
    ((9, 40, 700), (32, 32, 640)),
]


@pytest.mark.parametrize("size, tile", SIZES, ids=str)
@pytest.mark.parametrize("layout", ["nn", "nt", "tn", "tt"])
def test_sizes_and_layouts(check_text, tools, random, size, tile, layout):
    ta, tb = layout[0] == "t", layout[1] == "t"
    program = text(*size, tile, ta=ta, tb=tb)
    check_text(program, *operands(random, *size, ("float32",) * 3, ta=ta, tb=tb))
    direct = [at.is_direct for at in planned_choice(tools, program).layouts if at.operand != "c"]
    assert direct == [tile[0] > 1, True]  # a single row is no matrix


@pytest.mark.parametrize("stages", range(5))
@pytest.mark.parametrize("types", [("float32",) * 3, ("int8", "int8", "int32"), ("bfloat16", "bfloat16", "float32")], ids=str)
def test_stages_do_not_change_a_bit(check_text, random, stages, types):
    random = np.random.default_rng(3)
    size = (36, 40, 100)
    a, b, c = operands(random, *size, types)
    if types[0] == "float32":
        a, b = random.standard_normal(a.shape).astype(np.float32), random.standard_normal(b.shape).astype(np.float32)
    first = check_text(text(*size, (16, 16, 16), types, stages=stages), a, b, c, rtol=1e-5 if types[0] == "float32" else 0.0)
    again = check_text(text(*size, (16, 16, 16), types, stages=2), a, b, c, rtol=1e-5 if types[0] == "float32" else 0.0)
    np.testing.assert_array_equal(first[2].view(np.uint8), again[2].view(np.uint8))


def test_merging_steps_does_not_change_a_bit(tools, random):
    """The loop as it merges, and the same product where something else in the loop keeps each step apart."""
    size, tile = (30, 50, 200), (16, 32, 8)
    merged = text(*size, tile)
    apart = merged.replace("clear=False)\n", "clear=False)\n            copy(A[0:+1, 0:+1], spare[:, :])\n", 1)
    apart = apart.replace("        fill(c", '        spare = alloc((1, 1), float32, "shared")\n        fill(c', 1)
    assert planned_choice(tools, merged).merge > 1
    assert planned_choice(tools, apart).merge == 1
    a, b = (random.standard_normal(shape).astype(np.float32) for shape in ((30, 200), (200, 50)))
    results = []
    for program in (merged, apart):
        kernel, c = tools["kernel_of"](program), np.zeros((30, 50), np.float32)
        tools["run_on"](tools["compile_for"](kernel), kernel, [a, b, c])
        results.append(c)
    np.testing.assert_array_equal(results[0].view(np.uint32), results[1].view(np.uint32))


TYPES = [
    ("float16", "float16", "float32"), ("bfloat16", "bfloat16", "float32"), ("float8_e4m3fn", "float8_e5m2", "float32"),
    ("float64", "float64", "float64"), ("int8", "int8", "int32"), ("uint8", "int8", "int32"), ("uint8", "uint8", "int32"),
    ("int8", "uint8", "int32"), ("int16", "int16", "int32"), ("uint16", "int16", "int32"), ("int32", "int32", "int32"),
    ("int8", "int8", "int64"), ("float16", "float16", "float16"), ("float8_e5m2", "float8_e5m2", "float16"),
]  # fmt: skip
HOSTS = ["native", "avx2", "sse"]


@pytest.mark.parametrize("types", TYPES, ids="-".join)
@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("layout", ["nn", "tt"])
def test_types(check_text, tools, random, types, host, layout):
    t = layout == "tt"
    size = (21, 35, 45)
    chosen = running_host() if host == "native" else tools["reduced_host"](host)
    check_text(text(*size, (16, 16, 12), types, ta=t, tb=t), *operands(random, *size, types, ta=t, tb=t), host=chosen)


@pytest.mark.parametrize("types", [("int8", "int8", "int32"), ("uint8", "int8", "int32"), ("int16", "int16", "int32")], ids="-".join)
def test_integers_at_their_ends(check_text, random, types):
    """The extreme values of each type, in sums that pass 32 bits where they can."""
    size = (9, 17, 70)
    a, b, c = operands(random, *size, types)
    for array in (a, b):
        limits = np.iinfo(array.dtype)
        array[...] = random.choice([limits.min, limits.max, 0, 1], array.shape)
    a[0], b[:, 0] = np.iinfo(a.dtype).min, np.iinfo(b.dtype).min
    check_text(text(*size, (8, 16, 16), types), a, b, c)


def test_results_are_converted_where_they_are_copied_out(check_text, random):
    types = ("float16", "float16", "float32")
    check_text(text(30, 40, 50, (16, 16, 16), types, into="float16"), *operands(random, 30, 40, 50, types, into="float16"))


def test_a_loop_without_steps_leaves_zeros(check_text, random):
    a, b, c = operands(random, 20, 20, 20, ("float32",) * 3)
    c += 7
    check_text(text(20, 20, 20, (16, 16, 8), k_steps="0"), a, b, c)


def test_symbolic_sizes(check_text, random):
    for m, n, k in ((33, 40, 50), (1, 1, 1), (70, 16, 0), (16, 90, 129)):
        check_text(text("M", "N", "K", (16, 16, 8)), *operands(random, m, n, k, ("float32",) * 3))


@pytest.mark.parametrize("tb", [False, True])
def test_batches(check_text, random, tb):
    size = (20, 30, 40)
    check_text(text(*size, (16, 16, 8), tb=tb, batch=3), *operands(random, *size, ("float32",) * 3, tb=tb, batch=3))


@pytest.mark.parametrize("types", [("float32",) * 3, ("bfloat16", "bfloat16", "float32"), ("int8", "int8", "int32")], ids="-".join)
@pytest.mark.parametrize("m", [1, 16, 33, 128, 130])
def test_rows_beyond_the_last_block_are_not_packed(check_text, tools, random, types, m):
    """Few rows in a large tile: of those that do not exist only as many are packed as a block may read. What memory holds there, here of a
    product of infinities before it, gets into no result."""
    a, b, c = operands(random, 128, 70, 96, types)
    if dtype(types[0]).is_float:
        a[...] = np.inf
    check_text(text(128, 70, 96, (128, 64, 32), types), a, b, c)
    program = text(m, 70, 96, (128, 64, 32), types)
    source = tools["compile_for"](tools["kernel_of"](program)).source()
    assert "_and_" in source, "rows of a block are packed beyond those that exist, no others"
    check_text(program, *operands(random, m, 70, 96, types))


def test_infinities_beyond_no_edge_become_nothing(check_text, random):
    """Rows of a with infinities times columns of b that do not exist: such elements are not stored."""
    a, b, c = operands(random, 10, 9, 12, ("float32",) * 3)
    a[3, 4] = np.inf
    check_text(text(10, 9, 12, (16, 16, 8)), a, b, c)


def test_cells_that_share_operands(check_text, tools, random):
    """Many small cells, taken together: packed operands must not be taken for those of other cells."""
    program = text(200, 260, 90, (16, 16, 8))
    planned = plan(tools["kernel_of"](program), capabilities_of(running_host()))
    assert max(planned.launches[0].order.coarsen) > 1
    check_text(program, *operands(random, 200, 260, 90, ("float32",) * 3))


def test_a_second_launch_does_not_use_what_the_first_one_packed(tools, random):
    kernel = tools["kernel_of"](text(40, 40, 64, (16, 16, 8)))
    compiled = tools["compile_for"](kernel)
    a, b, c = operands(random, 40, 40, 64, ("float32",) * 3)
    for _ in range(2):
        tools["run_on"](compiled, kernel, [a, b, c])
        np.testing.assert_array_equal(c, a @ b)
        a += 1
        b *= 2


# -- what is emitted for which machine -------------------------------------------------------------------------------------

WIDE = {f"avx512{x}" for x in ("f", "bw", "vl", "dq", "cd", "vnni", "bf16")} | {"avx2", "avx", "fma", "f16c", "sse2", "bmi2"}
MACHINES = {
    "wide": ("x86_64-unknown-linux-gnu", "x86-64-v4", WIDE),
    "matrix": ("x86_64-unknown-linux-gnu", "sapphirerapids", WIDE | {"amx-bf16", "amx-tile", "amx-int8"}),
    "vnni": ("x86_64-unknown-linux-gnu", "x86-64-v3", {"avx2", "avx", "fma", "f16c", "sse2", "avxvnni"}),
    "signed": ("x86_64-unknown-linux-gnu", "x86-64-v3", {"avx2", "avx", "fma", "f16c", "sse2", "avxvnni", "avxvnniint8"}),
    "v3": ("x86_64-unknown-linux-gnu", "x86-64-v3", {"avx2", "avx", "fma", "f16c", "sse2"}),
    "baseline": ("x86_64-unknown-linux-gnu", "x86-64", {"sse2"}),
    "aarch64": ("aarch64-unknown-linux-gnu", "generic", {"neon", "fp-armv8"}),
    "aarch64-dot": ("aarch64-unknown-linux-gnu", "generic", {"neon", "fp-armv8", "dotprod", "bf16"}),
}


def machine(name: str) -> Host:
    triple, cpu, features = MACHINES[name]
    return make_host(triple, cpu, dict.fromkeys(features, True))._replace(cores=2)


FACTS = [
    ("wide", "bfloat16", "float32", "dpbf16ps.512"), ("wide", "int8", "int32", "vpdpbusd.512"), ("wide", "int16", "int32", "pmaddw.d.512"),
    ("matrix", "bfloat16", "float32", "x86.tdpbf16ps"), ("wide", "float16", "float32", "llvm.fma.v16f32"),
    ("matrix", "int8", "int32", "x86.tdpbssd"), ("matrix", "uint8", "int32", "x86.tdpbuud"), ("vnni", "int8", "int32", "vpdpbusd.256"),
    ("signed", "int8", "int32", "vpdpbssd.256"), ("v3", "int8", "int32", "avx2.pmadd.wd"),
    ("v3", "bfloat16", "float32", "llvm.fma.v8f32"), ("v3", "float32", "float32", "llvm.fma.v8f32"),
    ("baseline", "int8", "int32", "sse2.pmadd.wd"), ("baseline", "float32", "float32", "fmul <4 x float>"),
    ("aarch64", "float32", "float32", "llvm.fma.v4f32"), ("aarch64", "int8", "int32", "mul <4 x i32>"),
    ("aarch64-dot", "int8", "int32", "sdot.v4i32"), ("aarch64-dot", "uint8", "int32", "udot.v4i32"),
    ("aarch64-dot", "bfloat16", "float32", "bfdot.v4f32"), ("aarch64-dot", "float16", "float32", "llvm.fma.v4f32"),
]  # fmt: skip


@pytest.mark.parametrize("name", MACHINES)
def test_what_each_machine_offers_keeps_the_contract(name):
    """The capabilities of machines other than the one that runs the tests: none of their units shares its name with another."""
    offered = capabilities_of(machine(name))
    assert problems(offered, "cpu") == ()
    assert name == "baseline" or any(unit.is_native for unit in offered.matmul)


@pytest.mark.parametrize("name, operand, total, expected", FACTS, ids=lambda x: str(x))
def test_the_instructions_that_a_machine_has_are_used(tools, name, operand, total, expected):
    host = machine(name)
    kernel = tools["kernel_of"](text(100, 90, 80, (32, 64, 16), (operand, operand, total)))
    planned = plan(kernel, capabilities_of(host))
    program = lower(planned, host, CompileOptions())
    assert expected in program.text
    assert _is_object(name, compile_object(program.text, host))
    tiling = next(c.tiling for c in planned.launches[0].choices if isinstance(c.operation, Gemm))
    assert re.search(rf"_{tiling.m}x{tiling.n // host.lanes(4)}_", program.text), "the micro-kernel has the shape that the plan names"


def test_the_steps_of_a_sum_are_apart_where_vectors_are_long(tools):
    """Two dot products in a row never add to the same register: the second would wait for the first."""
    host = machine("wide")
    kernel = tools["kernel_of"](text(256, 256, 256, (128, 128, 32), ("bfloat16", "bfloat16", "float32")))
    code = assembly(lower(plan(kernel, capabilities_of(host)), host, CompileOptions()).text, host)
    targets = re.findall(r"vdpbf16ps\s.*%(zmm\d+)\n", code)
    assert len(targets) >= 16
    assert all(a != b for a, b in zip(targets, targets[1:]))


def _is_object(name: str, data: bytes) -> bool:
    machine_number = 183 if name.startswith("aarch64") else 62
    return data[:4] == b"\x7fELF" and int.from_bytes(data[18:20], "little") == machine_number


def test_what_is_not_stored_has_no_code(tools):
    """Direct operands have no Map that fills their tile: nothing is written to scratch memory but packed operands and the result. Each is
    packed in one place, or by a worker for itself where another one is late."""
    host = running_host()
    program = lower(plan(tools["kernel_of"](text(64, 64, 64, (32, 32, 16))), capabilities_of(host)), host, CompileOptions())
    assert program.text.count("call void @pack_a") == program.text.count("call void @pack_b") == 2


def test_every_pair_of_types_has_the_unit_of_its_choice(tools):
    """What the planner names, the emitters know; sums of products in 32 bits take any operands of up to 32."""
    names = ["int8", "uint8", "int16", "uint16", "int32", "float16", "bfloat16", "float8_e4m3fn", "float32", "float64"]
    for name in MACHINES:
        host = machine(name)
        found = Machine(capabilities=capabilities_of(host))
        for left in names:
            for right in names:
                if dtype(left).is_float != dtype(right).is_float:
                    continue
                total = "float64" if "float64" in (left, right) else "float32" if dtype(left).is_float else "int32"
                kernel = tools["kernel_of"](text(16, 16, 16, (16, 16, 16), (left, right, total)))
                gemm = next(node for node in walk(kernel) if isinstance(node, Gemm))
                product = choose_product(gemm, found)
                assert product.unit is not None or _has_no_instruction(host, left, right, total), (name, left, right)
                planned = plan(kernel, capabilities_of(host)).launches[0]
                choice = next(c for c in planned.choices if isinstance(c.operation, Gemm))
                assert choice.is_native is (product.unit is not None)
                assert unit_of(host, gemm, choice).group == (product.unit.interleave if product.unit else 1)


def _has_no_instruction(host: Host, left: str, right: str, total: str) -> bool:
    """Whether no unit of the machine sums products in ``total`` from types that hold both operands."""
    return not any(
        u.accumulator.name == total and holds(u.a, dtype(left)) and holds(u.b, dtype(right)) for u in units(host)
    )


def test_products_that_change_places_keep_their_choices(tools, random):
    """A copy that is joined with a later one takes the product that reads it along, past another product of other types."""
    kernel = tools["kernel_of"]("""
        def k(
            A: tensor((17, 6), float16), C: tensor((5, 5, 9), float16), D: tensor((5, 5, 7), float32),
            E: tensor((5, 9, 2), float32), F: tensor((5, 2, 7), float32),
        ):
            with launch(5) as (bx,):
                t0 = alloc((5, 9), float16, "fragment")
                copy(A[9:+5, :+9], t0[:, :])
                t1 = alloc((5, 2), float16, "shared")
                copy(A[8:+5, 3:+2], t1[:, :])
                t2 = alloc((9, 2), float32, "shared")
                gemm(t0[:, :], t1[:, :], t2[:, :], clear=True, transpose_a=True)
                t3 = alloc((2, 7), float32, "fragment")
                copy(A[11:+2, :+7], t3[:, :])
                t4 = alloc((5, 7), float32, "shared")
                fill(t4[:, :], 0.5)
                gemm(t1[:, :], t3[:, :], t4[:, :], clear=False)
                copy(t0[:, :], C[bx, :, :])
                copy(t4[:, :], D[bx, :, :])
                copy(t2[:, :], E[bx, :, :])
                copy(t3[:, :], F[bx, :, :])
        """)
    (launch,) = plan(kernel, capabilities_of(running_host())).launches
    plain = expanded(launch.launch)
    prepared = joined(plain)
    orders = [[n.a.buffer.name for s in one.body for n in walk(s) if isinstance(n, Gemm)] for one in (plain, prepared)]
    assert orders == [["t0", "t1"], ["t1", "t0"]], "nothing has changed places, so this test sees nothing"
    products = products_of(choices_of(launch, plain), prepared)
    for product in (n for s in prepared.body for n in walk(s) if isinstance(n, Gemm)):
        chosen = products.choices[id(product)].operation
        assert (chosen.a.buffer, chosen.b.buffer) == (product.a.buffer, product.b.buffer)
    a = random.integers(-4, 5, (17, 6)).astype(np.float16)
    c, d, e, f = (np.zeros(shape, t) for shape, t in (((5, 5, 9), np.float16), ((5, 5, 7), "f4"), ((5, 9, 2), "f4"), ((5, 2, 7), "f4")))
    tools["run_on"](tools["compile_for"](kernel), kernel, [a, c, d, e, f])
    wide = np.pad(a, ((0, 0), (0, 3))).astype(np.float32)
    np.testing.assert_array_equal(c, np.broadcast_to(wide[9:14], c.shape))
    np.testing.assert_array_equal(f, np.broadcast_to(wide[11:13, :7], f.shape))
    np.testing.assert_array_equal(d, np.broadcast_to(0.5 + wide[8:13, 3:5] @ wide[11:13, :7], d.shape))
    np.testing.assert_array_equal(e, np.broadcast_to(wide[9:14].T @ wide[8:13, 3:5], e.shape))
