"""What leads from a call straight to loaded code in a later process, as it is kept on disk.

In: a trace, an artifact and its machine code as they are kept, with what they follow from besides the question (:class:`Grounds`). Out:
bytes of one entry (:func:`pack_start`), and :class:`KeptStart` from bytes (:func:`unpack_start`) where its grounds still hold: the places
in which Python looks for packages, zellige's own list of entry points and the files that made the kernel are what they were. What the
backend says of the machine is compared by whoever asks.

It holds nothing that the other entries do not hold, and says nothing that they would not say: reading them one by one, and all that their
keys are made of, takes most of a warm start.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Final

from zellige.cache.artifacts import Unreadable, header_of, packed
from zellige.cache.sources import is_unchanged
from zellige.plugin.installed import Places, are_unchanged

_NUMBER_BYTES: Final = 8
_PARTS: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Grounds:
    """What a kernel follows from besides its function and the arguments of the call.

    ``conditions`` stand for compiler, tools and machine in the keys of the other entries; ``description`` and ``backend_key`` are what the
    backend said of the machine and of itself, ``root`` the file by which its package is found. ``points`` are the entry points of
    zellige's own distribution by name and text, ``others`` those of all other distributions as the registry lists them; None where a
    backend of zellige's own has the target, whatever else is installed. ``settled`` is the target's name where another package's backend
    bears it, so that nobody else can have it. ``places`` and ``files`` are as :func:`zellige.plugin.installed.noted_places` and
    :func:`zellige.cache.sources.stamp` note them.
    """

    target: str
    conditions: str
    description: str
    backend_key: str
    root: str
    points: list[list[str]]
    others: list[list[str]] | None
    settled: str
    places: Places
    files: list[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptStart:
    """Grounds that hold, but for what the backend says, and the entries that follow from them as bytes."""

    grounds: Grounds
    trace: bytes
    artifact: bytes
    binary: bytes


def pack_start(start: KeptStart) -> bytes:
    """The bytes of an entry."""
    parts = (start.trace, start.artifact, start.binary)
    lengths = b"".join(len(part).to_bytes(_NUMBER_BYTES, "little") for part in parts)
    grounds = {field.name: getattr(start.grounds, field.name) for field in fields(start.grounds)}
    return packed(grounds, b"".join((lengths, *parts)))


def unpack_start(data: bytes) -> KeptStart | None:
    """None where the grounds do not hold any more. Raises Unreadable."""
    header, at = header_of(data)
    try:
        grounds = Grounds(**header)
        if not are_unchanged(grounds.places) or not is_unchanged(grounds.files):
            return None
        parts: list[bytes] = []
        end = at + _PARTS * _NUMBER_BYTES
        for number in range(at, end, _NUMBER_BYTES):
            begin, end = end, end + int.from_bytes(data[number : number + _NUMBER_BYTES], "little")
            parts.append(data[begin:end])
        trace, artifact, binary = parts
    except (TypeError, ValueError) as error:
        raise Unreadable(f"the start lacks {error}") from error
    if end != len(data):
        raise Unreadable("the start is cut short")
    return KeptStart(grounds=grounds, trace=trace, artifact=artifact, binary=binary)
