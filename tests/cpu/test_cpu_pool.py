"""The pool's threads: every cell once with memory of its own, many callers at once, failures, forks, the end of the process."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import textwrap
import threading

import numpy as np
import pytest

from zellige.diagnostics import LaunchError
from zellige.options import options
from zellige_cpu import pool, pool_program
from zellige_cpu.host import make_host, running_host
from zellige_cpu.jit import assembly, compile_object

pool_function = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, *[ctypes.c_void_p] * 4, ctypes.c_int64)

pytestmark = pytest.mark.skipif(not pool.is_supported(running_host()), reason="no futex on this system")

BODY = """
    S = alloc((64,), int32, "shared")
    for i in parallel(64):
        S[i] = A[bx * 64 + i] + i
    for i in parallel(64):
        B[bx * 64 + i] = S[63 - i] + B[bx * 64 + i]
"""


@pytest.fixture(scope="module")
def shifted(tools):
    """A kernel of 100 cells that adds to B what A holds, turned round in each cell; it goes through the cell's own memory."""
    kernel = tools["block_kernel"]("A: tensor((6400,), int32), B: tensor((6400,), int32)", BODY, launch="launch(100) as (bx,)")
    return kernel, tools["compile_for"](kernel)


def expected(a: np.ndarray) -> np.ndarray:
    return (a.reshape(100, 64) + np.arange(64, dtype=np.int32))[:, ::-1].reshape(-1)


@pytest.fixture
def threads(monkeypatch):
    def choose(count: int) -> None:
        monkeypatch.setenv("ZELLIGE_NUM_THREADS", str(count))
        options.cache_clear()

    yield choose
    monkeypatch.undo()
    options.cache_clear()


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_every_cell_runs_once_for_any_number_of_threads(shifted, tools, threads, count):
    threads(count)
    kernel, ready = shifted
    a = np.arange(6400, dtype=np.int32)
    for _ in range(50):
        b = np.zeros(6400, np.int32)
        tools["run_on"](ready, kernel, [a, b])
        np.testing.assert_array_equal(b, expected(a))
    if count > 1:
        assert pool._shared.pool is not None
        assert pool._shared.pool.threads == count


def test_threads_that_sleep_are_woken(shifted, tools, threads):
    threads(3)  # more than the cores of a small machine: the threads do not spin
    kernel, ready = shifted
    a = np.arange(6400, dtype=np.int32)
    for pause in (0.0, 0.03, 0.0, 0.05):
        threading.Event().wait(pause)
        b = np.zeros(6400, np.int32)
        tools["run_on"](ready, kernel, [a, b])
        np.testing.assert_array_equal(b, expected(a))


