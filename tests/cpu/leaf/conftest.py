"""Shared by the tests of the leaf functions: hosts with fewer features than the running one, and modules as callable functions."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from zellige_cpu.host import Host, running_host
from zellige_cpu.jit import compile_object
from zellige_cpu.linker import check_symbols, load
from zellige_cpu.text import Module

_BASELINE = frozenset({"64bit", "cmov", "cx8", "fxsr", "mmx", "sse", "sse2"})


def narrowed(host: Host, cpu: str, features: frozenset[str], vector_bytes: int, vector_registers: int) -> Host:
    """``host`` as if it had only ``features`` of its own."""
    kept = host.features & features
    return host._replace(
        cpu=cpu,
        features=kept,
        disabled=host.disabled | (host.features - kept),
        vector_bytes=vector_bytes,
        vector_registers=vector_registers,
    )


def hosts() -> dict[str, Host]:
    """The running machine and, where it is x86, that machine without the wide vectors and without anything but the baseline."""
    host = running_host()
    found = {"native": host}
    if host.is_x86:
        if "avx512f" in host.features:
            short = frozenset(f for f in host.features if not f.startswith("avx512") and f != "gfni")
            found["short_vectors"] = narrowed(host, "haswell", short, 32, 16)
        found["baseline"] = narrowed(host, "x86-64", _BASELINE, 16, 16)
    return found


@pytest.fixture(params=list(hosts()))
def host(request: pytest.FixtureRequest) -> Host:
    """Every machine that code can be made for and run here."""
    return hosts()[request.param]


@pytest.fixture(params=["native", "baseline"])
def extreme_host(request: pytest.FixtureRequest) -> Host:
    """The running machine, and the same without anything but the baseline (where there is such a one)."""
    return hosts().get(request.param, running_host())


class Program:
    """A loaded module: ``program(name, *args)`` calls an exported ``void`` function with arrays, ints and bools."""

    def __init__(self, module: Module, names: list[str]) -> None:
        check_symbols(module.symbols)
        self._library = load(compile_object(module.text(), module.host), names, running_host())

    def __call__(self, name: str, *args: Any) -> None:
        kinds = [ctypes.c_void_p if isinstance(a, np.ndarray) else ctypes.c_bool if isinstance(a, bool) else ctypes.c_int64 for a in args]
        function = ctypes.CFUNCTYPE(None, *kinds)(self._library.addresses[name])
        function(*[a.ctypes.data if isinstance(a, np.ndarray) else a for a in args])


@pytest.fixture(scope="session")
def program() -> Callable[[Module, list[str]], Program]:
    return Program


@pytest.fixture(scope="session")
def host_named() -> Callable[[str], Host]:
    """A host by its name in :func:`hosts`; the running one where there is none of that name."""
    return lambda name: hosts().get(name, running_host())
