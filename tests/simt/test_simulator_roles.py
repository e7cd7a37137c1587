"""Blocks of several roles in the simulator: exact products for every number of steps, and faults planted in their programs are caught."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import zellige
import zellige.language as T
from zellige.diagnostics import InternalError, LaunchError
from zellige.driver import PIPELINE
from zellige.ir.expr import Binary, Const
from zellige.ir.stmt import Assign, Barrier, If
from zellige.ir.traverse import rebuilt, rewrite, walk
from zellige.passes.runner import run_passes
from zellige.plan.nodes import Turn
from zellige.plan.planner import plan
from zellige.plugin.contract import Synchronisation
from zellige.simt import box_stores, ir, turns
from zellige.simt.distribution import number
from zellige.simt.engine_tiles import NotLowered
from zellige.simt.lower import lower
from zellige.simt.printer import print_module
from zellige.target import parse_target
from zellige_cuda.architectures import architecture
from zellige_cuda.compiler import compile_cubin
from zellige_cuda.describe import capabilities, lane_machine, role_capabilities
from zellige_cuda.spelling import CudaSpelling

sys.path.insert(0, str(Path(__file__).parent))
from simulated import run_module, whole_numbers  # noqa: E402

TARGET = "cuda:sm_90a,simulate"
ARCH = architecture(parse_target("cuda:sm_90a"))
RICH = role_capabilities(ARCH, capabilities(ARCH, "cuda:sm_90a"))


def product(
    sizes: tuple[int, int, int], tile: tuple[int, int, int] = (64, 32, 32), stages: int = 3, dtype: str = "float16", *,
    transpose_a: bool = False, transpose_b: bool = False,
) -> Any:  # fmt: skip
    (m, n, k), (rows, columns, depth) = sizes, tile

    @T.prim_func
    def gemm(
        A: T.Tensor((k, m) if transpose_a else (m, k), dtype),
        B: T.Tensor((n, k) if transpose_b else (k, n), dtype),
        C: T.Tensor((m, n), dtype),
    ):
        with T.Kernel(T.ceildiv(n, columns), T.ceildiv(m, rows), threads=128) as (bx, by):
            a = T.alloc_shared((depth, rows) if transpose_a else (rows, depth), dtype)
            b = T.alloc_shared((columns, depth) if transpose_b else (depth, columns), dtype)
            c = T.alloc_fragment((rows, columns), "float32")
            T.clear(c)
            for s in T.Pipelined(T.ceildiv(k, depth), num_stages=stages):
                if transpose_a:
                    T.copy(A[s * depth, by * rows], a)
                else:
                    T.copy(A[by * rows, s * depth], a)
                if transpose_b:
                    T.copy(B[bx * columns, s * depth], b)
                else:
                    T.copy(B[s * depth, bx * columns], b)
                T.gemm(a, b, c, transpose_A=transpose_a, transpose_B=transpose_b)
            T.copy(c, C[by * rows, bx * columns])

    return gemm


def operands(sizes: tuple[int, int, int], dtype: Any = np.float16, *, transpose_a: bool = False, transpose_b: bool = False) -> list[Any]:
    m, n, k = sizes
    a = whole_numbers((k, m) if transpose_a else (m, k), dtype, 1)
    b = whole_numbers((n, k) if transpose_b else (k, n), dtype, 2)
    return [a, b, np.full((m, n), 7, dtype)]


def expected(arrays: list[Any], *, transpose_a: bool = False, transpose_b: bool = False) -> Any:
    a, b = (x.astype(np.float32) for x in arrays[:2])
    return ((a.T if transpose_a else a) @ (b.T if transpose_b else b)).astype(arrays[2].dtype)


@pytest.mark.parametrize("steps", range(1, 8))
def test_every_number_of_steps_of_the_ring(steps: int) -> None:
    """Fewer steps than slots, as many, and more than twice round: slots and parities stay right."""
    sizes = (64, 32, 32 * steps)
    kernel = zellige.compile(product(sizes), target=TARGET)
    arrays = operands(sizes)
    want = expected(arrays)
    kernel(*arrays)
    np.testing.assert_array_equal(arrays[2], want)
    assert "producer:" in kernel.get_kernel_source()


@pytest.mark.parametrize("transpose_a", [False, True])
@pytest.mark.parametrize("transpose_b", [False, True])
@pytest.mark.parametrize("tile", [(128, 112, 64), (64, 64, 48)])
def test_operands_in_every_order_and_tiles_of_any_width(transpose_a: bool, transpose_b: bool, tile: tuple[int, int, int]) -> None:
    """Rows of 32, 64 and 128 swizzled bytes and several slabs; two groups of warps; sizes that no tile divides."""
    sizes, how = (136, 120, 104), {"transpose_a": transpose_a, "transpose_b": transpose_b}
    kernel = zellige.compile(product(sizes, tile, 2, "bfloat16", **how), target=TARGET)
    arrays = operands(sizes, ml_dtypes.bfloat16, **how)
    want = expected(arrays, **how)
    kernel(*arrays)
    np.testing.assert_array_equal(arrays[2], want)
    assert "producer:" in kernel.get_kernel_source()


@pytest.mark.parametrize(("left", "right"), [("int8", "int8"), ("uint8", "int8")])
def test_products_of_bytes(left: str, right: str) -> None:
    """32 of k a step, operands along k, sums in int32."""

    @T.prim_func
    def kernel(A: T.Tensor((128, 160), left), B: T.Tensor((48, 160), right), C: T.Tensor((128, 48), "int32")):
        with T.Kernel(1, 1, threads=128):
            a = T.alloc_shared((128, 64), left)
            b = T.alloc_shared((48, 64), right)
            c = T.alloc_fragment((128, 48), "int32")
            T.clear(c)
            for s in T.Pipelined(3, num_stages=2):
                T.copy(A[0, s * 64], a)
                T.copy(B[0, s * 64], b)
                T.gemm(a, b, c, transpose_B=True)
            T.copy(c, C)

    random = np.random.default_rng(5)
    a, b = (random.integers(0 if t[0] == "u" else -128, 128, s).astype(t) for t, s in ((left, (128, 160)), (right, (48, 160))))
    c = np.zeros((128, 48), np.int32)
    compiled = zellige.compile(kernel, target=TARGET)
    compiled(a, b, c)
    np.testing.assert_array_equal(c, a.astype(np.int32) @ b.astype(np.int32).T)
    assert "group_product_n48_s32" in compiled.get_kernel_source()


@pytest.mark.parametrize("far", [4096, 8192, -4096])
def test_boxes_that_begin_farther_than_a_coordinate_reaches_are_outside(far: int) -> None:
    """far x 2^20 has zeros as its low 32 bits: narrowed, a box would be the first of the tensor."""

    @T.prim_func
    def kernel(A: T.Tensor((128, 160), "float16"), B: T.Tensor((160, 64), "float16"), C: T.Tensor((64, 64), "float16"),
               row: T.int32, to: T.int32):  # fmt: skip
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((64, 32), "float16")
            b = T.alloc_shared((32, 64), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            T.clear(c)
            for s in T.Pipelined(5, num_stages=2):
                T.copy(A[T.cast(row, "int64") * (1 << 20), s * 32], a)
                T.copy(B[s * 32, 0], b)
                T.gemm(a, b, c)
            T.copy(c, C[T.cast(to, "int64") * (1 << 20), 0])

    a, b = whole_numbers((128, 160), np.float16, 1), whole_numbers((160, 64), np.float16, 2)
    compiled = zellige.compile(kernel, target=TARGET)
    for row, to in ((0, 0), (far, 0), (0, far)):
        c = np.full((64, 64), 7, np.float16)
        compiled(a, b, c, row, to)
        product_of_rows = (a[:64].astype(np.float32) @ b.astype(np.float32)).astype(np.float16)
        np.testing.assert_array_equal(c, np.full_like(c, 7) if to else np.zeros_like(c) if row else product_of_rows)
    text = compiled.get_kernel_source()
    assert "box_load" in text
    assert "box_store" in text


def masked() -> Any:
    """A product's operand that the consumers compute in shared memory, beside one that boxes bring."""

    @T.prim_func
    def kernel(A: T.Tensor((64, 128), "float16"), B: T.Tensor((128, 32), "float16"), C: T.Tensor((64, 32), "float32")):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((64, 32), "float16")
            b = T.alloc_shared((32, 32), "float16")
            w = T.alloc_shared((64, 32), "float16")
            c = T.alloc_fragment((64, 32), "float32")
            T.clear(c)
            for s in T.Pipelined(4, num_stages=2):
                T.copy(A[0, s * 32], a)
                T.copy(B[s * 32, 0], b)
                for i, j in T.Parallel(64, 32):
                    w[i, j] = T.if_then_else(j <= i, a[i, j], 0)
                T.gemm(w, b, c)
            T.copy(c, C)

    return kernel


