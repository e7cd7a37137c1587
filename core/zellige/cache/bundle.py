"""Bundles: compiled kernels in one file, to be used on another machine.

In: entries of the cache. Out: a zip file with a manifest that lists each entry with its size and SHA-256 digest; or entries taken from
such a file. Code in a bundle runs as the user's own, so a bundle is to be trusted like a program; importing is the act that says so.
Taken is a file that is exactly what its manifest says, all of it or nothing: names outside the cache, links, entries too many or too
large, wrong digests and contents that are no artifact or machine code refuse it (E745).

An artifact names its machine code and is found only by a program, compiler, tools and capabilities that agree with those it was made with.
"""

from __future__ import annotations

import errno
import hashlib
import json
import re
import stat
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from zellige.cache.artifacts import Artifact, KeptEmitted, Unreadable, unpack_artifact, unpack_binary
from zellige.cache.disk import DiskStore
from zellige.diagnostics import ZelligeError, catalogue
from zellige.version import __version__

FORMAT: Final = 1
MANIFEST: Final = "manifest.json"
MOST_ENTRIES: Final = 100_000
MOST_BYTES: Final = 4 << 30
"""A bundle may hold this much when unpacked."""
MOST_ENTRY_BYTES: Final = 256 << 20
_MOST_MANIFEST_BYTES: Final = 32 << 20

_NAME: Final = re.compile(r"(artifacts|binaries)/([0-9a-f]{64})")
_DATE: Final = (2000, 1, 1, 0, 0, 0)
_PLAIN: Final = (stat.S_IFREG | 0o644) << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """What a bundle holds: artifacts by kernel and target, and bytes of all entries."""

    artifacts: int
    binaries: int
    bytes: int


def export_bundle(store: DiskStore, file: Path, *, kernels: frozenset[str] = frozenset(), targets: frozenset[str] = frozenset()) -> Summary:
    """Write the artifacts of these kernels and targets (none named: all) and their machine code. Equal caches give equal files.

    Raises OSError where the file cannot be written.
    """
    contents: dict[str, bytes] = {}
    for key, artifact, data in _artifacts(store):
        if (kernels and artifact.kernel not in kernels) or (targets and artifact.target not in targets):
            continue
        code = store.find("binaries", artifact.binary)
        if code is not None:
            contents[f"artifacts/{key}"] = data
            contents[f"binaries/{artifact.binary}"] = code
    return write_bundle(contents, file)


def write_bundle(contents: dict[str, bytes], file: Path) -> Summary:
    """Write entries of the cache, each under its kind and key. Raises OSError where the file cannot be written, or is there and no bundle:
    whoever names the kernels' own source by mistake does not lose it."""
    if file.is_file() and file.stat().st_size and not zipfile.is_zipfile(file):
        raise FileExistsError(errno.EEXIST, "a file that is no bundle is there", str(file))
    entries = [{"name": name, "size": len(data), "sha256": hashlib.sha256(data).hexdigest()} for name, data in sorted(contents.items())]
    manifest = json.dumps({"format": FORMAT, "zellige": __version__, "entries": entries}, indent=1)
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as bundle:
        for name, data in ((MANIFEST, manifest.encode()), *sorted(contents.items())):
            info = zipfile.ZipInfo(name, _DATE)
            info.external_attr = _PLAIN
            info.compress_type = zipfile.ZIP_DEFLATED
            bundle.writestr(info, data)
    return _summary(contents)


def import_bundle(store: DiskStore, file: Path) -> Summary:
    """Take every entry of a bundle into the cache. Raises E745 and takes nothing where anything about the file is wrong."""
    if not file.is_file():
        raise _refused(file, "is no regular file")  # a pipe or a device may never end
    try:
        with zipfile.ZipFile(file) as bundle:
            contents = dict(_checked(bundle, file))
    except ZelligeError:
        raise
    except Exception as error:  # the library answers a damaged file with errors of many kinds: of the file, of text, of each way of packing
        raise _refused(file, f"is no bundle that can be read: {error}") from error
    for name, data in sorted(contents.items(), reverse=True):  # machine code before the artifacts that name it
        kind, _, key = name.partition("/")
        store.keep(kind, key, data)
    return _summary(contents)


