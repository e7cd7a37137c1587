"""Thread-level programs as text of the C family.

In: a :class:`~zellige.simt.ir.Module` and a :class:`Spelling`, in which a backend says what its language calls things. Out: a translation
unit without includes. What the languages share (declarations, control flow, expressions, memory views) is written here; types, special
registers, conversions of narrow types, mathematics, synchronisation and the instructions of a warp are the spelling's.

Narrow floats (16 bits and fewer) are carried as their bits in unsigned integers; arithmetic converts them to float and back. Signed
integers wrap, so their arithmetic is done unsigned. Every helper function that a text needs is asked from the spelling once and stands
before the kernels.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

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
    Load,
    Math,
    Reinterpret,
    Select,
    Unary,
    Var,
    constant_value,
)
from zellige.ir.stmt import (
    Alloc,
    Assert,
    Assign,
    Bind,
    Break,
    Continue,
    For,
    If,
    Print,
    Return,
    Shuffle,
    Store,
    Unrolled,
    Vote,
    While,
)
from zellige.ir.traverse import walk
from zellige.simt.arguments import bits_of
from zellige.simt.ir import LANE, THREAD, WARP, BoxMap, Comment, Function, Module, Opaque, Parameter, Pointer, Scalar

FLOAT32 = as_dtype("float32")
FLOAT64 = as_dtype("float64")
INT32 = as_dtype("int32")
INT64 = as_dtype("int64")

C_INTEGERS = {
    8: ("signed char", "unsigned char"),
    16: ("short", "unsigned short"),
    32: ("int", "unsigned int"),
    64: ("long long", "unsigned long long"),
}
"""C names of (signed, unsigned) integers by width."""

COMPARE = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
PLAIN = {"add": "+", "sub": "-", "mul": "*", "bitand": "&", "bitor": "|", "bitxor": "^", "and": "&&", "or": "||"}


class Spelling(Protocol):
    """What a language of the family calls things. Texts are expressions or statements without indentation; ``need`` of the printer asks
    for a helper by name, whose definition :meth:`helper` gives."""

    def opening(self) -> str:
        """The lines that every translation unit begins with: types of 2 to 16 bytes for wide accesses named ``wide<bytes>``, and the macro
        ``APART``, which promises of a pointer that what is written through others is not read through it."""
        ...

    def reserved(self) -> frozenset[str]:
        """Names of the language's own that no variable may take, beside the words of C."""
        ...

    def signature(self, function: Function, params: Sequence[str]) -> str:
        """The head of a kernel up to its opening brace."""
        ...

    def map_parameter(self, printer: Printer, param: BoxMap) -> str:
        """The declaration of a parameter that tells a copy engine of a tensor's boxes; asked only of languages that have such copies."""
        ...

    def shared(self, printer: Printer, function: Function) -> str:
        """The declaration of the block's shared memory as bytes named ``shared``."""
        ...

    def special(self, var: Var, function: Function) -> str:
        """The value of LANE, WARP, THREAD or a grid variable."""
        ...

    def helper(self, name: str) -> tuple[str, tuple[str, ...]]:
        """The definition of a helper function, and the helpers that it needs itself."""
        ...

    def converted(self, printer: Printer, cast: Cast, value: str) -> str:
        """A conversion that is not one of plain integers."""
        ...

    def binary(self, printer: Printer, node: Binary, left: str, right: str) -> str | None:
        """An operation that the language does better than the printer's own text; None: the printer's."""
        ...

    def math(self, printer: Printer, node: Math, args: Sequence[str]) -> str:
        """A mathematical function of float or double operands."""
        ...

    def shuffle(self, printer: Printer, node: Shuffle, value: str, operand: str) -> str: ...

    def vote(self, printer: Printer, node: Vote, predicate: str) -> str: ...

    def statement(self, printer: Printer, statement: Any) -> str:
        """Every other statement: barriers, atomics, instructions, asynchronous operations, prints and assertions."""
        ...


