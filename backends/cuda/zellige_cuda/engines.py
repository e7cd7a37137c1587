"""The instructions of Hopper's engines as CUDA C++: transaction barriers, box copies, products of warpgroups, budgets of registers.

In: statements of thread-level programs, and names of helpers. Out: their text. Sources: PTX ISA 8.8, 9.7.13.15 (mbarrier), 9.7.9.27
(cp.async.bulk.tensor), 9.7.15 (wgmma) with the matrix descriptors of 9.7.15.5, 9.7.16.6 (setmaxnreg), 8.6 (fence.proxy.async).
"""

from __future__ import annotations

import re
from typing import Any

from zellige.ir.expr import Buffer, Var, constant_value
from zellige.simt.ir import (
    Arrive,
    AsyncProduct,
    BarrierInit,
    BoxMap,
    Budget,
    CommitProducts,
    CommitStores,
    ExpectBytes,
    Fence,
    FenceProducts,
    MoveRegisters,
    Registers,
    SharedOperand,
    TensorBox,
    TensorCopy,
    WaitBarrier,
    WaitProducts,
    WaitStores,
)
from zellige.simt.printer import Printer

HIDING = "HIDDEN"
"""The macro that hides a number from the compiler's hoisting (:class:`~zellige.simt.ir.Opaque`)."""

SHOWING = "SHOW_NUMBERS"
"""Defined where it shall do nothing."""

_D = "static __device__ __forceinline__"

MAP_TYPE = "struct alignas(64) TensorMap { unsigned char bytes[128]; };"

_SWIZZLE_CODES = {0: 0, 128: 1, 64: 2, 32: 3}


def _asm(name: str, params: str, text: str, operands: str = "") -> str:
    return f'{_D} void {name}({params}) {{ asm volatile("{text}" :: {operands + " " if operands else ""}: "memory"); }}'


FIXED: dict[str, str] = {
    "barrier_init": _asm(
        "barrier_init", "unsigned int at, unsigned int count", "mbarrier.init.shared::cta.b64 [%0], %1;", '"r"(at), "r"(count)'
    ),
    "barrier_arrive": _asm("barrier_arrive", "unsigned int at", "mbarrier.arrive.shared::cta.b64 _, [%0];", '"r"(at)'),
    "barrier_arrive_at": (
        f"{_D} void barrier_arrive_at(unsigned int at, unsigned int peer) {{\n"
        '  asm volatile("{ .reg .b32 there; mapa.shared::cluster.u32 there, %0, %1; mbarrier.arrive.shared::cluster.b64 _, [there]; }"\n'
        '    :: "r"(at), "r"(peer) : "memory");\n}'
    ),
    "cluster_barrier": (
        f"{_D} void cluster_barrier() {{\n"
        '  asm volatile("barrier.cluster.arrive.relaxed.aligned; barrier.cluster.wait.aligned;" ::: "memory");\n}'
    ),
    "barrier_expect": _asm(
        "barrier_expect", "unsigned int at, unsigned int bytes", "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;",
        '"r"(at), "r"(bytes)',
    ),
    "fence_engines": _asm("fence_engines", "", "fence.proxy.async.shared::cta;"),
    "fence_barriers": _asm("fence_barriers", "", "fence.mbarrier_init.release.cluster;"),
    "products_fence": _asm("products_fence", "", "wgmma.fence.sync.aligned;"),
    "products_commit": _asm("products_commit", "", "wgmma.commit_group.sync.aligned;"),
    "products_wait": "template <int leave> " + _asm("products_wait", "", "wgmma.wait_group.sync.aligned %0;", '"n"(leave)'),
    "more_registers": "template <int count> " + _asm("more_registers", "", "setmaxnreg.inc.sync.aligned.u32 %0;", '"n"(count)'),
    "fewer_registers": "template <int count> " + _asm("fewer_registers", "", "setmaxnreg.dec.sync.aligned.u32 %0;", '"n"(count)'),
    "box_stores_commit": _asm("box_stores_commit", "", "cp.async.bulk.commit_group;"),
    "box_stores_wait": "template <int leave> " + _asm("box_stores_wait", "", "cp.async.bulk.wait_group %0;", '"n"(leave)'),
    "box_stores_wait_read": "template <int leave> " + _asm("box_stores_wait_read", "", "cp.async.bulk.wait_group.read %0;", '"n"(leave)'),
    "settled": (
        f"template <int count, class T> {_D} void settled(T* r) {{\n  #pragma unroll\n"
        '  for (int i = 0; i < count; ++i) asm volatile("" : "+f"(r[i]) :: "memory");\n}'
    ),
    "settled_words": (
        f"template <int count> {_D} void settled_words(void* at) {{\n  unsigned int* const r = (unsigned int*)at;\n  #pragma unroll\n"
        '  for (int i = 0; i < count; ++i) asm volatile("" : "+r"(r[i]) :: "memory");\n}'
    ),
    "move_registers": (
        f"template <int count> {_D} void move_registers(void* into, const void* from) {{\n  unsigned int* const to = (unsigned int*)into;\n"
        "  const unsigned int* const r = (const unsigned int*)from;\n  #pragma unroll\n"
        '  for (int i = 0; i < count; ++i) asm volatile("mov.b32 %0, %1;" : "=r"(to[i]) : "r"(r[i]));\n}'
    ),
    "matrix": (
        f"{_D} unsigned long long matrix(unsigned int at, unsigned long long layout) {{\n"
        "  return (unsigned long long)((at & 0x3ffffu) >> 4) | layout;\n}"
    ),
}  # fmt: skip


