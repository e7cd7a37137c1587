"""The evaluator's core: hands each node of a function's syntax tree to what evaluates or executes it, and locates errors.

A kernel function is not run by Python. Its tree is interpreted once, statement by statement: what is known while compiling is plain
Python, what is known only when the kernel runs becomes tile IR through the builder. The handlers live by theme in expressions, calls,
assignments, statements, control and matching; :mod:`zellige.frontend.functions` starts an interpretation.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TypeVar

from zellige.diagnostics import Diagnostic, InternalError, Note, Span, ZelligeError, catalogue
from zellige.diagnostics.ownership import is_library_file, is_ours
from zellige.frontend.builder import tracing
from zellige.frontend.scopes import Frame, Signal, Trace
from zellige.frontend.words import in_users_words
from zellige.ir.traverse import deep_nesting

ExpressionHandler = Callable[[Frame, Any], Any]
StatementHandler = Callable[[Frame, Any], Signal]
H = TypeVar("H", bound=Callable[..., Any])

_expressions: dict[type[ast.AST], ExpressionHandler] = {}
_statements: dict[type[ast.AST], StatementHandler] = {}


def evaluates(*kinds: type[ast.AST]) -> Callable[[H], H]:
    """Registers a handler for kinds of expression: ``handler(frame, node) -> value``."""

    def register(handler: H) -> H:
        for kind in kinds:
            _expressions[kind] = handler
        return handler

    return register


def executes(*kinds: type[ast.AST]) -> Callable[[H], H]:
    """Registers a handler for kinds of statement: ``handler(frame, node) -> Signal``."""

    def register(handler: H) -> H:
        for kind in kinds:
            _statements[kind] = handler
        return handler

    return register


def evaluate(frame: Frame, node: ast.expr) -> Any:
    """The value of an expression; E111 for a kind that has no meaning in a kernel."""
    handler = _expressions.get(type(node))
    if handler is None:
        raise catalogue.E111.error(frame.here(node), what=_words(node), instead="kernels are plain loops, conditions and calls")
    return handler(frame, node)


def execute(frame: Frame, statements: Sequence[ast.stmt]) -> Signal:
    """Runs statements in order until one of them jumps; says how they ended."""
    for node in statements:
        handler = _statements.get(type(node))
        if handler is None:
            raise catalogue.E111.error(frame.here(node), what=_words(node), instead="move it out of the kernel")
        signal = handler(frame, node)
        if signal is not Signal.NEXT:
            return signal
    return Signal.NEXT


_WORDS = {
    "Await": "await",
    "Yield": "yield",
    "YieldFrom": "yield from",
    "AsyncFor": "async for",
    "AsyncWith": "async with",
    "AsyncFunctionDef": "a coroutine",
    "ClassDef": "a class",
    "TryStar": "except*",
    "TypeAlias": "a type alias",
}


def _words(node: ast.AST) -> str:
    name = type(node).__name__
    return _WORDS.get(name, name)


@contextmanager
def located(trace: Trace) -> Iterator[None]:
    """Gives every error that leaves the trace the user's place and the calls that led there.

    An error of this package keeps its code; any other exception becomes E110, a RecursionError E122 where calls nest and E143 where
    statements or expressions do. The interpretation's own frames are left out of the traceback.
    """
    try:
        with deep_nesting():
            yield
    except ZelligeError as error:
        raise _with_place(error, trace, error) from error.__cause__
    except InternalError:
        raise
    except SystemExit as error:
        raise _with_place(catalogue.E149.error(None, what="SystemExit"), trace, error) from error
    except RecursionError as error:
        if tracing() is not None:  # this kernel was compiled while another one was
            hint = "compile kernels outside of each other: one that compiles itself never ends"
            found = catalogue.E122.error(None, what="compilations", limit="the interpreter goes", hint=hint)
        elif trace.calls or _helpers(error):
            found = catalogue.E122.error(None, what="calls", limit="the interpreter goes")
        else:
            found = catalogue.E143.error(None, detail="statements or expressions nest deeper here than the compiler goes")
        raise _with_place(found, trace) from None
    except Exception as error:
        message = in_users_words(str(error) or "no message")
        found = catalogue.E110.error(None, kind=type(error).__name__, message=message.splitlines()[0])
        raise _with_place(found, trace, error) from error


def _helpers(raised: BaseException) -> tuple[Note, ...]:
    """The user's plain function in which the exception arose, when the kernel called one."""
    found: Note | None = None
    entry = raised.__traceback__
    while entry is not None:
        code = entry.tb_frame.f_code
        home = entry.tb_frame.f_globals.get("__name__")
        if not (is_ours(home) or is_library_file(code.co_filename)):
            span = Span(code.co_filename, entry.tb_lineno)
            line = span.source_line()
            place = Span(span.file, span.line, len(line) - len(line.lstrip()))
            found = Note(f"in {code.co_name}, a Python function", place, "call")
        entry = entry.tb_next
    return () if found is None else (found,)


_SHOWN_CALLS = 4
"""How many calls a message names at either end of a deep chain."""


def _with_place(error: ZelligeError, trace: Trace, raised: BaseException | None = None) -> ZelligeError:
    calls = tuple(Note(f"in {name}, called from here", span, "call") for name, span in reversed(trace.calls))
    if len(calls) > 2 * _SHOWN_CALLS:
        left_out = Note(f"in {len(calls) - 2 * _SHOWN_CALLS} more calls", kind="call")
        calls = (*calls[:_SHOWN_CALLS], left_out, *calls[-_SHOWN_CALLS:])
    if raised is not None:
        calls = _helpers(raised) + calls

    def located_one(diagnostic: Diagnostic) -> Diagnostic:
        span = diagnostic.span
        if (span is None or diagnostic.is_place_of_call) and trace.builder.span is not None:
            span = trace.builder.span
        notes = diagnostic.notes if any(note.kind == "call" for note in diagnostic.notes) else diagnostic.notes + calls
        return replace(diagnostic, span=span, notes=notes, is_place_of_call=False)

    return type(error)(*(located_one(d) for d in error.diagnostics))
