"""The backend's own linker: the same code as LLVM's, in memory that is never both written and run; what it does not know LLVM takes."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from pathlib import Path

import pytest

from zellige.diagnostics import InternalError
from zellige_cpu import jit, linker, pool
from zellige_cpu.host import running_host
from zellige_cpu.linker import Image, link

HOST = running_host()

pytestmark = pytest.mark.skipif(not linker._has_own_linker(HOST), reason="the own linker is for x86-64 and Linux")

TEXT = """
@table = private constant [4 x double] [ double 1.0, double 2.5, double -3.0, double 8.0 ], align 64
declare double @fabs(double)
declare i64 @labs(i64)
define internal double @entry_of(i64 %i) noinline cold {
  %at = getelementptr double, ptr @table, i64 %i
  %v = load double, ptr %at, align 8
  ret double %v
}
define double @read(i64 %i) {
  %v = call double @entry_of(i64 %i)
  %w = fadd double %v, 0.125
  ret double %w
}
define i64 @away(i64 %i) {
  %v = call i64 @labs(i64 %i)
  ret i64 %v
}
"""

WRITES = """
@count = internal global i64 40
define i64 @next() {
  %v = load i64, ptr @count
  %w = add i64 %v, 1
  store i64 %w, ptr @count
  ret i64 %w
}
"""


def linked(text: str, *names: str) -> Image:
    found = link(jit.compile_object(text, HOST), names)
    assert found is not None, "an object of the simple kind"
    return found


def protection(address: int) -> str:
    """What may be done at an address, as /proc/self/maps says; empty where nothing lies there."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        first, last = (int(part, 16) for part in line.split()[0].split("-"))
        if first <= address < last:
            return line.split()[1]
    return ""


def test_code_reads_its_constants_and_calls_the_process() -> None:
    image = linked(TEXT, "read", "away")
    read = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_int64)(image.addresses["read"])
    away = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(image.addresses["away"])
    assert [read(i) for i in range(4)] == [1.125, 2.625, -2.875, 8.125]
    assert away(-(1 << 60)) == 1 << 60


def test_both_linkers_give_the_same() -> None:
    data = jit.compile_object(TEXT, HOST)
    own, other = linker.load(data, ["read"], HOST), linker._linked_by_llvm(data, ["read"], HOST)
    kind = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_int64)
    ours, theirs = kind(own.addresses["read"]), kind(other.addresses["read"])
    assert [ours(i) for i in range(4)] == [theirs(i) for i in range(4)]


def test_memory_is_never_written_and_executed() -> None:
    image = linked(TEXT, "read")
    address = image.addresses["read"]
    assert protection(address) == "r-xp"
    image.close()
    assert protection(address) == ""
    image.close()


def test_memory_goes_with_the_library() -> None:
    library = linker.load(jit.compile_object(TEXT, HOST), ["read"], HOST)
    address = library.addresses["read"]
    assert protection(address) == "r-xp"
    del library
    assert protection(address) == ""


def test_what_is_of_another_kind_goes_to_llvm() -> None:
    data = jit.compile_object(WRITES, HOST)
    assert link(data, ["next"]) is None
    library = linker.load(data, ["next"], HOST)
    function = ctypes.CFUNCTYPE(ctypes.c_int64)(library.addresses["next"])
    assert [function(), function()] == [41, 42]


def test_the_code_of_the_pool_is_of_the_simple_kind() -> None:
    image = link(pool.machine_code(HOST), ["pool_worker", "pool_launch"])
    assert image is not None
    image.close()


def test_missing_functions_are_named() -> None:
    with pytest.raises(InternalError, match="no function no_such_thing"):
        linked(TEXT, "no_such_thing")
    with pytest.raises(InternalError, match="this process has no function zellige_is_not_here"):
        linked("declare i64 @zellige_is_not_here()\ndefine i64 @f() {\n %v = call i64 @zellige_is_not_here()\n ret i64 %v\n}\n", "f")


def test_what_is_cut_short_is_no_object() -> None:
    data = jit.compile_object(TEXT, HOST)
    for length in range(0, len(data), 7):
        assert link(data[:length], ["read"]) is None, length


PROGRAM = """
import sys
import numpy as np
import zellige as zl, zellige.language as T
from zellige_cpu import jit, llvm_worker

@T.prim_func
def add(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
    with T.Kernel(8) as bx:
        for j in T.Parallel(8):
            B[bx * 8 + j] = A[bx * 8 + j] + 1.0

if sys.argv[1:] == ["found"]:
    def refused(*given):
        raise AssertionError("a kernel found in the cache compiles something")
    jit.compile_object = llvm_worker.llvm_binding = refused
a, b = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
zl.compile(add, target="cpu")(a, b)
assert (b == a + 1).all()
from zellige_cpu import pool
assert pool._shared.pool is not None and pool._shared.pool.threads == 3, "the cells were shared out"
"""


def test_a_kernel_found_in_the_cache_needs_no_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither for itself nor for the threads that share its cells."""
    monkeypatch.setenv("ZELLIGE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("ZELLIGE_NUM_THREADS", "3")
    (tmp_path / "program.py").write_text(PROGRAM)
    for arguments in ([], ["found"]):
        command = [sys.executable, str(tmp_path / "program.py"), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
        assert done.returncode == 0, done.stderr
