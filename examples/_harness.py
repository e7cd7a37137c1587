"""What every example shares: its command line, random inputs, the check against a derived bound, and the report.

In: a function that takes a :class:`Run` and calls :meth:`Run.check`. Out: a command that prints a line a check and ends with status 1
where a result is further from the reference than its bound allows.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import click
import numpy as np
from _bounds import Bounded, numpy_dtype
from rich.console import Console

import zellige as zl

_MOST: Final = 1 << 40
"""A size beyond is a slip of the hand: no machine holds so many elements."""

_WITHOUT_DEVICE: Final = "without a device leave --device out; --target cuda:sm_80,simulate runs a device's program on the host"
_DATA: Final = "Inputs: normally distributed, or small integers, with which products are exact and must be met bit for bit."


@dataclass(kw_only=True)
class Run:
    """One run of an example. ``shape`` and ``dtype`` are the user's or the example's own."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    target: str
    device: str
    milliseconds: float
    data: str
    random: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))
    console: Console = field(default_factory=lambda: Console(width=160, highlight=False))
    has_failed: bool = False

    def put(self, array: Any, dtype: str | None = None) -> Any:
        """A NumPy array in the element type ``dtype``, on the device: as it is, or as a torch tensor where a device is named."""
        held = np.ascontiguousarray(array if dtype is None else np.asarray(array).astype(numpy_dtype(dtype)))
        if not self.device:
            return held
        try:
            import torch
        except ImportError as error:
            raise click.ClickException(f"--device {self.device} needs torch: pip install torch ({error})") from error

        element = getattr(torch, held.dtype.name)
        tensor = torch.from_numpy(held.view(np.uint8)).view(element).reshape(held.shape)
        try:
            return tensor.to(self.device)
        except (AssertionError, ImportError, RuntimeError) as error:  # torch was built without the device, or none is here
            raise click.ClickException(f"--device {self.device}: {str(error).splitlines()[0]}; {_WITHOUT_DEVICE}") from error

    def normal(self, *shape: int, dtype: str | None = None, scale: float = 1.0) -> Any:
        """Normally distributed numbers in ``dtype``, the run's own unless given; or small integers, where the user asks for them."""
        if self.data == "integers":
            return self.put(self.random.integers(-3, 4, shape), dtype or self.dtype)
        return self.put(self.random.standard_normal(shape) * scale, dtype or self.dtype)

    def require(self, condition: bool, message: str) -> None:
        """Refuse sizes that the example does not mean."""
        if not condition:
            raise click.UsageError(message)

    def zeros(self, *shape: int, dtype: str | None = None) -> Any:
        return self.put(np.zeros(shape), dtype or self.dtype)

    def check(
        self,
        name: str,
        call: Callable[[], Any],
        expected: Bounded | Any | Sequence[Bounded | Any],
        *,
        flop: float = 0.0,
        byte: float = 0.0,
        repeat: Callable[[], Any] | None = None,
    ) -> None:
        """Compare what ``call`` returns with ``expected`` and, where the user gives time for it, time it (or ``repeat``, where only that
        may run again and again).

        ``expected`` is a Bounded array for floats or an array that must be met exactly; a list of them for several results. ``flop``
        or ``byte`` is the work of one call.
        """
        results = call()
        pairs = zip(results, expected) if isinstance(expected, (list, tuple)) else [(results, expected)]
        error, used = 0.0, 0.0
        for result, wanted in pairs:
            found = compare(to_numpy(result), wanted)
            error, used = max(error, found[0]), max(used, found[1])
        timed = self._timed(repeat or call, flop, byte) if self.milliseconds else "not timed"
        is_right = used <= 1
        self.has_failed |= not is_right
        verdict = "[green]ok[/]" if is_right else "[bold red]OVER THE BOUND[/]"
        sizes = "x".join(map(str, self.shape))
        self.console.print(
            f"{name:32} {sizes:>18} {self.dtype:>8}  error {error:.2e}  error/bound {used:.3f}  {timed}  {verdict}"
        )

    def _timed(self, call: Callable[[], Any], flop: float, byte: float) -> str:
        time = zl.do_bench(call, warmup=self.milliseconds / 4, rep=self.milliseconds, cache="warm", return_mode="median")
        assert isinstance(time, float)
        rate = f"{flop / time / 1e6:8.2f} GFLOP/s" if flop else f"{byte / time / 1e6:8.2f} GB/s"
        return f"{time:9.3f} ms  {rate}"


