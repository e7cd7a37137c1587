"""What a user is told when something is wrong: a code, one line in the user's words, the place, a hint.

Codes are declared in :mod:`zellige.diagnostics.catalogue`; a bug of the compiler is an :class:`InternalError`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal, NoReturn

from zellige.diagnostics.printable import visible
from zellige.diagnostics.span import Span, calling_place

Severity = Literal["error", "warning"]


@dataclass(frozen=True, slots=True)
class Code:
    """A stable name for one kind of mistake. ``template`` is a ``str.format`` pattern of the message.

    ``also`` is a class of Python that programs expect for it, beside those of its stage: a TypeError for a call that does not fit.
    """

    id: str
    title: str
    template: str
    hint: str = ""
    also: type[Exception] | None = None
    names_backend: bool = False
    """Whether the field ``name`` of its template is a backend that is at fault."""

    def diagnose(
        self,
        span: Span | None = None,
        *,
        hint: str | None = None,
        notes: tuple[Note, ...] = (),
        severity: Severity = "error",
        **fields: object,
    ) -> Diagnostic:
        """A diagnostic of this kind; ``fields`` fill the template and, unless a ``hint`` is given, the code's own hint."""
        return Diagnostic(
            code=self.id,
            message=self.template.format(**fields),
            span=span,
            hint=hint or self.hint.format(**fields),
            notes=notes,
            severity=severity,
            backend=str(fields["name"]) if self.names_backend else "",
        )

    def error(self, span: Span | None = None, *, hint: str | None = None, notes: tuple[Note, ...] = (), **fields: object) -> ZelligeError:
        """The exception to raise: its class follows from the code's stage (E4xx Unsupported, E6xx LaunchError)."""
        kind = {"4": Unsupported, "6": LaunchError}.get(self.id[1], CompileError)
        diagnostic = self.diagnose(span, hint=hint, notes=notes, severity="error", **fields)
        if span is None and self.id[1] in "124":
            diagnostic = replace(diagnostic, span=calling_place(), is_place_of_call=True)
        return (kind if self.also is None else _both(kind, self.also))(diagnostic)


NoteKind = Literal["place", "call", "raised here", "said by", "replay"]
"""What a note is for, where the program asks: a second place, a call on the way to the first, the line of somebody else's code for whoever
mends it, which backend's hook the error comes out of, the command that repeats it."""


@dataclass(frozen=True, slots=True)
class Note:
    """A second place that explains a diagnostic, such as the declaration of a buffer, or what else is known of it."""

    message: str
    span: Span | None = None
    kind: NoteKind = "place"


def raised_at(line: Span | None) -> tuple[Note, ...]:
    """The note that names the line of somebody else's code, such as a backend's, for whoever mends it; none where it is not known."""
    return () if line is None else (Note("raised here", line, "raised here"),)


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One thing that a user is told: a code, a message, a place, a hint, other places that explain it."""

    code: str
    message: str
    span: Span | None = None
    hint: str = ""
    notes: tuple[Note, ...] = field(default=())
    severity: Severity = "error"
    invariant: int = 0  # of the tile IR, that is broken; 0 for everything that the verifier does not report
    backend: str = ""  # whose fault it is, where that is one
    is_place_of_call: bool = False  # nobody said where: ``span`` is the line of the user's program that was running

    @property
    def line_of_fault(self) -> Span | None:
        """The line that the note of :func:`raised_at` names."""
        return next((note.span for note in self.notes if note.kind == "raised here"), None)

    def render(self) -> str:
        """The text a user reads: headline, place with a caret, notes, hint. It holds no orders for a terminal, whoever wrote its parts."""
        lines = [f"{self.severity} {self.code}: {self.message}"]
        if self.span is not None:
            lines.append(f"  --> {self.span}")
            lines.extend(filter(None, [self.span.excerpt()]))
        for note in self.notes:
            lines.append(f"note: {note.message}" + (f" ({note.span})" if note.span else ""))
            if note.span is not None:
                lines.extend(filter(None, [note.span.excerpt()]))
        if self.hint:
            lines.append(f"hint: {self.hint}")
        return visible("\n".join(lines))


class ZelligeError(Exception):
    """Everything this package raises for a user's mistake. ``diagnostics`` holds at least one entry: TypeError for an error that says
    nothing."""

    def __init__(self, *diagnostics: Diagnostic) -> None:
        if not all(isinstance(one, Diagnostic) for one in diagnostics) or not diagnostics:
            raise TypeError(f"{type(self).__name__} takes what it tells as one or more Diagnostic, given was {diagnostics!r}")
        self.diagnostics = diagnostics
        super().__init__("\n".join(d.render() for d in diagnostics))

    def __reduce__(self) -> tuple[Callable[..., ZelligeError], tuple[object, ...]]:
        """Made again from its diagnostics: an exception's own way, from the text, has lost them (pools of processes send exceptions)."""
        return _made_again, (*_parts.get(type(self), (type(self), None)), *self.diagnostics)

    def tell_also(self, message: str) -> None:
        """Adds a note in words. Nothing here needs it: it is a public name, which goes with a step of the version alone."""
        self.tell_note(Note(message))

    def tell_note(self, note: Note) -> None:
        """Adds a note, known to whoever meets the error further out, to what it says."""
        self.diagnostics = tuple(replace(one, notes=(*one.notes, note)) for one in self.diagnostics)
        self.args = ("\n".join(one.render() for one in self.diagnostics),)

    def tell_place_of_call(self) -> None:
        """Names the line of the program that is running now, where nobody said a place: for an error out of somebody else's code, which
        would be named otherwise."""
        place = calling_place()
        self.diagnostics = tuple(replace(one, span=place) if one.is_place_of_call else one for one in self.diagnostics)
        self.args = ("\n".join(one.render() for one in self.diagnostics),)

    @property
    def code(self) -> str:
        return self.diagnostics[0].code

    @property
    def span(self) -> Span | None:
        return self.diagnostics[0].span

    @property
    def hint(self) -> str:
        return self.diagnostics[0].hint


