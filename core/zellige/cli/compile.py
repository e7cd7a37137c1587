"""``zellige compile FILE[:KERNEL]``: compile kernels of a file, or print any stage of one.

In: a Python file whose top level holds kernels, or a file of tile IR text. Out: the text of the stages asked for on standard output.
"""

from __future__ import annotations

import contextlib
import importlib.machinery
import importlib.util
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import click

from zellige.diagnostics import Span, catalogue
from zellige.diagnostics.span import place_in
from zellige.diagnostics.suggest import closest

if TYPE_CHECKING:
    from zellige.diagnostics import ZelligeError
    from zellige.ir.stmt import Kernel


@click.command("compile")
@click.argument("source", metavar="FILE[:KERNEL]")
@click.option("--target", default="auto", show_default=True, help="What to compile for, such as cpu.")
@click.option("--dump", "stages", metavar="STAGE", multiple=True, help="Print tile-ir, legal, plan, source or asm. May be repeated.")
def compile_command(source: str, target: str, stages: tuple[str, ...]) -> None:
    """Compile the kernels of FILE, or only KERNEL, and print the stages asked for.

    FILE is a Python file, whose `if __name__ == "__main__"` part does not run, or a file of tile IR text.
    """
    from zellige import driver
    from zellige.options import CompileOptions
    from zellige.plugin.registry import registry

    for stage in stages:
        if stage not in driver.STAGES:
            raise catalogue.E743.error(stage=stage, stages=", ".join(driver.STAGES), suggestion=closest(stage, driver.STAGES))
    kernels = select(source)
    resolved = registry().resolve(target)
    if stages:
        if len(kernels) > 1:
            raise catalogue.E742.error(file=source, reason=f"holds several kernels: {', '.join(kernels)}")
        (kernel,) = kernels.values()
        for stage in stages:
            if len(stages) > 1:
                click.echo(f"# ---- {stage} ----")
            click.echo(driver.dump(kernel, resolved, stage).rstrip("\n"))
        return
    for name, kernel in kernels.items():
        begin = time.perf_counter()
        driver.compile_kernel(kernel, resolved, CompileOptions())
        click.echo(f"{name}: compiled for {resolved} in {(time.perf_counter() - begin) * 1e3:.0f} ms")


def select(source: str) -> dict[str, Kernel]:
    """The kernels that FILE[:KERNEL] names, by name; at least one. Raises E742."""
    file, name = source, None
    if not Path(file).exists() and ":" in source:
        file, _, name = source.rpartition(":")
    path = Path(file)
    if not path.is_file():
        raise catalogue.E742.error(file=file, reason="is no file that can be read")
    kernels = kernels_of(path)
    if name is None:
        if not kernels:
            raise _none_ready(path)
        return kernels
    if name not in kernels:
        if name in _made_by_arguments(path):
            raise _none_ready(path, name)
        known = f"it has {', '.join(kernels)}" if kernels else "it has none"
        raise catalogue.E742.error(file=file, reason=f"holds no kernel {name!r}: {known}{closest(name, kernels)}")
    return {name: kernels[name]}


def kernels_of(path: Path) -> dict[str, Kernel]:
    """The kernels of a file by name: of tile IR text the one that it holds, of Python those at the top level."""
    if is_tile_ir(path):
        from zellige.ir.parser import parse_kernel

        kernel = parse_kernel(path.read_text(encoding="utf-8"), str(path))
        return {kernel.name: kernel}
    found: dict[str, Kernel] = {}
    for name, value in vars(load(path)).items():
        kernel_or_none = kernel_in(value)
        if kernel_or_none is not None and not any(kernel_or_none is other for other in found.values()):
            found[name] = kernel_or_none
    return found


