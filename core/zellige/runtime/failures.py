"""What a kernel's own checks raise while it runs, in one form for every backend.

In: the place of the statement in the kernel, what was found. Out: the error to raise.
"""

from __future__ import annotations

from collections.abc import Sequence

from zellige.diagnostics import Span, ZelligeError, catalogue


def failed_assertion(span: Span | None, message: str) -> ZelligeError:
    """E620 of an assertion with the author's message, which may be empty."""
    return catalogue.E620.error(span, message=f": {message}" if message else "")


def differing_regions(span: Span | None, left: Sequence[int], right: Sequence[int]) -> ZelligeError:
    """E640 of a tile operation whose regions have these extents."""
    return catalogue.E640.error(span, left=extents_text(left), right=extents_text(right))


def too_far(span: Span | None, name: str, offset: int, dtype: str) -> ZelligeError:
    """E621 of a loop whose offset in the tensor ``name`` is no number of its type, or lies before the tensor."""
    return catalogue.E621.error(span, name=name, offset=offset, dtype=dtype)


def extents_text(extents: Sequence[int]) -> str:
    """``3 x 4``; of a single element ``1``."""
    return " x ".join(map(str, extents)) or "1"
