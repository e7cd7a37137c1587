"""E701 to E799: plugins, targets, settings, cache and the command line.

In: nothing. Out: a constant a code.
"""

from __future__ import annotations

from zellige.diagnostics.codes.declaration import code

E701 = code(
    "E701",
    "backend cannot be loaded",
    "the backend {name!r} ({entry_point}) failed to load: {reason}",
    hint="`zellige backends list --verbose` shows the whole traceback; other backends are not affected",
    names_backend=True,
)
E702 = code(
    "E702",
    "backend speaks another version of the contract",
    "the backend {name!r} was written for contract {theirs}, this zellige speaks {ours}",
    hint="install a version of the backend that matches, or another zellige",
    names_backend=True,
)
E703 = code(
    "E703",
    "backend breaks the contract",
    "the backend {name!r} breaks the plugin contract: {reason}",
    hint="zellige.plugin.contract describes every hook and its answer",
    names_backend=True,
)
E704 = code(
    "E704",
    "two backends claim one target",
    "the target {target!r} is claimed by several backends: {backends}",
    hint="uninstall one of them or use a name that only one of them has",
)
E705 = code(
    "E705",
    "unknown target",
    "no backend has a target {target!r}{suggestion}",
    hint="known targets: {known}",
)
E706 = code(
    "E706",
    "target is not available",
    "the target {target!r} is not available: {reason}",
    hint="`zellige backends list` shows what is; `zellige doctor` shows why not",
)
E707 = code(
    "E707",
    "malformed target",
    "{text!r} is not a target: {reason}",
    hint="write `name`, `name:arch,flag,key=value` or `name -key=value`",
)
E708 = code(
    "E708",
    "automatic choice of the target is ambiguous",
    "target 'auto' could be any of {candidates}",
    hint="name the target, target=NAME in the call, or ZELLIGE_TARGET=NAME in the environment for everything that says auto",
)
E709 = code(
    "E709",
    "hook of a backend failed",
    "the backend {name!r} raised in its {place}: {reason}",
    hint="this is a fault of the backend, not of the kernel; report it to {vendor}",
    names_backend=True,
)
E710 = code(
    "E710", "failure that the backend explains", "{name}: {reason}", hint="{advice}", names_backend=True,
)
E711 = code(
    "E711", "passes wait for each other", "the passes of the stage {stage!r} for {target} wait for each other: {circle}",
    hint="remove one of the orders that their `before` and `after` ask for",
)
E712 = code(
    "E712", "wrong change to the passes", "{who} cannot {what} at the stage {stage!r}: {reason}",
    hint="`zellige.plugin.choices` lists the stages and what a pass of each takes; the stage has {known}",
)
E713 = code(
    "E713", "pass made a wrong program", "the pass {name} of {who} made {made} that is not well formed:\n{problems}",
    hint="the pass is at fault, not the kernel: leave it out, or report it to who wrote it",
)
E714 = code(
    "E714", "name of the language claimed twice", "the name T.{name} is claimed by several backends: {backends}",
    hint="uninstall one of them",
)
E715 = code(
    "E715", "program newer than its reader", "{kernel} uses {what}, which version {major}.{minor} of the tile IR does not have",
    hint="a newer version of the backend may read it; the manifest's field `ir` says which version it reads",
)
E716 = code(
    "E716", "unknown scheduling strategy", "the target {target} has no scheduling strategy {name!r}{suggestion}",
    hint="{known}",
)
E717 = code(
    "E717", "machine code for another device", "machine code made for {target} does not run on {device}: {reason}",
    hint="compile for the device that is here; `zellige backends list` names it",
)
E718 = code(
    "E718", "pass failed", "the pass {name} of {who} failed: {reason}",
    hint="the pass is at fault, not the kernel: leave it out, or report it to who wrote it",
)
E719 = code(
    "E719", "target without that option", "the target {target} has no {what}{suggestion}", hint="{known}",
)
E741 = code(
    "E741",
    "environment variable has a wrong value",
    "{variable}={value!r}: expected {expected}{suggestion}",
    hint="set it to such a value, or unset it to get the default",
)
E742 = code(
    "E742",
    "file holds no such kernel",
    "{file} {reason}",
    hint="write FILE or FILE:NAME, where NAME is a prim_func or a compiled kernel at the top level of the file",
)
E743 = code(
    "E743",
    "unknown stage",
    "there is no stage {stage!r}{suggestion}",
    hint="stages: {stages}",
)
E744 = code(
    "E744",
    "cache cannot be used",
    "the cache {folder}: {reason}",
    hint="kernels are compiled anew each time; set ZELLIGE_CACHE_DIR to another folder, or ZELLIGE_CACHE=0 to do without",
)
E746 = code(
    "E746",
    "stages cannot be written",
    "the stages of {kernel} cannot be written under {folder}: {reason}",
    hint="the kernel itself is compiled; set ZELLIGE_DEBUG_ROOT or debug_root_path to a folder that can be written, or leave it out",
)
E745 = code(
    "E745",
    "bundle refused",
    "{file} {reason}",
    hint="nothing was taken from it; `zellige cache export` makes bundles",
)
E747 = code(
    "E747",
    "value for a parameter that no kernel has",
    "{file}: {kernels} has no parameter {name!r}{suggestion}",
    hint="{known}",
)
E750 = code(
    "E750",
    "name cannot be a backend's",
    "the name {name!r} {reason}",
    hint="choose another, such as the name of your company or device",
)
E751 = code(
    "E751",
    "folder has files",
    "{folder} is there already and is not empty",
    hint="name another folder with --into, or remove it",
)
E752 = code(
    "E752",
    "no starting point for this family",
    "there is no starting point for backends of the family {family!r}",
    hint="families: {families}; take the nearest and change its capabilities, as docs/write-a-backend.md says",
)
