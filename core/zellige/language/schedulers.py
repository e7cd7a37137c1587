"""Helpers with state that exist while a kernel is traced: T.meta_class, T.inline, T.PersistentTileScheduler."""

from __future__ import annotations

import types
from typing import Any, TypeVar

from zellige.dtypes import dtype as as_dtype
from zellige.frontend import arithmetic
from zellige.frontend.functions import macro
from zellige.frontend.values import Scalar, Variable, declare, here
from zellige.language.aggregates import max, min
from zellige.language.integers import ceildiv
from zellige.language.keywords import check_hints, count_of, flag
from zellige.language.lanes import get_block_extent

C = TypeVar("C", bound=type)

inline = macro
"""``@T.inline``: a method whose body is expanded where it is called, as ``@T.macro`` does with a function."""


def meta_class(cls: C) -> C:
    """A class of helpers whose methods are expanded where they are called, so that ``if`` and loops in them may be run-time ones.

    Its objects exist while a kernel is traced; what they keep in ``T.alloc_var`` variables is state of the kernel. Special methods and
    properties stay Python's.
    """
    for name, member in list(vars(cls).items()):
        if isinstance(member, types.FunctionType) and not (name.startswith("__") and name.endswith("__")):
            setattr(cls, name, macro(member))
    return cls


class BaseTileScheduler:
    """The tiles that one block of a persistent launch works on: tile number ``linear_idx``, at row ``m_idx`` and column ``n_idx``.

    ``current_iter`` counts the tiles that the block has finished. A subclass says in :meth:`coord` where a tile lies and sets
    ``_total_tiles``. Without ``stateful`` only :meth:`coord` can be used.
    """

    def __init__(self, stateful: bool = True, name: str | None = None) -> None:
        self._total_tiles: Any = 0
        self._state: dict[str, Variable] = {}
        check_hints("a scheduler", name=name)
        if flag(stateful, "a scheduler", "stateful"):
            prefix = "" if name is None else f"{name}_"
            for part in ("m_idx", "n_idx", "linear_idx", "current_iter"):
                self._state[part] = declare(f"{prefix}{part}", as_dtype("int32"), 0)

    def _variable(self, part: str) -> Variable:
        if part not in self._state:
            raise ValueError("a scheduler made with stateful=False has no current tile: use coord(tile)")
        return self._state[part]

    @property
    def m_idx(self) -> Scalar:
        """The current tile's row."""
        return self._variable("m_idx")

    @property
    def n_idx(self) -> Scalar:
        """The current tile's column."""
        return self._variable("n_idx")

    @property
    def linear_idx(self) -> Scalar:
        """The current tile's number."""
        return self._variable("linear_idx")

    @property
    def current_iter(self) -> Scalar:
        """How many tiles the block has finished."""
        return self._variable("current_iter")

    def coord(self, tile_id: Any) -> tuple[Any, Any]:
        """Row and column of a tile."""
        raise NotImplementedError("a scheduler says where its tiles lie in coord()")

    def update_current_idx(self, linear_idx: Any) -> None:
        """Moves to a tile."""
        row, column = self.coord(linear_idx)
        self._variable("m_idx").assign(row)
        self._variable("n_idx").assign(column)

    def init(self, linear_init: Any) -> None:
        """Begins with a tile."""
        self._variable("current_iter").assign(0)
        self._variable("linear_idx").assign(linear_init)
        self.update_current_idx(self.linear_idx)

    def next_tile(self, step: Any) -> None:
        """Goes ``step`` tiles on."""
        self._variable("current_iter").assign(self.current_iter + 1)
        self._variable("linear_idx").assign(self.linear_idx + step)
        self.update_current_idx(self.linear_idx)

    def valid(self) -> Any:
        """Whether there is a current tile."""
        return self.linear_idx < self._total_tiles


class PersistentTileScheduler(BaseTileScheduler):
    """The tiles of a grid of ``num_m_tiles`` x ``num_n_tiles``, dealt out to ``num_workers`` blocks (all of the launch, unless given).

    Tiles are numbered along the fast axis (rows where ``column_major``), ``swizzle_size`` of the slow axis side by side. With
    ``cluster_size`` a tile stands for that many rows and a worker for that many blocks. E245: a size below 1; E205: tiles or
    workers that are no integers.
    """

    def __init__(
        self,
        num_m_tiles: Any,
        num_n_tiles: Any,
        num_workers: Any = None,
        swizzle_size: int = 1,
        column_major: bool = True,
        cluster_size: int = 1,
        stateful: bool = True,
        name: str | None = None,
    ) -> None:
        for size in (num_m_tiles, num_n_tiles, *(() if num_workers is None else (num_workers,))):
            arithmetic.index(size, here())
        is_by_columns = flag(column_major, "T.PersistentTileScheduler", "column_major")
        super().__init__(stateful, name)
        self.cluster_size = cluster_size = count_of(cluster_size, "as cluster_size")
        self.swizzle_size = count_of(swizzle_size, "as swizzle_size")
        self.num_workers = get_block_extent(0) // cluster_size if num_workers is None else num_workers
        rows = ceildiv(num_m_tiles, cluster_size)
        self._total_tiles = rows * num_n_tiles
        self._is_column_major = is_by_columns
        self._fast, self._slow = (rows, num_n_tiles) if is_by_columns else (num_n_tiles, rows)

    def coord(self, tile_id: Any) -> tuple[Any, Any]:
        """Row and column of a tile; any number gives some place, also one past the end."""
        panel = tile_id // (self._fast * self.swizzle_size)
        first = panel * self.swizzle_size
        width = max(1, min(self.swizzle_size, self._slow - first))  # the last panel may be narrower
        within = tile_id - panel * (self._fast * self.swizzle_size)
        fast, slow = within // width, first + within % width
        return (fast, slow) if self._is_column_major else (slow, fast)

    def next_tile(self, step: Any = None) -> None:
        """Goes to the block's next tile."""
        super().next_tile(self.num_workers if step is None else step)
