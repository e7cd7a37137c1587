"""Looking for a backend's devices without letting it hold up or take down the process.

In: a question that may hang, raise, or end the interpreter. Out: its answer, or why there is none: :func:`within_seconds` asks on a thread
that is left behind, :func:`report_isolated` loads and asks the backend of one entry point in a process of its own. As a program
(``python -m zellige.plugin.probing NAME``) it is that process, and writes what it found as JSON.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import asdict
from typing import Any, Final

from zellige.options import variable
from zellige.plugin.contract import BackendReport, Device, Unavailable

ISOLATE: Final = variable("isolate_probes")
"""The setting that asks for processes of their own, which such a process does not ask for again."""

_MARK: Final = "zellige-report:"
"""Begins the line with the answer; what a backend prints by itself stands on other lines."""


def within_seconds(ask: Callable[[], object], seconds: float, name: str) -> object:
    """What ``ask`` answers. :class:`Unavailable` where it raises or takes longer; its thread is then left to itself."""
    answer: list[object] = []

    def on_thread() -> None:
        try:
            answer.append(ask())
        except (Exception, SystemExit) as error:  # noqa: BLE001 - a stranger's code on another thread: whatever it raises is its answer
            answer.append(Unavailable(code="probe-failed", reason=f"looking for devices failed: {error}"))

    worker = threading.Thread(target=on_thread, name=f"zellige-probe-{name}", daemon=True)
    worker.start()
    worker.join(seconds)
    return answer[0] if answer else _too_long(seconds)


def _too_long(seconds: float) -> Unavailable:
    return Unavailable(code="probe-timeout", reason=f"looking for devices took more than {seconds:g} s")


def report_isolated(name: str, entry_point: str, seconds: float) -> BackendReport:
    """What the backend of the entry point ``name`` says of itself in a process of its own. A process that dies or hangs is its answer."""
    command = [sys.executable, "-m", __name__, name]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=seconds, stdin=subprocess.DEVNULL, env={**os.environ, ISOLATE: "0"}
        )
    except subprocess.TimeoutExpired:
        return BackendReport(name=name, entry_point=entry_point, manifest=None, unavailable=_too_long(seconds), origin=name)
    line = next((line for line in done.stdout.splitlines() if line.startswith(_MARK)), None)
    if line is None:
        reason = f"the process that loaded it and looked for devices {_ending(done.returncode)}"
        broken = Unavailable(code="probe-crashed", reason=reason)
        said = done.stderr.strip()
        return BackendReport(name=name, entry_point=entry_point, manifest=None, unavailable=broken, traceback=said, origin=name)
    data: dict[str, Any] = json.loads(line[len(_MARK) :])
    missing = data["unavailable"]
    return BackendReport(
        name=data["name"],
        entry_point=data["entry_point"],
        manifest=None,
        devices=tuple(Device(**{**d, "compute_version": _pair(d["compute_version"])}) for d in data["devices"]),
        unavailable=None if missing is None else Unavailable(**missing),
        traceback=data["traceback"],
        origin=name,
    )


def _pair(value: list[int] | None) -> tuple[int, int] | None:
    return None if value is None else (value[0], value[1])


def _ending(code: int) -> str:
    if code < 0:
        try:
            return f"was ended by {signal.Signals(-code).name}"
        except ValueError:
            return f"was ended by signal {-code}"
    return f"ended with exit code {code}"


def main(arguments: list[str]) -> int:
    """Writes the report of the backend whose entry point is named; 3 where there is none."""
    from zellige.plugin.registry import registry

    (name,) = arguments
    report = next((r for r in registry().only(name).reports() if name in (r.name, r.origin)), None)
    if report is None:
        return 3
    data = {
        "name": report.name,
        "entry_point": report.entry_point,
        "devices": [asdict(device) for device in report.devices],
        "unavailable": None if report.unavailable is None else asdict(report.unavailable),
        "traceback": report.traceback,
    }
    print(_MARK + json.dumps(data), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
