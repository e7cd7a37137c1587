"""What belongs to the whole process stays as it was, whatever a backend's module or one of its hooks does to it, and whose doing it was is
said."""

from __future__ import annotations

import decimal
import io
import os
import signal
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from broken_sources import backend, works

from zellige.diagnostics import ZelligeError
from zellige.options import CompileOptions
from zellige.plugin import guard, handle as handle_module, nesting, python_settings
from zellige.plugin.contract import Unavailable
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
    "import signal; signal.alarm(3600)": "the alarm of the process",
}
"""What a module or a hook does, and what it is called."""

SETTINGS = {
    "import gc; gc.disable()": "whether garbage is collected",
    "import gc; gc.set_threshold(7, 7, 7)": "when garbage is collected",
    "import sys; sys.settrace(lambda *_: None)": "the function that traces (sys.settrace)",
    "import sys; sys.setprofile(lambda *_: None)": "the function that profiles (sys.setprofile)",
    "import sys; sys.setrecursionlimit(sys.getrecursionlimit() - 1)": "the limit of recursion",
    "import sys; sys.setswitchinterval(1)": "how often threads take turns",
    "import logging; logging.disable(logging.CRITICAL)": "which levels of logging are off",
    "import warnings; warnings.simplefilter('ignore')": "filters of warnings",
    "import warnings; warnings.simplefilter('ignore', DeprecationWarning)": "filters of warnings",
    "import warnings; warnings.resetwarnings()": "filters of warnings",
    "import sys; sys.excepthook = print": "sys.excepthook",
    "import sys; sys.unraisablehook = print": "sys.unraisablehook",
    "import sys; sys.displayhook = print": "sys.displayhook",
    "import threading; threading.excepthook = print": "threading.excepthook",
    "import warnings; warnings.showwarning = print": "warnings.showwarning",
    "import os; os.umask(0o777)": "the mask of new files",
    "import locale; locale.setlocale(locale.LC_ALL, 'C' if locale.setlocale(locale.LC_ALL) != 'C' else 'C.UTF-8')": "the locale",
    "import decimal; decimal.getcontext().prec = 3": "how decimal numbers are rounded",
}
"""The same of settings of Python's."""


HAS_OTHER_THREADS = guard._has_other_threads


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], tuple[object, ...]]:
    """As in a process without other threads; what runs tests in several processes has some."""
    monkeypatch.setattr(guard, "_has_other_threads", lambda: threading.current_thread() is not threading.main_thread())
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/of/the/test")
    alarm, handler = partial(signal.getitimer, signal.ITIMER_REAL), partial(signal.getsignal, signal.SIGINT)
    return lambda: (os.getcwd(), np.geterr(), dict(os.environ), handler(), alarm(), of_python())


def of_python() -> tuple[object, ...]:
    context = decimal.getcontext()
    settings = (*python_settings.OF_A_THREAD, *python_settings.SETTINGS)
    return (*(one.read() for one in settings), context.prec, context.rounding)


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


@pytest.mark.parametrize("does", SETTINGS)
def test_settings_of_python_are_as_they_were(does: str, state: Callable[[], tuple[object, ...]]) -> None:
    before = state()
    with process_kept() as replaced:
        exec(does, {})
        assert state() != before
    assert replaced == [SETTINGS[does]]
    assert state() == before


def test_a_debugger_that_was_begun_meanwhile_goes_on(state: Callable[[], tuple[object, ...]]) -> None:
    import bdb

    debugger = bdb.Bdb()
    debugger.reset()
    with process_kept() as replaced:
        sys.settrace(debugger.trace_dispatch)
    sys.settrace(None)
    assert replaced == []


def test_a_module_that_was_taken_apart_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    with process_kept() as replaced:
        monkeypatch.delattr(decimal, "getcontext")
    assert replaced == []


@pytest.mark.parametrize(
    "does, what",
    [
        ("import sys; del sys.excepthook", "sys.excepthook"),
        ("import sys, numpy; sys.displayhook = numpy.arange(3)", "sys.displayhook"),
        ("import sys; sys.excepthook = type('H', (), {'__eq__': lambda self, other: 1 / 0})()", "sys.excepthook"),
        ("import sys; from unittest.mock import ANY; sys.unraisablehook = ANY", "sys.unraisablehook"),
        ("import warnings; warnings.filters = None", "filters of warnings"),
        ("import warnings; del warnings.filters", "filters of warnings"),
        ("import warnings; warnings.filters.insert(0, ('ignore',))", "filters of warnings"),
        ("import warnings; warnings.filters.insert(0, ('ignore', None, 'UserWarning', None, 0))", "filters of warnings"),
    ],
)
def test_what_was_removed_or_cannot_be_compared_is_given_back(does: str, what: str, state: Callable[[], tuple[object, ...]]) -> None:
    before = state()
    with warnings.catch_warnings(), process_kept() as replaced:
        exec(does, {})
    assert replaced == [what]
    assert state() == before


