"""Instructions of a systolic unit over 128 partitions, as in AWS Trainium: one operand stays, the other streams through.

Facts: AWS, Neuron Kernel Interface reference (nki.isa.nc_matmul, nki.isa.dma_copy) and the NeuronCore architecture guide: k lies along the
partitions of both operands, at most 128; the stationary one has at most 128 columns, the moving one 512; the result's partitions are the
stationary one's columns. No device was at hand: only the layouts are tested.
"""

from __future__ import annotations

from typing import Final

from zellige.layouts import Layout, mixed
from zellige_intrinsics import meanings
from zellige_intrinsics.fragments import K, M, N
from zellige_intrinsics.specification import Completion, Copy, Intrinsic, Operand, Product, Source, Synchronisation
from zellige_intrinsics.waiting import WaitCounter

MANUAL: Final = "AWS, Neuron Kernel Interface reference"
EVIDENCE: Final = "layouts by enumeration only"
KINDS: Final = ("bfloat16", "float16", "float32", "float8_e4m3")


def by_partition(partition: tuple[str, int], free: tuple[str, int], order: tuple[str, str]) -> Layout:
    """One dimension along the partitions, the other along the memory of each."""
    digits = {partition[0]: [(partition[1], {"partition": 1})], free[0]: [(free[1], {"offset": 1})]}
    return mixed({name: digits[name] for name in order}, {"partition": partition[1], "offset": free[1]})


def systolic_product(m: int = 128, n: int = 512, k: int = 128) -> Product:
    """The product of these extents: m and k at most 128, n at most 512."""
    c = by_partition((M, m), (N, n), (M, N))
    sums = ("float32",) * len(KINDS)
    return Product(
        name=f"nc_matmul {m}x{n}x{k}",
        spelling="nki.isa.nc_matmul({a}, {b})",
        scope="unit",
        m=m,
        n=n,
        k=k,
        operands=(
            Operand(name="a", types=KINDS, space="sbuf", holder="memory", layout=by_partition((K, k), (M, m), (M, K))),
            Operand(name="b", types=KINDS, space="sbuf", holder="memory", layout=by_partition((K, k), (N, n), (K, N))),
            Operand(name="c", types=sums, space="psum", holder="memory", layout=c),
            Operand(name="d", types=sums, space="psum", holder="memory", layout=c, is_result=True),
        ),
        meaning=meanings.multiply_add,
        requires=("systolic",),
        completion=Completion(waits=("semaphore",), order="in order"),
        sources=(Source(manual=MANUAL, section="nki.isa.nc_matmul", evidence=EVIDENCE),),
        notes="a is the stationary operand; smaller extents leave rows or columns idle",
    )


def partition_load(rows: int, columns: int) -> Copy:
    """Rows of a matrix in device memory onto partitions."""
    outside = mixed({"row": [(rows, {"offset": columns})], "column": [(columns, {"offset": 1})]}, {"offset": rows * columns})
    kinds = ("uint8", "uint16", "uint32")
    return Copy(
        name=f"dma_copy {rows}x{columns}",
        spelling="nki.isa.dma_copy(dst={destination}, src={source})",
        scope="unit",
        operands=(
            Operand(name="source", types=kinds, space="global", holder="memory", layout=outside),
            Operand(
                name="destination",
                types=kinds,
                space="sbuf",
                holder="memory",
                layout=by_partition(("row", rows), ("column", columns), ("row", "column")),
                is_result=True,
            ),
        ),
        meaning=meanings.copy,
        bytes_each=rows * columns,
        requires=("systolic",),
        completion=Completion(waits=("semaphore",), order="any"),
        sources=(Source(manual=MANUAL, section="nki.isa.dma_copy", evidence=EVIDENCE),),
    )


SEMAPHORE: Final = Synchronisation(
    name="semaphore",
    spelling="",
    scope="unit",
    operands=(),
    meaning=None,
    mechanism="wait counter",
    model=WaitCounter,
    limit=65535,
    requires=("systolic",),
    sources=(Source(manual="AWS, NeuronCore architecture guide", section="Synchronization between engines"),),
    notes="the vendor's compiler places them; a program names none",
)

INTRINSICS: Final[tuple[Intrinsic, ...]] = (systolic_product(), partition_load(128, 512), SEMAPHORE)
