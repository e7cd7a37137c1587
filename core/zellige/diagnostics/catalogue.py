"""Every code a user can meet, declared once. In: nothing. Out: module constants and :data:`CODES`.

A code's number says its stage and never changes meaning: E1xx syntax, E2xx types and shapes, E3xx planning, E4xx capability,
E5xx toolchain, E6xx launch, E7xx plugins and configuration. Each has a page ``docs/errors/<code>.md`` and a test that triggers it.
"""

from __future__ import annotations

import re
from typing import Final

from zellige.diagnostics.error import Code

CODES: Final[dict[str, Code]] = {}
"""All codes by their id."""

_ID: Final = re.compile(r"E[1-7]\d\d")


def _code(id: str, title: str, template: str, *, hint: str = "") -> Code:
    """Declare a code. ``template`` and ``hint`` are ``str.format`` patterns that share the fields given at the raise.

    Raises ValueError for an id out of the numbering or declared twice.
    """
    if not _ID.fullmatch(id):
        raise ValueError(f"{id!r} is not a code: E and three digits, the first of them 1 to 7")
    if id in CODES:
        raise ValueError(f"{id} is declared twice: as {CODES[id].title!r} and as {title!r}")
    CODES[id] = Code(id, title, template, hint)
    return CODES[id]


# ---- E101-E149: the front end, Python syntax and control flow ------------------------------------------------------------------------
E101 = _code(
    "E101", "operation outside a kernel", "{operation} was called while no kernel is being traced",
    hint="call it inside a function decorated with @T.prim_func, @T.macro or @zl.jit",
)
E102 = _code(
    "E102", "operation outside T.Kernel", "{operation} stands outside a T.Kernel block",
    hint="put the statement inside `with T.Kernel(...) as ...:`",
)
E103 = _code(
    "E103", "T.Kernel inside T.Kernel", "a T.Kernel block cannot be nested in another",
    hint="end the first block before the second: several blocks in a function run in order",
)
E104 = _code(
    "E104", "run-time value used as a Python truth value",
    "{given} is known only when the kernel runs, and Python needs True or False here",
    hint="use if / while / and / or directly in the kernel or in a @T.macro, or T.if_then_else for a value",
)
E105 = _code(
    "E105", "run-time value where a constant is needed", "{given} is known only when the kernel runs, and a constant is needed here",
    hint="use a Python number, a closure variable or T.const for sizes that must be known while compiling",
)
E106 = _code(
    "E106", "iteration over a run-time value", "{given} cannot be iterated over",
    hint="loop with range(n), T.serial(n) or T.Parallel(n)",
)
E107 = _code(
    "E107", "name is not defined", "the name {name!r} is not defined{suggestion}",
    hint="names come from the kernel, the functions around it, its module and Python's builtins",
)
E108 = _code(
    "E108", "name used before it has a value", "{name} is used before it is given a value",
    hint="assign to it first: a name that is assigned anywhere in a function is local to it",
)
E109 = _code(
    "E109", "name has no single value here", "{name} {reason}",
    hint="only numbers can change under run-time control: give the name one object before, or use it only inside",
)
E110 = _code(
    "E110", "error while the kernel was traced", "{kind}: {message}",
    hint="the line runs while the kernel is compiled, as ordinary Python: correct it there, or move it out of the kernel",
)
E111 = _code("E111", "statement has no meaning in a kernel", "{what} cannot stand in a kernel", hint="{instead}")
E112 = _code(
    "E112", "run-time jump out of an unrolled loop", "{jump} depends on a run-time value, but its loop is unrolled while compiling",
    hint="loop with range(...) or T.serial(...), or make the condition a constant",
)
E113 = _code(
    "E113", "run-time return", "this return depends on a run-time value, and {reason}",
    hint="allocate a variable with T.alloc_var, assign to it under the condition, and return it at the end",
)
E114 = _code(
    "E114", "jump out of T.Parallel", "{jump} cannot leave a point of T.Parallel: the points have no order",
    hint="put the rest of the body under an if, or loop with T.serial",
)
E115 = _code(
    "E115", "value carried between the points of T.Parallel", "{name} {reason}",
    hint="use T.reduce_sum or a reducer (T.alloc_reducer), or loop with T.serial",
)
E116 = _code(
    "E116", "source not available", "the source of {name} cannot be found: {reason}", hint="define the kernel in a file or a notebook cell",
)
E117 = _code("E117", "no such attribute", "{owner} has no attribute {name!r}{suggestion}", hint="{instead}")
E118 = _code(
    "E118", "assertion failed while compiling", "assertion failed: {message}",
    hint="the condition was known while compiling; for a run-time check use run-time values",
)
E119 = _code(
    "E119", "Python object changed under run-time control", "{given} is changed under run-time control, but it exists only while compiling",
    hint="keep run-time values in T.alloc_var, T.alloc_local or a tile, or change the object outside of the run-time loop or if",
)
E120 = _code(
    "E120", "raise under run-time control", "raise depends on a run-time value",
    hint="use T.device_assert(condition, message) for run-time checks",
)
E121 = _code(
    "E121", "loop does not end while compiling",
    "the condition of this loop is known while compiling and still holds after {count} iterations",
    hint="loop with range(...), or make the condition a run-time value with T.alloc_var",
)
E122 = _code(
    "E122", "calls nest too deeply", "{what} nest more than {limit} deep",
    hint="a macro that calls itself needs a condition that is known while compiling and ends it",
)
E123 = _code(
    "E123", "else of a run-time loop with break", "the else of a run-time loop with break has no meaning here",
    hint="keep a bool T.alloc_var that the loop sets before break, and test it after the loop",
)
E124 = _code(
    "E124", "reference needs a place", "{name} is annotated T.Ref: it takes a T.alloc_var variable or an element such as A[i], not {given}",
    hint="pass a variable made by T.alloc_var, or drop the T.Ref annotation",
)
E125 = _code(
    "E125", "parameter without a type", "the parameter {name} has no {what}",
    hint='annotate it: {name}: T.Tensor((M, N), "float16") for a tensor, {name}: T.int32 for a number',
)
E126 = _code(
    "E126", "annotation of something else than a parameter", "{name} {reason}",
    hint="T.Tensor annotations in the body describe parameters of the kernel, each once",
)
E127 = _code(
    "E127", "kernel returns something else than its outputs", "a kernel returns tensors made by T.empty, not {given}",
    hint="make the output with T.empty((M, N), dtype) before T.Kernel and return it, or drop the return",
)
E128 = _code(
    "E128", "parameter of a kind that kernels do not have", "the parameter {name} is {kind}", hint="kernels take ordinary named parameters",
)
E129 = _code(
    "E129", "not a function with source", "{decorator} needs a function written with def, not {given}",
    hint="write a plain function with def and decorate that one, next to it",
)
E130 = _code(
    "E130", "assignment to an outer name", "{name} belongs to an outer scope and cannot be assigned here",
    hint="return the value, or pass a T.alloc_var variable with T.Ref",
)
E131 = _code(
    "E131", "library function of a run-time value",
    "{function} computes while the kernel is compiled, and {given} is known only when it runs",
    hint="use the language's own operation, such as T.exp or T.max of elements, or T.reduce_sum and T.gemm of tiles",
)
E132 = _code(
    "E132", "cannot loop over this", "a loop cannot go over {given}",
    hint="loop over range(n), T.serial(n), T.Parallel(n) or a Python sequence",
)
E133 = _code(
    "E133", "pattern cannot match a run-time value", "this pattern cannot be matched against {given}",
    hint="run-time values match numbers, |, _ and names; use if / elif otherwise",
)
E134 = _code(
    "E134", "conditional choice between things that are no numbers", "a run-time condition cannot choose between {left} and {right}",
    hint="use if / else with the operation in both branches",
)
E135 = _code(
    "E135", "expression nests too deeply", "the source nests too deeply to be read", hint="split it with intermediate names or a loop",
)
E137 = _code(
    "E137", "print while compiling", "print shows a run-time value as it is while compiling, not its number",
    hint="T.print(value) prints when the kernel runs",
)
E138 = _code(
    "E138", "break out of T.grid", "break would leave several loops at once",
    hint="write the loops of T.grid one inside the other, and break out of each",
)
E139 = _code(
    "E139", "used outside of where it was made", "{detail}",
    hint="it lives to the end of the body that makes it: make it before the loop or condition around both places, in each T.Kernel anew",
)
E140 = _code("E140", "number out of range", "{detail}", hint="check the sizes and options that the number is computed from")
E141 = _code(
    "E141", "size not known before the launch", "{detail}",
    hint="sizes and grids are made of numbers, scalar parameters, and sizes that stand alone as a dimension of some argument",
)
E142 = _code("E142", "hint that does not fit its block", "{detail}", hint="give the hint in the T.Kernel block that makes the tile")
E143 = _code("E143", "statements nest too deeply", "{detail}", hint="move the inner part into a loop or condition of its own")
E144 = _code(
    "E144", "not allowed inside T.Parallel", "{detail}",
    hint="the body of T.Parallel is the work of one point: move the statement out of it, or loop with T.serial",
)
E145 = _code(
    "E145", "some lanes would not take part", "{detail}",
    hint="all lanes must reach it: move it out of the condition, or make the condition the same in every lane",
)
E146 = _code(
    "E146", "reducer used out of order", "{detail}",
    hint="the order is: start, update in any order, finalise where it was started, then read",
)
E148 = _code(
    "E148", "element of a fragment chosen by a lane", "{detail}",
    hint="the compiler chooses which lane holds which element: loop over them with T.Parallel, or use a shared tile",
)
E147 = _code(
    "E147", "shapes do not agree once they are numbers", "{detail}",
    hint="compare the extents of both sides; extents of 1 do not count",
)
E136 = _code("E136", "wrong unpacking", "{message}", hint="give as many names as there are values")


