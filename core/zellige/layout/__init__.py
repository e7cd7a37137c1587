"""Layouts as a kernel author writes them: index maps of tiles, for T.annotate_layout.

A :class:`Layout` maps a tile's indices to indices of its storage, a :class:`Fragment` to a lane and an index within the lane. They are
hints: a target serves them, or says why not. What a layout does is computed by evaluating its function on all indices;
:meth:`Layout.as_map` gives it in the compiler's algebra (:mod:`zellige.layouts`).
"""

from __future__ import annotations

import enum
import inspect
import math
from collections.abc import Callable, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any

from zellige.diagnostics import catalogue
from zellige.dtypes import dtype
from zellige.frontend import arithmetic

if TYPE_CHECKING:
    from zellige import layouts

Indices = tuple[int, ...]


def _sizes(shape: Any) -> tuple[Any, ...]:
    """A shape given as one size or several: Python ints, or sizes known only at run time. E205 for what is no integer."""
    return tuple(_size(n) for n in (shape if isinstance(shape, (tuple, list)) else (shape,)))


def _size(value: Any) -> Any:
    number = arithmetic.whole_number(value)
    if number is None:
        arithmetic.index(value)
        if isinstance(value, bool):
            raise catalogue.E205.error(given=value)
    return value if number is None else number


def _whole(value: Any, operation: str, name: str) -> int:
    """An argument that is an integer. E258: anything else."""
    number = arithmetic.whole_number(value)
    if number is None:
        raise catalogue.E258.error(operation=operation, wanted=f"an int as {name}", given=arithmetic.describe(value))
    return number


def _check_function(value: Any, operation: str, name: str) -> None:
    """E258 for an index map that is no function."""
    if value is not None and not callable(value):
        raise catalogue.E258.error(operation=operation, wanted=f"a function of the indices as {name}", given=arithmetic.describe(value))


def _tile(buffer: Any, operation: str) -> Any:
    """What has a shape and a dtype. E222: anything else."""
    if not hasattr(buffer, "shape") or not hasattr(buffer, "dtype"):
        raise catalogue.E222.error(operation=operation, given=arithmetic.describe(buffer))
    return buffer


