"""What the tests of kernels use: seeds, comparisons, and marks that skip a test where its target does not work.

``requires_<target>`` exists for every target or alias that an installed backend names (``requires_cpu``), as do
``requires_<target>_or_<target>`` and ``requires_<target>_compute_version_ge(major, minor)`` with ge, gt, le, lt and eq.
The devices are looked for when a test runs, not when it is collected.
"""

from __future__ import annotations

import functools
import importlib.util
import inspect
import operator
import random
import re
import sys
import unittest
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from zellige.diagnostics import ZelligeError
from zellige.plugin.contract import Unavailable
from zellige.plugin.registry import registry
from zellige.runtime.compare import assert_close

__all__ = ["assert_allclose", "main", "requires_package", "set_random_seed", "torch_assert_close"]

_REQUIRES: Final = re.compile(r"requires_(?P<targets>[a-z][a-z0-9]*(?:_or_[a-z][a-z0-9]*)*)")
_VERSION: Final = re.compile(r"requires_(?P<target>[a-z][a-z0-9]*)_compute_version(?:_(?P<relation>ge|gt|le|lt|eq))?")
_RELATIONS: Final = {"ge": operator.ge, "gt": operator.gt, "le": operator.le, "lt": operator.lt, "eq": operator.eq}

Decorator = Callable[[Any], Any]


def set_random_seed(seed: int = 42) -> None:
    """Seed Python's, NumPy's and, where it is loaded, torch's generators."""
    random.seed(seed)
    np.random.seed(seed)
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.manual_seed(seed)


def assert_allclose(
    actual: Any, expected: Any, rtol: float = 1e-2, atol: float = 1e-3, max_mismatched_ratio: float = 0.0, equal_nan: bool = True
) -> None:
    """Raise AssertionError where more than that share of the elements differ; arrays of any frameworks and element types."""
    assert_close(actual, expected, rtol=rtol, atol=atol, max_mismatched_ratio=max_mismatched_ratio, equal_nan=equal_nan)


def torch_assert_close(
    tensor_a: Any,
    tensor_b: Any,
    rtol: float = 1e-2,
    atol: float = 1e-3,
    max_mismatched_ratio: float = 0.001,
    verbose: bool = False,
    equal_nan: bool = True,
    check_device: bool = True,
    check_dtype: bool = True,
    check_layout: bool = True,
    check_stride: bool = False,
    base_name: str = "LHS",
    ref_name: str = "RHS",
) -> bool:
    """Compare two torch tensors as :func:`assert_allclose` does, and the attributes asked for; True when they agree.

    TypeError for what is no torch tensor.
    """
    for tensor in (tensor_a, tensor_b):
        if not hasattr(tensor, "layout"):
            raise TypeError(f"torch_assert_close compares torch tensors, not a {type(tensor).__name__}: use assert_allclose")
    attributes = {"device": check_device, "dtype": check_dtype, "layout": check_layout}
    for name in (name for name, is_checked in attributes.items() if is_checked):
        if getattr(tensor_a, name) != getattr(tensor_b, name):
            raise AssertionError(f"{name} differs: {base_name} {getattr(tensor_a, name)}, {ref_name} {getattr(tensor_b, name)}")
    if check_stride and tensor_a.stride() != tensor_b.stride():
        raise AssertionError(f"strides differ: {base_name} {tensor_a.stride()}, {ref_name} {tensor_b.stride()}")
    found = assert_close(
        tensor_a,
        tensor_b,
        rtol=rtol,
        atol=atol,
        max_mismatched_ratio=max_mismatched_ratio,
        equal_nan=equal_nan,
        actual_name=base_name,
        expected_name=ref_name,
    )
    if verbose:
        print(f"{found.mismatched} of {found.total} elements differ")
    return True


def requires_package(*packages: str) -> Decorator:
    """Skip a test unless all of these packages can be imported."""
    missing = [name for name in packages if importlib.util.find_spec(name) is None]
    return _skipping(lambda: f"needs the package {', '.join(missing)}" if missing else "")


def main() -> None:
    """Run the tests of the calling file and leave with pytest's exit status."""
    import pytest

    sys.exit(pytest.main([inspect.getsourcefile(sys._getframe(1)) or "", *sys.argv[1:]]))


def __getattr__(name: str) -> Any:
    version = _VERSION.fullmatch(name)
    if version:
        return _requires_version(version["target"], version["relation"])
    match = _REQUIRES.fullmatch(name)
    if match:
        return _skipping(functools.partial(_why_none_works, match["targets"].split("_or_")))
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _why_not(target: str) -> str:
    """Why no device of ``target`` works here; empty where one does."""
    try:
        resolved = registry().resolve(target)
        handle = registry().backend(resolved)
    except ZelligeError as error:
        return error.diagnostics[0].message
    if isinstance(handle.devices, Unavailable):
        return handle.devices.reason
    return "" if handle.works else f"no device of {target} works here"


def _why_none_works(targets: list[str]) -> str:
    reasons = [_why_not(target) for target in targets]
    return "; ".join(reasons) if all(reasons) else ""


def _requires_version(target: str, named_relation: str | None) -> Callable[..., Decorator]:
    def require(major_version: int, minor_version: int = 0, mode: str = "ge") -> Decorator:
        relation = named_relation or mode
        if relation not in _RELATIONS:
            raise ValueError(f"mode is {relation!r}, expected one of {', '.join(_RELATIONS)}")
        wanted = (major_version, minor_version)

        def why_not() -> str:
            reason = _why_not(target)
            if reason:
                return reason
            devices = registry().backend(registry().resolve(target)).devices
            assert isinstance(devices, tuple), "a working backend has devices"
            found = devices[0].compute_version
            if found is not None and _RELATIONS[relation](found, wanted):
                return ""
            version = "unknown" if found is None else ".".join(map(str, found))
            return f"needs a compute version {relation} {major_version}.{minor_version}, the device's is {version}"

        return _skipping(why_not)

    return require


def _skipping(why_not: Callable[[], str]) -> Decorator:
    """A decorator of test functions and classes that skips them with the reason that ``why_not`` gives."""

    def decorate(test: Any) -> Any:
        if inspect.isclass(test):
            for name, method in list(vars(test).items()):
                if name.startswith("test") and callable(method):
                    setattr(test, name, decorate(method))
            return test

        @functools.wraps(test)
        def run(*args: Any, **keywords: Any) -> Any:
            reason = why_not()
            if reason:
                print(f"skipped: {reason}")
                raise unittest.SkipTest(reason)
            return test(*args, **keywords)

        return run

    return decorate
