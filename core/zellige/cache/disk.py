"""The cache on disk: named pieces of bytes in a folder that several processes share.

In: a kind, a key, bytes. Out: the same bytes in any later process, or None. An entry is a file of its own that appears whole, by
renaming, so that readers and writers need no lock and a process that is killed leaves at most a stray temporary file. Each carries a
keyed digest (HMAC-SHA-256) of its kind, key and content: what is damaged, cut short, exchanged with another or written by somebody
without the secret in the folder is thrown away, never used. A folder that cannot be written is told once and only read from then on.
Above the size limit the entries not used for longest go.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import secrets
import stat
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from zellige.diagnostics import catalogue
from zellige.diagnostics.warn import warn
from zellige.options import options

KINDS: Final = ("artifacts", "binaries", "sources", "remarks", "traces", "starts")
"""artifacts: by program, what a backend made of it; binaries: by emitted text, machine code; sources: digests of packages' source; remarks:
by a kernel's text, that there is nothing to remark on it; traces: by everything that tracing a function reads, the kernel that it gives;
starts: by the same, trace, artifact and machine code in one piece."""

TUNING: Final = "tuning"
"""The folder, beside the entries, in which results of tuning lie."""

_MAGIC: Final = b"zellige-cache-1\n"
_DIGEST_BYTES: Final = 32
_SECRET_BYTES: Final = 32
_PIECE_BYTES: Final = 4096
_KEY: Final = re.compile(r"[0-9a-f]{64}")
_TEMPORARY: Final = ".writing-"
_STRAY_SECONDS: Final = 3600.0
_ROOM: Final = 0.9
"""The share of the limit that is left filled when entries go."""
_STORES_BETWEEN_COUNTS: Final = 256
"""After so many stores of all processes the folder is counted anew, and after _STRAY_SECONDS: notes of a store are lost where two
processes count at once."""
_FILLED: Final = "filled"
"""The file that says how many bytes the entries take, since counting asks for each of them: what was counted, when, and a line a store
since then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Statistics:
    """``entries`` and ``bytes`` on disk by kind; ``found`` and ``missed`` count the questions of this process for artifacts."""

    folder: Path
    limit_bytes: int
    entries: dict[str, int]
    bytes: dict[str, int]
    found: int
    missed: int