def print_module(module: Module, spelling: Spelling) -> str:
    """The text of all kernels."""
    return Printer(spelling).module(module)


class Printer:
    """Prints one module. ``value`` and ``address`` are for spellings."""

    def __init__(self, spelling: Spelling) -> None:
        self.spelling = spelling
        self._needed: dict[str, None] = {}
        self._lines: list[str] = []
        self._depth = 0
        self._names: dict[object, str] = {}
        self._used: set[str] = set()
        self._open: list[set[Var]] = []
        self._ranges: dict[Var, Interval] = {}
        self._function: Function | None = None

    # ---- what spellings use ----

    def need(self, name: str) -> str:
        """The name of a helper function that will be defined."""
        self._needed.setdefault(name)
        return name

    def value(self, expr: Expr) -> str:
        """An expression as text."""
        return self._expression(expr)

    def element(self, buffer: Buffer, index: Expr) -> str:
        """An element of a buffer, as something that can be read and assigned."""
        first = self._first_of_wide(buffer, index)
        if first is None:
            return f"{self._memory(buffer)}[{self._index(index)}]"
        const = "const " if self._is_read_only(buffer.root) else ""
        return f"*({const}{self.type(buffer.dtype)}*){first}"

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

    def shared_offset(self, buffer: Buffer, index: Expr) -> str:
        """The place of an element of shared memory in bytes from the block's first."""
        offset = next(m.offset for m in self.function.memories if m.buffer is buffer.root)
        return f"{offset} + {max(1, buffer.dtype.bytes)} * {self._index(index)}"

    def name(self, thing: Var | Buffer) -> str:
        """The name of a variable or of a buffer's memory."""
        return self._name(thing, thing.name)

    def own_name(self, thing: object, wanted: str) -> str:
        """The name of something else that the language has: ``wanted``, or another where that is taken."""
        return self._name(thing, wanted)

    @property
    def function(self) -> Function:
        assert self._function is not None
        return self._function

    # ---- structure ----

    def module(self, module: Module) -> str:
        bodies = []
        for function in module.functions:
            self._lines = []
            self._print_function(function)
            bodies.append("\n".join(self._lines))
        helpers = "\n".join(self._helpers())
        parts = [self.spelling.opening(), helpers, *bodies]
        return "\n\n".join(p for p in parts if p) + "\n"

    def _helpers(self) -> Iterator[str]:
        done: dict[str, None] = {}
        texts: dict[str, str] = {}

        def visit(name: str) -> None:
            if name in done:
                return
            done[name] = None
            text, needs = self.spelling.helper(name)
            for other in needs:
                visit(other)
            texts[name] = text

        for name in list(self._needed):
            visit(name)
        yield from texts.values()

    def _print_function(self, function: Function) -> None:
        self._function = function
        self._names, self._used, self._open = {}, {"shared", *self.spelling.reserved()}, [set()]
        if function.name in RESERVED | self._used:
            raise InternalError(f"a kernel cannot be called {function.name} in this language")
        for line in function.header:
            self._line(f"// {line}")
        self._ranges = {
            LANE: Interval(0, function.lanes - 1),
            WARP: Interval(0, max(0, function.threads // function.lanes - 1)),
            THREAD: Interval(0, function.threads - 1),
            **{var: Interval(0, (1 << 31) - 2) for var in function.grid_vars},
        }
        params = [self._parameter(p) for p in function.params]
        self._line(self.spelling.signature(function, params) + " {")
        self._depth = 1
        if function.shared_bytes:
            self._line(self.spelling.shared(self, function))
        for memory in function.memories:
            text = f"(({self.type(memory.buffer.dtype)}*)(shared + {memory.offset}))"
            self._line(f"{self.type(memory.buffer.dtype)}* const {self.name(memory.buffer)} = {text};")
        hidden = {thing for node in walk(function) if isinstance(node, Opaque) for thing in node.of}
        for var in (THREAD, LANE, WARP, *function.grid_vars):
            constant = "" if var in hidden else "const "
            self._line(f"{constant}{self.type(var.dtype)} {self.name(var)} = {self.spelling.special(var, function)};")
            self._open[0].add(var)
        self._body(function.body)
        self._depth = 0
        self._line("}")

    def _parameter(self, param: Parameter) -> str:
        if isinstance(param, BoxMap):
            return self.spelling.map_parameter(self, param)
        if isinstance(param, Scalar):
            self._open[0].add(param.var)
            return f"const {self.type(param.var.dtype)} {self.name(param.var)}"
        const = "" if param.is_written else "const "
        restrict = "" if param.is_aliased else "APART "
        return f"{const}{self.type(param.buffer.dtype)}* {restrict}{self.name(param.buffer)}"

    def _line(self, text: str) -> None:
        for line in text.split("\n"):
            self._lines.append("  " * self._depth + line if line and not line.startswith("#") else line)

    def _place(self, statement: Any) -> None:
        span = statement.span
        if span is None or getattr(span, "file", None) is None:
            return
        file = str(span.file).replace("\\", "\\\\").replace('"', '\\"')
        marker = f'#line {span.line} "{file}"'
        if self._lines and self._lines[-1] == marker:
            return
        self._lines.append(marker)

    @contextmanager
    def _block(self, head: str) -> Iterator[None]:
        self._line(head + " {")
        self._depth += 1
        self._open.append(set())
        yield
        self._open.pop()
        self._depth -= 1
        self._line("}")

    def _body(self, body: Sequence[Any]) -> None:
        for statement in body:
            self._statement(statement)

    def _statement(self, statement: Any) -> None:
        if not isinstance(statement, (Alloc, Comment)):
            self._place(statement)
        match statement:
            case Comment(text=text):
                self._line(f"// {text}")
            case Alloc(buffer=buffer):
                count = constant_value(buffer.shape[0])
                self._line(f"{self._aligned(buffer.dtype, int(count or 1))}{self.type(buffer.dtype)} {self.name(buffer)}[{count}];")
            case Bind(var=var, value=value):
                self._bound(var, value)
                self._give(var, self.value(value))
            case Assign(var=var, value=value):
                self._line(f"{self.name(var)} = {self.value(value)};")
            case Store(buffer=buffer, indices=(index,), value=value):
                if self._is_wide_global(buffer):
                    self._line(f"{self.need(f'store{_parts(buffer)}')}({self.address(buffer, index)}, {self.value(value)});")
                else:
                    self._line(f"{self.element(buffer, index)} = {self.value(value)};")
            case If():
                self._if(statement)
            case For():
                self._for(statement)
            case While(condition=condition):
                with self._block(f"while ({self.value(condition)})"):
                    self._body(statement.body)
            case Break():
                self._line("break;")
            case Continue():
                self._line("continue;")
            case Return():
                self._line("return;")
            case Shuffle(result=result, value=value, operand=operand):
                self._give(result, self.spelling.shuffle(self, statement, self.value(value), self.value(operand)))
            case Vote(result=result, predicate=predicate):
                self._give(result, self.spelling.vote(self, statement, self.value(predicate)))
            case Print() | Assert():
                self._line(self.spelling.statement(self, statement))
            case _:
                self._line(self.spelling.statement(self, statement))

    def give(self, var: Var, text: str) -> None:
        """Declare a variable with a value, or assign it where it is known."""
        self._give(var, text)

    def declared(self, var: Var) -> str:
        """What stands before an assignment to the variable: its type where it is not known here yet."""
        is_known = any(var in scope for scope in self._open)
        self._open[-1].add(var)
        return "" if is_known else f"{self.type(var.dtype)} "

    def _give(self, var: Var, text: str) -> None:
        self._line(f"{self.declared(var)}{self.name(var)} = {text};")

    def _aligned(self, dtype: DType, count: int) -> str:
        size = max(1, dtype.bytes) * count
        width = next((w for w in (16, 8, 4, 2) if size % w == 0 and w > max(1, dtype.bytes)), 0)
        return f"alignas({width}) " if width else ""

    def _if(self, statement: If) -> None:
        with self._block(f"if ({self.value(statement.condition)})"):
            self._body(statement.then)
        if statement.otherwise:
            with self._block("else"):
                self._body(statement.otherwise)

    def _for(self, statement: For) -> None:
        """The bounds are evaluated once; iterations are counted where the variable could pass the end of its type."""
        step = constant_value(statement.step)
        name, kind = self.name(statement.var), self.type(statement.var.dtype)
        if step is None or int(step) <= 0:
            self._counted(statement)
            return
        self._unroll(statement)
        stop = self.value(statement.stop)
        limit = ""
        if not isinstance(statement.stop, (Const, Var)) or (isinstance(statement.stop, Var) and statement.stop.is_mutable):
            end = self._fresh(f"{statement.var.name}_end")
            limit, stop = f", {end} = {stop}", end
        start = self.value(statement.start)
        first, end_of = interval(statement.start, self._ranges), interval(statement.stop, self._ranges)
        self._ranges[statement.var] = Interval(first.low, None if end_of.high is None else end_of.high - 1)
        head = f"for ({kind} {name} = {start}{limit}; {name} < {stop}; {name} += {self.value(statement.step)})"
        self._open.append({statement.var})
        with self._block(head):
            self._body(statement.body)
        self._open.pop()

    def _unroll(self, statement: For) -> None:
        if isinstance(statement.kind, Unrolled):
            factor = statement.kind.factor
            self._line("#pragma unroll" if factor is None else f"#pragma unroll {factor}")

    def _counted(self, statement: For) -> None:
        """A loop whose step is negative or not constant."""
        name, kind = self.name(statement.var), self.type(statement.var.dtype)
        trips, step, start = (self._fresh(f"{statement.var.name}_{w}") for w in ("trips", "step", "start"))
        helper = self.need("trip_count")
        self._line(
            f"const long long {start} = {self.value(statement.start)}, {step} = {self.value(statement.step)}, "
            f"{trips} = {helper}({start}, {self.value(statement.stop)}, {step});"
        )
        counter = self._fresh(f"{statement.var.name}_count")
        self._unroll(statement)
        with self._block(f"for (long long {counter} = 0; {counter} < {trips}; ++{counter})"):
            self._line(f"const {kind} {name} = ({kind})({start} + {counter} * {step});")
            self._open[-1].add(statement.var)
            self._body(statement.body)

    # ---- names and types ----

    def type(self, t: DType) -> str:
        """The type that holds a value, an element or a wide access."""
        if t.lanes > 1:
            return f"wide{t.lanes * max(1, t.scalar.bytes)}"
        if t.is_bool:
            return "bool"
        if t.name in ("float32", "tfloat32"):
            return "float"
        if t.name == "float64":
            return "double"
        width = max(8, 1 << (t.bits - 1).bit_length())
        return C_INTEGERS[width][0 if t.is_integer and t.is_signed else 1]

    def _fresh(self, wanted: str) -> str:
        base = "".join(c if c.isascii() and (c.isalnum() or c == "_") else "_" for c in wanted) or "x"
        if base[0].isdigit() or base in RESERVED:
            base += "_"
        name, count = base, 1
        while name in self._used or name in RESERVED:
            count += 1
            name = f"{base}_{count}"
        self._used.add(name)
        return name

    def _name(self, thing: object, wanted: str) -> str:
        found = self._names.get(thing)
        if found is None:
            found = self._names[thing] = self._fresh(wanted)
        return found

    def _memory(self, buffer: Buffer) -> str:
        """The name of a buffer's memory; another dtype over the same bytes is a cast of its address."""
        root = buffer.root
        name = self.name(root)
        if buffer is root or buffer.dtype == root.dtype:
            return name
        const = "const " if self._is_read_only(root) else ""
        return f"(({const}{self.type(buffer.dtype)}*){name})"

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
                    parts.append(self._expression(other))
        return "".join(parts)

    def _expression(self, expr: Expr) -> str:
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
                return f"{self.need(f'load{_parts(buffer)}')}({self.address(buffer, node.indices[0])})"
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
            helper = self.need(f"splat{self.type(t)[4:]}_{self.type(t.scalar).replace(' ', '_')}")
            return f"{helper}({self.constant(Const(value=value, dtype=t.scalar))})"
        if t.is_bool:
            return "true" if value else "false"
        if t.is_float:
            return self._float_constant(float(value), t)
        number = int(value)
        if t.bits < 32:
            return f"({self.type(t)}){number}" if number >= 0 else f"({self.type(t)})({number})"
        suffix = ("" if t.is_signed else "u") + ("ll" if t.bits == 64 else "")
        if number == -(1 << (t.bits - 1)) and t.is_signed:
            return f"(-{(1 << (t.bits - 1)) - 1}{suffix} - 1)"
        return f"{number}{suffix}" if number >= 0 else f"({number}{suffix})"

    def _float_constant(self, value: float, t: DType) -> str:
        if is_narrow(t):
            return f"({self.type(t)})0x{int(bits_of(value, t)):x}u"
        if t.name == "float64":
            if math.isfinite(value):
                return repr(value) if "e" in repr(value) or "." in repr(value) else f"{value!r}.0"
            return f"{self.need('float64_of_bits')}(0x{bits_of(value, t):x}ull)"
        if math.isfinite(value):
            exact = bits_of(value, FLOAT32)
            text = float_of_bits(exact)
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
            return f"({self.type(t)})({value} ^ 0x{1 << (t.bits - 1):x}u)" if t.is_signed else value
        if t.is_float:
            return f"(-{value})"
        return self._wrapped(f"(0u - {self._unsigned(value, t)})", t)

    def _unsigned(self, text: str, t: DType) -> str:
        return f"({C_INTEGERS[max(32, t.bits)][1]}){text}" if t.is_signed else text

    def _wrapped(self, text: str, t: DType) -> str:
        kind = self.type(t)
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
        found = interval(node, self._ranges)
        return found.low is not None and found.high is not None and found.low >= -(1 << 31) and found.high < 1 << 31

    def _bound(self, var: Var, value: Expr) -> None:
        """Remember what is known of a variable's value."""
        if value.dtype.is_integer and not var.is_mutable:
            self._ranges[var] = interval(value, self._ranges)

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
            kind = self.type(source).replace(" ", "_")
            return f"{self.need(f'splat{self.type(target)[4:]}_{kind}')}({value})"
        if source == target and not (node.saturate and target.is_float):
            return value
        if target.is_bool:
            return f"({self.as_number(value, source)} != 0)"
        if source.is_bool and not is_narrow(target):
            return f"({self.type(target)})({value} ? 1 : 0)"
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


def _parts(buffer: Buffer) -> str:
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


def is_narrow(t: DType) -> bool:
    """Whether values of a float dtype are carried as their bits."""
    return t.is_float and t.bits <= 16


def float_of_bits(bits: int) -> float:
    """The float32 with these bits."""
    return float(struct.unpack("<f", struct.pack("<I", bits))[0])


_WORDS = (
    "auto bool break case catch char class const continue default delete do double else enum explicit extern false float for goto if "
    "inline int long new operator private protected public register return short signed sizeof static struct switch template this throw "
    "true try typedef typename union unsigned using virtual void volatile while main asm and or not xor near far min max"
)

RESERVED = frozenset(_WORDS.split())
"""Words of the languages that no variable may be called."""
