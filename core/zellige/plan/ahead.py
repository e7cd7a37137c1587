"""How the copy of a loop with stages overlaps with the work of the loop: asked of the target's backend, ranked, told.

In: a copy in a pipelined loop, the path that executes it, a machine. Out: :class:`Overlap`. What the capabilities offer is the copy by an
asynchronous path that one of their synchronisations waits for, and where there is none the copy in its turn, an emulation: whoever wrote
the loop asked for stages. A backend sees these answers (``Operation.offered``) and gives its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from zellige.diagnostics import catalogue
from zellige.ir.expr import Buffer
from zellige.ir.stmt import Copy, For, Pipelined
from zellige.plan.candidates import Best, best, described, emulation_note
from zellige.plan.capabilities import Machine
from zellige.plan.draft import Decisions
from zellige.plan.facts import LaunchFacts
from zellige.plan.spaces import choose_path, space_of
from zellige.plugin.choices import Answer, Candidate, Operation, Rejection
from zellige.plugin.contract import CopyPath, Space, Synchronisation
from zellige.records import dataclass

IN_TURN: Final = "in its turn"
"""The candidate of a copy that nothing overlaps: an emulation, made when its iteration comes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlap:
    """What was taken for a copy. ``wait``: it is issued ahead by ``path``, and this waits for it. None: it is made in its turn, and
    ``mechanism`` says by what its elements are asked for before (empty: by nothing)."""

    copy: Copy
    path: CopyPath
    taken: Best
    wait: Synchronisation | None
    mechanism: str

    @property
    def because(self) -> str:
        """The reason, with what would need no emulation."""
        return self.taken.candidate.because + emulation_note(self.taken.candidate)


def overlap_of(
    copy: Copy, loop: For, facts: LaunchFacts, spaces: dict[Buffer, Space], machine: Machine, *, is_packed: bool = False
) -> Overlap:
    """The best of what is offered. ``is_packed``: a product packs its operand straight from what the copy reads. E420 where the backend
    offers nothing, E703 where it offers what cannot be."""
    path, rejected = choose_path(copy, facts, spaces, machine)
    operation = described(copy, facts.launch, spaces=(space_of(copy.src, spaces, machine), space_of(copy.dst, spaces, machine)))
    operation = replace(
        operation,
        kind="pipeline",
        features=(*operation.features, "packed") if is_packed else operation.features,
        stages=loop.kind.stages if isinstance(loop.kind, Pipelined) else 0,
        offered=_offered(operation.spaces, path, rejected, machine),
    )
    answers = None if machine.ask is None else machine.ask(operation)
    taken = best(operation, operation.offered if answers is None else answers, machine)
    if answers is not None:
        _check(operation, taken.candidate, path, machine)
    candidate = taken.candidate
    return Overlap(copy=copy, path=path, taken=taken, wait=candidate.synchronisation, mechanism=candidate.mechanism)


def _offered(
    spaces: tuple[str, ...], path: CopyPath, rejected: Sequence[tuple[str, str]], machine: Machine
) -> tuple[Answer, ...]:
    """What the capabilities offer for a copy by ``path``."""
    answers: list[Answer] = [Rejection(name=name, reason=reason) for name, reason in rejected]
    waits = machine.waits if path.is_asynchronous else ()
    answers += [
        Candidate(
            name=f"{path.mechanism} with {wait.mechanism}", because=f"it runs beside the block, on the engine {path.engine}",
            path=path, synchronisation=wait,
        )
        for wait in waits
    ]  # fmt: skip
    if path.is_asynchronous and not waits:
        answers.append(Rejection(name=path.mechanism, reason="is asynchronous, and the target has nothing that waits for it"))
    source, destination = spaces
    because = f"no asynchronous copy leads to {destination}"
    if path.is_asynchronous:
        because = f"nothing waits for the {path.mechanism}"
    elif rejected:
        because = "; ".join(f"the {mechanism} {why}" for mechanism, why in rejected)
    way = f"an asynchronous copy from {source} to {destination}, and what waits for it"
    if rejected:
        way = f"a copy that suits the {rejected[0][0]}"
    return (*answers, Candidate(name=IN_TURN, because=because, is_native=False, avoided_by=way))


def _check(operation: Operation, candidate: Candidate, path: CopyPath, machine: Machine) -> None:
    """E703 for a candidate that cannot overlap the copy."""
    wait, wrong = candidate.synchronisation, ""
    if candidate.path is not None and candidate.path != path:
        wrong = f"it issues the copy by {candidate.path.mechanism}, and what executes it is {path.mechanism}"
    elif candidate.path is not None and wait is None:
        wrong = f"it issues the copy by {path.mechanism}, and names nothing that waits for it"
    elif wait is not None and not path.is_asynchronous:
        wrong = f"{wait.mechanism} has nothing to wait for: {path.mechanism}, which executes the copy, is not asynchronous"
    elif wait is not None and wait not in machine.waits:
        known = ", ".join(one.mechanism for one in machine.waits) or "none"
        wrong = f"{wait.mechanism} of the scope {wait.scope} is none of what waits for copies on this target ({known})"
    if wrong:
        reason = f"its candidate {candidate.name} of the hook candidates cannot overlap the {operation.text}: {wrong}"
        raise catalogue.E703.error(name=machine.name, reason=reason)


def tell(overlap: Overlap, decisions: Decisions) -> None:
    """Says how a copy overlaps with its loop."""
    candidate, path = overlap.taken.candidate, overlap.path
    if overlap.wait is not None:
        chosen = f"issued ahead by {path.mechanism}, waited for by {overlap.wait.mechanism}"
    else:
        chosen = candidate.name
    label = "" if candidate.is_native else " (emulated)"
    decisions.take(
        f"how does the copy to {overlap.copy.dst.buffer.name} overlap with its loop?", f"{chosen}{label}", overlap.because,
        rejected=overlap.taken.rejected, where=overlap.copy.span,
    )  # fmt: skip
