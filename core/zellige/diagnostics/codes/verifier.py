"""E260 to E279: the verifier of the tile IR, which numbers its invariants; every message names the one that is broken.

In: nothing. Out: a constant a code.
"""

from __future__ import annotations

from zellige.diagnostics.codes.declaration import code

E260 = code("E260", "tile IR text cannot be read", "{reason}", hint="docs/tile-ir.md has the grammar")
E261 = code(
    "E261", "tile IR text of another version", "{reason}",
    hint="this zellige reads tile-ir {major}.0 to {major}.{minor}; print the kernel again with it",
)
E262 = code(
    "E262", "name used outside its scope", "{detail} (invariant {invariant})", hint="a name lives to the end of the body that declares it",
)
E263 = code(
    "E263", "declared twice", "{detail} (invariant {invariant})",
    hint="give each name one declaration; a copy of a statement needs names of its own",
)
E264 = code("E264", "element types disagree", "{detail} (invariant {invariant})", hint="cast one side")
E265 = code("E265", "condition is not a bool", "{detail} (invariant {invariant})", hint="compare with something, as in x != 0")
E266 = code(
    "E266", "wrong number of indices", "{detail} (invariant {invariant})",
    hint="give one index for each dimension of the buffer",
)
E267 = code(
    "E267", "shapes of a tile operation disagree", "{detail} (invariant {invariant})",
    hint="compare the extents of the regions; extents of 1 do not count",
)
E268 = code("E268", "operation not defined for the element type", "{detail} (invariant {invariant})", hint="cast the operand first")
E269 = code(
    "E269", "no such axis", "{detail} (invariant {invariant})",
    hint="axes count from 0 to the number of dimensions less one",
)
E270 = code(
    "E270", "control flow out of place", "{detail} (invariant {invariant})",
    hint="break and continue belong into a loop of the same body; nested bodies can be joined",
)
E271 = code(
    "E271", "variable of the wrong kind", "{detail} (invariant {invariant})",
    hint="docs/tile-ir.md says which kind of variable each place declares and takes",
)
E272 = code(
    "E272", "not allowed inside T.Parallel", "{detail} (invariant {invariant})",
    hint="the body of T.Parallel is scalar code of one point: move the statement out of it",
)
E273 = code(
    "E273", "lanes used in a launch without lanes", "{detail} (invariant {invariant})",
    hint="give the launch lane variables, or leave the statement out",
)
E274 = code(
    "E274", "collective operation in lane-dependent code", "{detail} (invariant {invariant})",
    hint="all lanes must reach it: move it out of the condition, or make the condition the same in every lane",
)
E275 = code(
    "E275", "reducer used out of order", "{detail} (invariant {invariant})",
    hint="the order is: initialise, update in any order, finalise in the body that initialised, then read",
)
E276 = code(
    "E276", "signature of a kernel is wrong", "{detail} (invariant {invariant})",
    hint="every size follows from an argument, every output is returned, every hint names what the launch has",
)
E277 = code(
    "E277", "view does not fit its buffer", "{detail} (invariant {invariant})",
    hint="a view keeps the number of stored bits and the space of what it views",
)
E278 = code(
    "E278", "number out of range", "{detail} (invariant {invariant})",
    hint="docs/tile-ir.md gives the range of every number",
)
E279 = code(
    "E279", "unknown word in the tile IR", "{detail} (invariant {invariant})",
    hint="docs/tile-ir.md lists the words of every field",
)
