"""Where trials run: in processes of their own, or in this one where a device belongs to it.

In: prepared kernels, arguments, a limit of time. Out: :class:`Measured`, or a :class:`TrialError` that says how the trial ended.
"""

from __future__ import annotations

import json
import os
import queue
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass
from multiprocessing import Pipe
from pathlib import Path
from time import monotonic
from typing import Any, Protocol, TypeVar

from zellige.autotune import exchange
from zellige.autotune.once import Request, compute, measured
from zellige.autotune.results import Outcome
from zellige.autotune.worker import options_text
from zellige.cache import memo
from zellige.ir.printer import print_kernel
from zellige.ir.stmt import ScalarParam
from zellige.kernel import JITKernel
from zellige.options import options, variable
from zellige.preparation import Prepared

_T = TypeVar("_T")


class TrialError(Exception):
    """A trial that gave no time: its outcome and the reason in words."""

    def __init__(self, outcome: Outcome, reason: str) -> None:
        super().__init__(reason)
        self.outcome = outcome
        self.reason = reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """The times of single runs in milliseconds and, where they are to be checked, the results of the first call as arrays."""

    times: tuple[float, ...]
    is_estimate: bool
    results: list[Any]


class Bench(Protocol):
    """Compiles and measures kernels, each known by a number. A kernel whose process has ended is compiled again."""

    def compile(self, number: int, prepared: Prepared, seconds: float) -> None: ...

    def measure(
        self, number: int, prepared: Prepared, inputs: Sequence[Any], request: Request, *, is_checked: bool, seconds: float
    ) -> Measured: ...

    def close(self) -> None: ...


class ProcessBench:
    """Trials in one other process, which is started when needed and ended when a trial takes too long."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._compiled: set[int] = set()
        memory = Path("/dev/shm")
        self._folder = Path(tempfile.mkdtemp(prefix="zellige-trial-", dir=memory if memory.is_dir() else None))

    def compile(self, number: int, prepared: Prepared, seconds: float) -> None:
        request = {
            "do": "compile",
            "number": number,
            "ir": print_kernel(prepared.kernel),
            "target": str(prepared.target),
            "options": options_text(prepared.options),
        }
        reply = self._ask(request, seconds, "compiling")
        if "error" in reply:
            raise TrialError("refused", reply["error"])
        self._compiled.add(number)

    def measure(
        self, number: int, prepared: Prepared, inputs: Sequence[Any], request: Request, *, is_checked: bool, seconds: float
    ) -> Measured:
        begin = monotonic()
        if self._process is None or number not in self._compiled:
            self.compile(number, prepared, seconds)
        declared = _declared_types(prepared)
        described = [
            exchange.write(value, self._folder / f"input{place}", declared[place] if place < len(declared) else None)
            for place, value in enumerate(inputs)
        ]
        asked = {
            "do": "measure",
            "number": number,
            "inputs": described,
            "folder": str(self._folder),
            "is_checked": is_checked,
            "request": asdict(request),
        }
        reply = self._ask(asked, seconds - (monotonic() - begin), "running")
        if "error" in reply:
            raise TrialError("failed", reply["error"])
        results = [exchange.read(result) for result in reply["results"]]
        return Measured(times=tuple(reply["times"]), is_estimate=reply["is_estimate"], results=results)

    def close(self) -> None:
        self._end()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _ask(self, request: dict[str, Any], seconds: float, doing: str) -> dict[str, Any]:
        """Send a request and wait for its answer. A process that ended or did not answer in time is gone afterwards."""
        process = self._process or self._start()
        try:
            self._connection.send_bytes(json.dumps(request).encode())
            if not self._connection.poll(max(seconds, 0.001)):
                self._end()
                raise TrialError("timeout", f"{doing} it did not end in time")
            reply: dict[str, Any] = json.loads(self._connection.recv_bytes())
        except (EOFError, ConnectionError):
            code = process.wait()
            self._end()
            how = f"signal {-code}" if code < 0 else f"code {code}"
            raise TrialError("crashed", f"{doing} it ended its process with {how}") from None
        return reply

    def _start(self) -> subprocess.Popen[bytes]:
        ours, theirs = Pipe()
        path = os.pathsep.join(entry for entry in sys.path if entry)
        with theirs:
            arguments = (theirs.fileno(), os.getpid(), str(self._folder))
            process = subprocess.Popen(
                [sys.executable, "-c", f"from zellige.autotune.worker import main; main{arguments}"],
                pass_fds=[theirs.fileno()],
                env={
                    **os.environ,
                    "PYTHONPATH": path,
                    variable("cache_enabled"): str(int(memo.is_enabled)),
                    variable("cache_dir"): str(options().cache_dir),
                },
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
            )
        self._connection, self._process = ours, process
        return process

    def _end(self) -> None:
        process, self._process = self._process, None
        self._compiled.clear()
        if process is not None:
            self._connection.close()
            process.kill()
            process.wait()


class LocalBench:
    """Trials in this process, for devices that only one process of a program uses. A trial that hangs keeps its thread."""

    def __init__(self) -> None:
        self._kernels: dict[int, JITKernel] = {}

    def compile(self, number: int, prepared: Prepared, seconds: float) -> None:
        self._kernels[number] = _within(prepared.compiled, seconds, "compiling", "refused")

    def measure(
        self, number: int, prepared: Prepared, inputs: Sequence[Any], request: Request, *, is_checked: bool, seconds: float
    ) -> Measured:
        begin = monotonic()
        if number not in self._kernels:
            self.compile(number, prepared, seconds)
        kernel = self._kernels[number]

        def run() -> Measured:
            own = [_copy(value) for value in inputs]
            results = compute(kernel, own)
            kept = [_copy(result) for result in results] if is_checked else []
            times, is_estimate = measured(kernel, own, request)
            return Measured(times=times, is_estimate=is_estimate, results=kept)

        return _within(run, seconds - (monotonic() - begin), "running", "failed")

    def close(self) -> None:
        self._kernels.clear()


def _within(work: Callable[[], _T], seconds: float, doing: str, outcome: Outcome) -> _T:
    """What ``work`` returns, if it does in time."""
    answers: queue.SimpleQueue[tuple[_T | None, Exception | None]] = queue.SimpleQueue()

    def run() -> None:
        try:
            answers.put((work(), None))
        except Exception as error:  # noqa: BLE001 - whatever a kernel raises is the result of its trial
            answers.put((None, error))

    threading.Thread(target=run, name="zellige-trial", daemon=True).start()
    try:
        value, error = answers.get(timeout=max(seconds, 0.001))
    except queue.Empty:
        raise TrialError("timeout", f"{doing} it did not end in time") from None
    if error is not None:
        raise TrialError(outcome, str(error) or type(error).__name__) from error
    return value  # type: ignore[return-value]


def _copy(value: Any) -> Any:
    if hasattr(value, "detach") and hasattr(value, "clone"):
        return value.detach().clone()
    return deepcopy(value)


def _declared_types(prepared: Prepared) -> list[str]:
    """The element types of what a caller passes, in order."""
    passed = (p for p in prepared.kernel.params if isinstance(p, ScalarParam) or p.role == "argument")
    return [p.var.dtype.name if isinstance(p, ScalarParam) else p.buffer.dtype.name for p in passed]
