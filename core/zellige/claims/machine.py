"""A target whose claims are checked: kernels compiled for it with some of its capabilities, and launched on arrays.

In: a target. Out: :class:`Subject`. Only the contract is used (describe, emit, compile, runtime), so every backend is checked alike.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from zellige import driver
from zellige.ir.sizes import SizeSystem
from zellige.ir.stmt import Kernel
from zellige.ir.traverse import deep_nesting
from zellige.ir.verify import check
from zellige.options import CompileOptions
from zellige.plugin.contract import Capabilities, CompileContext, CompiledKernel, FittedKernel
from zellige.plugin.handle import BackendHandle
from zellige.target import Target

Array = npt.NDArray[Any]

ALIGNMENT: Final = 256
_HOST: Final = "cpu"


Fitted: TypeAlias = tuple[FittedKernel, CompileContext]
"""A plan that can be lowered, and what it was made with."""


class NotChecked(Exception):
    """Why a claim cannot be checked here; it is none of the backend's faults."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """``array_device`` is the name under which an array framework knows the target's memory; empty where it is this process's own."""

    handle: BackendHandle
    target: Target
    capabilities: Capabilities
    array_device: str

    @staticmethod
    def of(handle: BackendHandle, target: Target) -> Subject:
        """The target of a backend with what it says it can do."""
        devices = handle.manifest.framework_devices
        is_own = target.is_simulated or not devices or _HOST in devices
        capabilities = handle.checked_capabilities(target, handle.describe(target))
        return Subject(handle=handle, target=target, capabilities=capabilities, array_device="" if is_own else devices[0])

    def fitted(
        self, kernel: Kernel, capabilities: Capabilities | None = None, options: CompileOptions | None = None
    ) -> Fitted:
        """The plan of a kernel when the target has only ``capabilities``."""
        check(kernel)
        ctx = self.handle.context(self.target, options or CompileOptions())
        ctx = ctx if capabilities is None else replace(ctx, capabilities=capabilities)
        with deep_nesting():
            return driver.fitted_for(driver.legal_for(kernel, self.handle, ctx), ctx), ctx

    def run(
        self,
        kernel: Kernel,
        arrays: Sequence[Array],
        capabilities: Capabilities | None = None,
        options: CompileOptions | None = None,
        scalars: Sequence[int | float] = (),
    ) -> list[Array]:
        """The arrays after a launch, one a tensor; sizes come from their shapes. ``scalars`` are the kernel's other parameters, which stand
        behind its tensors."""
        return self.run_as(self.fitted(kernel, capabilities, options), kernel, arrays, scalars)

    def run_as(self, planned: Fitted, kernel: Kernel, arrays: Sequence[Array], scalars: Sequence[int | float] = ()) -> list[Array]:
        """The same of a kernel whose plan is there."""
        return self.launched(self.loaded(planned, kernel), kernel, arrays, scalars)

    def loaded(self, planned: Fitted, kernel: Kernel) -> CompiledKernel:
        """What can be launched."""
        fitted, ctx = planned
        with deep_nesting():
            if self.handle.works_in_steps:
                return self.handle.finish(driver.emitted_for(fitted, self.handle, ctx), kernel, ctx)
            return self.handle.compile_kernel(fitted, ctx)

    def launched(
        self, compiled: CompiledKernel, kernel: Kernel, arrays: Sequence[Array], scalars: Sequence[int | float] = ()
    ) -> list[Array]:
        """The arrays after a launch of what was loaded."""
        system = SizeSystem.of(kernel)
        sizes, _ = system.solve({at: list(array.shape) for at, array in enumerate(arrays)}, {}, {})
        memory = _OwnMemory(arrays) if not self.array_device else _DeviceMemory(arrays, self.array_device)
        self.handle.launch(compiled, memory.pointers(), list(scalars), [sizes[variable] for variable in system.variables])
        return memory.arrays()


class _OwnMemory:
    """Copies of arrays in this process's memory, aligned as tensors of frameworks are."""

    def __init__(self, arrays: Sequence[Array]) -> None:
        self._arrays = [_aligned(array) for array in arrays]

    def pointers(self) -> list[int]:
        return [array.ctypes.data for array in self._arrays]

    def arrays(self) -> list[Array]:
        return self._arrays


def _aligned(array: Array) -> Array:
    room = np.zeros(array.nbytes + ALIGNMENT, np.uint8)
    copy: Array = np.ndarray(array.shape, array.dtype, room, -room.ctypes.data % ALIGNMENT)
    copy[...] = array
    return copy


class _DeviceMemory:
    """Copies of arrays in a device's memory, by the array framework that is installed."""

    def __init__(self, arrays: Sequence[Array], device: str) -> None:
        try:
            self._torch: Any = importlib.import_module("torch")
        except ImportError as error:
            raise NotChecked(f"the memory of {device} needs torch, which is not installed") from error
        self._like = list(arrays)
        self._tensors = [self._torch.from_numpy(_bytes(array)).to(device) for array in arrays]

    def pointers(self) -> list[int]:
        return [tensor.data_ptr() for tensor in self._tensors]

    def arrays(self) -> list[Array]:
        return [np.ndarray(like.shape, like.dtype, tensor.cpu().numpy()) for tensor, like in zip(self._tensors, self._like)]


def _bytes(array: Array) -> Array:
    plain: Array = np.frombuffer(np.ascontiguousarray(array).tobytes(), np.uint8).copy()
    return plain