def test_what_lanes_write_is_shown_to_engines_and_not_written_while_they_read() -> None:
    """A fence and a barrier before the product; a barrier after its wait, before the lanes write again."""
    a, b = whole_numbers((64, 128), np.float16, 1), whole_numbers((128, 32), np.float16, 2)
    kernel = zellige.compile(masked(), target=TARGET)
    c = np.zeros((64, 32), np.float32)
    kernel(a, b, c)
    keep = np.arange(128)[None, :] % 32 <= np.arange(64)[:, None]
    np.testing.assert_array_equal(c, np.where(keep, a, 0).astype(np.float32) @ b.astype(np.float32))
    text = kernel.get_kernel_source()
    assert "producer:" in text
    before, after = text.index("fence_engines();"), text.index("products_wait<0>")
    assert "bar.sync" in text[before : text.index("group_product_n", before)]
    assert after > before


def chained(rows: int = 64, *, is_used_twice: bool = False) -> Any:
    """The sums of one product are an operand of the next, in registers. The next one ends an iteration late; where there are two of them,
    the first product runs an iteration ahead."""

    @T.prim_func
    def kernel(A: T.Tensor((rows, 32), "float16"), B: T.Tensor((160, 32), "float16"), V: T.Tensor((160, 48), "float16"),
               C: T.Tensor((rows, 48), "float16")):  # fmt: skip
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((rows, 32), "float16")
            b = T.alloc_shared((32, 32), "float16")
            v = T.alloc_shared((32, 48), "float16")
            s = T.alloc_fragment((rows, 32), "float32")
            w = T.alloc_fragment((rows, 32), "float16")
            c = T.alloc_fragment((rows, 48), "float32")
            d = T.alloc_fragment((rows, 48), "float32")
            T.copy(A, a)
            T.clear(c)
            T.clear(d)
            for k in T.Pipelined(5, num_stages=2):
                T.copy(B[k * 32, 0], b)
                T.copy(V[k * 32, 0], v)
                T.clear(s)
                T.gemm(a, b, s, transpose_B=True)
                for i, j in T.Parallel(rows, 48):
                    c[i, j] = c[i, j] * 0.5
                T.copy(s, w)
                T.gemm(w, v, c)
                if is_used_twice:
                    T.gemm(w, v, d)
            for i, j in T.Parallel(rows, 48):
                c[i, j] = c[i, j] + d[i, j]
            T.copy(c, C)

    return kernel


