"""The HIP backend: for now a manifest only. It holds which names belong to HIP, so that other targets can say who has them.

Not built yet: the way from tile IR to HIP C++, its compilation and its launch.
"""

from zellige_hip.backend import backend

__all__ = ["backend"]
