"""Looking for programs on which a target is wrong: generate, run apart, shrink, write down.

In: a first seed, how many, targets, a folder. Out: a :class:`Failure` for each program that something is wrong with, its small form in a
``.tile`` file with the arguments beside it. Each program runs in a process of its own, so that the death of one is a result.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from zellige.diagnostics import InternalError, ZelligeError
from zellige.driver import fitted_for, legalise
from zellige.generate.comparison import Problem, check_program
from zellige.generate.isolation import isolated
from zellige.generate.kernels import Flavour, generate_seeded
from zellige.generate.program import Program
from zellige.generate.shrink import shrink
from zellige.ir.expr import INT32, Buffer, Var, const
from zellige.ir.stmt import Kernel, Launch, Store, TensorParam
from zellige.options import CompileOptions
from zellige.plugin.registry import registry

SECONDS = 60.0
"""The longest that one program may take."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """What went wrong with the program of ``seed``, and the program, shrunk where that was asked for."""

    seed: int
    problem: Problem
    program: Program

    @property
    def title(self) -> str:
        """The problem's first line."""
        return f"seed {self.seed}: {self.problem}".splitlines()[0]


def first_problem(program: Program, targets: Sequence[str], *, is_thorough: bool = True) -> Problem | None:
    """The first thing that is wrong with a program, run apart; the end of its process is one, of the kind "ended"."""
    ending = isolated(lambda: check_program(program, targets, is_thorough=is_thorough), seconds=SECONDS)
    if ending.failure:
        kind = "raised" if ending.failure.endswith(")") else "ended"
        return Problem(kind=kind, detail=ending.failure)
    return ending.value[0] if ending.value else None


def is_same(problem: Problem | None, wanted: Problem) -> bool:
    """Whether two problems are of one kind; of those that raised or refused, with the same first words."""
    if problem is None:
        return False
    if wanted.kind.startswith("target") and problem.kind == "ended":
        return True  # what a wrong access does to the process is chance
    if problem.kind != wanted.kind:
        return False
    is_message = problem.kind == "raised" or problem.kind.startswith("refused")
    return not is_message or problem.detail[:60] == wanted.detail[:60]


def run_campaign(
    first: int, count: int, targets: Sequence[str], *, flavour: Flavour = "any", shrinks: bool = True, folder: Path | None = None
) -> Iterator[Failure]:
    """Try the programs of ``count`` seeds. With a ``folder`` every failure is written to it as ``fuzz-SEED.tile``."""
    load(targets)
    for seed in range(first, first + count):
        failure = try_seed(seed, targets, flavour=flavour, shrinks=shrinks)
        if failure is not None:
            if folder is not None:
                folder.mkdir(parents=True, exist_ok=True)
                failure.program.save(folder / f"fuzz-{seed}.tile", str(failure.problem))
            yield failure


def load(targets: Sequence[str]) -> None:
    """Load the compiler for ``targets`` here and now, which each program's process would else do for itself: half of its time."""
    var = Var(name="cell", dtype=INT32, kind="grid")
    buffer = Buffer(name="A", dtype=INT32, shape=(const(1),), space="global")
    launch = Launch(grid_vars=(var,), grid=(const(1),), body=(Store(buffer=buffer, indices=(var,), value=var),))
    kernel = Kernel(name="smallest", params=(TensorParam(buffer=buffer, role="argument"),), launches=(launch,))
    for name in targets:
        with suppress(ZelligeError, InternalError):  # what the target refuses is said of each program
            target = registry().resolve(name)
            handle = registry().backend(target)
            ctx = handle.context(target, CompileOptions())
            handle.compile_kernel(fitted_for(legalise(kernel, target), ctx), ctx)  # not by way of the cache, which would load nothing


def try_seed(seed: int, targets: Sequence[str], *, flavour: Flavour = "any", shrinks: bool = True) -> Failure | None:
    """The failure of one seed, None where everything agrees."""
    program = generate_seeded(seed, flavour=flavour)
    problem = first_problem(program, targets)
    if problem is None:
        return None
    if shrinks:
        program = minimal(program, problem, targets)
        problem = first_problem(program, targets) or problem
    return Failure(seed=seed, problem=problem, program=program)


def minimal(program: Program, problem: Problem, targets: Sequence[str]) -> Program:
    """A small program with the same kind of problem."""
    is_reference = not (problem.kind.startswith(("target", "stages", "refused")) or problem.kind in ("raised", "ended"))
    return shrink(program, lambda candidate: is_same(first_problem(candidate, targets, is_thorough=is_reference), problem))