# ---- E150-E169: the styles of jit ----------------------------------------------------------------------------------------------------
E149 = _code(
    "E149", "kernel ends the process", "{what} would end the process while the kernel is compiled",
    hint="raise an ordinary exception such as ValueError for a mistake; T.device_assert checks when the kernel runs",
)
E150 = _code(
    "E150", "argument of jit cannot be a constant", "the argument {name} of {function} is {given}: it cannot identify a compiled kernel",
    hint="pass numbers, strings, dtypes, tuples, lists or dicts of them, or make its type hashable",
)
E151 = _code(
    "E151", "out_idx out of range", "out_idx {given} does not name a parameter of {function}, which has {count}",
    hint="out_idx counts the parameters from 0, or from -1 backwards",
)
E152 = _code(
    "E152", "outputs given twice", "{function} returns tensors made by T.empty and is also given out_idx", hint="use one of the two",
)
E153 = _code(
    "E153", "T.const outside the eager style", "T.const needs the tensors of a call: it belongs to functions decorated with @zl.jit",
    hint="use T.dynamic for a size that is known when the kernel is called, or a Python number",
)
E154 = _code(
    "E154", "jit function gives no kernel", "{function} returned {given} instead of a kernel",
    hint="return the T.prim_func, or open a T.Kernel block in the function itself",
)
E155 = _code(
    "E155", "prim_func called like a function", "{function} is a kernel, not yet compiled",
    hint="kernel = zl.compile({function}); kernel(a, b)",
)
E156 = _code(
    "E156", "nothing to compile", "{function} cannot compile {given}", hint="pass a function decorated with @T.prim_func or @zl.jit",
)
E157 = _code("E157", "call does not fit the function", "{function}: {message}", hint="its signature is {signature}")
E158 = _code(
    "E158", "output is not a tensor parameter", "out_idx {given} names {name}, which is not a tensor",
    hint="out_idx names tensor parameters that the kernel writes",
)
E159 = _code(
    "E159", "wrong option", "{option}: {reason}",
    hint="help(zl.jit) lists the options and what each takes",
)
E161 = _code(
    "E161", "pass config without effect", "the pass config {key!r} has no effect: {reason}", hint="remove it, or filter this warning",
)
E162 = _code(
    "E162", "autotune without jit", "zl.autotune decorates {given}, and it needs a function decorated with zl.jit",
    hint="write @zl.autotune(...) above @zl.jit",
)
E160 = _code(
    "E160", "shape missing to compile", "{function} cannot be compiled without the shape of {name}",
    hint="pass {name}=T.Tensor(shape, dtype) or a tensor, or annotate the parameter",
)


