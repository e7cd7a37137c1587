"""Expressions of thread-level programs as text of the C family.

In: expressions of a :class:`~zellige.simt.ir.Function` and what its language does better (:class:`ExpressionSpelling`). Out: one text an
expression, and the names of the helper functions that it calls.

Narrow floats are carried as their bits (:mod:`zellige.simt.words`); arithmetic converts them to float and back. Signed integers wrap, so
their arithmetic is done unsigned, unless its range is known to fit.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from typing import Protocol

from zellige.analysis.intervals import Interval, interval
from zellige.diagnostics import InternalError
from zellige.dtypes import DType, dtype as as_dtype
from zellige.ir.expr import (
    Binary,
    Buffer,
    Cast,
    Compare,
    Const,
    Expr,
    ExprNode,
    Load,
    Math,
    Reinterpret,
    Select,
    Unary,
    Var,
    constant_value,
)
from zellige.simt.arguments import bits_of
from zellige.simt.ir import Function, Pointer
from zellige.simt.words import C_INTEGERS, is_among, is_narrow, is_reserved, type_of

FLOAT32 = as_dtype("float32")
INT32 = as_dtype("int32")

COMPARE = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
PLAIN = {"add": "+", "sub": "-", "mul": "*", "bitand": "&", "bitor": "|", "bitxor": "^", "and": "&&", "or": "||"}


class ExpressionSpelling(Protocol):
    """What a language does for expressions. ``need`` of the printer asks for a helper by name."""

    def converted(self, printer: ExpressionPrinter, cast: Cast, value: str) -> str:
        """A conversion that is not one of plain integers."""
        ...

    def binary(self, printer: ExpressionPrinter, node: Binary, left: str, right: str) -> str | None:
        """An operation that the language does better than the printer's own text; None: the printer's."""
        ...

    def math(self, printer: ExpressionPrinter, node: Math, args: Sequence[str]) -> str:
        """A mathematical function of float or double operands."""
        ...


class ExpressionPrinter:
    """Prints the expressions of one kernel after the other; what is not private is for spellings too."""

    def __init__(self, spelling: ExpressionSpelling) -> None:
        self.spelling = spelling
        self._needed: dict[str, None] = {}
        self._names: dict[object, str] = {}
        self._used: set[str] = set()
        self._reserved: frozenset[str] = frozenset()
        self._ranges: dict[Var, Interval] = {}
        self._intervals: dict[ExprNode, Interval] = {}
        self._function: Function | None = None

    def need(self, name: str) -> str:
        """The name of a helper function that will be defined."""
        self._needed.setdefault(name)
        return name

    def element(self, buffer: Buffer, index: Expr) -> str:
        """An element of a buffer, as something that can be read and assigned."""
        first = self._first_of_wide(buffer, index)
        if first is None:
            return f"{self._memory(buffer)}[{self._index(index)}]"
        const = "const " if self._is_read_only(buffer.root) else ""
        return f"*({const}{type_of(buffer.dtype)}*){first}"

    def address(self, buffer: Buffer, index: Expr) -> str:
        """The address of an element."""
        return self._first_of_wide(buffer, index) or f"({self._memory(buffer)} + {self._index(index)})"

    def _first_of_wide(self, buffer: Buffer, index: Expr) -> str | None:
        """The address of the first of the elements that a wide access takes, where its index is theirs divided by their number: compilers
        do not see that it divides, and would divide and multiply again."""
        root, lanes = buffer.root, buffer.dtype.lanes
        match index:
            case Binary(op="truncdiv", left=first, right=Const(value=by)) if lanes == by > 1 and root.dtype == buffer.dtype.scalar:
                return f"({self.name(root)} + {self._index(first)})"
            case _:
                return None

    def name(self, thing: Var | Buffer) -> str:
        """The name of a variable or of a buffer's memory."""
        return self.own_name(thing, thing.name)

    def own_name(self, thing: object, wanted: str) -> str:
        """The name of something else that the language has: ``wanted``, or another where that is taken."""
        found = self._names.get(thing)
        if found is None:
            found = self._names[thing] = self._fresh(wanted)
        return found

    @property
    def function(self) -> Function:
        assert self._function is not None
        return self._function

    # ---- names ----

    def _fresh(self, wanted: str) -> str:
        base = "".join(c if c.isascii() and (c.isalnum() or c == "_") else "_" for c in wanted) or "x"
        if base[0].isdigit() or is_reserved(base) or (base not in self._reserved and is_among(base, self._reserved)):
            base = f"x{base}" if base[0] in "_0123456789" else f"{base}_"
        name, count = base, 1
        while name in self._used:
            count += 1
            name = f"{base}_{count}"
        self._used.add(name)
        return name

    def _memory(self, buffer: Buffer) -> str:
        """The name of a buffer's memory; another dtype over the same bytes is a cast of its address."""
        root = buffer.root
        name = self.name(root)
        if buffer is root or buffer.dtype == root.dtype:
            return name
        const = "const " if self._is_read_only(root) else ""
        return f"(({const}{type_of(buffer.dtype)}*){name})"

    @staticmethod
    def _is_wide_global(buffer: Buffer) -> bool:
        """Whether an access takes several elements of a tensor, whose address a launch may find aligned to single ones only."""
        return buffer.dtype.lanes > 1 and buffer.root.space == "global"

    def _is_read_only(self, root: Buffer) -> bool:
        return any(isinstance(p, Pointer) and p.buffer is root and not p.is_written for p in self.function.params)

    # ---- expressions ----

    def _index(self, expr: Expr) -> str:
        """An index: arithmetic of places, which does not wrap."""
        parts: list[str] = []
        pending: list[Expr | str] = [expr]
        while pending:
            match pending.pop():
                case str(text):
                    parts.append(text)
                case Binary(op="add" | "sub" | "mul" as op, left=left, right=right):
                    pending += (")", right, f" {PLAIN[op]} ", left, "(")
                case other:
                    parts.append(self.value(other))
        return "".join(parts)

    def value(self, expr: Expr) -> str:
        """An expression as text."""
        self._intervals.clear()  # between two expressions the ranges of loops' variables change
        pending: list[tuple[Expr, bool]] = [(expr, False)]
        done: dict[Expr, str] = {}
        while pending:
            top, is_ready = pending.pop()
            if top in done:
                continue
            operands = _operands(top)
            if is_ready or not operands:
                done[top] = self._text(top, [done[o] for o in operands])
                continue
            pending.append((top, True))
            pending.extend((o, False) for o in operands if o not in done)
        return done[expr]

    def _text(self, node: Expr, below: Sequence[str]) -> str:
        match node:
            case Const():
                return self.constant(node)
            case Var():
                return self.name(node)
            case Load(buffer=buffer) if self._is_wide_global(buffer):
                return f"{self.need(f'load{parts_of(buffer)}')}({self.address(buffer, node.indices[0])})"
            case Load(buffer=buffer):
                return self.element(buffer, node.indices[0])
            case Unary():
                return self._unary(node, below[0])
            case Binary():
                return self.spelling.binary(self, node, *below) or self._binary(node, *below)
            case Compare(op=op, left=left):
                a, b = (self.as_number(x, left.dtype) for x in below)
                return f"({a} {COMPARE[op]} {b})"
            case Select():
                return f"({below[0]} ? {below[1]} : {below[2]})"
            case Cast():
                return self._cast(node, below[0])
            case Math():
                return self._math(node, below)
            case Reinterpret(value=value, dtype=target):
                return self._reinterpret(value.dtype, target, below[0])
        raise InternalError(f"{type(node).__name__} is no expression")

    def constant(self, node: Const) -> str:
        """A literal of the dtype; narrow floats as their bits."""
        t, value = node.dtype, node.value
        if t.lanes > 1:
            helper = self.need(f"splat{type_of(t)[4:]}_{type_of(t.scalar).replace(' ', '_')}")
            return f"{helper}({self.constant(Const(value=value, dtype=t.scalar))})"
        if t.is_bool:
            return "true" if value else "false"
        if t.is_float:
            return self._float_constant(float(value), t)
        number = int(value)
        if t.bits < 32:
            return f"({type_of(t)}){number}" if number >= 0 else f"({type_of(t)})({number})"
        suffix = ("" if t.is_signed else "u") + ("ll" if t.bits == 64 else "")
        if number == -(1 << (t.bits - 1)) and t.is_signed:
            return f"(-{(1 << (t.bits - 1)) - 1}{suffix} - 1)"
        return f"{number}{suffix}" if number >= 0 else f"({number}{suffix})"

    def _float_constant(self, value: float, t: DType) -> str:
        if is_narrow(t):
            return f"({type_of(t)})0x{int(bits_of(value, t)):x}u"
        if t.name == "float64":
            if math.isfinite(value):
                return repr(value) if "e" in repr(value) or "." in repr(value) else f"{value!r}.0"
            return f"{self.need('float64_of_bits')}(0x{bits_of(value, t):x}ull)"
        if math.isfinite(value):
            exact = bits_of(value, FLOAT32)
            text = _float_of_bits(exact)
            return f"{text!r}f" if math.isfinite(text) else f"{self.need('float32_of_bits')}(0x{exact:x}u)"
        return f"{self.need('float32_of_bits')}(0x{bits_of(value, FLOAT32):x}u)"

    def as_number(self, text: str, t: DType) -> str:
        """A value on which the language's own arithmetic works: narrow floats as float."""
        return self.widened(text, t) if is_narrow(t) else text

    def widened(self, text: str, t: DType) -> str:
        """A narrow float's bits as float."""
        return f"{self.need(f'float32_of_{t.name}')}({text})"

    def narrowed(self, text: str, t: DType) -> str:
        """A float rounded to a narrow float's bits."""
        return f"{self.need(f'{t.name}_of_float32')}({text})"

    def _unary(self, node: Unary, value: str) -> str:
        t = node.dtype
        if node.op == "not":
            return f"(!{value})"
        if node.op == "invert":
            return f"(!{value})" if t.is_bool else self._wrapped(f"(~{value})", t)
        if is_narrow(t):
            return f"({type_of(t)})({value} ^ 0x{1 << (t.bits - 1):x}u)" if t.is_signed else value
        if t.is_float:
            return f"(-{value})"
        return self._wrapped(f"(0u - {self._unsigned(value, t)})", t)

    def _unsigned(self, text: str, t: DType) -> str:
        return f"({C_INTEGERS[max(32, t.bits)][1]}){text}" if t.is_signed else text

    def _wrapped(self, text: str, t: DType) -> str:
        kind = type_of(t)
        if t.bits == 4 and t.is_integer:
            return f"{self.need('int4_of_bits' if t.is_signed else 'uint4_of_bits')}({text})"
        return f"({kind}){text}"

    def _binary(self, node: Binary, left: str, right: str) -> str:
        t, op = node.dtype, node.op
        if t.is_bool:
            words = {"bitand": "&&", "bitor": "||", "bitxor": "!=", "and": "&&", "or": "||", "max": "||", "min": "&&"}
            return f"({left} {words[op]} {right})"
        if is_narrow(t):
            wide = self._float_binary(node, self.widened(left, t), self.widened(right, t))
            return self.narrowed(wide, t)
        if t.is_float:
            return self._float_binary(node, left, right)
        if op in ("add", "sub", "mul"):
            if (not t.is_signed and t.bits >= 32) or self._fits(node):
                return f"({left} {PLAIN[op]} {right})"
            return self._wrapped(f"({self._unsigned(left, t)} {PLAIN[op]} {self._unsigned(right, t)})", t)
        if op in ("bitand", "bitor", "bitxor"):
            return f"({left} {PLAIN[op]} {right})" if t.bits >= 32 else self._wrapped(f"({left} {PLAIN[op]} {right})", t)
        if op in ("max", "min", "max_nan", "min_nan"):
            return f"{self.need(op.removesuffix('_nan'))}({left}, {right})"
        return self._integer_division(node, left, right)

    def _fits(self, node: Binary) -> bool:
        """Whether 32-bit signed arithmetic is known not to wrap, so that it may be written as it is."""
        if node.dtype != INT32:
            return False
        found = interval(node, self._ranges, self._intervals)
        return found.low is not None and found.high is not None and found.low >= -(1 << 31) and found.high < 1 << 31

    def _integer_division(self, node: Binary, left: str, right: str) -> str:
        t, op = node.dtype, node.op
        divisor = constant_value(node.right)
        if op in ("shl", "shr"):
            if divisor is not None and 0 <= int(divisor) < t.bits:
                if op == "shr":
                    return f"({left} >> {int(divisor)})"
                return self._wrapped(f"({self._unsigned(left, t)} << {int(divisor)})", t)
            return self._wrapped(f"{self.need(f'{op}_bits')}({left}, {right}, {t.bits})", t)
        if divisor is not None and int(divisor) > 0 and (op in ("truncdiv", "truncmod") or not t.is_signed):
            return (
                self._wrapped(f"({left} {'/' if op.endswith('div') else '%'} {right})", t)
                if t.bits < 32
                else (f"({left} {'/' if op.endswith('div') else '%'} {right})")
            )
        return self._wrapped(f"{self.need(f'int_{op}')}({left}, {right})", t)

    def _float_binary(self, node: Binary, left: str, right: str) -> str:
        op = node.op
        suffix = "64" if node.dtype.name == "float64" else "32"
        if op in ("add", "sub", "mul", "truediv"):
            return f"({left} {'/' if op == 'truediv' else PLAIN[op]} {right})"
        return f"{self.need(f'float_{op}{suffix}')}({left}, {right})"

    def _cast(self, node: Cast, value: str) -> str:
        source, target = node.value.dtype, node.dtype
        if target.lanes > source.lanes:
            kind = type_of(source).replace(" ", "_")
            return f"{self.need(f'splat{type_of(target)[4:]}_{kind}')}({value})"
        if source == target and not (node.saturate and target.is_float):
            return value
        if target.is_bool:
            return f"({self.as_number(value, source)} != 0)"
        if source.is_bool and not is_narrow(target):
            return f"({type_of(target)})({value} ? 1 : 0)"
        if target.is_integer and (source.is_integer or source.is_bool):
            return self._wrapped(value, target)
        return self.spelling.converted(self, node, value)

    def _math(self, node: Math, args: Sequence[str]) -> str:
        operand = node.args[0].dtype
        if operand.is_float and is_narrow(operand):
            if node.function == "nextafter":
                return f"{self.need(f'nextafter_{operand.name}')}({', '.join(args)})"
            wide = tuple(_widened_node(a) for a in node.args)
            inner = Math(function=node.function, args=wide, dtype=FLOAT32 if node.dtype.is_float else node.dtype, precision=node.precision)
            text = self.spelling.math(self, inner, [self.widened(a, operand) for a in args])
            return self.narrowed(text, node.dtype) if node.dtype.is_float else text
        return self.spelling.math(self, node, args)

    def _reinterpret(self, source: DType, target: DType, value: str) -> str:
        def carries_bits(t: DType) -> bool:
            return t.is_integer or is_narrow(t)

        if carries_bits(source) and carries_bits(target):
            return self._wrapped(value, target)
        if source.is_float and not is_narrow(source):
            wide = "float64" if source.name == "float64" else "float32"
            bits = f"{self.need(f'bits_of_{wide}')}({value})"
            return self._wrapped(bits, target) if target.is_integer else bits
        name = "float64_of_bits" if target.name == "float64" else "float32_of_bits"
        return f"{self.need(name)}({value})"


def parts_of(buffer: Buffer) -> str:
    """The end of the names of the helpers ``load<bytes>_<bytes of an element>`` and ``store...``, which take an address."""
    return f"{buffer.dtype.bytes}_{max(1, buffer.dtype.scalar.bytes)}"


def _operands(node: Expr) -> tuple[Expr, ...]:
    match node:
        case Load():
            return ()
        case Unary(value=value) | Cast(value=value) | Reinterpret(value=value):
            return (value,)
        case Binary(left=left, right=right) | Compare(left=left, right=right):
            return (left, right)
        case Select(condition=condition, then=then, otherwise=otherwise):
            return (condition, then, otherwise)
        case Math(args=args):
            return args
        case _:
            return ()


def _widened_node(node: Expr) -> Expr:
    return Cast(value=node, dtype=FLOAT32)


def _float_of_bits(bits: int) -> float:
    """The float32 with these bits."""
    return float(struct.unpack("<f", struct.pack("<I", bits))[0])
