"""Layouts of NVIDIA's matrix instructions: warp fragments, warpgroup accumulators, shared-memory operands and their descriptors.

In: extents, element widths, swizzle modes. Out: layouts and descriptor words. Facts: NVIDIA, Parallel Thread Execution ISA: "Matrix
Fragments" of each shape, "Shared Memory Matrix Layout" and "Matrix Descriptor Format" of wgmma, "Swizzling Modes" of tensors.
"""

from __future__ import annotations

from typing import Final, Literal

from zellige.diagnostics import catalogue
from zellige.layouts import Layout, mixed
from zellige.layouts.digits import Digit, flipping
from zellige.layouts.layout import layout
from zellige.records import dataclass

M, N, K = "m", "n", "k"
Swizzle = Literal[0, 32, 64, 128]
MODES: Final[dict[int, int]] = {0: 0, 128: 1, 64: 2, 32: 3}
"""Bits 62 and 63 of a descriptor for a span in bytes."""


def accumulator(groups: int = 1) -> Layout:
    """C and D of 16 x 8 (``groups`` times along n): pairs of a row in a lane, eight rows, then the same eight rows further down."""
    registers = [(2, {N: 1}), (2, {M: 8}), (groups, {N: 8})]
    return mixed({"register": registers, "lane": [(4, {N: 2}), (8, {M: 1})]}, {M: 16, N: 8 * groups})