# ---- E201-E259: language operations, types and shapes --------------------------------------------------------------------------------
E201 = _code("E201", "integer literal too large", "{value} does not fit in 64 bits", hint="use a floating-point literal")
E202 = _code(
    "E202", "not a number", "a number is needed here, not {given}",
    hint="pass a Python number, a scalar or one element of a tile such as A[i, j]",
)
E203 = _code("E203", "operands do not fit each other", "{left} and {right} cannot be combined", hint="cast one of them first")
E204 = _code(
    "E204", "operation not defined for the type", "{operation} is not defined for {dtype}",
    hint="cast the operand first, or reinterpret its bits",
)
E205 = _code(
    "E205", "index is not an integer", "an integer is needed as index or size, not {given}",
    hint="use // for integer division, or T.cast(x, 'int32')",
)
E206 = _code(
    "E206", "variable changes its type", "{name} is {old} and cannot become {new} in the middle of the kernel",
    hint="cast the value ({old}(...)), or use another name",
)
E207 = _code(
    "E207", "index into a variable", "{name} is a single variable: its only index is 0", hint="use T.alloc_local((n,), dtype) for an array",
)
E208 = _code(
    "E208", "too many indices", "{name} has {rank} dimensions but {given} indices are given",
    hint="one index a dimension; dimensions without an index are taken whole",
)
E209 = _code(
    "E209", "slice with a step", "a slice of {name} has a step", hint="take a contiguous slice, or read the elements in T.Parallel",
)
E210 = _code(
    "E210", "reducer used as a tile", "{name} is a {op} reducer: until T.finalize_reducer it takes only updates of its own operation",
    hint="accumulate with {form}, and read the result after T.finalize_reducer",
)
E211 = _code("E211", "loop step is zero", "the step of a loop is 0", hint="give a positive or negative step")
E212 = _code(
    "E212", "wrong schedule of a pipelined loop", "{what} cannot be {given}",
    hint="num_stages of 0 or 1 means no overlap; order and stage have one entry a statement; the result is always the same",
)
E213 = _code("E213", "loop without extents", "{loop} needs at least one extent", hint="for i, j in {loop}(M, N):")
E214 = _code(
    "E214", "grid of a wrong rank", "T.Kernel takes at most three grid extents, not {given}",
    hint="combine extents and split the index with // and %",
)
E215 = _code(
    "E215", "negative grid extent", "a grid extent is {given}", hint="an extent of 0 launches nothing; negative extents mean nothing",
)
E216 = _code(
    "E216", "wrong number of threads", "threads must be one to three positive numbers, not {given}",
    hint="threads=128, or up to three numbers: threads=(32, 4)",
)
E217 = _code("E217", "unknown element type", "{given} is not an element type", hint='for example "float16", T.bfloat16, torch.float32')
E218 = _code(
    "E218", "wrong tensor annotation", "{reason}", hint='T.Tensor((M, N), "float16"), or T.StridedTensor((M, N), (stride, 1), "float16")',
)
E219 = _code("E219", "size name is not an identifier", "{given} does not name sizes", hint='T.dynamic("m") or T.dynamic("m, n")')
E220 = _code(
    "E220", "extent of a buffer is not positive", "an extent of the buffer is {given}",
    hint="every dimension of an on-chip buffer has at least one element",
)
E221 = _code("E221", "variable initialised twice", "T.alloc_var is given two initial values", hint="T.alloc_var(dtype, init=value)")
E222 = _code(
    "E222", "not a tile", "{operation} needs a tile, a slice or an element such as A[i, j], not {given}",
    hint="pass a tensor or buffer, a slice of it, or an element as a start point",
)
E223 = _code(
    "E223", "shapes do not match", "{operation}: {left} does not match {right} (dimensions of size 1 are ignored)",
    hint="slice one side to the other's shape, or give a start point such as A[i, j]",
)
E224 = _code(
    "E224", "shapes do not fit a transposition", "T.transpose exchanges the last two dimensions: {left} does not fit {right}",
    hint="the destination of (M, N) is (N, M); dimensions before these two agree",
)
E225 = _code(
    "E225", "operand is not a matrix", "{operation} needs matrices, not shape {given}",
    hint="slice all leading dimensions to one index: A[b, 0:M, 0:K]",
)
E226 = _code(
    "E226", "product sizes do not match", "{name} is {left} on one side and {right} on the other: A is {a}, B is {b}, C is {c}",
    hint="check transpose_A / transpose_B: A is (M, K), B is (K, N), C is (M, N)",
)
E227 = _code("E227", "unknown gemm policy", "{given} is not a GemmWarpPolicy", hint="T.GemmWarpPolicy.Square, FullRow or FullCol")
E228 = _code(
    "E228", "dimension out of range", "{operation}: dim is {given}, the tile has {rank} dimensions",
    hint="dim counts from 0, or from -1 backwards",
)
E229 = _code(
    "E229", "output of a reduction has a wrong shape", "{operation}: {src} without dimension {axis} does not fit the output {dst}",
    hint="the output has the input's shape without the reduced dimension, or with 1 there",
)
E230 = _code(
    "E230", "function not defined for the type", "{function} takes integers, not {dtype}", hint="cast or reinterpret the operand first",
)
E231 = _code("E231", "division by zero", "a constant division by zero", hint="check where the divisor comes from")
E232 = _code("E232", "type without infinity", "{dtype} has no infinity", hint="T.max_value(dtype) is its largest finite value")
E252 = _code(
    "E252", "augmented assignment of a slice", "a slice of {name} cannot be changed by an augmented assignment",
    hint="loop over its elements with T.Parallel, or use T.copy and T.fill",
)
E253 = _code(
    "E253", "T.empty inside T.Kernel", "T.empty makes a tensor of the whole call and stands before T.Kernel",
    hint="use T.alloc_shared, T.alloc_fragment or T.alloc_global inside the block",
)
E250 = _code(
    "E250", "constant size is not solved",
    (
        "no argument gives the size {name}: T.const sizes are solved from places where the size stands alone "
        "in a shape, such as ({name},), not {name} * 2"
    ),
    hint="use it alone in the shape of a parameter, or pass {name}=... as a keyword",
)
E251 = _code(
    "E251", "size of an output is not known", "the shape of the output {name} needs {size}, which no argument gives",
    hint="every size of an output follows from the inputs: use sizes that stand in an input's shape, or scalar parameters",
)
E233 = _code("E233", "unknown reducer operation", "{given} is not the operation of a reducer", hint="one of: {known}")
E234 = _code(
    "E234", "reducer used out of order", "{operation}: {given} {reason}",
    hint=(
        "T.reducer_init once, T.reducer_update in T.Parallel, T.finalize_reducer once; or T.clear, r[i] += "
        "x, T.finalize_reducer in older code"
    ),
)
E235 = _code(
    "E235", "start value of another type", "the start value of the reducer {name} is {given}, the reducer is {dtype}",
    hint="cast the start value: {dtype}(...)",
)
E236 = _code(
    "E236", "view of another size", "{old} has {before} bits and cannot be viewed as {new} of {after} bits",
    hint="a view keeps the number of bits",
)
E237 = _code(
    "E237", "view of strided storage", "{name} has declared strides and cannot be viewed under another shape or dtype",
    hint="copy it to a tile first",
)
E238 = _code("E238", "unknown memory order", "{given} is not a memory order", hint="one of: {known}")
E239 = _code(
    "E239", "value of a tile operation is neither tile nor number",
    "{operation} on a tile needs a tile, a slice or a number as value, not {given}",
    hint="give a tile of the same shape, or one number for all elements",
)
E240 = _code(
    "E240", "previous value of a tile", "{operation} gives the previous value of single elements only",
    hint="call it on one element in T.Parallel",
)
E241 = _code("E241", "dimension does not exist", "{what} {given} does not exist: there are {count}", hint="they are counted from 0")
E242 = _code(
    "E242", "named barrier", "barriers with an id or an arrival count belong to a device's dialect",
    hint="T.sync_threads() without arguments waits for the whole block",
)
E243 = _code(
    "E243", "wrong group of lanes", "a group of {given} lanes does not exist", hint="a power of two up to the warp: 2, 4, 8, 16, 32",
)
E244 = _code("E244", "unknown launch order", "{given} is not an order of T.use_swizzle", hint='"row" or "column"')
E245 = _code(
    "E245", "count is not positive", "a positive Python int is needed here, not {given}",
    hint="give a number such as 1, known while compiling",
)
E246 = _code(
    "E246", "not a layout", "T.annotate_layout takes T.Layout, T.Fragment, make_swizzled_layout(...) or a function, not {given}",
    hint="T.annotate_layout({{tile: T.Layout(tile.shape, lambda i, j: ...)}})",
)
E247 = _code(
    "E247", "layout does not fit", "the layout for {name} {reason}",
    hint="a layout has the tile's shape and gives each element a place of its own",
)
E248 = _code(
    "E248", "wrong rounding", "{reason}",
    hint='casts: "rn", "rz", "rm", "rp"; IEEE operations: "rn", "rz", "ru", "rd"; T.round: "ties-to-even", "ties-away-from-zero"',
)
E249 = _code(
    "E249", "reinterpretation of another width", "the bits of {old} cannot be {new}: the widths differ",
    hint="T.cast converts the value; T.view changes the dtype of a tile",
)
E254 = _code(
    "E254", "number does not fit the type", "{value} is not a value of {dtype}, whose values go from {least} to {greatest}",
    hint="use another dtype, or cast a run-time value where wrapping is meant",
)
E258 = _code(
    "E258", "wrong operand", "{operation} needs {wanted}, not {given}",
    hint="the operation's docstring lists what it takes: help(T.name)",
)
E255 = _code(
    "E255", "random numbers before rng_init", "T.rng_rand was called before T.rng_init in this block",
    hint="call T.rng_init(seed) at the start of the block",
)
E256 = _code(
    "E256", "unknown random distribution", "T.rng_rand_float has no bit={bit}, dist={dist}",
    hint='bit is 32 or 64, dist "uniform" or "normal"',
)
E257 = _code("E257", "unknown reduction", "{given} is not a reduction", hint="one of: {known}")
E259 = _code("E259", "call does not fit the operation", "{operation} {reason}", hint="its arguments are: {signature}")


