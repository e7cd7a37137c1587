"""Calls of the C library's math functions, lane by lane.

In: registers of float32 or float64. Out: the library's results. A vector goes through memory in a small loop of its own function, since
code for sixteen calls in a row costs more to compile than the loop costs to run.
"""

from __future__ import annotations

from collections.abc import Sequence

from zellige.diagnostics import InternalError
from zellige_cpu.text import Function
from zellige_cpu.values import Value, constant

# name in FUNCTIONS -> (symbol for float64, operands); float32 has the suffix f
LIBRARY: dict[str, tuple[str, int]] = {
    **{name: (name, 1) for name in ("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "cbrt", "sin", "cos", "tan")},
    **{name: (name, 1) for name in ("asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "erfc")},
    **{name: (name, 2) for name in ("pow", "atan2", "hypot", "fmod")},
}


def call_each(fn: Function, name: str, args: Sequence[Value]) -> Value:
    """The library function called for each lane of ``args``, all of one type, float or double."""
    stem, operands = LIBRARY[name]
    if len(args) != operands:
        raise InternalError(f"{name} takes {operands} operands, {len(args)} were given")
    element, lanes = args[0].element, args[0].lanes
    symbol = stem + ("f" if element == "float" else "")
    fn.module.symbol(symbol, element, [element] * operands)
    if lanes == 1:
        return fn.call(symbol, *args)
    loop_name = f"each_{symbol}_x{lanes}"
    if not fn.module.has_function(loop_name):
        _emit_loop(fn, loop_name, symbol, element, args)
    return fn.call(loop_name, *args)


def _emit_loop(fn: Function, name: str, symbol: str, element: str, args: Sequence[Value]) -> None:
    leaf = fn.module.function(name, args[0].type, [(f"x{i}", a.type) for i, a in enumerate(args)], inline=False)
    size = 4 if element == "float" else 8
    places = [leaf.alloca(a.type) for a in args]
    for place, parameter in zip(places, leaf.params):
        leaf.store(parameter, place, align=64)
    with leaf.loop(constant("i64", 0), constant("i64", args[0].lanes * size), size) as loop:
        addresses = [leaf.offset(place, loop.index) for place in places]
        result = leaf.call(symbol, *[leaf.load(address, element, align=size) for address in addresses])
        leaf.store(result, addresses[0], align=size)
    leaf.ret(leaf.load(places[0], element, args[0].lanes, align=64))
