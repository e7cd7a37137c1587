"""The interpreter: the meaning of the tile IR, on NumPy.

:func:`interpret` runs a kernel on arrays; :mod:`zellige.interp.backend` serves it as the target ``interp``. Every backend is compared with
it, so each operation here is the NumPy line of its node, and speed comes second.
"""

from zellige.interp.launch import Interpretation, interpret
from zellige.interp.report import Report

__all__ = ["Interpretation", "Report", "interpret"]
