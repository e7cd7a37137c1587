"""The probes: what a target says it can do, tried on it with small programs whose results NumPy knows.

In: a :class:`~zellige.claims.machine.Subject`. Out: :class:`Claim` values, each a sentence with the check that tries it. A field of the
capabilities names its probe in its metadata ("probe products"); :data:`PROBES` has them all by that name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, TypeAlias

import numpy as np

from zellige.claims import kernels
from zellige.claims.accuracy import largest_error, sample
from zellige.claims.machine import Array, Fitted, NotChecked, Subject
from zellige.claims.operands import product_operands, summands
from zellige.diagnostics import ZelligeError, catalogue
from zellige.dtypes import DType, dtype as as_dtype
from zellige.ir.stmt import Copy, Gemm, Kernel
from zellige.options import CompileOptions
from zellige.plan.nodes import Choice
from zellige.plugin.contract import AtomicSupport, Capabilities, Conversion, CopyPath, MathAccuracy, MatmulUnit, Space

COUNT: Final = 64
_SCALARS: Final = ("float32", "int32")
"""Types of the numbers that kernels take as arguments nearly always."""
_LARGEST_TILE: Final = 1 << 20
"""Elements of an operand from which a product is not tried."""


class Lie(Exception):
    """A claim that does not hold; the message says what happened instead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """``field`` of the capabilities, what it claims in words, and ``check``, which raises :class:`Lie`, NotChecked or a backend's error."""

    field: str
    text: str
    check: Callable[[], object]


Probe: TypeAlias = Callable[[Subject], Iterator[Claim]]


def element_types(subject: Subject) -> Iterator[Claim]:
    """Storage: bits come back as they were."""
    for name in subject.capabilities.dtypes:
        yield Claim(field="dtypes", text=f"buffers hold {name}", check=partial(_stores, subject, as_dtype(name)))


def _stores(subject: Subject, t: DType) -> None:
    given = _packed(t, _numbers(t, (COUNT,), 1))
    _same(subject.run(kernels.copied(COUNT, t.name), [given, np.zeros_like(given)])[1], given, "the copy")


def arithmetic(subject: Subject) -> Iterator[Claim]:
    """Sums that are exact in their type."""
    for name in subject.capabilities.compute_dtypes:
        t = as_dtype(name)
        if not t.is_bool:
            yield Claim(field="compute_dtypes", text=f"computes in {name}", check=partial(_adds, subject, t))
        if name in _SCALARS:
            text = f"takes numbers of {name} as arguments"
            yield Claim(field="compute_dtypes", text=text, check=partial(_takes_scalar, subject, t))


def _takes_scalar(subject: Subject, t: DType) -> None:
    """Two of them behind two tensors: which stands where is seen, and whether sign, fraction and higher bits arrive."""
    a = _numbers(t, (COUNT,), 2)
    factor, offset = (-1.5, 0.25) if t.is_float else (-3, 100_003)
    found = subject.run(kernels.scaled_and_moved(COUNT, t.name), [a, np.zeros_like(a)], scalars=[factor, offset])[1]
    _same(found, a * a.dtype.type(factor) + a.dtype.type(offset), "what was made with the numbers")


def _adds(subject: Subject, t: DType) -> None:
    """With as many digits as sums of two may have: what computes in a narrower type loses some."""
    a, b = summands(t, COUNT)
    expected = (a + b).astype(_element(t))
    given = [_packed(t, array.astype(_element(t))) for array in (a, b, np.zeros_like(a))]
    _same(_unpacked(t, subject.run(kernels.added(COUNT, t.name), given)[2]), expected, "the sum")


def sizes(subject: Subject) -> Iterator[Claim]:
    """A length that the caller decides, and a grid of three."""
    if subject.capabilities.dynamic_shapes:
        yield Claim(field="dynamic_shapes", text="sizes may be known at run time only", check=partial(_any_size, subject))


def _any_size(subject: Subject) -> None:
    t = as_dtype("float32")
    kernel = kernels.added_of_any_size("float32")
    compiled = subject.loaded(subject.fitted(kernel), kernel)
    kept: list[list[Array]] = []  # a machine that takes the arrays of an earlier launch shall harm nothing: those are there, and larger
    for count in (5000, 33, 1):
        a, b = _numbers(t, (count,), 2), _numbers(t, (count,), 3)
        kept.append(subject.launched(compiled, kernel, [a, b, np.zeros_like(a)]))
        _same(kept[-1][2], a + b, f"the sum of {count} elements")
    _numbers_blocks(subject)


