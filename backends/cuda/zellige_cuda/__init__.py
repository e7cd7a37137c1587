"""The CUDA backend: for now a manifest only. It holds which names and keys belong to CUDA, so that other targets can say who has them.

Not built yet: the way from tile IR to CUDA C++, its compilation and its launch.
"""

from zellige_cuda.backend import backend

__all__ = ["backend"]
