"""E201 to E259, E288, E290, E291, E2001: the language's operations: types and shapes.

In: nothing. Out: a constant a code.
"""

from __future__ import annotations

from zellige.diagnostics.codes.declaration import code

E201 = code(
    "E201", "integer literal too large", "{value} does not fit in 64 bits",
    hint="a size or an index has to be smaller; where a float is meant, write one, such as 2.0**70",
)
E202 = code(
    "E202", "not a number", "a number is needed here, not {given}",
    hint="pass a Python number, a scalar or one element of a tile such as A[i, j]",
)
E203 = code("E203", "operands do not fit each other", "{left} and {right} cannot be combined", hint="cast one of them first")
E204 = code(
    "E204", "operation not defined for the type", "{operation} is not defined for {dtype}",
    hint="cast the operand first, or reinterpret its bits", also=TypeError,
)
E205 = code(
    "E205", "index is not an integer", "an integer is needed as index or size, not {given}",
    hint="use // for integer division, or T.cast(x, 'int32')", also=TypeError,
)
E206 = code(
    "E206", "variable changes its type", "{name} is {old} and cannot become {new} in the middle of the kernel",
    hint="cast the value ({old}(...)), or use another name",
)
E207 = code(
    "E207", "index into a variable", "{name} is a single variable: its only index is 0", hint="use T.alloc_local((n,), dtype) for an array",
)
E208 = code(
    "E208", "too many indices", "{name} has {dimensions} but {given} indices are given",
    hint="one index a dimension; dimensions without an index are taken whole",
)
E209 = code(
    "E209", "slice with a step", "a slice of {name} has a step", hint="take a contiguous slice, or read the elements in T.Parallel",
    also=RuntimeError,
)
E210 = code(
    "E210", "reducer used as a tile",
    "illegal store to reducer {name}: until T.finalize_reducer a {op} reducer takes only updates of its own operation",
    hint="accumulate with {form}, and read the result after T.finalize_reducer",
)
E211 = code("E211", "loop step is zero", "the step of a loop is 0", hint="give a positive or negative step")
E212 = code(
    "E212", "wrong schedule of a pipelined loop", "{what} cannot be {given}",
    hint="num_stages of 0 or 1 means no overlap; order and stage have one entry a statement; the result is always the same",
)
E213 = code("E213", "loop without extents", "{loop} needs at least one extent", hint="for i, j in {loop}(M, N):")
E214 = code(
    "E214", "grid of a wrong rank", "T.Kernel takes at most three grid extents, not {given}",
    hint="combine extents and split the index with // and %",
)
E215 = code(
    "E215", "negative grid extent", "a grid extent is {given}", hint="an extent of 0 launches nothing; negative extents mean nothing",
)
E216 = code(
    "E216", "wrong number of threads", "threads must be one to three positive numbers, not {given}",
    hint="threads=128, or up to three numbers: threads=(32, 4)",
)
E217 = code(
    "E217", "unknown element type", "{given} is not an element type{suggestion}", hint='for example "float16", T.bfloat16, torch.float32'
)
E218 = code(
    "E218", "wrong tensor annotation", "{reason}", hint='T.Tensor((M, N), "float16"), or T.StridedTensor((M, N), (stride, 1), "float16")',
)
E219 = code("E219", "size name is not an identifier", "{given} does not name sizes", hint='T.dynamic("m") or T.dynamic("m, n")')
E220 = code(
    "E220", "extent of a buffer is not positive", "an extent of the buffer is {given}",
    hint="every dimension of an on-chip buffer has at least one element",
)
E221 = code("E221", "variable initialised twice", "T.alloc_var is given two initial values", hint="T.alloc_var(dtype, init=value)")
E222 = code(
    "E222", "not a tile", "{operation} needs a tile, a slice or an element such as A[i, j], not {given}",
    hint="pass a tensor or buffer, a slice of it, or an element as a start point",
)
E223 = code(
    "E223", "shapes do not match", "{operation}: {left} does not match {right} (dimensions of size 1 are ignored)",
    hint="slice one side to the other's shape, or give a start point such as A[i, j]",
)
E224 = code(
    "E224", "shapes do not fit a transposition", "T.transpose exchanges the last two dimensions: {left} does not fit {right}",
    hint="the destination of (M, N) is (N, M); dimensions before these two agree",
)
E225 = code(
    "E225", "operand is not a matrix", "{operation} needs matrices, not shape {given}",
    hint="slice all leading dimensions to one index: A[b, 0:M, 0:K]",
)
E226 = code(
    "E226", "product sizes do not match", "{name} is {left} on one side and {right} on the other: A is {a}, B is {b}, C is {c}",
    hint="check transpose_A / transpose_B: A is (M, K), B is (K, N), C is (M, N)",
)
E227 = code(
    "E227", "unknown gemm policy", "{given} is not a GemmWarpPolicy{suggestion}", hint="T.GemmWarpPolicy.Square, FullRow or FullCol"
)
E228 = code(
    "E228", "dimension out of range", "{operation}: dim is {given}, the tile has {dimensions}",
    hint="dim counts from 0, or from -1 backwards",
)
E229 = code(
    "E229", "output of a reduction has a wrong shape", "{operation}: {src} without dimension {axis} does not fit the output {dst}",
    hint="the output has the input's shape without the reduced dimension, or with 1 there",
)
E230 = code(
    "E230", "function not defined for the type", "{function} takes integers, not {dtype}", hint="cast or reinterpret the operand first",
    also=TypeError,
)
E231 = code("E231", "division by zero", "a constant division by zero", hint="check where the divisor comes from")
E232 = code("E232", "type without infinity", "{dtype} has no infinity", hint="T.max_value(dtype) is its largest finite value")
E233 = code("E233", "unknown reducer operation", "{given} is not the operation of a reducer{suggestion}", hint="one of: {known}")
E234 = code(
    "E234", "reducer used out of order", "{operation}: {given} {reason}",
    hint=(
        "T.reducer_init once, T.reducer_update in T.Parallel, T.finalize_reducer once; or T.clear, r[i] += "
        "x, T.finalize_reducer in older code"
    ),
)
E235 = code(
    "E235", "start value of another type", "a start value of {given} does not match reducer {name}, which is {dtype}",
    hint="cast the start value: {dtype}(...)",
)
E236 = code(
    "E236", "view of another size", "{old} has {before} bits and cannot be viewed as {new} of {after} bits",
    hint="a view keeps the number of bits", also=AssertionError,
)
E237 = code(
    "E237", "view of strided storage", "{name} has declared strides and cannot be viewed under another shape or dtype",
    hint="copy it to a tile first",
)
E238 = code("E238", "unknown memory order", "{operation} does not support memory_order {given}{suggestion}", hint="one of: {known}")
E239 = code(
    "E239", "value of a tile operation is neither tile nor number",
    "{operation} on a tile needs a tile, a slice or a number as value, not {given}",
    hint="give a tile of the same shape, or one number for all elements",
)
E240 = code(
    "E240", "previous value of a tile", "{operation} gives the previous value of single elements only",
    hint="call it on one element in T.Parallel",
)
E241 = code(
    "E241", "dimension does not exist", "{what} {given} does not exist: there are {count}", hint="they are counted from 0",
    also=IndexError,
)
E242 = code(
    "E242", "wrong named barrier", "T.sync_threads: {name} is {wanted}, not {given}",
    hint="T.sync_threads() without arguments waits for the whole block",
)
E243 = code(
    "E243", "wrong group of lanes", "{given} names no group of lanes of a warp",
    hint="a width is a power of two up to 128, at most a warp of the target; a mask is an integer with a bit for each lane, and comes last",
)
E244 = code("E244", "unknown launch order", "{given} is not an order of T.use_swizzle{suggestion}", hint='"row" or "column"')
E245 = code(
    "E245", "count out of range", "{wanted} is needed here, not {given}", hint="give a number that is known while compiling",
)
E246 = code(
    "E246", "not a layout", "T.annotate_layout takes T.Layout, T.Fragment, make_swizzled_layout(...) or a function, not {given}",
    hint="T.annotate_layout({{tile: T.Layout(tile.shape, lambda i, j: ...)}})",
)
E247 = code(
    "E247", "layout does not fit", "the layout for {name} {reason}",
    hint="a layout has the tile's shape and gives each element a place of its own",
)
E248 = code(
    "E248", "wrong rounding", "{reason}",
    hint='casts: "rn", "rz", "rm", "rp"; IEEE operations: "rn", "rz", "ru", "rd"; T.round: "ties-to-even", "ties-away-from-zero"',
)
E249 = code(
    "E249", "reinterpretation of another width", "the bits of {old} cannot be {new}: the widths differ",
    hint="T.cast converts the value; T.view changes the dtype of a tile",
)
E250 = code(
    "E250", "constant size is not solved",
    (
        "no argument gives the size {name}: T.const sizes are solved from places where the size stands alone "
        "in a shape, such as ({name},), not {name} * 2"
    ),
    hint="use it alone in the shape of a parameter, or pass {name}=... as a keyword",
)
E251 = code(
    "E251", "size of an output is not known", "the shape of the output {name} needs {size}, which no argument gives",
    hint="every size of an output follows from the inputs: use sizes that stand in an input's shape, or scalar parameters",
)
E252 = code(
    "E252", "augmented assignment of a slice", "a slice of {name} cannot be changed by an augmented assignment",
    hint="loop over its elements with T.Parallel, or use T.copy and T.fill",
)
E253 = code(
    "E253", "T.empty inside T.Kernel", "T.empty makes a tensor of the whole call and stands before T.Kernel",
    hint="use T.alloc_shared, T.alloc_fragment or T.alloc_global inside the block",
)
E254 = code(
    "E254", "number does not fit the type", "{value} {fault} {dtype}, whose values go from {least} to {greatest}",
    hint="use another dtype, or cast a run-time value where wrapping is meant",
)
E288 = code(
    "E288", "shift by a number that is none of a bit", "a shift by {value} of {dtype}, which has {bits} bits",
    hint="shift by 0 or more, and by less than the number of bits; a cast makes the operand wider",
)
E255 = code(
    "E255", "random numbers before rng_init", "T.rng_rand was called before T.rng_init in this block",
    hint="call T.rng_init(seed) at the start of the block",
)
E256 = code(
    "E256", "unknown random distribution", "T.rng_rand_float has no bit={bit}, dist={dist}",
    hint='bit is 32 or 64, dist "uniform" or "normal"',
)
E257 = code("E257", "unknown reduction", "{given} is not a reduction{suggestion}", hint="one of: {known}")
E258 = code(
    "E258", "wrong operand", "{operation} needs {wanted}, not {given}",
    hint="the operation's docstring lists what it takes: help(T.name)", also=TypeError,
)
E259 = code("E259", "call does not fit the operation", "{operation} {reason}", hint="its arguments are: {signature}", also=TypeError)
E290 = code(
    "E290", "reducer not defined for the type", "a {op} reducer needs {wanted}, not {dtype}",
    hint="give the reducer another element type and cast what updates it", also=AssertionError,
)
E291 = code(
    "E291", "batch does not divide the results", "{operation}: batch={batch} does not divide its {count} results",
    hint="batch says how many results may be combined together: leave it out, or give a divisor of their number",
)
E2001 = code(
    "E2001", "schedule that does not fit the loop", "{name} has {entries}, the body has {things}: the schedule is not followed",
    hint="write one entry a statement of the body, or one for each list of statements in group; the result is always the same",
)
