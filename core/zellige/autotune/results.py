"""What tuning found.

In: the outcome of each configuration. Out: an :class:`AutotuneResult`: the winner, its kernel, and all trials as a table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from rich.table import Table

    from zellige.kernel import JITKernel

Outcome = Literal["measured", "refused", "wrong", "timeout", "crashed", "failed"]
"""measured: it has a time. refused: it does not compile. wrong: the reference computes something else. timeout, crashed: compiling or
running it took too long or ended its process. failed: running it raised an error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One configuration and how it fared.

    ``latency`` is in milliseconds, the median of its runs, None unless measured. ``is_estimate`` says that few runs were made, because
    they were slower than what early stopping allows; such a trial never wins. ``reason`` says in words why there is no time.
    ``is_recalled`` marks a result of an earlier session.
    """

    config: Mapping[str, Any]
    outcome: Outcome
    latency: float | None = None
    is_estimate: bool = False
    reason: str = ""
    is_recalled: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AutotuneResult:
    """The fastest configuration: ``latency`` and ``ref_latency`` (of the reference program, where there is one) in milliseconds.

    Without tuning, because the caller gave every argument that could have been tuned, ``latency`` and ``config`` are None.
    ``trials`` has all configurations, in the order given; one that comes to the program of another has its time, and says so. ``notes``
    says what was not tried because it has no effect on the target.
    """

    kernel: JITKernel
    config: dict[str, Any] | None = None
    latency: float | None = None
    ref_latency: float | None = None
    trials: tuple[Trial, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def libcode(self) -> str:
        """The lowered program of the winner."""
        return self.kernel.get_kernel_source()

    @property
    def func(self) -> Callable[..., Any] | Any:
        """The prim_func of the winner."""
        return self.kernel.prim_func

    def table(self) -> Table:
        """All trials, the fastest first."""
        return table_of(self.trials, self.ref_latency, self.notes)

    def show(self) -> None:
        """Print the table."""
        from zellige.diagnostics.console import plain_console

        plain_console().print(self.table())


def ranked(trials: tuple[Trial, ...]) -> list[Trial]:
    """The trials by speed: measured ones, then estimates, then those without a time."""
    return sorted(trials, key=lambda t: (t.latency is None, t.is_estimate, t.latency or 0.0))


def table_of(trials: tuple[Trial, ...], ref_latency: float | None = None, notes: tuple[str, ...] = ()) -> Table:
    """The trials as a table for the terminal: what the configurations have in common stands in the title."""
    from rich.table import Table
    from rich.text import Text

    keys = list(dict.fromkeys(key for trial in trials for key in trial.config))
    shown = [key for key in keys if len({repr(trial.config.get(key)) for trial in trials}) > 1]
    common = ", ".join(f"{key}={trials[0].config.get(key)!r}" for key in keys if key not in shown) if trials else ""
    table = Table(title=f"{len(trials)} configurations" + (f", all with {common}" if common else ""))
    for key in shown:
        table.add_column(key, justify="right")
    table.add_column("time, ms", justify="right")
    table.add_column("of best", justify="right")
    table.add_column("outcome")
    best = min((t.latency for t in trials if t.latency is not None and not t.is_estimate), default=None)
    for trial in ranked(trials):
        time = "" if trial.latency is None else f"{'> ' if trial.is_estimate else ''}{trial.latency:.4g}"
        ratio = "" if trial.latency is None or best is None else f"{trial.latency / best:.2f} x"
        outcome = "stopped early" if trial.is_estimate else trial.outcome
        cells = (*(repr(trial.config.get(key)) for key in shown), time, ratio, outcome + (f": {trial.reason}" if trial.reason else ""))
        table.add_row(*(Text(cell) for cell in cells))
    lines = list(notes)
    if ref_latency is not None and best is not None:
        lines.insert(0, f"reference {ref_latency:.4g} ms, {ref_latency / best:.2f} x of the best")
    table.caption = "\n".join(lines) or None
    return table
