"""The version of the distribution, its only place: the build reads it from here; and when this process loaded it."""

import time

__version__ = "0.1.0"

LOADED_NS = time.time_ns()
"""When this process began to load the package: source that is younger may differ from what runs."""