class DiskStore:
    """The cache in ``folder``. Safe to use from several threads and processes."""

    def __init__(self, folder: Path, limit_bytes: int | None = None) -> None:
        self.folder = folder
        self._root = f"{folder}{os.sep}v1"  # a path object is made where one is needed: most starts need none
        self._limit = options().cache_size if limit_bytes is None else limit_bytes
        self._lock = threading.Lock()
        self._secret: bytes | None = None
        self._is_readable = True
        self._is_writable = True
        self._found = 0
        self._missed = 0

    def find(self, kind: str, key: str) -> bytes | None:
        """The content kept under ``kind`` and ``key``, proven to be what was kept there; None where there is none."""
        content = self._read(kind, key)
        if kind == "artifacts":
            self.count(is_found=content is not None)
        return content

    def look(self, kind: str, key: str) -> bytes | None:
        """The same as :meth:`find`, without counting the question."""
        return self._read(kind, key)

    def count(self, *, is_found: bool) -> None:
        """Count a question for an artifact."""
        with self._lock:
            self._found += is_found
            self._missed += not is_found

    def keep(self, kind: str, key: str, content: bytes) -> None:
        """Keep ``content``; nothing happens where the folder cannot be written."""
        if not self._is_writable:
            return
        path = self._path(kind, key)
        try:
            secret = self._secret_bytes(is_wanted=True)
            if secret is None:
                return
            data = b"".join((_MAGIC, _proof(secret, kind, key, content), content))
            if len(data) > self._limit:
                return
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            _write_whole(path, data)
            self._make_room(len(data))
        except OSError as error:
            self._give_up_writing(error)

    def entries(self) -> Iterator[tuple[str, str]]:
        """Kind and key of everything kept, in order."""
        for path, _ in sorted(self._files()):
            if _KEY.fullmatch(path.name):
                yield path.parent.parent.name, path.name

    def statistics(self) -> Statistics:
        entries, sizes = dict.fromkeys(KINDS, 0), dict.fromkeys(KINDS, 0)
        for path, status in self._files():
            if _KEY.fullmatch(path.name):
                entries[path.parent.parent.name] += 1
                sizes[path.parent.parent.name] += status.st_size
        return Statistics(
            folder=self.folder, limit_bytes=self._limit, entries=entries, bytes=sizes, found=self._found, missed=self._missed
        )

    def clear(self) -> int:
        """Remove every entry and the results of tuning; how many files there were. What cannot be removed is left."""
        removed = 0
        for path, _ in self._files():
            removed += _remove(path)
        for path in (self.folder / TUNING).glob("*.jsonl"):
            removed += _remove(path)
        _remove(Path(self._root, _FILLED))
        return removed

    # ---- files

    def _name(self, kind: str, key: str) -> str:
        if kind not in KINDS or not _KEY.fullmatch(key):
            raise ValueError(f"{kind}/{key} names no entry of the cache")
        return f"{self._root}{os.sep}{kind}{os.sep}{key[:2]}{os.sep}{key}"

    def _path(self, kind: str, key: str) -> Path:
        return Path(self._name(kind, key))

    def _read(self, kind: str, key: str) -> bytes | None:
        path = self._name(kind, key)
        if not self._is_readable:
            return None
        try:
            data = _content(path)
            secret = self._secret_bytes(is_wanted=False)
        except FileNotFoundError:
            return None
        except OSError:
            return None
        start = len(_MAGIC) + _DIGEST_BYTES
        content = data[start:]
        if not self._is_readable:
            return None
        is_ours = secret is not None and data.startswith(_MAGIC)
        if not is_ours or not hmac.compare_digest(data[len(_MAGIC) : start], _proof(secret or b"", kind, key, content)):
            _remove(Path(path))
            return None
        try:
            os.utime(path)  # the time of use, for choosing what goes
        except OSError:
            return content
        return content

    def _files(self) -> Iterator[tuple[Path, os.stat_result]]:
        """Every file of an entry, also half-written ones of others, with its status."""
        for kind in KINDS:
            try:
                folders = [Path(entry.path) for entry in os.scandir(os.path.join(self._root, kind)) if entry.is_dir(follow_symlinks=False)]
            except OSError:
                continue
            for folder in folders:
                try:
                    files = [(Path(entry.path), entry.stat(follow_symlinks=False)) for entry in os.scandir(folder)]
                except OSError:
                    continue
                yield from files

    def _make_room(self, added: int) -> None:
        with self._lock:
            filled = self._filled_with(added)
            if filled is not None and filled <= self._limit:
                return
            now = time.time()
            files = []
            for path, status in self._files():
                if not _KEY.fullmatch(path.name):
                    if now - status.st_mtime > _STRAY_SECONDS:
                        _remove(path)
                    continue
                files.append((status.st_mtime_ns, status.st_size, path))
            total = sum(size for _, size, _ in files)
            if total > self._limit:
                for _, size, path in sorted(files):
                    if total <= self._limit * _ROOM:
                        break
                    _remove(path)
                    total -= size
            _write_whole(Path(self._root, _FILLED), f"{total} {int(now)}\n".encode())

    def _filled_with(self, added: int) -> int | None:
        """The bytes of all entries with the ``added`` ones, which are noted; None where they are to be counted (again)."""
        path = os.path.join(self._root, _FILLED)
        try:
            lines = _content(path).split()
            if not 2 <= len(lines) <= _STORES_BETWEEN_COUNTS or not all(line.isdigit() and len(line) <= 20 for line in lines):
                return None
            counted, when, *stored = map(int, lines)
            if not 0 <= time.time() - when < _STRAY_SECONDS:
                return None
            descriptor = _open_no_link(path, os.O_WRONLY | os.O_APPEND)
        except OSError:  # none yet, or a link
            return None
        with os.fdopen(descriptor, "ab") as file:
            file.write(b"%d\n" % added)
        return counted + sum(stored) + added

    # ---- the secret

    def _secret_bytes(self, *, is_wanted: bool) -> bytes | None:
        """The secret of the folder. ``is_wanted`` makes one where there is none. A secret of somebody else turns the cache off."""
        if self._secret is not None:
            return self._secret
        path = f"{self._root}{os.sep}secret"
        for _ in range(3):
            found = _read_secret(path)
            if isinstance(found, bytes):
                self._secret = found
                return found
            if found == "foreign":
                self._is_readable = self._is_writable = False
                reason = "its secret belongs to another user; set ZELLIGE_CACHE_DIR to a folder of your own"
                warn(catalogue.E744.diagnose(folder=self.folder, reason=reason, severity="warning"))
                return None
            if not is_wanted:
                return None
            if found == "damaged":
                _remove(Path(path))
            Path(self._root).mkdir(mode=0o700, parents=True, exist_ok=True)
            _make_secret(Path(path))
        return None

    def _give_up_writing(self, error: OSError) -> None:
        with self._lock:
            is_first, self._is_writable = self._is_writable, False
        if is_first:
            reason = f"it cannot be written: {error.strerror or error}"
            warn(catalogue.E744.diagnose(folder=self.folder, reason=reason, severity="warning"))


