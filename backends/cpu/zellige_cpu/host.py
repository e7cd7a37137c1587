"""The machine that code is generated for: its name to LLVM, vector width, register file, caches.

In: nothing (the running machine) or a CPU name with features. Out: a frozen :class:`Host`. llvmlite is loaded on first use.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

FAMILY_OF_TILES: Final = "amx-"
"""How LLVM's names of the features begin that need the registers of matrix tiles."""

WORKER_BYTES: Final = 1 << 30
"""The most that the tiles of one worker take, however much memory there is: machines that differ in nothing else have one description, so
that a kernel compiled on one is found on the other."""

LANES: Final = 32
"""Lanes of a warp in kernels that ask for them; a loop plays them."""

BLOCK_LANES: Final = 65536
"""Lanes that a block may have, more than devices take: a block plays them in turn, so a number far above would not end."""


class Host:
    """What the emitters may ask about the machine.

    ``vector_bytes`` is the width of one vector register, ``vector_registers`` their number. ``features`` are LLVM's names. ``memory_bytes``
    is the memory of the machine that workers may have (:data:`WORKER_BYTES`); ``cache_bytes`` its last level of cache, 0 where
    :attr:`last_cache_bytes` shall look for it. ``withheld`` are features that the processor has and the operating system does not let this
    process use, for the reason ``withheld_because``. Compared by value. Written out, since making a named tuple takes Python a third of a
    millisecond, which a warm start pays.
    """

    __slots__ = (
        "cache_bytes", "cores", "cpu", "disabled", "features", "memory_bytes", "triple", "vector_bytes", "vector_registers", "withheld",
        "withheld_because",
    )  # fmt: skip

    def __init__(
        self,
        *,
        triple: str,
        cpu: str,
        features: frozenset[str],
        vector_bytes: int,
        vector_registers: int,
        cores: int,
        disabled: frozenset[str] = frozenset(),
        memory_bytes: int = 1 << 40,
        cache_bytes: int = 0,
        withheld: frozenset[str] = frozenset(),
        withheld_because: str = "",
    ) -> None:
        self.triple: Final = triple
        self.cpu: Final = cpu
        self.features: Final = features
        self.vector_bytes: Final = vector_bytes
        self.vector_registers: Final = vector_registers
        self.cores: Final = cores
        self.disabled: Final = disabled
        self.memory_bytes: Final = memory_bytes
        self.cache_bytes: Final = cache_bytes
        self.withheld: Final = withheld
        self.withheld_because: Final = withheld_because

    def _fields(self) -> tuple[Any, ...]:
        return tuple(getattr(self, name) for name in self.__slots__)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Host) and self._fields() == other._fields()

    def __hash__(self) -> int:
        return hash((self.triple, self.cpu, self.cores))

    def __repr__(self) -> str:
        return f"Host({self.triple}, {self.cpu}, {self.cores} cores, {', '.join(sorted(self.features))})"

    def _replace(self, **changes: Any) -> Host:
        """The host with other values for some fields."""
        return Host(**{**{name: getattr(self, name) for name in self.__slots__}, **changes})

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
    refusal = _refusal_of_tiles() if any(name.startswith(FAMILY_OF_TILES) for name in host.features) else ""
    return without_tiles(host, refusal) if refusal else host


def _refusal_of_tiles() -> str:
    from zellige_cpu.tiles_permission import asked_for  # few machines have them

    return asked_for()


def without_tiles(host: Host, reason: str) -> Host:
    """The host as a process may use it to which the system does not give the registers of matrix tiles; ``reason`` says why."""
    withheld = frozenset(name for name in host.features if name.startswith(FAMILY_OF_TILES))
    return host._replace(
        features=host.features - withheld, disabled=host.disabled | withheld, withheld=withheld, withheld_because=reason
    )


def make_host(triple: str, cpu: str, flags: Mapping[str, bool]) -> Host:
    """A host of that name; ``flags`` says of each feature whether it is there."""
    features = frozenset([name for name, is_on in flags.items() if is_on])
    vector_bytes, vector_registers = register_file(triple, features)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return Host(
        memory_bytes=min(_memory_bytes(), cores * WORKER_BYTES),
        triple=triple,
        cpu=cpu,
        features=features,
        disabled=frozenset([name for name, is_on in flags.items() if not is_on]),
        vector_bytes=vector_bytes,
        vector_registers=vector_registers,
        cores=cores,
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