class Layout:
    """``forward_fn(i, j, ...)`` gives the storage index (or indices) of element (i, j, ...) of a tile of ``shape``.

    ``kind`` is "map" for a function, or the name of a family that each target instantiates for itself ("swizzle", "padded", "bank").
    E205: a size that is no integer; E258: no function, or no name.
    """

    def __init__(self, shape: Any, forward_fn: Callable[..., Any] | None = None, *, kind: str = "map") -> None:
        self.shape = _sizes(shape)
        _check_function(forward_fn, "a layout", "forward_fn")
        if not isinstance(kind, str):
            raise catalogue.E258.error(operation="a layout", wanted="the name of a family as kind", given=arithmetic.describe(kind))
        self.kind = kind
        self._forward = forward_fn

    @property
    def has_map(self) -> bool:
        """Whether it says itself where elements are stored."""
        return self._forward is not None

    def index(self, *indices: Any) -> tuple[Any, ...]:
        """The storage indices of an element, from Python ints or scalars. ValueError for a family: its target chooses the map."""
        if self._forward is None:
            raise ValueError(f"a {self.kind} layout is instantiated by the target: it has no index map before that")
        result = self._forward(*indices)
        return tuple(result) if isinstance(result, (tuple, list)) else (result,)

    def map_forward_index(self, indices: Sequence[Any]) -> list[Any]:
        """As :meth:`index`, from a sequence of indices."""
        return list(self.index(*indices))

    def get_input_shape(self) -> list[Any]:
        """The tile's extents."""
        return list(self.shape)

    def get_output_shape(self) -> list[int]:
        """The extents of the storage: one more than the largest index in each dimension."""
        images = list(self.table().values())
        return [max(image[axis] for image in images) + 1 for axis in range(len(images[0]))] if images else []

    def table(self) -> dict[Indices, Indices]:
        """The storage indices of every element. ValueError where an extent or an index is not a Python int."""
        return {point: self._image(point) for point in product(*(range(n) for n in self._constant_shape()))}

    def _image(self, point: Indices) -> Indices:
        image = self.index(*point)
        if not all(isinstance(i, int) for i in image):
            raise ValueError(f"the layout's function gives {image} for {point}, which are no integers")
        return tuple(int(i) for i in image)

    def _constant_shape(self) -> tuple[int, ...]:
        if not all(isinstance(n, int) for n in self.shape):
            raise ValueError(f"the shape {self.shape} is not known while compiling")
        return self.shape

    def collision(self) -> tuple[Indices, Indices, Indices] | None:
        """Two elements with one storage place, and that place; None where every element has a place of its own."""
        seen: dict[Indices, Indices] = {}
        for point, image in self.table().items():
            if image in seen:
                return seen[image], point, image
            seen[image] = point
        return None

    def is_equal(self, other: Layout) -> bool:
        """Whether both place every element alike."""
        if not isinstance(other, Layout) or self.kind != other.kind or self.shape != other.shape:
            return False
        return self.kind != "map" or self.table() == other.table()

    def repeat(self, dim: int, factor: int) -> Layout:
        """``factor`` copies along input dimension ``dim``: the copy's number is the first storage index.

        ValueError for wrong numbers; E258: what is no number.
        """
        rank = len(self.shape)
        dim, factor = _whole(dim, "repeat", "dim"), _whole(factor, "repeat", "factor")
        if not -rank <= dim < rank:
            raise ValueError(f"dim is {dim}, the layout has {rank} dimensions")
        if factor < 1:
            raise ValueError(f"factor is {factor}, it must be at least 1")
        if factor == 1:
            return self
        axis = dim % rank
        extent = self.shape[axis]

        def forward(*indices: Any) -> list[Any]:
            inner = [i % extent if n == axis else i for n, i in enumerate(indices)]
            return [indices[axis] // extent, *self.index(*inner)]

        return Layout([n * factor if axis == position else n for position, n in enumerate(self.shape)], forward)

    def expand(self, leading_shape: Sequence[int] | int) -> Layout:
        """More leading dimensions, which are storage dimensions too. ValueError for extents below 1, TypeError for what is no shape."""
        if isinstance(leading_shape, bool) or not isinstance(leading_shape, (int, tuple, list)):
            raise TypeError(f"a leading shape is an int or a sequence of ints, not {leading_shape!r}")
        leading = _sizes(leading_shape)
        if any(n < 1 for n in leading):
            raise ValueError(f"the extents {leading} must be at least 1")
        if not leading:
            return self
        return Layout((*leading, *self.shape), lambda *indices: [*indices[: len(leading)], *self.index(*indices[len(leading) :])])

    def reshape(self, shape: Any) -> Layout:
        """The same storage for the elements in row-major order under another input shape. ValueError for another number of elements."""
        sizes = _sizes(shape)
        if math.prod(sizes) != math.prod(self._constant_shape()):
            raise ValueError(f"{self.shape} and {sizes} have different numbers of elements")

        def forward(*indices: Any) -> tuple[Any, ...]:
            flat: Any = 0
            for index, size in zip(indices, sizes):
                flat = flat * size + index
            return self.index(*_unflattened(flat, self.shape))

        return Layout(sizes, forward)

    def inverse(self) -> Layout:
        """From storage indices to the element's. Of Python ints only. ValueError where the layout is not one to one onto its storage."""
        back = {image: point for point, image in self.table().items()}
        shape = self.get_output_shape()
        if len(back) != math.prod(self._constant_shape()) or len(back) != math.prod(shape):
            raise ValueError("the layout has no inverse: it is not one to one onto its storage")
        return Layout(shape, lambda *indices: back[tuple(int(i) for i in indices)])

    def as_map(self, names: Sequence[str]) -> layouts.Layout:
        """The layout as a value of the algebra: from dimensions of these names to "offset", row-major in the storage.

        ValueError as :meth:`table`; CompileError E321 where the function is no layout of the algebra.
        """
        import numpy as np

        from zellige.layouts import OFFSET, fitted

        extents = self.get_output_shape()
        offsets = []
        for image in self.table().values():
            offset = 0
            for index, extent in zip(image, extents):
                offset = offset * extent + index
            offsets.append(offset)
        sizes = dict(zip(names, self._constant_shape()))
        return fitted(sizes, {OFFSET: math.prod(extents)}, {OFFSET: np.array(offsets).reshape(tuple(sizes.values()))})

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.shape}, {self.kind})"


