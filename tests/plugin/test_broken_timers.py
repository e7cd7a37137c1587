"""Timers, cache flushes and inspections of backends: each measures its own target only, and what it gets wrong is said with its hook."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from broken_sources import backend, works

import zellige as zl
import zellige.language as T
from zellige.diagnostics import ZelligeError
from zellige.plugin.registry import Registry
from zellige.profiler import do_bench, measure

Install = Callable[..., Registry]

DEVICE = "@hookimpl\ndef probe(self): return (contract.Device(name='card', index=0, target=self.name),)\n"

TIMERS: dict[str, tuple[str, str, str]] = {
    "negative": ("lambda run, repeats, before: [-1.0] * repeats", "E703", "answered the time -1.0, expected a list of 1 times"),
    "nan": ("lambda run, repeats, before: [float('nan')] * repeats", "E703", "answered the time nan"),
    "endless": ("lambda run, repeats, before: [float('inf')] * repeats", "E703", "answered the time inf"),
    "few": ("lambda run, repeats, before: []", "E703", "answered 0 times, expected a list of 1 times in milliseconds"),
    "texts": ("lambda run, repeats, before: ['x'] * repeats", "E703", "answered the time 'x'"),
    "flags": ("lambda run, repeats, before: [True] * repeats", "E703", "answered the time True"),
    "nothing": ("lambda run, repeats, before: None", "E703", "answered None"),
    "lazy": ("lambda run, repeats, before: (yield 1.0)", "E703", "is a generator, which does nothing when it is called"),
    "later": ("later", "E703", "is a coroutine, which does nothing when it is called"),
    "arity": ("lambda run: [1.0]", "E703", "cannot be called as arity(run, repeats, before): too many positional arguments"),
    "divides": ("lambda run, repeats, before: 1 / 0", "E709", "(the timer divides): ZeroDivisionError: division by zero"),
    "exits": ("lambda run, repeats, before: sys.exit(3)", "E709", "(the timer exits): SystemExit: 3"),
}
"""Functions with the code and the words that they are refused with."""

GOOD = "lambda run, repeats, before: [(before(), run(), 7.0)[-1] for _ in range(repeats)]"


def timing(functions: dict[str, str], more: str = "") -> str:
    listed = ", ".join(f"{name!r}: {text}" for name, text in functions.items())
    manifest = f"@hookimpl\ndef manifest(self): return replace(AcmeBackend.manifest(self), timers={tuple(functions)!r})\n"
    body = f"{DEVICE}{manifest}@hookimpl\ndef timers(self): return {{{listed}}}\n{more}"
    return f"import sys\nfrom dataclasses import replace\nasync def later(run, repeats, before): return [1.0]\n{backend(body)}"


@T.prim_func
def doubling(A: T.Tensor((16,), "float32"), B: T.Tensor((16,), "float32")):
    with T.Kernel(1):
        for i in T.Parallel(16):
            B[i] = A[i] * 2.0


def timed(target: str, timer: str, **request: Any) -> Any:
    profiler = zl.compile(doubling, target=target).get_profiler()
    return profiler.do_bench(backend=timer, n_warmup=1, n_repeat=1, cache=request.pop("cache", "warm"), **request)


def test_a_timer_that_cannot_be_is_said_with_its_hook(install: Install) -> None:
    install({f"slow_{name}": timing({name: function}) for name, (function, _, _) in TIMERS.items()})
    wrong = []
    for name, (_, code, words) in TIMERS.items():
        with pytest.raises(ZelligeError) as caught:
            timed(f"slow_{name}", name)
        said = str(caught.value)
        if caught.value.code != code or words not in said or f"'slow_{name}'" not in said or "hook timers" not in said:
            wrong.append(f"{name}: expected {code} with {words!r}, got {said[:500]}")
    assert not wrong, "\n".join(wrong)
    assert works("cpu")


def test_a_timer_measures_the_targets_of_its_backend_alone(install: Install) -> None:
    install({"watch": timing({"event": GOOD, "wall": GOOD, "mine": GOOD})})
    assert [timed("watch", timer) for timer in ("event", "wall", "mine")] == [7.0] * 3
    assert all(timed("cpu", timer) != 7.0 for timer in ("event", "wall"))
    with pytest.raises(ZelligeError, match="there is no timer 'mine' for the target cpu") as caught:
        timed("cpu", "mine")
    assert caught.value.code == "E630" and "mine belongs to watch" in caught.value.hint
    with pytest.raises(ZelligeError, match="there is no timer 'nosuch' for the target watch"):
        timed("watch", "nosuch")
    assert do_bench(lambda: None, backend="event", device="cpu", cache="warm") != 7.0


def test_what_is_timed_may_fail(install: Install) -> None:
    swallowing = "lambda run, repeats, before: [(swallow(run), 7.0)[-1] for _ in range(repeats)]"
    more = "def unused(self): pass\n"
    source = timing({"mine": GOOD, "deaf": swallowing}, more)
    install({"watch": f"def swallow(run):\n    try: run()\n    except BaseException: pass\n{source}"})

    class Mine(Exception):
        pass

    def fails(*_: object) -> None:
        raise Mine("my own")

    profiler = zl.compile(doubling, target="watch").get_profiler()
    for timer in ("mine", "deaf"):
        with pytest.raises(Mine, match="my own"):
            profiler.do_bench(fails, backend=timer, n_warmup=1, n_repeat=1, cache="warm")


FLUSHES: dict[str, tuple[str, str, str]] = {
    "raises": ("size_bytes = 8\ndef __call__(self): raise OSError('flush')", "E709", "hook cache_flush: OSError: flush"),
    "negative": ("size_bytes = -5\ndef __call__(self): pass", "E703", "has -5 for size_bytes, expected a number of bytes"),
    "opens_nothing": ("size_bytes = 8\ndef __call__(self): pass\ndef __enter__(self): return None", "E703", "opens as None"),
    "closes_badly": ("size_bytes = 8\ndef __call__(self): pass\ndef __exit__(self, *e): 1 / 0", "E709", "ZeroDivisionError"),
}


def test_a_flush_that_cannot_be_is_said_with_its_hook(install: Install) -> None:
    usual = "def __enter__(self): return self\ndef __exit__(self, *exception): pass\n"
    sources = {}
    for name, (body, _, _) in FLUSHES.items():
        lines = "".join(f"        {line}\n" for line in (usual + body).splitlines())
        hook = f"@hookimpl\ndef cache_flush(self, size_bytes):\n    class Flush:\n{lines}    return Flush()\n"
        sources[f"flush_{name}"] = timing({"mine": GOOD}, hook)
    install(sources)
    for name, (_, code, words) in FLUSHES.items():
        with pytest.raises(ZelligeError, match=re.escape(words)) as caught:
            timed(f"flush_{name}", "mine", cache="cold")
        assert caught.value.code == code and f"'flush_{name}'" in str(caught.value) and "hook cache_flush" in str(caught.value)


INSPECTIONS: dict[str, tuple[str, str, str]] = {
    "divides": ("lambda kernel: 1 / 0", "E709", "(the method divides): ZeroDivisionError"),
    "exits": ("lambda kernel: sys.exit(3)", "E709", "(the method exits): SystemExit: 3"),
    "lazy": ("lambda kernel: (yield 1)", "E703", "is a generator"),
    "arity": ("lambda: 1", "E703", "cannot be called as arity(kernel)"),
    "reads": ("lambda kernel: open('/nowhere/of/mine')", "E709", "FileNotFoundError"),
}


def test_an_inspection_that_fails_is_said_with_its_hook(install: Install, tmp_path: Path) -> None:
    def inspecting(functions: dict[str, str]) -> str:
        listed = ", ".join(f"{name!r}: {text}" for name, text in functions.items())
        manifest = f"@hookimpl\ndef manifest(self): return replace(AcmeBackend.manifest(self), inspections={tuple(functions)!r})\n"
        body = f"{manifest}@hookimpl\ndef inspections(self): return {{{listed}}}\n"
        return f"import sys\nfrom dataclasses import replace\n{backend(body)}"

    good = {"export": "lambda kernel, file: open(file, 'w').write('x')", "answers": "lambda kernel: 5"}
    install({f"look_{name}": inspecting({name: function}) for name, (function, _, _) in INSPECTIONS.items()} | {"look": inspecting(good)})
    for name, (_, code, words) in INSPECTIONS.items():
        with pytest.raises(ZelligeError, match=re.escape(words)) as caught:
            getattr(zl.compile(doubling, target=f"look_{name}"), name)()
        assert caught.value.code == code and f"'look_{name}'" in str(caught.value) and "hook inspections" in str(caught.value)
    made = zl.compile(doubling, target="look")
    assert made.answers() == 5
    assert made.export(str(tmp_path / "file")) == 1
    with pytest.raises(FileNotFoundError):  # the user's own file
        made.export(str(tmp_path / "no" / "file"))
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'file'"):
        made.export()


def test_the_hosts_clock_is_its_own(install: Install) -> None:
    install({"watch": timing({"wall": "lambda run, repeats, before: [9.0] * repeats"})})
    runs: list[int] = []
    measured = measure(lambda: runs.append(1), timer="wall", device="cpu", cache="warm", n_warmup=1, n_repeat=2)
    assert runs and set(measured.times) != {9.0}
    assert np.isfinite(measured.times).all()


def test_without_a_device_a_timer_is_the_only_accelerators(install: Install) -> None:
    """Never that of whoever comes first: another backend's clock need not tell of this function at all."""
    event = timing({"event": GOOD, "mine": GOOD})
    of_the_host = event.replace("timers=(", "kind='host', framework_devices=('thing',), timers=(")
    install({"first": of_the_host})
    asked: dict[str, Any] = {"cache": "warm", "n_warmup": 1, "n_repeat": 1}
    assert measure(lambda: None, **asked).times != (7.0,)
    assert measure(lambda: None, timer="mine", **asked).times == measure(lambda: None, device="thing", **asked).times == (7.0,)
    install({"second": event})
    assert measure(lambda: None, **asked).times == (7.0,)
    install({"third": event})
    for more in ({}, {"device": "cpu", "timer": "mine"}, {"timer": "mine"}):
        with pytest.raises(ZelligeError, match="each of .*second, third has one of that name and works here; give device=") as caught:
            measure(lambda: None, **asked, **more)
        assert caught.value.code == "E636"
    assert timed("third", "event") == 7.0
