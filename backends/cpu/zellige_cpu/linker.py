"""Object files linked into this process: those of the simple kind that this backend makes without LLVM's linker, others by it.

In: an object file, the names that it exports and those of the process that it needs. Out: a :class:`Library` with the addresses of the
exported functions (:func:`load`). A function that the process does not have is an InternalError.

The simple kind (ELF64, x86-64, Linux) has code that is independent of its place: sections of code and of constants, and between them
and to functions of the process only relative references (``R_X86_64_PC32`` and ``R_X86_64_PLT32``; System V ABI, AMD64 supplement, table
4.9). Starting LLVM's linker costs some three milliseconds, most of what a kernel found in the cache would wait for.

Memory is written while it is not executable and executable when it is no longer written. What is handed in was proven to be what was
kept (:mod:`zellige.cache.disk`) or was made by this process.
"""

from __future__ import annotations

import ctypes
import itertools
import struct
import sys
import threading
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from zellige.diagnostics import InternalError
from zellige_cpu.host import Host

_PAGE: Final = 4096
_HEADER: Final = struct.Struct("<16sHHIQQQIHHHHHH")
"""First bytes, type, machine, version, entry, places of the program's and of the sections' headers, flags, and six sizes: of this header,
of a program's header, their number, of a section's header, their number, the section of names (ELF-64 object file format, section 3)."""
_SECTION: Final = struct.Struct("<IIQQQQIIQQ")
_SYMBOL: Final = struct.Struct("<IBBHQQ")
_RELOCATION: Final = struct.Struct("<QIIq")

_MAGIC: Final = b"\x7fELF\x02\x01\x01"
_X86_64: Final = 62
_PROGBITS, _SYMTAB, _RELA, _UNWIND = 1, 2, 4, 0x7000_0001
_WRITE, _ALLOC, _EXECUTE = 1, 2, 4
_UNDEFINED: Final = 0
_RELATIVE: Final = frozenset((2, 4))

_STUB: Final = struct.Struct("<6sQ2x")
_JUMP: Final = b"\xff\x25\x00\x00\x00\x00"
"""``jmp [rip]``: to the address that follows."""

_READ_WRITE, _READ, _READ_EXECUTE = 3, 1, 5
_PRIVATE_ANONYMOUS: Final = 0x22
_FAILED: Final = ctypes.c_void_p(-1).value


_numbers: Final = itertools.count()
_lock: Final = threading.RLock()


def check_symbols(symbols: Iterable[str]) -> None:
    """Raises InternalError for a function that this process does not have."""
    process = ctypes.CDLL(None)  # not LLVM's own table, which knows the process only after a first link
    missing = [name for name in symbols if not hasattr(process, name)]
    if missing:
        raise InternalError(f"this process has no function {', '.join(sorted(missing))}")


class Library:
    """Loaded machine code: ``addresses`` of the exported functions. It is unloaded when this object dies."""

    __slots__ = ("__weakref__", "addresses")

    def __init__(self, addresses: Mapping[str, int]) -> None:
        self.addresses: Final = addresses


def load(data: bytes, exported: Iterable[str], host: Host, needed: Iterable[str] = ()) -> Library:
    """Link an object file into this process."""
    names = list(exported)
    if _has_own_linker(host):
        image = link(data, names)
        if image is not None:
            library = Library(image.addresses)
            weakref.finalize(library, image.close).atexit = False
            return library
    check_symbols(needed)  # which LLVM's linker would end the process for
    return _linked_by_llvm(data, names, host)


def _has_own_linker(host: Host) -> bool:
    return host.triple.startswith("x86_64") and "linux" in host.triple and sys.platform == "linux"


