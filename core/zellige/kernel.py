"""The compiled kernel that a user calls.

In: a verified kernel, a target and options. Out: a :class:`JITKernel`: calling it checks the arguments, allocates the results and
launches; other methods show what was generated, time it and compare it. Methods that belong to one backend are found through
its manifest.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from zellige import driver
from zellige.cache import memo, store
from zellige.diagnostics import ZelligeError, catalogue
from zellige.diagnostics.suggest import closest
from zellige.dtypes import DType
from zellige.frontend.arithmetic import describe
from zellige.frontend.primfunc import PrimFunc
from zellige.ir.expr import Const
from zellige.ir.printer import print_kernel
from zellige.ir.stmt import Kernel, TensorParam
from zellige.options import CompileOptions
from zellige.plugin.contract import Bounds, CompiledKernel, NativeKernel
from zellige.plugin.registry import BackendHandle, registry
from zellige.runtime.arguments import Place, Signature
from zellige.runtime.arrays import HOST
from zellige.runtime.dlpack import HOST_TYPE
from zellige.runtime.native import SLOW
from zellige.runtime.size_text import size_text
from zellige.target import AUTO, UNSIMULATED, Target, parse_target

if TYPE_CHECKING:
    from zellige.profiler import Profiler
    from zellige.runtime.native.link import Start
    from zellige.runtime.native.quick import QuickLaunch
    from zellige.runtime.supply import TensorSupplyType

_CALLS_BEFORE_QUICK: Final = 2
"""The quick way is prepared at this call: a kernel called once does not pay for it."""

SourceChoice = Literal["kernel", "host", "both"]


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelParam:
    """A parameter as shown to users. A symbolic extent stands in ``shape`` as text; a scalar has an empty shape."""

    name: str
    dtype: DType
    shape: tuple[int | str, ...]
    is_tensor: bool

    def is_scalar(self) -> bool:
        return not self.is_tensor

    def is_unsigned(self) -> bool:
        return self.dtype.kind == "uint"

    def is_float8(self) -> bool:
        return self.dtype.is_float and self.dtype.bits == 8

    def is_float4(self) -> bool:
        return self.dtype.is_float and self.dtype.bits == 4

    def is_boolean(self) -> bool:
        return self.dtype.is_bool

    def torch_dtype(self) -> Any:
        """The torch dtype of that name; raises UnknownDType where torch has none."""
        return self.dtype.as_torch()


def params_of(kernel: Kernel) -> list[KernelParam]:
    """Every parameter of a kernel in order, outputs included."""
    made: list[KernelParam] = []
    for param in kernel.params:
        if isinstance(param, TensorParam):
            shape = tuple(int(e.value) if isinstance(e, Const) else size_text(e) for e in param.buffer.shape)
            made.append(KernelParam(name=param.buffer.name, dtype=param.buffer.dtype, shape=shape, is_tensor=True))
        else:
            made.append(KernelParam(name=param.var.name, dtype=param.var.dtype, shape=(), is_tensor=False))
    return made


@dataclass(frozen=True, slots=True, kw_only=True)
class Outline:
    """A kernel that was not traced: its parameters and grids, the indices of the tensors that it uses and writes, its text, and what makes
    its prim_func from the whole kernel."""

    kernel: Kernel
    touched: tuple[list[int], list[int]]
    text: str
    make_prim_func: Callable[[Kernel], object] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Variant:
    """The kernel compiled for one target."""

    target: Target
    handle: BackendHandle
    compiled: CompiledKernel
    place: Place
    bounds: Bounds | None = None
    """What a launch takes, where a call's own sizes must be held against it."""

    @property
    def is_quick(self) -> bool:
        """Whether later calls may go the quick way: where there are bounds, core's machine code must hold the launches to them, which it
        does for grids and not for tensors."""
        if self.bounds is None:
            return True
        described = self.compiled.native_launch() if isinstance(self.compiled, NativeKernel) else None
        if described is None or self.bounds.tensor_bytes is not None:
            return False
        return all(most <= limit for most, limit in zip(described.most_blocks, self.bounds.grid))


