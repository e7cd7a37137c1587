"""What the packing and launching code reads: objects of CPython, NumPy and DLPack in memory, and the tables that describe a kernel.

In: nothing (pure facts). Out: byte offsets and word numbers. A table is 64-bit words: a head of :class:`Head`, a record of
:class:`Argument` words for each argument, a record of :class:`Equation` words for each equation between a size and an extent or stride.

A second table says how packed arguments are launched by a driver: a head of :class:`Launching`, room for ``MOST_CONTEXTS`` records of
:class:`Context`, a record of :class:`Step` words for each launch; then the programs that compute grids, pairs of a :class:`Code` and its
operand, and the records of :class:`Passed` of the launches' parameters.

Sources: CPython's ``object.h``, ``floatobject.h``; NumPy's ``ndarraytypes.h`` (``PyArrayObject_fields``, the same in NumPy 1 and 2);
DLPack's ``dlpack.h`` 1.1 to 1.3.
"""

from __future__ import annotations

import sys
from enum import IntEnum
from typing import Final

MOST_ARGUMENTS: Final = 32
SPARE_WORDS: Final = 31
"""Zeroed words behind the arguments, which the backend may use; the word before them is 0 and the one before that their address."""

# CPython, 64-bit, with the lock
TYPE: Final = 8
FLOAT_VALUE: Final = 16
BYTES_DATA: Final = bytes.__basicsize__ - 1

# PyArrayObject_fields
ARRAY_DATA: Final = 16
ARRAY_RANK: Final = 24
ARRAY_EXTENTS: Final = 32
ARRAY_STRIDES: Final = 40
ARRAY_DTYPE: Final = 56
ARRAY_FLAGS: Final = 64
FLAG_CONTIGUOUS: Final = 0x1
FLAG_WRITEABLE: Final = 0x400

# DLTensor; DLPackExchangeAPI
TENSOR_BYTES: Final = 48
TENSOR_DATA: Final = 0
TENSOR_DEVICE: Final = 8
TENSOR_RANK: Final = 16
TENSOR_DTYPE: Final = 20
TENSOR_EXTENTS: Final = 24
TENSOR_STRIDES: Final = 32
TENSOR_OFFSET: Final = 40
EXCHANGE_READ: Final = 40
"""Where the exchange table has ``dltensor_from_py_object_no_sync``."""
EXCHANGE_STREAM: Final = 48
"""Where the exchange table has ``current_work_stream``."""

NO_DTYPE: Final = -1


class Head(IntEnum):
    """Words at the start of a table. ``IS_NEGATED`` is the name of a method that a tensor which describes itself is asked for (0: none):
    one that answers other than False has values that its description does not tell."""

    ARGUMENTS = 0
    RESULT_BYTES = 1
    SPARE = 2
    EQUATIONS = 3
    ARRAY_TYPE = 4
    INT_TYPE = 5
    BOOL_TYPE = 6
    FLOAT_TYPE = 7
    FOREIGN_TYPE = 8
    OTHER_FOREIGN_TYPE = 9
    FOREIGN_READ = 10
    DEVICE = 11
    OTHER_DEVICE = 12
    HAS_HOST = 13
    NONE = 14
    LAUNCHING = 15
    IS_NEGATED = 16
    FALSE = 17
    WORDS = 18


class Kind(IntEnum):
    """What an argument is."""

    TENSOR = 0
    INTEGER = 1
    REAL = 2


class Argument(IntEnum):
    """Words of an argument's record. ``SLOT`` counts words of the result; the three dtypes of each kind may be given alike."""

    KIND = 0
    SLOT = 1
    RANK = 2
    DTYPE = 3
    SECOND_DTYPE = 4
    THIRD_DTYPE = 5
    FOREIGN_DTYPE = 6
    SECOND_FOREIGN_DTYPE = 7
    THIRD_FOREIGN_DTYPE = 8
    IS_WRITTEN = 9
    IS_DENSE = 10
    ALIGNMENT_MASK = 11
    LEAST = 12
    GREATEST = 13
    CELL_BYTES = 14
    WORDS = 16


