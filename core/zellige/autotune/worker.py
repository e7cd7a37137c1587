"""The process in which kernels are tried, so that one that hangs or crashes takes nothing else with it.

In: requests of :mod:`zellige.autotune.bench` through a connection that it inherits. Out: one answer each. Requests
and answers are JSON; kernels travel as tile IR text. ``compile`` keeps the kernel under a number; ``measure`` times it and writes what
it computed to files. The process ends when its parent closes the connection or dies; of one that died it removes the files.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from dataclasses import fields
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final

from zellige.autotune import exchange
from zellige.autotune.once import Request, compute, measured
from zellige.diagnostics import InternalError, ZelligeError
from zellige.ir.parser import parse_kernel
from zellige.kernel import JITKernel
from zellige.options import CompileOptions

_LOOKS: Final = 200
_SECONDS_BETWEEN: Final = 0.01


def options_text(options: CompileOptions) -> dict[str, Any]:
    """The options that change a result, as JSON can hold them."""
    return {f.name: getattr(options, f.name) for f in fields(options) if f.compare}


def options_of(text: dict[str, Any]) -> CompileOptions:
    """What :func:`options_text` described, after its way through JSON, which has lists in place of tuples."""
    return CompileOptions(**{name: _tuples(value) for name, value in text.items()})


def _tuples(value: Any) -> Any:
    return tuple(_tuples(item) for item in value) if isinstance(value, list) else value


def answer(request: dict[str, Any], kernels: dict[int, JITKernel]) -> dict[str, Any]:
    """Do what one request asks for."""
    if request["do"] == "compile":
        kernels[request["number"]] = JITKernel(parse_kernel(request["ir"]), request["target"], options_of(request["options"]))
        return {}
    kernel = kernels[request["number"]]
    inputs = [exchange.read(described) for described in request["inputs"]]
    results = compute(kernel, inputs)
    folder = Path(request["folder"])
    written = [exchange.write(result, folder / f"result{place}") for place, result in enumerate(results)] if request["is_checked"] else []
    times, is_estimate = measured(kernel, inputs, Request(**request["request"]))
    return {"times": list(times), "is_estimate": is_estimate, "results": written}


def main(descriptor: int, parent: int, folder: str) -> None:
    """Answer requests until the connection ends. ``folder`` is where the process ``parent`` keeps inputs and results."""
    try:
        with Connection(descriptor) as connection:
            _answer_all(connection)
    except (EOFError, ConnectionError):
        if _has_died(parent):
            shutil.rmtree(folder, ignore_errors=True)


def _has_died(parent: int) -> bool:
    """Whether the parent is gone: its ends of connections close a moment earlier. One that lives ends this process meanwhile."""
    for _ in range(_LOOKS):
        if os.getppid() != parent:
            return True
        time.sleep(_SECONDS_BETWEEN)
    return False


def _answer_all(connection: Connection[bytes, bytes]) -> None:
    kernels: dict[int, JITKernel] = {}
    while True:
        request = json.loads(connection.recv_bytes())
        try:
            reply = answer(request, kernels)
        except (ZelligeError, InternalError) as error:
            reply = {"error": str(error)}
        except Exception as error:  # noqa: BLE001 - whatever a kernel raises is the result of its trial
            reply = {"error": f"{type(error).__name__}: {error}"}
        connection.send_bytes(json.dumps(reply).encode())
