"""CUDA C++ to a cubin by NVRTC.

In: the text and an architecture. Out: the cubin and the compiler's log. Needs no device. Raises E501 where NVRTC is missing, and with its
log E502 where it refuses the text and E506 where it does so for the flags that the user asked for.
"""

from __future__ import annotations

import re
from typing import Any, Literal

from zellige.diagnostics import CompileError, catalogue
from zellige.records import dataclass
from zellige_cuda.architectures import KIB, LANE_REGISTERS, Architecture
from zellige_cuda.device import INSTALL
from zellige_cuda.engines import HIDING, SHOWING

_OPTIONS = ("-default-device", "--std=c++17", "--ptxas-options=-v", "-diag-suppress=177,550", "-lineinfo")

_OWN = frozenset((f"-D{SHOWING}", "-DELEMENTWISE", "-DTENSORS_MEET", "-DWITHOUT_BOXES"))
"""What the variants of a text are compiled with (:mod:`zellige_cuda.variants`), beside ``-DBLOCKS_BESIDE``: no wish of the user."""

_ARCHITECTURE = re.compile(r"--?(?:gpu-architecture|arch|gpu-code|code|generate-code|gencode)(?:=|$)")


def nvrtc() -> Any:
    """cuda-python's module for NVRTC. Raises E501 where the package or the library is missing."""
    try:
        from cuda.bindings import nvrtc as module

        module.nvrtcVersion()
    except (ImportError, RuntimeError) as error:
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        raise catalogue.E501.error(tool="NVRTC", reason=reason, advice=INSTALL) from error
    return module


def compiler_version() -> tuple[int, int]:
    """NVRTC's version."""
    major, minor = nvrtc().nvrtcVersion()[1:]
    return int(major), int(minor)


def compile_cubin(text: str, name: str, arch: str, options: tuple[str, ...] = ()) -> tuple[bytes, str]:
    """(cubin, log)."""
    return _compiled(text, name, arch, options, "CUBIN")


def compile_ptx(text: str, name: str, arch: str, options: tuple[str, ...] = ()) -> str:
    """PTX, for the virtual architecture of the same number."""
    ptx, _ = _compiled(text, name, arch.replace("sm_", "compute_"), options, "PTX")
    return ptx.rstrip(b"\0").decode()


def _compiled(text: str, name: str, arch: str, options: tuple[str, ...], form: Literal["CUBIN", "PTX"]) -> tuple[bytes, str]:
    api = nvrtc()
    asked = tuple(option for option in options if option not in _OWN and not option.startswith("-DBLOCKS_BESIDE="))
    if (other := next((option for option in asked if _ARCHITECTURE.match(option)), None)) is not None:
        raise catalogue.E506.error(tool="NVRTC", flags=other, reason=f"the architecture is the target's, {arch}")
    program = _checked(api, api.nvrtcCreateProgram(text.encode(), f"{name}.cu".encode(), 0, [], []))[0]
    try:
        flags = [o.encode() for o in (f"--gpu-architecture={arch}", *_OPTIONS, *_uncached(), *options)]
        result = api.nvrtcCompileProgram(program, len(flags), flags)[0]
        size = _checked(api, api.nvrtcGetProgramLogSize(program))[0]
        buffer = bytes(size)
        _checked(api, api.nvrtcGetProgramLog(program, buffer))
        said = buffer.rstrip(b"\0").decode(errors="replace")
        if result != api.nvrtcResult.NVRTC_SUCCESS:
            log = said.strip() or str(result)
            if asked and (result == api.nvrtcResult.NVRTC_ERROR_INVALID_OPTION or _is_taken(text, name, arch, options, asked, form)):
                raise catalogue.E506.error(tool="NVRTC", flags=" ".join(asked), reason=log)
            raise catalogue.E502.error(tool="NVRTC", log=log)
        size = _checked(api, getattr(api, f"nvrtcGet{form}Size")(program))[0]
        made = bytes(size)
        _checked(api, getattr(api, f"nvrtcGet{form}")(program, made))
        return made, said
    finally:
        api.nvrtcDestroyProgram(program)


def _is_taken(
    text: str, name: str, arch: str, options: tuple[str, ...], asked: tuple[str, ...], form: Literal["CUBIN", "PTX"]
) -> bool:
    """Whether the text compiles without the options that the user asked for."""
    try:
        _compiled(text, name, arch, tuple(option for option in options if option not in asked), form)
    except CompileError:
        return False
    return True


