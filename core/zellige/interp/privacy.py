"""What belongs to the points of a Map although it was made outside of it.

In: an outer variable or private buffer that the body changes, and the points' own values of it. Out: the outer one as it is after the Map:
an element or variable that exactly one point changed has that point's value, what several points changed is undefined. Points
come in chunks, in order; of several changes the last stays in storage, which nothing may rely on.
"""

from __future__ import annotations

import numpy as np

from zellige.elements.conversion import Array
from zellige.interp.frame import Frame, Place, is_per_point
from zellige.interp.masks import Mask
from zellige.interp.memory import Memory
from zellige.ir.expr import Var


class PrivateBuffer:
    """An outer buffer of a private space that a Map writes: every point works on a copy."""

    def __init__(self, place: Place) -> None:
        self.outer = place
        memory = place.memory
        self._before = memory.cells.copy().reshape(memory.copies, memory.copy_bytes)
        self._undefined = None if memory.undefined is None else memory.undefined.copy().reshape(memory.copies, -1)
        self._after = _split(self._before)
        self._writers = np.zeros(self._after.shape, np.int64)

    @property
    def facts_a_point(self) -> int:
        """How many half bytes one point's copy has."""
        return int(self._after.shape[1])

    def of_points(self, parents: Array) -> Place:
        """A copy for each point, with the content that its parent's had before the Map."""
        owners = self._owners(parents)
        memory = Memory(cells=self._before[owners].reshape(-1), copies=len(parents), copy_bytes=self.outer.memory.copy_bytes)
        memory.written = np.zeros(2 * memory.cells.size, bool)
        memory.undefined = None if self._undefined is None else self._undefined[owners].reshape(-1)
        return Place(memory=memory, copies=np.arange(len(parents)) if len(parents) > 1 else 0, layouts=self.outer.layouts)

    def collect(self, place: Place, parents: Array) -> None:
        """Take over what the points have written."""
        memory = place.memory
        if memory.written is None:
            return
        owners = self._owners(parents)
        start = np.flatnonzero(np.r_[True, owners[1:] != owners[:-1]])
        groups = owners[start]
        written = memory.written.reshape(len(parents), -1)
        last = np.maximum.reduceat(np.where(written, np.arange(len(parents))[:, None], -1), start, axis=0)
        halves = _split(memory.cells.reshape(len(parents), -1))
        found = np.take_along_axis(halves, np.maximum(last, 0), axis=0)
        self._after[groups] = np.where(last >= 0, found, self._after[groups])
        self._writers[groups] += np.add.reduceat(written.astype(np.int64), start, axis=0)
        if self._undefined is not None and memory.undefined is not None:
            missing = np.take_along_axis(memory.undefined.reshape(len(parents), -1), np.maximum(last, 0), axis=0)
            assert self.outer.memory.undefined is not None
            outer = self.outer.memory.undefined.reshape(self.outer.memory.copies, -1)
            outer[groups] = np.where(last >= 0, missing, outer[groups])

    def finish(self) -> None:
        """Bring the outer buffer up to date."""
        memory = self.outer.memory
        memory.cells[...] = (self._after[:, 0::2] | (self._after[:, 1::2] << np.uint8(4))).reshape(-1)
        if memory.undefined is not None:
            memory.undefined |= (self._writers > 1).reshape(-1)
        if memory.written is not None:
            memory.written |= (self._writers > 0).reshape(-1)

    def _owners(self, parents: Array) -> Array:
        copies = self.outer.copies
        return np.full(len(parents), copies) if isinstance(copies, int) else copies[parents]


def _split(cells: Array) -> Array:
    """Bytes as half bytes, low half first."""
    return np.stack([cells & np.uint8(0xF), cells >> np.uint8(4)], axis=-1).reshape(*cells.shape[:-1], -1)


class PrivateVariable:
    """An outer variable that the body of a Map assigns."""

    def __init__(self, var: Var, frame: Frame) -> None:
        self.var = var
        self._frame = frame
        lanes = (var.dtype.lanes,) if var.dtype.lanes > 1 else ()
        self._value = np.broadcast_to(frame.values[var], (frame.count, *lanes)).copy()
        self._writers = np.zeros(frame.count, np.int64)

    def collect(self, child: Frame, parents: Array) -> None:
        """Take over what the points have assigned."""
        flags = child.assignments.get(self.var)
        if flags is None:
            return
        value = child.values[self.var]
        values = value if is_per_point(value, self.var) else np.broadcast_to(value, (child.count, *value.shape))
        self._value[parents[flags]] = values[flags]
        np.add.at(self._writers, parents[flags], 1)

    def finish(self) -> None:
        """Give the outer variable its value."""
        frame = self._frame
        if self._writers.any():
            frame.values[self.var] = self._value if frame.count > 1 else self._value[0]
        if (self._writers > 1).any():
            frame.undefined_variables.add(self.var)
        if self.var in frame.assignments:  # an outer Map has the same question
            frame.assignments[self.var] |= self._writers > 0


def note_assignment(frame: Frame, var: Var, mask: Mask) -> None:
    """Remember which points assign an outer variable of the Map in work."""
    flags = frame.assignments.get(var)
    if flags is not None:
        flags |= mask