# ---- E260-E279: the verifier of the tile IR ------------------------------------------------------------------------------------------
# The verifier of zellige.ir numbers its invariants; every message names the one that is broken.
E260 = _code("E260", "tile IR text cannot be read", "{reason}", hint="docs/tile-ir.md has the grammar")
E261 = _code(
    "E261", "tile IR text of another version", "{reason}",
    hint="this zellige reads tile-ir {major}.0 to {major}.{minor}; print the kernel again with it",
)
E262 = _code(
    "E262", "name used outside its scope", "{detail} (invariant {invariant})", hint="a name lives to the end of the body that declares it",
)
E263 = _code(
    "E263", "declared twice", "{detail} (invariant {invariant})",
    hint="give each name one declaration; a copy of a statement needs names of its own",
)
E264 = _code("E264", "element types disagree", "{detail} (invariant {invariant})", hint="cast one side")
E265 = _code("E265", "condition is not a bool", "{detail} (invariant {invariant})", hint="compare with something, as in x != 0")
E266 = _code(
    "E266", "wrong number of indices", "{detail} (invariant {invariant})",
    hint="give one index for each dimension of the buffer",
)
E267 = _code(
    "E267", "shapes of a tile operation disagree", "{detail} (invariant {invariant})",
    hint="compare the extents of the regions; extents of 1 do not count",
)
E268 = _code("E268", "operation not defined for the element type", "{detail} (invariant {invariant})", hint="cast the operand first")
E269 = _code(
    "E269", "no such axis", "{detail} (invariant {invariant})",
    hint="axes count from 0 to the number of dimensions less one",
)
E270 = _code(
    "E270", "control flow out of place", "{detail} (invariant {invariant})",
    hint="break and continue belong into a loop of the same body; nested bodies can be joined",
)
E271 = _code(
    "E271", "variable of the wrong kind", "{detail} (invariant {invariant})",
    hint="docs/tile-ir.md says which kind of variable each place declares and takes",
)
E272 = _code(
    "E272", "not allowed inside T.Parallel", "{detail} (invariant {invariant})",
    hint="the body of T.Parallel is scalar code of one point: move the statement out of it",
)
E273 = _code(
    "E273", "lanes used in a launch without lanes", "{detail} (invariant {invariant})",
    hint="give the launch lane variables, or leave the statement out",
)
E274 = _code(
    "E274", "collective operation in lane-dependent code", "{detail} (invariant {invariant})",
    hint="all lanes must reach it: move it out of the condition, or make the condition the same in every lane",
)
E275 = _code(
    "E275", "reducer used out of order", "{detail} (invariant {invariant})",
    hint="the order is: initialise, update in any order, finalise in the body that initialised, then read",
)
E276 = _code(
    "E276", "signature of a kernel is wrong", "{detail} (invariant {invariant})",
    hint="every size follows from an argument, every output is returned, every hint names what the launch has",
)
E277 = _code(
    "E277", "view does not fit its buffer", "{detail} (invariant {invariant})",
    hint="a view keeps the number of stored bits and the space of what it views",
)
E278 = _code(
    "E278", "number out of range", "{detail} (invariant {invariant})",
    hint="docs/tile-ir.md gives the range of every number",
)
E279 = _code(
    "E279", "unknown word in the tile IR", "{detail} (invariant {invariant})",
    hint="docs/tile-ir.md lists the words of every field",
)


