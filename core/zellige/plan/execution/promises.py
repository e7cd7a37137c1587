"""What a choice promises of a product and of the statements around it, kept to the letter: nothing that it says is not needed is there.

In: the choices of a launch, and each statement as it runs. Out: the promised way of running it. A backend may rely on each promise, so
the interpreter of plans does too, and a promise that the program does not allow gives other results.

- ``is_direct``: the tile of the operand holds nothing of use. What its copy reads is read when the copy stands there or when the product
  runs, as the schedule has it.
- ``fill``: the fill leaves the result undefined, and the first step of the product's loop begins at zero; a loop without steps fills.
- ``unread``: what the product makes of rows or columns beyond its tensors is undefined.
- ``out``: the last step of the loop writes the result to its tensor where all of it lies inside, and leaves the tile undefined.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import Protocol

import numpy as np

from zellige.elements.conversion import has_nan
from zellige.interp.frame import Frame, Run
from zellige.interp.regions import box_of, write_box
from zellige.interp.statements import run_body
from zellige.ir.expr import Buffer, Const, Expr, Region
from zellige.ir.stmt import Copy, Fill, For, Gemm, Stmt
from zellige.ir.traverse import rebuilt
from zellige.plan.direct import has_k_last, matrix_dimensions
from zellige.plan.facts import statements_in
from zellige.plan.nodes import Choice, PlannedLaunch
from zellige.records import dataclass


class Runner(Protocol):
    """What a promise asks of the role that runs its statements."""

    def integer(self, expression: Expr) -> int:
        """The value of an integer expression here and now."""
        ...

    def frame_of(self, statement: Stmt) -> Frame:
        """A frame in which the statement can run here and now."""
        ...


def undefine(run: Run, frame: Frame, region: Region) -> None:
    """Let a region hold nothing of use: NaN where its type has it, else ones."""
    dtype = region.buffer.dtype.scalar
    _set(run, frame, region, np.nan if dtype.is_float and has_nan(dtype) else 1)


def _set(run: Run, frame: Frame, region: Region, value: float) -> None:
    box = box_of(run, frame, region, True)
    dtype = box.buffer.dtype
    lanes = (dtype.lanes,) if dtype.lanes > 1 else ()
    write_box(run, frame, box, np.full((1, *box.extents, *lanes), value).astype(dtype.scalar.numpy), True)


@dataclass(slots=True, kw_only=True)
class Promises:
    """By the identity of statements: ``sources`` gives the copies that a product packs from, ``direct`` says which those are, ``filled``
    and ``stored`` the product that a fill or a copy belongs to, ``loops`` the products of a loop whose steps do more than multiply.

    ``read_late`` are the copies that their product still has to make, ``begun`` the products whose first step replaces their result,
    ``made`` the copies of results that are made.
    """

    choices: dict[int, Choice]
    sources: dict[int, list[Copy]]
    direct: set[int]
    filled: dict[int, Gemm]
    stored: dict[int, Gemm]
    loops: dict[int, list[Gemm]]
    read_late: dict[Buffer, Copy] = field(default_factory=dict)
    begun: set[int] = field(default_factory=set)
    made: set[int] = field(default_factory=set)

    @staticmethod
    def of(planned: PlannedLaunch) -> Promises:
        """The promises of a launch."""
        found = Promises(choices={}, sources={}, direct=set(), filled={}, stored={}, loops={})
        statements = list(statements_in(planned.launch.body, into_maps=False))
        for choice in planned.choices:
            gemm = choice.operation
            if not isinstance(gemm, Gemm):
                continue
            tiles = {at.buffer for at in choice.layouts if at.is_direct}
            found.choices[id(gemm)] = choice
            copies = [s for s in statements if isinstance(s, Copy) and s.dst.buffer.root in tiles]
            found.sources[id(gemm)] = copies
            found.direct.update(map(id, copies))
            if choice.fill is not None:
                found.filled[id(choice.fill)] = gemm
            if choice.out is not None:
                found.stored[id(choice.out)] = gemm
            if choice.fill is not None or choice.out is not None:
                for loop in statements:
                    if isinstance(loop, For) and any(inner is gemm for inner in loop.body):
                        found.loops.setdefault(id(loop), []).append(gemm)
        return found

    def perform(self, statement: Stmt, role: Runner, run: Run, timing: Callable[[], str]) -> bool:
        """Run the statement as promised; False where nothing is promised of it."""
        match statement:
            case Copy() if id(statement) in self.stored:
                return id(statement) in self.made
            case Copy() if id(statement) in self.direct:
                if timing() != "early":
                    undefine(run, role.frame_of(statement), statement.dst)
                    self.read_late[statement.dst.buffer.root] = statement
                    return True
                return False
            case Fill() if id(statement) in self.filled:
                gemm = self.filled[id(statement)]
                undefine(run, role.frame_of(statement), statement.dst)
                self.begun.add(id(gemm))
                if (out := self.choices[id(gemm)].out) is not None:
                    self.made.discard(id(out))
                return True
            case Gemm() if id(statement) in self.choices:
                self._multiply(statement, role, run)
                return True
            case _:
                return False

    def _multiply(self, gemm: Gemm, role: Runner, run: Run) -> None:
        choice = self.choices[id(gemm)]
        tiles = [region for region in (gemm.a, gemm.b) if any(at.is_direct and at.buffer is region.buffer.root for at in choice.layouts)]
        for region in tiles:
            copy = self.read_late.pop(region.buffer.root, None)
            if copy is not None:
                run_body(run, role.frame_of(copy), (copy,), True, None)
        if id(gemm) in self.begun:
            self.begun.discard(id(gemm))
            _set(run, role.frame_of(gemm), gemm.c, 0)
        run_body(run, role.frame_of(gemm), (gemm,), True, None)
        for region in tiles:
            undefine(run, role.frame_of(gemm), region)
        for name in choice.unread:
            self._forget_beyond(gemm, name, role, run)

    def _forget_beyond(self, gemm: Gemm, name: str, role: Runner, run: Run) -> None:
        """Undefine the rows (m) or columns (n) of the result that come of what lies beyond the operand's tensor."""
        operand, axis = ("a", gemm.c.buffer.rank - 2) if name == "m" else ("b", gemm.c.buffer.rank - 1)
        tile = (gemm.a if operand == "a" else gemm.b).buffer.root
        copy = next(s for s in self.sources[id(gemm)] if s.dst.buffer.root is tile)
        dimensions = matrix_dimensions(copy.src)
        if dimensions is None:
            return
        place = dimensions[0 if has_k_last(gemm, operand) else 1]
        left = max(0, role.integer(copy.src.buffer.shape[place]) - role.integer(copy.src.offsets[place]))
        room = role.integer(gemm.c.extents[axis]) - left
        if room > 0:
            dtype = gemm.c.offsets[axis].dtype
            offsets, extents = list(gemm.c.offsets), list(gemm.c.extents)
            offsets[axis] = Const(value=role.integer(gemm.c.offsets[axis]) + left, dtype=dtype)
            extents[axis] = Const(value=room, dtype=dtype)
            undefine(run, role.frame_of(gemm), rebuilt(gemm.c, offsets=tuple(offsets), extents=tuple(extents)))

    def after_loop(self, loop: For, role: Runner, run: Run) -> None:
        """A loop has ended: one without steps fills, the last step of another has written its result."""
        for gemm in self.loops.get(id(loop), ()):
            choice = self.choices[id(gemm)]
            if id(gemm) in self.begun and choice.fill is not None:
                self.begun.discard(id(gemm))
                run_body(run, role.frame_of(choice.fill), (choice.fill,), True, None)
            elif isinstance(choice.out, Copy) and self._is_inside(choice.out, role, run):
                run_body(run, role.frame_of(choice.out), (choice.out,), True, None)
                undefine(run, role.frame_of(gemm), gemm.c)
                self.made.add(id(choice.out))

    @staticmethod
    def _is_inside(copy: Copy, role: Runner, run: Run) -> bool:
        box = box_of(run, role.frame_of(copy), copy.dst, True)
        return all(int(s) >= 0 and int(s) + extent <= size for s, extent, size in zip(box.starts, box.extents, box.layout.shape))
