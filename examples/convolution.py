"""A 2-D convolution as a product: a tile of T.im2col holds, for some output pixels, the inputs under the kernel window.

Images are (batch, height, width, channels), weights (kernel, kernel, channels, filters).
"""

from functools import partial

import numpy as np
from _bounds import exact
from _harness import Run, example, to_numpy

import zellige as zl
import zellige.language as T


def output_size(size, kernel, stride, dilation, pad):
    return (size + 2 * pad - dilation * (kernel - 1) - 1) // stride + 1


@zl.jit(out_idx=[-1])
def convolution(
    batch, height, width, channels, filters, kernel, stride, dilation, pad, dtype="float32", block_M=64, block_N=64, block_K=32, stages=3
):
    out_height, out_width = output_size(height, kernel, stride, dilation, pad), output_size(width, kernel, stride, dilation, pad)
    pixels, depth = batch * out_height * out_width, kernel * kernel * channels

    @T.prim_func
    def convolution(
        image: T.Tensor((batch, height, width, channels), dtype),
        weight: T.Tensor((kernel, kernel, channels, filters), dtype),
        out: T.Tensor((batch, out_height, out_width, filters), dtype),
    ):
        with T.Kernel(T.ceildiv(filters, block_N), T.ceildiv(pixels, block_M), threads=128) as (bx, by):
            inputs = T.alloc_shared((block_M, block_K), dtype)
            weights = T.alloc_shared((block_K, block_N), dtype)
            sums = T.alloc_fragment((block_M, block_N), "float32")
            weight_matrix = T.reshape(weight, (depth, filters))
            out_matrix = T.reshape(out, (pixels, filters))
            T.clear(sums)
            for k in T.Pipelined(T.ceildiv(depth, block_K), num_stages=stages):
                T.im2col(image, inputs, by, k, kernel, stride, dilation, pad)
                T.copy(weight_matrix[k * block_K, bx * block_N], weights)
                T.gemm(inputs, weights, sums)
            T.copy(sums, out_matrix[by * block_M, bx * block_N])

    return convolution


def windows(image, kernel, stride, dilation, pad):
    """The inputs under the window of each output pixel: (batch, out_height, out_width, kernel, kernel, channels)."""
    padded = np.pad(image, ((0, 0), (pad, pad), (pad, pad), (0, 0)))
    height, width = (output_size(size, kernel, stride, dilation, pad) for size in image.shape[1:3])
    rows = np.arange(height)[:, None] * stride + np.arange(kernel) * dilation
    columns = np.arange(width)[:, None] * stride + np.arange(kernel) * dilation
    return padded[:, rows[:, None, :, None], columns[None, :, None, :]]


@example(
    shape={"batch": 3, "height": 37, "width": 41, "channels": 19, "filters": 45, "kernel": 3, "stride": 2, "dilation": 1},
    dtypes=("float32", "float16", "bfloat16"),
)
def main(run: Run) -> None:
    batch, height, width, channels, filters, kernel, stride, dilation = run.shape
    pad = kernel // 2
    fits = min(output_size(size, kernel, stride, dilation, pad) for size in (height, width)) > 0
    run.require(fits, "the window, kernel elements dilation apart, must fit the image with kernel // 2 zeros on each side")
    image, weight = run.normal(batch, height, width, channels), run.normal(kernel, kernel, channels, filters)
    compiled = convolution(batch, height, width, channels, filters, kernel, stride, dilation, pad, run.dtype)
    inputs = windows(to_numpy(image), kernel, stride, dilation, pad)
    depth = kernel * kernel * channels
    product = exact(inputs.reshape(-1, depth)) @ exact(to_numpy(weight).reshape(depth, filters))
    expected = product.rounded(run.dtype).reshape(*inputs.shape[:3], filters)
    flop = 2 * product.value.size * depth
    run.check("convolution", partial(compiled, image, weight), expected, flop=flop)


if __name__ == "__main__":
    main()
