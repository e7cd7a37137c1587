"""The backend's object: manifest, and one answer to every other question, that it is not built yet.

In: the registry's questions. Out: :data:`backend`.
"""

from __future__ import annotations

from typing import Final

from zellige.diagnostics import catalogue
from zellige.plugin.contract import API, Capabilities, Device, Manifest, Unavailable
from zellige.plugin.hooks import hookimpl
from zellige.target import Target
from zellige.version import __version__

_STATE: Final = Unavailable(code="not-built", reason="the HIP backend is not built yet")


class HipBackend:
    """What the registry sees."""

    API = API

    @hookimpl
    def manifest(self) -> Manifest:
        return Manifest(
            name="hip",
            vendor="Zellige",
            version=__version__,
            kind="accelerator",
            targets=("hip",),
            aliases=(("rocm", "hip"),),
            arch_options=("arch", "mcpu"),
            framework_devices=("cuda", "hip"),  # PyTorch for ROCm calls its devices "cuda"
            dlpack_devices=(10, 11),  # kDLROCM, kDLROCMHost
            requirements=("hip-python",),
            dialect_table="dialect.txt",
            state=_STATE,
            summary="HIP C++ through hiprtc and the HIP runtime",
        )

    @hookimpl
    def probe(self) -> tuple[Device, ...] | Unavailable:
        return _STATE

    @hookimpl
    def describe(self, target: Target) -> Capabilities:
        raise catalogue.E706.error(target=str(target), reason=_STATE.reason)


backend: Final = HipBackend()
