"""A kernel together with the arguments that it is run on, and its form in files.

In: a kernel and its arguments. Out: fresh copies of the arguments for each run, and a program written to and read from a pair of files:
tile IR text (``NAME.tile``) and the arguments (``NAME.npz``). An array keeps its strides on the way.
"""

from __future__ import annotations

import base64
import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np

from zellige.dtypes import DType, dtype as as_dtype
from zellige.elements.conversion import Array
from zellige.generate.facts import Fact, fact_of, fact_of_number
from zellige.generate.statement_facts import Analysis, State
from zellige.ir.expr import Var
from zellige.ir.parser import parse_kernel
from zellige.ir.printer import print_kernel
from zellige.ir.sizes import SizeSystem
from zellige.ir.stmt import Kernel, ScalarParam, TensorParam

Argument: TypeAlias = "Array | int | float | None"

LANES: Final = 32
"""The width of a warp that generated lane kernels are made for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """``arguments`` has one entry a parameter: an array, a number, or None for what the kernel makes itself (outputs, workspace)."""

    kernel: Kernel
    arguments: tuple[Argument, ...]

    def copies(self) -> list[Argument]:
        """The arguments in memory of their own, with the same strides."""
        return [copy_of(argument) if isinstance(argument, np.ndarray) else argument for argument in self.arguments]

    def sizes(self) -> dict[Var, int]:
        """The values of the symbolic sizes. Raises ValueError where the arguments contradict their declarations."""
        shapes: dict[int, tuple[int, ...]] = {}
        strides: dict[int, tuple[int, ...]] = {}
        for index, (param, argument) in enumerate(zip(self.kernel.params, self.arguments)):
            if isinstance(param, TensorParam) and isinstance(argument, np.ndarray):
                shapes[index], strides[index] = extents_of(argument, param.buffer.dtype)
        values, mismatches = SizeSystem.of(self.kernel).solve(shapes, strides, self.scalars())
        if mismatches:
            first = mismatches[0]
            raise ValueError(f"{first.equation.what} {first.equation.dimension} of parameter {first.equation.param} is {first.given}")
        return values

    def scalars(self) -> dict[Var, Any]:
        """The values of the scalar parameters."""
        return {p.var: a for p, a in zip(self.kernel.params, self.arguments) if isinstance(p, ScalarParam)}

    def facts(self) -> State:
        """The facts of the tensors after the kernel has run, by buffer. Raises Unbounded."""
        return self.facts_after(len(self.kernel.launches))

    def facts_after(self, launches: int) -> State:
        """The facts of parameters and sizes after the first ``launches`` launches."""
        state: State = {var: Fact(low=value, high=value) for var, value in self.sizes().items()}
        for param, argument in zip(self.kernel.params, self.arguments):
            if isinstance(param, ScalarParam):
                assert isinstance(argument, (int, float))
                state[param.var] = fact_of_number(argument, param.var.dtype)
            elif isinstance(argument, np.ndarray):
                state[param.buffer] = fact_of(argument, param.buffer.dtype)
        for launch in self.kernel.launches[:launches]:
            state = Analysis().launch(state, launch)
        return state

    def text(self) -> str:
        """The kernel's text and, as comments, its arguments, for a reader."""
        lines = [print_kernel(self.kernel)]
        for param, argument in zip(self.kernel.params, self.arguments):
            named = param.var if isinstance(param, ScalarParam) else param.buffer
            shown = argument if not isinstance(argument, np.ndarray) else np.array2string(argument, threshold=64, max_line_width=120)
            lines.append("\n".join(f"# {line}" for line in f"{named.name} = {shown}".splitlines()))
        return "\n".join(lines) + "\n"

    def script(self) -> str:
        """A Python script that makes this program again and compares it on a target."""
        packed = ",\n".join(f"    {_packed(argument)!r}" for argument in self.arguments)
        return (
            "import sys\n\nfrom zellige.generate.comparison import check_program\nfrom zellige.generate.program import Program\n\n"
            f"TEXT = {print_kernel(self.kernel)!r}\n"
            f"ARGUMENTS = (\n{packed},\n)\n"
            'target = sys.argv[1] if len(sys.argv) > 1 else "cpu"\n'
            "for problem in check_program(Program.of_text(TEXT, ARGUMENTS), (target,)):\n    print(problem)\n"
        )

    @staticmethod
    def of_text(text: str, packed: Sequence[Any]) -> Program:
        """The program that :meth:`script` wrote down."""
        return Program(kernel=parse_kernel(text), arguments=tuple(_unpacked(item) for item in packed))

    def save(self, path: Path, note: str = "") -> None:
        """Write ``path`` (tile IR text, with ``note`` as a comment) and the arguments beside it."""
        comment = "".join(f"# {line}\n" for line in note.splitlines())
        path.write_text(print_kernel(self.kernel) + comment, encoding="utf-8")
        stored: dict[str, Any] = {}
        for index, argument in enumerate(self.arguments):
            if isinstance(argument, np.ndarray):
                stored[f"bytes{index}"] = memory_of(argument)
                stored[f"form{index}"] = np.array([argument.dtype.name, *_form(argument)])
            elif argument is not None:
                stored[f"number{index}"] = np.array(argument)
        np.savez(path.with_suffix(".npz"), **stored)

    @staticmethod
    def load(path: Path) -> Program:
        """Read what :meth:`save` wrote."""
        kernel = parse_kernel(path.read_text(encoding="utf-8"), str(path))
        arguments: list[Argument] = []
        with np.load(path.with_suffix(".npz")) as stored:
            for index in range(len(kernel.params)):
                if f"bytes{index}" in stored:
                    name, *form = (str(word) for word in stored[f"form{index}"])
                    arguments.append(_array(name, [int(word) for word in form], stored[f"bytes{index}"].tobytes()))
                else:
                    arguments.append(stored[f"number{index}"].item() if f"number{index}" in stored else None)
        return Program(kernel=kernel, arguments=tuple(arguments))


