"""The launching code as LLVM IR: arguments are checked, packed and handed to a driver without a step of Python.

In: the function that packs (:mod:`zellige.runtime.native.stub`). Out: ``zellige_launch`` in the same module, a Python function of
positional arguments. It returns the driver's answer as a number, 0 for success; None, with nothing launched, where Python has to look: at
arguments that the packing code does not know, a context that the code is not loaded in, a grid that the driver does not take.

The driver's launch has the form that drivers of machines with lanes share: ``int start(handle, grid x, y, z, lanes x, y, z, shared bytes,
stream, addresses of the parameters, NULL)``. Other threads of Python run while the driver works.
"""

from __future__ import annotations

from typing import Any, Final

from llvmlite import ir

from zellige.runtime.native import layout
from zellige.runtime.native.layout import Code, Context, Form, Given, Head, Launching, Made, Passed, Step
from zellige.runtime.native.stub import Function, Outside

NAME: Final = "zellige_launch"

_I8, _I32, _I64 = ir.IntType(8), ir.IntType(32), ir.IntType(64)
_PTR: Final = ir.PointerType()
_START: Final = ir.FunctionType(_I32, (_PTR, *[_I32] * 7, _PTR, _PTR, _PTR))
_OF_CONTEXT: Final = ir.FunctionType(_I32, (_PTR,))
_MAKE: Final = ir.FunctionType(_I32, (_I64,) * layout.MOST_MADE_ARGUMENTS)
_STREAM: Final = ir.FunctionType(_I32, (_I32, _I32, _PTR))
_JOINS: Final = (Code.ADD, Code.SUBTRACT, Code.MULTIPLY, Code.DIVIDE, Code.MODULO, Code.LEAST, Code.GREATEST)


