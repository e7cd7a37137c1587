"""What a backend made of a kernel, as it is kept on disk.

In: an emitted program, its machine code, the kernel. Out: bytes of an artifact and of a binary, and both back from bytes. Nothing is
unpickled: a header of JSON stands before the text or code.

Places of the kernel are kept as positions among its statements, so that a kernel that moved in its file is found and still names
the right lines.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from zellige.diagnostics import Span
from zellige.ir.stmt import Kernel, StmtNode
from zellige.ir.traverse import walk
from zellige.plugin.contract import Binary, Emitted

_LENGTH_BYTES: Final = 4


class Unreadable(ValueError):
    """The bytes are no artifact or binary."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifact:
    """An emitted program and the key of its machine code. ``places`` are its spans as :func:`places_of` writes them."""

    kernel: str
    target: str
    binary: str
    emitted: Emitted
    places: tuple[Any, ...]

    @property
    def has_places(self) -> bool:
        """Whether it tells places of the kernel's source."""
        return bool(self.places)

    def emitted_for(self, kernel: Kernel) -> Emitted:
        """The emitted program with the places of ``kernel`` as it stands now."""
        if not self.places:
            return self.emitted
        spans = tuple(_spans(kernel))
        found = tuple(_span(place, spans) for place in self.places)
        if isinstance(self.emitted, KeptEmitted):
            return self.emitted.telling(found)
        return Emitted(text=self.emitted.text, format=self.emitted.format, facts=self.emitted.facts, spans=found)


class KeptEmitted(Emitted):
    """An emitted program whose text is unpacked when it is first looked at: few programs look at it, and each start would wait for it."""

    __slots__ = ("_text",)

    _text: str | bytes

    def __init__(self, *, text: str | bytes, format: str, facts: str = "", spans: tuple[Span | None, ...] = ()) -> None:
        for name, value in (("_text", text), ("format", format), ("facts", facts), ("spans", spans)):
            object.__setattr__(self, name, value)

    @property
    def text(self) -> str:
        """The text; ``bytes`` are it compressed."""
        found = self._text
        if isinstance(found, bytes):
            import zlib  # a start does without

            found = zlib.decompress(found).decode()
            object.__setattr__(self, "_text", found)
        return found

    def telling(self, spans: tuple[Span | None, ...]) -> KeptEmitted:
        """The same program with the places that it tells."""
        return KeptEmitted(text=self._text, format=self.format, facts=self.facts, spans=spans)


def places_of(emitted: Emitted, kernel: Kernel) -> tuple[Any, ...]:
    """The spans of an emitted program: positions among the kernel's own, else the place itself."""
    if not emitted.spans:
        return ()
    positions = {span: position for position, span in enumerate(_spans(kernel))}
    return tuple(None if span is None else positions[span] if span in positions else asdict(span) for span in emitted.spans)


def pack_artifact(artifact: Artifact) -> bytes:
    """An artifact as the bytes of a cache entry."""
    header = {
        "kernel": artifact.kernel,
        "target": artifact.target,
        "binary": artifact.binary,
        "format": artifact.emitted.format,
        "facts": artifact.emitted.facts,
        "places": artifact.places,
    }
    return packed(header, artifact.emitted.text.encode())


def compressed(data: bytes, kernel: Kernel | None) -> bytes | None:
    """An artifact as it stands in a start: with its text packed, since few look at it, and with the places that it tells as they are in
    ``kernel``, since a start has no statements among which to find them; None where those are not at hand."""
    import zlib

    artifact = unpack_artifact(data)
    header, text = unpacked(data)
    if artifact.has_places:
        if kernel is None:
            return None
        header["places"] = [None if span is None else asdict(span) for span in artifact.emitted_for(kernel).spans]
    return packed({**header, "packing": "zlib"}, zlib.compress(text))


def unpack_artifact(data: bytes) -> Artifact:
    """Raises Unreadable."""
    header, text = unpacked(data)
    try:
        facts, form = _text(header["facts"]), _text(header["format"])
        if header.get("packing") == "zlib":
            emitted: Emitted = KeptEmitted(text=text, format=form, facts=facts)
        else:
            emitted = Emitted(text=text.decode(), format=form, facts=facts)
        return Artifact(
            kernel=_text(header["kernel"]),
            target=_text(header["target"]),
            binary=_text(header["binary"]),
            emitted=emitted,
            places=tuple(header["places"]),
        )
    except (KeyError, TypeError, UnicodeDecodeError) as error:
        raise Unreadable(f"the artifact lacks {error}") from error


def pack_binary(binary: Binary) -> bytes:
    """A binary as the bytes of a cache entry."""
    return packed({"format": binary.format, "assembly": binary.assembly, "log": binary.log}, binary.data)


def unpack_binary(data: bytes) -> Binary:
    """Raises Unreadable."""
    header, code = unpacked(data)
    try:
        return Binary(data=code, format=_text(header["format"]), assembly=_text(header["assembly"]), log=_text(header["log"]))
    except (KeyError, TypeError) as error:
        raise Unreadable(f"the binary lacks {error}") from error


def packed(header: dict[str, Any], body: bytes) -> bytes:
    """A header that JSON can hold, and what stands behind it."""
    head = json.dumps(header, separators=(",", ":")).encode()
    return b"".join((len(head).to_bytes(_LENGTH_BYTES, "little"), head, body))


def unpacked(data: bytes) -> tuple[dict[str, Any], bytes]:
    """The header and what stands behind it. Raises Unreadable."""
    header, end = header_of(data)
    return header, data[end:]


def header_of(data: bytes) -> tuple[dict[str, Any], int]:
    """The header, and where it ends. Raises Unreadable."""
    length = int.from_bytes(data[:_LENGTH_BYTES], "little")
    end = _LENGTH_BYTES + length
    if len(data) < end:
        raise Unreadable("it is cut short")
    try:
        header = json.loads(data[_LENGTH_BYTES:end].decode())
    except ValueError as error:
        raise Unreadable(f"its header is no JSON: {error}") from error
    if not isinstance(header, dict):
        raise Unreadable("its header is no dictionary")
    return header, end


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"text, has {type(value).__name__}")
    return value


def _spans(kernel: Kernel) -> dict[Span, None]:
    """The different places of a kernel's statements, in order."""
    nodes = (node for launch in kernel.launches for node in walk(launch))
    return dict.fromkeys(node.span for node in nodes if isinstance(node, StmtNode) and node.span is not None)


def _span(place: Any, spans: Sequence[Span]) -> Span | None:
    if isinstance(place, int):
        return spans[place] if 0 <= place < len(spans) else None
    try:
        return None if place is None else Span(**place)
    except TypeError:
        return None
