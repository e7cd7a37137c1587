"""The vendor's tools as this machine has them: the driver, the run-time compiler, the disassembler.

In: nothing. Out: a :class:`~zellige.plugin.contract.Tool` each, with its version, where it lies, and what is wrong with it. Nothing is
raised.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from zellige.diagnostics import ZelligeError
from zellige.plugin.contract import Tool, Unavailable
from zellige_cuda import device
from zellige_cuda.presence import too_old_for, version_text

_MAPS: Final = Path("/proc/self/maps")


def tools() -> tuple[Tool, ...]:
    """Driver, NVRTC, nvdisasm."""
    return driver_tool(), compiler_tool(), disassembler_tool()


def driver_tool() -> Tool:
    """The driver library."""
    api = device.driver()
    if isinstance(api, Unavailable):
        return Tool(name="CUDA driver", purpose="launches", problem=api.reason)
    found = device.driver_version(api)
    return Tool(name="CUDA driver", purpose="launches", version=version_text(found), place=loaded_library("libcuda.so"))


def compiler_tool() -> Tool:
    """NVRTC. A compiler of a later major version than the driver's makes code that the driver cannot load."""
    from zellige_cuda.compiler import nvrtc

    name, purpose = "NVRTC", "compiles"
    try:
        api = nvrtc()
    except ZelligeError as error:
        return Tool(name=name, purpose=purpose, problem=f"{error.diagnostics[0].message}: {device.INSTALL}")
    major, minor = api.nvrtcVersion()[1:]
    problem = ""
    driver = device.driver()
    if not isinstance(driver, Unavailable):
        problem = too_old_for(major, device.driver_version(driver))
    return Tool(name=name, purpose=purpose, version=f"{major}.{minor}", place=loaded_library("libnvrtc.so"), problem=problem)


def disassembler_tool() -> Tool:
    """nvdisasm, which shows machine code; nothing is compiled or launched with it."""
    from zellige_cuda.disassembly import tool

    place = tool("nvdisasm")
    problem = "" if place else f"it is not installed: {device.INSTALL}"
    return Tool(name="nvdisasm", purpose="shows machine code", place=place or "", problem=problem, is_optional=True)


def loaded_library(name: str) -> str:
    """Where a library lies that this process has loaded; empty where the system does not tell."""
    if sys.platform != "linux":
        return ""
    places = [line.split(maxsplit=5)[5].strip() for line in _MAPS.read_text().splitlines() if f"/{name}" in line]
    return places[0] if places else ""