def _unflattened(flat: Any, shape: Sequence[Any]) -> list[Any]:
    indices: list[Any] = []
    for size in reversed(shape[1:]):
        indices.insert(0, flat % size)
        flat = flat // size
    return [flat, *indices]


_COPY = "copy"


class Fragment(Layout):
    """Where elements of a tile live in registers: ``forward_fn(i, j[, rep]) -> (lane, index)``, or the two functions by themselves.

    ``replicate`` is the number of copies of each element; with more than one the functions take the copy's number last.
    """

    def __init__(
        self,
        shape: Any,
        forward_fn: Callable[..., Any] | None = None,
        forward_thread_fn: Callable[..., Any] | None = None,
        replicate: int = 1,
        forward_index_fn: Callable[..., Any] | None = None,
    ) -> None:
        if (forward_fn is None) == (forward_thread_fn is None):
            raise ValueError("give forward_fn, or forward_thread_fn with or without forward_index_fn")
        super().__init__(shape)
        for name, function in (
            ("forward_fn", forward_fn), ("forward_thread_fn", forward_thread_fn), ("forward_index_fn", forward_index_fn)
        ):  # fmt: skip
            _check_function(function, "a fragment", name)
        replicate = _whole(replicate, "a fragment", "replicate")
        if replicate < 1:
            raise ValueError(f"replicate is {replicate}, it must be at least 1")
        self.copies = replicate
        self._pair = forward_fn
        self._lane = forward_thread_fn
        self._index = forward_index_fn

    @property
    def has_map(self) -> bool:
        """Always: one of its functions is given."""
        return True

    def place(self, *indices: Any, copy: Any = 0) -> tuple[Any, Any]:
        """(lane, index within the lane) of a copy of an element."""
        if self._pair is not None:
            lane, index = self._pair(*self._with_copy(self._pair, indices, copy))
            return lane, index
        assert self._lane is not None
        lane = self._lane(*self._with_copy(self._lane, indices, copy))
        return lane, 0 if self._index is None else self._index(*indices)

    def index(self, *indices: Any) -> tuple[Any, ...]:
        """The index (or indices) within the lane."""
        found = self.place(*indices)[1]
        return tuple(found) if isinstance(found, (tuple, list)) else (found,)

    def map_forward_thread(self, indices: Sequence[Any]) -> Any:
        """The lane of an element's first copy; the copy's number may follow the indices."""
        rank = len(self.shape)
        return self.place(*indices[:rank], copy=indices[rank] if len(indices) > rank else 0)[0]

    def get_thread_size(self) -> int:
        """One more than the largest lane."""
        points = product(*(range(n) for n in self._constant_shape()), range(self.copies))
        return max(int(self.map_forward_thread(point)) for point in points) + 1

    def is_equal(self, other: Layout) -> bool:
        """Whether both place every copy of every element alike."""
        if not isinstance(other, Fragment) or self.shape != other.shape or self.copies != other.copies:
            return False
        points = product(*(range(n) for n in self._constant_shape()), range(self.copies))
        return all(self.place(*p[:-1], copy=p[-1]) == other.place(*p[:-1], copy=p[-1]) for p in points)

    def replicate(self, factor: int) -> Fragment:
        """``factor`` copies on further lanes: copy c of the new ones lies a whole fragment of lanes after the one before."""
        lanes = self.get_thread_size()
        old, factor = self.copies, _whole(factor, "replicate", "factor")

        def forward(*indices: Any) -> tuple[Any, Any]:
            *point, copy = indices
            lane, index = self.place(*point, copy=copy % old)
            return lane + copy // old * lanes, index

        return Fragment(self.shape, forward, replicate=old * factor)

    def as_map(self, names: Sequence[str]) -> layouts.Layout:
        """The fragment as a value of the algebra: from (register, lane) to dimensions of these names.

        ValueError where registers are several numbers; CompileError E321 or E322 where the function is no layout of the algebra, or a lane
        or a register of one holds nothing.
        """
        import numpy as np

        from zellige.layouts import LANE, REGISTER, fitted, invert, sliced

        shape = (*self._constant_shape(), self.copies)
        placed = [self.place(*point[:-1], copy=point[-1]) for point in product(*(range(n) for n in shape))]
        if not all(isinstance(register, int) for _, register in placed):
            raise ValueError("the fragment gives several numbers for a place within a lane")
        table = {name: np.array([place[n] for place in placed]).reshape(shape) for n, name in ((1, REGISTER), (0, LANE))}
        outputs = {name: int(array.max()) + 1 for name, array in table.items()}
        inputs = dict(zip((*names, _COPY), shape))
        return sliced(invert(fitted(inputs, outputs, table)), [_COPY])

    def _with_copy(self, function: Callable[..., Any], indices: tuple[Any, ...], copy: Any) -> tuple[Any, ...]:
        parameters = inspect.signature(function).parameters.values()
        takes_more = any(p.kind is inspect.Parameter.VAR_POSITIONAL for p in parameters)
        wanted = len(parameters) if not takes_more else len(self.shape) + (self.copies > 1)
        return (*indices, copy) if wanted == len(self.shape) + 1 else indices

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.shape}, replicate={self.copies})"


