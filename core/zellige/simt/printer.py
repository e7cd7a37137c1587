"""Thread-level programs as text of the C family.

In: a :class:`~zellige.simt.ir.Module` and a :class:`Spelling`, in which a backend says what its language calls things. Out: a translation
unit without includes. What the languages share (declarations, control flow) is written here, and in
:mod:`zellige.simt.expression_printer` (expressions, memory views); special registers, conversions of narrow types, mathematics,
synchronisation and the instructions of a warp are the spelling's. Every helper function that a text needs is asked from the spelling once
and stands before the kernels.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from zellige.analysis.intervals import Interval, interval
from zellige.dtypes import DType
from zellige.ir.expr import Buffer, Const, Expr, Var, constant_value
from zellige.ir.stmt import (
    Alloc,
    Assign,
    Bind,
    Break,
    Continue,
    For,
    If,
    Return,
    Shuffle,
    Store,
    Unrolled,
    Vote,
    While,
)
from zellige.ir.traverse import walk
from zellige.simt.expression_printer import ExpressionPrinter, ExpressionSpelling, parts_of
from zellige.simt.ir import LANE, THREAD, WARP, BoxMap, Comment, Function, Module, Opaque, Parameter, Scalar
from zellige.simt.words import declared_in, is_reserved, type_of


class Spelling(ExpressionSpelling, Protocol):
    """What a language of the family calls things. Texts are expressions or statements without indentation; ``need`` of the printer asks
    for a helper by name, whose definition :meth:`helper` gives.

    A module may be printed more than once (names are found out by it), and one spelling may print several modules: asked again about the
    same statement it answers the same, so what it keeps meanwhile, such as the places that assert or print, it keeps once."""

    def opening(self) -> str:
        """The lines that every translation unit begins with: types of 2 to 16 bytes for wide accesses named ``wide<bytes>``, and the macro
        ``APART``, which promises of a pointer that what is written through others is not read through it."""
        ...

    def reserved(self) -> frozenset[str]:
        """Names of the language's own that no variable may take, beside the words of C; those with a ``*`` are patterns
        (:func:`~zellige.simt.words.is_among`)."""
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

    def shuffle(self, printer: Printer, node: Shuffle, value: str, operand: str) -> str: ...

    def vote(self, printer: Printer, node: Vote, predicate: str) -> str: ...

    def statement(self, printer: Printer, statement: Any) -> str:
        """Every other statement: barriers, atomics, instructions, asynchronous operations, prints and assertions."""
        ...


def print_module(module: Module, spelling: Spelling) -> str:
    """The text of all kernels."""
    return Printer(spelling).module(module)


class Printer(ExpressionPrinter):
    """Prints one module. What is not private is for spellings too."""

    spelling: Spelling

    def __init__(self, spelling: Spelling) -> None:
        super().__init__(spelling)
        self._lines: list[str] = []
        self._depth = 0
        self._open: list[set[Var]] = []
        self._avoided: frozenset[str] = frozenset()

    def shared_offset(self, buffer: Buffer, index: Expr) -> str:
        """The place of an element of shared memory in bytes from the block's first."""
        offset = next(m.offset for m in self.function.memories if m.buffer is buffer.root)
        return f"{offset} + {max(1, buffer.dtype.bytes)} * {self._index(index)}"

    # ---- structure ----

    def module(self, module: Module) -> str:
        opening = self.spelling.opening()
        self._avoided = declared_in(opening)
        while True:
            bodies, given, kept = [], set[str](), self._kept()
            for function in module.functions:
                self._lines = []
                self._print_function(function)
                bodies.append("\n".join(self._lines))
                given |= self._used - kept
            helpers = self._helpers()
            taken = given & helpers.keys()
            if not taken:
                break
            self._avoided |= taken  # which helpers a text needs is known when it is there: a name of one of them is another then
        parts = [opening, "\n".join(helpers.values()), *bodies]
        return "\n\n".join(p for p in parts if p) + "\n"

    def _kept(self) -> frozenset[str]:
        """The names that no variable may have."""
        return self._avoided | self.spelling.reserved() | {"shared"}

    def _helpers(self) -> dict[str, str]:
        """The definitions of the helpers that are needed, by name, each behind those that it needs itself."""
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
        return texts

    def _print_function(self, function: Function) -> None:
        self._function = function
        self._names, self._used, self._open = {}, {*self._kept()}, [set()]
        self._reserved = self.spelling.reserved()
        if is_reserved(function.name) or function.name in self._used:
            raise ValueError(f"its spelling reserves {function.name}, which a kernel is called: {type(self.spelling).__name__}.reserved()")
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
            text = f"(({type_of(memory.buffer.dtype)}*)(shared + {memory.offset}))"
            self._line(f"{type_of(memory.buffer.dtype)}* const {self.name(memory.buffer)} = {text};")
        hidden = {thing for node in walk(function) if isinstance(node, Opaque) for thing in node.of}
        for var in (THREAD, LANE, WARP, *function.grid_vars):
            constant = "" if var in hidden else "const "
            self._line(f"{constant}{type_of(var.dtype)} {self.name(var)} = {self.spelling.special(var, function)};")
            self._open[0].add(var)
        self._body(function.body)
        self._depth = 0
        self._line("}")

    def _parameter(self, param: Parameter) -> str:
        if isinstance(param, BoxMap):
            return self.spelling.map_parameter(self, param)
        if isinstance(param, Scalar):
            self._open[0].add(param.var)
            return f"const {type_of(param.var.dtype)} {self.name(param.var)}"
        const = "" if param.is_written else "const "
        restrict = "" if param.is_aliased else "APART "
        return f"{const}{type_of(param.buffer.dtype)}* {restrict}{self.name(param.buffer)}"

    def _line(self, text: str) -> None:
        for line in text.split("\n"):
            self._lines.append("  " * self._depth + line if line and not line.startswith("#") else line)

    def _place(self, statement: Any) -> None:
        span = statement.span
        if span is None or getattr(span, "file", None) is None:
            return
        # a compiler may take no escape there; what reads the markers shows the line, not the file's bytes
        file = "".join(c if c.isprintable() and c != '"' else "_" for c in str(span.file)).replace("\\", "\\\\")
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
                self._line(f"{self._aligned(buffer.dtype, int(count or 1))}{type_of(buffer.dtype)} {self.name(buffer)}[{count}];")
            case Bind(var=var, value=value):
                self._bound(var, value)
                self.give(var, self.value(value))
            case Assign(var=var, value=value):
                self._line(f"{self.name(var)} = {self.value(value)};")
            case Store(buffer=buffer, indices=(index,), value=value):
                if self._is_wide_global(buffer):
                    self._line(f"{self.need(f'store{parts_of(buffer)}')}({self.address(buffer, index)}, {self.value(value)});")
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
                self.give(result, self.spelling.shuffle(self, statement, self.value(value), self.value(operand)))
            case Vote(result=result, predicate=predicate):
                self.give(result, self.spelling.vote(self, statement, self.value(predicate)))
            case _:
                self._line(self.spelling.statement(self, statement))

    def declared(self, var: Var) -> str:
        """What stands before an assignment to the variable: its type where it is not known here yet."""
        is_known = any(var in scope for scope in self._open)
        self._open[-1].add(var)
        return "" if is_known else f"{type_of(var.dtype)} "

    def give(self, var: Var, text: str) -> None:
        """Declare a variable with a value, or assign it where it is known."""
        self._line(f"{self.declared(var)}{self.name(var)} = {text};")

    def _bound(self, var: Var, value: Expr) -> None:
        """Remember what is known of a variable's value."""
        if value.dtype.is_integer and not var.is_mutable:
            self._ranges[var] = interval(value, self._ranges)

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
        name, kind = self.name(statement.var), type_of(statement.var.dtype)
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
        name, kind = self.name(statement.var), type_of(statement.var.dtype)
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
