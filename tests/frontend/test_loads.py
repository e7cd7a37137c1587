"""What byte code loads by name is read as Python's own ``dis`` reads it, in each Python."""

from __future__ import annotations

import argparse
import dataclasses
import enum
import inspect
import types
import typing

import pytest

import zellige.frontend.control as control
import zellige.frontend.dependencies as dependencies
from zellige.frontend.dependencies import codes_in
from zellige.frontend.loads import Load, loads_by_dis, loads_in

MANY = types.ModuleType("many")
exec("def read():\n    return " + " + ".join(f"of.a{n}.b{n} + g{n}" for n in range(400)), MANY.__dict__)


@pytest.mark.parametrize("module", [argparse, control, dataclasses, dependencies, enum, inspect, typing, MANY], ids=lambda m: m.__name__)
def test_code_is_read_as_dis_reads_it(module: types.ModuleType) -> None:
    functions = [value for value in vars(module).values() if isinstance(value, types.FunctionType)]
    classes = [value for value in vars(module).values() if isinstance(value, type) and value.__module__ == module.__name__]
    functions += [method for kind in classes for method in vars(kind).values() if isinstance(method, types.FunctionType)]
    codes = [code for function in functions for code in codes_in(function.__code__)]
    found = [list(loads_in(code)) for code in codes]
    assert found == [list(loads_by_dis(code)) for code in codes]
    assert sum(map(len, found)) > 500


def test_names_attributes_cells_and_imports_are_told_apart() -> None:
    cell, given = types.SimpleNamespace(part=1), 2

    def function(argument: int) -> object:
        import os.path

        inner = [cell.part + argument + given for _ in range(len(os.path.sep))]
        return inner, MANY.read.__name__, lambda: argument

    loads = [load for load in loads_in(function.__code__) if load[0] is not Load.OTHER]
    nested = [load for code in codes_in(function.__code__) for load in loads_in(code) if load[0] is not Load.OTHER]
    assert (Load.IMPORT, "os.path") in loads
    at = loads.index((Load.NAME, "MANY"))
    assert loads[at : at + 3] == [(Load.NAME, "MANY"), (Load.ATTRIBUTE, "read"), (Load.ATTRIBUTE, "__name__")]
    at = nested.index((Load.CELL, "cell"))
    assert nested[at + 1] == (Load.ATTRIBUTE, "part")
    assert {name for kind, name in nested if kind is Load.CELL} == {"cell", "argument", "given"}
    assert {name for kind, name in nested if kind is Load.NAME} == {"MANY", "range", "len"}
