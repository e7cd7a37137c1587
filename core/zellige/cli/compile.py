"""``zellige compile FILE[:KERNEL]``: compile kernels of a file, or print any stage of one.

In: a Python file whose top level holds kernels, or a file of tile IR text. Out: the text of the stages asked for on standard output.
"""

from __future__ import annotations

import time

import click

from zellige.cli.kernels import config_option, select, setting_option, settings_of
from zellige.diagnostics import catalogue
from zellige.diagnostics.suggest import closest


@click.command("compile")
@click.argument("source", metavar="FILE[:KERNEL]")
@click.option("--target", default="auto", show_default=True, help="What to compile for, such as cpu.")
@click.option("--dump", "stages", metavar="STAGE", multiple=True, help="Print tile-ir, legal, plan, source or asm. May be repeated.")
@setting_option
@config_option
def compile_command(source: str, target: str, stages: tuple[str, ...], settings: tuple[str, ...], config: int | None) -> None:
    """Compile the kernels of FILE, or only KERNEL, and print the stages asked for.

    FILE is a Python file, whose `if __name__ == "__main__"` part does not run, or a file of tile IR text.
    """
    from zellige import driver
    from zellige.options import CompileOptions
    from zellige.plugin.registry import registry

    for stage in stages:
        if stage not in driver.STAGES:
            raise catalogue.E743.error(stage=stage, stages=", ".join(driver.STAGES), suggestion=closest(stage, driver.STAGES))
    kernels = select(source, settings_of(settings), config)
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
