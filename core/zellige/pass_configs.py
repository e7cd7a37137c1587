"""Pass configs: the dictionary of switches that programs hand to jit, as options of a compilation.

In: keys (members of :class:`PassConfigKey` or their text) with values, and the target. Out: the fields of
:class:`~zellige.options.CompileOptions` that they set. Keys of a backend are handed to it; any other key has no effect and is named
once in a warning.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from zellige.diagnostics import catalogue
from zellige.diagnostics.suggest import closest
from zellige.diagnostics.warn import warn
from zellige.options import CompileOptions
from zellige.plugin.registry import registry
from zellige.target import Target


class ConfigName(str):
    """The text of a key; ``value`` is the same text, as of a member of an enumeration."""

    __slots__ = ()

    @property
    def value(self) -> str:
        return str(self)


class _BackendKeys(type):
    """Finds the keys that belong to a backend in its manifest."""

    def __getattr__(cls, name: str) -> ConfigName:
        if name.isupper():
            key = registry().config_key(name)
            if key is not None:
                return ConfigName(key)
        raise AttributeError(f"PassConfigKey has no member {name!r}{closest(name, dir(cls))}")


class PassConfigKey(metaclass=_BackendKeys):
    """The keys that every target knows by name; those of :data:`OPTION_KEYS` become options, the others are accepted."""

    TL_ENABLE_FAST_MATH = ConfigName("tl.enable_fast_math")
    TL_DISABLE_WARP_SPECIALIZED = ConfigName("tl.disable_warp_specialized")
    TL_DISABLE_THREAD_STORAGE_SYNC = ConfigName("tl.disable_thread_storage_sync")
    TL_CONFIG_INDEX_BITWIDTH = ConfigName("tl.config_index_bitwidth")
    TL_DEVICE_COMPILE_FLAGS = ConfigName("tl.device_compile_flags")

    TL_SIMPLIFY = ConfigName("tl.Simplify")
    TL_DISABLE_BUFFER_INIT_CHECK = ConfigName("tl.disable_buffer_init_check")
    TL_DISABLE_DATA_RACE_CHECK = ConfigName("tl.disable_data_race_check")
    TL_DISABLE_PRELOWER_SEMANTIC_CHECK = ConfigName("tl.disable_prelower_semantic_check")
    TL_ENABLE_AUTO_SCHEDULE = ConfigName("tl.enable_auto_schedule")
    TL_ENABLE_AUTO_WARP_SPECIALIZATION = ConfigName("tl.enable_auto_warp_specialization")
    TL_EMIT_LINE_DIRECTIVES = ConfigName("tl.emit_line_directives")
    TL_ENABLE_REDUCER_PLAN_VERBOSE = ConfigName("tl.enable_reducer_plan_verbose")
    TL_LAYOUT_COST_MODEL = ConfigName("tl.layout_cost_model")
    TL_REDUCER_FORCE_BASELINE = ConfigName("tl.reducer_force_baseline")
    TL_DISABLE_SAFE_MEMORY_ACCESS = ConfigName("tl.disable_safe_memory_legalize")
    TL_DISABLE_VECTORIZE_256 = ConfigName("tl.disable_vectorize_256")
    TL_ENABLE_FP32X2_REDUCTION = ConfigName("tl.enable_fp32x2_reduction")
    TL_ENABLE_ASYNC_COPY = ConfigName("tl.enable_async_copy")
    TL_ENABLE_VECTORIZE_PLANNER_VERBOSE = ConfigName("tl.enable_vectorize_planner_verbose")
    TL_DEBUG_MERGE_SHARED_MEMORY_ALLOCATIONS = ConfigName("tl.debug_merge_shared_memory_allocations")
    TL_ENABLE_AGGRESSIVE_SHARED_MEMORY_MERGE = ConfigName("tl.enable_aggressive_shared_memory_merge")
    TL_DISABLE_SHARED_MEMORY_REUSE = ConfigName("tl.disable_shared_memory_reuse")
    TL_DISABLE_LOOP_UNSWITCHING = ConfigName("tl.disable_loop_unswitching")
    TL_LOOP_UNSWITCHING_ALLOW_NON_TRIVIAL_ELSE = ConfigName("tl.loop_unswitching_allow_non_trivial_else")
    TL_IF_STMT_BINDING_INLINE_REPLAYABLE_BINDS = ConfigName("tl.if_stmt_binding_inline_replayable_binds")
    TL_FORCE_LET_INLINE = ConfigName("tl.force_let_inline")
    TL_AST_PRINT_ENABLE = ConfigName("tl.ast_print_enable")
    TL_LAYOUT_VISUALIZATION_ENABLE = ConfigName("tl.layout_visualization_enable")
    TL_LAYOUT_VISUALIZATION_FORMATS = ConfigName("tl.layout_visualization_formats")
    TL_STORAGE_REWRITE_DETECT_INPLACE = ConfigName("tl.storage_rewrite_detect_inplace")
    TL_DISABLE_OUT_OF_BOUND_WARNING = ConfigName("tl.disable_out_of_bound_warning")
    TL_ENABLE_DUMP_IR = ConfigName("tl.enable_dump_ir")
    TL_DUMP_IR_DIR = ConfigName("tl.dump_ir_path")
    TL_PASS_PROFILE = ConfigName("tl.pass_profile")
    TL_PASS_PROFILE_THRESHOLD_MS = ConfigName("tl.pass_profile_threshold_ms")
    TIR_ENABLE_EQUIV_TERMS_IN_CSE = ConfigName("tir.enable_equiv_terms_in_cse_tir")
    TIR_DISABLE_CSE = ConfigName("tirx.disable_cse_tir")
    TIR_SIMPLIFY = ConfigName("tirx.Simplify")
    TIR_DISABLE_STORAGE_REWRITE = ConfigName("tirx.disable_storage_rewrite")
    TIR_DISABLE_VECTORIZE = ConfigName("tirx.disable_vectorize")
    TIR_USE_ASYNC_COPY = ConfigName("tirx.use_async_copy")
    TIR_ENABLE_DEBUG = ConfigName("tirx.enable_debug")
    TIR_MERGE_STATIC_SMEM = ConfigName("tirx.merge_static_smem")
    TIR_ADD_LOWER_PASS = ConfigName("tirx.add_lower_pass")
    TIR_NOALIAS = ConfigName("tirx.noalias")


OPTION_KEYS: Final[Mapping[str, str]] = {
    "fast_math": PassConfigKey.TL_ENABLE_FAST_MATH,
    "specialise": PassConfigKey.TL_DISABLE_WARP_SPECIALIZED,
    "synchronise_shared": PassConfigKey.TL_DISABLE_THREAD_STORAGE_SYNC,
    "index_bits": PassConfigKey.TL_CONFIG_INDEX_BITWIDTH,
    "compile_flags": PassConfigKey.TL_DEVICE_COMPILE_FLAGS,
}
"""The keys that are options of a compilation, by the field of CompileOptions. A target's manifest says which of them it acts on."""