def extents_of(array: Array, dtype: DType) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Shape and strides of a tensor in elements of its type; 4-bit elements lie two to a byte."""
    shape, strides = list(array.shape), [stride // array.itemsize for stride in array.strides]
    if dtype.bits == 4 and shape:
        shape[-1] *= 2
        strides = [2 * stride for stride in strides[:-1]] + strides[-1:]
    return tuple(shape), tuple(strides)


def span_of(array: Array) -> int:
    """The bytes from the first element to the end of the last; strides are not negative."""
    if array.size == 0:
        return 0
    return int(array.itemsize + sum((extent - 1) * stride for extent, stride in zip(array.shape, array.strides)))


def memory_of(array: Array) -> Array:
    """All bytes that the array spans, those between its elements included."""
    if array.size == 0:
        return np.empty(0, np.uint8)
    found: Array = np.ctypeslib.as_array((ctypes.c_uint8 * span_of(array)).from_address(array.ctypes.data)).copy()
    return found


def over(memory: Array, like: Array) -> Array:
    """An array of the form of ``like`` whose first element is at the start of ``memory``, an array of bytes."""
    made: Array = np.ndarray(like.shape, like.dtype, memory, 0, like.strides if like.size else None)
    return made


def copy_of(array: Array) -> Array:
    """The same elements, with the same strides, in memory of their own."""
    return over(memory_of(array), array)


def _form(array: Array) -> list[int]:
    return [array.ndim, *array.shape, *array.strides]


def _packed(argument: Argument) -> Any:
    if not isinstance(argument, np.ndarray):
        return argument
    return (argument.dtype.name, _form(argument), base64.b64encode(memory_of(argument).tobytes()).decode())


def _unpacked(item: Any) -> Argument:
    if not isinstance(item, tuple):
        return item  # type: ignore[no-any-return]
    name, form, data = item
    return _array(name, form, base64.b64decode(data))


def _array(name: str, form: Sequence[int], data: bytes) -> Array:
    rank = form[0]
    native = as_dtype(name).numpy
    memory = np.frombuffer(data, np.uint8).copy()
    shape, strides = tuple(form[1 : 1 + rank]), tuple(form[1 + rank :])
    made: Array = np.ndarray(shape, native, memory, 0, strides if memory.size else None)
    return made