def left(depth: int, each: int) -> Layout:
    """A of 16 x ``depth``: a lane holds ``each`` neighbours of a row in one 32-bit register; registers go down, then along k."""
    registers = [(each, {K: 1}), (2, {M: 8}), (depth // (4 * each), {K: 4 * each})]
    return mixed({"register": registers, "lane": [(4, {K: each}), (8, {M: 1})]}, {M: 16, K: depth})


def right(depth: int, each: int) -> Layout:
    """B of ``depth`` x 8: a lane holds ``each`` neighbours of a column in one register."""
    registers = [(each, {K: 1}), (depth // (4 * each), {K: 4 * each})]
    return mixed({"register": registers, "lane": [(4, {K: each}), (8, {N: 1})]}, {K: depth, N: 8})


def double_accumulator() -> Layout:
    """C and D of 8 x 8 in float64."""
    return mixed({"register": [(2, {N: 1})], "lane": [(4, {N: 2}), (8, {M: 1})]}, {M: 8, N: 8})


def double_left() -> Layout:
    """A (8 x 4) of float64 over the lanes, one element each."""
    return mixed({"register": [(1, {})], "lane": [(4, {K: 1}), (8, {M: 1})]}, {M: 8, K: 4})


def double_right() -> Layout:
    """B (4 x 8) of float64 over the lanes, one element each."""
    return mixed({"register": [(1, {})], "lane": [(4, {K: 1}), (8, {N: 1})]}, {K: 4, N: 8})


def matrices(count: int, *, is_transposed: bool) -> Layout:
    """``count`` matrices of 8 x 8 elements of 16 bits in registers, two neighbours of a row (or of a column) a lane and register."""
    along, across = ("row", "column") if is_transposed else ("column", "row")
    digits = {"register": [(2, {along: 1}), (count, {"matrix": 1})], "lane": [(4, {along: 2}), (8, {across: 1})]}
    return mixed(digits, {"matrix": count, "row": 8, "column": 8})


def matrix_rows(count: int) -> Layout:
    """The rows of those matrices in shared memory by the lanes' addresses: lane l gives row l % 8 of matrix l / 8; further lanes' addresses
    are not used and count as copies."""
    digits = {
        "element": [(8, {"column": 1})],
        "lane": [(8, {"row": 1}), (count, {"matrix": 1}), (4 // count, {})],
    }
    return mixed(digits, {"matrix": count, "row": 8, "column": 8})


def warpgroup_accumulator(columns: int) -> Layout:
    """D of 64 x ``columns``: each warp has 16 rows, as :func:`accumulator`."""
    registers = [(2, {N: 1}), (2, {M: 8}), (columns // 8, {N: 8})]
    digits = {"register": registers, "lane": [(4, {N: 2}), (8, {M: 1})], "warp": [(4, {M: 16})]}
    return mixed(digits, {M: 64, N: columns})


def warpgroup_left(depth: int, each: int) -> Layout:
    """A of 64 x ``depth`` in registers: each warp has 16 rows, as :func:`left`."""
    registers = [(each, {K: 1}), (2, {M: 8}), (depth // (4 * each), {K: 4 * each})]
    return mixed({"register": registers, "lane": [(4, {K: each}), (8, {M: 1})], "warp": [(4, {M: 16})]}, {M: 64, K: depth})


# ---- operands in shared memory ----


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedDescriptor:
    """The 64-bit word that names an operand in shared memory. Addresses and offsets in bytes, multiples of 16 below 2**18."""

    address: int
    leading: int
    stride: int
    swizzle: Swizzle
    base_offset: int = 0

    def encode(self) -> int:
        """The word: address, leading and stride offset in units of 16 bytes at bits 0, 16 and 32, base offset at 49, mode at 62."""
        for what, value in (("address", self.address), ("leading offset", self.leading), ("stride offset", self.stride)):
            if value % 16 or not 0 <= value < 1 << 18:
                raise catalogue.E331.error(name="a shared memory descriptor", reason=f"its {what} {value} is no multiple of 16 below 2**18")
        if not 0 <= self.base_offset < 8:
            raise catalogue.E331.error(name="a shared memory descriptor", reason=f"its base offset {self.base_offset} is not within 0 to 7")
        word = self.address >> 4 | self.leading >> 4 << 16 | self.stride >> 4 << 32
        return word | self.base_offset << 49 | MODES[self.swizzle] << 62


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedOperand:
    """How an operand of ``rows`` (m or n) by ``depth`` (k) lies in shared memory: ``layout`` to offsets in elements, and the offsets in
    bytes that its descriptor takes. ``step`` is what the address of the next instruction along k adds, in bytes."""

    layout: Layout
    leading: int
    stride: int
    step: int


def k_major(rows: tuple[str, int], depth: int, bits: int, swizzle: Swizzle) -> SharedOperand:
    """k is contiguous. With a swizzle rows of that span hold k and 8 rows are a group; without, groups are 8 rows of 16 bytes."""
    name, count = rows
    piece = 16 * 8 // bits  # elements of 16 bytes
    span = max(1, swizzle // 16) * piece
    group = 8 * span
    if swizzle:
        down = _swizzled_rows(span, piece)
        along = [flipping((1 << bit,)) for bit in range((depth - 1).bit_length())]
        size = count // 8 * group
        rest = Digit(extent=count // 8, strides=(group,), flips=(0,))
        found = layout({name: [*down, rest], K: along}, {"offset": size})
        return SharedOperand(layout=found, leading=16, stride=8 * swizzle, step=depth * bits // 8)
    columns = depth // piece
    digits = {
        name: [(8, {"offset": piece}), (count // 8, {"offset": group * columns})],
        K: [(piece, {"offset": 1}), (columns, {"offset": group})],
    }
    both = mixed(digits, {"offset": count * depth})
    return SharedOperand(layout=both, leading=128, stride=128 * columns, step=128 * columns)


def row_major_of_128(rows: tuple[str, int], depth: int, stored: int) -> SharedOperand:
    """m or n is contiguous, elements of 16 bits, spans of 128 bytes: 64 elements of a k in a row, 8 k a group.

    ``stored`` is the k extent of the whole tile: the next 64 elements along m or n lie behind all of it.
    """
    name, count = rows
    lines = _swizzled_rows(64, 8)
    leading = stored * 64
    down = [flipping((1 << bit,)) for bit in range(6)]
    down.append(Digit(extent=max(1, count // 64), strides=(leading,), flips=(0,)))
    if count < 64:
        down = [flipping((1 << bit,)) for bit in range((count - 1).bit_length())]
    groups = Digit(extent=depth // 8, strides=(512,), flips=(0,))
    size = max(1, count // 64) * leading
    return SharedOperand(
        layout=layout({name: down, K: [*lines, groups]}, {"offset": size}), leading=leading * 2, stride=1024, step=2 * 64 * depth
    )


def _swizzled_rows(span: int, piece: int) -> list[Digit]:
    """Bits of the row number within a group of 8: each moves by a row; those that choose the exchange flip pieces too.

    Spans of 128, 64, 32 bytes exchange by address bits 7 and up: by row bits 0-2, 1-2, 2.
    """
    places = span // piece
    first = 3 - (places.bit_length() - 1)
    bits = []
    for bit in range(3):
        exchange = piece << (bit - first) if bit >= first else 0
        bits.append(flipping(((span << bit) | exchange,)))
    return bits
