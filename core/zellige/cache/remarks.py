"""Kernels on which the compiler has nothing to remark, known by their text.

In: a kernel. Out: whether an earlier process looked at the same text and found nothing (:func:`is_unremarkable`); a note that this one did
(:func:`note_unremarkable`). Kernels with remarks are looked at each time, since remarks name places in files.
"""

from __future__ import annotations

import hashlib

from zellige.cache.disk import store
from zellige.cache.process import memo
from zellige.cache.sources import CORE, source_digest
from zellige.ir.printer import text_of
from zellige.ir.stmt import Kernel

_NOTHING = b"nothing"


def is_unremarkable(kernel: Kernel) -> bool:
    """Whether it is known that there is nothing to remark."""
    return memo.is_enabled and store().find("remarks", _key(kernel)) == _NOTHING


def note_unremarkable(kernel: Kernel) -> None:
    """Keep that there was nothing to remark."""
    if memo.is_enabled:
        store().keep("remarks", _key(kernel), _NOTHING)


def _key(kernel: Kernel) -> str:
    return hashlib.sha256(f"remarks\n{source_digest(CORE, store())}\n{text_of(kernel)}".encode()).hexdigest()