FENCE_OF_BLOCK = f"{_D} void fence_barriers() {{ __threadfence_block(); }}"
"""Before architecture 90 there is no cluster that could see a barrier being made."""


def barrier_wait(arch: int) -> str:
    """Until the phase of a parity has ended; architectures before 90 test in a loop where later ones sleep."""
    word = "try_wait" if arch >= 90 else "test_wait"
    return (
        f"{_D} void barrier_wait(unsigned int at, unsigned int parity) {{\n"
        f'  asm volatile("{{ .reg .pred p; W: mbarrier.{word}.parity.shared::cta.b64 p, [%0], %1; @p bra D; bra W; D: }}"\n'
        '    :: "r"(at), "r"(parity) : "memory");\n}'
    )


def _coordinates(rank: int, first: int) -> tuple[str, str, str]:
    """The coordinates of a box as parameters, as places of the instruction from number ``first`` on, and as what is given for them."""
    params = ", ".join(f"int x{i}" for i in range(rank))
    places = ", ".join(f"%{i + first}" for i in range(rank))
    given = ", ".join(f'"r"(x{i})' for i in range(rank))
    return params, places, given


def box_load(match: re.Match[str], arch: int) -> tuple[str, tuple[str, ...]]:
    """A box of so many dimensions to shared memory; coordinates of the innermost dimension first."""
    rank = int(match[1])
    params, places, given = _coordinates(rank, first=2)
    return (
        f"{_D} void {match[0]}(unsigned int to, const TensorMap& map, unsigned int barrier, {params}) {{\n"
        f'  asm volatile("cp.async.bulk.tensor.{rank}d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {{{places}}}], '
        f'[%{rank + 2}];"\n    :: "r"(to), "l"((unsigned long long)&map), {given}, "r"(barrier) : "memory");\n}}',
        (),
    )


def box_spread(match: re.Match[str], arch: int) -> tuple[str, tuple[str, ...]]:
    """A box of so many dimensions to the shared memory of each block of ``blocks``, a bit each."""
    rank = int(match[1])
    params, places, given = _coordinates(rank, first=2)
    return (
        f"template <int blocks> {_D} void {match[0]}(unsigned int to, const TensorMap& map, unsigned int barrier, {params}) {{\n"
        f'  asm volatile("cp.async.bulk.tensor.{rank}d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster '
        f'[%0], [%1, {{{places}}}], [%{rank + 2}], %{rank + 3};"\n'
        f'    :: "r"(to), "l"((unsigned long long)&map), {given}, "r"(barrier), "h"((unsigned short)blocks) : "memory");\n}}',
        (),
    )


def box_store(match: re.Match[str], arch: int) -> tuple[str, tuple[str, ...]]:
    """A box of so many dimensions from shared memory; coordinates of the innermost dimension first."""
    rank = int(match[1])
    params, places, given = _coordinates(rank, first=1)
    return (
        f"{_D} void {match[0]}(const TensorMap& map, unsigned int from, {params}) {{\n"
        f'  asm volatile("cp.async.bulk.tensor.{rank}d.global.shared::cta.bulk_group [%0, {{{places}}}], [%{rank + 1}];"\n'
        f'    :: "l"((unsigned long long)&map), {given}, "r"(from) : "memory");\n}}',
        (),
    )


