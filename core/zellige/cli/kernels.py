"""The kernels of a file, for the commands that compile, explain or print them.

In: ``FILE[:KERNEL]``, values for parameters of the functions that make kernels (``--set``), the number of a configuration for a tuned
function (``--config``). Out: tile IR by name. E742: no such kernel; E747: a value for a parameter that no kernel has.
"""

from __future__ import annotations

import ast
import contextlib
import importlib.machinery
import importlib.util
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from zellige.diagnostics import Span, catalogue
from zellige.diagnostics.span import place_in
from zellige.diagnostics.suggest import closest

if TYPE_CHECKING:
    from zellige.autotune.decorator import TunedFunction
    from zellige.diagnostics import ZelligeError
    from zellige.ir.stmt import Kernel
    from zellige.jit import JITFunction

_F = TypeVar("_F", bound=Callable[..., Any])

_TENSOR: Final = re.compile(r"(?P<dtype>[A-Za-z]\w*)\[(?P<sizes>[^\]]*)\]")

_TAKES_ARGUMENTS: Final = (catalogue.E157.id, catalogue.E160.id)

_SETTING_HELP: Final = (
    "A value for a parameter of the function that makes the kernel: a number, True, False or a text such as float16; of a tensor its type "
    "and shape, as in A=float16[1024,512]. May be repeated."
)


def setting_option(command: _F) -> _F:
    """Gives a command the option ``--set``."""
    return click.option("--set", "settings", metavar="NAME=VALUE", multiple=True, help=_SETTING_HELP)(command)


def config_option(command: _F) -> _F:
    """Gives a command the option ``--config``."""
    what = "Which configuration of a function with autotune is meant, counted from 1."
    return click.option("--config", type=click.IntRange(min=1), help=f"{what}  [default: 1]")(command)


def settings_of(texts: Sequence[str]) -> dict[str, Any]:
    """The values of ``--set`` by name. Wrong usage, exit code 2, for text of another form."""
    found: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.strip().isidentifier():
            raise click.BadParameter(f"expected NAME=VALUE, not {text!r}", param_hint="--set")
        found[name.strip()] = _value(value.strip())
    return found


def _value(text: str) -> Any:
    """A number, a truth value, a tuple of them; a tensor for ``dtype[sizes]``; else the text itself."""
    tensor = _TENSOR.fullmatch(text)
    if tensor is not None:
        from zellige.language.tensors import Tensor

        sizes = [size.strip() for size in tensor["sizes"].split(",") if size.strip()]
        if not all(size.isdecimal() for size in sizes):
            raise click.BadParameter(f"expected numbers as sizes in {text!r}", param_hint="--set")
        return Tensor(tuple(map(int, sizes)), tensor["dtype"])
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return {"true": True, "false": False}.get(text.lower(), text)


def select(source: str, settings: Mapping[str, Any] | None = None, config: int | None = None) -> dict[str, Kernel]:
    """The kernels that FILE[:KERNEL] names, by name; at least one. Raises E742, E747; wrong usage, exit code 2, for a configuration that
    none of them has."""
    file, name = source, None
    if not os.path.exists(file) and ":" in source:
        file, _, name = source.rpartition(":")
    path = Path(file)
    if not os.path.isfile(file):  # which answers for names too that no file can have
        raise catalogue.E742.error(file=file, reason="is no file that can be read")
    kernels = kernels_of(path, name, settings or {}, config)
    if name is None:
        if not kernels:
            raise _none_ready(path)
        return kernels
    if name not in kernels:
        made_by = _made_by_arguments(path)
        if name in made_by:
            raise _none_ready(path, name)
        known = f"it has {', '.join(kernels)}" if kernels else "it has none"
        raise catalogue.E742.error(file=file, reason=f"holds no kernel {name!r}: {known}{closest(name, (*kernels, *made_by))}")
    return {name: kernels[name]}


def kernels_of(path: Path, wanted: str | None, settings: Mapping[str, Any], config: int | None) -> dict[str, Kernel]:
    """The kernels of a file by name: of tile IR text the one that it holds, of Python those at the top level, all or the one ``wanted``."""
    if is_tile_ir(path):
        from zellige.ir.parser import parse_kernel

        kernel = parse_kernel(path.read_text(encoding="utf-8"), str(path))
        _refuse_unused(path, settings, {kernel.name: ()})
        _refuse_configuration(config, {kernel.name: kernel}, settings)
        return {kernel.name: kernel}
    loaded = vars(load(path))
    values = {name: value for name, value in loaded.items() if wanted is None or name == wanted} or loaded
    _refuse_unused(path, settings, {name: names for name, value in values.items() if (names := _parameters(value)) is not None})
    _refuse_configuration(config, {name: value for name, value in values.items() if _parameters(value) is not None}, settings)
    found: dict[str, Kernel] = {}
    for name, value in values.items():
        kernel_or_none = kernel_in(name, value, settings, config)
        if kernel_or_none is not None and not any(kernel_or_none is other for other in found.values()):
            found[name] = kernel_or_none
    return found


