"""LLVM in processes of its own, so that a program on which it aborts costs an error and not the user's process.

In: LLVM IR text and a host. Out: machine code. Raises InternalError where LLVM refuses the program, or ends the process while it works on
it; the message holds what it last said. A process that others killed, at work or while it loaded LLVM, is replaced once; one that had
ended, in whatever way, before it had a request is replaced without a word about the program.

A process is started when a compilation begins (:func:`begin`) and serves later ones; several threads get one each, as many as the machine
has cores. It ends with this process, and an interrupt (Ctrl-C) during a compilation ends it too. A child made by ``fork`` starts its own.
Where no process can be started, LLVM runs in this one, and a warning says so.
"""

from __future__ import annotations

import atexit
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Final

from zellige.diagnostics import InternalError
from zellige.log import logger
from zellige_cpu import llvm_worker
from zellige_cpu.host import Host, running_host
from zellige_cpu.llvm_worker import Want

_LAST_WORDS: Final = 600
"""Characters of what a process that ended has printed, from the end."""


_KILLED_BY_OTHERS: Final = frozenset((-signal.SIGKILL, -signal.SIGTERM))
"""Ends that LLVM does not come to by itself: a user, or whoever frees memory, ended the process, perhaps while it waited for work."""


class _Ended(Exception):
    """The process is gone; ``args[0]`` says how, ``status`` is what it left, ``had_request`` whether it can have seen the whole request."""

    def __init__(self, how: str, status: int | None = None, had_request: bool = True) -> None:
        super().__init__(how)
        self.status = status
        self.had_request = had_request

    @property
    def is_for_other_reasons(self) -> bool:
        """Whether the program that was to be compiled has no part in it."""
        return not self.had_request or self.status in _KILLED_BY_OTHERS


