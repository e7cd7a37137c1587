"""What the verifier knows while it walks a kernel: scopes, open bodies, active reducers, the diagnostics so far.

In: a kernel. The rules in the sibling modules ask and report here. Bodies are walked with an explicit stack of
:class:`Frame`, so that neither long ``elif`` chains nor deep nesting use Python's own stack.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from zellige.diagnostics import Diagnostic, Span, catalogue
from zellige.diagnostics.error import Code
from zellige.ir.expr import Buffer, Var
from zellige.ir.stmt import Kernel, Launch, ReduceOp, Stmt

CODE_OF: Final[dict[int, Code]] = {
    1: catalogue.E262, 2: catalogue.E263, 3: catalogue.E271,
    4: catalogue.E278, 5: catalogue.E264, 6: catalogue.E268, 7: catalogue.E279, 8: catalogue.E265, 9: catalogue.E266,
    10: catalogue.E266, 11: catalogue.E278, 12: catalogue.E277,
    13: catalogue.E276, 14: catalogue.E276, 15: catalogue.E276, 16: catalogue.E276, 17: catalogue.E276,
    18: catalogue.E264, 19: catalogue.E267, 20: catalogue.E268, 21: catalogue.E269, 22: catalogue.E278, 23: catalogue.E276,
    24: catalogue.E270, 25: catalogue.E270, 26: catalogue.E272, 27: catalogue.E273, 28: catalogue.E274, 29: catalogue.E274,
    30: catalogue.E275, 31: catalogue.E279,
}  # fmt: skip
"""The code under which a broken invariant is reported."""


_WORDS: Final = {
    "AtomicTile": "an atomic update of a tile",
    "Barrier": "a barrier",
    "Copy": "T.copy",
    "Fill": "T.fill",
    "Gemm": "T.gemm",
    "Map": "T.Parallel",
    "Reduce": "a reduction",
    "ReducerFinalize": "T.finalize_reducer",
    "ReducerInit": "the start of a reducer",
    "Scan": "a running sum or maximum",
    "Shuffle": "a shuffle",
    "Transpose": "T.transpose",
    "Vote": "a vote",
}


def word(statement: object) -> str:
    """What an author calls a statement."""
    name = type(statement).__name__
    return _WORDS.get(name, name.lower())


class Frame:
    """A body that is being walked. ``opened`` and ``verified`` are what leaves the scope when it ends; ``branches_from`` is the body around
    the If that it is a branch of."""

    __slots__ = ("body", "branches_from", "depth", "in_loop", "in_map", "index", "opened", "reducers", "verified")

    def __init__(
        self, body: tuple[Stmt, ...], *, depth: int, in_loop: bool, in_map: bool, branches_from: Frame | None = None
    ) -> None:
        self.body = body
        self.index = 0
        self.depth = depth
        self.in_loop = in_loop  # a Break here has a loop to leave
        self.in_map = in_map
        self.branches_from = branches_from
        self.opened: list[int] = []
        self.verified: list[int] = []
        self.reducers: list[tuple[Buffer, Span | None]] = []  # that this body initialises


class Context:
    """The state of one run of the verifier over one kernel."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.diagnostics: list[Diagnostic] = []
        self.visible: set[int] = set()
        self.declared: set[int] = set()
        self.verified: set[int] = set()  # expressions known to be right while the frame that checked them is open
        self.frame = Frame((), depth=0, in_loop=False, in_map=False)
        self.has_unchecked_nodes = False  # of the wrong sort, or too deep to be looked at: no analysis may look into the launch
        self.reducers: dict[int, tuple[ReduceOp, Frame]] = {}  # by id of the root buffer
        self.launch: Launch | None = None
        self.launch_buffers: set[int] = set()  # ids of the buffers allocated anywhere in the launch at hand
        self.span: Span | None = kernel.span  # of the statement at hand, for expressions that have none

    def report(self, invariant: int, span: Span | None, detail: str) -> None:
        """Adds a diagnostic: ``detail`` in the user's words, under the code of the invariant."""
        found = CODE_OF[invariant].diagnose(span or self.span, detail=detail, invariant=invariant)
        self.diagnostics.append(replace(found, invariant=invariant))

    def declare(self, name: Var | Buffer, what: str) -> None:
        """Brings a variable or buffer into the scope of the frame at hand."""
        key = id(name)
        if key in self.declared:
            self.report(2, name.span, f"{what} {name.name} is declared a second time")
        self.declared.add(key)
        if isinstance(name, Buffer):
            self.launch_buffers.add(key)
        if key not in self.visible:
            self.visible.add(key)
            self.frame.opened.append(key)

    def open(self, frame: Frame, names: Iterable[tuple[Var, str]] = ()) -> None:
        """Makes ``frame`` the one at hand, with ``names`` in its scope."""
        self.frame = frame
        for var, what in names:
            self.declare(var, what)

    def close(self, frame: Frame) -> None:
        """Ends the scope of ``frame``."""
        for buffer, span in frame.reducers:
            held = self.reducers.get(id(buffer.root))
            if held is not None and held[1] is frame:
                del self.reducers[id(buffer.root)]
                self.report(30, span, f"reducer {buffer.label} is never finalized in the body that starts it")
        self.visible.difference_update(frame.opened)
        self.verified.difference_update(frame.verified)

    def mark_verified(self, key: int) -> bool:
        """Remembers that the node with this id has been checked in the scope at hand; False when it had been already."""
        if key in self.verified:
            return False
        self.verified.add(key)
        self.frame.verified.append(key)
        return True
