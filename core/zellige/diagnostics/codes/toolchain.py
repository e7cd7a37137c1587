"""E501 to E599: toolchains. In: nothing. Out: module constants, each in :data:`zellige.diagnostics.codes.declaration.CODES`."""

from __future__ import annotations

from zellige.diagnostics.codes.declaration import code as _code

E501 = _code(
    "E501", "a tool is missing", "{tool} is needed and not there: {reason}",
    hint="{advice}; `zellige doctor` lists what each target needs",
)  # fmt: skip
E502 = _code(
    "E502", "a tool refused the generated program", "{tool} refused what was generated:\n{log}",
    hint="this is a fault of the backend, not of the kernel: please report it with the generated source (get_kernel_source)",
)  # fmt: skip
E503 = _code(
    "E503", "registers are spilled",
    "{kernel} needs more than its {registers} registers a lane, and moves {bytes} bytes to memory and back",
    hint="make the tiles of a block smaller, or give the block more threads",
)  # fmt: skip
E504 = _code(
    "E504", "the driver is older than the compiler", "what {tool} makes cannot be loaded: {reason}",
    hint="or install a compiler of the driver's version; `zellige doctor` shows both",
)  # fmt: skip
E505 = _code(
    "E505", "arrays of lanes are in memory", "{kernel} keeps {bytes} bytes a lane in memory, which is slow: {arrays}",
    hint="index arrays of a lane by constants and by variables of T.unroll, or make them shared memory",
)  # fmt: skip
E506 = _code(
    "E506", "compiler flags that the tool does not take", "{tool} does not compile with {flags}, which was asked for: {reason}",
    hint="compile_flags and T.annotate_compile_flags go to {tool} as they are: leave out what it does not have",
)  # fmt: skip