def chain_operands(rows: int, *, is_used_twice: bool) -> tuple[list[Any], Any]:
    """The operands of ``chained`` and its result."""
    random = np.random.default_rng(3)
    a, b, v = (random.integers(-1, 2, shape).astype(np.float16) for shape in ((rows, 32), (160, 32), (160, 48)))
    want, once = np.zeros((rows, 48), np.float32), np.zeros((rows, 48), np.float32)
    for k in range(0, 160, 32):
        more = (a.astype(np.float32) @ b[k : k + 32].astype(np.float32).T) @ v[k : k + 32].astype(np.float32)
        want = want * 0.5 + more
        once += more
    return [a, b, v], (want + once if is_used_twice else want).astype(np.float16)


@pytest.mark.parametrize("is_used_twice", [False, True])
@pytest.mark.parametrize("rows", [64, 128])
def test_sums_are_operands_of_the_next_product(rows: int, is_used_twice: bool) -> None:
    """Engines finish in another order in every run; the decay between the products shows a product that was not waited for."""
    (a, b, v), want = chain_operands(rows, is_used_twice=is_used_twice)
    kernel = zellige.compile(chained(rows, is_used_twice=is_used_twice), target=TARGET)
    c = np.full((rows, 48), 7, np.float16)
    kernel(a, b, v, c)
    np.testing.assert_array_equal(c, want)
    text = kernel.get_kernel_source()
    assert "held_product_n48" in text
    assert ("move_registers<16>(s_held" in text) == is_used_twice
    assert ("products_wait<1>" in text) == (not is_used_twice)
    assert "bar.sync" not in text


# ---- planted faults ----

SIZES = (64, 48, 160)


