"""What a backend leaves in the process that the contract lets it leave: a vendor should know, since everybody who uses the backend has it.

In: the process before the backend is loaded. Out: a line of words for each thing that is there after its hooks were asked.
"""

from __future__ import annotations

import logging
import os
import random
import sys
import threading
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

from zellige.plugin.guard import Onlooker


class Remains:
    """The process as it is now. :meth:`since` says what has come since then."""

    def __init__(self) -> None:
        self._listed = _listed()
        self._held = _held()

    def since(self) -> Iterator[str]:
        """What is there now, and was not."""
        for what, entries in _listed().items():
            new = [entry for entry in entries if entry not in self._listed[what]]
            if new:
                yield f"{what}: {', '.join(new)}"
        yield from (what for what, value in _held().items() if value != self._held[what])


def _listed() -> dict[str, list[str]]:
    threads = [thread.name for thread in threading.enumerate() if not isinstance(thread, Onlooker)]
    return {
        "folders in sys.path": list(sys.path),
        "finders in sys.meta_path": [str(getattr(one, "__name__", type(one).__name__)) for one in sys.meta_path],
        "threads": threads,
        "variables of the environment": list(os.environ),
        "filters of warnings": [_filter(one) for one in warnings.filters],
        "handlers of the root logger": [type(one).__name__ for one in logging.root.handlers],
    }


def _filter(entry: Any) -> str:
    action, message, category, module, _ = entry
    words = [getattr(one, "pattern", one) for one in (message, module) if one is not None]
    return " ".join(map(str, (action, category.__name__, *words)))


def _held() -> dict[str, str]:
    return {
        "a higher limit of recursion": str(sys.getrecursionlimit()),
        "random numbers of Python's that were drawn or seeded": repr(random.getstate()),
        "random numbers of NumPy's that were drawn or seeded": repr([part.tolist() for part in map(np.asarray, np.random.get_state())]),
        "the level of the root logger": str(logging.root.level),
        "how NumPy prints": repr(np.get_printoptions()),
    }