# ---- E280-E299: mistakes seen in published kernels -----------------------------------------------------------------------------------
E280 = _code(
    "E280", "output that is only read", "{name} is an output but the kernel {does}",
    hint="out_idx names the tensors that the kernel writes; check its numbers",
)
E281 = _code(
    "E281", "elements of an output that no block writes", "the blocks of the grid write {written} of {name}, whose shape is {shape}",
    hint="check the grid: one block for each tile, T.ceildiv({size}, {tile}) along dimension {axis}",
)
E282 = _code(
    "E282", "accumulator not cleared", "T.gemm adds to {name} in every iteration, and each iteration uses the sum",
    hint="T.clear({name}) before the product, or clear_accum=True",
)
E283 = _code(
    "E283", "exponential narrowed to 16 bits", "the result of exp is rounded to {dtype} in {name} and then used for more than a product",
    hint="keep {name} in float32 and copy it to a {dtype} tile for the product",
)
E284 = _code(
    "E284", "output whose shape nothing gives", "{name} is an output, but nothing says its shape and element type",
    hint="annotate it: {name}: T.Tensor((M, N), dtype), or pass the tensor",
)
E285 = _code(
    "E285", "access always out of bounds", "{name} is accessed outside along dimension {axis}: {place}, where its places are {size}",
    hint=(
        "reads there give the safe value and writes are dropped; only a negative constant such as {name}[-1] counts from the end, an "
        "index known at run time does not"
    ),
)
E296 = _code(
    "E296", "two points touch one element", "{element} is touched by {what} ({times})",
    hint="give each point an element of its own, or use an atomic or a reducer",
)
E297 = _code("E297", "undefined element is read", "{what} ({times})", hint="write it first, for example with T.clear or T.fill")
E298 = _code(
    "E298", "access out of bounds", "{where} lies outside of {shape} ({times})",
    hint="reads there give the safe value and writes are dropped; test the index first where that is not meant",
)
E299 = _code(
    "E299", "output is not written", "{element} is not written by any block, nor are in all {count} elements of the output {buffer}",
    hint="check that the grid covers the whole output",
)


