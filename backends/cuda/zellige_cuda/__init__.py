"""The CUDA backend: planned kernels become CUDA C++ for sm_75 to sm_120, compiled by NVRTC without a device and launched by the driver.

In: the hooks' questions (:mod:`zellige_cuda.backend`). Out: source, machine code and launches. The way to thread-level programs and their
printing is :mod:`zellige.simt`'s; here stand the device's facts, spellings, engines, compiler and driver.
"""

from zellige_cuda.backend import backend

__all__ = ["backend"]