def report_inert(chosen: CompileOptions, target: Target) -> None:
    """E161 for each option that was set and that the backend of ``target`` does not act on. An unknown target is another's error."""
    manifest = registry().manifest_of(target)
    if manifest is None:
        return
    default = CompileOptions()
    for name, key in OPTION_KEYS.items():
        if getattr(chosen, name) != getattr(default, name) and name not in manifest.acts_on:
            _warn_of_inert(str(key), target)


def known_keys() -> frozenset[str]:
    """The text of every key that is a member of :class:`PassConfigKey` itself."""
    return frozenset(value for value in vars(PassConfigKey).values() if isinstance(value, ConfigName))


def option_fields(configs: Mapping[Any, Any], target: Target) -> dict[str, Any]:
    """The fields of CompileOptions that ``configs`` set for ``target``.

    E159 for a value that a key cannot have; E161 warns of a key without effect.
    """
    fields: dict[str, Any] = {}
    for_backend: list[tuple[str, Any]] = []
    for key, value in configs.items():
        name = str(getattr(key, "value", key))
        match name:
            case PassConfigKey.TL_ENABLE_FAST_MATH:
                fields["fast_math"] = switch(name, value)
            case PassConfigKey.TL_DISABLE_WARP_SPECIALIZED:
                fields["specialise"] = not switch(name, value)
            case PassConfigKey.TL_DISABLE_THREAD_STORAGE_SYNC:
                fields["synchronise_shared"] = not switch(name, value)
            case PassConfigKey.TL_CONFIG_INDEX_BITWIDTH:
                if value not in (None, 32, 64):
                    raise catalogue.E159.error(option=name, reason=f"expected 32 or 64, not {value!r}")
                fields["index_bits"] = value
            case PassConfigKey.TL_DEVICE_COMPILE_FLAGS:
                fields["compile_flags"] = flags(name, value)
            case _:
                owners = registry().config_targets(name)
                manifest = registry().manifest_of(target)
                if target.name not in owners or manifest is None:
                    _warn(name, owners, target)
                elif name in manifest.acts_on:
                    for_backend.append((name, value))
                else:
                    _warn_of_inert(name, target)
    if for_backend:
        fields["backend_configs"] = tuple(for_backend)
    return fields


def flags(option: str, value: Any) -> tuple[str, ...]:
    """Flags given as one text or a sequence of texts; E159 for anything else."""
    if value is None:
        return ()
    items = [value] if isinstance(value, str) else list(value) if isinstance(value, Iterable) else [value]
    if not all(isinstance(item, str) for item in items):
        raise catalogue.E159.error(option=option, reason=f"expected text or a list of texts, not {value!r}")
    return tuple(items)


def switch(name: str, value: Any) -> bool:
    """The value of a key that is on or off; E159 for anything else."""
    if isinstance(value, (bool, int)) and value in (0, 1):
        return bool(value)
    raise catalogue.E159.error(option=name, reason=f"expected True or False, not {value!r}")


def _warn_of_inert(key: str, target: Target) -> None:
    warn(catalogue.E161.diagnose(key=key, reason=f"nothing on the target {target} depends on it", severity="warning"))


def _warn(name: str, owners: tuple[str, ...], target: Target) -> None:
    if owners:
        reason = f"it belongs to {', '.join(owners)}, and this kernel is compiled for {target}"
    elif name in known_keys():
        reason = "nothing here needs it"
    else:
        reason = f"no such key is known{closest(name, known_keys())}"
    warn(catalogue.E161.diagnose(key=name, reason=reason, severity="warning"))