# ---- E301-E349: planning -------------------------------------------------------------------------------------------------------------

E301 = _code(
    "E301", "tiles do not fit into the memory of a block",
    "{space} holds {limit} bytes a block, and the tiles need {needed}: {tiles}", hint="{fits}",
)
E302 = _code(
    "E302", "too many lanes for a block", "the kernel asks for {threads} threads a block, the target {target} has at most {limit}",
    hint="use fewer threads; without thread queries the number is only a hint",
)

E320 = _code(
    "E320", "wrong dimensions of a layout", "{operation} does not fit: {reason}",
    hint="the dimensions of a layout have names and sizes; those of two layouts that meet must agree",
)
E321 = _code(
    "E321", "no layout expresses this", "{operation} is no layout: {reason}",
    hint="put odd factors outermost and exchange bits only below them",
)
E322 = _code(
    "E322", "layout without inverse", "the layout has no inverse: {reason}",
    hint="an inverse needs every output point to be reached, and once; right_inverse allows copies",
)
E323 = _code(
    "E323", "layout does not consist of such tiles", "the layout cannot be divided by the tile: {reason}",
    hint="an instruction whose tile divides the layout fits without moving data; else convert the layout first",
)
E324 = _code(
    "E324", "no such swizzle", "the rows cannot be swizzled so: {reason}",
    hint="use a narrower span, pad the tile, or take a layout in panels",
)
E325 = _code(
    "E325", "no memory layout without conflicts", "no storage serves these accesses: {reason}",
    hint="use padding, a narrower vector, or let the compiler choose the conversion",
)
E330 = _code("E330", "no such intrinsic", "there is no intrinsic {name}", hint="known are: {known}")
E331 = _code(
    "E331", "intrinsic that contradicts itself", "the specification of {name} is wrong: {reason}",
    hint="compare the entry with the manual that it names; docs/add-an-intrinsic.md says what is checked",
)
E332 = _code(
    "E332", "use that the hardware leaves undefined", "{mechanism} is used wrongly: {reason}",
    hint="the order of the operations is wrong where they were generated; look at the plan's channels and tokens",
)

