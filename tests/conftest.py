"""Settings of all tests: property tests repeat exactly, and no test reads the developer's own environment."""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator

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

# Kernels that several tests compile are compiled once in a run, into a folder that goes with it.
os.environ["ZELLIGE_CACHE_DIR"] = tempfile.mkdtemp(prefix="zellige-tests-")
atexit.register(shutil.rmtree, os.environ["ZELLIGE_CACHE_DIR"], ignore_errors=True)


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
