"""The kernel language: ``import zellige.language as T``.

Each name is documented where it is defined; docs/language-names.md lists all of them. Names of one target's dialect are found through its
backend's manifest; a name that nobody has is an AttributeError with a suggestion.
"""

from __future__ import annotations

from typing import Any as _Any

from zellige.diagnostics.suggest import closest as _closest
from zellige.dtypes import DType as dtype, UnknownDType as _UnknownDType
from zellige.frontend.functions import macro
from zellige.frontend.primfunc import PrimFunc, prim_func
from zellige.frontend.specs import ReferenceSpec as Ref
from zellige.frontend.values import Scalar as PrimExpr
from zellige.language.aggregates import all_of, any_of, im2col, max, min, sum
from zellige.language.allocate import (
    alloc_barrier,
    alloc_buffer,
    alloc_fragment,
    alloc_global,
    alloc_local,
    alloc_shared,
    alloc_var,
)
from zellige.language.allreduce import attr, comm_reducer, tvm_thread_allreduce
from zellige.language.atomics import (
    atomic_add,
    atomic_addx2,
    atomic_addx4,
    atomic_load,
    atomic_max,
    atomic_min,
    atomic_or,
    atomic_store,
)
from zellige.language.debug import assume, device_assert, evaluate, let, print
from zellige.language.dtypes import ALIASES as _DTYPE_ALIASES, NAMES as _DTYPES, AnyDType, type_name as _type_name
from zellige.language.elementwise import (
    UNARY_FLOAT as _UNARY_FLOAT,
    And,
    Or,
    Select,
    abs,
    atan2,
    clamp,
    copysign,
    fabs,
    fmod,
    hypot,
    if_then_else,
    infinity,
    isfinite,
    isinf,
    isnan,
    ldexp,
    max_value,
    min_value,
    nextafter,
    pow,
)
from zellige.language.elsewhere import ELSEWHERE as _ELSEWHERE
from zellige.language.hints import (
    annotate_compile_flags,
    annotate_l2_hit_ratio,
    annotate_layout,
    annotate_min_blocks_per_sm,
    annotate_pass_configs,
    annotate_restrict_buffers,
    annotate_safe_value,
    func_attr,
    use_swizzle,
)
from zellige.language.integers import (
    Not,
    align_up,
    bitwise_and,
    bitwise_not,
    bitwise_or,
    bitwise_xor,
    cdiv,
    ceildiv,
    clz,
    dp4a,
    ffs as _ffs,
    floordiv,
    floormod,
    popcount,
    shift_left,
    shift_right,
    truncdiv,
    truncmod,
)
from zellige.language.kernel import Kernel
from zellige.language.lanes import (
    activemask,
    all_sync,
    any_sync,
    ballot,
    ballot_sync,
    get_block_binding,
    get_block_bindings,
    get_block_extent,
    get_block_extents,
    get_lane_idx,
    get_thread_binding,
    get_thread_bindings,
    get_thread_extent,
    get_thread_extents,
    get_warp_group_idx,
    get_warp_idx,
    get_warp_idx_sync,
    launch_thread,
    shfl_down,
    shfl_sync,
    shfl_up,
    shfl_xor,
    shuffle_elect,
    sync_grid,
    sync_threads,
    sync_warp,
    syncthreads_and,
    syncthreads_count,
    syncthreads_or,
    thread_binding,
    warp_reduce_bitand,
    warp_reduce_bitor,
    warp_reduce_max,
    warp_reduce_min,
    warp_reduce_sum,
)
from zellige.language.loops import (
    Parallel,
    Persistent,
    Pipelined,
    Serial,
    Unroll,
    Vectorized,
    While,
    grid,
    loop_break,
    serial,
    unroll,
    vectorized,
)
from zellige.language.matches import fns as _fns, match_all_sync, match_any_sync
from zellige.language.movement import async_copy, clear, copy, fill, transpose
from zellige.language.numerics import (
    FAST as _FAST,
    Cast_ as Cast,
    cast,
    fast_rcp,
    fma,
    fmul,
    ieee_add,
    ieee_fdiv,
    ieee_fmaf,
    ieee_frcp,
    ieee_frsqrt,
    ieee_fsqrt,
    ieee_mul,
    ieee_sub,
    likely,
    nearbyint,
    reinterpret,
    round,
)
from zellige.language.outputs import const, empty, handle, make_tensor, match_buffer, ptr
from zellige.language.products import GemmWarpPolicy, gemm, gemm_blockscaled, gemm_sp
from zellige.language.random import rng_init, rng_rand, rng_rand_float
from zellige.language.reducers import alloc_reducer, finalize_reducer, reducer_init, reducer_update
from zellige.language.reductions import (
    cummax,
    cumsum,
    reduce_absmax,
    reduce_abssum,
    reduce_bitand,
    reduce_bitor,
    reduce_bitxor,
    reduce_by_name as reduce,
    reduce_max,
    reduce_min,
    reduce_sum,
)
from zellige.language.refused import NOT_YET as _NOT_YET, DialectOnly as _DialectOnly, NotAvailable as _NotAvailable
from zellige.language.schedulers import BaseTileScheduler, PersistentTileScheduler, inline, meta_class
from zellige.language.tensors import (
    Buffer,
    FragmentBuffer,
    LocalBuffer,
    SharedBuffer,
    StridedTensor,
    Tensor,
    Var,
    dynamic,
    symbolic,
)
from zellige.language.vectors import PAIRS as _PAIRS, Broadcast, Ramp, access_ptr, address_of, extract_lane, read as _read
from zellige.language.views import reshape, view
from zellige.language.words import WORDS as _WORDS
from zellige.layout import Fragment, Layout, PartialFragment

c2d_im2col = im2col
parallel = Parallel
for _table in (_UNARY_FLOAT, _FAST, _DTYPES, _PAIRS, _WORDS):
    globals().update(_table)
globals().update({"__ffs": _ffs, "__fns": _fns, "__ldg": _read})


def _made_when_asked(name: str) -> _Any:
    """A vector dtype, the alias of a dtype or a refused name of the language; None for another."""
    if name in _DTYPE_ALIASES:
        return _type_name(_DTYPE_ALIASES[name])
    if "x" in name and not name.startswith("_"):
        try:
            return _type_name(name)
        except _UnknownDType:
            pass  # not a vector dtype: the name is looked for below
    return _NotAvailable(f"T.{name}", _NOT_YET[name]) if name in _NOT_YET else None


def __getattr__(name: str) -> _Any:
    """Vector dtypes, dtype aliases, refused names and the dialects' names, found when they are asked for."""
    made = _made_when_asked(name)
    if made is not None:
        return made
    if not name.startswith("__"):
        from zellige.plugin.registry import registry

        targets = registry().dialect_targets(name)
        if targets:
            found = registry().dialect_object(name)
            return _DialectOnly(name, targets) if found is None else found
    if name in _ELSEWHERE:
        raise AttributeError(f"the language has no T.{name}: {_ELSEWHERE[name]}")
    raise AttributeError(f"the language has no T.{name}{_closest(name, [n for n in globals() if not n.startswith('_')], 'T.{}')}")