class Equation(IntEnum):
    """``given * PER_CELL == SCALE * size + OFFSET``, where the size is a word of the result.

    With ``SOLVES`` the size takes its value from here, which is at most ``GREATEST``. ``SCALE`` 0 compares with a number.
    """

    ARGUMENT = 0
    DIMENSION = 1
    IS_STRIDE = 2
    SOLVES = 3
    SIZE = 4
    SCALE = 5
    OFFSET = 6
    PER_CELL = 7
    GREATEST = 8
    WORDS = 9


MOST_CONTEXTS: Final = 16
MOST_STEPS: Final = 8
MOST_PASSED: Final = 96
MOST_DEPTH: Final = 16
"""Values that a program may have at hand at a time."""


class Launching(IntEnum):
    """Words at the start of the table of launches. Addresses of functions, 0 where there is none: ``START`` is the driver's launch,
    ``CURRENT`` gives the calling thread's context, ``ENTER`` and ``LEAVE`` change it and put it back, ``STREAM`` gives the framework's
    stream on a device. ``STEPS_AT`` is the word at which the records of launches begin, ``APART_AT`` that at which ``APART`` pairs of
    packed words begin, whose addresses must differ."""

    START = 0
    CURRENT = 1
    ENTER = 2
    LEAVE = 3
    STREAM = 4
    DEVICE_TYPE = 5
    CONTEXTS = 6
    STEPS = 7
    STEPS_AT = 8
    MOST_X = 9
    MOST_Y = 10
    MOST_Z = 11
    APART = 12
    APART_AT = 13
    MADE = 14
    MADE_AT = 15
    WORDS = 16


class Context(IntEnum):
    """Words of a context's record: the code as it is loaded there, one handle a launch from ``HANDLES`` on."""

    CONTEXT = 0
    DEVICE = 1
    IS_ENTERED = 2
    HANDLES = 3
    WORDS = 3 + MOST_STEPS


class Step(IntEnum):
    """Words of a launch's record. The program leaves the three extents of the grid; places are word numbers of the table."""

    THREADS_X = 0
    THREADS_Y = 1
    THREADS_Z = 2
    SHARED_BYTES = 3
    PROGRAM_AT = 4
    PROGRAM_LENGTH = 5
    PASSED_AT = 6
    PASSED = 7
    WORDS = 8


class Code(IntEnum):
    """What a step of a program does: put a number or a word of the packed arguments at hand, or join the last two values."""

    NUMBER = 0
    WORD = 1
    ADD = 2
    SUBTRACT = 3
    MULTIPLY = 4
    DIVIDE = 5
    MODULO = 6
    LEAST = 7
    GREATEST = 8


class Passed(IntEnum):
    """Words of a parameter's record: a word of the packed arguments, handed on as it is, as a single float made of its double, or, as
    ``MADE``, the number of what a function of the driver makes."""

    WORD = 0
    FORM = 1
    WORDS = 2


class Form(IntEnum):
    """How a parameter is handed on."""

    PLAIN = 0
    SINGLE = 1
    MADE = 2


MOST_MADE: Final = 8
MADE_BYTES: Final = 128
MADE_ALIGNMENT: Final = 64
MOST_MADE_ARGUMENTS: Final = 16


class Made(IntEnum):
    """Words of the record of a parameter that a function of the driver makes. The program leaves ``VALUES`` values, the first
    ``POSITIVE`` of which must be; ``ARGUMENTS`` pairs follow from ``ARGUMENTS_AT`` on: a :class:`Given` and its number."""

    FUNCTION = 0
    TENSOR = 1
    PROGRAM_AT = 2
    PROGRAM_LENGTH = 3
    VALUES = 4
    POSITIVE = 5
    ARGUMENTS_AT = 6
    WORDS = 6 + 2 * MOST_MADE_ARGUMENTS


class Given(IntEnum):
    """What such a function is called with: a number, a word of the packed arguments, the place to fill, the place of a value."""

    NUMBER = 0
    WORD = 1
    RESULT = 2
    LIST = 3


def is_known_interpreter() -> bool:
    """Whether objects lie in memory as described here."""
    is_usual = sys.implementation.name == "cpython" and object.__basicsize__ == 16 and sys.maxsize == 2**63 - 1
    has_lock = "t" not in getattr(sys, "abiflags", "")
    return is_usual and has_lock and sys.byteorder == "little"