def _numbers_blocks(subject: Subject) -> None:
    """Which block of a grid is which, along each axis: their lengths differ, as far as the target's bounds let them."""
    bounds = (*subject.capabilities.bounds.grid, 1, 1, 1)[:3] if subject.capabilities.bounds.grid else (5, 3, 2)
    width, height, depth = (min(most, length) for most, length in zip(bounds, (5, 3, 2)))
    z, y, x = np.indices((depth, height, width), np.int32)
    found = subject.run(kernels.numbered_blocks(), [np.full((depth, height, width), -1, np.int32)])[0]
    _same(found, x + 16 * y + 256 * z, "what blocks are numbered with")


def products(subject: Subject) -> Iterator[Claim]:
    """Each unit, when it is the only one, on two blocks in each direction; transposed operands too, where it is chosen for them."""
    for at, unit in enumerate(subject.capabilities.matmul):
        text = f"{unit.name or 'a unit'} multiplies {unit.a} by {unit.b} into {unit.c}"
        yield Claim(field=f"matmul[{at}]", text=text, check=partial(_multiplies, subject, unit))


def _multiplies(subject: Subject, unit: MatmulUnit) -> None:
    m, n, k = (max(16, 2 * size) for size in (unit.m, unit.n, unit.k))
    if max(m * k, k * n, m * n) > _LARGEST_TILE:
        raise NotChecked(f"two blocks of {unit.m} x {unit.n} x {unit.k} are too large to try")
    caps = replace(subject.capabilities, matmul=(unit,))
    threads = 2 * (subject.capabilities.lanes or 1)
    kernel = kernels.multiplied(m, n, k, unit.a, unit.b, unit.c, threads)
    try:
        planned = subject.fitted(kernel, caps)
    except ZelligeError as error:
        if error.code != catalogue.E301.id:
            raise
        raise NotChecked(f"two blocks of {unit.m} x {unit.n} x {unit.k} each way do not fit: {error.diagnostics[0].message}") from error
    choices = _choices(planned)
    if not choices:
        raise NotChecked("the backend's passes put something else in the place of a product, for which no unit is chosen")
    for choice in choices:
        if not _is_of(choice, unit):
            why = _why_not(planned, unit)
            raise Lie(f"it is not taken for its own operands: {choice.unit or 'an emulation'} is{f' ({why})' if why else ''}")
    types = tuple(map(as_dtype, (unit.a, unit.b, unit.c)))
    _is_product(subject, kernel, planned, types, (m, n, 2 * k), (False, False))
    for turned in ((True, True), (True, False), (False, True)):
        kernel = kernels.multiplied(m, n, k, unit.a, unit.b, unit.c, threads, turned)
        taken = _taken(subject, kernel, caps, unit)
        if taken is not None:
            _is_product(subject, kernel, taken, types, (m, n, 2 * k), turned)
            if turned == (True, True):
                break
    _multiplies_parts(subject, unit, caps, types, threads)


