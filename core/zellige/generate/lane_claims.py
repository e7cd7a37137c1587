"""What is said of lanes, held against what they do: each claim of :mod:`zellige.ir.lanes` is looked at whenever the interpreter comes by.

In: statements as the interpreter runs them, with the values that each lane has. Out: the claims that do not hold, in words: a value
that is said to be the same in all lanes and differs, a variable that some lanes only would be given, a store that not every lane repeats,
an operation of the block that some lanes do not reach or that would give something else in another lane.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from zellige.elements.conversion import Array
from zellige.interp.expressions import evaluate
from zellige.interp.frame import Frame, Run
from zellige.interp.masks import Mask, active_points
from zellige.interp.names import Names, names_of
from zellige.ir.expr import Expr, ExprNode
from zellige.ir.expression_printer import expression_text
from zellige.ir.lanes import PRIVATE, LaneDependence, is_collective, tile_regions
from zellige.ir.stmt import Assign, Bind, For, Map, Stmt, Store
from zellige.ir.traverse import walk


class LaneClaims:
    """An observer of the interpreter. ``broken`` says which claims did not hold, each once; ``looked`` counts those that were looked at."""

    def __init__(self) -> None:
        self.broken: dict[str, None] = {}
        self.looked = 0
        self._names: dict[int, Names] = {}
        self._expressions: dict[int, tuple[Expr, ...]] = {}

    def __call__(self, run: Run, frame: Frame, statement: Stmt, mask: Mask) -> None:
        if frame.kind != "lanes" or run.dependence is None:
            return
        lanes, dependence = active_points(mask, frame.count), run.dependence
        for claim, holds in self._claims(run, frame, statement, mask, lanes, dependence):
            self.looked += 1
            if not holds:
                self.broken.setdefault(f"{claim}: not so at a {type(statement).__name__}, {statement.span}")

    def _claims(
        self, run: Run, frame: Frame, statement: Stmt, mask: Mask, lanes: Array, dependence: LaneDependence
    ) -> Iterator[tuple[str, bool]]:
        is_whole = len(lanes) == frame.count
        for expression in self._own_expressions(statement):
            if not dependence.differs(expression):
                same = _is_same(evaluate(run, frame, expression, mask), frame.count, lanes, expression.dtype.lanes)
                yield f"{expression_text(expression)} is said to be the same in all lanes", same
        given = getattr(statement, "var" if isinstance(statement, (Bind, Assign)) else "result", None)
        if given is not None and not dependence.is_lane_dependent(given):
            value = getattr(statement, "value", None) if isinstance(statement, (Bind, Assign)) else None
            same = value is None or _is_same(evaluate(run, frame, value, mask), frame.count, lanes, value.dtype.lanes)
            yield f"{given.name} is said to be given one value by all lanes", is_whole and same
        if isinstance(statement, Store) and dependence.is_repeated(statement):
            parts = (*statement.indices, statement.value)
            same = all(_is_same(evaluate(run, frame, part, mask), frame.count, lanes, part.dtype.lanes) for part in parts)
            yield "a store is said to be made alike by all lanes", is_whole and same
        if not isinstance(statement, Map) and not tile_regions(statement):
            if is_collective(statement):
                yield "a statement of the block is said to be reached by all lanes", is_whole
        elif not dependence.is_private(statement):
            yield "an operation of the block is said to be reached by all lanes", is_whole
            yield from self._shared_names(frame, statement, lanes)

    def _own_expressions(self, statement: Stmt) -> tuple[Expr, ...]:
        """The expressions of a statement, with all under them; those of nested statements apart."""
        found = self._expressions.get(id(statement))
        if found is None:
            made = {*getattr(statement, "axes", ()), getattr(statement, "result", None)}
            if isinstance(statement, (Bind, For)):
                made.add(statement.var)
            nodes: list[Any] = [node for node in walk(statement, bodies=False) if isinstance(node, ExprNode) and node not in made]
            found = self._expressions[id(statement)] = tuple(nodes)
        return found

    def _shared_names(self, frame: Frame, statement: Stmt, lanes: Array) -> Iterator[tuple[str, bool]]:
        """What an operation of the block uses from around it: nothing of a lane's own, and only values that all lanes share."""
        names = self._names.get(id(statement))
        if names is None:
            names = self._names[id(statement)] = names_of(statement)
        for var in names.reads:
            same = _is_same(frame.values[var], frame.count, lanes, var.dtype.lanes)
            yield f"an operation of the block uses {var.name}", same
        for var in names.assigned:
            yield f"an operation of the block assigns {var.name}, which lanes have their own of", False
        roots = names.buffers if isinstance(statement, Map) else {region.buffer.root for region in tile_regions(statement)}
        for root in roots:
            if root.space in PRIVATE:
                yield f"an operation of the block uses {root.name}, which lanes have their own of", False


def _is_same(value: Array, count: int, lanes: Array, width: int) -> bool:
    """Whether the lanes have the same bits."""
    if value.ndim == (width > 1):
        return True
    rows = np.ascontiguousarray(value[lanes]).reshape(len(lanes), -1).view(np.uint8)
    return bool((rows == rows[:1]).all())