def _uncached() -> tuple[str, ...]:
    """What keeps NVRTC from answering with code that it kept: the log of that is empty, and with it go the report of registers, warnings
    and every decision that rests on them. Source: NVRTC 13, 10 (caching, from CUDA 12.9 on)."""
    return ("--no-cache",) if compiler_version() >= (12, 9) else ()


def _checked(api: Any, answer: tuple[Any, ...]) -> tuple[Any, ...]:
    if answer[0] != api.nvrtcResult.NVRTC_SUCCESS:
        raise catalogue.E502.error(tool="NVRTC", log=str(answer[0]))
    return answer[1:]


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What the compiler says of one kernel: registers a lane, bytes that a lane stores and loads by spills, bytes of its stack (where
    registers are kept over calls, and arrays that cannot be in registers), and of the spills those that are stored."""

    registers: int
    spilled_bytes: int
    stack_bytes: int = 0
    stored_bytes: int = 0

    @property
    def array_bytes(self) -> int:
        """Bytes of the stack beside those that spills need."""
        return max(0, self.stack_bytes - self.stored_bytes)


def usage_of(log: str) -> dict[str, Usage]:
    """The compiler's report on each kernel, by name."""
    found: dict[str, Usage] = {}
    name, spilled, stack, stored = "", 0, 0, 0
    for line in log.splitlines():
        if match := re.search(r"Compiling entry function '(\w+)'", line):
            name, spilled, stack, stored = match[1], 0, 0, 0
        elif match := re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", line):
            stack, stored, spilled = int(match[1]), int(match[2]), int(match[2]) + int(match[3])
        elif match := re.search(r"Used (\d+) registers", line):
            found[name] = Usage(registers=int(match[1]), spilled_bytes=spilled, stack_bytes=stack, stored_bytes=stored)
    return found


def compile_for_occupancy(
    text: str, name: str, arch: Architecture, threads: int, shared_bytes: int, options: tuple[str, ...] = ()
) -> tuple[bytes, str]:
    """(cubin, log) of a unit with one kernel.

    Where a few registers fewer let one more block run beside the others, it is compiled again with that many, and that is kept if nothing
    goes to memory for it. Where the compiler spills with registers to spare, for the sake of more blocks than it was asked for, it is asked
    for as many as fit with the registers taken, and then for one; and where it spills, it may see the numbers that are hidden from its
    hoisting. What spills least is kept."""
    cubin, log = compile_cubin(text, name, arch.name, options)
    usage = usage_of(log)
    if len(usage) != 1:
        return cubin, log
    used = next(iter(usage.values()))
    attempts: list[str] = []
    if used.spilled_bytes:
        wanted = (_fitting(used.registers, arch, threads), 1) if used.registers < LANE_REGISTERS else ()
        attempts = [f"-DBLOCKS_BESIDE={blocks}" for blocks in dict.fromkeys(wanted)]
        attempts += [f"-D{SHOWING}"] if re.search(rf"^\s*{HIDING}\(", text, re.MULTILINE) else []
    elif (more := more_blocks(used.registers, arch, threads, shared_bytes)) is not None:
        attempts = [f"-DBLOCKS_BESIDE={more}"]
    for attempt in attempts:
        again, said = compile_cubin(text, name, arch.name, (*options, attempt))
        found = next(iter(usage_of(said).values()))
        if found.stack_bytes <= used.stack_bytes and (found.spilled_bytes < used.spilled_bytes or found.spilled_bytes == 0):
            cubin, log, used = again, said, found
        if used.spilled_bytes == 0:
            break
    return cubin, log


def _fitting(registers: int, arch: Architecture, threads: int) -> int:
    """The blocks that fit a processor by their registers, which are given out by eights."""
    return max(1, arch.processor_registers // (-(-registers // 8) * 8 * threads))


def more_blocks(registers: int, arch: Architecture, threads: int, shared_bytes: int) -> int | None:
    """The blocks that fit a processor with at most an eighth fewer registers a lane, where they are one more than now; None otherwise."""
    by_lanes = arch.processor_lanes // threads
    by_memory = arch.processor_shared_bytes // (shared_bytes + KIB) if shared_bytes else by_lanes
    blocks = _fitting(registers, arch, threads)
    if blocks + 1 > min(by_lanes, by_memory):
        return None
    fitting = arch.processor_registers // ((blocks + 1) * threads) // 8 * 8
    return blocks + 1 if fitting < registers <= fitting * 9 // 8 else None
