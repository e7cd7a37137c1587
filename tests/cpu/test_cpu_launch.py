"""From a kernel to a launch on the CPU: grids over threads, sizes and scalars, prints, assertions, refusals, what is shown."""

from __future__ import annotations

import ctypes
import struct
import threading

import numpy as np
import pytest

from zellige.diagnostics import InternalError, LaunchError, Unsupported, ZelligeError
from zellige.ir.stmt import Dialect
from zellige.ir.traverse import rebuilt
from zellige.options import options
from zellige.plugin.registry import BackendHandle, Origin
from zellige.target import Target
from zellige_cpu import backend, jit, linker
from zellige_cpu.host import running_host
from zellige_cpu.pool import run_cells, thread_count


@pytest.fixture
def compiled(tools):
    """``compiled(parameters, body, launch=...)``: the kernel and what was compiled from it."""

    def make(parameters, body, launch="launch(1) as (bx,)"):
        kernel = tools["block_kernel"](parameters, body, launch=launch)
        return kernel, tools["compile_for"](kernel)

    return make


# ---- grids ---------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("grid", ["1", "7", "3, 5", "2, 3, 4", "1, 6, 1", "n, 3", "(n + 3) // 4, n", "0", "3, 0"])
def test_every_cell_runs_once_with_its_coordinates(check_block, grid):
    names = [f"b{axis}" for axis in range(grid.count(",") + 1)]
    place = " + ".join(f"{name} * {10 ** (2 * axis)}" for axis, name in enumerate(names))
    body = f'o: int32 = atomic("add", N[0], 1)\nB[{" + ".join(f"{name} * {7 ** axis}" for axis, name in enumerate(names))}] = {place}'
    arguments = np.zeros(1, np.int32), np.zeros(400, np.int32), 5
    parameters = "N: tensor((1,), int32), B: tensor((400,), int32), n: scalar(int32)"
    check_block(parameters, body, *arguments, launch=f"launch({grid}) as ({', '.join(names)},)")


def test_cells_are_shared_out_whole():
    for cells, workers in ((1, 1), (1, 3), (5, 2), (100, 3), (1000, 2)):
        lock, seen, common = threading.Lock(), [], set()

        def run(begin, end, places, seen=seen, lock=lock, common=common):
            scratch, leaf, states, shared = places
            assert all(place % 64 == 0 for place in places)
            assert leaf >= scratch + 100
            assert shared >= states + 70
            assert ctypes.string_at(states, 70) == bytes(70), "states are zero when a launch begins"
            with lock:
                common.add((states, shared))
                seen.extend(range(begin, end))

        run_cells(run, cells, workers, (100, 64, 70, 1000))
        assert len(common) == 1, "all workers see the same memory"
        assert sorted(seen) == list(range(cells))


def test_an_error_in_one_worker_reaches_the_caller():
    def run(begin, end, places):
        raise ValueError(begin)

    with pytest.raises(ValueError):
        run_cells(run, 64, 2, (0, 0, 0, 0))


def test_the_environment_limits_the_threads(monkeypatch):
    monkeypatch.setenv("ZELLIGE_NUM_THREADS", "3")
    options.cache_clear()
    try:
        assert (thread_count(16), thread_count(1)) == (3, 3)
    finally:
        monkeypatch.undo()
        options.cache_clear()
    assert thread_count(5) == 5


