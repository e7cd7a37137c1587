"""E101 to E149, E163 to E167: the front end: Python syntax and control flow, and rules that only the finished kernel shows.

In: nothing. Out: a constant a code.
"""

from __future__ import annotations

from zellige.diagnostics.codes.declaration import code

E101 = code(
    "E101", "operation outside a kernel", "{operation} was called while no kernel is being traced",
    hint="call it inside a function decorated with @T.prim_func, @T.macro or @zl.jit",
)
E102 = code(
    "E102", "operation outside T.Kernel", "{operation} stands outside a T.Kernel block",
    hint="put the statement inside `with T.Kernel(...) as ...:`",
)
E103 = code(
    "E103", "T.Kernel inside T.Kernel", "a T.Kernel block cannot be nested in another",
    hint="end the first block before the second: several blocks in a function run in order",
)
E104 = code(
    "E104", "run-time value used as a Python truth value",
    "{given} is known only when the kernel runs, and Python needs True or False here",
    hint="use if / while / and / or directly in the kernel or in a @T.macro, or T.if_then_else for a value",
)
E105 = code(
    "E105", "run-time value where a constant is needed", "{given} is known only when the kernel runs, and a constant is needed here",
    hint="use a Python number, a closure variable or T.const for sizes that must be known while compiling; a function of Python that "
    "counts with run-time values must be a @T.macro", also=TypeError,
)
E106 = code(
    "E106", "iteration over a run-time value", "{given} cannot be iterated over",
    hint="loop with range(n), T.serial(n) or T.Parallel(n)",
)
E107 = code(
    "E107", "name is not defined", "the name {name!r} is not defined{suggestion}",
    hint="names come from the kernel, the functions around it, its module and Python's builtins",
)
E108 = code(
    "E108", "name used before it has a value", "{name} is used before it is given a value",
    hint="assign to it first: a name that is assigned anywhere in a function is local to it",
)
E109 = code(
    "E109", "name has no single value here", "{name} {reason}",
    hint="only numbers can change under run-time control: give the name one object before, or use it only inside",
)
E110 = code(
    "E110", "error while the kernel was traced", "{kind}: {message}",
    hint="the line runs while the kernel is compiled, as ordinary Python: correct it there, or move it out of the kernel",
)
E111 = code("E111", "statement has no meaning in a kernel", "{what} cannot stand in a kernel", hint="{instead}")
E112 = code(
    "E112", "run-time jump out of an unrolled loop", "{jump} depends on a run-time value, but its loop is unrolled while compiling",
    hint="loop with range(...) or T.serial(...), or make the condition a constant",
)
E113 = code(
    "E113", "run-time return", "this return depends on a run-time value, and {reason}",
    hint="allocate a variable with T.alloc_var, assign to it under the condition, and return it at the end",
)
E114 = code(
    "E114", "jump out of T.Parallel", "{jump} cannot leave a point of T.Parallel: the points have no order",
    hint="put the rest of the body under an if, or loop with T.serial",
)
E115 = code(
    "E115", "value carried between the points of T.Parallel", "{name} {reason}",
    hint="use T.reduce_sum or a reducer (T.alloc_reducer), or loop with T.serial",
)
E116 = code(
    "E116", "source not available", "the source of {name} cannot be found: {reason}", hint="define the kernel in a file or a notebook cell",
)
E117 = code("E117", "no such attribute", "{owner} has no attribute {name!r}{suggestion}", hint="{instead}")
E118 = code(
    "E118", "assertion failed while compiling", "assertion failed: {message}",
    hint="the condition was known while compiling; for a run-time check use run-time values",
)
E119 = code(
    "E119", "Python object changed under run-time control", "{given} is changed under run-time control, but it exists only while compiling",
    hint="keep run-time values in T.alloc_var, T.alloc_local or a tile, or change the object outside of the run-time loop or if",
)
E120 = code(
    "E120", "raise under run-time control", "{what} depends on a run-time value",
    hint="use T.device_assert(condition, message) for run-time checks",
)
E121 = code(
    "E121", "loop that does not end", "{reason}",
    hint="leave it by a break under a run-time condition, change in its body what its condition reads, or loop with range(...)",
)
E122 = code(
    "E122", "calls nest too deeply", "{what} nest more than {limit} deep",
    hint="a macro that calls itself needs a condition that is known while compiling and ends it",
)
E124 = code(
    "E124", "reference needs a place", "{name} is annotated T.Ref: it takes a T.alloc_var variable or an element such as A[i], not {given}",
    hint="pass a variable made by T.alloc_var, or drop the T.Ref annotation",
)
E125 = code(
    "E125", "parameter without a type", "the parameter {name} has no {what}",
    hint='annotate it: {name}: T.Tensor((M, N), "float16") for a tensor, {name}: T.int32 for a number',
)
E126 = code(
    "E126", "annotation of something else than a parameter", "{name} {reason}",
    hint="T.Tensor annotations in the body describe parameters of the kernel, each once",
)
E127 = code(
    "E127", "kernel returns something else than its outputs", "a kernel returns tensors made by T.empty, not {given}",
    hint="make the output with T.empty((M, N), dtype) before T.Kernel and return it, or drop the return",
)
E128 = code(
    "E128", "parameter of a kind that kernels do not have", "the parameter {name} is {kind}", hint="kernels take ordinary named parameters",
)
E129 = code(
    "E129", "not a function with source", "{decorator} needs a function written with def, not {given}",
    hint="write a plain function with def and decorate that one, next to it",
)
E130 = code(
    "E130", "assignment to an outer name", "{name} belongs to an outer scope and cannot be assigned here",
    hint="return the value, or pass a T.alloc_var variable with T.Ref",
)
E131 = code(
    "E131", "library function of a run-time value",
    "{function} computes while the kernel is compiled, and {given} is known only when it runs",
    hint="use the language's own operation, such as T.exp or T.max of elements, or T.reduce_sum and T.gemm of tiles",
)
E132 = code(
    "E132", "cannot loop over this", "a loop cannot go over {given}",
    hint="loop over range(n), T.serial(n), T.Parallel(n) or a Python sequence",
)
E133 = code(
    "E133", "pattern cannot match a run-time value", "this pattern cannot be matched against {given}",
    hint="run-time values match numbers, |, _ and names; use if / elif otherwise",
)
E134 = code(
    "E134", "conditional choice between things that are no numbers", "a run-time condition cannot choose between {left} and {right}",
    hint="use if / else with the operation in both branches",
)
E135 = code(
    "E135", "expression nests too deeply", "the source nests too deeply to be read", hint="split it with intermediate names or a loop",
)
E136 = code("E136", "wrong unpacking", "{message}", hint="give as many names as there are values")
E137 = code(
    "E137", "print while compiling", "{what} shows a run-time value as it is while compiling, not its number",
    hint="T.print(value) prints when the kernel runs",
)
E138 = code(
    "E138", "break out of T.grid", "break would leave several loops at once",
    hint="write the loops of T.grid one inside the other, and break out of each",
)
E139 = code(
    "E139", "used outside of where it was made", "{detail}",
    hint="it lives to the end of the body that makes it: make it before the loop or condition around both places, in each T.Kernel anew",
)
E140 = code("E140", "number out of range", "{detail}", hint="check the sizes and options that the number is computed from")
E141 = code(
    "E141", "size not known before the launch", "{detail}",
    hint="sizes and grids are made of numbers, scalar parameters, and sizes that stand alone as a dimension of some argument",
)
E142 = code("E142", "hint that does not fit its block", "{detail}", hint="give the hint in the T.Kernel block that makes the tile")
E143 = code("E143", "statements nest too deeply", "{detail}", hint="move the inner part into a loop or condition of its own")
E144 = code(
    "E144", "not allowed inside T.Parallel", "{detail}",
    hint="the body of T.Parallel is the work of one point: move the statement out of it, or loop with T.serial",
)
E145 = code(
    "E145", "some lanes would not take part", "{detail}",
    hint="all lanes must reach it: move it out of the condition, or make the condition the same in every lane",
)
E146 = code(
    "E146", "reducer used out of order", "{detail}",
    hint="the order is: start, update in any order, finalise where it was started, then read",
)
E147 = code(
    "E147", "shapes do not agree once they are numbers", "{detail}",
    hint="compare the extents of both sides; extents of 1 do not count",
)
E148 = code(
    "E148", "element of a fragment chosen by a lane", "{detail}",
    hint="the compiler chooses which lane holds which element: loop over them with T.Parallel, or use a shared tile",
)
E149 = code(
    "E149", "kernel ends the process", "{what} would end the process while the kernel is compiled",
    hint="raise an ordinary exception such as ValueError for a mistake; T.device_assert checks when the kernel runs",
)
E164 = code(
    "E164", "result of what returns nothing", "{operation} returns nothing, and {name} is a tile",
    hint="call it as a statement of its own: operations such as T.copy and T.gemm change the tiles that they are given",
)
E163 = code(
    "E163", "block without with", "a block such as T.Kernel is opened by a with statement, and this one is not",
    hint="write `with T.Kernel(...) as bx:` and put the statements of the block below it, indented",
)
E165 = code(
    "E165", "name that may have no value", "{name} is read here, and only a run-time {control} gives it a value: without it {name} is 0",
    hint="give {name} a value before it, for example {name} = 0; Python would raise UnboundLocalError here",
)
E166 = code(
    "E166", "sign that binds tighter than a comparison",
    "Python computes {operand} first and compares the result with what stands on both sides",
    hint="write parentheses: around each comparison for both to hold, as in `(i < n) {sign} (j < m)`, else around `{operand}`",
)
E167 = code(
    "E167", "run-time jump past what runs at the end",
    "this jump depends on a run-time value, and it leaves out {what} that runs when one leaves",
    hint="turn the condition round and put the rest of the block under it, so that the block has one end",
)