def group_product(match: re.Match[str], arch: int) -> tuple[str, tuple[str, ...]]:
    """wgmma with both operands in shared memory: columns, types of c, a and b, which of a and b have k outermost. Products of bytes have k
    along the rows of both and neither signs nor such flags."""
    n, c, a, b, transpose_a, transpose_b = int(match[1]), match[2], match[3], match[4], match[5], match[6]
    count, is_integer = n // 2, c == "s32"
    kind, letter, depth = ("int", "r", 32) if is_integer else ("float", "f", 16)
    flags = "" if is_integer else f", 1, 1, {transpose_a}, {transpose_b}"
    sums = ", ".join(f"%{i}" for i in range(count))
    outs = ", ".join(f'"+{letter}"(c[{i}])' for i in range(count))
    return (
        f"{_D} void {match[0]}({kind}* c, unsigned long long a, unsigned long long b, int adds) {{\n"
        f'  asm volatile("{{ .reg .pred p; setp.ne.b32 p, %{count + 2}, 0; wgmma.mma_async.sync.aligned.m64n{n}k{depth}.{c}.{a}.{b} '
        f'{{{sums}}}, %{count}, %{count + 1}, p{flags}; }}"\n'
        f'    : {outs} : "l"(a), "l"(b), "r"(adds));\n}}',
        (),
    )


def held_product(match: re.Match[str], arch: int) -> tuple[str, tuple[str, ...]]:
    """wgmma with a in registers: columns, types of c, a and b, whether b has k outermost."""
    n, c, a, b, transpose_b = int(match[1]), match[2], match[3], match[4], match[5]
    count = n // 2
    sums = ", ".join(f"%{i}" for i in range(count))
    outs = ", ".join(f'"+f"(c[{i}])' for i in range(count))
    words = ", ".join(f"%{count + i}" for i in range(4))
    given = ", ".join(f'"r"(a[{i}])' for i in range(4))
    return (
        f"{_D} void {match[0]}(float* c, const void* held, unsigned long long b, int adds) {{\n"
        f"  const unsigned int* const a = (const unsigned int*)held;\n"
        f'  asm volatile("{{ .reg .pred p; setp.ne.b32 p, %{count + 5}, 0; wgmma.mma_async.sync.aligned.m64n{n}k16.{c}.{a}.{b} '
        f'{{{sums}}}, {{{words}}}, %{count + 4}, p, 1, 1, {transpose_b}; }}"\n'
        f'    : {outs} : {given}, "l"(b), "r"(adds));\n}}',
        (),
    )


PATTERNS = (
    (r"held_product_n(\d+)_(\w+?)_(\w+?)_(\w+?)_([01])", held_product),
    (r"box_load_(\d)d", box_load),
    (r"box_spread_(\d)d", box_spread),
    (r"box_store_(\d)d", box_store),
    (r"group_product_n(\d+)_(\w+?)_(\w+?)_(\w+?)_([01])([01])", group_product),
)


def map_name(box: TensorBox) -> str:
    """The wanted name of the parameter with the map of a box."""
    return f"{box.tensor.name}_boxes"


def map_parameter(printer: Printer, param: BoxMap) -> str:
    """A tensor map lies in the parameters themselves: the copy engine reads it there."""
    return f"const __grid_constant__ TensorMap {printer.own_name(param.box, map_name(param.box))}"


def engine_statement(printer: Printer, statement: Any) -> str | None:
    """The text of a statement of engines; None where it is none."""

    def barrier(buffer: Any, index: Any) -> str:
        return f"shared_at + {printer.shared_offset(buffer, index)}"

    match statement:
        case BarrierInit():
            return f"{printer.need('barrier_init')}({barrier(statement.barriers, statement.index)}, {statement.arrivals});"
        case Arrive() if statement.peer is not None:
            at, peer = barrier(statement.barriers, statement.index), printer.value(statement.peer)
            return f"{printer.need('barrier_arrive_at')}({at}, {peer});"
        case Arrive():
            return f"{printer.need('barrier_arrive')}({barrier(statement.barriers, statement.index)});"
        case ExpectBytes():
            return f"{printer.need('barrier_expect')}({barrier(statement.barriers, statement.index)}, {printer.value(statement.bytes)});"
        case WaitBarrier():
            return f"{printer.need('barrier_wait')}({barrier(statement.barriers, statement.index)}, {printer.value(statement.parity)});"
        case TensorCopy(is_store=False):
            return _box_load(printer, statement)
        case TensorCopy():
            return _box_store(printer, statement)
        case CommitStores():
            return f"{printer.need('box_stores_commit')}();"
        case WaitStores(leave=leave, of_reading=of_reading):
            return f"{printer.need('box_stores_wait_read' if of_reading else 'box_stores_wait')}<{leave}>();"
        case AsyncProduct():
            return _group_product(printer, statement)
        case FenceProducts():
            return f"{printer.need('products_fence')}();"
        case CommitProducts():
            return f"{printer.need('products_commit')}();"
        case WaitProducts():
            lines = [f"{printer.need('products_wait')}<{statement.leave}>();"]
            return "\n".join([*lines, *(opaque(printer, buffer) for buffer in statement.settled)])
        case MoveRegisters(into=into, source=source):
            words = int(constant_value(into.shape[0]) or 0) * into.dtype.bytes // 4
            return f"{printer.need('move_registers')}<{words}>({printer.name(into)}, {printer.name(source)});"
        case Budget(registers=registers, is_larger=is_larger):
            return f"{printer.need('more_registers' if is_larger else 'fewer_registers')}<{registers}>();"
        case Fence(to="engines"):
            return f"{printer.need('fence_engines')}();"
        case Fence(to="barriers"):
            return f"{printer.need('fence_barriers')}();"
        case _:
            return None