def program() -> tuple[Any, Any]:
    """A product with every engine at work: 5 steps through 3 slots, three boxes of sums a warp through 2 slots."""
    assert RICH is not None
    kernel = run_passes(product(SIZES, (64, 48, 32)).kernel, PIPELINE)
    return kernel, lower(plan(kernel, RICH), lane_machine(ARCH, RICH))


def of_product() -> tuple[list[Any], Any]:
    """The arrays of a call, the result last, and what it must hold."""
    arrays = operands(SIZES)
    return arrays, expected(arrays)


def of_chain() -> tuple[list[Any], Any]:
    arrays, want = chain_operands(128, is_used_twice=False)
    return [*arrays, np.full((128, 48), 7, np.float16)], want


def caught(
    change: Callable[[Any], Any], made: Callable[[], tuple[Any, Any]] = program,
    given: Callable[[], tuple[list[Any], Any]] = of_product, seeds: int = 2,
) -> str:  # fmt: skip
    """What finds a fault that ``change`` makes of some statement (None: it is left out; several stand in its place): a code, or
    "results"."""
    kernel, module = made()
    changed = [0]

    def edit(items: Any) -> Any:
        out = []
        for item in items:
            bodies = {name: edit(getattr(item, name)) for name in getattr(type(item), "BODIES", ())}
            whole = rebuilt(item, **bodies) if bodies else item
            new = change(whole)
            changed[0] += new is not whole
            out += new if isinstance(new, tuple) else () if new is None else (new,)
        return tuple(out)

    module = rebuilt(module, functions=tuple(rebuilt(f, body=edit(f.body)) for f in module.functions))
    assert changed[0], "nothing was planted"
    answers = set()
    for seed in range(seeds):
        arrays, want = given()
        try:
            run_module(kernel, module, arrays, seed=seed)
        except LaunchError as error:
            answers.add(error.code)
            continue
        answers.add("nothing" if np.array_equal(arrays[-1], want) else "results")
    return ", ".join(sorted(answers - {"nothing"})) or "nothing"


