"""Packed operands that cells share, results that the last step stores, and the memory both lie in."""

from __future__ import annotations

import ctypes
import os
import threading

import numpy as np
import pytest

from zellige.options import CompileOptions, options
from zellige.plan.planner import plan
from zellige.plan.products import PANEL_BYTES
from zellige_cpu.backend import capabilities_of
from zellige_cpu.host import running_host
from zellige_cpu.jit import compile_object
from zellige_cpu.launch import lower
from zellige_cpu.linker import load
from zellige_cpu.memory import Memory
from zellige_cpu.prefetch import overlaps, prefetch


def product(m, n, k, *, extra="", at="", out="float32", tile="float32", column=0, width=None):
    """Tiles of 16 x 16 x 8; the result goes to columns ``column`` and on of a tensor ``width`` wide."""
    width = n if width is None else width
    return f"""
def k(A: tensor(({m}, {k}), float32), B: tensor(({k}, {n}), float32), C: tensor(({m}, {width}), {out})):
    with launch(({n} + 15) // 16, ({m} + 15) // 16) as (bx, by):
        a = alloc((16, 8), float32, "shared")
        b = alloc((8, 16), float32, "shared")
        c = alloc((16, 16), {tile}, "fragment")
{extra}
        fill(c[:, :], cast(0, {tile}))
        for kk in pipelined(({k} + 7) // 8, stages=2):
            copy(A[by * 16:+16, kk * 8{at}:+8], a[:, :])
            copy(B[kk * 8{at}:+8, bx * 16:+16], b[:, :])
            gemm(a[:, :], b[:, :], c[:, :], clear=False)
        copy(c[:, :], C[by * 16:+16, {column} + bx * 16:+16])
"""


def whole_numbers(random, m, n, k):
    return (random.integers(-4, 5, shape).astype(np.float32) for shape in ((m, k), (k, n)))


def lowered(tools, text, ask=None):
    return lower(plan(tools["kernel_of"](text), capabilities_of(running_host()), ask), running_host(), CompileOptions())


def asks_ahead(operation):
    """The backend's answer about copies of loops with stages."""
    return overlaps(operation, running_host()) if operation.kind == "pipeline" else None


@pytest.fixture
def threads(monkeypatch):
    def choose(count: int) -> None:
        monkeypatch.setenv("ZELLIGE_NUM_THREADS", str(count))
        options.cache_clear()

    yield choose
    monkeypatch.undo()
    options.cache_clear()


