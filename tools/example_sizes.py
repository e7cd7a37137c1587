"""Sizes at which examples are tested: small, odd, and divided by no tile.

In: nothing. Out: :data:`SHAPES`, by the name of the example, for its option ``--shape``.
"""

from __future__ import annotations

from typing import Final

SHAPES: Final[dict[str, tuple[str, ...]]] = {
    "attention": ("1x4x2x67x131x40", "2x2x1x1x65x32"),
    "attention_backward": ("1x2x131x40",),
    "attention_varlen": ("5x201x2x40", "1x1x1x32"),
    "convolution": ("2x13x11x5x67x3x2x1", "1x9x9x3x5x3x1x2", "1x5x5x1x1x1x1x1"),
    "flash_decoding": ("2x6x2x331x40x3", "1x1x1x5x32x8"),
    "gemm": ("131x67x45", "1x1x1"),
    "gemm_batched": ("3x70x65x37",),
    "gemm_direct": ("131x67x45", "5x129x300"),
    "gemm_eager": ("131x67x45",),
    "gemm_fp8": ("67x133x259", "1x1x1"),
    "gemm_grouped": ("5x201x67x45", "1x1x3x5"),
    "gemm_int4": ("67x69x131",),
    "gemm_layout": ("131x67x45",),
    "gemm_persistent": ("300x267x45", "1x1x1"),
    "gemm_split_k": ("33x65x517",),
    "gemm_stream_k": ("131x267x333", "1x1x33"),
    "histogram": ("9001x37",),
    "layer_norm": ("13x129", "1x1"),
    "linear_attention": ("1x2x131x40",),
    "moe": ("67x5x3x37x69", "1x4x4x32x32"),
    "rms_norm": ("13x129", "1x1"),
    "softmax": ("13x129", "3x2051"),
    "top_k": ("13x129x5", "3x4x4"),
    "transpose": ("67x129",),
    "vector_add": ("10007", "1"),
}
"""The first of an example runs in all its element types, the others in its default."""
