"""The version of the distribution, its only place: the build reads it from here; and when this process loaded it."""

import os
import time

__version__ = "0.1.0"

LOADED_NS = time.time_ns()
"""When this process began to load the package: source that is younger may differ from what runs."""


def changed_ns(status: os.stat_result) -> int:
    """When a file or folder changed last, in ns: as it says itself or as the system saw it, whichever is later. Who copies, unpacks or
    links files may give them any time, an older one than those had that were there; the system's time of change nobody sets."""
    return max(status.st_mtime_ns, status.st_ctime_ns)