def test_many_threads_may_launch_one_kernel_at_once(compiled, tools):
    body = """
        S = alloc((64,), int32, "shared")
        for i in parallel(64):
            S[i] = A[bx * 64 + i] + i
        for i in parallel(64):
            B[bx * 64 + i] = S[63 - i]
    """
    kernel, ready = compiled("A: tensor((6400,), int32), B: tensor((6400,), int32)", body, "launch(100) as (bx,)")
    inputs = [np.arange(6400, dtype=np.int32) * k for k in range(8)]
    outputs = [np.zeros(6400, np.int32) for _ in range(8)]
    threads = [threading.Thread(target=tools["run_on"], args=(ready, kernel, [a, b])) for a, b in zip(inputs, outputs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for a, b in zip(inputs, outputs):
        np.testing.assert_array_equal(b, (a + np.arange(6400) % 64).reshape(100, 64)[:, ::-1].ravel())


def test_launches_of_a_kernel_run_in_order(check_text):
    text = """
        def k(A: tensor((999,), int32), W: tensor((999,), int32), B: tensor((999,), int32)):
            with launch(999) as (bx,):
                W[bx] = A[bx] * 2
            with launch(999) as (bx,):
                B[bx] = W[998 - bx] + 1
    """
    check_text(text, np.arange(999, dtype=np.int32), np.zeros(999, np.int32), np.zeros(999, np.int32))


def test_symbolic_sizes_strides_and_scalars_of_every_kind(check_text, random):
    text = """
        @sizes(m=int32, s=int32)
        def k(
            A: tensor((m, 3), float32, strides=(s, 1)), x: scalar(float16), u: scalar(uint64), f: scalar(bool), B: tensor((m,), float64)
        ):
            with launch((m + 7) // 8) as (bx,):
                for i in parallel(8):
                    if bx * 8 + i < m:
                        B[bx * 8 + i] = cast(A[bx * 8 + i, 2], float64) * cast(x, float64) + (cast(u, float64) if f else float64(0.5))
    """
    base = random.standard_normal((37, 8)).astype(np.float32)
    for rows, flag in ((37, True), (5, False), (0, True)):
        check_text(text, base[:rows, :3], 1.5, (1 << 63) + 12345, flag, np.zeros(rows))


# ---- what native code tells Python ---------------------------------------------------------------------------------------------------


def test_prints_come_in_the_order_of_the_blocks(compiled, tools, capsys):
    body = """
        print("block", value=bx)
        if bx == 2:
            print("tile", region=A[1:+2, 0:+3])
            print("outside", region=A[1:+1, 2:+3])
            print("packed", region=P[0:+4])
            print("bare")
            for i in parallel(2):
                print("", value=A[i, 0] > float16(1.0))
    """
    kernel, ready = compiled("A: tensor((3, 3), float16), P: tensor((4,), int4)", body, "launch(40) as (bx,)")
    tools["run_on"](ready, kernel, [np.arange(9, dtype=np.float16).reshape(3, 3), np.array([0x21, 0xF8], np.uint8)])
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line.startswith("block")] == [f"block: {n}" for n in range(40)]
    tile = ["tile: [[3., 4., 5.],", " [6., 7., 8.]]", "outside: [[5., 0., 0.]]"]
    assert lines[2:10] == ["block: 2", *tile, "packed: [1, 2, -8, -1]", "bare", "False", "True"]


def test_a_failed_assertion_names_its_line_and_stops_the_launch(compiled, tools):
    body = 'for i in parallel(4):\n    assert A[bx, i] > 0, "not positive"\nB[bx] = 1'
    kernel, ready = compiled("A: tensor((500, 4), int32), B: tensor((500,), int32)", body, "launch(500) as (bx,)")
    a, b = np.ones((500, 4), np.int32), np.zeros(500, np.int32)
    tools["run_on"](ready, kernel, [a, b])
    assert b.all()
    a[137, 2], b[:] = 0, 0
    with pytest.raises(LaunchError) as caught:
        tools["run_on"](ready, kernel, [a, b])
    assert caught.value.code == "E620" and "not positive" in str(caught.value) and caught.value.span.line == 7
    assert b[137] == 0


# ---- refusals ------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "parameters,body,code",
    [
        ("A: tensor((4,), float32)", 'barrier("grid")', "E447"),
        ("A: tensor((4,), float32), m: scalar(int32)", 'S = alloc((m,), float32, "global")\nS[0] = 1.0', "E411"),
        ("A: tensor((4,), float32)", 'S = alloc((1000000, 1000000), float32, "shared")\nS[0, 0] = 1.0', "E301"),
        ("A: tensor((4,), float32)", 'dialect("vendor.fence")', "E410"),
    ],
)
def test_what_the_target_cannot_do_is_said_with_its_place(compiled, parameters, body, code):
    with pytest.raises(ZelligeError) as caught:
        compiled(parameters, body)
    assert caught.value.code == code and caught.value.span is not None
    assert code != "E301" or "a worker's memory of the target cpu holds" in str(caught.value)


