"""Ctrl-C ends the process wherever it is; what a backend raises by itself ends nothing, whatever it is called."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from broken_sources import backend, copying, kernel, works

import zellige as zl
from zellige.diagnostics import ZelligeError
from zellige.plugin.interruption import is_from_outside
from zellige.plugin.registry import Registry

Install = Callable[..., Registry]

ENDS = ("KeyboardInterrupt", "SystemExit", "GeneratorExit")
PLACES: dict[str, tuple[str, str]] = {
    "load": ("raise {}('mine')", "E701"),
    "manifest": (backend("@hookimpl\ndef manifest(self): raise {}('mine')"), "E709"),
    "loading_unspeakably": ("class Odd(ValueError):\n    def __str__(self): raise {}('mine')\nraise Odd", "E701"),
    "unspeakable": (
        backend("@hookimpl\ndef emit(self, planned, ctx):\n    class Odd(ValueError):\n        def __str__(self): raise {}\n    raise Odd"),
        "E709",
    ),
    "unwritable": (
        backend(
            "@hookimpl\ndef describe(self, target):\n    class Odd:\n        def __repr__(self): raise {}\n"
            "    return replace(AcmeBackend.describe(self, target), lanes=Odd())"
        ),
        "E703",
    ),
    "describe": (backend("@hookimpl\ndef describe(self, target): raise {}('mine')"), "E709"),
    "emit": (backend("@hookimpl\ndef emit(self, planned, ctx): raise {}('mine')"), "E709"),
    "later": (backend("@hookimpl\ndef emit(self, planned, ctx):\n    try: 1 / 0\n    finally: raise {}('mine')"), "E709"),
    "launch": (kernel("def launch(self, p, s, z): raise {}('mine')"), "E709"),
    "packed": (kernel("def launch_packed(self, words): raise {}('mine')"), "E709"),
    "pass": (
        backend(
            "@hookimpl\ndef passes(self, stage, ctx):\n    @dataclass(frozen=True)\n    class Fall:\n        name: str = 'fall'\n"
            "        def __call__(self, value): raise {}('mine')\n    return (Insert(step=Fall()),) if stage == 'sync' else ()"
        ),
        "E718",
    ),
}
"""Where a backend raises it, and the code of the error that the user gets."""


def called(target: str) -> None:
    made = zl.compile(copying(), target=target)
    for _ in range(3):  # later calls go a shorter way
        made(np.ones((4, 8), np.float32), np.ones((4, 8), np.float32))


def test_what_a_backend_raises_is_its_failure(install: Install) -> None:
    found = {
        f"{place}_{kind.lower()}": (source.replace("{}", kind), code, kind)
        for place, (source, code) in PLACES.items()
        for kind in ENDS
    }  # fmt: skip
    install({"fine": backend(""), **{name: source for name, (source, _, _) in found.items()}})
    wrong = []
    for name, (_, code, kind) in found.items():
        with pytest.raises(ZelligeError) as caught:
            called(name)
        words = "text cannot be made" if name.startswith(("un", "loading_un")) else f"{kind}: mine"
        if caught.value.code != code or words not in str(caught.value):
            wrong.append(f"{name}: {caught.value}")
    assert not wrong, "\n\n".join(wrong)
    assert works("fine") and works("cpu")


WAITS = backend("@hookimpl\ndef emit(self, planned, ctx):\n    import os, time\n    print('waiting', os.getpid(), flush=True)\n    {}")
ASK = """
import os, sys
sys.path.append({sources!r})
from broken_sources import works
for name in {names!r}:
    child = os.fork()
    if child == 0:
        try:
            works(name)
        except BaseException as error:
            print(type(error).__name__, flush=True)
            raise
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""
"""Asks one backend after the other, each in a process of its own."""

CAUGHT = {
    "nothing": "time.sleep(60)",
    "a loop": "while True: pass",
    "raised again": "try: time.sleep(60)\n    except KeyboardInterrupt as error:\n        raise error",
    "in its place": "try: time.sleep(60)\n    except KeyboardInterrupt:\n        raise KeyboardInterrupt('stopped') from None",
    "another": "try: time.sleep(60)\n    except KeyboardInterrupt:\n        raise SystemExit(3)",
}
"""What a backend does with Ctrl-C while it works."""


def test_ctrl_c_ends_the_process_in_a_hook(install: Install) -> None:
    names = {f"waits{at}": does for at, does in enumerate(CAUGHT)}
    install({name: WAITS.replace("{}", CAUGHT[does].replace("\n", "\n    ")) for name, does in names.items()})
    program = ASK.format(sources=str(Path(__file__).parent / "sources"), names=list(names))
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert process.stdout is not None
    for does in names.values():
        waiting, child = process.stdout.readline().split()
        assert waiting == "waiting"
        time.sleep(0.2)  # the hook is at the next line; it would wait there as well
        os.kill(int(child), signal.SIGINT)
        ends = ("SystemExit", 3) if does == "another" else ("KeyboardInterrupt", -signal.SIGINT)
        assert (process.stdout.readline().strip(), int(process.stdout.readline())) == ends, does
    assert process.communicate(timeout=120)[0] == ""


def raised_by(function: Callable[[], object]) -> BaseException:
    with pytest.raises(BaseException) as caught:  # noqa: PT011 - any of them
        function()
    return caught.value


def test_a_handler_of_the_users_is_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(number: int, frame: object) -> None:
        raise TimeoutError("enough")

    before = signal.signal(signal.SIGUSR1, stop)
    try:
        assert is_from_outside(raised_by(lambda: signal.raise_signal(signal.SIGUSR1)))
    finally:
        signal.signal(signal.SIGUSR1, before)

    def fails() -> None:
        raise TimeoutError("enough")

    assert not is_from_outside(raised_by(fails))
    assert is_from_outside(raised_by(lambda: signal.raise_signal(signal.SIGINT)))
    assert not is_from_outside(raised_by(lambda: sys.exit(1)))
