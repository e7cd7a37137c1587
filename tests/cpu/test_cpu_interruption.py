"""Ctrl-C during a launch: it ends soon, with the exception of the handler, and process, pool and kernel are of use afterwards."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest

PROGRAM = """
    import os, signal, sys, threading, time
    import numpy as np
    import zellige as zl
    import zellige.language as T

    @zl.jit(target="cpu")
    def waiting(cells, kind):
        @T.prim_func
        def waiting(A: T.Tensor((1024,), "int32"), n: T.int32):
            with T.Kernel(cells, threads=32) as bx:
                if kind == "while":
                    while A[0] == 0:
                        A[1] = A[1] + 1
                elif kind == "nested loops":
                    for a in T.serial(n):
                        for b in T.serial(n):
                            if A[0] == a * b + 7:
                                A[1] = A[1] + 1
                elif kind == "tiles":
                    t = T.alloc_shared((64,), "int32")
                    for a in T.serial(n * 2000):  # below 2**31, where a count of int32 ends
                        T.copy(A[64:128], t)
                        T.copy(t, A[128:192])
                elif kind == "many cells":
                    for a in T.serial(1000000):
                        if A[0] == a * 3 + 7:
                            A[2] = A[2] + 1
                elif kind == "parts":  # a long body is emitted as several functions
                    for a in T.serial(n):
                        for part in T.unroll(40):
                            for b in T.serial(1000):
                                if A[0] == a * b + part + 7:
                                    A[1 + part] = A[1] + b
                else:
                    while A[0] == 0:
                        T.print(A[1], "turn")
                        A[1] = A[1] + 1
        return waiting

    def soon(seconds=0.15):
        def send():
            time.sleep(seconds)
            os.kill(os.getpid(), signal.SIGINT)
        sender = threading.Thread(target=send)
        sender.start()
        return sender

    def interrupted(*kinds):
        sender = soon()
        try:
            kernel(a, 1000000)
        except kinds as error:
            sender.join()
            return error
        raise SystemExit("the launch came to its end")

    for case in sys.argv[1:]:
        cells, kind = case.split(" ", 1)
        kernel = waiting(int(cells), kind)
        a = np.zeros(1024, np.int32)
"""

ENDINGS = {
    "twice": """
        for _ in range(3):  # by way of Python, then by the native call
            assert type(interrupted(KeyboardInterrupt)) is KeyboardInterrupt
        other = waiting(6, "while")
        b = np.ones(1024, np.int32)
        other(b, 3)
        assert (b == 1).all()
    """,
    "own exception": """
        class Mine(Exception):
            pass
        def handler(number, frame):
            raise Mine("told", number)
        signal.signal(signal.SIGINT, handler)
        for _ in range(2):
            error = interrupted(Mine)
            assert error.args == ("told", signal.SIGINT)
            frames = []
            trace = error.__traceback__
            while trace is not None:
                frames.append(trace.tb_frame.f_code.co_name)
                trace = trace.tb_next
            assert frames[0] == "interrupted" and frames[-1] == "handler", frames
            assert sys.getrefcount(error) <= 4
    """,
    "handler that launches": """
        def handler(number, frame):
            b = np.ones(1024, np.int32)
            kernel(b, 3)
            waiting(5, "while")(b, 3)
            assert (b == 1).all()
            calls.append(number)
            raise KeyboardInterrupt
        calls = []
        signal.signal(signal.SIGINT, handler)
        for count in (1, 2):
            interrupted(KeyboardInterrupt)
            assert len(calls) == count
    """,
    "handler that returns": """
        signal.signal(signal.SIGINT, lambda number, frame: a.__setitem__(0, 1))
        sender = soon()
        kernel(a, 3)
        sender.join()
        assert a[0] == 1
    """,
    "another thread launches": """
        ended = threading.Event()
        def launch():
            kernel(a, 1000000)
            ended.set()
        threading.Thread(target=launch, daemon=True).start()
        sender = soon()
        try:
            time.sleep(100)
        except KeyboardInterrupt:
            pass
        else:
            raise SystemExit("the main thread was not interrupted")
        assert not ended.is_set()
        a[0] = 1
        assert ended.wait(100)
    """,
}

TWICE = [f"{cells} {kind}" for cells in (1, 7) for kind in ("while", "nested loops", "tiles")] + ["1000000 many cells", "3 parts"]
CASES = [(TWICE, "twice"), (["2 print"], "twice"), *((["1 while", "7 while"], ending) for ending in ENDINGS if ending != "twice")]


@pytest.mark.parametrize("cases, ending", CASES)
def test_a_launch_hears_signals(tmp_path, cases, ending):
    file = tmp_path / "program.py"
    file.write_text(textwrap.dedent(PROGRAM) + textwrap.indent(textwrap.dedent(ENDINGS[ending]), "    "))
    environment = {**os.environ, "ZELLIGE_NUM_THREADS": "2"}
    done = subprocess.run([sys.executable, str(file), *cases], env=environment, capture_output=True, text=True, timeout=240)
    assert (done.returncode, done.stderr) == (0, "")
    assert (done.stdout == "") == (cases != ["2 print"])


def test_a_handlers_exception_is_no_internal_error():
    """Also while the compiler is at work, and by any backend: what the user's handler raises arrives as it is."""
    import signal

    from zellige import driver
    from zellige.diagnostics import InternalError
    from zellige.ir.parser import parse_kernel
    from zellige.target import parse_target

    def handler(number, frame):
        raise TimeoutError("late")

    kernel = parse_kernel("# tile-ir 1.0\ndef k(C: tensor((4,), float32)):\n    with launch(1) as (bx,):\n        C[0] = 1.0")
    before = signal.signal(signal.SIGUSR1, handler)
    try:
        with pytest.raises(TimeoutError, match="late"), driver.internal_errors(kernel, parse_target("cpu")):
            signal.raise_signal(signal.SIGUSR1)
        with pytest.raises(InternalError, match="late"), driver.internal_errors(kernel, parse_target("cpu")):
            raise TimeoutError("late")
    finally:
        signal.signal(signal.SIGUSR1, before)
