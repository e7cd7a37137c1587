"""What a target calls its memory decides nothing: spaces are known by their roles."""

# mypy: ignore-errors

from __future__ import annotations

from dataclasses import replace

import pytest

from zellige.demo import kernels
from zellige.plan.invented_machines import TEST_TARGETS
from zellige.plan.planner import plan


def renamed(machine, name):
    """The machine, whose memory for tensors is called otherwise."""
    spaces = tuple(replace(space, name=name, role="global") if space.name == "global" else space for space in machine.spaces)
    ends = ("source", "destination")
    copies = tuple(replace(path, **{end: name for end in ends if getattr(path, end) == "global"}) for path in machine.copies)
    return replace(machine, spaces=spaces, copies=copies)


@pytest.mark.parametrize("name", TEST_TARGETS)
@pytest.mark.parametrize("is_attention", [False, True])
def test_the_memory_of_tensors_may_have_any_name(name, is_attention):
    made = kernels.causal_attention(1, 2, 512, 64) if is_attention else kernels.pipelined_gemm(512, 512, 512)
    machine, kernel = TEST_TARGETS[name], made.kernel
    known, other = (plan(kernel, target).launches[0] for target in (machine, renamed(machine, "gm")))
    for one, two in zip(known.choices, other.choices, strict=True):
        assert (one.executor, one.mechanism, one.is_native) == (two.executor, two.mechanism, two.is_native)
    assert len(known.channels) == len(other.channels)
    ways = [[d.because for d in launch.decisions if d.question.startswith("how is")] for launch in (known, other)]
    assert [way.replace(" global", " gm") for way in ways[0]] == ways[1]


@pytest.mark.parametrize("name", TEST_TARGETS)
def test_operations_are_described_with_the_names_of_the_target(name):
    """Products alone are asked about before it is decided where their operands lie."""
    machine, asked = renamed(TEST_TARGETS[name], "gm"), []
    plan(kernels.causal_attention(1, 2, 512, 64).kernel, machine, ask=lambda operation: asked.append(operation))
    kinds = {operation.kind for operation in asked}
    assert kinds >= {"copy", "fill", "reduce", "gemm"}
    known = {space.name for space in machine.spaces}
    for operation in asked:
        assert operation.kind == "gemm" or known.issuperset(operation.spaces), operation
    assert any("gm" in operation.spaces for operation in asked)
