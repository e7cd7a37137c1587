"""The packing code as LLVM IR.

In: nothing. Out: a module with two functions of the form of a Python function that takes positional arguments (``METH_FASTCALL``), whose
``self`` is a bytes object that holds a table (:mod:`zellige.runtime.native.layout`). ``zellige_pack`` returns a bytes object: one word for
each pointer, scalar and size in the order of ``CompiledKernel.launch``, then the address of the spare words, a zero, the spare words.
``zellige_launch`` (:mod:`zellige.runtime.native.launching`) hands the same words to a driver. For arguments that do not fit, or that
they do not know, both return None: the Python code then does the same work and explains what is wrong.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from llvmlite import ir

from zellige.runtime.native import layout
from zellige.runtime.native.layout import Argument, Equation, Head, Kind

NAME: Final = "zellige_pack"
WORDS: Final = "zellige_words"

_I8, _I32, _I64 = ir.IntType(8), ir.IntType(32), ir.IntType(64)
_PTR: Final = ir.PointerType()
_ONE_ARGUMENT: Final = 1 | 1 << 63
"""One argument, and the word before it may be overwritten (``PY_VECTORCALL_ARGUMENTS_OFFSET``)."""


def module_text(triple: str) -> str:
    """The module's LLVM IR."""
    from zellige.runtime.native.launching import Launcher

    module = ir.Module(NAME)
    module.triple = triple
    outside = Outside(module)
    words = _Words(module, outside)
    words.emit()
    _emit_pack(module, outside, words.function)
    Launcher(module, outside, words.function).emit()
    return str(module)


class Outside:
    """The functions of the interpreter that the code calls."""

    def __init__(self, module: ir.Module) -> None:
        def outside(name: str, result: ir.Type, *params: ir.Type) -> ir.Function:
            return ir.Function(module, ir.FunctionType(result, params), name)

        self.new_bytes = outside("PyBytes_FromStringAndSize", _PTR, _PTR, _I64)
        self.new_long = outside("PyLong_FromLong", _PTR, _I64)
        self.increase = outside("Py_IncRef", ir.VoidType(), _PTR)
        self.decrease = outside("Py_DecRef", ir.VoidType(), _PTR)
        self.as_long = outside("PyLong_AsLongLongAndOverflow", _I64, _PTR, _PTR)
        self.clear_error = outside("PyErr_Clear", ir.VoidType())
        self.call_method = outside("PyObject_VectorcallMethod", _PTR, _PTR, _PTR, _I64, _PTR)
        self.let_others_run = outside("PyEval_SaveThread", _PTR)
        self.run_again = outside("PyEval_RestoreThread", ir.VoidType(), _PTR)


class Function:
    """A function under construction, and the pieces that all of them are made of. A condition that does not hold leads to ``fail``."""

    def __init__(self, module: ir.Module, name: str, result: ir.Type, params: tuple[ir.Type, ...]) -> None:
        self.function = ir.Function(module, ir.FunctionType(result, params), name)
        self.entry = self.function.append_basic_block("entry")
        self.fail = self.function.append_basic_block("fail")
        self.b = ir.IRBuilder(self.entry)

    def at(self, base: Any, offset: Any) -> Any:
        """The address ``offset`` bytes behind ``base``."""
        where = _I64(offset) if isinstance(offset, int) else offset
        return self.b.gep(base, [where], source_etype=_I8)

    def load(self, base: Any, offset: Any, kind: ir.Type = _I64) -> Any:
        return self.b.load(self.at(base, offset), typ=kind)

    def word(self, base: Any, number: Any, kind: ir.Type = _I64) -> Any:
        """Word ``number`` behind ``base``."""
        return self.load(base, number * 8 if isinstance(number, int) else self.b.mul(number, _I64(8)), kind)

    def put(self, base: Any, number: Any, value: Any) -> None:
        self.b.store(value, self.at(base, self.b.mul(number, _I64(8))))

    def is_equal(self, left: Any, right: Any) -> Any:
        return self.b.icmp_unsigned("==", left, right)

    def require(self, condition: Any) -> None:
        following = self.function.append_basic_block("fits")
        self.b.cbranch(condition, following, self.fail)
        self.b.position_at_end(following)

    @contextmanager
    def loop(self, count: Any) -> Iterator[Any]:
        """The body once for each number below ``count``."""
        before = self.b.block
        head, body, after = (self.function.append_basic_block(name) for name in ("head", "body", "after"))
        self.b.branch(head)
        self.b.position_at_end(head)
        number = self.b.phi(_I64)
        number.add_incoming(_I64(0), before)
        self.b.cbranch(self.b.icmp_signed("<", number, count), body, after)
        self.b.position_at_end(body)
        yield number
        number.add_incoming(self.b.add(number, _I64(1)), self.b.block)
        self.b.branch(head)
        self.b.position_at_end(after)


