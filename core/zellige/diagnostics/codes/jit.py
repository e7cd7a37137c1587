"""E150 to E169: the styles of jit, and options.

In: nothing. Out: a constant a code.
"""

from __future__ import annotations

from zellige.diagnostics.codes.declaration import code

E150 = code(
    "E150", "argument of jit cannot be a constant", "the argument {name} of {function} is {given}: it cannot identify a compiled kernel",
    hint="pass numbers, strings, dtypes, tuples, lists or dicts of them, or make its type hashable",
)
E151 = code(
    "E151", "out_idx out of range", "out_idx {given} does not name a parameter of {function}, which has {count}",
    hint="out_idx counts the parameters from 0, or from -1 backwards",
)
E168 = code(
    "E168", "output named twice", "out_idx {given} names {name} twice, and a call returns each output once", hint="name each output once",
)
E152 = code(
    "E152", "outputs given twice", "Out index conflict: {function} returns tensors made by T.empty and is also given out_idx",
    hint="use one of the two",
)
E153 = code(
    "E153", "T.const outside the eager style", "T.const needs the tensors of a call: it belongs to functions decorated with @zl.jit",
    hint="use T.dynamic for a size that is known when the kernel is called, or a Python number",
)
E154 = code(
    "E154", "jit function gives no kernel", "{function} returned {given} instead of a kernel",
    hint="return the T.prim_func, or open a T.Kernel block in the function itself",
)
E155 = code(
    "E155", "prim_func called like a function", "{function} is a kernel, not yet compiled",
    hint="kernel = zl.compile({function}); kernel(a, b)",
)
E156 = code(
    "E156", "nothing to compile", "{function} cannot compile {given}", hint="pass a function decorated with @T.prim_func or @zl.jit",
    also=TypeError,
)
E157 = code("E157", "call does not fit the function", "{function}: {message}", hint="its signature is {signature}", also=TypeError)
E158 = code(
    "E158", "output is not a tensor parameter", "out_idx {given} names {name}, which is not a tensor",
    hint="out_idx names tensor parameters that the kernel writes",
)
E159 = code(
    "E159", "wrong option", "{option}: {reason}",
    hint="help(zl.jit) lists the options and what each takes",
)
E160 = code(
    "E160", "shape missing to compile", "{function} cannot be compiled without the shape of {name}",
    hint="pass {name}=T.Tensor(shape, dtype) or a tensor, or annotate the parameter",
)
E161 = code(
    "E161", "pass config without effect", "the pass config {key!r} has no effect: {reason}", hint="remove it, or filter this warning",
)
E162 = code(
    "E162", "autotune without jit", "zl.autotune decorates {given}, and it needs a function decorated with zl.jit",
    hint="write @zl.autotune(...) above @zl.jit",
)