def says_something(error: ZelligeError) -> bool:
    """Whether an error has what it tells: a class of somebody else's may have left out what :class:`ZelligeError` does at its making."""
    told: object = error.__dict__.get("diagnostics")
    return isinstance(told, tuple) and bool(told) and all(isinstance(one, Diagnostic) for one in told)


class CompileError(ZelligeError, ValueError):
    """A kernel cannot be compiled as written (E1xx to E5xx) or a plugin is wrong (E7xx). Also a ValueError, as programs expect it."""


class Unsupported(CompileError, NotImplementedError):
    """The target lacks a capability that the kernel asks for (E4xx). Also a NotImplementedError, hence a RuntimeError."""


class LaunchError(ZelligeError, ValueError, RuntimeError):
    """A compiled kernel was called with wrong arguments or failed while it ran (E6xx). Also a ValueError and a RuntimeError."""


_made: dict[tuple[type[ZelligeError], type[Exception]], type[ZelligeError]] = {}
_parts: dict[type[ZelligeError], tuple[type[ZelligeError], type[Exception]]] = {}


def _both(kind: type[ZelligeError], also: type[Exception]) -> type[ZelligeError]:
    """A class that is ``kind`` to whoever reads its name, and caught as ``also`` too; always the same one."""
    if (kind, also) not in _made:
        made = type(kind.__name__, (kind, also), {"__module__": kind.__module__, "__doc__": kind.__doc__})
        _parts[_made.setdefault((kind, also), made)] = (kind, also)
    return _made[kind, also]


def caught_too(error: ZelligeError, also: type[Exception]) -> ZelligeError:
    """The same error, caught as ``also`` too."""
    return _both(type(error), also)(*error.diagnostics)


def _made_again(kind: type[ZelligeError], also: type[Exception] | None, *diagnostics: Diagnostic) -> ZelligeError:
    return (kind if also is None else _both(kind, also))(*diagnostics)


class InternalError(Exception):
    """A bug of the compiler: ``message`` says what happened, ``replay`` is a command that reproduces it."""

    def __init__(self, message: str, *, replay: str = "") -> None:
        repeat = f"\nreplay: {replay}" if replay else ""
        super().__init__(f"internal error: {message}\nThis is a bug in zellige, not in the kernel.{repeat}")
        self.message = message
        self.replay = replay

    def __reduce__(self) -> tuple[Callable[..., InternalError], tuple[str]]:
        return partial(type(self), replay=self.replay), (self.message,)


def unreachable(value: NoReturn) -> NoReturn:
    """The last case of a match over a union: the type checker refuses the call unless every other case is handled."""
    raise InternalError(f"{type(value).__name__} is not handled here")


class ZelligeWarning(UserWarning):
    """A kernel compiles, but a published mistake was recognised in it (W-codes share the E numbering)."""