def test_rounding_is_given_back_where_a_backend_is_the_first_to_load_decimal_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "decimal")
    with process_kept() as replaced:
        exec("import decimal; decimal.getcontext().prec = 3", {})
    assert replaced == ["how decimal numbers are rounded"]
    assert decimal.getcontext().prec == 28


def test_a_backend_that_sets_them_is_refused(install: Install, state: Callable[[], tuple[object, ...]]) -> None:
    before = state()
    does = "import gc, logging; gc.disable(); logging.disable()"
    body = f"@hookimpl\ndef emit(self, planned, ctx):\n    {does}\n    return AcmeBackend.emit(self, planned, ctx)"
    (broken,) = install({"disturbs": backend(body), "loads": f"{does}\n{backend('')}"}).quarantined
    replaced = "replaced whether garbage is collected, which levels of logging are off, which is not its own; that was undone"
    assert f"loading it {replaced}" in str(broken.error)
    with pytest.raises(ZelligeError, match=f"E703: .* its hook emit {replaced}"):
        works("disturbs")
    assert state() == before


def test_what_a_vendors_libraries_set_for_themselves_stays() -> None:
    """NumPy and torch filter warnings of their own when they are imported; others raise the limit of recursion."""
    does = [
        "import warnings\nclass Own(Warning): ...\nwarnings.simplefilter('ignore', Own)",
        "import warnings; warnings.filterwarnings('ignore', message='acme: ')",
        "import warnings; warnings.filterwarnings('ignore', module='acme')",
        "import sys; sys.setrecursionlimit(sys.getrecursionlimit() + 1)",
        "import decimal; decimal.Decimal(1) / 3",  # which is a flag of the context's
    ]
    limit = sys.getrecursionlimit()
    with warnings.catch_warnings():
        for one in does:
            with process_kept() as replaced:
                exec(one, {})
            assert replaced == []
        first = warnings.filters[0]
        warnings.simplefilter("error", BytesWarning)  # the user's
        with process_kept() as replaced:  # and once more, which puts it first
            exec(does[2], {})
        assert replaced == [] and warnings.filters[0] == first
        ours = list(warnings.filters)
        with process_kept() as replaced:
            exec(does[0] + "; warnings.simplefilter('ignore')", {})
        assert replaced == ["filters of warnings"]
        assert warnings.filters[1:] == ours and warnings.filters[0][2].__name__ == "Own"
    sys.setrecursionlimit(limit)


STREAMS = {
    "import io, sys; sys.stdout = io.StringIO()": "sys.stdout",
    "import sys; sys.stdout = None": "sys.stdout",
    "import sys; sys.stderr.close()": "sys.stderr by closing it",
    "import sys; sys.stdout.close(); sys.stderr.close()": "sys.stdout by closing it, sys.stderr by closing it",
    "import os, sys; os.close(sys.stdout.fileno())": "the file of sys.stdout",
    "import os, sys; os.dup2(sys.stderr.fileno(), sys.stdout.fileno())": "the file of sys.stdout",
}


