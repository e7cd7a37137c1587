"""LLVM in a process of its own: it may abort, this process goes on."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import pytest

from zellige.diagnostics import InternalError
from zellige_cpu import compiler, jit, linker
from zellige_cpu.host import running_host

RIGHT = "define i32 @f() {\n ret i32 7\n}\n"
ABORTING = "declare void @llvm.aarch64.sme.za.enable()\ndefine void @f() {\n call void @llvm.aarch64.sme.za.enable()\n ret void\n}\n"
"""No instruction of x86 does this: LLVM prints "Cannot select" and aborts."""

needs_x86 = pytest.mark.skipif(not running_host().is_x86, reason="the aborting program aborts on x86")


def python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=120, check=False)


@needs_x86
def test_an_abort_of_llvm_is_an_error() -> None:
    with pytest.raises(InternalError, match=r"(?s)LLVM stopped while it compiled .* signal 6 .*Cannot select"):
        jit.compile_object(ABORTING, running_host())
    library = linker.load(jit.compile_object(RIGHT, running_host()), ["f"], running_host())
    assert library.addresses["f"]


def test_a_refused_program_leaves_the_process_in_use() -> None:
    jit.compile_object(RIGHT, running_host())
    (before,) = {one._process.pid for one in compiler._pool()._idle[-1:]}
    with pytest.raises(InternalError, match="(?s)LLVM refuses the generated program: .*doesn't match function result type"):
        jit.compile_object("define i32 @f() {\n ret i64 0\n}\n", running_host())
    jit.compile_object(RIGHT, running_host())
    assert compiler._pool()._idle[-1]._process.pid == before


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_a_process_killed_while_it_waits_is_replaced(how: signal.Signals, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiler, "_pools", {})
    jit.compile_object(RIGHT, running_host())
    (before,) = compiler._pool()._idle
    os.kill(before._process.pid, how)
    assert b"ELF" in jit.compile_object(RIGHT, running_host())[:8]
    (after,) = compiler._pool()._idle
    assert after._process.pid != before._process.pid
    compiler._pool().close()


@pytest.mark.parametrize("is_seen", [True, False])
def test_a_process_that_aborted_while_it_waited_is_replaced(is_seen: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether it is found ended before the request or, where it ends just then, by the request that it does not take."""
    monkeypatch.setattr(compiler, "_pools", {})
    jit.compile_object(RIGHT, running_host())
    (before,) = compiler._pool()._idle
    os.kill(before._process.pid, signal.SIGABRT)
    before._process.wait(timeout=30)
    if not is_seen:
        monkeypatch.setattr(compiler._Process, "is_alive", True)
    assert b"ELF" in jit.compile_object(RIGHT, running_host())[:8]
    (after,) = compiler._pool()._idle
    assert after._process.pid != before._process.pid
    compiler._pool().close()


def test_a_process_killed_again_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiler, "_pools", {})
    asked = compiler._Process.ask
    killed: list[int] = []

    def kill(one: compiler._Process, head: dict[str, object], text: bytes) -> tuple[str, bytes]:
        one.prepare()
        os.kill(one._process.pid, signal.SIGKILL)
        killed.append(one._process.pid)
        return asked(one, head, text)

    with monkeypatch.context() as killing:
        killing.setattr(compiler._Process, "ask", kill)
        with pytest.raises(InternalError, match="signal 9"):
            jit.compile_object(RIGHT, running_host())
    assert len(set(killed)) == 2
    assert b"ELF" in jit.compile_object(RIGHT, running_host())[:8]
    compiler._pool().close()