def _none_ready(path: Path, *names: str) -> ZelligeError:
    """E742 for functions ``names``, or all of the file, that would make a kernel if they were given arguments."""
    made_by = names or _made_by_arguments(path)
    if not made_by:
        return catalogue.E742.error(file=str(path), reason="holds no kernel at its top level")
    reason = f"holds no kernel that is ready: {', '.join(made_by)} {'take' if len(made_by) > 1 else 'takes'} arguments"
    line = f"kernel = {made_by[0]}.compile(...)"
    hint = f"give the parameters of {made_by[0]} defaults, or write a line such as {line} at the top level of the file"
    return catalogue.E742.error(file=str(path), reason=reason, hint=hint)


def _made_by_arguments(path: Path) -> tuple[str, ...]:
    """The functions at the top level of a loaded file that make kernels."""
    from zellige.jit import JITFunction

    module = None if is_tile_ir(path) else sys.modules.get(_module_name(path))
    return () if module is None else tuple(name for name, value in vars(module).items() if isinstance(value, JITFunction))


def _module_name(path: Path) -> str:
    return f"zellige_compiled_{path.stem}"


def is_tile_ir(path: Path) -> bool:
    """Whether a file begins with the header of tile IR text."""
    with path.open("rb") as file:
        return file.readline().startswith(b"# tile-ir ")


def kernel_in(value: object) -> Kernel | None:
    """The tile IR of a module's attribute that is a kernel: a prim_func, a compiled kernel, or a jit function that needs no argument."""
    from zellige.diagnostics import CompileError
    from zellige.frontend.primfunc import PrimFunc
    from zellige.jit import JITFunction
    from zellige.kernel import JITKernel

    if isinstance(value, (PrimFunc, JITKernel)):
        return value.kernel
    if isinstance(value, JITFunction):
        try:
            return value.get_tir().kernel
        except CompileError as error:
            if error.code not in (catalogue.E157.id, catalogue.E160.id):  # it takes arguments, so it is no kernel yet
                raise
    return None


def load(path: Path) -> ModuleType:
    """Run a Python file as a module of its own; its folder can be imported from, as when it runs as a script.

    What it prints goes to standard error: standard output holds what the command was asked for, and may be a file or a pipe.
    """
    name = _module_name(path)
    spec = importlib.util.spec_from_file_location(name, path, loader=None if path.suffix == ".py" else _loader(name, path))
    if spec is None or spec.loader is None:
        raise catalogue.E742.error(file=str(path), reason="is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    sys.path.insert(0, str(path.resolve().parent))
    _refuse_other_text(path, spec.loader, name)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            spec.loader.exec_module(module)
    except SystemExit as error:
        hint = "the file is run as a module: let it define its kernels, and do the rest where `__name__` is `__main__`"
        raise catalogue.E742.error(_place_in(path, error), file=str(path), reason="ends the process when it is run", hint=hint) from error
    return module


def _place_in(path: Path, error: BaseException) -> Span | None:
    """The line of the file that was running when the error came up."""
    own = path.resolve()
    found = place_in(error, lambda frame: Path(frame.f_code.co_filename).resolve() == own)
    return None if found is None else replace(found, file=str(path))


def _refuse_other_text(path: Path, loader: object, name: str) -> None:
    """E742 for a file that is not Python, before anything of it runs."""
    if not isinstance(loader, importlib.machinery.SourceFileLoader):
        return
    try:
        loader.get_code(name)
    except SyntaxError as error:
        start, end = (max(0, (offset or 1) - 1) for offset in (error.offset, error.end_offset))
        span = None if error.lineno is None else Span(str(path), error.lineno, start, error.end_lineno, max(end, start + 1))
        raise catalogue.E742.error(span, file=str(path), reason=f"is no Python file: {error.msg}") from None
    except ValueError as error:  # bytes that are no text
        raise catalogue.E742.error(file=str(path), reason=f"is no Python file: {error}") from None


def _loader(name: str, path: Path) -> importlib.machinery.SourceFileLoader:
    return importlib.machinery.SourceFileLoader(name, str(path))