class JITKernel:
    """A kernel compiled for a target, callable with NumPy arrays, torch tensors and anything that speaks DLPack.

    With the target "auto" it is compiled at once for the target of ``device`` (where arguments will live: the name that their framework
    gives, or a DLPack device type), without one for the target that works here; and again at the first call whose arguments live on
    another target's device. Two threads may call it at the same time. ``latency``, ``config`` and ``ref_latency`` are set by tuning.
    """

    _text: str = ""
    _make_prim_func: Callable[[Kernel], object] | None = None
    latency: float | None = None
    config: dict[str, Any] | None = None
    ref_latency: float | None = None

    def __init__(
        self,
        kernel: Kernel | PrimFunc,
        target: str | Target = AUTO,
        options: CompileOptions | None = None,
        *,
        prim_func: object = None,
        device: str | int | None = None,
    ) -> None:
        if isinstance(kernel, PrimFunc):
            kernel, prim_func = kernel.kernel, kernel
        if not isinstance(kernel, Kernel):
            raise catalogue.E156.error(function="JITKernel", given=describe(kernel))
        self._kernel: Kernel | None = kernel
        self._prim_func = prim_func
        self._begin(Signature(kernel), target, options or CompileOptions())
        self._default = self._compiled_for(registry().resolve(self._requested, device=device))

    def _begin(self, signature: Signature, target: str | Target, options: CompileOptions) -> None:
        self.options = options
        self.signature = signature
        self._requested = parse_target(target)
        self._variants: dict[Target, _Variant] = {}
        self._by_device: dict[str | int | None, _Variant] = {}
        self._lock = threading.RLock()
        self._scratch = threading.local()
        self._quick: QuickLaunch | None = None
        self._start: Start | None = None
        self._explained = 0

    @classmethod
    def from_outline(
        cls, known: Outline, compiled: CompiledKernel, target: Target, requested: Target, options: CompileOptions
    ) -> JITKernel:
        """A kernel that was compiled for ``target`` earlier and is found again without tracing its function: its statements are read from
        its text when something asks for them."""
        made = cls.__new__(cls)
        made._kernel = made._prim_func = None
        made._text, made._make_prim_func = known.text, known.make_prim_func
        made._begin(Signature(known.kernel, known.touched), requested, options)
        made._default = made._variants[target] = made._variant_of(target, compiled)
        return made

    @property
    def kernel(self) -> Kernel:
        """The kernel's tile IR."""
        if self._kernel is None:
            from zellige.ir.parser import parse_kernel

            self._kernel = parse_kernel(self._text)
        return self._kernel

    @property
    def prim_func(self) -> Any:
        """What it was compiled from, where that was a prim_func or a jit function."""
        if self._prim_func is None and self._make_prim_func is not None:
            self._prim_func = self._make_prim_func(self.kernel)
        return self._prim_func

    def _whole(self) -> Kernel:
        return self.kernel

    def __copy__(self) -> JITKernel:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> JITKernel:
        """Itself, as for a function: nothing that a copy could change apart."""
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """Another process gets the tile IR, the target asked for and the options, and compiles, or finds it in the cache."""
        tuned = {"latency": self.latency, "config": self.config, "ref_latency": self.ref_latency}
        return _compiled_again, (self.ir_text, str(self._requested), self.options, tuned)

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        """Check the arguments (E601 to E618), allocate the results, launch and wait.

        The tensors that the kernel makes are not passed. Returns None, the one result, or a list of them.
        """
        start = self._start
        if start is not None and not keywords:  # the shortest way, which costs little more than what it calls
            status = start(*args)
            if status == 0:
                return None
            if status is not None:
                assert self._quick is not None
                with driver.internal_errors(self._whole, self._default.target):
                    self._quick.refuse(status)
            return self._called_slowly(args, keywords)
        quick = self._quick
        if quick is not None and not keywords:
            try:
                returned = quick(args)
            except BaseException:  # also what would end the process, where a backend raises it
                with driver.internal_errors(self._whole, self._default.target):
                    raise
            if returned is not SLOW:
                return returned
        return self._called_slowly(args, keywords)

    def _called_slowly(self, args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        """The call by way of Python, which says exactly what is wrong with it."""
        arguments = self.signature.read(args, keywords)
        first = arguments.first
        variant = self._variant(None if first is None else first.device)
        bound = self.signature.bind(arguments, variant.place, self._workspaces())
        if variant.bounds is not None:
            from zellige.plan.limits import refuse_sizes  # few targets say so

            refuse_sizes(self.signature.kernel, variant.bounds, bound.sizes, bound.scalars, str(variant.target))
        with driver.internal_errors(self._whole, variant.target):
            variant.handle.launch(variant.compiled, bound.pointers, bound.scalars, bound.sizes, bound.streams)
            quick = self._quick
            if quick is not None and quick.native is not None:
                quick.native.note_contexts()
        self._explained += 1
        if self._explained >= _CALLS_BEFORE_QUICK and variant is self._default:
            self._make_quick(variant)
        return bound.returned()

    def _make_quick(self, variant: _Variant) -> None:
        """Prepare the quick way for later calls; again when torch was imported since."""
        quick = self._quick
        is_first = quick is None and self._explained == _CALLS_BEFORE_QUICK
        if not is_first and (quick is None or quick.knows_torch or "torch" not in sys.modules):
            return
        with driver.internal_errors(self._whole, variant.target):
            if is_first and not variant.is_quick:
                return
            from zellige.runtime.native.quick import quick_launch

            kept = store() if memo.is_enabled else None
            refuse = variant.handle.refuse_answer
            self._quick = quick = quick_launch(self.signature, variant.compiled, variant.place.devices, kept, refuse)
            self._start = None if quick is None else quick.alone

    # ---- what it is --------------------------------------------------------------------------------------------------------------------

    @property
    def target(self) -> Target:
        """What it was compiled for."""
        return self._default.target

    @property
    def device(self) -> str:
        """The name that array frameworks give to the memory of its target."""
        return self._default.place.home

    @property
    def params(self) -> list[KernelParam]:
        """Every parameter in order, outputs included."""
        return params_of(self.signature.kernel)

    @property
    def out_idx(self) -> list[int]:
        """The positions, among the parameters, of the tensors that a call returns."""
        return list(self.signature.kernel.results)

    @property
    def ir_text(self) -> str:
        """The tile IR as text, which ``zellige compile`` reads back."""
        return print_kernel(self.kernel)

    def get_tir(self) -> str:
        """The tile IR as text."""
        return self.ir_text

    def get_kernel_source(self, kernel_only: bool = True) -> str:
        """The lowered program as text. ``kernel_only`` is accepted: there is no host part beside it."""
        return self._default.handle.text_of(self._default.compiled, "source")

    @property
    def kernel_source(self) -> str:
        return self.get_kernel_source()

    def get_asm(self) -> str:
        """The machine code of the target as text. Raises Unsupported where the target has none."""
        if self._default.target.is_simulated:
            raise catalogue.E440.error(target=str(self._default.target), what="machine code", known=UNSIMULATED)
        return self._default.handle.text_of(self._default.compiled, "assembly")

    def get_host_source(self) -> str:
        """The text of the host's part, for targets that generate one. Raises Unsupported (E440) elsewhere."""
        return str(self._reported("get_host_source", "a host program"))

    @property
    def host_source(self) -> str:
        return self.get_host_source()

    def show_source(self, which: SourceChoice = "kernel") -> None:
        """Print the generated text."""
        for text in self._sources(which):
            print(text)

    def export_source(self, path: str | Path) -> None:
        """Write the lowered program to a file; folders are made as needed."""
        _write(Path(path), self.get_kernel_source())

    def export_sources(self, kernel_path: str | Path | None = None, host_path: str | Path | None = None) -> None:
        """Write the lowered program, the host's part, or both."""
        if kernel_path is None and host_path is None:
            raise ValueError("give kernel_path, host_path or both")
        if kernel_path is not None:
            self.export_source(kernel_path)
        if host_path is not None:
            _write(Path(host_path), self.get_host_source())

    def print_source_code(self, which: SourceChoice = "kernel", file: str | Path | None = None) -> None:
        """The older name of :meth:`show_source` and, with a file, of :meth:`export_source`."""
        if file is None:
            self.show_source(which)
        else:
            self.export_source(file)

    def export_library(self, path: str | Path) -> None:
        """Write what runs without being compiled again: a form of the target's own, else a bundle, which ``zellige cache import`` takes
        in on another machine. Raises Unsupported (E440) where the target's code is not kept, OSError where the file cannot be written."""
        default = self._default
        is_kept = default.handle.works_in_steps and not default.target.is_simulated
        if is_kept and "export_library" not in default.handle.manifest.inspections:
            driver.export_kernel(self.kernel, default.target, self.options, Path(path))
        else:
            self._reported("export_library", "a library", path)

    @property
    def resource_usage(self) -> Any:
        """Registers, memory and the like, as the target's compiler reports them. Raises Unsupported (E440) where it does not."""
        return self._reported("resource_usage", "its use of resources")

    @property
    def n_regs(self) -> int:
        """Registers a lane. Raises Unsupported (E440) where the target does not report them."""
        return int(self._reported("n_regs", "registers a lane"))

    @property
    def n_spills(self) -> int:
        """Registers spilled to memory. Raises Unsupported (E440) where the target does not report them."""
        return int(self._reported("n_spills", "spilled registers"))

    @property
    def n_max_threads(self) -> int:
        """The most lanes of a block. Raises Unsupported (E440) where the target does not report it."""
        return int(self._reported("n_max_threads", "the most lanes of a block"))

    # ---- trying it ---------------------------------------------------------------------------------------------------------------------

    def get_profiler(self, tensor_supply_type: TensorSupplyType | None = None) -> Profiler:
        """What times the kernel and compares it; ``tensor_supply_type`` says how its tensors are filled (Auto unless given)."""
        from zellige.profiler import Profiler, TensorSupplyType

        return Profiler(self, tensor_supply_type or TensorSupplyType.Auto)

    def run_once(self, func: Callable[..., Any] | None = None) -> Any:
        """Call the kernel, or ``func``, once with made-up arguments."""
        return self.get_profiler().run_once(func)

    def update_tuner_result(self, latency: float, config: dict[str, Any], ref_latency: float | None) -> JITKernel:
        """Note what tuning found: times in milliseconds and the configuration chosen."""
        self.latency, self.config, self.ref_latency = latency, config, ref_latency
        return self

    def get_tuner_result(self) -> dict[str, Any]:
        """What tuning found; ValueError for a kernel that was not tuned."""
        if self.latency is None:
            raise ValueError(f"{self.kernel.name} was not tuned")
        return {"latency": self.latency, "config": self.config, "ref_latency": self.ref_latency}

    def __repr__(self) -> str:
        return f"<JITKernel {self.signature.call_text} for {self.target}>"

    def __getattr__(self, name: str) -> Any:
        """A method that the target's backend adds, such as an export of its own assembly; else AttributeError, which names its targets."""
        if name.startswith("_"):
            raise AttributeError(f"a compiled kernel has no attribute {name!r}")
        if hasattr(type(self), name):  # one of its own properties failed so: its error is the one to see
            return object.__getattribute__(self, name)
        default = self._default
        if name in default.handle.manifest.inspections:
            if default.target.is_simulated:
                raise AttributeError(f"the target {default.target} has no {name}: {UNSIMULATED}")
            return partial(default.handle.inspections()[name], default.compiled)
        owners = registry().inspection_targets(name)
        if owners:
            raise AttributeError(f"{name} belongs to kernels compiled for {', '.join(owners)}; this one is compiled for {default.target}")
        names = (*(known for known in dir(self) if not known.startswith("_")), *default.handle.manifest.inspections)
        raise AttributeError(f"a compiled kernel has no attribute {name!r}{closest(name, names)}")

    # ---- targets -----------------------------------------------------------------------------------------------------------------------

    def _variant(self, device: str | int | None) -> _Variant:
        if self._requested.name != AUTO or device is None:
            return self._default
        found = self._by_device.get(device)
        if found is None:
            found = self._by_device[device] = self._for_device(device)
        return found

    def _for_device(self, device: str | int) -> _Variant:
        try:
            target = registry().resolve(self._requested, device=device)
        except ZelligeError as error:
            if error.code == catalogue.E705.id:
                return self._default  # no target has such a device: the check of the arguments says so with the argument's name
            raise
        return self._compiled_for(target)

    def _compiled_for(self, target: Target) -> _Variant:
        with self._lock:
            if target not in self._variants:
                self._variants[target] = self._variant_of(target, driver.compile_kernel(self.kernel, target, self.options))
            return self._variants[target]

    def _variant_of(self, target: Target, compiled: CompiledKernel) -> _Variant:
        handle = registry().backend(target)
        devices: tuple[str | int, ...] = (*handle.manifest.framework_devices, *handle.manifest.dlpack_devices)
        if target.is_simulated:
            devices = (HOST, HOST_TYPE)
        absence = None if target.is_simulated else partial(handle.without_device, target)
        place = Place(target=str(target), devices=devices, absence=absence)
        return _Variant(target=target, handle=handle, compiled=compiled, place=place, bounds=self._bounds(handle, target, compiled))

    def _bounds(self, handle: BackendHandle, target: Target, compiled: CompiledKernel) -> Bounds | None:
        """What the target says a launch takes, where calls can ask for more: what constants ask for was refused when compiling."""
        kernel = self.signature.kernel
        if not self.signature.size_variables and all(isinstance(extent, Const) for launch in kernel.launches for extent in launch.grid):
            return None
        bounds = handle.bounds_of(compiled, target)
        return bounds if bounds.grid or bounds.tensor_bytes is not None else None

    def _workspaces(self) -> dict[Any, Any]:
        """The scratch tensors of the calling thread."""
        kept: dict[Any, Any] | None = getattr(self._scratch, "kept", None)
        if kept is None:
            kept = self._scratch.kept = {}
        return kept

    def _sources(self, which: SourceChoice) -> tuple[str, ...]:
        match which:
            case "kernel":
                return (self.get_kernel_source(),)
            case "host":
                return (self.get_host_source(),)
            case "both":
                return (self.get_kernel_source(), self.get_host_source())
            case _:
                reason = f"expected kernel, host or both, not {which!r}"
                raise catalogue.E159.error(option="which", reason=reason, hint="it says which sources are meant: which='both'")

    def _reported(self, name: str, what: str, *arguments: object) -> Any:
        handle = self._default.handle
        is_simulated = self._default.target.is_simulated
        if is_simulated or name not in handle.manifest.inspections:
            owners = ", ".join(registry().inspection_targets(name))
            known = f"{owners} does" if owners else "no installed backend does"
            if is_simulated and name in (*handle.manifest.inspections, "export_library"):
                known = UNSIMULATED
            raise catalogue.E440.error(target=str(self.target), what=what, known=known)
        return handle.inspections()[name](self._default.compiled, *arguments)


def _compiled_again(text: str, target: str, options: CompileOptions, tuned: dict[str, Any]) -> JITKernel:
    """The kernel that was pickled as these."""
    from zellige.ir.parser import parse_kernel

    made = JITKernel(parse_kernel(text), target, options)
    made.latency, made.config, made.ref_latency = tuned["latency"], tuned["config"], tuned["ref_latency"]
    return made


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
