"""An instruction executed by its meaning, on operands as hardware holds them.

In: for each operand what its holder has: an array over the layout's inputs for registers, a flat array for memory, :class:`Pointers` for
addresses by lane. Out: the results in the same form. Layouts gather elements into whole operands, the meaning is applied, layouts scatter.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import numpy as np

from zellige.diagnostics import ZelligeError, catalogue
from zellige.layouts import Layout
from zellige.plugin.fields import said, shortened
from zellige.records import dataclass
from zellige_intrinsics.specification import ELEMENT, Array, Intrinsic, Operand


@dataclass(frozen=True, slots=True, kw_only=True)
class Pointers:
    """Memory and the address that each lane gives, in elements (an array over the lane inputs of the operand's layout)."""

    memory: Array
    addresses: Array


Held: TypeAlias = Array | Pointers


def gather(operand: Operand, held: Held) -> Array:
    """The operand as an array of its indices. E332 where copies of an element differ."""
    layout = _layout(operand)
    if operand.holder == "memory":
        assert not isinstance(held, Pointers)
        return np.asarray(held[_outputs(layout)])
    values = held.memory[_addresses(layout, held)] if isinstance(held, Pointers) else np.asarray(held)
    whole = np.zeros(tuple(layout.output_sizes.values()), values.dtype)
    index = _outputs(layout)
    whole[index] = values
    if not np.array_equal(whole[index], values):
        raise catalogue.E332.error(mechanism=f"the operand {operand.name}", reason="copies of one element differ")
    return whole


def scatter(operand: Operand, whole: Array, held: Held) -> Held:
    """``held`` with the operand's elements written to their places."""
    layout = _layout(operand)
    if operand.holder == "memory":
        assert not isinstance(held, Pointers)
        written: Array = held.copy()
        written[_outputs(layout)] = whole
        return written
    values = whole[_outputs(layout)]
    if isinstance(held, Pointers):
        memory = held.memory.copy()
        memory[_addresses(layout, held)] = values
        return Pointers(memory=memory, addresses=held.addresses)
    registers: Array = np.asarray(values, held.dtype)
    return registers


def run(intrinsic: Intrinsic, held: Mapping[str, Held]) -> dict[str, Held]:
    """Results by name. ``held`` has an entry for every operand, results included (what is there before). E330 for a missing one, E331 where
    the meaning does not make the results of the instruction."""
    if intrinsic.meaning is None:
        raise catalogue.E331.error(name=intrinsic.name, reason="it has no meaning on elements: drive its model instead")
    for operand in intrinsic.operands:
        if operand.name not in held and operand.holder != "immediate":
            raise catalogue.E330.error(kind="value of the operand", name=f"{intrinsic.name}.{operand.name}", known=", ".join(held))
    inputs = {o.name: gather(o, held[o.name]) for o in intrinsic.operands if not o.is_result and o.holder != "immediate"}
    results = _meant(intrinsic, inputs)
    return {o.name: scatter(o, results[o.name], held[o.name]) for o in intrinsic.operands if o.is_result}


def _meant(intrinsic: Intrinsic, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
    """What the meaning of an instruction makes of whole operands. E331 where it raises or makes something else than the results."""
    assert intrinsic.meaning is not None
    try:
        results: object = intrinsic.meaning(inputs)
    except ZelligeError:
        raise
    except Exception as error:  # the meaning may be anybody's function
        raise catalogue.E331.error(name=intrinsic.name, reason=f"its meaning raised {said(error)}") from error
    if not isinstance(results, Mapping):
        raise catalogue.E331.error(name=intrinsic.name, reason=f"its meaning made {shortened(results)}, expected results by name")
    for operand in intrinsic.operands:
        wanted = tuple(operand.sizes.values())
        made = results.get(operand.name)
        if operand.is_result and not (isinstance(made, np.ndarray) and made.shape == wanted):
            found = f"an array of {made.shape}" if isinstance(made, np.ndarray) else "none" if made is None else f"a {type(made).__name__}"
            reason = f"its meaning made {found} for {operand.name}, expected an array of {wanted}"
            raise catalogue.E331.error(name=intrinsic.name, reason=reason)
    return results


def _layout(operand: Operand) -> Layout:
    if operand.layout is None:
        raise catalogue.E331.error(name=operand.name, reason="an immediate number is not held anywhere")
    return operand.layout


def _outputs(layout: Layout) -> tuple[Array, ...]:
    """What a layout gives at all its inputs, one array for each output: indices of elements, or places in memory."""
    shape = tuple(layout.input_sizes.values())
    return tuple(np.broadcast_to(array, shape) for array in layout.table().values())


def _addresses(layout: Layout, held: Pointers) -> Array:
    """The address of each (element, lane, ...): the lane's, and the element's number behind it."""
    names = list(layout.input_sizes)
    elements = layout.grid()[ELEMENT]
    addresses = np.expand_dims(held.addresses, names.index(ELEMENT))
    return np.asarray(addresses + elements)