def test_a_dialect_operation_is_refused_and_named(tools):
    kernel = tools["block_kernel"]("A: tensor((4,), float32)", "A[0] = 1.0")
    launch = rebuilt(kernel.launches[0], body=(Dialect(op="vendor.fence"),))
    with pytest.raises(Unsupported, match=r"vendor\.fence"):
        tools["compile_for"](rebuilt(kernel, launches=(launch,)))


def test_a_fault_of_the_emitters_never_reaches_code_generation():
    with pytest.raises(InternalError, match="LLVM refuses"):
        jit.compile_object("define void @f() {\n ret i32 0\n}\n", running_host())
    with pytest.raises(InternalError, match="no_such_function"):
        linker.check_symbols(["expf", "no_such_function"])


# ---- what is shown, and the contract -------------------------------------------------------------------------------------------------


def test_source_and_assembly(compiled):
    _, ready = compiled("A: tensor((64,), float32)", "for i in parallel(64):\n    A[i] = A[i] + 1.0")
    assert ready.source().startswith("; kernel k") and "define void @launch_0" in ready.source() and "fadd" in ready.source()
    assert "launch_0:" in ready.assembly()


def test_the_same_kernel_gives_the_same_text(tools):
    body = "for i, j in parallel(n, 16):\n    B[i * m + j] = A[j, i] * 2.0 if i * m + j < 100 else 0.0"
    parameters = "A: tensor((16, 40), float32), B: tensor((900,), float32), n: scalar(int32), m: scalar(int32)"
    texts = {tools["compile_for"](tools["block_kernel"](parameters, body)).source() for _ in range(3)}
    assert len(texts) == 1


def test_the_backend_keeps_the_contract():
    handle = BackendHandle(Origin(name="cpu", value="test", load=lambda: backend), backend)
    assert handle.works and handle.manifest.kind == "host" and dict(handle.manifest.aliases) == {"c": "cpu", "llvm": "cpu"}
    described = handle.describe(Target(name="cpu"))
    assert described.lanes == 32 and described.are_lanes_emulated and described.threads >= 1
    assert all(described.has_storage(t) for t in ("int4", "bool", "float8_e8m0fnu", "float64"))


@pytest.mark.parametrize("target", ["cpu", "interp"])
def test_tensors_that_share_memory(target):
    """The very same memory: exact. A shared part: every element comes from what the other tensor held before or after a write."""
    import zellige as zl
    import zellige.language as T

    @zl.jit(target=target)
    def raised(n):
        @T.prim_func
        def raised(A: T.Tensor((n,), "int32"), B: T.Tensor((n,), "int32")):
            with T.Kernel(T.ceildiv(n, 16)) as bx:
                for i in T.Parallel(16):
                    B[bx * 16 + i] = A[bx * 16 + i] + 1000
        return raised

    kernel = raised(500)
    start = np.arange(500, dtype=np.int32)
    same = start.copy()
    for calls in range(1, 4):
        kernel(same, same)
        np.testing.assert_array_equal(same, start + 1000 * calls)
    for shift in (1, 7, 16, 499):
        for calls in range(3):
            memory = np.arange(500 + shift, dtype=np.int32)
            before = memory.copy()
            read, written = (memory[:500], memory[shift:]) if calls < 2 else (memory[shift:], memory[:500])
            values = read.copy()
            kernel(read, written)
            assert (((written - 1000) == values) | ((written - 1000) == read)).all()
            untouched = memory[:shift] if calls < 2 else memory[500:]
            np.testing.assert_array_equal(untouched, before[:shift] if calls < 2 else before[500:])


def test_more_cells_than_a_number_counts_are_no_few(tools):
    """Their count, of two dimensions of 2^32, is no number of 64 bits: as many run as anybody waits for."""
    kernel = tools["block_kernel"](
        "A: tensor((1,), int32), n: scalar(int64)", "A[0] = 1", launch="launch(n, n) as (bx, by,)"
    )
    program = tools["compile_for"](kernel)
    count = program._launches[0][2]
    for n, wanted in ((0, 0), (3, 9), (2**31, 2**62), (2**32, 2**63 - 1), (2**62, 2**63 - 1)):
        assert count(struct.pack("<4q", 0, n, 0, 0)) == wanted
