"""E401 to E499: capabilities of targets, and names that are refused.

In: nothing. Out: a constant a code.
"""

from __future__ import annotations

from zellige.diagnostics.codes.declaration import code

E401 = code(
    "E401", "name of another target", "T.{name} belongs to the targets {targets}",
    hint="compile for a target that has it, or use the neutral operations (T.copy, T.gemm, T.Pipelined)",
)
E402 = code("E402", "not available yet", "no target has {name} yet", hint="{hint}")
E410 = code(
    "E410", "operation unknown to the target", "the target {target} has no meaning for {operation}",
    hint="choose the target that it belongs to; where it is this target's own, the lowering of its backend lacks it",
)
E411 = code(
    "E411", "allocation of a size not known while compiling", "{name} is allocated with a size that is known only at run time",
    hint="give the allocation constant extents, or pass the memory as an argument",
)
E412 = code(
    "E412", "number of lanes not known while compiling",
    "the target {target} needs a constant number of threads in a kernel that asks for them", hint="use a Python number for threads",
)
E413 = code(
    "E413", "memory space unknown to the target",
    "the target {target} has no memory space {space!r}, which {buffer} is allocated in{suggestion}",
    hint="{known}",
)
E414 = code(
    "E414", "memory space does not hold these elements",
    "the memory space {space} of the target {target}, where {buffer} would live, holds elements of {held}, not of {dtype}",
    hint="{advice}",
)
E420 = code("E420", "nothing executes an operation", "nothing on the target {target} executes {operation}:\n{table}", hint="{advice}")
E440 = code(
    "E440",
    "target does not report this",
    "the target {target} does not report {what}",
    hint="{known}",
    also=AttributeError,
)
E445 = code(
    "E445", "operation unknown to the interpreter", "the interpreter has no meaning for {operation}",
    hint="choose the target that it belongs to",
)
E446 = code(
    "E446", "lanes of a warp are fewer", "{operation} works on groups of {width} lanes, a warp of the target {target} has {lanes}",
    hint="use groups of at most that many lanes, or exchange through a shared tile",
)
E447 = code(
    "E447", "scope is too wide", "{operation} over the {scope} is not available on the target {target}",
    hint="end the T.Kernel block there and begin another: launches of a call run one after the other and see what those before wrote",
)
E448 = code("E448", "more than a launch takes", "{what}, and a launch of the target {target} takes {most}", hint="{advice}")
