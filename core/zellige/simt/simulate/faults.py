"""What a thread-level program did wrong, as errors with the user's line and the lanes.

In: a statement and what was found about lanes and cells of memory. Out: an error to raise (E650 to E658).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from zellige.diagnostics import Span, ZelligeError, catalogue


def lanes_text(lanes: Iterable[int]) -> str:
    """Numbers of lanes of a block in words: runs of neighbours as ranges, at most four of them."""
    numbers = sorted({int(lane) for lane in lanes})
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    parts = [str(a) if a == b else f"{a} to {b}" for a, b in runs[:4]]
    more = ", ..." if len(runs) > 4 else ""
    return f"{'lane' if len(numbers) == 1 else 'lanes'} {', '.join(parts)}{more}"


def place_text(span: Span | None) -> str:
    """A line of the user's program, for the second place of a fault."""
    return "a line that is not known" if span is None else f"line {span.line} of {span.file}"


def outside(span: Span | None, name: str, indices: Any, extent: int, lanes: Any) -> ZelligeError:
    """An element that its buffer does not have."""
    first = int(np.asarray(indices).ravel()[0])
    return catalogue.E650.error(span, buffer=name, index=first, extent=extent, lanes=lanes_text(lanes))


def undefined(span: Span | None, name: str, byte: int, lanes: Any) -> ZelligeError:
    """An element that nobody has written."""
    return catalogue.E651.error(span, buffer=name, byte=byte, lanes=lanes_text(lanes))


def undefined_register(span: Span | None, name: str, number: int, lanes: Any) -> ZelligeError:
    """A register that the lane has not written."""
    return catalogue.E658.error(span, buffer=name, number=number, lanes=lanes_text(lanes))


_BLOCKS_DO_NOT_WAIT = (
    "blocks do not wait for each other, also where all write the same: give each block elements of its own, or use atomics"
)


def race(
    span: Span | None, name: str, byte: int, what: str, lanes: Any, other: int, other_span: Span | None,
    blocks: tuple[int, int] | None = None,
) -> ZelligeError:  # fmt: skip
    """Two lanes at one element without an order between them; ``blocks`` are the numbers of theirs where they are of two blocks."""
    who, mine, hint = "the copy engine" if other < 0 else f"lane {other}", lanes_text(lanes), None
    if blocks is not None:
        who, mine, hint = f"{who} of block {blocks[1]}", f"{mine} of block {blocks[0]}", _BLOCKS_DO_NOT_WAIT
    return catalogue.E652.error(span, hint=hint, buffer=name, byte=byte, what=what, lanes=mine, other=who, place=place_text(other_span))


def misaligned(span: Span | None, name: str, size: int, address: int, lanes: Any) -> ZelligeError:
    """A wide access at no multiple of its size."""
    return catalogue.E653.error(span, buffer=name, size=size, address=address, lanes=lanes_text(lanes))


def stuck(span: Span | None, reasons: Iterable[str]) -> ZelligeError:
    """No warp can go on."""
    return catalogue.E654.error(span, reasons="; ".join(reasons))


def parted(span: Span | None, what: str, lanes: Any) -> ZelligeError:
    """A statement of lanes together that some of them do not reach."""
    return catalogue.E655.error(span, what=what, lanes=lanes_text(lanes))


def in_flight(span: Span | None, name: str, byte: int, lanes: Any, other_span: Span | None) -> ZelligeError:
    """Memory touched while a copy to it has not been waited for."""
    return catalogue.E656.error(span, buffer=name, byte=byte, lanes=lanes_text(lanes), place=place_text(other_span))


def misused(span: Span | None, what: str) -> ZelligeError:
    """A barrier or group used against its meaning."""
    return catalogue.E657.error(span, what=what)