class Launcher(Function):
    """The function under construction."""

    def __init__(self, module: ir.Module, outside: Outside, words: ir.Function) -> None:
        super().__init__(module, NAME, _PTR, (_PTR, _PTR, _I64))
        self.module = module
        self.outside = outside
        self.pack = words

    def emit(self) -> None:
        b = self.b
        table_object, given, count = self.function.args
        self.table = self.at(table_object, layout.BYTES_DATA)
        self.launching = self.word(self.table, Head.LAUNCHING, _PTR)
        self.device_cell, self.context_cell, self.stream_cell = b.alloca(_I64), b.alloca(_PTR), b.alloca(_PTR)
        self.chosen, self.status = b.alloca(_PTR), b.alloca(_I32)
        self.grids = b.alloca(_I64, 3 * layout.MOST_STEPS)
        self.stack, self.depth = b.alloca(_I64, layout.MOST_DEPTH + 1), b.alloca(_I64)
        self.addresses, self.singles = self.cells(_I64(layout.MOST_PASSED)), self.cells(_I64(layout.MOST_PASSED))
        self.made = self.cells(_I64(layout.MOST_MADE * layout.MADE_BYTES // 8))
        self.made.align = layout.MADE_ALIGNMENT
        self.given = self.cells(_I64(layout.MOST_MADE_ARGUMENTS))
        self.words = self.cells(self.word(self.table, Head.SPARE))
        self.require(self.is_equal(b.call(self.pack, [self.table, given, count, self.words, self.device_cell]), _I32(0)))
        self.see_apart()
        self.device = self.device_number()
        self.choose_context()
        steps = self.word(self.launching, Launching.STEPS)
        with self.loop(steps) as number:
            self.grid(number)
        with self.loop(self.word(self.launching, Launching.MADE)) as number:
            self.make(number)
        stream = self.stream()
        state = b.call(self.outside.let_others_run, [])
        self.start_all(steps, stream)
        b.call(self.outside.run_again, [state])
        b.ret(b.call(self.outside.new_long, [b.sext(b.load(self.status, typ=_I32), _I64)]))
        b.position_at_end(self.fail)
        none = self.word(self.table, Head.NONE, _PTR)
        b.call(self.outside.increase, [none])
        b.ret(none)

    def see_apart(self) -> None:
        """Tensors that the code takes for different arrays begin at different addresses, or there are none."""
        b = self.b
        pairs = self.at(self.launching, b.mul(self.word(self.launching, Launching.APART_AT), _I64(8)))
        with self.loop(self.word(self.launching, Launching.APART)) as number:
            pair = self.at(pairs, b.mul(number, _I64(16)))
            first, second = (self.word(self.words, self.word(pair, place)) for place in range(2))
            self.require(b.or_(b.not_(self.is_equal(first, second)), self.is_equal(first, _I64(0))))

    def cells(self, count: Any) -> Any:
        """Room for that many words."""
        return self.b.alloca(_I64, count)

    # ---- where

    def device_number(self) -> Any:
        """The index of the device that the tensors lie on; a call without tensors on a device of this kind is Python's."""
        b = self.b
        device = b.load(self.device_cell, typ=_I64)
        self.require(self.is_equal(b.and_(device, _I64(0xFFFF_FFFF)), self.word(self.launching, Launching.DEVICE_TYPE)))
        return b.ashr(device, _I64(32))

    def choose_context(self) -> None:
        """The record of the current context where that is one of the tensors' device, else of the context that frameworks share there."""
        b = self.b
        self.require(self.is_equal(b.call(self.called(Launching.CURRENT, _OF_CONTEXT), [self.context_cell]), _I32(0)))
        here = b.load(self.context_cell, typ=_PTR)
        b.store(_PTR(None), self.chosen)
        for is_current in (False, True):  # the later choice wins
            with self.loop(self.word(self.launching, Launching.CONTEXTS)) as number:
                place = b.add(b.mul(number, _I64(Context.WORDS)), _I64(Launching.WORDS))
                record = self.at(self.launching, b.mul(place, _I64(8)))
                is_device = self.is_equal(self.word(record, Context.DEVICE), self.device)
                if is_current:
                    fits = self.is_equal(self.word(record, Context.CONTEXT, _PTR), here)
                else:
                    fits = self.is_equal(self.word(record, Context.IS_ENTERED), _I64(1))
                b.store(b.select(b.and_(is_device, fits), record, b.load(self.chosen, typ=_PTR)), self.chosen)
        self.record = b.load(self.chosen, typ=_PTR)
        self.require(b.not_(self.is_equal(self.record, _PTR(None))))
        self.context = self.word(self.record, Context.CONTEXT, _PTR)
        self.is_entered = b.not_(self.is_equal(self.context, here))

    def stream(self) -> Any:
        """The stream that the tensors' framework has current on the device."""
        b = self.b
        b.store(_PTR(None), self.stream_cell)
        ask = self.called(Launching.STREAM, _STREAM)
        kind = b.trunc(self.word(self.launching, Launching.DEVICE_TYPE), _I32)
        failed = b.call(ask, [kind, b.trunc(self.device, _I32), self.stream_cell])
        known, unknown = self.function.append_basic_block("stream"), self.function.append_basic_block("no_stream")
        b.cbranch(self.is_equal(failed, _I32(0)), known, unknown)
        b.position_at_end(unknown)
        b.call(self.outside.clear_error, [])
        b.branch(self.fail)
        b.position_at_end(known)
        return b.load(self.stream_cell, typ=_PTR)

    # ---- grids

    def step(self, number: Any) -> Any:
        """The record of a launch."""
        first = self.word(self.launching, Launching.STEPS_AT)
        place = self.b.add(first, self.b.mul(number, _I64(Step.WORDS)))
        return self.at(self.launching, self.b.mul(place, _I64(8)))

    def grid(self, number: Any) -> None:
        """Compute the extents of a launch's grid, and see that the driver takes them."""
        b = self.b
        record = self.step(number)
        self.run(self.word(record, Step.PROGRAM_AT), self.word(record, Step.PROGRAM_LENGTH))
        for axis, most in enumerate((Launching.MOST_X, Launching.MOST_Y, Launching.MOST_Z)):
            extent = self.word(self.stack, axis)
            self.require(b.icmp_signed("<=", extent, self.word(self.launching, most)))
            self.put(self.grids, b.add(b.mul(number, _I64(3)), _I64(axis)), extent)

    def run(self, first: Any, length: Any) -> None:
        """A program, which leaves its values at the bottom of the stack."""
        b = self.b
        program = self.at(self.launching, b.mul(first, _I64(8)))
        b.store(_I64(0), self.depth)
        with self.loop(length) as place:
            instruction = self.at(program, b.mul(place, _I64(16)))
            self.execute(self.word(instruction, 0), self.word(instruction, 1))

    def execute(self, code: Any, operand: Any) -> None:
        """One instruction of a program. Places at hand are never more than ``MOST_DEPTH``, as the table's maker sees to."""
        b = self.b
        after = self.function.append_basic_block("instruction_done")
        given, packed = (self.function.append_basic_block(name) for name in ("number", "word"))
        switch = b.switch(code, self.fail)
        for kind, block in ((Code.NUMBER, given), (Code.WORD, packed)):
            switch.add_case(_I64(kind), block)
            b.position_at_end(block)
            self.push(operand if kind is Code.NUMBER else self.word(self.words, operand))
            b.branch(after)
        for kind in _JOINS:
            block = self.function.append_basic_block(kind.name.lower())
            switch.add_case(_I64(kind), block)
            b.position_at_end(block)
            right, left = self.pop(), self.pop()
            self.push(self.joined(kind, left, right))
            b.branch(after)
        b.position_at_end(after)

    def push(self, value: Any) -> None:
        depth = self.b.load(self.depth, typ=_I64)
        self.put(self.stack, depth, value)
        self.b.store(self.b.add(depth, _I64(1)), self.depth)

    def pop(self) -> Any:
        depth = self.b.sub(self.b.load(self.depth, typ=_I64), _I64(1))
        self.b.store(depth, self.depth)
        return self.word(self.stack, depth)

    def joined(self, kind: Code, left: Any, right: Any) -> Any:
        """Two values joined; what 64 bits do not hold is Python's."""
        b = self.b
        match kind:
            case Code.ADD | Code.SUBTRACT | Code.MULTIPLY:
                operation = {Code.ADD: b.sadd_with_overflow, Code.SUBTRACT: b.ssub_with_overflow, Code.MULTIPLY: b.smul_with_overflow}[kind]
                pair = operation(left, right)
                self.require(b.not_(b.extract_value(pair, 1)))
                return b.extract_value(pair, 0)
            case Code.DIVIDE | Code.MODULO:
                self.require(b.icmp_signed(">", right, _I64(0)))
                whole, rest = b.sdiv(left, right), b.srem(left, right)
                is_below = b.icmp_signed("<", rest, _I64(0))  # toward minus infinity
                if kind is Code.DIVIDE:
                    return b.sub(whole, b.zext(is_below, _I64))
                return b.select(is_below, b.add(rest, right), rest)
            case _:
                is_left = b.icmp_signed("<" if kind is Code.LEAST else ">", left, right)
                return b.select(is_left, left, right)

    # ---- what functions of the driver make

    def make(self, number: Any) -> None:
        """Have a parameter made; its values lie on the stack while the function runs."""
        b = self.b
        place = b.add(self.word(self.launching, Launching.MADE_AT), b.mul(number, _I64(Made.WORDS)))
        record = self.at(self.launching, b.mul(place, _I64(8)))
        self.require(b.not_(self.is_equal(self.word(self.words, self.word(record, Made.TENSOR)), _I64(0))))
        self.run(self.word(record, Made.PROGRAM_AT), self.word(record, Made.PROGRAM_LENGTH))
        with self.loop(self.word(record, Made.POSITIVE)) as value:
            self.require(b.icmp_signed(">", self.word(self.stack, value), _I64(0)))
        result = b.ptrtoint(self.at(self.made, b.mul(number, _I64(layout.MADE_BYTES))), _I64)
        arguments = self.at(record, 8 * Made.ARGUMENTS_AT)
        with self.loop(_I64(layout.MOST_MADE_ARGUMENTS)) as argument:
            pair = self.at(arguments, b.mul(argument, _I64(16)))
            self.put(self.given, argument, self.given_to(self.word(pair, 0), self.word(pair, 1), result))
        function = self.word(record, Made.FUNCTION, ir.PointerType(_MAKE))
        values = [self.word(self.given, argument) for argument in range(layout.MOST_MADE_ARGUMENTS)]
        self.require(self.is_equal(b.call(function, values), _I32(0)))

    def given_to(self, form: Any, number: Any, result: Any) -> Any:
        """An argument of such a function. What is not meant is not read: a place of the stack or a word are there for every number."""
        b = self.b
        is_word, is_list = self.is_equal(form, _I64(Given.WORD)), self.is_equal(form, _I64(Given.LIST))
        word = self.word(self.words, b.select(is_word, number, _I64(0)))
        value = b.ptrtoint(self.at(self.stack, b.mul(b.select(is_list, number, _I64(0)), _I64(8))), _I64)
        chosen = b.select(is_word, word, b.select(is_list, value, number))
        return b.select(self.is_equal(form, _I64(Given.RESULT)), result, chosen)

    # ---- launching

    def start_all(self, steps: Any, stream: Any) -> None:
        """Every launch in order, in the chosen context; after one that the driver refuses there is no other."""
        b = self.b
        b.store(_I32(0), self.status)
        with b.if_then(self.is_entered):
            enter = self.called(Launching.ENTER, _OF_CONTEXT)
            b.store(b.call(enter, [self.context]), self.status)
        is_inside = self.is_equal(b.load(self.status, typ=_I32), _I32(0))
        with self.loop(steps) as number:
            first = b.mul(number, _I64(3))
            extents = [self.word(self.grids, b.add(first, _I64(axis))) for axis in range(3)]
            is_wanted = self.is_equal(b.load(self.status, typ=_I32), _I32(0))
            for extent in extents:
                is_wanted = b.and_(is_wanted, b.icmp_signed(">", extent, _I64(0)))
            with b.if_then(is_wanted):
                self.start(number, extents, stream)
        with b.if_then(b.and_(self.is_entered, is_inside)):
            leave = self.called(Launching.LEAVE, _OF_CONTEXT)
            b.call(leave, [self.context_cell])

    def start(self, number: Any, extents: list[Any], stream: Any) -> None:
        b = self.b
        record = self.step(number)
        first = self.at(self.launching, b.mul(self.word(record, Step.PASSED_AT), _I64(8)))
        with self.loop(self.word(record, Step.PASSED)) as place:
            passed = self.at(first, b.mul(place, _I64(8 * Passed.WORDS)))
            form, number_of = self.word(passed, Passed.FORM), self.word(passed, Passed.WORD)
            is_made = self.is_equal(form, _I64(Form.MADE))
            word = self.at(self.words, b.mul(b.select(is_made, _I64(0), number_of), _I64(8)))
            single = self.at(self.singles, b.mul(place, _I64(8)))
            narrow = b.zext(b.bitcast(b.fptrunc(b.load(word, typ=ir.DoubleType()), ir.FloatType()), _I32), _I64)
            b.store(narrow, single)
            made = self.at(self.made, b.mul(b.select(is_made, number_of, _I64(0)), _I64(layout.MADE_BYTES)))
            address = b.select(is_made, made, b.select(self.is_equal(form, _I64(Form.SINGLE)), single, word))
            b.store(b.ptrtoint(address, _I64), self.at(self.addresses, b.mul(place, _I64(8))))
        numbers = [*extents, *(self.word(record, field) for field in (Step.THREADS_X, Step.THREADS_Y, Step.THREADS_Z, Step.SHARED_BYTES))]
        handle = self.word(self.record, b.add(number, _I64(Context.HANDLES)), _PTR)
        start = self.called(Launching.START, _START)
        answer = b.call(start, [handle, *(b.trunc(n, _I32) for n in numbers), stream, self.addresses, _PTR(None)])
        b.store(answer, self.status)

    def called(self, word: Launching, kind: ir.FunctionType) -> Any:
        """A function of the table."""
        return self.word(self.launching, word, ir.PointerType(kind))
