"""Running something that may end the process.

In: a function without arguments and a limit in seconds. Out: what it returned, or how its process ended. The function runs in a child of
this process where the system can fork, so this process should not have started threads of its own.
"""

from __future__ import annotations

import os
import pickle
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending(Generic[T]):
    """``value`` where the function returned; ``failure`` in words where it raised, was killed by a signal or ran out of time."""

    value: T | None = None
    failure: str = ""


def isolated(function: Callable[[], T], *, seconds: float) -> Ending[T]:
    """Call ``function`` in a child process; its value must be one that pickle knows."""
    if not hasattr(os, "fork"):
        return _guarded(function)
    sys.stdout.flush()
    sys.stderr.flush()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.close(reading)
            with os.fdopen(writing, "wb") as stream:
                pickle.dump(_guarded(function), stream)
            code = 0
        finally:
            os._exit(code)
    os.close(writing)
    with os.fdopen(reading, "rb") as stream:
        data, is_late = _read(stream.fileno(), seconds)
    if is_late:
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if is_late:
        return Ending(failure=f"did not end within {seconds:g} seconds")
    if os.WIFSIGNALED(status):
        return Ending(failure=f"the process was ended by signal {os.WTERMSIG(status)}")
    if os.WEXITSTATUS(status) or not data:
        return Ending(failure=f"the process ended with code {os.WEXITSTATUS(status)}")
    ending: Ending[T] = pickle.loads(data)
    return ending


def _guarded(function: Callable[[], T]) -> Ending[T]:
    try:
        return Ending(value=function())
    except Exception as error:  # noqa: BLE001 - whatever escapes is what is looked for
        place: Any = traceback.extract_tb(error.__traceback__)[-1]
        return Ending(failure=f"{type(error).__name__}: {error} ({os.path.basename(place.filename)}:{place.lineno})")


def _read(descriptor: int, seconds: float) -> tuple[bytes, bool]:
    """Everything up to the end of a pipe, and whether the time ran out before."""
    parts: list[bytes] = []
    deadline = time.monotonic() + seconds
    while True:
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([descriptor], [], [], left)[0]:
            return b"".join(parts), True
        part = os.read(descriptor, 1 << 16)
        if not part:
            return b"".join(parts), False
        parts.append(part)