def _linked_by_llvm(data: bytes, names: list[str], host: Host) -> Library:
    from zellige_cpu.llvm_worker import llvm_binding

    llvm = llvm_binding()
    with _lock:
        builder = llvm.JITLibraryBuilder().add_object_img(data).add_current_process()
        for name in names:
            builder = builder.export_symbol(name)
        try:
            tracker = builder.link(_linker(host), f"zellige{next(_numbers)}")
        except RuntimeError as error:
            raise InternalError(f"the machine code cannot be linked: {error}") from error
    library = Library({name: tracker[name] for name in names})
    weakref.finalize(library, tracker.close)
    return library


@lru_cache(maxsize=1)
def _linker(host: Host) -> Any:
    from zellige_cpu.compiler import is_foreign
    from zellige_cpu.llvm_worker import llvm_binding, target_machine

    machine = target_machine(host.triple, host.cpu, host.feature_string, is_foreign(host))
    return llvm_binding().create_lljit_compiler(machine)


# ---- objects of the simple kind


@lru_cache(maxsize=1)
def _process() -> ctypes.CDLL:
    """The functions of this process."""
    process = ctypes.CDLL(None)
    process.mmap.restype = ctypes.c_void_p
    process.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
    process.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    process.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    return process


def address_of(name: str) -> int | None:
    """Where a function of the process lies; None where it has none of that name."""
    function = getattr(_process(), name, None)
    return None if function is None else ctypes.cast(function, ctypes.c_void_p).value


class Image:
    """Code in memory: ``addresses`` of the exported functions, until :meth:`close`."""

    __slots__ = ("_base", "_size", "addresses")

    def __init__(self, base: int, size: int, addresses: Mapping[str, int]) -> None:
        self._base = base
        self._size = size
        self.addresses: Final = addresses

    def close(self) -> None:
        """Give the memory back; nothing may run there any more."""
        if self._size:
            _process().munmap(self._base, self._size)
            self._size = 0


def link(data: bytes, exported: Sequence[str]) -> Image | None:
    """The object in memory of its own; None where it is not of the simple kind. Raises InternalError for a function that neither the object
    nor the process has, and where the system gives no memory for code."""
    try:
        plan = _Plan.of(data)
    except (struct.error, IndexError, ValueError):
        return None
    return None if plan is None else plan.mapped(exported)