@pytest.mark.parametrize("does", STREAMS)
@pytest.mark.parametrize("is_loading", [False, True])
def test_what_is_printed_arrives_where_it_did(
    is_loading: bool, does: str, install: Install, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hook = backend(f"@hookimpl\ndef emit(self, planned, ctx):\n    {does}\n    return AcmeBackend.emit(self, planned, ctx)")
    files = [tmp_path / name for name in ("stdout", "stderr")]
    with monkeypatch.context() as patch:
        for file in files:
            patch.setattr(sys, file.name, file.open("w", encoding="utf-8"))
        print("before", flush=True)
        install({"disturbs": f"{does}\n{backend('')}" if is_loading else hook})
        with pytest.raises(ZelligeError) as caught:
            works("disturbs")
        print("out", flush=True)
        print("error", file=sys.stderr, flush=True)
    who = "loading it" if is_loading else "its hook emit"
    assert caught.value.code == "E703" and f"{who} replaced {STREAMS[does]}, which is not its own; that was undone" in str(caught.value)
    assert [file.read_text(encoding="utf-8") for file in files] == ["before\nout\n", "error\n"]
    assert works("cpu")


def test_a_stream_without_a_file_that_is_closed_is_the_first_one(install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a notebook's: nothing leads to what it was."""
    install({"closes": backend("@hookimpl\ndef emit(self, planned):\n    import sys\n    sys.stdout.close()\n    raise OSError('no SDK')")})
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", io.StringIO())
        with pytest.raises(ZelligeError, match="in its hook emit: OSError: no SDK"):
            works("closes")
        assert sys.stdout is sys.__stdout__


def test_a_hook_that_raises_leaves_the_process_as_it_was_too(install: Install, state: Callable[[], tuple[object, ...]]) -> None:
    before = state()
    install({"disturbs": backend("@hookimpl\ndef emit(self, planned):\n    import os\n    os.chdir('/')\n    raise OSError('no SDK')")})
    with pytest.raises(ZelligeError, match="in its hook emit: OSError: no SDK"):
        works("disturbs")
    assert state() == before


def test_an_alarm_of_the_users_goes_on(install: Install) -> None:
    install({"fine": backend("")})
    signal.setitimer(signal.ITIMER_REAL, 3600)
    try:
        assert works("fine")
        assert 0 < signal.getitimer(signal.ITIMER_REAL)[0] < 3600
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def test_a_warning_that_a_backend_turns_into_an_error_is_its_failure(install: Install) -> None:
    turned = "import warnings; warnings.simplefilter('error'); warnings.warn('old card')"
    install({"strict": backend(f"@hookimpl\ndef emit(self, planned, ctx): {turned}")})
    before = list(warnings.filters)
    with pytest.raises(ZelligeError, match="the backend 'strict' raised in its hook emit: UserWarning: old card") as caught:
        works("strict")
    assert caught.value.code == "E709" and list(warnings.filters) == before
    assert works("cpu")


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


def test_what_the_users_own_thread_changes_meanwhile_is_his(install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    """And no fault of the backend's whose hook is running."""
    monkeypatch.setattr(guard, "_has_other_threads", HAS_OTHER_THREADS)
    gates = threading.Event(), threading.Event()
    monkeypatch.setattr(sys, "gates_of_the_test", gates, raising=False)
    body = "import sys\n    began, done = sys.gates_of_the_test\n    began.set()\n    assert done.wait(60)\n"
    install({"slow": backend(f"@hookimpl\ndef emit(self, planned, ctx):\n    {body}    return AcmeBackend.emit(self, planned, ctx)")})

    def user() -> None:
        assert gates[0].wait(60)
        os.chdir("/")
        os.environ["HOME"] = "/chosen"
        gates[1].set()

    thread = threading.Thread(target=user)
    thread.start()
    assert works("slow")
    thread.join()
    assert (os.getcwd(), os.environ["HOME"]) == ("/", "/chosen")


def test_a_process_without_other_threads_is_watched_and_zelliges_own_do_not_count() -> None:
    program = """
import os, threading
from zellige.plugin.guard import process_kept
from zellige.plugin.probing import waiting
def changed():
    with waiting("a test"), process_kept() as replaced:
        os.environ["PYTHON_TEST"] = "1"
    return bool(replaced)
first = changed()
over = threading.Event()
thread = threading.Thread(target=over.wait)
thread.start()
beside = changed()
over.set(); thread.join(); del os.environ["PYTHON_TEST"]
print(first, beside, changed())
def looking_on():
    return {one.ident for one in threading.enumerate() if one.name == "zellige-patience"}
seen = set()
for _ in range(3):
    with waiting("a test"):
        seen |= looking_on()
with waiting("a fork"):
    if (child := os.fork()) == 0:
        with waiting("the child"):
            os._exit(len(looking_on()))
print(len(seen), os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    done = subprocess.run([sys.executable, "-W", "ignore::DeprecationWarning", "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "False", "True", "1", "1"], "one thread looks at all that may take long; a child has its own"


@pytest.mark.parametrize("is_late", [False, True])
def test_a_probe_that_changes_the_process_is_not_available(is_late: bool, install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    wait = "import time; time.sleep(2)" if is_late else "pass"
    found = install({"wanders": backend(f"@hookimpl\ndef probe(self):\n    import os; os.chdir('/')\n    {wait}\n    return ()")})
    monkeypatch.setattr(handle_module, "PROBE_SECONDS", 0.5 if is_late else 600)
    before = os.getcwd()
    answer = found.named("wanders").devices
    assert isinstance(answer, Unavailable)
    assert "probe replaced the working directory, which is not its own; that was undone" in answer.reason
    assert os.getcwd() == before


def test_a_hook_that_asks_for_itself_on_new_threads_ends(install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nesting, "SECONDS_BEFORE", 0.1)
    body = (
        "asked = 0\n@hookimpl\ndef describe(self, target):\n    import threading\n    from zellige.plugin.registry import registry\n"
        "    type(self).asked += 1\n    assert self.asked < 200\n    raised = []\n"
        "    def ask():\n        try: registry().named(self.name).describe(target)\n"
        "        except Exception as error: raised.append(error)\n"
        "    thread = threading.Thread(target=ask)\n    thread.start()\n    thread.join()\n    raise raised[0]"
    )
    install({"spiral": backend(body)})
    with pytest.raises(ZelligeError, match="it is running 32 times at once, and none of them ends") as caught:
        works("spiral")
    assert caught.value.code == "E709"
    assert works("cpu")


def test_more_threads_than_may_run_at_once_wait_for_each_other(install: Install) -> None:
    found = install({"slow": backend("@hookimpl\ndef cache_key(self):\n    import time\n    time.sleep(0.01)\n    return 'key'")})
    handle, target = found.named("slow"), found.resolve("slow")
    ctx = handle.context(target, CompileOptions())
    with ThreadPoolExecutor(80) as pool:
        answers = [future.result() for future in [pool.submit(handle.cache_key, ctx) for _ in range(160)]]
    assert set(answers) == {"key"}
