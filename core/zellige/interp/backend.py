"""The interpreter as the backend of the target ``interp``.

In: the hooks' questions. Out: their answers; what runs kernels (:mod:`zellige.interp.kernel`) is loaded when one is compiled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from zellige.dtypes import all_dtypes
from zellige.options import options
from zellige.plugin.contract import API, Capabilities, Device, Manifest, MatmulUnit, Space
from zellige.plugin.hooks import hookimpl
from zellige.version import __version__

if TYPE_CHECKING:
    from zellige.interp.kernel import InterpretedKernel
    from zellige.plan.nodes import PlannedKernel
    from zellige.target import Target

SPACES: Final = ("global", "shared", "fragment", "local", "var")

TARGET: Final = "interp"

BLOCK_LANES: Final = 65536
"""Lanes that a block may have: a value of a lane is an array of that many elements."""


class InterpreterBackend:
    """The hooks of the plugin contract."""

    API = API

    @hookimpl
    def manifest(self) -> Manifest:
        """The target ``interp``, which ``auto`` never chooses."""
        return Manifest(
            name=TARGET,
            vendor="zellige",
            version=__version__,
            kind="reference",
            targets=(TARGET,),
            options=(),
            framework_devices=("cpu",),
            summary="the meaning of the tile IR on NumPy; finds races, undefined reads and accesses out of bounds",
        )

    @hookimpl
    def probe(self) -> tuple[Device, ...]:
        """This process."""
        return (Device(name="NumPy", index=0, target=TARGET),)

    @hookimpl
    def describe(self, target: Target) -> Capabilities:
        """Everything that the tile IR has."""
        names = tuple(dtype.name for dtype in all_dtypes())
        return Capabilities(
            target=str(target),
            lanes=options().lanes,
            are_lanes_emulated=True,
            block_lanes=max(BLOCK_LANES, options().lanes),
            threads=1,
            spaces=(*(Space(name=space) for space in SPACES), Space(name="*")),
            dtypes=names,
            compute_dtypes=names,
            matmul=(MatmulUnit(name="NumPy", a="float32", b="float32", c="float32", is_native=False),),
        )

    @hookimpl
    def compile_kernel(self, planned: PlannedKernel) -> InterpretedKernel:
        """Nothing is compiled: the kernel runs as it is."""
        from zellige.interp.kernel import InterpretedKernel

        return InterpretedKernel(planned.kernel)


backend: Final = InterpreterBackend()
