"""LLVM IR as text: functions and modules are built line by line, and only what is declared can be called.

In: calls of :class:`Function` methods by the emitters. Out: :meth:`Module.text`, one string for LLVM's parser.

The builder is lean because generating the text costs as much as compiling it. It keeps two promises that LLVM itself does not check
before code generation: an intrinsic is called only if :data:`zellige_cpu.intrinsics.INTRINSICS` lists it with operand types it accepts,
and any other function only if this module defines it or declared it as a symbol of the process. Anything else is an InternalError here.
What touches no memory and calls nothing is in :mod:`zellige_cpu.lines`, operands are in :mod:`zellige_cpu.values`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import field

from zellige.diagnostics import InternalError
from zellige.records import dataclass
from zellige_cpu.host import Host
from zellige_cpu.intrinsics import resolve
from zellige_cpu.lines import Lines, flattened
from zellige_cpu.types import ELEMENT_BITS, element_of, literal, vector_type
from zellige_cpu.values import Value, constant


@dataclass(slots=True)
class Loop:
    """A counted loop under construction: its counter, and values carried from one iteration to the next."""

    index: Value
    after: str
    next: str
    _phis: list[tuple[Value, Value]] = field(default_factory=list)
    _next_values: dict[str, Value] = field(default_factory=dict)
    _function: Function | None = None

    def carry(self, initial: Value) -> Value:
        """A value that is ``initial`` in the first iteration and what :meth:`update` gave in the later ones."""
        assert self._function is not None
        result = Value(self._function.fresh(), initial.type, initial.lanes)
        self._phis.append((result, initial))
        return result

    def update(self, carried: Value, value: Value) -> None:
        """What ``carried`` is in the next iteration (and, read by its own name after the loop, see :meth:`Function.loop`)."""
        self._next_values[carried.name] = value

    def final(self, carried: Value) -> Value:
        """The carried value after the loop, also when there was no iteration. Only after the ``with`` block has ended."""
        # the loop is tested at its head, so the phi holds the last value there, and the head dominates what follows
        return carried


class Function(Lines):
    """One function under construction; ``module`` is the module it belongs to."""

    __slots__ = ("module", "name", "result", "params", "stack_bytes", "_attributes", "_entry", "_has_unknown_true", "_cleared")

    def __init__(self, module: Module, name: str, result: str, params: Sequence[Value], attributes: str) -> None:
        super().__init__()
        self.module = module
        self.name = name
        self.result = result
        self.params = tuple(params)
        self.stack_bytes = 0
        self._attributes = attributes
        self._entry: list[str] = []
        self._has_unknown_true = False
        self._cleared: dict[str, Value] = {}

    # -- memory -------------------------------------------------------------------------------------------------------

    def offset(self, pointer: Value, distance: Value | int) -> Value:
        """``pointer`` moved by a number of bytes (lanes of pointers where the distance has lanes)."""
        if isinstance(distance, int):
            if distance == 0:
                return pointer
            return self.emit(f"getelementptr i8, ptr {pointer.name}, i64 {distance}", "ptr")
        if distance.name == "0":
            return pointer
        kind = vector_type("ptr", distance.lanes)
        return self.emit(f"getelementptr i8, ptr {pointer.name}, {distance.type} {distance.name}", kind, distance.lanes)

    def load(self, pointer: Value, element: str, lanes: int = 1, *, align: int) -> Value:
        """Adjacent elements from memory. ``align`` is the true alignment of the address, in bytes."""
        kind = vector_type(element, lanes)
        return self.emit(f"load {kind}, ptr {pointer.name}, align {align}", kind, lanes)

    def store(self, value: Value, pointer: Value, *, align: int, streams: bool = False) -> None:
        """Adjacent elements to memory. ``align`` is the true alignment of the address, in bytes. ``streams`` passes the caches by."""
        hint = ", !nontemporal !{i32 1}" if streams else ""
        self.line(f"store {value.type} {value.name}, ptr {pointer.name}, align {align}{hint}")

    def masked_load(self, pointer: Value, mask: Value, otherwise: Value, *, align: int) -> Value:
        """Adjacent elements where the mask holds, ``otherwise`` elsewhere; memory of the other lanes is not touched.

        A register at a time: LLVM 22 does not know how much memory the parts reach that it cuts a wider load into, and aborts on some
        ("Getting value from an unknown LocationSize!").
        """
        parts = [
            self.intrinsic("llvm.masked.load", self.offset(pointer, distance), constant("i32", align), *self._part(lanes, mask, otherwise))
            for lanes, distance in self._registers(otherwise)
        ]
        while len(parts) > 1:
            parts = [self.shuffle(left, right, range(2 * left.lanes)) for left, right in zip(parts[::2], parts[1::2])]
        return parts[0]

    def _registers(self, value: Value) -> list[tuple[range, int]]:
        """The lanes of each register that the vector takes, and how many bytes behind the first they lie; all at once where it takes no
        power of two."""
        bits = ELEMENT_BITS[value.element]
        part = max(1, self.module.host.vector_bytes * 8 // bits)
        count = value.lanes // part
        if count <= 1 or value.lanes % part or count & (count - 1) or bits % 8:
            return [(range(value.lanes), 0)]
        return [(range(first, first + part), first * bits // 8) for first in range(0, value.lanes, part)]

    def _part(self, lanes: range, *values: Value) -> tuple[Value, ...]:
        return values if len(lanes) == values[0].lanes else tuple(self.shuffle(value, None, lanes) for value in values)

    def masked_store(self, value: Value, pointer: Value, mask: Value, *, align: int) -> None:
        """Adjacent elements where the mask holds."""
        host = self.module.host
        if host.is_x86 and "avx512f" in host.features and value.element not in ("float", "double"):
            # LLVM 22 makes a masked store of a truncated vector whose mask is one constant lane a store of the lane before
            # truncation, which writes too many bytes (llvm-project issue 179489). A mask with an unknown factor is never constant.
            mask = self.binary("and", mask, self.splat(self._unknown_true(), mask.lanes))
        for lanes, distance in self._registers(value):
            stored, where = self._part(lanes, value, mask)
            self.intrinsic("llvm.masked.store", stored, self.offset(pointer, distance), constant("i32", align), where)

    def _unknown_true(self) -> Value:
        """True, of which LLVM cannot know it: read once, in the entry block, from a variable that another module might change."""
        if not self._has_unknown_true:
            self._has_unknown_true = self.module.has_unknown_true = True
            self._entry.append("%unknown.bits = load i8, ptr @zellige.unknown.true, align 1")
            self._entry.append("%unknown.true = trunc i8 %unknown.bits to i1")
        return Value("%unknown.true", "i1")

    def atomic_update(self, op: str, pointer: Value, value: Value, order: str, *, align: int) -> Value:
        """``op`` is LLVM's word (add, and, xchg, max ...), ``order`` its ordering (monotonic ...). The value before."""
        return self.emit(f"atomicrmw {op} ptr {pointer.name}, {value.type} {value.name} {order}, align {align}", value.type)

    def atomic_load(self, pointer: Value, element: str, order: str, *, align: int) -> Value:
        return self.emit(f"load atomic {element}, ptr {pointer.name} {order}, align {align}", element)

    def atomic_store(self, value: Value, pointer: Value, order: str, *, align: int) -> None:
        self.line(f"store atomic {value.type} {value.name}, ptr {pointer.name} {order}, align {align}")

    def compare_exchange(
        self, pointer: Value, expected: Value, value: Value, order: str, failure: str, *, align: int
    ) -> tuple[Value, Value]:
        """Replace ``expected`` by ``value``: (what was there, whether it was replaced). The comparison is of bits, so of integers."""
        kind = value.type
        text = f"cmpxchg ptr {pointer.name}, {kind} {expected.name}, {kind} {value.name} {order} {failure}, align {align}"
        pair = self.emit(text, f"{{ {kind}, i1 }}")
        before = self.emit(f"extractvalue {{ {kind}, i1 }} {pair.name}, 0", kind)
        return before, self.emit(f"extractvalue {{ {kind}, i1 }} {pair.name}, 1", "i1")

    def alloca(self, llvm_type: str, count: int = 1, *, align: int = 64) -> Value:
        """Memory of the whole call, made once in the entry block; keep it small (the stack of a worker)."""
        name = self.fresh("a")
        element = element_of(llvm_type)
        lanes = 1 if element == llvm_type else int(llvm_type[1 : llvm_type.index(" ")])
        self.stack_bytes += max(align, count * lanes * ELEMENT_BITS[element] // 8)
        self._entry.append(f"{name} = alloca {llvm_type}, i32 {count}, align {align}")
        return Value(name, "ptr")

    def cleared(self, purpose: str, words: int) -> Value:
        """Words of the whole call that are 0 at first, the same ones each time they are asked for by their purpose."""
        found = self._cleared.get(purpose)
        if found is None:
            found = self._cleared[purpose] = self.alloca("i64", words)
            self._entry.append(f"store <{words} x i64> zeroinitializer, ptr {found.name}, align 64")
        return found

    # -- calls --------------------------------------------------------------------------------------------------------

    def intrinsic(self, name: str, *args: Value, flags: str = "") -> Value:
        """A whitelisted intrinsic by its base name (``llvm.fma``); a void one returns a value that must not be used."""
        full, result, lanes = resolve(name, args)
        self.module.declare(full, result, [a.type for a in args])
        return self._call(full, result, lanes, args, flags)

    def call(self, name: str, *args: Value) -> Value:
        """A function that this module defines or has declared as a symbol of the process."""
        result = self.module.signature(name, [a.type for a in args])
        element = element_of(result)
        lanes = int(result[1 : result.index(" ")]) if element != result else 1
        return self._call(name, result, lanes, args, "")

    def call_pointer(self, pointer: Value, *args: Value) -> None:
        """A function without a result by its address."""
        self.line(f"call void {pointer.name}({', '.join(f'{a.type} {a.name}' for a in args)})")

    def _call(self, name: str, result: str, lanes: int, args: Sequence[Value], flags: str) -> Value:
        operands = ", ".join([f"{a.type} {a.name}" for a in args])
        if result == "void":
            self.line(f"call void @{name}({operands})")
            return Value("", "void", 0)
        return self.emit(f"call {flags} {result} @{name}({operands})" if flags else f"call {result} @{name}({operands})", result, lanes)

    # -- control ------------------------------------------------------------------------------------------------------

    def branch(self, label: str) -> None:
        self.line(f"br label %{label}")

    def branch_if(self, condition: Value, then: str, otherwise: str) -> None:
        self.line(f"br i1 {condition.name}, label %{then}, label %{otherwise}")

    def switch(self, value: Value, otherwise: str, cases: Sequence[tuple[int, str]]) -> None:
        """Go on at the label of the value, at ``otherwise`` where it has none."""
        arms = " ".join(f"{value.type} {number}, label %{label}" for number, label in cases)
        self.line(f"switch {value.type} {value.name}, label %{otherwise} [ {arms} ]")

    def phi(self, *incoming: tuple[Value, str]) -> Value:
        """The value of the block that control came from; the first instruction of its block."""
        first = incoming[0][0]
        sides = ", ".join(f"[ {value.name}, %{label} ]" for value, label in incoming)
        return self.emit(f"phi {first.type} {sides}", first.type, first.lanes)

    def ret(self, value: Value | None = None) -> None:
        self.line("ret void" if value is None else f"ret {value.type} {value.name}")

    @contextmanager
    def when(self, condition: Value) -> Iterator[None]:
        """The code of the block runs only where the scalar condition holds."""
        if condition.name == "true":
            yield
            return
        then, after = self.fresh_label("then"), self.fresh_label("fi")
        self.branch_if(condition, then, after)
        self.label(then)
        yield
        self.label(after)

    @contextmanager
    def loop(self, start: Value, stop: Value, step: int | Value = 1) -> Iterator[Loop]:
        """``for index in range(start, stop, step)`` with integers of one type; ``step`` is positive.

        The counter does not wrap: the caller knows that ``stop + step`` fits. Leave early with ``branch(loop.after)``, go on with
        ``branch(loop.next)`` (not from a loop that carries values).
        """
        kind = start.type
        head, body, following, after = (self.fresh_label(stem) for stem in ("head", "body", "next", "done"))
        before = self.fresh_label("pre")
        self.label(before)
        index = Value(self.fresh("i"), kind)
        loop = Loop(index, after, following, _function=self)
        self.label(head)
        slot = len(self._lines)
        self._lines.append("")  # the phi nodes, known only at the end
        test = self.emit(f"icmp slt {kind} {index.name}, {stop.name}", "i1")
        self.branch_if(test, body, after)
        self.label(body)
        yield loop
        self.label(following)
        amount = str(step) if isinstance(step, int) else step.name
        increased = self.emit(f"add nsw {kind} {index.name}, {amount}", kind)
        self.branch(head)
        phis = [f"{index.name} = phi {kind} [ {start.name}, %{before} ], [ {increased.name}, %{following} ]"]
        for carried, initial in loop._phis:
            updated = loop._next_values.get(carried.name, carried)
            phis.append(f"{carried.name} = phi {carried.type} [ {initial.name}, %{before} ], [ {updated.name}, %{following} ]")
        self._lines[slot] = "\n".join(phis)
        self.label(after)

    def text(self, inline: bool | None = None) -> str:
        """The whole definition; ``inline`` as :meth:`Module.function` has it."""
        if self._is_open:
            if self.result != "void":
                raise InternalError(f"function {self.name} ends without a value")
            self.ret()
        params = ", ".join(f"{p.type} {p.name}" for p in self.params)
        body = "\n".join([*self._entry, *flattened(self._lines)])
        wish = "" if inline is None else "alwaysinline " if inline else "noinline "
        return f"define {self._attributes}{self.result} @{self.name}({params}) {wish}#0 {{\nentry:\n{body}\n}}\n"


class Module:
    """One LLVM module under construction, for one host."""

    def __init__(self, name: str, host: Host) -> None:
        self.name = name
        self.host = host
        self.header = ""
        self._functions: dict[str, Function] = {}
        self._signatures: dict[str, tuple[str, tuple[str, ...]]] = {}
        self._declarations: dict[str, str] = {}
        self._constants: dict[str, str] = {}
        self._inline: dict[str, bool] = {}
        self.has_unknown_true = False
        self._texts: list[str] = []
        self._zero_bytes = 0
        self.symbols: set[str] = set()
        """Names that must resolve to symbols of the process."""

    def function(
        self, name: str, result: str, params: Sequence[tuple[str, str]], *, is_exported: bool = False, inline: bool | None = None
    ) -> Function:
        """A new function; ``params`` are (name, LLVM type). ``inline`` True always, False never, None as LLVM likes."""
        if name in self._signatures:
            raise InternalError(f"function {name} is defined twice")
        self._signatures[name] = (result, tuple(kind for _, kind in params))
        values = []
        for parameter, kind in params:
            element = element_of(kind)
            values.append(Value(f"%{parameter}", kind, int(kind[1 : kind.index(" ")]) if element != kind else 1))
        function = Function(self, name, result, values, "" if is_exported else "internal ")
        self._functions[name] = function
        if inline is not None:
            self._inline[name] = inline
        return function

    @property
    def function_count(self) -> int:
        """How many functions the module has, for names that are new."""
        return len(self._functions)

    def has_function(self, name: str) -> bool:
        """Whether a function of that name exists, so that a leaf is emitted once."""
        return name in self._signatures

    def signature(self, name: str, args: Sequence[str]) -> str:
        """The result type of a callable function, after checking the argument types."""
        if name not in self._signatures:
            raise InternalError(f"call of the undeclared function {name}")
        result, params = self._signatures[name]
        if tuple(args) != params:
            raise InternalError(f"call of {name} with {list(args)}, it takes {list(params)}")
        return result

    def declare(self, name: str, result: str, params: Sequence[str]) -> None:
        """An intrinsic whose name and types :func:`zellige_cpu.intrinsics.resolve` has checked."""
        if name not in self._declarations:
            self._declarations[name] = f"declare {result} @{name}({', '.join(params)})"

    def symbol(self, name: str, result: str, params: Sequence[str]) -> str:
        """A function of the process (libm and the like); the name to call it by. Whether it resolves is checked before loading."""
        if name not in self._signatures:
            self._signatures[name] = (result, tuple(params))
            # nobuiltin: what LLVM believes of fmodf is wrong, that it is a number for a finite x whatever the divisor
            self._declarations[name] = f"declare {result} @{name}({', '.join(params)}) nounwind nobuiltin"
            self.symbols.add(name)
        return name

    def add_text(self, name: str, result: str, params: Sequence[str], text: str, symbols: Sequence[str]) -> None:
        """A function written out, with the declarations of the functions of the process that it calls."""
        if name in self._signatures:
            raise InternalError(f"function {name} is defined twice")
        self._signatures[name] = (result, tuple(params))
        self._texts.append(text)
        self.symbols.update(symbols)

    def table(self, element: str, values: Sequence[int | float], *, align: int = 64) -> Value:
        """A constant array; the pointer to its first element."""
        text = f"[{len(values)} x {element}] [{', '.join(f'{element} {literal(element, v)}' for v in values)}], align {align}"
        name = self._constants.setdefault(text, f"table{len(self._constants)}")
        return Value(f"@{name}", "ptr")

    def zeros(self, size: int) -> Value:
        """Constant memory of at least ``size`` bytes that are all zero."""
        self._zero_bytes = max(self._zero_bytes, size)
        return Value("@zeros", "ptr")

    def text(self) -> str:
        """The module for LLVM's parser."""
        host = self.host
        lines = [f"; {line}" for line in self.header.splitlines()]
        lines.append(f'target triple = "{host.triple}"')
        lines.extend(f"@{name} = private unnamed_addr constant {text}" for text, name in self._constants.items())
        if self._zero_bytes:
            lines.append(f"@zeros = private unnamed_addr constant [{self._zero_bytes} x i8] zeroinitializer, align 64")
        if self.has_unknown_true:
            lines.append("@zellige.unknown.true = weak global i8 1")
        lines.extend(self._declarations.values())
        lines.extend(self._texts)
        lines.extend(function.text(self._inline.get(name)) for name, function in self._functions.items())
        lines.append(f'attributes #0 = {{ nounwind "prefer-vector-width"="{host.vector_bytes * 8}" }}')
        return "\n".join(lines) + "\n"
