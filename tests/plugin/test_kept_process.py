"""What belongs to the whole process stays as it was, whatever a backend's module or one of its hooks does to it, and whose doing it was is
said."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from broken_sources import backend, works

from zellige.diagnostics import ZelligeError
from zellige.plugin.guard import process_kept
from zellige.plugin.registry import Registry, registry

Install = Callable[..., Registry]

DISTURBANCES = {
    "import os; os.chdir('/')": "the working directory",
    "import numpy; numpy.seterr(all='raise')": "how NumPy handles errors",
    "import os; os.environ['HOME'] = '/nowhere'": "the variable HOME of the environment",
    "import os; del os.environ['HOME']": "the variable HOME of the environment",
    "import os; os.environ['ZELLIGE_TARGET'] = 'cpu'": "the variable ZELLIGE_TARGET of the environment",
    "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)": "the handler of SIGINT",
}
"""What a module or a hook does, and what it is called."""


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], tuple[object, ...]]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/of/the/test")
    return lambda: (os.getcwd(), np.geterr(), dict(os.environ), signal.getsignal(signal.SIGINT))


@pytest.mark.parametrize("does", DISTURBANCES)
@pytest.mark.parametrize("hook", ["describe(self, target)", "emit(self, planned, ctx)", "runtime(self)"])
def test_a_hook_that_changes_the_process_is_refused_and_it_is_as_it_was(
    hook: str, does: str, install: Install, state: Callable[[], tuple[object, ...]]
) -> None:
    name = hook.partition("(")[0]
    body = f"@hookimpl\ndef {hook}:\n    {does}\n    return AcmeBackend.{name}({hook.partition('(')[2]}"
    install({"fine": backend(""), "disturbs": backend(body)})
    before = state()
    with pytest.raises(ZelligeError) as caught:
        works("disturbs")
    assert caught.value.code == "E703"
    assert f"its hook {name} replaced {DISTURBANCES[does]}, which is not its own; that was undone" in str(caught.value)
    assert state() == before
    assert works("fine") and works("cpu")


@pytest.mark.parametrize("does", DISTURBANCES)
def test_a_module_that_changes_the_process_is_set_aside(does: str, install: Install, state: Callable[[], tuple[object, ...]]) -> None:
    before = state()
    (broken,) = install({"disturbs": f"{does}\n{backend('')}"}).quarantined
    assert broken.error.code == "E703"
    assert f"loading it replaced {DISTURBANCES[does]}, which is not its own; that was undone" in str(broken.error)
    assert state() == before


def test_a_hook_that_raises_leaves_the_process_as_it_was_too(install: Install, state: Callable[[], tuple[object, ...]]) -> None:
    before = state()
    install({"disturbs": backend("@hookimpl\ndef emit(self, planned):\n    import os\n    os.chdir('/')\n    raise OSError('no SDK')")})
    with pytest.raises(ZelligeError, match="in its hook emit: OSError: no SDK"):
        works("disturbs")
    assert state() == before


def test_a_variable_of_its_own_stays(install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    """A vendor's library may need one that nobody else reads."""
    monkeypatch.delenv("ACME_SDK", raising=False)
    body = "@hookimpl\ndef runtime(self):\n    import os\n    os.environ['ACME_SDK'] = '/opt'\n    return AcmeBackend.runtime(self)"
    install({"sets": backend(body)})
    assert works("sets") and os.environ["ACME_SDK"] == "/opt"
    monkeypatch.setenv("ACME_SDK", "")  # it goes with the test


def test_a_folder_that_is_gone_is_nobodys_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with process_kept() as replaced:
        os.chdir(tmp_path)
    assert replaced == []


def test_our_own_backends_pay_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zellige.plugin.handle.process_kept", lambda: pytest.fail("asked of one of our own"))
    assert registry().named("cpu").describe(registry().resolve("cpu")).target == "cpu"