# ---- E401-E449: capabilities and refused names ---------------------------------------------------------------------------------------

E401 = _code(
    "E401", "name of another target", "T.{name} belongs to the targets {targets}",
    hint="compile for a target that has it, or use the neutral operations (T.copy, T.gemm, T.Pipelined)",
)
E402 = _code("E402", "not available yet", "{name} is not available yet", hint="{hint}")

E410 = _code(
    "E410", "operation unknown to the target", "the target {target} has no meaning for {operation}",
    hint="choose the target that it belongs to",
)
E411 = _code(
    "E411", "allocation of a size not known while compiling", "{name} is allocated with a size that is known only at run time",
    hint="give the allocation constant extents, or pass the memory as an argument",
)
E412 = _code(
    "E412", "number of lanes not known while compiling",
    "the target {target} needs a constant number of threads in a kernel that asks for them", hint="use a Python number for threads",
)
E440 = _code(
    "E440",
    "target does not report this",
    "the target {target} does not report {what}",
    hint="{known}",
)
E445 = _code(
    "E445", "operation unknown to the interpreter", "the interpreter has no meaning for {operation}",
    hint="choose the target that it belongs to",
)
E446 = _code(
    "E446", "lanes of a warp are fewer", "{operation} works on groups of {width} lanes, a warp of the target {target} has {lanes}",
    hint="use groups of at most that many lanes, or exchange through a shared tile",
)
E447 = _code(
    "E447", "scope is too wide", "{operation} over the {scope} is not available on the target {target}",
    hint="wait for a narrower scope, or end the T.Kernel block there: blocks of a call run one after the other",
)


# ---- E501-E549: toolchain ------------------------------------------------------------------------------------------------------------


# ---- E601-E649: launch and argument checks -------------------------------------------------------------------------------------------

E601 = _code(
    "E601",
    "wrong number of arguments",
    "{kernel} takes {expected}, got {given}",
    hint="it is called as {call}",
)
E602 = _code(
    "E602",
    "keyword argument does not fit",
    "{kernel} {reason}",
    hint="it is called as {call}",
)
E603 = _code(
    "E603",
    "argument is no tensor",
    "argument {name}: expected a tensor {expected}, got {given}",
    hint="pass a NumPy array, a torch tensor or an array with __dlpack__",
)
E604 = _code(
    "E604",
    "wrong number of dimensions",
    "argument {name}: expected {expected} with {rank} dimensions, got {given} with {given_rank}",
    hint="reshape it, for example with reshape or [None], or declare the parameter with the dimensions that it has",
)
E605 = _code(
    "E605",
    "wrong size",
    "argument {name}: expected {expected}, got {given}: dimension {axis} is {actual}, not {wanted}",
    hint="pass a tensor of the declared size, or declare the size with T.dynamic to take any",
)
E606 = _code(
    "E606",
    "sizes disagree",
    "{size} is {first} by {first_place}, but {second} by {second_place}",
    hint="one name stands for one size in all arguments of a call",
)
E607 = _code(
    "E607",
    "wrong element type",
    "argument {name}: expected {expected}, got {given}",
    hint="convert it, for example with astype or to, or declare the parameter with the type that it has",
)
E608 = _code(
    "E608",
    "tensor on the wrong device",
    "argument {name}: expected a tensor on {expected} for the target {target}, got one on {given}",
    hint="move the tensor, or compile for the target of its device",
)
E609 = _code(
    "E609",
    "wrong strides",
    "argument {name}: expected {expected} with strides {wanted} in elements, got strides {actual}",
    hint="pass a contiguous copy, or declare a T.StridedTensor",
)
E610 = _code(
    "E610",
    "tensor is not aligned",
    "argument {name}: expected an address that is a multiple of {alignment} bytes, the size of {dtype}, got {address:#x}",
    hint="pass a copy",
)
E611 = _code(
    "E611",
    "output is read-only",
    "argument {name}: {kernel} writes it, but the memory given is read-only",
    hint="pass a writable copy",
)
E612 = _code(
    "E612",
    "argument is no such number",
    "argument {name}: expected a number of type {dtype}, got {given}",
    hint="pass a Python number; a bool counts as 0 or 1, a float with a fraction is no integer",
)
E613 = _code(
    "E613",
    "number does not fit",
    "{name}: expected a value that {dtype} holds ({least} to {greatest}), got {value}",
    hint="pass a smaller number, or declare the parameter with a wider type",
)
E614 = _code(
    "E614",
    "size follows from no argument",
    "the size {size} of {name} follows from no argument of {kernel}",
    hint="a size is solved where it stands alone as a dimension of a tensor that the caller passes, or is a scalar parameter",
)
E615 = _code(
    "E615",
    "size is negative",
    "dimension {axis} of {name}, {expression}, is {value}",
    hint="check the sizes of the call, or write the shape so that it cannot be negative, as in T.max(n - 8, 0)",
)
E616 = _code(
    "E616",
    "memory cannot be handed to a kernel",
    "argument {name}: {reason}",
    hint="pass an ordinary dense array, for example a copy with np.array(x) or x.contiguous()",
)
E617 = _code(
    "E617",
    "result cannot be made",
    "the result {name} ({expected}) cannot be made: {reason}",
    hint="give it as an argument instead",
)
E619 = _code(
    "E619",
    "not enough memory",
    "{name} ({expected}) needs {needed:,} bytes, and they cannot be had",
    hint="{advice}",
)
E618 = _code(
    "E618",
    "tensor that the kernel uses is missing",
    "argument {name}: expected {expected}, got None, and {kernel} uses it",
    hint="None stands only for a tensor that the kernel neither reads nor writes",
)
E630 = _code(
    "E630",
    "unknown way to time",
    "there is no timer {name!r} for the target {target}",
    hint="{known}",
)
E631 = _code(
    "E631",
    "size has no value to benchmark with",
    "the size {size} of {name} has no value; sizes given: {given}",
    hint="pass dynamic_symbolic_constraints={{{size!r}: ...}} or input_tensors=[...]",
)
E632 = _code(
    "E632",
    "tuning needs the value of a number",
    "{kernel} takes the number {name}, and tuning cannot make one up",
    hint="give the arguments: `with set_autotune_inputs(...):` around the call, in the kernel's order",
)
E633 = _code(
    "E633",
    "nothing to tune",
    "there is no configuration of {function} to try{reason}",
    hint="give configs=[{{'name': value}}, ...] with names of its arguments",
)
E634 = _code(
    "E634",
    "no configuration works",
    "none of the {count} configurations of {function} gives a time",
    hint="run one configuration by itself to see its error in full",
)
E635 = _code(
    "E635",
    "configuration sets what is no argument",
    "unused keys in the configuration {config}: {function} has no argument {keys}",
    hint="its arguments are {known}; 'pass_configs' is the one key beside them",
)
E620 = _code(
    "E620", "assertion failed", "assertion failed{message}",
    hint="the condition is the kernel's own: see the place above, and the values that the call was given",
)
E640 = _code(
    "E640", "regions do not match", "the regions of a tile operation are {left} and {right} at run time",
    hint="extents other than 1 must agree",
)
E641 = _code(
    "E641", "value differs between lanes", "{what} differs between the lanes or points that share it",
    hint="give every lane or point the same value, or make the tile local",
)


