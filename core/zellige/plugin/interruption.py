"""Whether an exception was meant for the whole process, or is the doing of the code that it passed through.

In: an exception that escaped from somebody else's code, such as a hook of a backend. Out: :func:`is_from_outside`, and
:func:`is_blameless`, which adds what the machine and the user's settings are behind. Ctrl-C, and what a handler of the user's for a signal
raises, come up between any two steps of whatever is running, which is not to blame: they pass on as they are. A KeyboardInterrupt,
SystemExit or GeneratorExit that the code raises by itself is a failure of that code like any other.

The two are told apart by where the exception began: a signal interrupts a function at some step of its own, and nothing else than the
statement ``raise`` raises there what the code asks for. What C code raises by its own decision, and a signal that the code sends to its own
process, look like the user's Ctrl-C and are taken for it.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from functools import partial
from types import CodeType, FrameType, TracebackType


def is_from_outside(error: BaseException) -> bool:
    """Whether Ctrl-C or a handler of the user's for a signal raised ``error``, or what it was raised in place of, as in ``except
    KeyboardInterrupt: sys.exit(1)``."""
    if _is_from_handler(error):
        return True
    if not isinstance(error, (KeyboardInterrupt, SystemExit)):
        return False
    return any(isinstance(one, KeyboardInterrupt) and not _is_raised(one) for one in _chain(error))


def is_blameless(error: BaseException) -> bool:
    """Whether ``error`` is nobody's failure and passes on as it is: what :func:`is_from_outside` says, a machine without enough memory for
    what was asked, and a warning that the user turned into an error (a warning that a ``raise`` raises is like any other exception)."""
    if isinstance(error, MemoryError) or (isinstance(error, Warning) and not _is_raised(error)):
        return True
    return is_from_outside(error)


def _chain(error: BaseException) -> Iterator[BaseException]:
    """An exception and those that were being handled when it was raised."""
    seen: set[int] = set()
    one: BaseException | None = error
    while one is not None and id(one) not in seen:
        seen.add(id(one))
        yield one
        one = one.__cause__ or one.__context__


def _is_raised(error: BaseException) -> bool:
    """Whether a statement raised it; False for an exception that nobody has raised."""
    steps = list(_steps(error))
    if not steps:
        return False
    from dis import opmap  # what raises nothing does without

    frame, at = steps[-1]
    return frame.f_code.co_code[at] == opmap["RAISE_VARARGS"]


def _steps(error: BaseException) -> Iterator[tuple[FrameType, int]]:
    """The frames that an exception passed through, the innermost last, each with the place in its code."""
    entry: TracebackType | None = error.__traceback__
    while entry is not None:
        yield entry.tb_frame, entry.tb_lasti
        entry = entry.tb_next


def _is_from_handler(error: BaseException) -> bool:
    """Whether a handler of the user's for a signal was at work when the exception was raised."""
    codes = {_code_of(signal.getsignal(number)) for number in signal.valid_signals()} - {None}
    return any(frame.f_code in codes for frame, _ in _steps(error))


def _code_of(handler: object) -> CodeType | None:
    from inspect import unwrap

    while isinstance(handler, partial):
        handler = handler.func
    found = getattr(unwrap(handler), "__code__", None) if callable(handler) else None
    return found if isinstance(found, CodeType) else None
