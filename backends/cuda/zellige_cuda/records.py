"""What a kernel tells its caller: which assertion failed, and what was printed.

In: the places of a program that assert or print. Out: the device functions that note them into a block of words (:data:`HELPERS`), and
:class:`Records`, which holds that block on a device, reads it after a launch, prints and raises.

The block: word 0 is 1 + the number of the first place whose assertion failed, word 1 counts the words noted, then pairs of a place's number
and the bits of its value.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from zellige.diagnostics.span import Span
from zellige.dtypes import dtype as as_dtype
from zellige.ir.stmt import Assert, Print
from zellige.ir.traverse import walk
from zellige.records import dataclass
from zellige.runtime.failures import failed_assertion
from zellige.runtime.printing import print_line
from zellige.simt.ir import Function
from zellige_cuda import device

CAPACITY: Final = 1 << 17
"""Words for values of one launch; what is printed beyond is counted, and that it is missing is said."""

PARAMETER: Final = "unsigned long long* const records"
HEAD_WORDS: Final = 2

HELPERS: Final = {
    "record": (
        "static __device__ __noinline__ void record(unsigned long long* records, unsigned long long site, unsigned long long bits) {\n"
        "  const unsigned long long at = atomicAdd(records + 1, 2ull);\n"
        f"  if (at + 2 > {CAPACITY}ull) return;\n"
        f"  records[{HEAD_WORDS} + at] = site;\n  records[{HEAD_WORDS} + at + 1] = bits;\n}}"
    ),
    "failed": (
        "static __device__ __noinline__ void failed(unsigned long long* records, unsigned long long site) {\n"
        "  atomicCAS(records, 0ull, site + 1);\n}"
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """A place that asserts (``dtype`` is empty and ``is_assertion``) or prints a value of a dtype (empty: the message alone)."""

    message: str
    dtype: str
    is_assertion: bool
    span: Span | None

    def facts(self) -> list[Any]:
        """Without the span, which is kept apart."""
        return [self.message, self.dtype, self.is_assertion]

    @staticmethod
    def of(facts: list[Any], spans: Sequence[Span | None]) -> Site:
        """The reverse; ``spans`` by the number at the end."""
        message, dtype, is_assertion, place = facts
        return Site(message=message, dtype=dtype, is_assertion=is_assertion, span=spans[place] if place < len(spans) else None)


def uses_records(function: Function) -> bool:
    """Whether the function asserts or prints."""
    return any(isinstance(node, (Assert, Print)) for statement in function.body for node in walk(statement))


def shown(bits: int, name: str) -> Any:
    """The value of a dtype whose bits were noted."""
    native = np.dtype(as_dtype(name).numpy)
    raw = np.array([bits & (1 << 8 * native.itemsize) - 1], np.uint64).astype(f"u{native.itemsize}")
    if native.itemsize == 1 and name in ("int4", "uint4"):
        return raw.view(np.int8 if name == "int4" else np.uint8).astype(native)[0]
    return raw.view(native)[0]


class Records:
    """The block of one context. Launches of one kernel that report do so one after the other: each holds ``turn`` until it has read what it
    noted, so that a thread is told of its own."""

    def __init__(self, api: Any, sites: Sequence[Site]) -> None:
        self._api = api
        self._sites = sites
        self.turn = threading.RLock()  # what a line is printed to may call the kernel
        self.address = int(device.call(api.cuMemAlloc(8 * (CAPACITY + HEAD_WORDS))))
        self._clear()

    def _clear(self) -> None:
        device.call(self._api.cuMemsetD8(self.address, 0, 8 * HEAD_WORDS))

    def report(self, stream: int) -> None:
        """Wait for the launch, print what it noted, raise E620 for the first assertion that failed."""
        device.call(self._api.cuStreamSynchronize(stream))
        head = np.zeros(HEAD_WORDS, np.uint64)
        device.call(self._api.cuMemcpyDtoH(head.ctypes.data, self.address, head.nbytes))
        if not head.any():
            return
        count = min(int(head[1]), CAPACITY)
        words = np.zeros(count, np.uint64)
        if count:
            device.call(self._api.cuMemcpyDtoH(words.ctypes.data, self.address + 8 * HEAD_WORDS, words.nbytes))
        self._clear()
        self.tell(int(head[0]), int(head[1]), words)

    def tell(self, failed: int, noted: int, words: Any) -> None:
        """The lines and the error of what was read."""
        for number, bits in zip(words[::2].tolist(), words[1::2].tolist()):
            site = self._sites[number]
            print_line(site.message, shown(bits, site.dtype) if site.dtype else None)
        if noted > words.size:
            print_line(f"({(noted - words.size) // 2} more lines did not fit)", None)
        if failed:
            site = self._sites[failed - 1]
            raise failed_assertion(site.span, site.message)
