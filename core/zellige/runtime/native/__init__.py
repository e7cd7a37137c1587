"""The quick way into a kernel: machine code that checks and packs a call's arguments, the same for all kernels and backends."""

from __future__ import annotations

from typing import Final

SLOW: Final = object()
"""What a quick launch returns where it leaves the call to Python."""
