"""What this machine's instructions offer for a product.

In: a product as the planner describes it, the capabilities, a host. Out: candidates and rejections: the units of the capabilities; each
other instruction of the family that takes the operands, with the reason why it does not serve; and, where only an emulation is left, what
would avoid it.
"""

from __future__ import annotations

from dataclasses import replace

from zellige.ir.stmt import Gemm
from zellige.plan.products import offers
from zellige.plugin.contract import Answer, Candidate, Capabilities, Operation, Rejection
from zellige_cpu.host import Host
from zellige_cpu.leaf.units import refusals


def product_offers(operation: Operation, capabilities: Capabilities, host: Host) -> tuple[Answer, ...]:
    """Every instruction of the family that takes the operands of a product, as a candidate or with the reason why not."""
    gemm = operation.statement
    assert isinstance(gemm, Gemm)
    others = refusals(host, gemm.a.buffer.dtype, gemm.b.buffer.dtype)
    remedies = [refused.remedy for refused in others if refused.remedy]
    answers = [
        replace(answer, avoided_by=" or ".join(way for way in (answer.avoided_by, *remedies) if way))
        if isinstance(answer, Candidate) and not answer.is_native
        else answer
        for answer in offers(gemm, capabilities)
    ]
    return (*answers, *(Rejection(name=refused.name, reason=refused.reason) for refused in others))
