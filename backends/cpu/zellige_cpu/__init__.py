"""The CPU backend: tile IR to LLVM IR by loops and vectors, compiled in the process.

``backend`` is the object that the entry point names.
"""

from zellige_cpu.backend import CpuBackend

backend = CpuBackend()

__all__ = ["CpuBackend", "backend"]