def test_a_process_killed_while_it_loads_is_replaced(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(compiler, "_pools", {})
    prepare = compiler._Process.prepare
    killed: list[int] = []
    most = [1]

    def kill(one: compiler._Process) -> None:
        if len(killed) < most[0]:
            os.kill(one._process.pid, signal.SIGKILL)
            killed.append(one._process.pid)
        prepare(one)

    monkeypatch.setattr(compiler._Process, "prepare", kill)
    with caplog.at_level(logging.WARNING):
        assert b"ELF" in jit.compile_object(RIGHT, running_host())[:8]
        assert len(killed) == 1
        compiler._pool().close()
        monkeypatch.setattr(compiler, "_pools", {})
        most[0] = 3  # the next two
        with pytest.raises(InternalError, match="signal 9"):
            jit.compile_object(RIGHT, running_host())
        assert len(killed) == 3
        assert b"ELF" in jit.compile_object(RIGHT, running_host())[:8]
    assert not compiler._pool()._is_closed
    assert "LLVM runs in this process" not in caplog.text
    compiler._pool().close()


def test_only_a_compilation_starts_a_process() -> None:
    """Whoever asks what the machine can do, or for the program's text alone, waits for no compiler."""
    found = python("""
        import zellige as zl, zellige.language as T
        from zellige import driver
        from zellige.plugin.registry import registry
        from zellige_cpu import compiler

        @T.prim_func
        def add(A: T.Tensor((16,), "float32"), B: T.Tensor((16,), "float32")):
            with T.Kernel(1) as _:
                for j in T.Parallel(16):
                    B[j] = A[j] + 1

        target = registry().resolve("cpu")
        assert registry().backend(target).describe(target).dtypes
        assert "define" in driver.dump(add.kernel, target, "source")
        assert not compiler._pools
        zl.compile(add, target="cpu")
        assert len(compiler._pool()._idle) == 1
    """)
    assert found.returncode == 0, found.stderr


def test_threads_compile_side_by_side() -> None:
    made: list[bytes] = []
    threads = [threading.Thread(target=lambda: made.append(jit.compile_object(RIGHT, running_host()))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(made) == 8
    assert len(set(made)) == 1


def test_the_assembly_and_the_optimised_text_come_whole() -> None:
    text = "".join(f"define i32 @f{n}(i32 %x) {{\n %y = add i32 %x, {n}\n ret i32 %y\n}}\n" for n in range(4000))
    assert jit.optimised(text, running_host()).count("define") == 4000
    assert all(f"f{n}:" in jit.assembly(text, running_host()) for n in (0, 1999, 3999))


@pytest.mark.parametrize("place", ["/nowhere/python", "", None])
def test_where_no_process_can_be_started_llvm_runs_here(
    place: str | None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A program that holds Python inside may not know where Python is."""
    monkeypatch.setattr(sys, "executable", place)
    monkeypatch.setattr(compiler, "_pools", {})
    with caplog.at_level(logging.WARNING):
        assert b"ELF" in jit.compile_object(RIGHT, running_host())[:8]
        with pytest.raises(InternalError, match="LLVM refuses"):
            jit.compile_object("define i32 @f() {\n ret i64 0\n}\n", running_host())
    assert caplog.text.count("LLVM runs in this process") == 1


def test_a_process_that_does_not_start_well_is_done_without(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    monkeypatch.setattr(compiler, "_pools", {})
    with caplog.at_level(logging.WARNING):
        assert b"ELF" in jit.compile_object(RIGHT, running_host())[:8]
    assert "status 1" in caplog.text


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_child_made_by_fork_has_its_own() -> None:
    done = python(
        """
        import os
        from zellige_cpu import compiler, jit, linker
        from zellige_cpu.host import running_host
        text = "define i32 @f() {\\n ret i32 7\\n}\\n"
        jit.compile_object(text, running_host())
        parent = compiler._pool()._idle[0]._process.pid
        child = os.fork()
        if child == 0:
            jit.compile_object(text, running_host())
            os._exit(0 if compiler._pool()._idle[0]._process.pid != parent else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        jit.compile_object(text, running_host())
        assert compiler._pool()._idle[0]._process.pid == parent
        """
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_child_made_by_fork_needs_no_lock_of_another_thread() -> None:
    """Here the lock of llvmlite is held at the fork, as by a thread that is inside of LLVM."""
    done = python(
        """
        import os, signal, threading
        import llvmlite.binding
        from zellige_cpu import compiler, jit
        from zellige_cpu.host import running_host
        text = "define i32 @f() {\\n ret i32 7\\n}\\n"
        running_host()
        llvmlite.binding.ffi.lib._lock.__enter__()
        child = os.fork()
        if child == 0:
            signal.alarm(60)
            made = []
            thread = threading.Thread(target=lambda: made.append(jit.compile_object(text, running_host())))
            thread.start()
            thread.join()
            os._exit(0 if made else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        """
    )
    assert done.returncode == 0, done.stderr


def test_no_process_is_left_behind() -> None:
    done = python(
        """
        from zellige_cpu import compiler, jit, linker
        from zellige_cpu.host import running_host
        jit.compile_object("define i32 @f() {\\n ret i32 7\\n}\\n", running_host())
        compiler.begin()
        print(compiler._pool()._idle[0]._process.pid)
        """
    )
    assert done.stderr == ""
    process = int(done.stdout)
    for _ in range(100):
        try:
            os.kill(process, 0)
        except ProcessLookupError:
            return
        time.sleep(0.05)
    raise AssertionError(f"process {process} still runs")


def test_an_interrupt_ends_a_compilation() -> None:
    """The process that compiles is ended too, and the next compilation gets another."""
    done = python(
        """
        import os, signal, threading, time
        from zellige_cpu import compiler, jit, linker
        from zellige_cpu.host import running_host
        long = "".join(f"define double @f{n}(double %x) {{\\n %y = fadd double %x, {n}.0\\n ret double %y\\n}}\\n" for n in range(60000))
        jit.compile_object("define i32 @f() {\\n ret i32 7\\n}\\n", running_host())
        process = compiler._pool()._idle[0]._process
        threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        try:
            jit.compile_object(long, running_host())
        except KeyboardInterrupt:
            assert process.returncode == -9, process.returncode
            jit.compile_object("define i32 @f() {\\n ret i32 7\\n}\\n", running_host())
            print("interrupted")
        """
    )
    assert done.stdout == "interrupted\n", done.stderr