def _artifacts(store: DiskStore) -> Iterator[tuple[str, Artifact, bytes]]:
    for kind, key in store.entries():
        data = store.find(kind, key) if kind == "artifacts" else None
        if data is None:
            continue
        try:
            yield key, unpack_artifact(data), data
        except Unreadable:
            continue


def _checked(bundle: zipfile.ZipFile, file: Path) -> Iterator[tuple[str, bytes]]:
    """The entries of a bundle, each proven to be what the manifest says."""
    infos = bundle.infolist()
    if len(infos) > MOST_ENTRIES:
        raise _refused(file, f"holds {len(infos)} entries, at most {MOST_ENTRIES} are taken")
    names = [info.filename for info in infos]
    if len(set(names)) != len(names):
        raise _refused(file, "holds two entries of one name")
    for info in infos:
        if info.is_dir() or stat.S_IFMT(info.external_attr >> 16) not in (0, stat.S_IFREG):
            raise _refused(file, f"holds {info.filename!r}, which is no plain file")
        if info.filename != MANIFEST and not _NAME.fullmatch(info.filename):
            raise _refused(file, f"holds {info.filename!r}, which is no name of an entry")
    if sum(info.file_size for info in infos) > MOST_BYTES:
        raise _refused(file, f"unpacks to more than {MOST_BYTES >> 30} GiB")
    described = _manifest(bundle, file)
    if set(described) != set(names) - {MANIFEST}:
        raise _refused(file, "holds other entries than its manifest lists")
    for name, (size, digest) in described.items():
        data = _read(bundle, file, name, min(max(size, 0), MOST_ENTRY_BYTES))
        if len(data) != size or hashlib.sha256(data).hexdigest() != digest:
            raise _refused(file, f"holds {name}, which is not what its manifest says")
        try:
            _unpack(name, data)
        except Unreadable as error:
            raise _refused(file, f"holds {name}, which cannot be used: {error}") from error
        yield name, data


def _unpack(name: str, data: bytes) -> None:
    """Raises Unreadable where the content is no artifact or machine code. An artifact's text stands as it is: packed, as starts have it, it
    could be of any size."""
    if name.startswith("binaries/"):
        unpack_binary(data)
    elif isinstance(unpack_artifact(data).emitted, KeptEmitted):
        raise Unreadable("its text is packed")


def _manifest(bundle: zipfile.ZipFile, file: Path) -> dict[str, tuple[int, str]]:
    if MANIFEST not in bundle.namelist():
        raise _refused(file, "has no manifest")
    try:
        manifest: Any = json.loads(_read(bundle, file, MANIFEST, _MOST_MANIFEST_BYTES))
        version = manifest["format"]
        described = {str(e["name"]): (int(e["size"]), str(e["sha256"])) for e in manifest["entries"]}
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        raise _refused(file, f"has a manifest that cannot be read: {error!r}") from error
    if version != FORMAT:
        raise _refused(file, f"is of format {version!r}, this version reads {FORMAT}")
    return described


def _read(bundle: zipfile.ZipFile, file: Path, name: str, most: int) -> bytes:
    """At most ``most`` bytes are ever unpacked, whatever the file says of itself."""
    with bundle.open(name) as stream:
        data = stream.read(most + 1)
    if len(data) > most:
        raise _refused(file, f"holds {name}, which is larger than it may be")
    return data


def _summary(contents: dict[str, bytes]) -> Summary:
    artifacts = sum(name.startswith("artifacts/") for name in contents)
    return Summary(artifacts=artifacts, binaries=len(contents) - artifacts, bytes=sum(map(len, contents.values())))


def _refused(file: Path, reason: str) -> ZelligeError:
    return catalogue.E745.error(file=str(file), reason=reason)
