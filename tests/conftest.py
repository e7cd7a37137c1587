"""Settings of all tests: property tests repeat exactly, and no test reads the developer's own environment."""

from __future__ import annotations

import os

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
