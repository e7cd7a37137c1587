"""Trials of earlier sessions, so that tuning that was interrupted goes on and tuning that is repeated costs nothing.

In: what the times depend on (:func:`session_key`), trials by the key of their program. Out: the trials made before under the same
conditions. A session is a file of lines, each one trial; a line is written when its trial ends. A line that cannot be read is skipped,
and one that was cut short is ended before the next.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, get_args

from zellige.autotune.results import Outcome
from zellige.cache.disk import TUNING
from zellige.log import logger

_OUTCOMES: Final = get_args(Outcome)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """What is kept of a trial; the configuration is the caller's to know."""

    outcome: Outcome
    latency: float | None
    reason: str = ""


def session_key(parts: Iterable[str]) -> str:
    """A name for everything that times depend on beside the program: machine, arguments, how is measured and checked."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


class Journal:
    """The trials of one session key. Without a folder nothing is kept."""

    def __init__(self, folder: Path | None, key: str) -> None:
        self._path = None if folder is None else folder / TUNING / f"{key}.jsonl"
        self._entries: dict[str, Entry] = {}
        self._is_torn = False
        if self._path is not None:
            try:
                text = self._path.read_text(encoding="utf-8", errors="replace")
            except OSError:
                text = ""
            lines = text.splitlines()
            self._is_torn = bool(text) and not text.endswith("\n")
            for line in lines:
                self._take(line)

    def find(self, program: str) -> Entry | None:
        return self._entries.get(program)

    def keep(self, program: str, entry: Entry) -> None:
        """Add a trial; a folder that cannot be written is told once and then left alone."""
        self._entries[program] = entry
        if self._path is None:
            return
        line = json.dumps({"program": program, "outcome": entry.outcome, "latency": entry.latency, "reason": entry.reason})
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
            with os.fdopen(descriptor, "ab", buffering=0) as file:
                file.write(f"{chr(10) if self._is_torn else ''}{line}\n".encode())
                self._is_torn = False
        except OSError as error:
            logger().warning("tuning results are not kept: %s", error)
            self._path = None

    def _take(self, line: str) -> None:
        try:
            read = json.loads(line)
            entry = Entry(outcome=read["outcome"], latency=read["latency"], reason=read["reason"])
            program = read["program"]
        except (ValueError, KeyError, TypeError, RecursionError):
            return
        has_time = isinstance(entry.latency, float) and entry.latency > 0
        if isinstance(program, str) and entry.outcome in _OUTCOMES and has_time == (entry.outcome == "measured"):
            self._entries[program] = entry
