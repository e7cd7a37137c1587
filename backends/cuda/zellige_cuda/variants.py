"""Other programs than the plain one of a kernel, and what a kernel reports: what few launches need.

In: a :class:`~zellige_cuda.device.CudaKernel`. Out: what must be defined for tensors that lie badly or meet (:func:`defines`), the code
compiled so (:func:`code_of`), the program without copies of boxes (:func:`without_boxes`), the places that assert or print (:func:`sites`).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from zellige.dtypes import DType
from zellige.plugin.contract import Binary
from zellige.simt.arguments import bits_of, require
from zellige_cuda.device import CudaKernel
from zellige_cuda.records import Site

ELEMENTWISE: Final = "-DELEMENTWISE"
"""Defined where a tensor does not begin at a multiple of its widest access: wide accesses are made element by element."""

TENSORS_MEET: Final = "-DTENSORS_MEET"
"""Defined where a tensor that is only read is also written under another name."""

WITHOUT_BOXES: Final = "WITHOUT_BOXES"
"""Defined where a tensor does not suit the engine that copies boxes: another program does the same without it."""


def defines(kernel: CudaKernel, pointers: Sequence[int]) -> tuple[str, ...]:
    """What must be defined for tensors that lie so; arrays that overlap in another way than wholly are taken for distinct."""
    found: tuple[str, ...] = ()
    if any(pointer % alignment for pointer, alignment in zip(pointers, kernel.alignments)):
        for pointer, alignment, tensor in zip(pointers, kernel.facts["needed"], kernel.tensors):
            require(tensor.name, str(tensor.dtype), alignment, pointer, tensor.dtype.bytes)
        found = (ELEMENTWISE,)
    if any(pointers[i] and pointers.count(pointers[i]) > 1 for i in kernel.written):
        found = (*found, TENSORS_MEET)
    return found


def code_of(kernel: CudaKernel, defined: tuple[str, ...]) -> bytes:
    """The machine code of the kernel's text compiled with what is ``defined``."""
    from zellige_cuda.compiler import compile_cubin  # other questions do without

    return compile_cubin(kernel.source(), "kernel", kernel.arch, (*kernel.facts["flags"], *defined))[0]


def without_boxes(kernel: CudaKernel) -> CudaKernel:
    """The kernel of the program without copies of boxes, compiled."""
    from zellige_cuda.compiler import compile_cubin

    flags = (*kernel.facts["flags"], f"-D{WITHOUT_BOXES}")
    cubin, log = compile_cubin(kernel.source(), "kernel", kernel.arch, flags)
    source = replace(kernel.emitted, facts=json.dumps({**json.loads(kernel.facts["otherwise"]), "flags": flags}))
    return CudaKernel(Binary(data=cubin, format="cubin", log=log), kernel.kernel, source)


def sites(kernel: CudaKernel) -> list[Site]:
    """The places that assert or print."""
    return [Site.of(site, kernel.emitted.spans) for site in kernel.facts["sites"]]


def bits(value: int | float, dtype: DType) -> int:
    """The bits of a scalar argument of a floating type, as its parameter holds them."""
    return bits_of(float(value), dtype)
