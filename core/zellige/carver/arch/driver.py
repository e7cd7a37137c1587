"""``driver.get_num_sms()``: how many blocks of a persistent kernel keep a machine busy.

In: nothing; the target is the one of ``with target:`` around, the process's, or what ``auto`` finds. Out: a number.
"""

from __future__ import annotations

from zellige.jit_options import JITOptions
from zellige.plugin.registry import registry

__all__ = ["get_num_sms"]


def get_num_sms(device_id: int = 0) -> int:
    """The processors of the target that take blocks at the same time: of a device its multiprocessors, of a host its cores.

    All devices of a target count as equal: ``device_id`` changes nothing. 1 where the target does not know.
    """
    target = registry().resolve(JITOptions().resolved_target())
    return max(1, registry().backend(target).describe(target).threads)
