"""CUDA C++ to a cubin by NVRTC.

In: the text and an architecture. Out: the cubin and the compiler's log. Needs no device. Raises E501 where NVRTC is missing and E502 with
its log where it refuses.
"""

from __future__ import annotations

from typing import Any

from zellige.diagnostics import catalogue

_OPTIONS = ("-default-device", "--std=c++17", "--ptxas-options=-v", "-diag-suppress=177,550", "-lineinfo")


def nvrtc() -> Any:
    """cuda-python's module for NVRTC. Raises E501 where the package or the library is missing."""
    try:
        from cuda.bindings import nvrtc as module

        module.nvrtcVersion()
    except (ImportError, RuntimeError) as error:
        raise catalogue.E501.error(tool="NVRTC", reason=f"{type(error).__name__}: {error}".splitlines()[0]) from error
    return module


def compile_cubin(text: str, name: str, arch: str, options: tuple[str, ...] = ()) -> tuple[bytes, str]:
    """(cubin, log)."""
    api = nvrtc()
    program = _checked(api, api.nvrtcCreateProgram(text.encode(), f"{name}.cu".encode(), 0, [], []))[0]
    try:
        flags = [o.encode() for o in (f"--gpu-architecture={arch}", *_OPTIONS, *options)]
        result = api.nvrtcCompileProgram(program, len(flags), flags)[0]
        size = _checked(api, api.nvrtcGetProgramLogSize(program))[0]
        log = bytearray(size)
        buffer = bytes(log)
        api.nvrtcGetProgramLog(program, buffer)
        said = buffer.rstrip(b"\0").decode(errors="replace")
        if result != api.nvrtcResult.NVRTC_SUCCESS:
            raise catalogue.E502.error(tool="NVRTC", log=said.strip() or str(result))
        size = _checked(api, api.nvrtcGetCUBINSize(program))[0]
        cubin = bytes(size)
        _checked(api, api.nvrtcGetCUBIN(program, cubin))
        return cubin, said
    finally:
        api.nvrtcDestroyProgram(program)


def _checked(api: Any, answer: tuple[Any, ...]) -> tuple[Any, ...]:
    if answer[0] != api.nvrtcResult.NVRTC_SUCCESS:
        raise catalogue.E502.error(tool="NVRTC", log=str(answer[0]))
    return answer[1:]
