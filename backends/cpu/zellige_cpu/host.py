"""The machine that code is generated for: its name to LLVM, vector width, register file, caches.

In: nothing (the running machine) or a CPU name with features. Out: a frozen :class:`Host`. llvmlite is loaded on first use.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import lru_cache
from typing import Final, NamedTuple

from zellige_cpu import tiles_permission as tiles

LANES: Final = 32
"""Lanes of a warp in kernels that ask for them; a loop plays them."""


class Host(NamedTuple):
    """What the emitters may ask about the machine.

    ``vector_bytes`` is the width of one vector register, ``vector_registers`` their number. ``features`` are LLVM's names.
    """

    triple: str
    cpu: str
    features: frozenset[str]
    vector_bytes: int
    vector_registers: int
    cores: int
    disabled: frozenset[str] = frozenset()
    memory_bytes: int = 1 << 40
    """Memory of the machine, as far as it is known."""
    cache_bytes: int = 0
    """The last level of cache; 0 where :attr:`last_cache_bytes` shall look for it."""
    withheld: frozenset[str] = frozenset()
    """Features that the processor has and the operating system does not let this process use."""
    withheld_because: str = ""

    @property
    def last_cache_bytes(self) -> int:
        """The last level of cache. A kernel found in the cache starts without it, so this machine's is looked up when asked for."""
        return self.cache_bytes or _cache_bytes()

    @property
    def is_x86(self) -> bool:
        return self.triple.startswith(("x86_64", "i686"))

    @property
    def has_half_conversion(self) -> bool:
        """Whether float16 <-> float32 conversion is an instruction rather than a library call."""
        return "f16c" in self.features or "avx512f" in self.features or self.triple.startswith(("aarch64", "arm64"))

    @property
    def feature_string(self) -> str:
        """``+f16c,-amx-tile`` and the like, as LLVM's target machine takes it."""
        return ",".join([f"+{name}" for name in sorted(self.features)] + [f"-{name}" for name in sorted(self.disabled)])

    def lanes(self, element_bytes: int) -> int:
        """Elements of ``element_bytes`` in one vector register."""
        return max(1, self.vector_bytes // element_bytes)


def register_file(triple: str, features: frozenset[str]) -> tuple[int, int]:
    """Bytes of a vector register and how many there are, from the features."""
    if triple.startswith("x86_64"):
        if "avx512f" in features:
            return 64, 32
        return (32, 16) if "avx2" in features else (16, 16)
    return (16, 32) if triple.startswith(("aarch64", "arm64", "powerpc64")) else (16, 16)


@lru_cache(maxsize=1)
def running_host() -> Host:
    """The machine this process runs on."""
    import llvmlite.binding as llvm

    flags: Mapping[str, bool] = llvm.get_host_cpu_features()
    host = make_host(llvm.get_process_triple(), llvm.get_host_cpu_name(), flags)
    refusal = tiles.asked_for() if tiles.FEATURE in host.features else ""
    return without_tiles(host, refusal) if refusal else host


def without_tiles(host: Host, reason: str) -> Host:
    """The host as a process may use it to which the system does not give the registers of matrix tiles; ``reason`` says why."""
    withheld = frozenset(name for name in host.features if name.startswith(tiles.FAMILY))
    return host._replace(
        features=host.features - withheld, disabled=host.disabled | withheld, withheld=withheld, withheld_because=reason
    )


def make_host(triple: str, cpu: str, flags: Mapping[str, bool]) -> Host:
    """A host of that name; ``flags`` says of each feature whether it is there."""
    features = frozenset(name for name, is_on in flags.items() if is_on)
    vector_bytes, vector_registers = register_file(triple, features)
    return Host(
        memory_bytes=_memory_bytes(),
        triple=triple,
        cpu=cpu,
        features=features,
        disabled=frozenset(name for name, is_on in flags.items() if not is_on),
        vector_bytes=vector_bytes,
        vector_registers=vector_registers,
        cores=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
    )


def _memory_bytes() -> int:
    names = getattr(os, "sysconf_names", {})
    if "SC_PHYS_PAGES" not in names or "SC_PAGE_SIZE" not in names:
        return 1 << 40
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


@lru_cache(maxsize=1)
def _cache_bytes() -> int:
    """The largest cache of the first core by Linux's table (sysfs-devices-system-cpu); 32 MiB where that is not known."""
    from pathlib import Path

    found = [1 << 20]
    for file in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size"):
        text = file.read_text().strip()
        unit = {"K": 10, "M": 20}.get(text[-1:], 0)
        digits = text.rstrip("KM")
        if digits.isdecimal():
            found.append(int(digits) << unit)
    return max(found) if len(found) > 1 else 1 << 25