def _emit_pack(module: ir.Module, outside: Outside, words: ir.Function) -> None:
    """``zellige_pack``: the words as a bytes object."""
    made = Function(module, NAME, _PTR, (_PTR, _PTR, _I64))
    b = made.b
    table_object, given, count = made.function.args
    table = made.at(table_object, layout.BYTES_DATA)
    result = b.call(outside.new_bytes, [_PTR(None), made.word(table, Head.RESULT_BYTES)])
    unmade, filled = (made.function.append_basic_block(name) for name in ("unmade", "filled"))
    b.cbranch(made.is_equal(result, _PTR(None)), unmade, filled)
    b.position_at_end(unmade)
    b.ret(_PTR(None))  # no memory: the error is set
    b.position_at_end(filled)
    packed = made.at(result, layout.BYTES_DATA)
    made.require(made.is_equal(b.call(words, [table, given, count, packed, b.alloca(_I64)]), _I32(0)))
    spare = made.word(table, Head.SPARE)
    behind = made.at(packed, b.mul(b.add(spare, _I64(2)), _I64(8)))
    made.put(packed, spare, b.ptrtoint(behind, _I64))
    with made.loop(_I64(layout.SPARE_WORDS + 1)) as number:
        made.put(packed, b.add(b.add(spare, number), _I64(1)), _I64(0))
    b.ret(result)
    b.position_at_end(made.fail)
    b.call(outside.decrease, [result])
    none = made.word(table, Head.NONE, _PTR)
    b.call(outside.increase, [none])
    b.ret(none)


