"""Looking for a backend's devices without letting it hold up or take down the process.

In: a question that may hang, raise, or end the interpreter. Out: its answer, or why there is none: :func:`within_seconds` asks on a thread
that is left behind, :func:`report_isolated` loads and asks the backend of one entry point in a process of its own. As a program
(``python -m zellige.plugin.probing NAME FILE``) it is that process.

Modules that ask in a process of its own share a protocol: :func:`answered_apart` runs a module as a program, with a file behind its
arguments; that program writes objects of JSON there, a line each (:func:`telling`), so that what it told before its end counts.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from zellige.log import logger
from zellige.options import variable
from zellige.plugin.contract import BackendReport, Device, Tool, Unavailable
from zellige.plugin.fields import said
from zellige.plugin.guard import Onlooker
from zellige.plugin.interruption import is_from_outside
from zellige.plugin.origin import Origin

ISOLATE: Final = variable("isolate_probes")
"""The setting that asks for processes of their own, which such a process does not ask for again."""

PATIENCE_SECONDS = 20.0
"""After so long it is said for whom the process waits, and again whenever the wait has doubled."""

_STEP_SECONDS: Final = 0.5

LOAD_CRASHED: Final = "load-crashed"
LOAD_TIMEOUT: Final = "load-timeout"
PROBE_CRASHED: Final = "probe-crashed"
PROBE_TIMEOUT: Final = "probe-timeout"
PROBE_FAILED: Final = "probe-failed"
CONTRACT: Final = "contract"
QUARANTINED: Final = "quarantined"
AT_FAULT: Final = frozenset((LOAD_CRASHED, LOAD_TIMEOUT, PROBE_CRASHED, PROBE_TIMEOUT, PROBE_FAILED, CONTRACT, QUARANTINED))
"""Codes of ``Unavailable`` by which core says that a backend is broken, rather than without a device or not built."""

MOST_PRINTED: Final = 20_000
"""Of what such a process prints so many characters are kept, the last."""


def within_seconds(ask: Callable[[], object], seconds: float, name: str) -> object:
    """What ``ask`` answers. :class:`Unavailable` where it raises or takes longer; its thread is then left to itself."""
    answer: list[object] = []

    def on_thread() -> None:
        try:
            answer.append(ask())
        except BaseException as error:  # noqa: BLE001 - a stranger's code on another thread: whatever it raises is its answer
            answer.append(Unavailable(code=PROBE_FAILED, reason=f"looking for devices failed: {said(error)}"))

    worker = threading.Thread(target=on_thread, name=f"zellige-probe-{name}", daemon=True)
    worker.start()
    worker.join(seconds)
    return answer[0] if answer else _too_long(seconds)


@contextmanager
def patience(origin: Origin, doing: str) -> Iterator[None]:
    """Says for which backend of somebody else's the process waits, where that takes long or the user interrupts it: nobody can end a hook
    for it, but nobody should have to guess either."""
    with nullcontext() if origin.is_own else waiting(f"the backend {origin.name!r} has been {doing}"):
        yield


@contextmanager
def waiting(what: str) -> Iterator[None]:
    """Says ``what``, for how long and at which line, where it takes long; what was interrupted, where Ctrl-C ends it."""
    wait, waits = _Wait(what), _waits
    try:
        waits.begin(wait)
        yield
    except KeyboardInterrupt as error:
        if is_from_outside(error):
            logger().warning("interrupted: %s for %.1f s", what, time.monotonic() - wait.began)
        raise
    finally:
        waits.end(wait)


class _Wait:
    """What this thread does, and when somebody is to look at it next: at first after a while, then whenever the time has doubled."""

    __slots__ = ("_thread", "_what", "began", "seconds")

    def __init__(self, what: str) -> None:
        self._what, self._thread = what, threading.get_ident()
        self.began, self.seconds = time.monotonic(), PATIENCE_SECONDS

    @property
    def due(self) -> float:
        return self.began + self.seconds

    def say(self) -> None:
        frame = sys._current_frames().get(self._thread)
        place = "" if frame is None else f", now at {frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_name}"
        logger().warning("%s for %g s%s", self._what, self.seconds, place)
        self.seconds *= 2


class _Waits:
    """All that may take long in this process, with one thread that looks at it: to start one for each takes longer than most hooks do."""

    def __init__(self) -> None:
        self._waits: dict[_Wait, None] = {}
        self._lock = threading.RLock()  # a handler of signals may begin a wait of its own
        self._woken = threading.Event()
        self._thread: Onlooker | None = None
        self._looks_at = 0.0

    def begin(self, wait: _Wait) -> None:
        with self._lock:
            self._waits[wait] = None
            if self._thread is None or not self._thread.is_alive():
                self._looks_at = wait.due
                self._thread = Onlooker(target=self._look_on, name="zellige-patience", daemon=True)
                self._thread.start()
            elif wait.due < self._looks_at:
                self._woken.set()

    def end(self, wait: _Wait) -> None:
        self._waits.pop(wait, None)  # without the lock, which another thread may have held when this process was forked

    def _look_on(self) -> None:
        """Until there is nothing to look at for a moment: a thread that is left keeps others from what they do alone, such as forking."""
        while True:
            for wait in [one for one in list(self._waits) if one.due <= time.monotonic()]:
                wait.say()
            with self._lock:
                self._woken.clear()
                now = time.monotonic()
                self._looks_at = min([now + _STEP_SECONDS, *(one.due for one in list(self._waits))])
            is_woken = self._woken.wait(max(self._looks_at - now, 0.0))
            with self._lock:
                if not self._waits and not is_woken:
                    self._thread = None
                    return


def _forget_waits() -> None:
    global _waits
    _waits = _Waits()


_waits = _Waits()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_waits)  # there is no thread in a child, and somebody may have held the lock


def _too_long(seconds: float) -> Unavailable:
    return Unavailable(code=PROBE_TIMEOUT, reason=f"looking for devices took more than {seconds:g} s")


def report_isolated(name: str, entry_point: str, seconds: float) -> BackendReport:
    """What the backend of the entry point ``name`` says of itself in a process of its own. A process that dies or hangs is its answer."""
    found = answered_apart(__name__, (name, entry_point), seconds)
    if len(found.told) < 2:
        broken = _broken(found.code, seconds, is_loaded=bool(found.told))
        return BackendReport(name=name, entry_point=entry_point, manifest=None, unavailable=broken, traceback=found.printed, origin=name)
    data = found.told[1]
    missing = data["unavailable"]
    return BackendReport(
        name=data["name"],
        entry_point=data["entry_point"],
        manifest=None,
        devices=tuple(Device(**{**d, "compute_version": _pair(d["compute_version"])}) for d in data["devices"]),
        unavailable=None if missing is None else Unavailable(**missing),
        traceback=data["traceback"],
        origin=name,
        tools=tuple(Tool(**tool) for tool in data["tools"]),
    )


@lru_cache(maxsize=64)
def isolated_once(origin: Origin, seconds: float) -> BackendReport:
    """The same of an origin, asked once."""
    return report_isolated(origin.name, origin.text, seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class AnsweredApart:
    """What a process told, line by line, its exit code (None where it took too long), and the last of what it printed."""

    told: tuple[dict[str, Any], ...]
    code: int | None
    printed: str


def answered_apart(module: str, arguments: Sequence[str], seconds: float) -> AnsweredApart:
    """Runs a module as a program in a process of its own, with a file behind its ``arguments`` for what it tells."""
    with tempfile.TemporaryDirectory() as folder:
        answer, printed = Path(folder) / "answer", Path(folder) / "printed"
        code = run_apart([sys.executable, "-m", module, *arguments, str(answer)], printed, seconds)
        text = answer.read_text(encoding="utf-8") if answer.exists() else ""
        words = printed.read_text(encoding="utf-8", errors="replace")[-MOST_PRINTED:].strip()
    return AnsweredApart(told=tuple(map(json.loads, whole_lines(text))), code=code, printed=words)


def whole_lines(text: str) -> list[str]:
    """The lines that have their end: a process that is ended may leave a part of one, which may look like a whole one."""
    return text.split("\n")[:-1]


@contextmanager
def telling(file: str) -> Iterator[Callable[..., None]]:
    """What tells fields to the process that reads ``file`` with :func:`answered_apart`, at once."""
    with open(file, "w", encoding="utf-8") as answer:
        yield lambda **fields: print(json.dumps(fields), file=answer, flush=True)


def run_apart(command: list[str], printed: Path, seconds: float) -> int | None:
    """Run a process in a session of its own and end what is left of that; its exit code, None where it took too long.

    What it prints goes to a file: whoever it started may hold a pipe open for ever.
    """
    with printed.open("wb") as file:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT, start_new_session=True,
            env={**os.environ, ISOLATE: "0"},
        )  # fmt: skip
        try:
            return _waited(process, seconds)
        finally:
            _end_session(process)


def _waited(process: subprocess.Popen[bytes], seconds: float) -> int | None:
    """The exit code of a process, None where it took longer. The time is counted in steps, of which one that took much longer counts once:
    then this process was held up as well, such as by a machine that stood still, and nobody is to blame for that."""
    left = seconds
    while left > 0:
        step, begin = min(_STEP_SECONDS, left), time.monotonic()
        try:
            return process.wait(timeout=step)
        except subprocess.TimeoutExpired:
            left -= min(time.monotonic() - begin, 2 * step)
    return None


def _broken(code: int | None, seconds: float, *, is_loaded: bool) -> Unavailable:
    """Why a process gave no answer: what it was at when it ended, or did not end."""
    if code is None:
        return _too_long(seconds) if is_loaded else Unavailable(code=LOAD_TIMEOUT, reason=f"loading it took more than {seconds:g} s")
    at = "looked for devices" if is_loaded else "loaded it"
    return Unavailable(code=PROBE_CRASHED if is_loaded else LOAD_CRASHED, reason=f"the process that {at} {ending_of(code)}")


def _end_session(process: subprocess.Popen[bytes]) -> None:
    if hasattr(os, "killpg"):
        with suppress(ProcessLookupError, PermissionError):  # nobody of the session is left
            os.killpg(process.pid, signal.SIGKILL)
    elif process.poll() is None:
        process.kill()
    process.wait()


def _pair(value: list[int] | None) -> tuple[int, int] | None:
    return None if value is None else (value[0], value[1])


def ending_of(code: int) -> str:
    """How a process ended, in words that follow its name."""
    if code < 0:
        try:
            return f"was ended by {signal.Signals(-code).name}"
        except ValueError:
            return f"was ended by signal {-code}"
    return f"ended with exit code {code}"


def main(arguments: list[str]) -> int:
    """Writes the report of the backend whose entry point is named, of which several distributions may have one, into a file; 3 where there
    is none."""
    from zellige.plugin.registry import registry

    name, entry_point, file = arguments
    found = registry().only(name)
    with telling(file) as tell:
        tell(loaded=len(found.backends))
        reports = [r for r in found.reports(with_tools=True) if name in (r.name, r.origin)]
        report = next((r for r in reports if r.entry_point == entry_point), reports[0] if reports else None)
        if report is None:
            return 3
        tell(
            name=report.name,
            entry_point=report.entry_point,
            devices=[asdict(device) for device in report.devices],
            unavailable=None if report.unavailable is None else asdict(report.unavailable),
            traceback=report.traceback,
            tools=[asdict(tool) for tool in report.tools],
        )
    return 0


if __name__ == "__main__":
    os._exit(main(sys.argv[1:]))  # threads that a backend left running would hold the process
