"""What a backend says about its kernels so that core's machine code launches them: addresses, grids, parameters.

In: nothing (pure declarations). Out: the dataclasses and the protocol that :mod:`zellige.plugin.contract` hands on. A kernel without them
is launched through Python.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NoReturn, Protocol, runtime_checkable

if TYPE_CHECKING:
    from zellige.ir.expr import Expr


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverFunctions:
    """Addresses of C functions of a driver, each of which returns 0 for success.

    ``start(handle, grid x, y, z, lanes x, y, z, shared bytes, stream, addresses of the parameters, NULL)`` puts a launch into a stream: all
    after the handle up to the shared bytes are ``unsigned int``, the rest pointers. ``current(&context)`` gives the calling thread's
    context, ``enter(context)`` makes another one current and ``leave(&context)`` puts the one before back.
    """

    start: int
    current: int
    enter: int
    leave: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeMade:
    """A parameter that a C function of the driver makes on the host at each call, for the tensor ``tensor``: 128 bytes at a multiple of 64.

    ``function`` is called with ``arguments``, at most 16 integers or pointers: ("result", 0) is the address to fill, ("tensor", 0) the
    tensor's address, ("number", n) a number, ("list", n) the address of the n-th entry of ``values``, which lie behind one another in 64
    bits each. It returns 0 for success. A call with no such tensor, or where one of the first ``positive`` values is not, is left to
    ``launch``, as is one that the function refuses.
    """

    function: int
    tensor: int
    values: tuple[Expr, ...]
    positive: int
    arguments: tuple[tuple[Literal["result", "tensor", "number", "list"], int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeStep:
    """One launch of a kernel. ``grid`` are sizes of the kernel, ``threads`` the lanes of a block; ``parameters`` say of each parameter of
    the code which argument it is: a place among the tensors, the scalars or the sizes, as ``CompiledKernel.launch`` counts them."""

    grid: tuple[Expr, Expr, Expr]
    threads: tuple[int, int, int]
    shared_bytes: int
    parameters: tuple[tuple[Literal["tensor", "scalar", "size", "made"], int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeLaunch:
    """All launches of a kernel in order. ``device_type`` is DLPack's number of the devices that its tensors lie on, ``alignments`` what the
    code asks of each tensor's address in bytes, ``most_blocks`` the largest grid that the driver takes. A call in which a pair of tensors
    of ``apart`` begins at one address (other than 0) is left to ``launch``."""

    functions: DriverFunctions
    device_type: int
    steps: tuple[NativeStep, ...]
    alignments: tuple[int, ...]
    most_blocks: tuple[int, int, int]
    apart: tuple[tuple[int, int], ...] = ()
    made: tuple[NativeMade, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedCode:
    """The code as it is loaded in a context: a handle a launch. ``is_shared`` says that it is the context which array frameworks use on the
    device with the index ``device``; core enters that one where another is current."""

    context: int
    device: int
    is_shared: bool
    handles: tuple[int, ...]


@runtime_checkable
class NativeKernel(Protocol):
    """What a compiled kernel may have beside ``CompiledKernel``, so that calls reach the driver without Python."""

    def native_launch(self) -> NativeLaunch | None:
        """How it is launched; None where each launch needs more than a driver's call."""
        ...

    def loaded_code(self) -> Sequence[LoadedCode]:
        """Where it is loaded by now. ``launch`` loads it where it is not; entries stay as they are and new ones come behind them."""
        ...

    def refuse(self, status: int) -> NoReturn:
        """Raise what a number other than 0, returned by the driver, means."""
        ...