class _Words(Function):
    """``zellige_words(table, arguments, count, words, device)``: checks the arguments and writes pointers, scalars and sizes to ``words``
    and the device of the first tensor to ``device`` (-1: there is none). Returns 0, or 1 where the call is not one that it knows."""

    def __init__(self, module: ir.Module, outside: Outside) -> None:
        super().__init__(module, WORDS, _I32, (_PTR, _PTR, _I64, _PTR, _PTR))
        self.function.linkage = "internal"
        self.outside = outside
        self.read_type = ir.FunctionType(_I32, (_PTR, _PTR))

    def emit(self) -> None:
        b = self.b
        self.table, self.given, count, self.words, self.device = self.function.args
        most = layout.MOST_ARGUMENTS
        self.extents, self.strides = (b.alloca(_PTR, most) for _ in range(2))
        self.units = b.alloca(_I64, most)
        self.tensors = b.alloca(ir.ArrayType(_I8, layout.TENSOR_BYTES), most)
        self.asked = b.alloca(_I64, 2)
        self.step = b.alloca(_I64)
        self.overflow = b.alloca(_I32)
        b.store(_I64(-1), self.device)
        arguments = self.word(self.table, Head.ARGUMENTS)
        self.require(self.is_equal(count, arguments))
        with self.loop(arguments) as number:
            self.argument(number)
        first = b.add(b.mul(arguments, _I64(Argument.WORDS)), _I64(Head.WORDS))
        with self.loop(self.word(self.table, Head.EQUATIONS)) as number:
            self.equation(self.at(self.table, b.mul(b.add(first, b.mul(number, _I64(Equation.WORDS))), _I64(8))))
        b.ret(_I32(0))
        b.position_at_end(self.fail)
        b.ret(_I32(1))

    def argument(self, number: Any) -> None:
        b = self.b
        place = b.add(b.mul(number, _I64(Argument.WORDS)), _I64(Head.WORDS))
        record = self.at(self.table, b.mul(place, _I64(8)))
        value = self.word(self.given, number, _PTR)
        kind = self.load(value, layout.TYPE)
        after = self.function.append_basic_block("argument_done")
        tensor, integer, real = (self.function.append_basic_block(name) for name in ("tensor", "integer", "real"))
        slot = self.word(record, Argument.SLOT)
        switch = b.switch(self.word(record, Argument.KIND), tensor)
        switch.add_case(_I64(Kind.INTEGER), integer)
        switch.add_case(_I64(Kind.REAL), real)

        b.position_at_end(integer)
        is_int = self.is_equal(kind, self.word(self.table, Head.INT_TYPE))
        self.require(b.or_(is_int, self.is_equal(kind, self.word(self.table, Head.BOOL_TYPE))))
        whole = b.call(self.outside.as_long, [value, self.overflow])
        self.require(self.is_equal(b.load(self.overflow, typ=_I32), _I32(0)))
        self.require(b.icmp_signed(">=", whole, self.word(record, Argument.LEAST)))
        self.require(b.icmp_signed("<=", whole, self.word(record, Argument.GREATEST)))
        self.put(self.words, slot, whole)
        b.branch(after)

        b.position_at_end(real)
        self.require(self.is_equal(kind, self.word(self.table, Head.FLOAT_TYPE)))
        self.put(self.words, slot, self.load(value, layout.FLOAT_VALUE))
        b.branch(after)

        b.position_at_end(tensor)
        array, foreign, pointed = (self.function.append_basic_block(name) for name in ("array", "foreign", "pointed"))
        b.cbranch(self.is_equal(kind, self.word(self.table, Head.ARRAY_TYPE)), array, foreign)
        b.position_at_end(array)
        array_data = self.array(number, record, value)
        array_end = b.block
        b.branch(pointed)
        b.position_at_end(foreign)
        foreign_data = self.foreign(number, record, value, kind)
        foreign_end = b.block
        b.branch(pointed)
        b.position_at_end(pointed)
        data = b.phi(_I64)
        data.add_incoming(array_data, array_end)
        data.add_incoming(foreign_data, foreign_end)
        self.require(self.is_equal(b.and_(data, self.word(record, Argument.ALIGNMENT_MASK)), _I64(0)))
        self.put(self.words, slot, data)
        b.branch(after)
        b.position_at_end(after)

    def array(self, number: Any, record: Any, value: Any) -> Any:
        """A NumPy array: its checks; the address of its data."""
        b = self.b
        self.require(self.is_equal(self.word(self.table, Head.HAS_HOST), _I64(1)))
        self.on_device(_I64(1))  # DLPack's number of ordinary memory, device 0
        self.require(self.is_equal(b.sext(self.load(value, layout.ARRAY_RANK, _I32), _I64), self.word(record, Argument.RANK)))
        self.one_of(self.load(value, layout.ARRAY_DTYPE), record, Argument.DTYPE)
        flags = b.zext(self.load(value, layout.ARRAY_FLAGS, _I32), _I64)
        self.has_flag(flags, layout.FLAG_CONTIGUOUS, self.word(record, Argument.IS_DENSE))
        self.has_flag(flags, layout.FLAG_WRITEABLE, self.word(record, Argument.IS_WRITTEN))
        extents, strides = self.load(value, layout.ARRAY_EXTENTS, _PTR), self.load(value, layout.ARRAY_STRIDES, _PTR)
        self.note(number, extents, strides, self.word(record, Argument.CELL_BYTES))
        return self.load(value, layout.ARRAY_DATA)

    def foreign(self, number: Any, record: Any, value: Any, kind: Any) -> Any:
        """A tensor whose type describes itself through a table of functions: its checks; the address of its data."""
        b = self.b
        is_first = self.is_equal(kind, self.word(self.table, Head.FOREIGN_TYPE))
        self.require(b.or_(is_first, self.is_equal(kind, self.word(self.table, Head.OTHER_FOREIGN_TYPE))))
        tensor = self.at(self.tensors, b.mul(number, _I64(layout.TENSOR_BYTES)))
        failed = self.read(value, tensor)
        readable, unreadable = self.function.append_basic_block("readable"), self.function.append_basic_block("unreadable")
        b.cbranch(self.is_equal(failed, _I32(0)), readable, unreadable)
        b.position_at_end(unreadable)
        b.call(self.outside.clear_error, [])
        b.branch(self.fail)
        b.position_at_end(readable)
        self.see_negation(value)
        device = self.load(tensor, layout.TENSOR_DEVICE)
        type_of_device = b.and_(device, _I64(0xFFFF_FFFF))
        is_known = self.is_equal(type_of_device, self.word(self.table, Head.DEVICE))
        self.require(b.or_(is_known, self.is_equal(type_of_device, self.word(self.table, Head.OTHER_DEVICE))))
        self.on_device(device)
        self.require(self.is_equal(b.sext(self.load(tensor, layout.TENSOR_RANK, _I32), _I64), self.word(record, Argument.RANK)))
        self.one_of(b.zext(self.load(tensor, layout.TENSOR_DTYPE, _I32), _I64), record, Argument.FOREIGN_DTYPE)
        extents, strides = self.load(tensor, layout.TENSOR_EXTENTS, _PTR), self.load(tensor, layout.TENSOR_STRIDES, _PTR)
        self.require(b.not_(self.is_equal(b.ptrtoint(strides, _I64), _I64(0))))
        self.dense(record, extents, strides)
        self.note(number, extents, strides, _I64(1))
        data = self.load(tensor, layout.TENSOR_DATA)
        self.has_memory(data, record, extents)
        return b.add(data, self.load(tensor, layout.TENSOR_OFFSET))

    def has_memory(self, data: Any, record: Any, extents: Any) -> None:
        """Leave a tensor to Python that has elements and whose memory was given back."""
        b = self.b
        absent, present = (self.function.append_basic_block(n) for n in ("absent", "present"))
        b.cbranch(self.is_equal(data, _I64(0)), absent, present)
        b.position_at_end(absent)
        b.store(_I64(1), self.step)
        with self.loop(self.word(record, Argument.RANK)) as axis:
            b.store(b.mul(b.load(self.step, typ=_I64), self.word(extents, axis)), self.step)
        self.require(self.is_equal(b.load(self.step, typ=_I64), _I64(0)))
        b.branch(present)
        b.position_at_end(present)

    def see_negation(self, value: Any) -> None:
        """Leave a tensor to Python whose values are the negatives of those in memory."""
        b = self.b
        name = self.word(self.table, Head.IS_NEGATED, _PTR)
        asking, answered, failed, plain = (self.function.append_basic_block(n) for n in ("asking", "answered", "failed", "plain"))
        b.cbranch(self.is_equal(name, _PTR(None)), plain, asking)
        b.position_at_end(asking)
        b.store(b.ptrtoint(value, _I64), self.at(self.asked, 8))
        answer = b.call(self.outside.call_method, [name, self.at(self.asked, 8), _I64(_ONE_ARGUMENT), _PTR(None)])
        b.cbranch(self.is_equal(answer, _PTR(None)), failed, answered)
        b.position_at_end(failed)
        b.call(self.outside.clear_error, [])
        b.branch(self.fail)
        b.position_at_end(answered)
        b.call(self.outside.decrease, [answer])
        self.require(self.is_equal(answer, self.word(self.table, Head.FALSE, _PTR)))
        b.branch(plain)
        b.position_at_end(plain)

    def read(self, value: Any, tensor: Any) -> Any:
        """Ask the tensor's framework to describe it."""
        return self.b.call(self.word(self.table, Head.FOREIGN_READ, ir.PointerType(self.read_type)), [value, tensor])

    def dense(self, record: Any, extents: Any, strides: Any) -> None:
        """Where density is asked for: strides are those of a row-major tensor, but in dimensions of extent 1."""
        b = self.b
        rank = self.word(record, Argument.RANK)
        step = self.step
        b.store(_I64(1), step)
        checked = b.select(self.is_equal(self.word(record, Argument.IS_DENSE), _I64(0)), _I64(0), rank)
        with self.loop(checked) as number:
            axis = b.sub(b.sub(rank, _I64(1)), number)
            extent = self.word(extents, axis)
            is_single = self.is_equal(extent, _I64(1))
            self.require(b.or_(is_single, self.is_equal(self.word(strides, axis), b.load(step, typ=_I64))))
            b.store(b.mul(b.load(step, typ=_I64), extent), step)

    def on_device(self, device: Any) -> None:
        """All tensors lie on the device of the first."""
        b = self.b
        known = b.load(self.device, typ=_I64)
        self.require(b.or_(self.is_equal(known, _I64(-1)), self.is_equal(known, device)))
        b.store(device, self.device)

    def one_of(self, found: Any, record: Any, first: int) -> None:
        b = self.b
        alike = [self.is_equal(found, self.word(record, first + place)) for place in range(3)]
        self.require(b.or_(b.or_(alike[0], alike[1]), alike[2]))

    def has_flag(self, flags: Any, flag: int, is_needed: Any) -> None:
        b = self.b
        is_set = b.not_(self.is_equal(b.and_(flags, _I64(flag)), _I64(0)))
        self.require(b.or_(is_set, self.is_equal(is_needed, _I64(0))))

    def note(self, number: Any, extents: Any, strides: Any, unit: Any) -> None:
        """Keep what the equations ask for: extents, strides, and in what unit strides count."""
        for kept, value in ((self.extents, extents), (self.strides, strides), (self.units, unit)):
            self.put(kept, number, value)

    def equation(self, record: Any) -> None:
        b = self.b
        number, axis = self.word(record, Equation.ARGUMENT), self.word(record, Equation.DIMENSION)
        is_stride = self.is_equal(self.word(record, Equation.IS_STRIDE), _I64(1))
        extents, strides = self.word(self.extents, number, _PTR), self.word(self.strides, number, _PTR)
        found = self.word(b.select(is_stride, strides, extents), axis)
        unit = b.select(is_stride, self.word(self.units, number), _I64(1))
        self.require(self.is_equal(b.srem(found, unit), _I64(0)))
        found = b.mul(b.sdiv(found, unit), self.word(record, Equation.PER_CELL))
        rest = b.sub(found, self.word(record, Equation.OFFSET))
        scale, size = self.word(record, Equation.SCALE), self.word(record, Equation.SIZE)
        solving, checking, after = (self.function.append_basic_block(name) for name in ("solving", "checking", "equation_done"))
        b.cbranch(self.is_equal(self.word(record, Equation.SOLVES), _I64(1)), solving, checking)
        b.position_at_end(solving)
        self.require(self.is_equal(b.srem(rest, scale), _I64(0)))
        value = b.sdiv(rest, scale)
        self.require(b.icmp_signed(">=", value, _I64(0)))
        self.require(b.icmp_signed("<=", value, self.word(record, Equation.GREATEST)))
        self.put(self.words, size, value)
        b.branch(after)
        b.position_at_end(checking)
        self.require(self.is_equal(rest, b.mul(scale, self.word(self.words, size))))
        b.branch(after)
        b.position_at_end(after)
