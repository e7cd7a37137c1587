"""Machine code as text, by nvdisasm.

In: a cubin. Out: SASS. Raises E501 where the tool is not installed, E502 with what it says where it refuses.
"""

from __future__ import annotations

import importlib.metadata
import shutil
import subprocess
import tempfile
from pathlib import Path

from zellige.diagnostics import catalogue
from zellige_cuda.device import INSTALL


def disassembled(cubin: bytes, *, has_places: bool = False) -> str:
    """The machine code of a cubin as text, with the lines of the source before what they became if it ``has_places``. Raises E501 where
    nvdisasm is not installed."""
    program = tool("nvdisasm")
    if program is None:
        raise catalogue.E501.error(tool="nvdisasm", reason="it is not installed", advice=INSTALL)
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        command = [program, "-c", *(["-gi"] if has_places else []), file.name]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    if done.returncode:
        raise catalogue.E502.error(tool="nvdisasm", log=done.stderr.strip())
    return done.stdout


def tool(name: str) -> str | None:
    """Where one of the vendor's programs lies: in its package, else on the path."""
    try:
        files = importlib.metadata.files(f"nvidia-cuda-{name}") or ()
    except importlib.metadata.PackageNotFoundError:
        files = ()
    for file in files:
        if file.name == name:
            return str(Path(str(file.locate())))
    return shutil.which(name)