def _parameters(value: object) -> tuple[str, ...] | None:
    """The parameters of a function that makes kernels; none of a kernel that is made; None for anything else."""
    from zellige.frontend.primfunc import PrimFunc
    from zellige.kernel import JITKernel

    if isinstance(value, (PrimFunc, JITKernel)):
        return ()
    function = _maker(value)
    return None if function is None else tuple(function.signature.parameters)


def _maker(value: object) -> JITFunction | None:
    from zellige.autotune.decorator import TunedFunction
    from zellige.jit import JITFunction

    inner = value.jit_impl if isinstance(value, TunedFunction) else value
    return inner if isinstance(inner, JITFunction) else None


def _refuse_unused(path: Path, settings: Mapping[str, Any], parameters: Mapping[str, Sequence[str]]) -> None:
    """E747 for a value of a parameter that none of the kernels has."""
    known = list(dict.fromkeys(name for names in parameters.values() for name in names))
    for name in settings:
        if name not in known and parameters:
            meant = closest(name, known)
            listed = f"parameters are: {', '.join(known)}" if known else "a prim_func or a compiled kernel is made already and takes none"
            raise catalogue.E747.error(file=str(path), kernels=", ".join(parameters), name=name, suggestion=meant, known=listed)


def _refuse_configuration(config: int | None, values: Mapping[str, object], settings: Mapping[str, Any]) -> None:
    """Wrong usage for the number of a configuration where none of the kernels has any."""
    from zellige.autotune.decorator import TunedFunction
    from zellige.diagnostics import CompileError

    if config is None or not values:
        return
    for value in values.values():
        try:
            if isinstance(value, TunedFunction) and value.configurations(**_given(value.jit_impl, settings)):
                return
        except CompileError as error:
            if error.code not in _TAKES_ARGUMENTS:
                raise
            return  # that it takes arguments is said for each kernel
    lacking = f"{', '.join(values)} {'has' if len(values) == 1 else 'have'} no configurations: leave the option out"
    raise click.BadParameter(lacking, param_hint="--config")


def _given(function: JITFunction, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that are parameters of a function."""
    return {key: one for key, one in settings.items() if key in function.signature.parameters}


def _none_ready(path: Path, *names: str) -> ZelligeError:
    """E742 for functions ``names``, or all of the file, that would make a kernel if they were given arguments."""
    made_by = names or _made_by_arguments(path)
    if not made_by:
        return catalogue.E742.error(file=str(path), reason="holds no kernel at its top level")
    reason = f"holds no kernel that is ready: {', '.join(made_by)} {'take' if len(made_by) > 1 else 'takes'} arguments"
    line = f"kernel = {made_by[0]}.compile(...)"
    hint = f"give them with --set NAME=VALUE, give the parameters of {made_by[0]} defaults, or write {line} at the top level of the file"
    return catalogue.E742.error(file=str(path), reason=reason, hint=hint)


def _made_by_arguments(path: Path) -> tuple[str, ...]:
    """The functions at the top level of a loaded file that make kernels."""
    module = None if is_tile_ir(path) else sys.modules.get(_module_name(path))
    return () if module is None else tuple(name for name, value in vars(module).items() if _maker(value) is not None)


def kernel_in(name: str, value: object, settings: Mapping[str, Any], config: int | None) -> Kernel | None:
    """The tile IR of a module's attribute that is a kernel: a prim_func, a compiled kernel, or a jit function that needs no argument beside
    the settings; of a function with autotune that of one configuration, which is named on standard error."""
    from zellige.autotune.decorator import TunedFunction
    from zellige.diagnostics import CompileError
    from zellige.frontend.primfunc import PrimFunc
    from zellige.kernel import JITKernel

    if isinstance(value, (PrimFunc, JITKernel)):
        return value.kernel
    function = _maker(value)
    if function is None:
        return None
    given = _given(function, settings)
    try:
        if isinstance(value, TunedFunction):
            given |= _configuration(name, value, given, config or 1)
        return function.get_tir(**given).kernel
    except CompileError as error:
        if error.code not in _TAKES_ARGUMENTS:  # else it is no kernel yet
            raise
    return None


def _configuration(name: str, tuned: TunedFunction, given: Mapping[str, Any], config: int) -> dict[str, Any]:
    """Configuration number ``config`` of a tuned function, without what is given; its defaults where it names none."""
    listed = tuned.configurations(**given)
    if not listed:
        return {}
    if config > len(listed):
        raise click.BadParameter(f"{name} has {len(listed)} configurations, not {config}", param_hint="--config")
    chosen = listed[config - 1]
    words = ", ".join(f"{key}={value}" for key, value in chosen.items())
    click.echo(f"{name}: configuration {config} of {len(listed)}: {words}", err=True)
    return {key: value for key, value in chosen.items() if key in tuned.jit_impl.signature.parameters}


def _module_name(path: Path) -> str:
    return f"zellige_compiled_{path.stem}"


def is_tile_ir(path: Path) -> bool:
    """Whether a file begins with the header of tile IR text."""
    with path.open("rb") as file:
        return file.readline().startswith(b"# tile-ir ")


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
