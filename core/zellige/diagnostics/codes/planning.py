"""E301 to E399: planning for a target.

In: nothing. Out: a constant a code.
"""

from __future__ import annotations

from zellige.diagnostics.codes.declaration import code

E301 = code(
    "E301", "tiles do not fit into the memory of a block",
    "{space} of the target {target} holds {limit} bytes a block, and the tiles need {needed}: {tiles}", hint="{fits}",
)
E302 = code(
    "E302", "too many lanes for a block", "the kernel asks for {threads} threads a block, the target {target} has at most {limit}",
    hint="use fewer threads; without thread queries the number is only a hint",
)
E303 = code(
    "E303", "operation that would read what it has written",
    "{operation} reads {source} and writes {result}, which may have elements in common, and there is no room to read before: {reason}",
    hint="copy what is read into a buffer of its own first, use constant sizes, or go over the region in parts that do not meet",
)
E304 = code(
    "E304", "sum that cannot be computed in parts", "the steps of this launch's sum cannot be shared by several blocks: {reason}",
    hint="SplitSums takes launches that fill accumulators with zeros, add products to them in one loop from 0 and then use the sums",
)
E320 = code(
    "E320", "wrong dimensions of a layout", "{operation} does not fit: {reason}",
    hint="the dimensions of a layout have names and sizes; those of two layouts that meet must agree",
)
E321 = code(
    "E321", "no layout expresses this", "{operation} is no layout: {reason}",
    hint="put odd factors outermost and exchange bits only below them",
)
E322 = code(
    "E322", "layout without inverse", "the layout has no inverse: {reason}",
    hint="an inverse needs every output point to be reached, and once; right_inverse allows copies",
)
E323 = code(
    "E323", "layout does not consist of such tiles", "the layout cannot be divided by the tile: {reason}",
    hint="an instruction whose tile divides the layout fits without moving data; else convert the layout first",
)
E324 = code(
    "E324", "no such swizzle", "the rows cannot be swizzled so: {reason}",
    hint="use a narrower span, pad the tile, or take a layout in panels",
)
E325 = code(
    "E325", "no memory layout without conflicts", "no storage serves these accesses: {reason}",
    hint="use padding, a narrower vector, or let the compiler choose the conversion",
)
E330 = code("E330", "no such intrinsic", "there is no {kind} {name}", hint="known are: {known}")
E331 = code(
    "E331", "intrinsic that contradicts itself", "the specification of {name} is wrong: {reason}",
    hint="compare the entry with the manual that it names; docs/add-an-intrinsic.md says what is checked",
)
E332 = code(
    "E332", "use that the hardware leaves undefined", "{mechanism} is used wrongly: {reason}",
    hint="the order of the operations is wrong where they were generated; look at the plan's channels and tokens",
)
E333 = code(
    "E333", "family of intrinsics refused", "{module!r} is no family of intrinsics {name!r}: {reason}",
    hint="begin the names of a family and of its instructions with those of your backend; docs/add-an-intrinsic.md has an example",
)
