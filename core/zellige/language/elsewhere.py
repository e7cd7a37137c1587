"""Names that other languages of kernels and array libraries have for something, and what it is called here.

In: nothing. Out: :data:`ELSEWHERE`, shown to whoever asks the language for such a name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_TILE = "tile = T.alloc_fragment(shape, dtype), then"

ELSEWHERE: Final[Mapping[str, str]] = {
    "advance": "an index computes each step's place: A[row, step * BLOCK]",
    "arange": "the variables of T.Parallel count the elements of a tile",
    "blockDim": "the number that T.Kernel's threads= was given",
    "blockIdx": "with T.Kernel(...) as (bx, by): gives the numbers of the block",
    "broadcast": "an element takes part in every point of T.Parallel: C[i, j] = A[i, j] * scale[i]",
    "broadcast_to": "an element takes part in every point of T.Parallel: C[i, j] = A[i, j] * scale[i]",
    "concat": "T.copy each part into a slice of the result",
    "constexpr": "parameters of the function around the kernel are constants",
    "device_print": "T.print(value)",
    "dot": "T.gemm(A, B, C) adds the product of tiles to C",
    "empty_like": "T.alloc_fragment(tile.shape, tile.dtype) makes a tile",
    "expand_dims": "T.reshape(tile, shape), or an element that takes part in every point of T.Parallel",
    "full": f"{_TILE} T.fill(tile, value)",
    "gelu": "write it in T.Parallel with T.erf or T.tanh",
    "load": "T.copy(A[row, column], tile) fills a tile from a tensor; A[i, j] is one element",
    "make_block_ptr": "T.copy(A[row, column], tile) takes a part of a tensor by its first element",
    "matmul": "T.gemm(A, B, C) adds the product of tiles to C",
    "maximum": "T.max(a, b) of numbers; of the elements of tiles in T.Parallel",
    "mean": "T.reduce_sum(tile, out, dim), divided by the number of elements",
    "minimum": "T.min(a, b) of numbers; of the elements of tiles in T.Parallel",
    "multiple_of": "T.assume(n % 16 == 0)",
    "num_programs": "the extents of T.Kernel are known where it is written",
    "ones": f"{_TILE} T.fill(tile, 1)",
    "program_id": "with T.Kernel(...) as (bx, by): gives the numbers of the block",
    "relu": "T.max(x, 0) of an element in T.Parallel",
    "rand": "T.rng_init(seed), then T.rng_rand_float()",
    "softmax": "T.reduce_max, T.exp in T.Parallel and T.reduce_sum: the tutorial's sixth page",
    "sqrt_rn": "T.ieee_fsqrt(x, 'rn')",
    "square": "x * x of an element in T.Parallel",
    "static_assert": "a plain assert of numbers known while compiling",
    "static_range": "T.unroll(n), or range(n) of a Python number",
    "store": "T.copy(tile, A[row, column]) writes a tile to a tensor; A[i, j] = x is one element",
    "threadIdx": "T.get_thread_binding(0) is the number of the lane",
    "where": "T.if_then_else(condition, a, b) chooses between numbers; of the elements of tiles in T.Parallel",
    "zeros": f"{_TILE} T.clear(tile)",
    "zeros_like": f"{_TILE} T.clear(tile)",
}
