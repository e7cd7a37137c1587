"""Plans of the planner with one statement changed: where the checks find nothing, the interpreter finds nothing either.

A mutant may be right by chance (two statements that commute, a wait that another one covers), and a wrong one may give the right bits by
chance (a copy made twice). What must not happen is a mutant that passes the checks and gives other bits."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from zellige.demo.kernels import causal_attention, pipelined_gemm
from zellige.generate.pipelines import pipeline_program
from zellige.generate.program import Program
from zellige.interp import interpret
from zellige.ir.expr import Binary, const
from zellige.ir.stmt import For, Kernel, Map
from zellige.ir.traverse import rebuilt, rewrite, walk
from zellige.plan.check import check
from zellige.plan.interpret import PlanFault, reference_kernel, run
from zellige.plan.invented_machines import TEST_TARGETS
from zellige.plan.nodes import Acquire, Get, PlannedKernel, Put, Release, Role, Slotted, Wait
from zellige.plan.planner import plan

SCHEDULES = 12
SYNCHRONISATION = (Acquire, Put, Get, Release, Wait)
MACHINES = ("lanes_async", "lanes_copies", "queues_cube", "local_only")


def with_role(planned: PlannedKernel, old: Role, new: Role) -> PlannedKernel:
    """The plan with another program of one role; what is said about full loops goes with loops that are gone."""
    launch = planned.launches[0]
    roles = tuple(new if role is old else role for role in launch.roles)
    present = {id(node) for role in roles for node in walk(role)}
    changes: dict[str, Any] = {"roles": roles}
    if any(id(loop) not in present for loop in launch.full_loops):
        changes.update(full_loops=(), choices=tuple(choice for choice in launch.choices if choice.edge != "partial"))
    return rebuilt(planned, launches=(rebuilt(launch, **changes),))


def bodies_of(role: Role) -> list[tuple[Any, str]]:
    found: list[tuple[Any, str]] = [(role, "body")]
    for statement in role.body:
        for node in walk(statement):
            found += [(node, name) for name in getattr(type(node), "BODIES", ()) if not isinstance(node, Map) and getattr(node, name)]
    return found


def mutant(planned: PlannedKernel, choose: random.Random) -> PlannedKernel | None:
    """The plan with one change in one body; None where the change chosen is not possible there."""
    role = choose.choice(planned.launches[0].roles)
    node, name = choose.choice(bodies_of(role))
    body = list(getattr(node, name))
    at = choose.randrange(len(body))
    match choose.choice(("swap", "drop", "repeat", "bound", "move", "move")):
        case "swap" if at + 1 < len(body):
            body[at], body[at + 1] = body[at + 1], body[at]
        case "drop":
            del body[at]
        case "repeat":
            body.insert(at, body[at])
        case "bound" if isinstance(body[at], For):
            which = choose.choice(("start", "stop"))
            moved = Binary(op=choose.choice(("add", "sub")), left=getattr(body[at], which), right=const(1, body[at].var.dtype))  # type: ignore[arg-type]
            body[at] = rebuilt(body[at], **{which: moved})
        case "move" if isinstance(body[at], SYNCHRONISATION):
            statement = body.pop(at)
            body.insert(choose.randrange(len(body) + 1), statement)
        case _:
            return None
    new = rebuilt(node, **{name: tuple(body)})
    return with_role(planned, role, new if node is role else rewrite(role, lambda one: new if one is node else one))


def tensors_after(arguments: list[Any], results: tuple[Any, ...]) -> list[bytes]:
    return [one.tobytes() for one in (*arguments, *results) if isinstance(one, np.ndarray)]


def is_seen(planned: PlannedKernel, program: Program, wanted: list[bytes]) -> bool:
    """Whether some schedule gives a fault or other bits."""
    for seed in range(SCHEDULES):
        arguments = program.copies()
        try:
            if tensors_after(arguments, run(planned, arguments, schedule_seed=seed).results) != wanted:
                return True
        except PlanFault:
            return True
    return False


def holes(seed: int, count: int) -> Iterator[str]:
    """Mutants of the plans of random programs that pass the checks and are seen by the interpreter."""
    choose = random.Random(seed)
    while count:
        number, target = choose.randrange(10_000), choose.choice(MACHINES)
        program = pipeline_program(number)
        planned = plan(program.kernel, TEST_TARGETS[target])
        if not planned.launches[0].channels:
            continue
        arguments = program.copies()
        wanted = tensors_after(arguments, interpret(reference_kernel(planned), arguments).results)
        for _ in range(min(4, count)):
            changed = mutant(planned, choose)
            if changed is not None:
                count -= 1
                if not check(changed, samples=2) and is_seen(changed, program, wanted):
                    yield f"program {number} on {target}"


@pytest.mark.parametrize("seed", range(4))
def test_what_the_checks_pass_is_right(seed: int) -> None:
    assert list(holes(seed, 12)) == []


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 120))
def test_what_the_checks_pass_is_right_many_times(seed: int) -> None:
    assert list(holes(seed, 60)) == []


def kernels() -> dict[str, Kernel]:
    product = pipelined_gemm(130, 70, 200, block_M=64, block_N=64, block_K=32, stages=4)
    return {"product": product.kernel, "attention": causal_attention(1, 1, 160, 16, block_M=64, block_N=32).kernel}


@pytest.mark.parametrize("target", ["lanes_async", "lanes_copies", "queues_cube"])
@pytest.mark.parametrize("name", ["product", "attention"])
def test_no_synchronisation_is_superfluous(name: str, target: str) -> None:
    """Each statement that orders something is needed: the checks find it when it is gone."""
    planned = plan(kernels()[name], TEST_TARGETS[target])
    assert check(planned) == ()
    for role in planned.launches[0].roles:
        statements = {id(node): node for node in walk(role) if isinstance(node, (*SYNCHRONISATION, Slotted))}
        for statement in statements.values():
            instead = statement.operation if isinstance(statement, Slotted) else ()
            changed = rewrite(role, lambda node: instead if node is statement else node)
            assert check(with_role(planned, role, changed)) != (), f"{role.name}: {statement}"
