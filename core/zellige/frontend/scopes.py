"""Where names live while a kernel is traced, and what is true of the whole trace.

:class:`Frame` is one activation of a function that the evaluator interprets; :class:`Trace` is shared by all frames of one kernel. A
name of a frame holds a value of :mod:`zellige.frontend.values`, any Python object, or one of two markers that are never handed out:
:class:`Pending`, a name that will become a variable at its first assignment, and :class:`Hidden`, a name that has no single value here.
"""

from __future__ import annotations

import ast
import builtins
import enum
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

from zellige.diagnostics import Span, catalogue
from zellige.diagnostics.suggest import closest
from zellige.frontend.builder import Builder
from zellige.frontend.flow import Flow
from zellige.frontend.source import SourceText
from zellige.frontend.values import Variable
from zellige.frontend.vectors import VectorVariable


class Signal(enum.Enum):
    """How a list of statements ended."""

    NEXT = "next"
    BREAK = "break"
    CONTINUE = "continue"
    RETURN = "return"


@dataclass(eq=False)
class Pending:
    """A name that run-time control flow may assign and that is read afterwards: a variable, declared in the open body number ``depth``.

    ``hidden`` is what it was before: on a path that does not assign it, it is that again.
    """

    depth: int
    variable: Variable | VectorVariable | None = None
    hidden: Hidden | None = None


@dataclass(eq=False)
class Hidden:
    """A name whose value depends on run-time control flow in a way that no variable can hold. ``reason`` completes "x ..."."""

    reason: str
    code: Literal["E109", "E115"] = "E109"
    variable: Variable | VectorVariable | None = None


@dataclass(frozen=True, eq=False)
class Construct:
    """A run-time construct whose body is being traced."""

    kind: Literal["if", "while", "for", "map"]


@dataclass(eq=False)
class LoopContext:
    """The loop that break and continue leave: ``depth`` is how many run-time constructs are open around its body.

    ``may_restart`` marks an unrolled loop that can still become a loop of the kernel. ``cleanups`` is how many cleanups of the trace are
    open around it, ``names`` are those that the loop settles at its
    end, ``jumps`` what they held at each break and continue of the kernel.
    """

    kind: Literal["unrolled", "loop", "grid", "map"]
    depth: int
    may_restart: bool = False
    cleanups: int = 0
    names: Sequence[str] = ()
    jumps: list[dict[str, Any]] = field(default_factory=list)


@dataclass(eq=False)
class Cleanup:
    """What runs when a ``try`` or ``with`` is left: the statements of a ``finally``, none for the ``__exit__`` of a manager.

    ``loops`` is how many loops of the frame are open around the statement, ``left_at`` the first jump of the kernel that leaves it.
    ``failure`` is what the statements raised when they ran before such a jump.
    """

    loops: int
    statements: Sequence[ast.stmt] = ()
    left_at: Span | None = None
    failure: Exception | None = None


class RunTimeJump(BaseException):
    """A while loop that was followed while compiling turns out to be left at run time, by ``word`` at ``span``: ``loop`` begins anew as a
    loop of the kernel."""

    def __init__(self, loop: LoopContext, word: str, span: Span) -> None:
        super().__init__()
        self.loop, self.word, self.span = loop, word, span


