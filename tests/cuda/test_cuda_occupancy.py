"""What is compiled again after a look at the compiler's report, and which outcome is kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from zellige_cuda import compiler
from zellige_cuda.architectures import ARCHITECTURES
from zellige_cuda.engines import HIDING, SHOWING

HIDES = f"  {HIDING}(lane);\n"


def report(registers: int, spilled: int = 0) -> str:
    return (
        "ptxas info    : Compiling entry function 'kernel' for 'sm_90'\n"
        f"    {spilled // 2} bytes stack frame, {spilled // 2} bytes spill stores, {spilled - spilled // 2} bytes spill loads\n"
        f"ptxas info    : Used {registers} registers, used 0 barriers\n"
    )


@pytest.fixture
def attempts(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[list[tuple[str, ...]], bytes]]:
    """(the options of each compilation, the outcome kept) where the reports are as given by options."""

    def run(reports: dict[str, str], text: str = HIDES, shared: int = 1024) -> tuple[list[tuple[str, ...]], bytes]:
        asked: list[tuple[str, ...]] = []

        def compile_cubin(text: str, name: str, arch: str, options: tuple[str, ...] = ()) -> tuple[bytes, str]:
            asked.append(options)
            return " ".join(options).encode(), reports[options[-1] if options else ""]

        monkeypatch.setattr(compiler, "compile_cubin", compile_cubin)
        kept, _ = compiler.compile_for_occupancy(text, "kernel", ARCHITECTURES["sm_90a"], 128, shared)
        return asked, kept

    return run


def test_one_block_more_is_kept_where_nothing_goes_to_memory_for_it(attempts: Callable[..., tuple[list[tuple[str, ...]], bytes]]) -> None:
    assert attempts({"": report(172), "-DBLOCKS_BESIDE=3": report(168)}) == ([(), ("-DBLOCKS_BESIDE=3",)], b"-DBLOCKS_BESIDE=3")
    assert attempts({"": report(172), "-DBLOCKS_BESIDE=3": report(168, 8)}) == ([(), ("-DBLOCKS_BESIDE=3",)], b"")
    assert attempts({"": report(200)}) == ([()], b"")


def test_hidden_numbers_are_shown_where_the_compiler_spills(attempts: Callable[..., tuple[list[tuple[str, ...]], bytes]]) -> None:
    show = f"-D{SHOWING}"
    assert attempts({"": report(255, 112), show: report(248)}) == ([(), (show,)], show.encode())
    assert attempts({"": report(255, 72), show: report(255, 208)}) == ([(), (show,)], b"")
    assert attempts({"": report(255, 72)}, text="no number is hidden") == ([()], b"")


def test_fewer_blocks_are_asked_for_before_numbers_are_shown(attempts: Callable[..., tuple[list[tuple[str, ...]], bytes]]) -> None:
    show = f"-D{SHOWING}"
    reports = {"": report(168, 96), "-DBLOCKS_BESIDE=3": report(168, 96), "-DBLOCKS_BESIDE=1": report(233), show: report(200)}
    assert attempts(reports) == ([(), ("-DBLOCKS_BESIDE=3",), ("-DBLOCKS_BESIDE=1",)], b"-DBLOCKS_BESIDE=1")
    reports["-DBLOCKS_BESIDE=1"] = report(255, 8)
    assert attempts(reports)[1] == show.encode()


def test_the_compiler_is_asked_for_no_code_that_it_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a machine with a device NVRTC keeps code; what it gives from there comes with an empty log, so that no spill would be seen."""
    api, asked = compiler.nvrtc(), []

    class Recording:
        def __getattr__(self, name: str) -> Any:
            return getattr(api, name)

        def nvrtcCompileProgram(self, program: Any, count: int, options: list[bytes]) -> Any:
            asked.append(options)
            return api.nvrtcCompileProgram(program, count, options)

    monkeypatch.setattr(compiler, "nvrtc", lambda: Recording())
    text = 'extern "C" __global__ void kernel(int* a) { *a = 1; }'
    for _ in range(2):
        _, log = compiler.compile_cubin(text, "kernel", "sm_80")
        assert list(compiler.usage_of(log)) == ["kernel"]
    assert all(b"--no-cache" in options for options in asked) and len(asked) == 2
    monkeypatch.setattr(compiler, "compiler_version", lambda: (12, 8))
    compiler.compile_cubin(text, "kernel", "sm_80")
    assert b"--no-cache" not in asked[-1]
