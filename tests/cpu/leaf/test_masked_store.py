"""A masked store writes the lanes of its mask and nothing else, also where LLVM can see that the mask is one lane of a truncated vector."""

from __future__ import annotations

import numpy as np
import pytest

from zellige_cpu.text import Function, Module
from zellige_cpu.values import Value, constant, vector_constant


def constant_mask(fn: Function, lanes: int, count: int) -> Value:
    return vector_constant("i1", [lane < count for lane in range(lanes)])


def compared_mask(fn: Function, lanes: int, count: int) -> Value:
    """A mask that LLVM computes by itself while it compiles."""
    return fn.compare("slt", vector_constant("i8", range(lanes)), constant("i8", count, lanes))


@pytest.mark.parametrize("mask", [constant_mask, compared_mask])
@pytest.mark.parametrize(
    "wide,narrow,lanes", [("i32", "i16", 16), ("i32", "i8", 16), ("i16", "i8", 32), ("i64", "i32", 8), ("i64", "i16", 8)]
)
def test_only_the_lanes_of_the_mask(program, host, wide, narrow, lanes, mask):
    bytes_wide, bytes_narrow = int(wide[1:]) // 8, int(narrow[1:]) // 8
    counts = [1, 2, 3, lanes - 1]
    module = Module("masked", host)
    for count in counts:
        fn = module.function(f"store{count}", "void", [("src", "ptr"), ("dst", "ptr")], is_exported=True)
        value = fn.binary("lshr", fn.load(fn.params[0], wide, lanes, align=bytes_wide), constant(wide, 1, lanes))
        fn.masked_store(fn.convert("trunc", value, narrow), fn.params[1], mask(fn, lanes, count), align=bytes_narrow)
    loaded = program(module, [f"store{count}" for count in counts])
    source = np.arange(2, 2 + 2 * lanes, 2, dtype=f"u{bytes_wide}")
    for count in counts:
        target = np.full(lanes, 0xEE, f"u{bytes_narrow}")
        loaded(f"store{count}", source, target)
        assert target.tolist() == [*range(1, count + 1), *[0xEE] * (lanes - count)]
