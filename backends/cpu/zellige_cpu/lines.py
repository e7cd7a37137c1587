"""Lines of LLVM IR: instructions of one function that touch no memory and call nothing.

In: calls of :class:`Lines` methods with operands (:mod:`zellige_cpu.values`). Out: lines of text, in the order in which they were asked for
or at a place that was reserved for them; and the register of each result.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final, TypeAlias

from zellige.diagnostics import InternalError
from zellige_cpu.types import ELEMENT_BITS, element_of, vector_type
from zellige_cpu.values import Value

Line: TypeAlias = "str | list[Line]"
"""One line of code, or a stretch of lines reserved earlier and filled later."""

_TERMINATORS: Final = ("ret ", "br ", "switch ", "unreachable")


class Lines:
    """The instructions of a function under construction. Code goes to the current block; the entry block is open at the start. Operands of
    one operation must have the same type and lanes; :meth:`match` broadcasts."""

    __slots__ = ("current", "_lines", "_counter", "_is_open", "_block_start")

    def __init__(self) -> None:
        self._lines: list[Line] = []
        self._counter = 0
        self._is_open = True
        self._block_start = 0
        self.current = "entry"

    # -- raw lines ----------------------------------------------------------------------------------------------------

    def fresh(self, stem: str = "v") -> str:
        """A register name not used before in this function."""
        self._counter += 1
        return f"%{stem}{self._counter}"

    def fresh_label(self, stem: str = "b") -> str:
        """A block label not used before in this function."""
        self._counter += 1
        return f"{stem}{self._counter}"

    def line(self, text: str) -> None:
        """One instruction without a result."""
        if not self._is_open:  # code after a terminator can never run, but must still stand in a block
            self.label(self.fresh_label("dead"))
        self._lines.append(text)
        if text.startswith(_TERMINATORS):
            self._is_open = False

    def emit(self, text: str, llvm_type: str, lanes: int = 1) -> Value:
        """One instruction with a result of that type."""
        if not self._is_open:
            self.label(self.fresh_label("dead"))
        self._counter += 1
        name = f"%v{self._counter}"
        self._lines.append(f"{name} = {text}")
        return Value(name, llvm_type, lanes)

    def label(self, name: str) -> None:
        """Begins a block; the block before falls through into it unless it has ended."""
        if self._is_open:
            self._lines.append(f"br label %{name}")
        self._lines.append(f"{name}:")
        self._block_start = self._counter
        self.current = name
        self._is_open = True

    def comment(self, text: str) -> None:
        self._lines.append("; " + text.replace("\n", " "))

    @property
    def length(self) -> int:
        """About how many instructions the function has so far."""
        return self._counter

    @property
    def block_length(self) -> int:
        """About how many instructions the current block has so far."""
        return self._counter - self._block_start

    def reserve(self) -> list[Line]:
        """A stretch at this place of the current block, to be filled later by :meth:`inside` with code that does not branch."""
        if not self._is_open:
            self.label(self.fresh_label("dead"))
        stretch: list[Line] = []
        self._lines.append(stretch)
        return stretch

    @contextmanager
    def inside(self, stretch: list[Line]) -> Iterator[None]:
        """Code emitted in the block goes to the end of a reserved stretch; it must not branch."""
        lines, is_open = self._lines, self._is_open
        self._lines, self._is_open = stretch, True
        yield
        if not self._is_open:
            raise InternalError("a reserved stretch of code must not branch")
        self._lines, self._is_open = lines, is_open

    @property
    def is_terminated(self) -> bool:
        """Whether the current block has ended."""
        return not self._is_open

    # -- constants and lanes ------------------------------------------------------------------------------------------

    def splat(self, value: Value, lanes: int) -> Value:
        """A scalar in every lane."""
        if value.lanes == lanes:
            return value
        if value.lanes != 1:
            raise InternalError(f"cannot broadcast {value.type} to {lanes} lanes")
        kind = vector_type(value.type, lanes)
        if value.is_constant:
            if value.name == "poison":
                return Value("poison", kind, lanes)
            return Value(f"splat ({value.type} {value.name})", kind, lanes)
        first = self.emit(f"insertelement {kind} poison, {value.type} {value.name}, i64 0", kind, lanes)
        return self.emit(f"shufflevector {kind} {first.name}, {kind} poison, <{lanes} x i32> zeroinitializer", kind, lanes)

    def match(self, left: Value, right: Value) -> tuple[Value, Value]:
        """Both operands with the lanes of the wider one."""
        if left.lanes == right.lanes:
            return left, right
        return (self.splat(left, right.lanes), right) if left.lanes == 1 else (left, self.splat(right, left.lanes))

    def extract(self, vector: Value, lane: int | Value) -> Value:
        """One lane of a vector as a scalar."""
        if vector.lanes == 1:
            return vector
        index = f"i64 {lane}" if isinstance(lane, int) else f"{lane.type} {lane.name}"
        return self.emit(f"extractelement {vector.type} {vector.name}, {index}", vector.element)

    def insert(self, vector: Value, scalar: Value, lane: int | Value) -> Value:
        """The vector with one lane replaced."""
        index = f"i64 {lane}" if isinstance(lane, int) else f"{lane.type} {lane.name}"
        return self.emit(f"insertelement {vector.type} {vector.name}, {scalar.type} {scalar.name}, {index}", vector.type, vector.lanes)

    def shuffle(self, left: Value, right: Value | None, lanes: Sequence[int]) -> Value:
        """Lanes of the two vectors laid end to end, picked by constants (-1: any)."""
        other = "poison" if right is None else right.name
        mask = ", ".join("i32 poison" if lane < 0 else f"i32 {lane}" for lane in lanes)
        kind = vector_type(left.element, len(lanes))
        return self.emit(f"shufflevector {left.type} {left.name}, {left.type} {other}, <{len(lanes)} x i32> <{mask}>", kind, len(lanes))

    # -- arithmetic ---------------------------------------------------------------------------------------------------

    def binary(self, op: str, left: Value, right: Value) -> Value:
        """``op`` is LLVM's word with its flags: ``add``, ``fmul contract``, ``ashr``."""
        if left.type != right.type:
            raise InternalError(f"operands of {op}: {left.type} and {right.type}")
        return self.emit(f"{op} {left.type} {left.name}, {right.name}", left.type, left.lanes)

    def negate(self, value: Value) -> Value:
        """The sign of a float flipped (also of zero and NaN)."""
        return self.emit(f"fneg {value.type} {value.name}", value.type, value.lanes)

    def compare(self, predicate: str, left: Value, right: Value) -> Value:
        """``icmp`` or ``fcmp`` by the operands' type: ``eq``, ``slt``, ``ult`` ... or ``oeq``, ``une``, ``uno`` ..."""
        if left.type != right.type:
            raise InternalError(f"operands of compare {predicate}: {left.type} and {right.type}")
        word = "fcmp" if left.element in ("float", "double") else "icmp"
        return self.emit(f"{word} {predicate} {left.type} {left.name}, {right.name}", vector_type("i1", left.lanes), left.lanes)

    def select(self, condition: Value, then: Value, otherwise: Value) -> Value:
        """Lane by lane, or as a whole when the condition has one lane."""
        if then.type != otherwise.type:
            raise InternalError(f"sides of select: {then.type} and {otherwise.type}")
        if then.name == otherwise.name or condition.name == "true":
            return then
        if condition.name == "false":
            return otherwise
        text = f"select {condition.type} {condition.name}, {then.type} {then.name}, {then.type} {otherwise.name}"
        return self.emit(text, then.type, then.lanes)

    def convert(self, op: str, value: Value, element: str) -> Value:
        """``op`` is LLVM's conversion: trunc, zext, sext, fptrunc, fpext, sitofp, uitofp, fptosi, fptoui, ptrtoint, inttoptr."""
        if value.element == element:
            return value
        kind = vector_type(element, value.lanes)
        return self.emit(f"{op} {value.type} {value.name} to {kind}", kind, value.lanes)

    def bitcast(self, value: Value, element: str) -> Value:
        """The same bits in each lane as another element type of the same width."""
        if value.element == element:
            return value
        if ELEMENT_BITS[value.element] != ELEMENT_BITS[element]:
            raise InternalError(f"bitcast of {value.element} to {element}")
        kind = vector_type(element, value.lanes)
        return self.emit(f"bitcast {value.type} {value.name} to {kind}", kind, value.lanes)

    def bitcast_type(self, value: Value, llvm_type: str, lanes: int) -> Value:
        """The same bits as any type of the same total width: ``<16 x i32>`` as ``<64 x i8>``."""
        if ELEMENT_BITS[value.element] * value.lanes != ELEMENT_BITS[element_of(llvm_type)] * lanes:
            raise InternalError(f"bitcast of {value.type} to {llvm_type}")
        return value if value.type == llvm_type else self.emit(f"bitcast {value.type} {value.name} to {llvm_type}", llvm_type, lanes)

    def resize(self, value: Value, element: str, *, is_signed: bool) -> Value:
        """An integer widened by its sign (or zeros) or cut to ``element``."""
        have, want = ELEMENT_BITS[value.element], ELEMENT_BITS[element]
        if have == want:
            return value
        return self.convert("trunc" if have > want else "sext" if is_signed else "zext", value, element)


def flattened(lines: list[Line]) -> Iterator[str]:
    """The lines one after the other, those of reserved stretches at their places."""
    for line in lines:
        if isinstance(line, str):
            yield line
        else:
            yield from flattened(line)