def opaque(printer: Printer, thing: Var | Buffer) -> str:
    """Code that does nothing, of which the compiler must think that it changes a variable or all registers of a buffer."""
    name = printer.name(thing)
    if isinstance(thing, Var):
        return f"{HIDING}({name});"
    count = int(constant_value(thing.shape[0]) or 0)
    if thing.dtype.name == "float32":
        return f"{printer.need('settled')}<{count}>({name});"
    return f"{printer.need('settled_words')}<{count * thing.dtype.bytes // 4}>({name});"


def _box_load(printer: Printer, node: TensorCopy) -> str:
    assert node.barriers is not None
    assert node.index is not None
    name = printer.need(f"box_{'load' if node.peers == 1 else 'spread'}_{len(node.origin)}d")
    if node.peers > 1:
        name = f"{name}<{(1 << node.peers) - 1}>"
    to = f"shared_at + {printer.shared_offset(node.memory, node.memory_index)}"
    barrier = f"shared_at + {printer.shared_offset(node.barriers, node.index)}"
    origin = ", ".join(printer.value(o) for o in reversed(node.origin))
    return f"{name}({to}, {printer.own_name(node.box, map_name(node.box))}, {barrier}, {origin});"


def _box_store(printer: Printer, node: TensorCopy) -> str:
    name = printer.need(f"box_store_{len(node.origin)}d")
    source = f"shared_at + {printer.shared_offset(node.memory, node.memory_index)}"
    origin = ", ".join(printer.value(o) for o in reversed(node.origin))
    return f"{name}({printer.own_name(node.box, map_name(node.box))}, {source}, {origin});"


def _group_product(printer: Printer, node: AsyncProduct) -> str:
    form, a, b = node.form, node.a, node.b
    kinds = "_".join(form.name.split(".")[1:])
    sums = f"{printer.name(node.c.buffer.root)} + {printer.value(node.c.start)}"
    is_cleared = constant_value(node.clear)
    adds = f"!({printer.value(node.clear)})" if is_cleared is None else str(int(not is_cleared))
    if isinstance(a, Registers):
        name = printer.need(f"held_product_n{form.n}_{kinds}_{int(not b.is_k_contiguous)}")
        held = f"{printer.name(a.buffer.root)} + {printer.value(a.start)}"
        return f"{name}({sums}, {held}, {_descriptor(printer, b)}, {adds});"
    name = printer.need(f"group_product_n{form.n}_{kinds}_{int(not a.is_k_contiguous)}{int(not b.is_k_contiguous)}")
    return f"{name}({sums}, {_descriptor(printer, a)}, {_descriptor(printer, b)}, {adds});"


def _descriptor(printer: Printer, operand: SharedOperand) -> str:
    """Bits 0-13 the address, 16-29 the distance of slabs, 32-45 that of groups of 8 rows, all in units of 16 bytes; 62-63 the swizzle.
    Slabs are at a distance only where rows run along m or n: within a slab of k one instruction does not leave it."""
    leading = 1 if operand.is_k_contiguous else operand.span_bytes >> 4
    layout = leading << 16 | operand.row_group_bytes >> 4 << 32 | _SWIZZLE_CODES[operand.swizzle_bytes] << 62
    at = f"shared_at + {printer.shared_offset(operand.buffer, operand.start)}"
    text = f"{printer.need('matrix')}({at}, {layout:#x}ull)"
    return f"{text} + {operand.advance >> 4}" if operand.advance else text
