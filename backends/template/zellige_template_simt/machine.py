"""The device in numbers: what the planner and the lowering ask.

In: nothing. Out: :func:`capabilities` for the contract and :func:`lane_machine` for :mod:`zellige.simt`. A vendor replaces every number by
the device's, each with its source (the manual's section), and the layouts of products by those of the device's instructions.
"""

from __future__ import annotations

from typing import Final

from zellige.dtypes import all_dtypes, dtype as as_dtype
from zellige.plugin.contract import Capabilities, CopyPath, Engine, MatmulUnit, RegisterFile, Space, Synchronisation
from zellige.simt.distribution import Digit, Distribution
from zellige.simt.ir import ProductForm
from zellige.simt.machine import LaneMachine

LANES: Final = 32
"""Lanes of a warp, a power of two. The layouts below want one that m and n of PRODUCT divide, and that divides m * k, k * n and m * n."""

PRODUCT: Final = (16, 16, 16)
"""m, n and k of the product that a warp executes. Change it, and ``zellige explain`` shows it."""

PRODUCT_TYPES: Final = (("float16", "float32"), ("bfloat16", "float32"), ("int8", "int32"))
"""What the product multiplies, and what it adds up in."""

SHARED_BYTES: Final = 64 * 1024
SHARED_ALIGNMENT: Final = 128
"""Where tiles in shared memory may begin, in bytes."""

BLOCK_LANES: Final = 1024
COPY_BYTES: Final = (4, 8, 16)
"""How much one lane copies at once to shared memory without waiting."""


def _operand(shape: tuple[int, int], across: int) -> Distribution:
    """Neighbouring lanes hold neighbours along dimension ``across``; a lane's registers, then groups of lanes, go along the other one."""
    count, along = shape[across], 1 - across
    if LANES % count or shape[0] * shape[1] % LANES:
        raise ValueError(f"an operand of {shape[0]} x {shape[1]} elements does not fill {LANES} lanes: change LANES or PRODUCT")
    groups = LANES // count
    registers = shape[along] // groups
    digits = (
        Digit(source="register", divisor=1, radix=registers, dimension=along, stride=1),
        Digit(source="lane", divisor=1, radix=count, dimension=across, stride=1),
        Digit(source="lane", divisor=count, radix=groups, dimension=along, stride=registers),
    )
    return Distribution(shape=shape, digits=tuple(digit for digit in digits if digit.radix > 1))


def product_forms() -> tuple[ProductForm, ...]:
    """The products of a warp. Which register of which lane holds which element is the instruction's definition."""
    m, n, k = PRODUCT
    return tuple(
        ProductForm(
            name=f"product_{m}x{n}x{k}_{a}_{c}", m=m, n=n, k=k, a=as_dtype(a), b=as_dtype(a), c=as_dtype(c), accumulates_in=as_dtype(c),
            a_layout=_operand((m, k), 0), b_layout=_operand((k, n), 1), c_layout=_operand((m, n), 1),
        )
        for a, c in PRODUCT_TYPES
    )  # fmt: skip


def capabilities(target: str) -> Capabilities:
    """What planning asks."""
    computed = tuple(t.name for t in all_dtypes() if t.is_bool or t.is_integer or t.name in ("float64", "float32", "float16", "bfloat16"))
    return Capabilities(
        target=target,
        lanes=LANES,
        threads=64,
        vector_bytes=16,
        cache_line_bytes=128,
        spaces=(
            Space(name="global", role="global", alignment=16),
            Space(name="shared", role="shared", bytes=SHARED_BYTES, alignment=SHARED_ALIGNMENT),
            Space(name="registers", role="register", bytes=256 * 1024, alignment=4),
        ),
        dtypes=tuple(t.name for t in all_dtypes()),
        compute_dtypes=computed,
        matmul=tuple(
            MatmulUnit(
                name=form.name, engine="lanes", a=form.a.name, b=form.b.name, c=form.c.name, m=form.m, n=form.n, k=form.k,
                a_spaces=("shared", "registers"), b_spaces=("shared", "registers"), c_space="registers",
            )
            for form in product_forms()
        ),
        engines=(Engine(name="lanes", kind="vector"), Engine(name="copies", kind="copy", is_asynchronous=True)),
        copies=(
            CopyPath(
                source="global", destination="shared", mechanism="copy_async", engine="copies", is_asynchronous=True,
                alignment=min(COPY_BYTES), granule=min(COPY_BYTES), fills_out_of_bounds=True, casts=False,
            ),
            CopyPath(source="*", destination="*", mechanism="loads and stores", engine="lanes"),
        ),
        synchronisation=(
            Synchronisation(mechanism="block_barrier", scope="block"),
            Synchronisation(mechanism="copy_async_wait", scope="token"),
        ),
        registers=RegisterFile(per_lane=255),
        block_lanes=BLOCK_LANES,
    )  # fmt: skip


def lane_machine(stated: Capabilities) -> LaneMachine:
    """What lowering asks beyond that."""
    return LaneMachine(
        capabilities=stated,
        products={form.name: form for form in product_forms()},
        async_copy_bytes=COPY_BYTES,
        shared_bytes=SHARED_BYTES,
        block_lanes=BLOCK_LANES,
    )