def to_numpy(result: Any) -> Any:
    """A result as a NumPy array: integers as they are, floats in float64."""
    array = result if isinstance(result, np.ndarray) else result.detach().cpu().double().numpy()
    return array if array.dtype.kind in "iub" else array.astype(np.float64)


def compare(result: Any, expected: Bounded | Any) -> tuple[float, float]:
    """The largest error, and the largest error as a part of its bound. A wrong shape or a NaN is infinitely wrong."""
    value, bound = (expected.value, expected.error) if isinstance(expected, Bounded) else (np.asarray(expected), 0.0)
    if result.shape != value.shape:
        return np.inf, np.inf
    errors = np.abs(result.astype(np.float64) - value.astype(np.float64))
    with np.errstate(divide="ignore", invalid="ignore"):
        parts = np.where(errors == 0, 0.0, errors / bound)
    if not np.isfinite(errors).all() or np.isnan(parts).any():
        return np.inf, np.inf
    return float(errors.max(initial=0.0)), float(parts.max(initial=0.0))


def example(*, shape: dict[str, int], dtypes: tuple[str, ...] = ("float32",)) -> Callable[[Callable[[Run], None]], click.Command]:
    """Makes the decorated function a command. ``shape`` names the sizes with their defaults; the first of ``dtypes`` is the default."""

    def decorate(body: Callable[[Run], None]) -> click.Command:
        @click.command(name=body.__module__, help=sys.modules[body.__module__].__doc__)
        @click.option("--shape", default="x".join(map(str, shape.values())), show_default=True, help=f"Sizes: {' x '.join(shape)}.")
        @click.option("--dtype", type=click.Choice(dtypes), default=dtypes[0], show_default=True, help="Element type of the inputs.")
        @click.option("--target", default="auto", show_default=True, help="What to compile for: auto, cpu, or another backend's name.")
        @click.option("--device", default="", help="Put the inputs into torch tensors on this device instead of NumPy arrays.")
        @click.option("--milliseconds", default=200.0, show_default=True, help="How long to time each kernel; 0: check it alone.")
        @click.option("--data", type=click.Choice(["normal", "integers"]), default="normal", show_default=True, help=_DATA)
        def command(shape: str, dtype: str, target: str, device: str, milliseconds: float, data: str) -> None:
            if target != "auto":
                os.environ["ZELLIGE_TARGET"] = target  # read at the first compilation
            sizes = _sizes(shape, names)
            run = Run(name=body.__module__, shape=sizes, dtype=dtype, target=target, device=device, milliseconds=milliseconds, data=data)
            try:
                body(run)
            except zl.ZelligeError as error:  # such as a target or a device that is not here
                raise click.ClickException(str(error)) from error
            if run.has_failed:
                raise click.exceptions.Exit(1)

        names = tuple(shape)
        return command

    return decorate


def _sizes(text: str, names: Sequence[str]) -> tuple[int, ...]:
    parts = text.replace(",", "x").split("x")
    if len(parts) != len(names) or not all(part.strip().isdigit() and int(part) > 0 for part in parts):
        given = f"{len(parts)} in {text!r}" if len(parts) != len(names) else repr(text)
        raise click.BadParameter(f"expected {len(names)} positive sizes, {' x '.join(names)}, not {given}", param_hint="--shape")
    sizes = tuple(int(part) for part in parts)
    if max(sizes) > _MOST:
        raise click.BadParameter(f"{max(sizes)} is more than any machine holds (at most {_MOST})", param_hint="--shape")
    return sizes