def of(kind: Any, **changes: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Statements of a kind with fields changed."""
    return lambda s: rebuilt(s, **{f: c(getattr(s, f)) for f, c in changes.items()}) if isinstance(s, kind) else s


def without(kind: Any, where: Callable[[Any], bool] = lambda s: True) -> Callable[[Any], Any]:
    return lambda s: None if isinstance(s, kind) and where(s) else s


def is_of(state: str) -> Callable[[Any], bool]:
    return lambda s: s.barriers.name.endswith(state)


def never_flips(s: Any) -> Any:
    """Parities that stay as they were."""
    if isinstance(s, Assign) and "parity" in s.var.name:
        return rebuilt(s, value=rewrite(s.value, lambda n: n.left if isinstance(n, Binary) and n.op == "bitxor" else n))
    return s


def unswizzled(node: Any) -> Any:
    return node.left if isinstance(node, Binary) and node.op == "bitxor" else node


FAULTS = {
    "who reads does not wait": without(ir.WaitBarrier, is_of("full")),
    "who fills does not wait": without(ir.WaitBarrier, is_of("empty")),
    "a slot is never given back": without(ir.Arrive),
    "too few bytes are expected": of(ir.ExpectBytes, bytes=lambda b: Binary(op="sub", left=b, right=number(16))),
    "too many bytes are expected": of(ir.ExpectBytes, bytes=lambda b: Binary(op="add", left=b, right=number(16))),
    "parities never flip": never_flips,
    "a wait leaves one group too many": of(ir.WaitProducts, leave=lambda n: n + 1),
    "products are not waited for": without(ir.WaitProducts),
    "registers are not made ready for products": without(ir.FenceProducts),
    "boxes are swizzled otherwise than products read": of(ir.TensorCopy, box=lambda b: replace(b, swizzle_bytes=0)),
    "products read without the swizzle": of(ir.AsyncProduct, a=lambda a: replace(a, swizzle_bytes=0)),
    "the step of k is another": of(ir.AsyncProduct, b=lambda b: replace(b, advance=b.advance * 2)),
    "groups of rows lie further apart": of(ir.AsyncProduct, a=lambda a: replace(a, row_group_bytes=a.row_group_bytes * 2)),
    "the barriers are not made": without(ir.BarrierInit, is_of("empty")),
    "one arrival too many is waited for": of(ir.BarrierInit, arrivals=lambda n: n + 1),
    "rows are not shown to the engine that stores them": without(ir.Fence, lambda s: s.to == "engines"),
    "slots of rows are not waited for": without(ir.WaitStores, lambda s: s.of_reading),
    "a wait for stores leaves two too many": of(ir.WaitStores, leave=lambda n: n + 2),
    "who ends does not wait until its rows are read": without(ir.WaitStores, lambda s: not s.of_reading),
    "the making of barriers is not shown": without(ir.Fence, lambda s: s.to == "barriers"),
    "nobody meets behind the making of barriers": without(Barrier, lambda s: s.scope == "block"),
    "barriers are made twice": lambda s: (s, s) if isinstance(s, ir.BarrierInit) else s,
    "barriers are shown before they are made": lambda s: (
        rebuilt(s, then=(s.then[-1], *s.then[:-1])) if isinstance(s, If) and s.then and isinstance(s.then[-1], ir.Fence) else s
    ),
    "rows are laid out otherwise than they are stored": of(ir.MatrixStore, target=lambda t: rewrite(t, unswizzled)),
    "matrices are turned": of(ir.MatrixStore, is_transposed=lambda _: True),
    "the warp does not wait for all of its rows": without(Barrier, lambda s: s.scope == "warp"),
    "a box comes to the slot before": of(ir.TensorCopy, memory_index=lambda i: Binary(op="sub", left=i, right=number(2048))),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_planted_faults_are_caught(fault: str) -> None:
    assert caught(FAULTS[fault]) != "nothing"


def test_the_program_itself_is_right() -> None:
    kernel, module = program()
    for seed in range(3):
        arrays = operands(SIZES)
        want = expected(arrays)
        run_module(kernel, module, arrays, seed=seed)
        np.testing.assert_array_equal(arrays[2], want)


def test_budgets_that_a_block_was_not_given_are_refused() -> None:
    """The hardware would wait for ever for registers that nobody gives up."""
    assert RICH is not None
    kernel = run_passes(product(SIZES).kernel, PIPELINE)
    planned = plan(kernel, RICH)
    (launch,) = planned.launches
    roles = tuple(replace(role, registers=255 if role.name == "consumer" else 56) for role in launch.roles)
    wrong = rebuilt(planned, launches=(rebuilt(launch, roles=roles),))
    lower(wrong, lane_machine(ARCH, RICH))
    roles = tuple(replace(role, registers=255 if role.name == "consumer" else 264) for role in launch.roles)
    wrong = rebuilt(planned, launches=(rebuilt(launch, roles=roles),))
    with pytest.raises(InternalError, match="its budgets take"):
        lower(wrong, lane_machine(ARCH, RICH))


def test_fences_are_needed_where_lanes_touch_registers_of_products() -> None:
    """Each by itself, but for the one behind which products take what the fence before made ready and no lane has touched since."""
    assert RICH is not None
    kernel = run_passes(chained().kernel, PIPELINE)
    module = lower(plan(kernel, RICH), lane_machine(ARCH, RICH))
    arrays, want = chain_operands(64, is_used_twice=False)
    fences = sum(isinstance(n, ir.FenceProducts) for n in walk(module))
    found = []
    for which in range(fences):
        seen = iter(range(fences))
        without_it = without(ir.FenceProducts, lambda s, seen=seen, which=which: next(seen) == which)
        found.append(caught(without_it, lambda: (kernel, module), lambda: ([*arrays, np.zeros_like(want)], want), seeds=1))
    assert found == ["E657", "E657", "nothing", "E657"]


# ---- registers that roles pass on ----


def passing_on() -> tuple[Any, Any]:
    """Two consumers that take registers which their producer gives back."""
    assert RICH is not None
    kernel = run_passes(chained(128).kernel, PIPELINE)
    return kernel, lower(plan(kernel, RICH), lane_machine(ARCH, RICH))


BUDGET_FAULTS = {
    "who gives back does not": without(ir.Budget, lambda s: not s.is_larger),
    "too little is given back": of(ir.Budget, registers=lambda n: n if n > 200 else n + 48),
    "too much is taken": of(ir.Budget, registers=lambda n: n + 16 if n > 200 else n),
    "who takes says that it gives": of(ir.Budget, is_larger=lambda _: False),
    "who gives says that it takes": of(ir.Budget, is_larger=lambda _: True),
}


@pytest.mark.parametrize("fault", BUDGET_FAULTS)
def test_budgets_that_nobody_can_take_are_found(fault: str) -> None:
    assert caught(BUDGET_FAULTS[fault], passing_on, of_chain, seeds=1) in ("E654", "E657")


def test_a_wait_for_some_boxes_is_none_for_others() -> None:
    """Boxes asked for before those that are waited for may land after them."""
    first = without(ir.WaitBarrier, lambda s: s.barriers.name == "a_full")
    assert caught(first, passing_on, of_chain, seeds=6) != "nothing"


# ---- turns ----


def turning() -> tuple[Any, Any]:
    """Two consumers that take turns at starting the products of a step, four steps each."""
    assert RICH is not None
    passed_on = Synchronisation(mechanism="bar.sync", scope="turn", count=16)
    caps = replace(RICH, synchronisation=(*RICH.synchronisation, passed_on))
    kernel = run_passes(chained(128).kernel, PIPELINE)
    return kernel, lower(plan(kernel, caps), lane_machine(ARCH, caps))


def is_a_pass(statement: Any) -> bool:
    return statement.mode == "arrive"


TURN_FAULTS = {
    "nobody has the first turn, nobody passes one": without(ir.NamedBarrier, is_a_pass),
    "the first turn is nobody's": of(ir.NamedBarrier, number=lambda n: number(7) if isinstance(n, Const) else n),
    "a turn is given twice": lambda s: (s, s) if isinstance(s, ir.NamedBarrier) and is_a_pass(s) else s,
    "a turn joins the lanes of one copy": of(ir.NamedBarrier, lanes=lambda n: n // 2),
    "a turn joins more lanes than two copies have": of(ir.NamedBarrier, lanes=lambda n: n + 32),
    "whose turn is over waits for another number": of(ir.NamedBarrier, number=lambda n: n if isinstance(n, Const) else number(5)),
    "a turn is passed to oneself": of(
        ir.NamedBarrier, number=lambda n: rewrite(n, lambda x: x.left if isinstance(x, Binary) and x.op == "truncmod" else x)
    ),
}


@pytest.mark.parametrize("fault", TURN_FAULTS)
def test_turns_that_do_not_go_round_are_found(fault: str) -> None:
    assert caught(TURN_FAULTS[fault], turning, of_chain) != "nothing"


def test_turns_between_roles_are_a_reason_to_keep_one() -> None:
    with pytest.raises(NotLowered, match="turns between its roles are not lowered"):
        turns.emit(Any, Turn(name="unit", order=("one", "other"), phase="take"))  # type: ignore[arg-type]


def test_turns_go_round() -> None:
    """With barriers of both consumers' lanes beside those of the block and of each role."""
    kernel, module = turning()
    text = print_module(module, CudaSpelling(90))
    assert 'asm volatile("bar.arrive %0, 256;" :: "r"(3) : "memory");' in text
    assert 'asm volatile("bar.sync %0, 256;" :: "r"(((warp / 4) + 3)) : "memory");' in text
    assert not re.search(r"C7\d\d\d", compile_cubin(text, "kernel", "sm_90a")[1])
    for seed in range(3):
        arrays, want = of_chain()
        run_module(kernel, module, arrays, seed=seed)
        np.testing.assert_array_equal(arrays[-1], want)


# ---- roles without engines ----


def without_engines(stages: int = 3) -> tuple[Any, Any]:
    """A machine of asynchronous copies by lanes and products of warps whose parts may run programs of their own, and a product for it."""
    arch = architecture(parse_target("cuda:sm_80"))
    plain = capabilities(arch, "cuda:sm_80")
    joined = (Synchronisation(mechanism="mbarrier", scope="block", count=64), *(s for s in plain.synchronisation if s.scope == "token"))
    roles = replace(plain, can_specialise_roles=True, synchronisation=joined)
    kernel = run_passes(product(SIZES, (64, 48, 32), stages).kernel, PIPELINE)
    return kernel, lower(plan(kernel, roles), lane_machine(arch, roles))


@pytest.mark.parametrize("stages", [2, 3, 4])
def test_roles_need_no_engines(stages: int) -> None:
    """A producer of many lanes copies in groups and arrives for its warps; the text is one that older architectures take."""
    kernel, module = without_engines(stages)
    for seed in range(2):
        arrays = operands(SIZES)
        want = expected(arrays)
        run_module(kernel, module, arrays, seed=seed)
        np.testing.assert_array_equal(arrays[2], want)
    text = print_module(module, CudaSpelling(80))
    assert "mbarrier.test_wait" in text
    assert "cp_async_wait<0>" in text
    compile_cubin(text, "kernel", "sm_80")


LANE_FAULTS = {
    "who reads does not wait": without(ir.WaitBarrier, is_of("full")),
    "who fills does not wait": without(ir.WaitBarrier, is_of("empty")),
    "copies have not landed when the slot is put": without(ir.WaitCopies),
    "a warp arrives before all of its lanes have read": without(Barrier, lambda s: s.scope == "warp"),
    "a slot is never given back": without(ir.Arrive, is_of("empty")),
    "parities never flip": never_flips,
}


@pytest.mark.parametrize("fault", LANE_FAULTS)
def test_planted_faults_without_engines_are_caught(fault: str) -> None:
    assert caught(LANE_FAULTS[fault], without_engines) != "nothing"


def stored(what: str) -> Any:
    """A product stored by boxes, and what else is done with the tensor."""

    @T.prim_func
    def stored(
        A: T.Tensor((128, 64), "float16"), B: T.Tensor((64, 64), "float16"), C: T.Tensor((256, 64), "float16"),
        D: T.Tensor((128, 64), "float32"),
    ):  # fmt: skip
        with T.Kernel(1, threads=256):
            a = T.alloc_shared((128, 32), "float16")
            b = T.alloc_shared((32, 64), "float16")
            c = T.alloc_fragment((128, 64), "float32")
            T.clear(c)
            if what == "fill before":
                T.fill(C, 7)
            for s in T.Pipelined(2, num_stages=2):
                T.copy(A[0, s * 32], a)
                T.copy(B[s * 32, 0], b)
                T.gemm(a, b, c)
            if what in ("same place", "another place", "apart"):
                for t in range(3):
                    for i, j in T.Parallel(128, 64):
                        c[i, j] += t
                    T.copy(c, C[0 if what == "same place" else t * t * 16 if what == "another place" else t * 128, 0])
            else:
                T.copy(c, C[0, 0])
            if what == "read":
                for i, j in T.Parallel(128, 64):
                    D[i, j] = C[127 - i, 63 - j]
            elif what == "add":
                for i, j in T.Parallel(128, 64):
                    T.atomic_add(C[i, j], 1)
            elif what == "elements":
                for i in T.Parallel(64):
                    C[i, i] = 5
            elif what == "twice":
                for i, j in T.Parallel(128, 64):
                    c[i, j] = c[i, j] * 2
                T.copy(c, C[64, 0])
            elif what == "beside":
                T.copy(c, C[128, 0])

    return stored


def stored_arrays() -> list[Any]:
    return [
        whole_numbers((128, 64), np.float16), whole_numbers((64, 64), np.float16, 1), np.zeros((256, 64), np.float16),
        np.zeros((128, 64), np.float32),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("what", "boxes", "waits"),
    [("fill before", 0, 0), ("read", 0, 0), ("add", 0, 0), ("elements", 0, 0), ("twice", 0, 0), ("beside", 2, 1), ("same place", 1, 2),
     ("another place", 1, 2), ("apart", 1, 1)],
)  # fmt: skip
def test_boxes_that_store_are_ordered_with_all_that_meets_them(what: str, boxes: int, waits: int) -> None:
    """Where something else of the launch touches their places lanes store; a copy that comes to its own waits for what it stored."""
    wanted, found = stored_arrays(), stored_arrays()
    zellige.compile(stored(what), target="interp")(*wanted)
    compiled = zellige.compile(stored(what), target=TARGET)
    compiled(*found)
    for want, have in zip(wanted, found):
        np.testing.assert_array_equal(have, want)
    text = compiled.get_kernel_source().split("#else\n#ifdef BLOCKS")[0]
    assert text.count(" box_store_2d(") == (boxes and boxes + 1)  # the function itself stands there too
    assert text.count("  box_stores_wait<0>();") == waits


@pytest.mark.parametrize("what", ["same place", "another place"])
def test_what_boxes_store_is_theirs_until_it_is_waited_for(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(box_stores, "_may_meet_itself", lambda ctx, copy: False)
    kernel = run_passes(stored(what).kernel, PIPELINE)
    module = lower(plan(kernel, RICH), lane_machine(ARCH, RICH))
    with pytest.raises(LaunchError, match="E652.*was written by the copy engine"):
        run_module(kernel, module, stored_arrays())
