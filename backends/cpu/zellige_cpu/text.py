"""LLVM IR as text: functions and modules are built line by line, and only what is declared can be called.

In: calls of :class:`Function` methods by the emitters. Out: :meth:`Module.text`, one string for LLVM's parser.

The builder is lean because generating the text costs as much as compiling it. It keeps two promises that LLVM itself does not check
before code generation: an intrinsic is called only if :data:`zellige_cpu.intrinsics.INTRINSICS` lists it with operand types it accepts,
and any other function only if this module defines it or declared it as a symbol of the process. Anything else is an InternalError here.
Constants are :class:`Value` too: their name is the literal, so they may stand wherever a register may.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

from zellige.diagnostics import InternalError
from zellige_cpu.host import Host
from zellige_cpu.intrinsics import resolve
from zellige_cpu.types import ELEMENT_BITS, element_of, literal, vector_type


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


Line: TypeAlias = "str | list[Line]"
"""One line of code, or a stretch of lines reserved earlier and filled later."""

_TERMINATORS: Final = ("ret ", "br ", "switch ", "unreachable")


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


class Function:
    """One function under construction. Code goes to the current block; the entry block is open at the start.

    ``module`` is the module it belongs to. Operands of one operation must have the same type and lanes; :meth:`match` broadcasts.
    """

    __slots__ = (
        "module", "name", "result", "params", "current",
        "_attributes", "_lines", "_entry", "_counter", "_is_open", "_block_start", "_has_unknown_true", "_cleared", "stack_bytes",
    )  # fmt: skip

    def __init__(self, module: Module, name: str, result: str, params: Sequence[Value], attributes: str) -> None:
        self.module = module
        self.name = name
        self.result = result
        self.params = tuple(params)
        self._attributes = attributes
        self._lines: list[Line] = []
        self._entry: list[str] = []
        self._counter = 0
        self._is_open = True
        self._block_start = 0
        self._has_unknown_true = False
        self._cleared: dict[str, Value] = {}
        self.stack_bytes = 0
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

    def label(self, name: str) -> None:
        """Begins a block; the block before falls through into it unless it has ended."""
        if self._is_open:
            self._lines.append(f"br label %{name}")
        self._lines.append(f"{name}:")
        self._block_start = self._counter
        self.current = name
        self._is_open = True

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
        body = "\n".join([*self._entry, *_flattened(self._lines)])
        wish = "" if inline is None else "alwaysinline " if inline else "noinline "
        return f"define {self._attributes}{self.result} @{self.name}({params}) {wish}#0 {{\nentry:\n{body}\n}}\n"


def _flattened(lines: list[Line]) -> Iterator[str]:
    for line in lines:
        if isinstance(line, str):
            yield line
        else:
            yield from _flattened(line)


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
