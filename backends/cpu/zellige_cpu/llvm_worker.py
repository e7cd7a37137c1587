"""LLVM IR text to machine code, and the process that does it for others.

In: text and the triple, CPU name and features to generate code for. Out: an object file, assembly text or the optimised text.

As a script it serves requests from its standard input until that ends (:mod:`zellige_cpu.compiler` is the other side): a line of JSON
with ``triple``, ``cpu``, ``features``, ``foreign``, ``want`` and ``bytes``, then so many bytes of text; the reply is a line of JSON with
``error`` (empty when all is well) and ``bytes``, then so many bytes. It imports nothing of zellige, so that it starts quickly. What makes
LLVM abort ends this process and no other.

The emitters write vectors and hoist by themselves, so only a short list of passes runs: inlining of leaves, promotion of stack cells,
simplification of what these leave behind.
"""

from __future__ import annotations

import json
import os
import sys
from functools import lru_cache
from typing import Any, Final, Literal

Want = Literal["object", "assembly", "text"]

PREPARED: Final = "prepared"
"""What the process says once LLVM is loaded."""


@lru_cache(maxsize=1)
def llvm_binding() -> Any:
    """LLVM, ready to make code for this machine."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm


@lru_cache(maxsize=8)
def target_machine(triple: str, cpu: str, features: str, foreign: bool) -> Any:
    """``foreign``: machine code to look at, not to run here."""
    llvm = llvm_binding()
    if foreign:
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()
    target = llvm.Target.from_triple(triple)
    return target.create_target_machine(cpu=cpu, features=features, opt=2, reloc="pic", codemodel="default", jit=False)


def optimised(text: str, machine: Any) -> Any:
    """The module of ``text``, verified and put through the passes. Raises RuntimeError where LLVM refuses it."""
    llvm = llvm_binding()
    module = llvm.parse_assembly(text)
    module.verify()
    module.data_layout = str(machine.target_data)
    tuning = llvm.create_pipeline_tuning_options(speed_level=0)
    builder = llvm.create_pass_builder(machine, tuning)
    passes = llvm.create_new_module_pass_manager()
    passes.add_always_inliner_pass()
    passes.add_sroa_pass()
    passes.add_instruction_combine_pass()
    passes.add_simplify_cfg_pass()
    passes.run(module, builder)
    return module


def machine_code(text: str, machine: Any, want: Want) -> bytes:
    """What is wanted of the program, text as UTF-8. Raises RuntimeError where LLVM refuses it."""
    module = optimised(text, machine)
    if want == "object":
        return bytes(machine.emit_object(module))
    return str(machine.emit_assembly(module) if want == "assembly" else module).encode()


def serve() -> None:
    """Answer requests until there are no more."""
    requests = sys.stdin.buffer
    with os.fdopen(os.dup(1), "wb") as replies:
        os.dup2(2, 1)  # what LLVM prints is no reply
        llvm_binding()
        reply(replies, PREPARED, b"")
        while line := requests.readline():
            asked = json.loads(line)
            text = requests.read(asked["bytes"]).decode()
            try:
                made, error = (
                    machine_code(text, target_machine(asked["triple"], asked["cpu"], asked["features"], asked["foreign"]), asked["want"]),
                    "",
                )
            except RuntimeError as refused:
                made, error = b"", str(refused) or type(refused).__name__
            reply(replies, error, made)


def reply(stream: Any, error: str, content: bytes) -> None:
    """An answer: a line of JSON with the error (empty where there was none) and the length of what follows it."""
    stream.write(json.dumps({"error": error, "bytes": len(content)}).encode() + b"\n" + content)
    stream.flush()


if __name__ == "__main__":
    sys.path.append(sys.argv[1])
    serve()