class PartialFragment(Fragment):
    """Where the partial results of a reducer live: ``combine`` copies of an element are added up, all of them unless it is given."""

    def __init__(
        self,
        shape: Any,
        forward_fn: Callable[..., Any] | None = None,
        forward_thread_fn: Callable[..., Any] | None = None,
        replicate: int = 1,
        forward_index_fn: Callable[..., Any] | None = None,
        combine: int | None = None,
    ) -> None:
        super().__init__(shape, forward_fn, forward_thread_fn, replicate, forward_index_fn)
        self.combine = self.copies if combine is None else _whole(combine, "a fragment", "combine")
        if self.combine < 1 or self.copies % self.combine:
            raise ValueError(f"combine is {self.combine} and must divide replicate, {self.copies}")

    @staticmethod
    def from_fragment(fragment: Fragment) -> PartialFragment:
        """The same places for partial results, all copies of which are combined."""
        return PartialFragment(fragment.shape, _taking_copy(fragment), replicate=fragment.copies)

    def as_post_collective(self) -> Fragment:
        """The same places for the combined results, which every copy then holds."""
        return Fragment(self.shape, _taking_copy(self), replicate=self.copies)


def _taking_copy(fragment: Fragment) -> Callable[..., tuple[Any, Any]]:
    rank = len(fragment.shape)
    return lambda *indices: fragment.place(*indices[:rank], copy=indices[rank] if len(indices) > rank else 0)


class SwizzleMode(enum.Enum):
    """The width of the rows within which a swizzle exchanges pieces, in bytes."""

    NONE = 0
    SWIZZLE_32B = 32
    SWIZZLE_64B = 64
    SWIZZLE_128B = 128


