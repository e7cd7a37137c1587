"""The programs that claims are checked with: each as small as its claim allows.

In: element types, extents, operations. Out: kernels of the tile IR, written in the language that users write. Annotations are evaluated
where they stand, since they name what the factories are given.
"""

# Kernels are read by the front end, not run by Python: their annotations are shapes, which mypy cannot follow.
# mypy: ignore-errors

from typing import Any

import zellige.language as T
from zellige.ir.stmt import Kernel


def copied(count: int, dtype: str) -> Kernel:
    """B = A through a tile."""

    @T.prim_func
    def probe_copy(A: T.Tensor((count,), dtype), B: T.Tensor((count,), dtype)):
        with T.Kernel(1):
            tile = T.alloc_shared((count,), dtype)
            T.copy(A, tile)
            T.copy(tile, B)

    return _kernel(probe_copy)


def staged(steps: int, rows: int, columns: int, dtype: str) -> Kernel:
    """B = A, a tile a step in a pipelined loop; the last tile leaves the tensors by one row. C gets the tiles whole."""
    length = steps * rows - 1

    @T.prim_func
    def probe_pipeline(
        A: T.Tensor((length, columns), dtype), B: T.Tensor((length, columns), dtype), C: T.Tensor((steps * rows, columns), dtype)
    ):
        with T.Kernel(1, threads=64):
            tile = T.alloc_shared((rows, columns), dtype)
            for step in T.Pipelined(steps, num_stages=2):
                T.copy(A[step * rows, 0], tile)
                T.copy(tile, B[step * rows, 0])
                T.copy(tile, C[step * rows, 0])

    return _kernel(probe_pipeline)


def added(count: int, dtype: str) -> Kernel:
    """C = A + B."""

    @T.prim_func
    def probe_arithmetic(A: T.Tensor((count,), dtype), B: T.Tensor((count,), dtype), C: T.Tensor((count,), dtype)):
        with T.Kernel(1):
            for i in T.Parallel(count):
                C[i] = A[i] + B[i]

    return _kernel(probe_arithmetic)


def scaled_and_moved(count: int, dtype: str) -> Kernel:
    """B = A factor + offset, numbers of float32 or int32."""

    @T.prim_func
    def probe_floats(A: T.Tensor((count,), "float32"), B: T.Tensor((count,), "float32"), factor: T.float32, offset: T.float32):
        with T.Kernel(1):
            for i in T.Parallel(count):
                B[i] = A[i] * factor + offset

    @T.prim_func
    def probe_integers(A: T.Tensor((count,), "int32"), B: T.Tensor((count,), "int32"), factor: T.int32, offset: T.int32):
        with T.Kernel(1):
            for i in T.Parallel(count):
                B[i] = A[i] * factor + offset

    return _kernel({"float32": probe_floats, "int32": probe_integers}[dtype])


def added_of_any_size(dtype: str) -> Kernel:
    """C = A + B of a length known at run time."""
    n = T.dynamic("n")

    @T.prim_func
    def probe_size(A: T.Tensor((n,), dtype), B: T.Tensor((n,), dtype), C: T.Tensor((n,), dtype)):
        with T.Kernel(T.ceildiv(n, 32)) as block:
            for i in T.Parallel(32):
                if block * 32 + i < n:
                    C[block * 32 + i] = A[block * 32 + i] + B[block * 32 + i]

    return _kernel(probe_size)


def numbered_blocks() -> Kernel:
    """A[z, y, x] = x + 16 y + 256 z, each by a block of its own; the lengths of the grid are known at run time."""
    depth, height, width = (T.dynamic(name) for name in ("depth", "height", "width"))

    @T.prim_func
    def probe_grid(A: T.Tensor((depth, height, width), "int32")):
        with T.Kernel(width, height, depth) as (x, y, z):
            A[z, y, x] = x + 16 * y + 256 * z

    return _kernel(probe_grid)


def multiplied(
    m: int, n: int, k: int, a_type: str, b_type: str, c_type: str, threads: int, turned: tuple[bool, bool] = (False, False)
) -> Kernel:
    """C = A B, two steps of k. ``turned``: A, B stand transposed in memory, and their tiles with them."""
    turns_a, turns_b = turned
    a_shape, b_shape = (k, m) if turns_a else (m, k), (n, k) if turns_b else (k, n)
    a_whole, b_whole = (2 * k, m) if turns_a else (m, 2 * k), (n, 2 * k) if turns_b else (2 * k, n)

    @T.prim_func
    def probe_product(A: T.Tensor(a_whole, a_type), B: T.Tensor(b_whole, b_type), C: T.Tensor((m, n), c_type)):
        with T.Kernel(1, threads=threads):
            a = T.alloc_shared(a_shape, a_type)
            b = T.alloc_shared(b_shape, b_type)
            c = T.alloc_fragment((m, n), c_type)
            T.clear(c)
            for step in T.Pipelined(2, num_stages=0):
                if turns_a:
                    T.copy(A[step * k, 0], a)
                else:
                    T.copy(A[0, step * k], a)
                if turns_b:
                    T.copy(B[0, step * k], b)
                else:
                    T.copy(B[step * k, 0], b)
                T.gemm(a, b, c, transpose_A=turns_a, transpose_B=turns_b)
            T.copy(c, C)

    return _kernel(probe_product)