def test_many_callers_at_once(shifted, tools, threads):
    threads(2)
    kernel, ready = shifted
    failures: list[BaseException] = []

    def call(k: int) -> None:
        try:
            a = np.arange(6400, dtype=np.int32) * k
            for _ in range(40):
                b = np.zeros(6400, np.int32)
                tools["run_on"](ready, kernel, [a, b])
                np.testing.assert_array_equal(b, expected(a))
        except BaseException as error:  # noqa: BLE001 - told by the main thread
            failures.append(error)

    callers = [threading.Thread(target=call, args=(k,)) for k in range(8)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert not failures


def test_a_failed_assertion_stops_the_grid_and_is_told(tools, threads):
    threads(2)
    body = 'assert bx != 11, "eleven"\no: int32 = atomic("add", N[0], 1)'
    kernel = tools["block_kernel"]("N: tensor((1,), int32)", body, launch="launch(100000) as (bx,)")
    ready = tools["compile_for"](kernel)
    for _ in range(3):
        count = np.zeros(1, np.int32)
        with pytest.raises(LaunchError, match="eleven"):
            tools["run_on"](ready, kernel, [count])
        assert count[0] < 100000


@pytest.mark.parametrize(("workers", "cells"), [(2, 64), (3, 100), (3, 5)])
def test_workers_begin_apart_and_take_what_others_have_not_begun(workers, cells):
    """Each begins with a stretch of its own; the last one's is run by the others while it stays in its first cells."""
    first, done, calls = threading.Barrier(workers), threading.Event(), []

    @pool_function
    def run(_args, begin, end, own, *_):
        begins = own not in {place for *_, place in calls}
        calls.append((begin, end, own))
        if begins:
            first.wait(10)
            if begin + -(-cells // workers) >= cells:
                done.wait(10)
        if sum(e - b for b, e, _ in calls) == cells:
            done.set()

    status = (ctypes.c_int64 * 1)()
    args = (ctypes.c_void_p * 2)(ctypes.addressof(status), None)
    threads = pool.NativePool(workers, running_host())
    try:
        threads.run(ctypes.cast(run, ctypes.c_void_p).value, ctypes.addressof(args), 0, cells, (64, 0, 0, 0), is_apart=True)
    finally:
        threads.stop()
    assert sorted(cell for begin, end, _ in calls for cell in range(begin, end)) == list(range(cells))
    span, begun = -(-cells // workers), {own: begin for begin, _, own in reversed(calls)}
    assert sorted(begun.values()) == [begin for begin in range(0, workers * span, span) if begin < cells]


SCRIPT = """
    import os, sys, threading
    import numpy as np
    import zellige as zl
    import zellige.language as T
    @zl.jit
    def scaled(factor):
        @T.prim_func
        def scaled(A: T.Tensor((4096,), "float32"), B: T.Tensor((4096,), "float32")):
            with T.Kernel(64, threads=32) as bx:
                for i in T.Parallel(64):
                    B[bx * 64 + i] = A[bx * 64 + i] * factor
        return scaled
    a = np.arange(4096, dtype=np.float32)
    kernel = scaled(3.0)
    def check():
        b = np.zeros_like(a)
        kernel(a, b)
        assert (b == 3 * a).all()
    check()
"""

ENDS = {
    "idle": "pass",
    "asleep": "import time; time.sleep(0.1)",
    "fork": """
        for _ in range(3):
            child = os.fork()
            if child == 0:
                check(); check()
                sys.exit(0)
            assert os.waitpid(child, 0)[1] == 0
            check()
    """,
    "fork while others launch": """
        stop = False
        def loop():
            while not stop:
                check()
        callers = [threading.Thread(target=loop) for _ in range(3)]
        for caller in callers: caller.start()
        for _ in range(5):
            child = os.fork()
            if child == 0:
                check()
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0
        stop = True
        for caller in callers: caller.join()
    """,
    "a launch after the threads": """
        from zellige_cpu import pool
        pool._stop()
        check()
        assert pool._shared.pool is None
    """,
    "a daemon still launches": """
        def loop():
            while True:
                check()
        threading.Thread(target=loop, daemon=True).start()
        import time; time.sleep(0.05)
        os._exit(0)
    """,
}


@pytest.mark.parametrize("end", ENDS)
def test_the_process_ends_well(tmp_path, end):
    file = tmp_path / "script.py"
    file.write_text(textwrap.dedent(SCRIPT) + textwrap.dedent(ENDS[end]))
    environment = {**os.environ, "ZELLIGE_NUM_THREADS": "3"}
    done = subprocess.run([sys.executable, str(file)], env=environment, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


def test_the_code_is_right_for_other_processors():
    host = make_host("aarch64-unknown-linux-gnu", "generic", {"neon": True})
    assert pool.is_supported(host)
    assert "i64 98" in pool_program.pool_text(host)
    assert not pool.is_supported(make_host("x86_64-apple-darwin", "generic", {}))
    assert b"pool_launch" in compile_object(pool_program.pool_text(running_host()), running_host())
    assert "syscall" in assembly(pool_program.pool_text(running_host()), running_host())
