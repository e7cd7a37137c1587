"""Operands of LLVM IR: registers and constants.

In: Python's numbers and names of registers. Out: :class:`Value`, text with its LLVM type. A constant's name is its literal, so it may stand
wherever a register may.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from zellige_cpu.types import element_of, literal, vector_type


class Value(NamedTuple):
    """An operand: its text (``%v7`` or a literal), its LLVM type, and how many lanes that type has."""

    name: str
    type: str
    lanes: int = 1

    @property
    def element(self) -> str:
        """The LLVM type of one lane."""
        return element_of(self.type)

    @property
    def is_constant(self) -> bool:
        return not self.name.startswith(("%", "@"))


def constant(element: str, value: bool | int | float, lanes: int = 1) -> Value:
    """``value`` in every lane."""
    text = literal(element, value)
    if lanes == 1:
        return Value(text, element, 1)
    return Value(f"splat ({element} {text})", vector_type(element, lanes), lanes)


def vector_constant(element: str, values: Sequence[bool | int | float]) -> Value:
    """A constant vector with one value a lane."""
    return Value("<" + ", ".join(f"{element} {literal(element, v)}" for v in values) + ">", vector_type(element, len(values)), len(values))


def undefined(llvm_type: str, lanes: int) -> Value:
    """A value of which nothing may be read."""
    return Value("poison", llvm_type, lanes)


def zero(element: str, lanes: int = 1) -> Value:
    """0 of an element type, or a vector of zeros."""
    return constant(element, 0, lanes)


TRUE: Final = constant("i1", True)
FALSE: Final = constant("i1", False)
