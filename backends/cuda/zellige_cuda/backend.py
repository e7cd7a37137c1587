"""The backend's object: manifest, and one answer to every other question, that it is not built yet.

In: the registry's questions. Out: :data:`backend`.
"""

from __future__ import annotations

from typing import Final

from zellige.diagnostics import catalogue
from zellige.plugin.contract import API, Capabilities, ConfigKey, Device, Manifest, Unavailable
from zellige.plugin.dialect import read_dialect
from zellige.plugin.hooks import hookimpl
from zellige.target import Target
from zellige.version import __version__

_STATE: Final = Unavailable(code="not-built", reason="the CUDA backend is not built yet")

_CONFIG_KEYS: Final = (
    ConfigKey(name="CUDA_KERNELS_OUTPUT_DIR", key="cuda.kernels_output_dir"),
    ConfigKey(name="TL_DISABLE_SHUFFLE_ELECT", key="tl.disable_shuffle_elect"),
    ConfigKey(name="TL_DISABLE_TMA_LOWER", key="tl.disable_tma_lower"),
    ConfigKey(name="TL_DISABLE_WGMMA", key="tl.disable_wgmma"),
    ConfigKey(name="TL_ENABLE_LOWER_LDGSTG", key="tl.enable_lower_ldgstg"),
    ConfigKey(name="TL_ENABLE_LOWER_LDGSTG_PREDICATED", key="tl.enable_lower_ldgstg_predicated"),
    ConfigKey(name="TL_PTXAS_REGISTER_USAGE_LEVEL", key="tl.ptxas_register_usage_level"),
)


class CudaBackend:
    """What the registry sees."""

    API = API

    @hookimpl
    def manifest(self) -> Manifest:
        return Manifest(
            name="cuda",
            vendor="Zellige",
            version=__version__,
            kind="accelerator",
            targets=("cuda",),
            arch_options=("arch",),
            framework_devices=("cuda",),
            dlpack_devices=(2, 3, 13),  # kDLCUDA, kDLCUDAHost, kDLCUDAManaged
            requirements=("cuda-python",),
            dialect=read_dialect("zellige_cuda"),
            config_keys=_CONFIG_KEYS,
            hints=("blockscale_format", "cluster_mask", "disable_tma", "disable_ws", "use_2cta", "use_tma"),
            inspections=("export_ptx", "export_sass", "show_ptx", "show_sass"),
            timers=("cudagraph", "cupti"),
            state=_STATE,
            summary="CUDA C++ through NVRTC and the driver",
        )

    @hookimpl
    def probe(self) -> tuple[Device, ...] | Unavailable:
        return _STATE

    @hookimpl
    def describe(self, target: Target) -> Capabilities:
        raise catalogue.E706.error(target=str(target), reason=_STATE.reason)


backend: Final = CudaBackend()
