"""E280 to E299: mistakes seen in published kernels, and the reports of the interpreter.

In: nothing. Out: a constant a code.
"""

from __future__ import annotations

from zellige.diagnostics.codes.declaration import code

E280 = code(
    "E280", "output that is only read", "{name} is an output but the kernel {does}",
    hint="out_idx names the tensors that the kernel writes; check its numbers",
)
E281 = code(
    "E281", "elements of an output that no block writes", "the blocks of the grid write {written} of {name}, whose shape is {shape}",
    hint="check the grid: one block for each tile, T.ceildiv({size}, {tile}) along dimension {axis}; or the order of the indices",
)
E282 = code(
    "E282", "accumulator not cleared", "T.gemm adds to {name}, which no iteration of the loop clears, and the loop uses the sum on the way",
    hint="T.clear({name}) before the product, or clear_accum=True",
)
E283 = code(
    "E283", "exponential narrowed to 16 bits", "the result of exp is rounded to {dtype} in {name} and then used for more than a product",
    hint="keep {name} in float32 and copy it to a {dtype} tile for the product",
)
E284 = code(
    "E284", "output whose shape nothing gives", "{name} is an output, but nothing says its shape and element type",
    hint="annotate it: {name}: T.Tensor((M, N), dtype), or pass the tensor",
)
E285 = code(
    "E285", "access always out of bounds", "{name} is accessed outside along dimension {axis}: {place}, where its places are {size}",
    hint=(
        "reads there give the safe value and writes are dropped; only a negative constant such as {name}[-1] counts from the end, an "
        "index known at run time does not"
    ),
)
E286 = code(
    "E286", "output that starts undefined", "{name} is an output {what}",
    hint="set {name} first, or pass a tensor that holds the start values in the place of the output",
)
E287 = code(
    "E287", "loop runs over the end of a tile", "{axis} counts to {count} and is an index of {name}, which has {size} elements there",
    hint="allocate {count} elements, or write the access under a condition: what lies beyond reads as 0 and is not written",
)
E289 = code(
    "E289", "tile that starts undefined", "{name} is {use} and nothing {what}",
    hint="T.clear({name}) or T.fill({name}, ...) first; a product that begins a sum takes clear_accum=True",
)
E292 = code(
    "E292", "pipelined loop that never runs", "T.Pipelined({start}, {stop}) counts from {start} up to {stop}: it has no iteration",
    hint="its arguments are the start and the stop, or the stop alone; stages are num_stages={stop}",
)
E293 = code(
    "E293", "sum begun anew in every iteration", "each iteration sets {name} before its product, and only what the last one left is used",
    hint="T.clear({name}) before the loop, so that the products add up",
)
E294 = code(
    "E294", "tail of an input that is not read", "the loop reads {read} of {name}, whose shape is {shape}",
    hint="T.ceildiv({size}, {tile}) steps read all of it: what lies outside the tensor reads as 0",
)
E295 = code(
    "E295", "tile at another place than is counted", "{what}", hint="a tile begins at the number of its block or step times its length"
)
E296 = code(
    "E296", "two points or blocks touch one element", "{element} is touched by {what} ({times})",
    hint="give each an element of its own, or use an atomic or, in a block, a reducer",
)
E297 = code("E297", "undefined element is read", "{what} ({times})", hint="write it first, for example with T.clear or T.fill")
E298 = code(
    "E298", "access out of bounds", "{where} lies outside of {shape} ({times})",
    hint="reads there give the safe value and writes are dropped; test the index first where that is not meant",
)
E299 = code(
    "E299", "output is not written", "{element} is not written by any block, nor are in all {count} elements of the output {buffer}",
    hint="check that the grid covers the whole output",
)