def _multiplies_parts(subject: Subject, unit: MatmulUnit, caps: Capabilities, types: tuple[DType, ...], threads: int) -> None:
    """Products whose extents are no multiples of the unit's, where it is chosen for them: one more, one fewer, a half, an odd number."""
    if any(t.storage_bits % 8 for t in types):
        return  # tiles would begin within a byte
    m, n, k = unit.m, unit.n, unit.k
    wanted: tuple[tuple[int, int, int], ...] = (
        (m + 1, n + 1, 2 * k + k // 2), (max(1, m - 1), max(1, n - 1), k + 1), (m, n, 3 * k), (1, n + 1, max(1, k - 1)),
    )  # fmt: skip
    room = (m + 1, n + 1, 3 * k)
    make = partial(kernels.multiplied_in_parts, room=room, a_type=unit.a, b_type=unit.b, c_type=unit.c, threads=threads)
    kernel = make(wanted)
    taken = _taken(subject, kernel, caps, unit)
    if taken is None:
        wanted = tuple(tile for tile in wanted if _taken(subject, make((tile,)), caps, unit) is not None)
        if not wanted:
            return
        kernel = make(wanted)
        taken = subject.fitted(kernel, caps)
    pairs = [(tile, _operands(types, *tile)) for tile in wanted]
    given = [np.full((len(wanted), *shape), 1.0) for shape in ((room[0], room[2]), (room[2], room[1]), room[:2])]
    expected = given[2].astype(_element(types[2]))
    for at, ((rows, columns, steps), (a, b)) in enumerate(pairs):
        given[0][at, :rows, :steps], given[1][at, :steps, :columns] = a, b
        expected[at, :rows, :columns] = a @ b
    found = subject.run_as(taken, kernel, [array.astype(_element(t)) for t, array in zip(types, given)])[2]
    for at, tile in enumerate(wanted):
        _same(found[at], expected[at], f"the product in tiles of {' x '.join(map(str, tile))}")


def _choices(planned: Fitted) -> list[Choice]:
    """What is chosen for products: passes of the backend may have cut one into several, or left none."""
    return [c for launch in planned[0].planned.launches for c in launch.choices if isinstance(c.operation, Gemm)]


def _is_of(choice: Choice, unit: MatmulUnit) -> bool:
    return choice.unit == unit.name and choice.is_native is unit.is_native


def _why_not(planned: Fitted, unit: MatmulUnit) -> str:
    """What the plan says of a unit that was not taken."""
    told = [pair for launch in planned[0].planned.launches for decision in launch.decisions for pair in decision.rejected]
    return next((reason for way, reason in told if unit.name and way.startswith(unit.name)), "")


def _taken(subject: Subject, kernel: Kernel, caps: Capabilities, unit: MatmulUnit) -> Fitted | None:
    """The plan in which a unit is chosen for all products, which it need not be for transposed operands and odd extents; else None."""
    try:
        planned = subject.fitted(kernel, caps)
    except ZelligeError:  # no claim says that such a product can be planned
        return None
    return planned if all(_is_of(choice, unit) for choice in _choices(planned)) else None


def _is_product(
    subject: Subject, kernel: Kernel, planned: Fitted, types: tuple[DType, ...], sizes: tuple[int, int, int], turned: tuple[bool, bool]
) -> None:
    m, n, k = sizes
    shapes = [(k, m) if turned[0] else (m, k), (n, k) if turned[1] else (k, n)]
    a, b = _operands(types, m, n, k)
    held = [array.T if is_turned else array for array, is_turned in zip((a, b), turned)]
    assert [array.shape for array in held] == shapes
    given = [np.ascontiguousarray(array).astype(_element(t)) for t, array in zip(types, held)]
    given.append(_zeros(types[2], (m, n)))
    expected = (a @ b).astype(given[2].dtype)
    names = " and ".join(name for name, is_turned in zip("ab", turned) if is_turned)
    what = f"the product of {names} transposed" if names else "the product"
    found = subject.run_as(planned, kernel, [_packed(t, array) for t, array in zip(types, given)])[2]
    _same(_unpacked(types[2], found), expected, what)


def _operands(types: tuple[DType, ...], m: int, n: int, k: int) -> tuple[Array, Array]:
    """Of a product, as float64."""
    if any(t.lanes != 1 or (t.is_float and t.mantissa == 0) for t in types):
        a, b = (_numbers(t, shape, seed).astype(np.float64) for t, shape, seed in zip(types, ((m, k), (k, n)), (4, 5)))
        return a, b
    return product_operands(types[0], types[1], types[2], m, n, k)


def lanes(subject: Subject) -> Iterator[Claim]:
    """Numbers of lanes in their warps."""
    count = subject.capabilities.lanes
    if count:
        yield Claim(field="lanes", text=f"{count} lanes execute together", check=partial(_numbers_lanes, subject, count, 2 * count))
    block = subject.capabilities.block_lanes
    if block:
        text = f"a block may have {block} lanes"
        yield Claim(field="block_lanes", text=text, check=partial(_numbers_lanes, subject, count or block, block))


def _numbers_lanes(subject: Subject, warp: int, block: int) -> None:
    found = subject.run(kernels.numbered(block), [np.full(block, -1, np.int32)])[0]
    _same(found, (np.arange(block) % warp).astype(np.int32), "the lanes' numbers")


def spaces(subject: Subject) -> Iterator[Claim]:
    """A tile that takes all of the memory of a block: a shared space, or the local one where that is the only memory."""
    roles = {space.role or space.name for space in subject.capabilities.spaces}
    of_blocks = "shared" if "shared" in roles else "local"
    for at, space in enumerate(subject.capabilities.spaces):
        if space.bytes is not None and (space.role or space.name) == of_blocks:
            text = f"{space.name} has {space.bytes} bytes for a block"
            yield Claim(field=f"spaces[{at}].bytes", text=text, check=partial(_fills, subject, space))


def _fills(subject: Subject, space: Space) -> None:
    size = (space.bytes or 0) // 4
    given = np.arange(size, dtype=np.int32)
    kernel = kernels.filled(size, "int32")
    fitted, _ = subject.fitted(kernel)
    places = {placed.space for launch in fitted.planned.launches for placed in launch.placements}
    if space.name not in places:
        raise NotChecked(f"a tile of that size lies in {', '.join(sorted(places)) or 'no space'}")
    found = subject.run(kernel, [given, np.zeros(2, np.int32)])[1]
    _same(found, np.array([0, size - 1], np.int32), "the first and last element")


def copies(subject: Subject) -> Iterator[Claim]:
    """Each way from global memory to a tile, when those behind it are the only others, in a pipelined loop that leaves the tensor: what
    lies outside arrives as zeros, and is not written."""
    for at, path in enumerate(subject.capabilities.copies):
        text = f"{path.mechanism} copies from {path.source} to {path.destination}"
        yield Claim(field=f"copies[{at}]", text=text, check=partial(_copies, subject, path, at))


def _copies(subject: Subject, path: CopyPath, at: int) -> None:
    caps = replace(subject.capabilities, copies=subject.capabilities.copies[at:])
    kernel = kernels.staged(3, 8, 64, "float32")
    fitted, _ = subject.fitted(kernel, caps)
    taken = {c.mechanism for launch in fitted.planned.launches for c in launch.choices if isinstance(c.operation, Copy)}
    if path.mechanism not in taken:
        raise NotChecked(f"a tile of 8 x 64 float32 goes by {', '.join(sorted(taken)) or 'no mechanism'}")
    given = _numbers(as_dtype("float32"), (23, 64), 6)
    found = subject.run(kernel, [given, np.zeros_like(given), np.full((24, 64), 7, np.float32)], caps)
    _same(found[1], given, "what the loop copied")
    _same(found[2], np.concatenate([given, np.zeros((1, 64), np.float32)]), "the tile with its row outside of the tensor")


def atomics(subject: Subject) -> Iterator[Claim]:
    """Operations that all points of several blocks do on one element."""
    for at, support in enumerate(subject.capabilities.atomics):
        for name in support.dtypes:
            text = f"atomic {support.op} on {name}"
            yield Claim(field=f"atomics[{at}]", text=text, check=partial(_accumulates, subject, support, as_dtype(name)))


def _accumulates(subject: Subject, support: AtomicSupport, t: DType) -> None:
    reduce: Any = {"add": np.sum, "max": np.max, "min": np.min}.get(support.op)
    if reduce is None:
        raise NotChecked(f"no probe knows the operation {support.op}")
    given, start = _numbers(t, (COUNT,), 7), _zeros(t, (1,))
    expected = np.asarray(reduce(np.concatenate([given, start]).astype(np.float64))).astype(start.dtype).reshape(1)
    _same(subject.run(kernels.accumulated(COUNT, t.name, support.op), [given, start])[1], expected, "the element")


def conversions(subject: Subject) -> Iterator[Claim]:
    """Numbers that both types have."""
    for at, value in enumerate(subject.capabilities.conversions):
        text = f"converts {value.source} to {value.destination}"
        yield Claim(field=f"conversions[{at}]", text=text, check=partial(_converts, subject, value))


def _converts(subject: Subject, value: Conversion) -> None:
    source, destination = as_dtype(value.source), as_dtype(value.destination)
    given, result = _numbers(source, (COUNT,), 8), _zeros(destination, (COUNT,))
    expected = given.astype(np.float64).astype(result.dtype)
    held = [_packed(source, given), _packed(destination, result)]
    found = subject.run(kernels.converted(COUNT, value.source, value.destination), held)[1]
    _same(_unpacked(destination, found), expected, "the converted numbers")


def repetition(subject: Subject) -> Iterator[Claim]:
    """Equal bits from run to run."""
    if subject.capabilities.determinism != "none":
        text = f"results are equal from {'run to run' if subject.capabilities.determinism == 'run' else 'device to device'}"
        yield Claim(field="determinism", text=text, check=partial(_repeats, subject))


def _repeats(subject: Subject) -> None:
    generator = np.random.default_rng(9)
    a, b = (generator.standard_normal((32, 32)).astype(np.float32) for _ in range(2))
    kernel = kernels.multiplied(32, 32, 16, "float32", "float32", "float32", 2 * (subject.capabilities.lanes or 1))
    first, second = (subject.run(kernel, [a, b, np.zeros((32, 32), np.float32)])[2] for _ in range(2))
    _same(first, second, "the second run")


def mathematics(subject: Subject) -> Iterator[Claim]:
    """Functions at operands of every magnitude, as a rule and with fast mathematics."""
    for at, value in enumerate(subject.capabilities.math):
        for most, options in ((value.strict_ulp, CompileOptions()), (value.fast_ulp, CompileOptions(fast_math=True))):
            kind = "fast_ulp" if options.fast_math else "strict_ulp"
            text = f"{value.function} of {value.dtype} is within {most:g} units of the last place"
            check = partial(_is_exact, subject, value, most, options)
            yield Claim(field=f"math[{at}].{kind}", text=f"{text}, fast" if options.fast_math else text, check=check)


def _is_exact(subject: Subject, value: MathAccuracy, most: float, options: CompileOptions) -> None:
    t = as_dtype(value.dtype)
    operands, exact = sample(value.function, t)
    kernel = kernels.applied(len(operands), t.name, value.function)
    found = subject.run(kernel, [operands, np.zeros_like(operands)], options=options)[1]
    error, at = largest_error(found, operands, exact, t, flushes=value.flushes_subnormals)
    if error > most:
        raise Lie(f"{value.function} of {operands[at]!s} has {found[at]!s}, {error:.3g} units from {exact[at]:.9g}")


PROBES: Final[Mapping[str, Probe]] = {
    "element types": element_types,
    "arithmetic": arithmetic,
    "sizes": sizes,
    "products": products,
    "lanes": lanes,
    "spaces": spaces,
    "copies": copies,
    "atomics": atomics,
    "conversions": conversions,
    "repetition": repetition,
    "mathematics": mathematics,
}
"""By the name that fields say."""


# ---- numbers


def _numbers(t: DType, shape: tuple[int, ...], seed: int) -> Array:
    """Small numbers that the type holds exactly, as do sums of a few products of them."""
    if t.lanes != 1:
        raise NotChecked(f"arrays of the vectors {t} have no form that all frameworks share")
    low, high = (0, 2) if t.is_bool else (0, 3) if t.is_integer and not t.is_signed else (-1, 3) if t.bits <= 8 else (-3, 4)
    if t.is_float and t.bits <= 8 and t.name.endswith("e8m0fnu"):
        low, high = 1, 3  # powers of two alone
    given: Any = np.random.default_rng(seed).integers(low, high, shape)
    return np.asarray(given).astype(np.float64).astype(_element(t))


def _zeros(t: DType, shape: tuple[int, ...]) -> Array:
    return np.zeros(shape, _element(t))


def _element(t: DType) -> Any:
    return np.float32 if t.name == "tfloat32" else t.numpy


def _packed(t: DType, values: Array) -> Array:
    """The values as they lie in memory: of elements of four bits two share a byte, the first in its lower half."""
    if t.storage_bits % 8 == 0:
        return values
    assert t.storage_bits == 4, t
    halves = values.view(np.uint8) & 15
    return np.asarray(halves[..., ::2] | halves[..., 1::2] << 4)


def _unpacked(t: DType, held: Array) -> Array:
    """The other way round."""
    if t.storage_bits % 8 == 0:
        return held
    halves = np.stack([held & 15, held >> 4], axis=-1).reshape(*held.shape[:-1], -1)
    return (halves ^ 8).astype(np.int8) - 8 if t.is_integer and t.is_signed else halves.view(_element(t))


def _same(found: Array, expected: Array, what: str) -> None:
    is_exact = found.dtype == expected.dtype and found.dtype.kind in "biu"  # float64 has not all digits of int64
    differs = found != expected if is_exact else found.astype(np.float64) != expected.astype(np.float64)
    wrong = np.flatnonzero(differs.reshape(-1))
    if wrong.size:
        at = int(wrong[0])
        reason = f"{what} has {found.reshape(-1)[at]} at element {at}, not {expected.reshape(-1)[at]}"
        raise Lie(f"{reason} ({wrong.size} of {found.size} elements differ)")