def make_swizzled_layout(buffer: Any, k_major: bool = True, allow_pad: bool = True) -> Layout:
    """A layout of a tile free of bank conflicts, instantiated by each target for its own banks. E222: no tile; E258: no flag."""
    for name, value in (("k_major", k_major), ("allow_pad", allow_pad)):
        if not isinstance(arithmetic.python_number(value), int):
            given = arithmetic.describe(value)
            raise catalogue.E258.error(operation="make_swizzled_layout", wanted=f"True or False as {name}", given=given)
    return Layout(_tile(buffer, "make_swizzled_layout").shape, kind="swizzle")


def make_full_bank_swizzled_layout(buffer: Any) -> Layout:
    """Row-major storage in which the 16-byte pieces of every 128 bytes are exchanged by three bits of the number of the 128 bytes."""
    return _exchanged(buffer, SwizzleMode.SWIZZLE_128B)


def make_half_bank_swizzled_layout(buffer: Any) -> Layout:
    """As :func:`make_full_bank_swizzled_layout`, within 64 bytes by two bits."""
    return _exchanged(buffer, SwizzleMode.SWIZZLE_64B)


def make_quarter_bank_swizzled_layout(buffer: Any) -> Layout:
    """As :func:`make_full_bank_swizzled_layout`, within 32 bytes by one bit."""
    return _exchanged(buffer, SwizzleMode.SWIZZLE_32B)


def _exchanged(buffer: Any, mode: SwizzleMode) -> Layout:
    """The storage that copy engines know by ``mode``: the same bits of a place as theirs, whatever the length of a row."""
    pieces = mode.value // 16
    piece = 128 // dtype(_tile(buffer, "a swizzled layout").dtype).storage_bits
    linear = make_linear_layout(buffer)

    def forward(*indices: Any) -> Any:
        place = linear.index(*indices)[0]
        return place ^ ((place // (8 * piece) % pieces) * piece)

    return Layout(linear.shape, forward)


def make_linear_layout(*shape: Any) -> Layout:
    """Row-major storage without gaps, of a tile or of a shape."""
    sizes = _sizes(shape[0].shape if len(shape) == 1 and hasattr(shape[0], "shape") else shape[0] if len(shape) == 1 else shape)

    def forward(*indices: Any) -> Any:
        offset: Any = 0
        for index, size in zip(indices, sizes):
            offset = offset * size + index
        return offset

    return Layout(sizes, forward)


def make_fully_replicated_layout_fragment(buffer: Any, threads: int) -> Fragment:
    """Every lane of ``threads`` holds the whole tile, row-major."""
    linear = make_linear_layout(buffer)
    return Fragment(linear.shape, lambda *indices: (indices[-1], linear.index(*indices[:-1])[0]), replicate=threads)


def make_fully_replicated_partial_fragment(shape: Any, thread_extent: int) -> PartialFragment:
    """Every lane of ``thread_extent`` holds a partial result of every element, row-major."""
    linear = make_linear_layout(_sizes(shape))
    return PartialFragment(linear.shape, lambda *indices: (indices[-1], linear.index(*indices[:-1])[0]), replicate=thread_extent)


def __getattr__(name: str) -> Any:
    """The layouts of single devices, found in their backends' manifests: using one elsewhere is E401."""
    if not name.startswith("_"):
        from zellige.language.refused import DialectOnly
        from zellige.plugin.registry import registry

        targets = registry().dialect_targets(name)
        if targets:
            return DialectOnly(name, targets)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "Fragment",
    "Layout",
    "PartialFragment",
    "SwizzleMode",
    "make_full_bank_swizzled_layout",
    "make_fully_replicated_layout_fragment",
    "make_fully_replicated_partial_fragment",
    "make_half_bank_swizzled_layout",
    "make_linear_layout",
    "make_quarter_bank_swizzled_layout",
    "make_swizzled_layout",
]
