"""The 8-bit float types by format: ``from zellige.language.fp8 import determine_fp8_type``.

In: a format, ``"e4m3"`` or ``"e5m2"``. Out: the language's type of that format, or torch's. They are the types of the OCP 8-bit
floating point specification (e4m3 without infinities), on every target: a target whose units multiply another encoding converts.
"""

from __future__ import annotations

from typing import Any, Final

from zellige.language.dtypes import NAMES

_FORMATS: Final = {"e4m3": "float8_e4m3fn", "e5m2": "float8_e5m2"}


def determine_fp8_type(fp8_format: str = "e4m3") -> Any:
    """The element type of the format, a ``T.dtype``. ValueError for another format."""
    if fp8_format not in _FORMATS:
        raise ValueError(f"fp8_format is {fp8_format!r}, expected one of {', '.join(_FORMATS)}")
    return NAMES[_FORMATS[fp8_format]]


def determine_torch_fp8_type(fp8_format: str = "e4m3") -> Any:
    """torch's dtype of the format. ValueError for another format; needs torch."""
    import torch

    return getattr(torch, determine_fp8_type(fp8_format))