class _Process:
    """One process that compiles; it answers one request at a time."""

    def __init__(self) -> None:
        self._said: Final[IO[bytes]] = tempfile.TemporaryFile()  # noqa: SIM115 - as long as the process
        self._process: Final = subprocess.Popen(
            [sys.executable, "-I", "-S", llvm_worker.__file__, _folder_of_llvmlite()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
            bufsize=0,  # nothing waits in a buffer that a child made by fork would write once more
            start_new_session=True,  # an interrupt typed at the terminal is for this process, which stops the other
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._requests: Final = self._process.stdin
        self._replies: Final = self._process.stdout
        self._is_prepared = False

    def prepare(self) -> None:
        """Wait until LLVM is loaded there."""
        if not self._is_prepared:
            error, _ = self._answer()
            if error != llvm_worker.PREPARED:
                raise _Ended(f"it says {error!r} at its start")
            self._is_prepared = True

    def ask(self, head: dict[str, Any], text: bytes) -> tuple[str, bytes]:
        """The error and the content of the reply. Raises _Ended."""
        self.prepare()
        left = memoryview(json.dumps(head | {"bytes": len(text)}).encode() + b"\n" + text)
        try:
            while left:
                left = left[self._requests.write(left) :]
        except OSError:
            raise self._ended(had_request=False) from None
        return self._answer()

    @property
    def is_alive(self) -> bool:
        """Whether the process still runs."""
        return self._process.poll() is None

    def _answer(self) -> tuple[str, bytes]:
        head = json.loads(self._some(self._replies.readline()))
        content = b""
        while len(content) < head["bytes"]:
            content += self._some(self._replies.read(head["bytes"] - len(content)))
        return head["error"], content

    def _some(self, read: bytes) -> bytes:
        if not read:
            raise self._ended()
        return read

    def _ended(self, had_request: bool = True) -> _Ended:
        status = self._process.wait(timeout=30)
        how = f"status {status}" if status >= 0 else f"signal {-status} ({signal.strsignal(-status)})"
        self._said.seek(0)
        words = self._said.read().decode(errors="replace").strip()
        return _Ended(f"{how}{': ' if words else ''}{words[-_LAST_WORDS:]}", status, had_request)

    def forget(self) -> None:
        """Drop it in a process that did not start it."""
        self._process.returncode = 0  # what does not run is not warned of
        for stream in (self._requests, self._replies, self._said):
            stream.close()

    def close(self, kill: bool) -> None:
        """End the process, at once or when it has read all."""
        self._requests.close()
        self._replies.close()
        if kill:
            self._process.kill()
        try:
            self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._said.close()


def _folder_of_llvmlite() -> str:
    import llvmlite

    return str(Path(llvmlite.__file__).parents[1])


class _Pool:
    """The processes that wait for work."""

    def __init__(self) -> None:
        self._slots = threading.BoundedSemaphore(max(1, os.cpu_count() or 1))
        self._idle: list[_Process] = []
        self._is_closed = False
        self._has_begun = False

    @contextmanager
    def process(self) -> Iterator[_Process | None]:
        """A process for one request; None where none can be started. After an exception it is not used again. Raises _Ended where others
        killed it before it was ready."""
        with self._slots:
            one = self._prepared()
            try:
                yield one
            except BaseException:
                if one is not None:
                    one.close(kill=True)
                raise
            if one is not None:
                self._idle.append(one)

    def begin(self) -> None:
        """Have a process start, if there is none yet, while the caller goes on."""
        if not self._idle and not self._is_closed and not self._has_begun:
            self._has_begun = True
            one = self._begun()
            if one is not None:
                self._idle.append(one)

    def _begun(self) -> _Process | None:
        try:
            if not sys.executable:
                raise ValueError("sys.executable does not say where Python is")  # a program that holds Python inside
            return _Process()
        except (OSError, ValueError) as error:
            self._do_without(error)
            return None

    def _prepared(self) -> _Process | None:
        if self._is_closed:
            return None
        self._has_begun = True
        one = self._living() or self._begun()
        if one is None:
            return None
        try:
            one.prepare()
        except BaseException as error:
            one.close(kill=True)
            if not isinstance(error, _Ended) or error.status in _KILLED_BY_OTHERS:
                raise  # the next one may be left alone while it loads
            self._do_without(error)
            return None
        return one

    def _waiting(self) -> _Process | None:
        """One that waits for work, no longer among them: asking first whether there is one would let another thread take it between.
        It may have ended meanwhile."""
        try:
            return self._idle.pop()
        except IndexError:
            return None

    def _living(self) -> _Process | None:
        """One that waits for work and has not ended; those that have are dropped."""
        while (one := self._waiting()) and not one.is_alive:
            logger().info("a process of LLVM's that waited for work has ended; another one takes its place")
            one.close(kill=True)
        return one

    def _do_without(self, error: Exception) -> None:
        logger().warning("LLVM runs in this process, which ends where LLVM aborts: no process can be started for it: %s", error)
        self._is_closed = True

    def close(self) -> None:
        """End the processes; a compilation after this runs here."""
        self._is_closed = True
        while one := self._waiting():
            one.close(kill=False)

    def forget(self) -> None:
        """In a child made by fork: the processes are the parent's."""
        while one := self._waiting():
            one.forget()


_pools: Final[dict[int, _Pool]] = {}
"""The pool of this process, by its number, since a child made by fork finds its parent's."""


def _pool() -> _Pool:
    number = os.getpid()
    for other in [known for known in list(_pools) if known != number]:
        _pools.pop(other).forget()
    return _pools.setdefault(number, _Pool())


@atexit.register
def close() -> None:
    """End the processes; a compilation after this runs here."""
    _pool().close()


def begin() -> None:
    """Say that a program will soon be compiled: the process starts meanwhile."""
    _pool().begin()


def compiled(text: str, host: Host, want: Want) -> bytes:
    """The machine code of a program, or what else is wanted of it."""
    head = {"triple": host.triple, "cpu": host.cpu, "features": host.feature_string, "foreign": is_foreign(host), "want": want}
    try:
        try:
            error, content = _asked(head, text, host, want)
        except _Ended as ended:
            if not ended.is_for_other_reasons:
                raise
            error, content = _asked(head, text, host, want)
    except _Ended as ended:
        raise InternalError(f"LLVM stopped while it compiled the generated program, {ended}") from None
    if error:
        raise InternalError(f"LLVM refuses the generated program: {error}")
    return content


def _asked(head: dict[str, Any], text: str, host: Host, want: Want) -> tuple[str, bytes]:
    with _pool().process() as process:
        return _compiled_here(text, host, want) if process is None else process.ask(head, text.encode())


def _compiled_here(text: str, host: Host, want: Want) -> tuple[str, bytes]:
    with _lock_here:
        try:
            machine = llvm_worker.target_machine(host.triple, host.cpu, host.feature_string, is_foreign(host))
            return "", llvm_worker.machine_code(text, machine, want)
        except RuntimeError as error:
            return str(error), b""


_lock_here: Final = threading.Lock()


def is_foreign(host: Host) -> bool:
    """Whether code for ``host`` does not run on this kind of machine. LLVM is not asked again: in a child made by ``fork`` its lock stays
    taken for ever where another thread held it."""
    return host.triple != running_host().triple