def multiplied_in_parts(
    tiles: tuple[tuple[int, int, int], ...], room: tuple[int, int, int], a_type: str, b_type: str, c_type: str, threads: int
) -> Kernel:
    """C[i] = A[i] B[i] of the i-th tiles (m, n, k), each by a launch of its own. Tensors have ``room`` (m, n, k) for each: what lies there
    beyond its tiles belongs to no product."""
    count = len(tiles)
    rows, columns, depth = room

    @T.prim_func
    def probe_parts(
        A: T.Tensor((count, rows, depth), a_type), B: T.Tensor((count, depth, columns), b_type), C: T.Tensor((count, rows, columns), c_type)
    ):
        for at in range(count):
            m, n, k = tiles[at]
            with T.Kernel(1, threads=threads):
                a = T.alloc_shared((m, k), a_type)
                b = T.alloc_shared((k, n), b_type)
                c = T.alloc_fragment((m, n), c_type)
                T.clear(c)
                T.copy(A[at, 0:m, 0:k], a)
                T.copy(B[at, 0:k, 0:n], b)
                T.gemm(a, b, c)
                T.copy(c, C[at, 0:m, 0:n])

    return _kernel(probe_parts)


def numbered(lanes: int) -> Kernel:
    """Each lane of a block writes its number in its warp, counted from the first lane that it hears there: a wider warp than the
    machine's hears nobody. A vote that reaches lanes of two warps, since the machine's are wider, makes it negative."""

    @T.prim_func
    def probe_lanes(C: T.Tensor((lanes,), "int32")):
        with T.Kernel(1, threads=lanes):
            tx = T.get_thread_binding()
            first = T.shfl_sync(tx, 0)
            is_odd = T.get_warp_idx() % 2
            alike = T.all_sync(is_odd == 0) + T.all_sync(is_odd == 1)
            C[tx] = T.if_then_else(alike != 0, tx - first, -1 - tx)

    return _kernel(probe_lanes)


def filled(size: int, dtype: str) -> Kernel:
    """A shared tile of ``size`` elements written and read at both ends."""

    @T.prim_func
    def probe_space(A: T.Tensor((size,), dtype), B: T.Tensor((2,), dtype)):
        with T.Kernel(1, threads=64):
            tile = T.alloc_shared((size,), dtype)
            T.copy(A, tile)
            for i in T.Parallel(2):
                B[i] = tile[i * (size - 1)]

    return _kernel(probe_space)


def accumulated(count: int, dtype: str, op: str) -> Kernel:
    """Every element of A into the one of C, atomically."""
    combine: Any = {"add": T.atomic_add, "max": T.atomic_max, "min": T.atomic_min}[op]

    @T.prim_func
    def probe_atomic(A: T.Tensor((count,), dtype), C: T.Tensor((1,), dtype)):
        with T.Kernel(4) as block:
            for i in T.Parallel(count // 4):
                combine(C[0], A[block * (count // 4) + i])

    return _kernel(probe_atomic)


def converted(count: int, source: str, destination: str) -> Kernel:
    """B = A in another element type."""

    @T.prim_func
    def probe_conversion(A: T.Tensor((count,), source), B: T.Tensor((count,), destination)):
        with T.Kernel(1):
            for i in T.Parallel(count):
                B[i] = T.cast(A[i], destination)

    return _kernel(probe_conversion)


def applied(count: int, dtype: str, function: str) -> Kernel:
    """B = a mathematics function of A."""
    apply: Any = getattr(T, function)

    @T.prim_func
    def probe_mathematics(A: T.Tensor((count,), dtype), B: T.Tensor((count,), dtype)):
        with T.Kernel(1):
            for i in T.Parallel(count):
                B[i] = apply(A[i])

    return _kernel(probe_mathematics)


def _kernel(function: Any) -> Kernel:
    kernel = function.kernel
    assert isinstance(kernel, Kernel)
    return kernel
