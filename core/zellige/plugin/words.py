"""Names that a backend cannot have for its own, since nobody would ever reach it: those of the kernel language, the attributes of
every compiled kernel, and the keys of configuration that are options of every compilation.

In: nothing. Out: :func:`is_word`, :data:`OF_KERNELS`, :data:`OPTIONS`. Written by ``python tools/language_words.py``; a test holds it to
the language.
"""

from __future__ import annotations

from typing import Final

from zellige.dtypes import UnknownDType, dtype

_LIST: Final = """
And AnyDType BaseTileScheduler Broadcast Buffer Cast Fragment FragmentBuffer GemmWarpPolicy Kernel Layout LocalBuffer Not Or Parallel
PartialFragment Persistent PersistentTileScheduler Pipelined PrimExpr PrimFunc Ramp Range Ref Select Serial SharedBuffer StridedTensor
Tensor Unroll Var Vectorized While __ffs __fns __ldg abs abs2 access_ptr acos acosh activemask add2 address_of aggregates align_up all_of
all_sync alloc_barrier alloc_buffer alloc_fragment alloc_global alloc_local alloc_reducer alloc_shared alloc_var allocate allreduce
annotate_compile_flags annotate_l2_hit_ratio annotate_layout annotate_min_blocks_per_sm annotate_pass_configs annotate_restrict_buffers
annotate_safe_value annotations any_of any_sync asin asinh assume async_copy atan atan2 atanh atomic_add atomic_addx2 atomic_addx4
atomic_load atomic_max atomic_min atomic_or atomic_store atomics attr ballot ballot_sync bfloat16 bitwise_and bitwise_not bitwise_or
bitwise_xor bool boolean c2d_im2col call_extern call_pure_extern cast cbrt cdiv ceil ceildiv clamp clear clz comm_reducer const copy
copysign cos cosh cummax cumsum debug device_assert dialects directed double dp4a dtype dtypes dynamic elementwise elsewhere empty erf erfc
evaluate exp exp10 exp2 expm1 extract_lane fabs fast_rcp fill finalize_reducer float float16 float32 float4_e2m1_unpacked float4_e2m1fn
float64 float6_e2m3fn float6_e3m2fn float8_e3m4 float8_e4m3 float8_e4m3b11fnuz float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz
float8_e8m0 float8_e8m0fnu floor floordiv floormod fma fma2 fmod fmul folds fp8 func_attr gemm gemm_blockscaled gemm_sp get_block_binding
get_block_bindings get_block_extent get_block_extents get_lane_idx get_thread_binding get_thread_bindings get_thread_extent
get_thread_extents get_warp_group_idx get_warp_idx get_warp_idx_sync grid half handle hints hypot ieee_add ieee_fdiv ieee_fmaf ieee_frcp
ieee_frsqrt ieee_fsqrt ieee_mul ieee_sub if_then_else im2col import_source infinity inline int int16 int32 int4 int64 int8 integers isfinite
isinf isnan kernel keywords lanes launch_thread ldexp ldg128 ldg256 ldg32 ldg64 lds128 lds32 lds64 let likely log log10 log1p log2 long
loop_break loops macro make_tensor make_tensor_from_addr match_all_sync match_any_sync match_buffer matches max max2 max_value meta_class
min min2 min_value movement mul2 nearbyint nextafter numerics outputs parallel popcount pow prim_func print products ptr q_multiply_shift
q_multiply_shift_per_axis random reduce reduce_absmax reduce_abssum reduce_bitand reduce_bitor reduce_bitxor reduce_max reduce_min
reduce_sum reducer_init reducer_update reducers reductions refused reinterpret reshape rng_init rng_rand rng_rand_float round rsqrt
schedulers serial shfl_down shfl_sync shfl_up shfl_xor shift_left shift_right short shuffle_elect sigmoid sin sinh sqrt stg128 stg256 stg32
stg64 stochastic sts128 sts32 sts64 sub2 sum symbolic sync_grid sync_threads sync_warp syncthreads_and syncthreads_count syncthreads_or tan
tanh tensors tfloat32 thread_binding transpose trunc truncdiv truncmod tvm_thread_allreduce uint uint16 uint32 uint4 uint64 uint8 unroll
use_swizzle vectorized vectors view views warp_reduce_bitand warp_reduce_bitor warp_reduce_max warp_reduce_min warp_reduce_sum words
"""

WORDS: Final = frozenset(_LIST.split())

_LIST_OF_KERNELS: Final = """
config device export_source export_sources from_outline get_asm get_kernel_source get_profiler get_tir get_tuner_result host_source ir_text
kernel kernel_source latency options out_idx params prim_func print_source_code ref_latency run_once show_source signature target
update_tuner_result
"""

OF_KERNELS: Final = frozenset(_LIST_OF_KERNELS.split())
"""Attributes of every compiled kernel, but those that ask its backend."""

OPTIONS: Final = {
    "tl.enable_fast_math": "fast_math",
    "tl.disable_warp_specialized": "specialise",
    "tl.disable_thread_storage_sync": "synchronise_shared",
    "tl.config_index_bitwidth": "index_bits",
    "tl.device_compile_flags": "compile_flags",
}
"""Keys that are options of every compilation, and what ``acts_on`` calls them."""


def is_word(name: str) -> bool:
    """Whether the language itself has ``T.<name>``: one of its names, or a type of elements such as ``float32x4``."""
    if name in WORDS:
        return True
    try:
        dtype(name)
    except UnknownDType:
        return False
    return True
