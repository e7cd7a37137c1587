"""Settings of all tests: property tests repeat exactly, and no test reads the developer's own environment."""

from __future__ import annotations

import atexit
import importlib
import importlib.util
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import HealthCheck, settings

# The same examples in every run, so that a failure in one place is a failure in all; `-m slow` tests choose more of them.
settings.register_profile(
    "repeatable",
    deadline=None,
    derandomize=True,
    database=None,
    max_examples=50,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("repeatable")

for _name in [name for name in os.environ if name.startswith("ZELLIGE_")]:
    del os.environ[_name]

# What is printed has the same width and no colours, whatever the terminal is that the tests run in.
os.environ.update(COLUMNS="80", TERM="xterm")
for _name in ("COLORTERM", "FORCE_COLOR", "NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
    os.environ.pop(_name, None)

# Kernels that several tests compile are compiled once in a run, into a folder that goes with it.
os.environ["ZELLIGE_CACHE_DIR"] = tempfile.mkdtemp(prefix="zellige-tests-")
atexit.register(shutil.rmtree, os.environ["ZELLIGE_CACHE_DIR"], ignore_errors=True)

# Processes that tests start find byte code as a user's do. Where nobody wants it in the tree it lies in a folder of the run's, the same for
# all its workers: without any, such a process would spend more than half of its time on compiling the package.
BYTECODE = "BYTECODE_OF_THESE_TESTS"
if "PYTHONDONTWRITEBYTECODE" in os.environ and BYTECODE not in os.environ:
    os.environ[BYTECODE] = tempfile.mkdtemp(prefix="zellige-bytecode-")
    atexit.register(shutil.rmtree, os.environ[BYTECODE], ignore_errors=True)


def _own_settings() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name.startswith("ZELLIGE_")}


@pytest.fixture(autouse=True)
def settings_end_with_the_test() -> Iterator[None]:
    """What a test sets for the package is not there for the next one: an example run in this process sets its target."""
    before = _own_settings()
    yield
    for name in _own_settings():
        del os.environ[name]
    os.environ.update(before)
    if (read := sys.modules.get("zellige.options")) is not None:
        read.options.cache_clear()


@pytest.fixture(scope="session", autouse=True)
def bytecode_of_what_tests_start() -> Iterator[None]:
    """What tests start writes its byte code into the folder of the run, also where this process writes none."""
    with pytest.MonkeyPatch.context() as patch:
        if "PYTHONDONTWRITEBYTECODE" in os.environ:
            patch.delenv("PYTHONDONTWRITEBYTECODE")
            patch.setenv("PYTHONPYCACHEPREFIX", os.environ[BYTECODE])
        yield


def pytest_configure(config: pytest.Config) -> None:
    """Backends of other packages that are installed where the tests run are not there for this process, nor are their packages taken for
    names: a test announces those that it asks about. That holds before tests are collected, since kernels in them ask for targets."""
    from zellige.plugin import installed
    from zellige.plugin.contract import ENTRY_POINT_GROUP

    points = installed.installed_points
    others = [one for one in points(ENTRY_POINT_GROUP) if one.distribution != installed.OWN_DISTRIBUTION]
    if not others:
        return
    strangers = {one.distribution: installed._folder_of(one.distribution) for one in others}
    packages = {one.point.value.partition(":")[0].partition(".")[0] for one in others}
    module, writer = map(importlib.import_module, ("zellige.plugin.registry", "zellige.cli.new_backend"))
    find, found = importlib.util.find_spec, "installed_points"

    def is_announced(name: str) -> bool:
        return name not in strangers or installed._folder_of(name) != strangers[name]

    patch = pytest.MonkeyPatch()
    config.add_cleanup(patch.undo)
    patch.setattr(module, found, lambda *asked: [one for one in points(*asked) if is_announced(one.distribution)])
    patch.setattr(writer, "find_spec", lambda name: None if name in packages else find(name))


@pytest.fixture(scope="session")
def forget() -> Callable[[], None]:
    """What makes this process like a new one: nothing compiled, no backend asked, settings unread."""
    from zellige.cache import memo, recall
    from zellige.options import options
    from zellige.plugin.registry import registry

    def forgotten() -> None:
        memo.clear()
        registry.cache_clear()
        options.cache_clear()
        recall._conditions.cache_clear()

    return forgotten


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forget: Callable[[], None]) -> Iterator[Path]:
    """The folder of a cache of the test's own: it finds nothing that was made before, and leaves nothing that is found later."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("ZELLIGE_CACHE_DIR", str(folder))
    forget()
    yield folder
    monkeypatch.undo()
    forget()


@pytest.fixture
def asked_anew(own_cache: Path) -> None:
    """Backends that say something else in this test alone: what follows from earlier answers is not found, nor what follows from these."""


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own_cache: Path) -> Iterator[Path]:
    """A folder that packages are installed in for the test, in this process and those that it starts."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setenv("PYTHONPATH", str(folder))
    yield folder
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", None)).startswith(f"{folder}{os.sep}"):
            del sys.modules[name]


@pytest.fixture(scope="session")
def announce() -> Callable[..., Path]:
    """What an installer writes down of a distribution with entry points: ``announce(folder, name, points)``."""

    def announced(folder: Path, name: str, points: str, version: str = "1.0", more: str = "") -> Path:
        info = folder / f"{name.replace('-', '_')}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{more}", encoding="utf-8")
        (info / "entry_points.txt").write_text(f"[zellige.backends]\n{points}", encoding="utf-8")
        return info

    return announced


@pytest.fixture(scope="session")
def load_example() -> Iterator[Callable[..., ModuleType]]:
    """Loads an example as its own module, with its folder importable as when it runs as a script: ``load_example(name)``. What runs it on
    another target than the usual one gives a word for a module of its own, since kernels are kept with the target that they were first
    called on."""
    folder = Path(__file__).parents[1] / "examples"
    sys.path.insert(0, str(folder))
    loaded: list[str] = []

    def load(name: str, whose: str = "") -> ModuleType:
        module_name = f"example_{name}{whose}"
        if module_name not in sys.modules:
            spec = importlib.util.spec_from_file_location(module_name, folder / f"{name}.py")
            assert spec is not None and spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            sys.modules[module_name] = module
            loaded.append(module_name)
            spec.loader.exec_module(module)
        return sys.modules[module_name]

    yield load
    sys.path.remove(str(folder))
    for name in [*loaded, "_harness", "_bounds"]:
        sys.modules.pop(name, None)