@dataclass(eq=False)
class Trace:
    """One kernel in the making. ``control`` are the run-time constructs that are open, the innermost last."""

    builder: Builder
    control: list[Construct] = field(default_factory=list)
    calls: list[tuple[str, Span | None]] = field(default_factory=list)
    made: dict[int, tuple[object, Construct | None]] = field(default_factory=dict)
    loops: list[tuple[Frame, LoopContext]] = field(default_factory=list)  # the loops that are open, in all frames
    cleanups: list[Cleanup] = field(default_factory=list)  # what is open of try and with, in all frames
    passed: tuple[Exception, Span | None, str] | None = None  # the last exception that left a run-time construct, its place, the kind

    CALL_LIMIT = 60

    @property
    def depth(self) -> int:
        return len(self.control)

    @property
    def construct(self) -> Construct | None:
        """The innermost open run-time construct."""
        return self.control[-1] if self.control else None

    @contextmanager
    def inside(self, kind: Literal["if", "while", "for", "map"]) -> Iterator[None]:
        """A run-time construct is open."""
        self.control.append(Construct(kind))
        try:
            yield
        except Exception as error:
            if self.passed is None or self.passed[0] is not error:
                self.passed = (error, self.builder.span, kind)
            raise
        finally:
            self.control.pop()

    @contextmanager
    def calling(self, name: str, span: Span | None) -> Iterator[None]:
        """An interpreted function is running; when it fails, the place of the call stays noted. E122: too deep."""
        if len(self.calls) >= self.CALL_LIMIT:
            raise catalogue.E122.error(span, what=f"calls of {name}", limit=self.CALL_LIMIT)
        self.calls.append((name, span))
        yield
        self.calls.pop()

    def remember(self, container: Any) -> Any:
        """Notes where a list, dict or set was made: it may be changed freely as long as the same construct is innermost."""
        self.made[id(container)] = (container, self.construct)
        return container

    def may_change(self, container: object) -> bool:
        """Whether changing a Python object now happens exactly once for the trace and for the kernel."""
        if not self.control:
            return True
        known = self.made.get(id(container))
        return known is not None and known[0] is container and known[1] is self.construct


@dataclass(eq=False)
class Frame:
    """One activation of an interpreted function; ``enclosing`` is the frame of the function it was defined in."""

    name: str
    trace: Trace
    text: SourceText
    flow: Flow
    global_names: Mapping[str, Any]
    locals: dict[str, Any] = field(default_factory=dict)
    enclosing: Frame | None = None
    closure: Mapping[str, Any] = field(default_factory=dict)
    kind: Literal["kernel", "macro", "function", "comprehension"] = "function"
    loops: list[LoopContext] = field(default_factory=list)
    cleanups: list[Cleanup] = field(default_factory=list)
    is_jump_emitted: bool = False  # whether the last jump is one of the kernel, before which cleanups ran already
    base_depth: int = 0
    returned: Any = None
    returned_at: Span | None = None
    handled: Exception | None = None

    @property
    def builder(self) -> Builder:
        return self.trace.builder

    def here(self, node: ast.AST) -> Span:
        """Sets the place that new nodes take, and returns it."""
        span = self.text.span(node)
        self.trace.builder.span = span
        return span

    def lookup(self, name: str) -> Any:
        """The value of a name by Python's rules. E107: not defined; E108: not yet assigned; E109, E115: no single value."""
        frame: Frame | None = self
        while frame is not None:
            if name in frame.locals:
                value = frame.locals[name]
                if type(value) is Pending:
                    if value.hidden is None and value.variable is None:
                        raise catalogue.E108.error(self.builder.span, name=name)
                    value = value.hidden or value.variable
                if type(value) is Hidden:
                    raise getattr(catalogue, value.code).error(self.builder.span, name=name, reason=value.reason)
                return value
            if frame.kind != "comprehension" and name in frame.flow.local_names:
                raise catalogue.E108.error(self.builder.span, name=name)
            if name in frame.closure:
                return frame.closure[name]
            if frame.enclosing is None:
                break
            frame = frame.enclosing
        if name in self.global_names:
            return self.global_names[name]
        holder = self.global_names.get("__builtins__", builtins)
        found = holder.get(name, self) if isinstance(holder, dict) else getattr(holder, name, self)
        if found is not self:
            return found
        raise catalogue.E107.error(self.builder.span, name=name, suggestion=closest(name, (n for n in self._visible() if n != name)))

    def sees(self, name: str) -> bool:
        """Whether a name means something here."""
        return name in self._visible()

    def _visible(self) -> list[str]:
        names: list[str] = []
        frame: Frame | None = self
        while frame is not None:
            names.extend(frame.locals)
            names.extend(frame.closure)
            frame = frame.enclosing
        return [*names, *self.global_names, *dir(builtins)]

    def scope(self) -> Frame:
        """The frame that an assignment expression inside a comprehension binds in."""
        frame = self
        while frame.kind == "comprehension" and frame.enclosing is not None:
            frame = frame.enclosing
        return frame