# ---- E701-E749: plugins, targets and configuration -----------------------------------------------------------------------------------

E701 = _code(
    "E701",
    "backend cannot be loaded",
    "the backend {name!r} ({entry_point}) failed to load: {reason}",
    hint="`zellige backends list --verbose` shows the whole traceback; other backends are not affected",
)
E702 = _code(
    "E702",
    "backend speaks another version of the contract",
    "the backend {name!r} was written for contract {theirs}, this zellige speaks {ours}",
    hint="install a version of the backend that matches, or another zellige",
)
E703 = _code(
    "E703",
    "backend breaks the contract",
    "the backend {name!r} breaks the plugin contract: {reason}",
    hint="zellige.plugin.contract describes every hook and its answer",
)
E704 = _code(
    "E704",
    "two backends claim one target",
    "the target {target!r} is claimed by several backends: {backends}",
    hint="uninstall one of them or use a name that only one of them has",
)
E705 = _code(
    "E705",
    "unknown target",
    "no backend has a target {target!r}",
    hint="known targets: {known}",
)
E706 = _code(
    "E706",
    "target is not available",
    "the target {target!r} is not available: {reason}",
    hint="`zellige backends list` shows what is; `zellige doctor` shows why not",
)
E707 = _code(
    "E707",
    "malformed target",
    "{text!r} is not a target: {reason}",
    hint="write `name`, `name:arch,flag,key=value` or `name -key=value`",
)
E708 = _code(
    "E708",
    "automatic choice of the target is ambiguous",
    "target 'auto' could be any of {candidates}",
    hint="name the target",
)
E709 = _code(
    "E709",
    "hook of a backend failed",
    "the backend {name!r} raised in its hook {hook}: {reason}",
    hint="this is a fault of the backend, not of the kernel; report it to {vendor}",
)
E741 = _code(
    "E741",
    "environment variable has a wrong value",
    "{variable}={value!r}: expected {expected}",
    hint="set it to such a value, or unset it to get the default",
)
E742 = _code(
    "E742",
    "file holds no such kernel",
    "{file} {reason}",
    hint="write FILE or FILE:NAME, where NAME is a prim_func or a compiled kernel at the top level of the file",
)
E743 = _code(
    "E743",
    "unknown stage",
    "there is no stage {stage!r}",
    hint="stages: {stages}",
)
E744 = _code(
    "E744",
    "cache cannot be used",
    "the cache {folder}: {reason}",
    hint="kernels are compiled anew each time; set ZELLIGE_CACHE_DIR to another folder, or ZELLIGE_CACHE=0 to do without",
)
E745 = _code(
    "E745",
    "bundle refused",
    "{file} {reason}",
    hint="nothing was taken from it; `zellige cache export` makes bundles",
)