def _proof(secret: bytes, kind: str, key: str, content: bytes) -> bytes:
    made = hmac.new(secret, f"{kind}/{key}\n".encode(), _sha256)
    made.update(content)
    return made.digest()


def _sha256(begin: bytes = b"") -> Any:
    """SHA-256 for the library's HMAC. Given its name, the library asks OpenSSL for an HMAC of its own, and looking that up takes twice as
    long as the proof of a start."""
    return hashlib.sha256(begin)


def _content(path: str) -> bytes:
    """The bytes of a file that is no link."""
    descriptor = _open_no_link(path, os.O_RDONLY)
    try:
        size = os.fstat(descriptor).st_size
        parts = [os.read(descriptor, size)]
        while parts[-1]:
            parts.append(os.read(descriptor, _PIECE_BYTES))  # nothing, but where the file grows or the system answers in pieces
        return parts[0] if len(parts) <= 2 else b"".join(parts)
    finally:
        os.close(descriptor)


def _open_no_link(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0))


def _write_whole(path: Path, data: bytes, mode: int = 0o600, *, is_durable: bool = False) -> None:
    """Write a file that appears whole or not at all. Entries need no ``is_durable``: one that a power cut damaged fails its proof."""
    temporary = path.with_name(f"{_TEMPORARY}{os.getpid()}-{secrets.token_hex(8)}")
    try:
        with open(temporary, "xb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
            file.write(data)
            if is_durable:
                file.flush()
                os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        _remove(temporary)
        raise


def _remove(path: Path) -> bool:
    try:
        path.unlink()
    except OSError:
        return False
    return True


def _read_secret(path: str) -> bytes | str:
    """The secret, or why there is none: missing, damaged (ours, to be made anew) or foreign."""
    try:
        descriptor = _open_no_link(path, os.O_RDONLY)
    except FileNotFoundError:
        return "missing"
    except PermissionError:
        return "foreign"
    except OSError:
        return "damaged"  # a link
    try:
        status = os.fstat(descriptor)
        data = os.read(descriptor, _SECRET_BYTES + 1)
    finally:
        os.close(descriptor)
    if hasattr(os, "geteuid") and status.st_uid != os.geteuid():
        return "foreign"
    is_private = stat.S_ISREG(status.st_mode) and not status.st_mode & 0o077
    return data if is_private and len(data) == _SECRET_BYTES else "damaged"


def _make_secret(path: Path) -> None:
    """Make the secret unless another process does so at the same time."""
    temporary = path.with_name(f"{_TEMPORARY}{os.getpid()}-{secrets.token_hex(8)}")
    try:
        _write_whole(temporary, secrets.token_bytes(_SECRET_BYTES), is_durable=True)
        os.link(temporary, path)
    except FileExistsError:
        return
    finally:
        _remove(temporary)


def store() -> DiskStore:
    """The cache of this process's settings."""
    return _store(options().cache_dir, options().cache_size)


@lru_cache(maxsize=16)
def _store(folder: Path, limit_bytes: int) -> DiskStore:
    return DiskStore(folder, limit_bytes)