class _Plan:
    """Where everything goes, before there is memory: code, behind it the ways out of it, and constants on pages of their own. ``places``
    are offsets by section, ``stubs`` those of the ways out by symbol, ``code`` and ``size`` whole pages."""

    def __init__(self, data: bytes, sections: Sequence[tuple[int, ...]], table: int) -> None:
        self.data = data
        self.sections = sections
        strings = sections[sections[table][6]]
        self.names = data[strings[4] : strings[4] + strings[5]]
        symbols = sections[table]
        self.symbols = list(_SYMBOL.iter_unpack(data[symbols[4] : symbols[4] + symbols[5]]))
        self.references = list(self._references())
        self.places: dict[int, int] = {}
        kept = [(n, s) for n, s in enumerate(sections) if s[2] & _ALLOC and s[5]]
        end = self._placed(0, [(n, s) for n, s in kept if s[2] & _EXECUTE])
        self.stubs: dict[int, int] = {}
        end = -(-end // _STUB.size) * _STUB.size
        for number in dict.fromkeys(symbol for _, _, symbol, _, _ in self.references if self.symbols[symbol][3] == _UNDEFINED):
            self.stubs[number] = end
            end += _STUB.size
        self.code = -(-end // _PAGE) * _PAGE
        end = self._placed(self.code, [(n, s) for n, s in kept if not s[2] & _EXECUTE])
        self.size = -(-end // _PAGE) * _PAGE

    @classmethod
    def of(cls, data: bytes) -> _Plan | None:
        """None for an object of another kind. Raises struct.error, IndexError or ValueError for what is none at all."""
        first, _, machine, _, _, _, at, _, _, _, _, entry, count, _ = _HEADER.unpack_from(data)
        if not first.startswith(_MAGIC) or machine != _X86_64 or entry != _SECTION.size:
            return None
        sections = [_without_unwinding(s) for s in _SECTION.iter_unpack(data[at : at + count * entry])]
        tables = [number for number, section in enumerate(sections) if section[1] == _SYMTAB]
        if len(tables) != 1 or any(s[2] & _ALLOC and (s[1] != _PROGBITS or s[2] & _WRITE or s[8] > _PAGE) for s in sections):
            return None
        if len(sections) != count or any(s[1] and s[4] + s[5] > len(data) for s in sections):
            return None
        plan = cls(data, sections, tables[0])
        for target, offset, symbol, kind, _ in plan.references:
            home = plan.symbols[symbol][3]
            if kind not in _RELATIVE or not (home == _UNDEFINED or home in plan.places) or offset + 4 > sections[target][5]:
                return None
        return plan

    def _placed(self, end: int, sections: Sequence[tuple[int, tuple[int, ...]]]) -> int:
        for number, section in sections:
            alignment = max(section[8], 1)
            end = -(-end // alignment) * alignment
            self.places[number] = end
            end += section[5]
        return end

    def _references(self) -> Iterator[tuple[int, int, int, int, int]]:
        """The section of each reference, its offset there, its symbol, kind and addend."""
        for section in self.sections:
            if section[1] == _RELA and self.sections[section[7]][2] & _ALLOC:
                for offset, kind, symbol, addend in _RELOCATION.iter_unpack(self.data[section[4] : section[4] + section[5]]):
                    yield section[7], offset, symbol, kind, addend

    def _name(self, symbol: int) -> str:
        at = self.symbols[symbol][0]
        return self.names[at : self.names.index(b"\0", at)].decode()

    def mapped(self, exported: Sequence[str]) -> Image:
        content = bytearray(self.size)
        for number, place in self.places.items():
            section = self.sections[number]
            content[place : place + section[5]] = self.data[section[4] : section[4] + section[5]]
        for symbol, place in self.stubs.items():
            address = address_of(self._name(symbol))
            if address is None:
                raise InternalError(f"this process has no function {self._name(symbol)}")
            _STUB.pack_into(content, place, _JUMP, address)
        for target, offset, symbol, _, addend in self.references:
            _, _, _, home, value, _ = self.symbols[symbol]
            place = self.places[target] + offset
            meant = self.stubs[symbol] if home == _UNDEFINED else self.places[home] + value
            struct.pack_into("<i", content, place, meant + addend - place)
        offsets = {self._name(n): self.places[s[3]] + s[4] for n, s in enumerate(self.symbols) if s[0] and s[3] in self.places}
        missing = [name for name in exported if name not in offsets]
        if missing:
            raise InternalError(f"the object has no function {', '.join(missing)}")
        base = _mapped(bytes(content), self.code)
        return Image(base, self.size, {name: base + offsets[name] for name in exported})


def _without_unwinding(section: tuple[int, ...]) -> tuple[int, ...]:
    """Tables for the unwinding of exceptions are left out: nothing is thrown through this code."""
    return (*section[:2], section[2] & ~_ALLOC, *section[3:]) if section[1] == _UNWIND else section


def _mapped(content: bytes, code: int) -> int:
    """The address of pages that hold ``content``, of which the first ``code`` bytes can be run and none be written; 0 for a program
    without launches, which has no code."""
    if not content:
        return 0
    base = _process().mmap(None, len(content), _READ_WRITE, _PRIVATE_ANONYMOUS, -1, 0)
    if base in (None, _FAILED):
        raise InternalError("the system gives no memory for code")
    ctypes.memmove(base, content, len(content))
    parts = ((base, code, _READ_EXECUTE), (base + code, len(content) - code, _READ))
    if any(size and _process().mprotect(at, size, kind) for at, size, kind in parts):
        _process().munmap(base, len(content))
        raise InternalError("the system does not let memory become executable")
    return int(base)