def test_each_operand_has_one_place_for_all_workers(tools):
    launch = lowered(tools, product(60, 50, 1200)).launches[0]
    states, shared = launch.memory[2:]
    steps = -(-150 // (PANEL_BYTES // (16 * 4) // 8))  # of as many elements of k as a panel of 16 columns may have
    assert steps > 1
    assert states == 64 * steps * (4 + 4)
    assert shared >= 4 * 1200 * (64 + 64)


@pytest.mark.parametrize("m, n", [(16, 100), (100, 16)])
def test_what_one_cell_uses_is_packed_anew(tools, m, n):
    """A grid of one row of cells: only the operand that all of them use has places of its own."""
    launch = lowered(tools, product(m, n, 64)).launches[0]
    assert launch.memory[2] == 64


def test_operands_that_depend_on_data_are_not_shared(tools, check_text, random):
    extra = "        shift: int32 = cast(A[0, 0], int32)"
    text = product(40, 40, 64, extra=extra, at=" + max(0, shift)")
    assert lowered(tools, text).launches[0].memory[2] == 0
    a, b = whole_numbers(random, 40, 40, 64)
    a[0, 0] = 3
    check_text(text, a, b, np.zeros((40, 40), np.float32))


@pytest.mark.parametrize("count", [1, 2, 5])
def test_many_workers_pack_for_each_other(tools, random, threads, count):
    threads(count)
    kernel = tools["kernel_of"](product(150, 170, 300))
    ready = tools["compile_for"](kernel)
    for _ in range(40):
        a, b = whole_numbers(random, 150, 170, 300)
        c = np.zeros((150, 170), np.float32)
        tools["run_on"](ready, kernel, [a, b, c])
        np.testing.assert_array_equal(c, a @ b)


def test_callers_at_once_have_memory_of_their_own(tools, random, threads):
    threads(2)
    kernel = tools["kernel_of"](product(150, 170, 64))
    ready = tools["compile_for"](kernel)
    cases = [tuple(whole_numbers(random, 150, 170, 64)) for _ in range(4)]
    wrong: list[int] = []

    def work(number):
        a, b = cases[number]
        for _ in range(30):
            c = np.zeros((150, 170), np.float32)
            tools["run_on"](ready, kernel, [a, b, c])
            if not np.array_equal(c, a @ b):
                wrong.append(number)

    callers = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert wrong == []


APART = """
def k(A: tensor((90, 136), float32), B: tensor((136, 24), float32), C: tensor((90, 24), float32), n: scalar(int32)):
    with launch(2, 6) as (bx, by):
        a = alloc((16, 8), float32, "shared")
        b = alloc((8, 16), float32, "shared")
        c = alloc((16, 16), float32, "fragment")
        fill(c[:, :], 0.0)
        for kk in serial(n):
            copy(A[by * 16:+16, kk * 8:+8], a[:, :])
            copy(B[kk * 8:+8, bx * 16:+16], b[:, :])
            gemm(a[:, :], b[:, :], c[:, :], clear=False)
            for i, j in parallel(16, 16):
                c[i, j] = min(c[i, j], 1000.0)
        copy(c[:, :], C[by * 16:+16, bx * 16:+16])
"""


@pytest.mark.parametrize("places", [1, 4, 256])
@pytest.mark.parametrize("count", [1, 2])
def test_a_worker_keeps_what_its_next_cell_reads_again(tools, random, threads, monkeypatch, places, count):
    """A product that is not merged, with fewer places than steps and more; what another launch kept is forgotten."""
    monkeypatch.setattr("zellige_cpu.kept._RING_STEPS", places)
    threads(count)
    kernel = tools["kernel_of"](APART)
    planned = plan(kernel, capabilities_of(running_host()))
    (choice,) = [c for c in planned.launches[0].choices if c.unit or c.tiling]
    assert [at.kept for at in choice.layouts] == ["worker", "worker", ""]
    ready = tools["compile_for"](kernel)
    a, b, c = np.zeros((90, 136), np.float32), np.zeros((136, 24), np.float32), np.zeros((90, 24), np.float32)
    for steps in (17, 3, 0):
        a[:], b[:] = whole_numbers(random, 90, 24, 136)
        tools["run_on"](ready, kernel, [a, b, c, steps])
        np.testing.assert_array_equal(c, a[:, : 8 * steps] @ b[: 8 * steps])


def launch_function(program, *arguments):
    """``run(begin, end, is_first)``: a program's only launch function on these arguments, with memory of one worker; how many pieces of
    work it has, and its states."""
    launch = program.launches[0]
    library = load(compile_object(program.text, running_host()), program.exported, running_host())
    kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, *[ctypes.c_void_p] * 4, ctypes.c_int64)
    function = kind(library.addresses[launch.function])
    status = (ctypes.c_int64 * 64)()
    words = [a.ctypes.data if isinstance(a, np.ndarray) else a for a in arguments]
    args = (ctypes.c_uint64 * 8)(*words, ctypes.addressof(status))
    memories = [Memory() for _ in launch.memory]
    places = [memory.aligned(size) for memory, size in zip(memories, launch.memory)]

    def run(begin, end, is_first, keeps=(library, status, memories)):
        function(ctypes.addressof(args), begin, end, *places, is_first)

    cells = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(library.addresses[launch.cells])(ctypes.addressof(args))
    return run, cells, (ctypes.c_int64 * (launch.memory[2] // 8)).from_address(places[2])


def test_what_a_worker_packed_is_there_in_its_next_call(tools, random):
    """All cells read the same of b: the second call for a launch packs it no more, the first one for another launch does."""
    text = APART.replace("90", "1024").replace("24)", "16)").replace("launch(2, 6)", "launch(1, 64)")
    a, b = whole_numbers(random, 1024, 16, 136)
    c = np.zeros((1024, 16), np.float32)
    run, cells, _ = launch_function(lowered(tools, text), a, b, c, 17)
    assert cells > 1
    run(0, 1, 1)
    before = a @ b
    b *= 2
    run(1, cells, 0)
    np.testing.assert_array_equal(c, before)
    run(0, cells, 1)
    np.testing.assert_array_equal(c, a @ b)


@pytest.mark.parametrize("state", [0, 1, 2])
def test_a_worker_whose_packer_never_ends_packs_for_itself(tools, random, state):
    """The launch function by itself, with all states as if nobody had begun, somebody were at it, or (wrongly) all were there."""
    a, b = whole_numbers(random, 60, 50, 40)
    c = np.zeros((60, 50), np.float32)
    run, cells, words = launch_function(lowered(tools, product(60, 50, 40)), a, b, c)
    words[::8] = [state] * (len(words) // 8)
    run(0, cells, 1)
    np.testing.assert_array_equal(c, np.zeros((60, 50)) if state == 2 else a @ b)
    assert list(words[::8]) == [1 if state == 1 else 2] * (len(words) // 8)


def lines_asked(tools, monkeypatch, text, a, b, c):
    """Numbers of the lines of a and of b that a launch on one thread asks for beside what packings ask for, in order."""
    monkeypatch.setattr("zellige_cpu.leaf.packing._PREFETCHED", -1)
    places = tools["places_asked_for"](lowered(tools, text, asks_ahead), (a, b, c))
    return [[(p - x.ctypes.data) // 64 for p in places if 0 <= p - x.ctypes.data < x.nbytes] for x in (a, b)]


@pytest.mark.skipif(prefetch(running_host()) is None, reason="this machine has no instruction that asks for a line")
@pytest.mark.parametrize("m, n", [(64, 64), (5, 64), (1, 64), (64, 16), (40, 48)])
def test_what_the_next_step_packs_is_asked_for_while_the_product_runs(tools, random, monkeypatch, m, n):
    """All of both operands but what first steps take, which nobody knows of before, however few rows there are; cells that find a step
    packed ask for none of it."""
    k = 2048
    a, b, c = (tools["on_lines"](shape) for shape in ((m, k), (k, n), (m, n)))
    a[:], b[:] = whole_numbers(random, m, n, k)
    of_a, of_b = lines_asked(tools, monkeypatch, product(m, n, k), a, b, c)
    np.testing.assert_array_equal(c, a @ b)
    kernel = tools["kernel_of"](product(m, n, k))
    depth = 8 * next(c.merge for c in plan(kernel, capabilities_of(running_host())).launches[0].choices if c.is_merged)
    assert k % depth == 0
    assert k // depth > 2
    lines = np.arange(m * k // 16).reshape(m, k // 16)
    assert set(of_a) == set(lines[:, depth // 16 :].ravel())
    lines = np.arange(k * n // 16).reshape(k, n // 16)
    assert set(of_b) == set(lines[depth:].ravel())
    assert len(of_a) + len(of_b) == len(set(of_a)) + len(set(of_b)), "and none of it twice"


# -- results -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("out", ["float32", "float16", "bfloat16", "int8", "float64"])
@pytest.mark.parametrize("column, width", [(0, 45), (0, 64), (5, 70), (0, 20), (40, 50)])
def test_results_go_where_the_copy_says(check_text, tools, random, out, column, width):
    """Regions inside the tensor, across its edge and beyond it, in rows of any length."""
    text = product(40, 45, 24, out=out, column=column, width=width)
    assert "_to_" in lowered(tools, text).text
    a, b = (np.sign(x) for x in whole_numbers(random, 40, 45, 24))
    kind = {"bfloat16": pytest.importorskip("ml_dtypes").bfloat16}.get(out, out)
    check_text(text, a, b, np.full((40, width), 7).astype(kind))


@pytest.mark.parametrize("k", [8, 37, 64, 0])
def test_zeros_are_added_as_the_loop_says(check_text, k):
    """Sums that underflow are -0; the zeros beyond the tensors make 0 of them, and where there are none -0 stays."""
    a, b = np.full((4, k), 1e-30, np.float32), np.full((k, 5), -1e-30, np.float32)
    (_, _, c) = check_text(product(4, 5, k), a, b, np.ones((4, 5), np.float32))
    assert np.signbit(c).all() == (k in (8, 64))
    assert np.signbit(c).any() == (k in (8, 64))


# -- memory --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 1, 64, 5000, (1 << 21) - 1, 1 << 21, 5 << 20])
def test_memory_is_aligned_and_writable_to_its_end(size):
    memory = Memory()
    address = memory.aligned(size)
    assert address % (1 << 21 if size >= 1 << 21 else 64) == 0
    ctypes.memset(address, 7, size)
    assert memory.aligned(size // 2) == address, "it only grows"
    larger = memory.aligned(size + 100)
    assert ctypes.string_at(larger, size + 100) == bytes(size + 100), "fresh memory is zero"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_child_has_a_copy_of_its_own():
    memory = Memory()
    address = memory.aligned(4 << 20)
    child = os.fork()
    if child == 0:
        ctypes.memset(address, 1, 4 << 20)
        os._exit(0)
    os.waitpid(child, 0)
    assert ctypes.string_at(address, 4 << 20) == bytes(4 << 20)
