"""Names of the dialect that are wishes, about registers and about the launch after this one: they change no result, so kernels for any
target may hold them.

In: a kernel being traced. Out: nothing is added to it. How many registers each role of a kernel has is decided where plans are fitted
(decision 0007), from the role's own work. Launches of one stream run one after the other, whatever a kernel says of the next.
"""

from __future__ import annotations

from zellige.language.dialects import wish


def annotate_producer_reg_dealloc(reg_count: int = 24) -> None:
    """The wish that lanes which copy keep ``reg_count`` registers. E101 outside of a kernel, E245: no count."""
    wish("T.annotate_producer_reg_dealloc", reg_count=reg_count)


def annotate_consumer_reg_alloc(reg_count: int = 240) -> None:
    """The wish that lanes which multiply have ``reg_count`` registers. E101 outside of a kernel, E245: no count."""
    wish("T.annotate_consumer_reg_alloc", reg_count=reg_count)


def no_set_max_nreg() -> None:
    """The wish that all lanes have the same number of registers. E101 outside of a kernel."""
    wish("T.no_set_max_nreg")


def disable_warp_group_reg_alloc() -> None:
    """As :func:`no_set_max_nreg`."""
    wish("T.disable_warp_group_reg_alloc")


def pdl_trigger() -> None:
    """The wish that the launch after this one may begin: it begins when this one has ended. E101 outside of a kernel."""
    wish("T.pdl_trigger")


def pdl_sync() -> None:
    """Waits for the launch before this one, which has ended before this one begins. E101 outside of a kernel."""
    wish("T.pdl_sync")


__all__ = [
    "annotate_consumer_reg_alloc", "annotate_producer_reg_dealloc", "disable_warp_group_reg_alloc", "no_set_max_nreg", "pdl_sync",
    "pdl_trigger",
]  # fmt: skip
