"""Made-up tensors: every element type, every kind of values, both frameworks, repeatable by seed."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import torch

from zellige.diagnostics.error import ZelligeError
from zellige.dtypes import all_dtypes, dtype
from zellige.runtime.arrays import as_numpy, view_of
from zellige.runtime.supply import TensorSupplyType, supply
from zellige.testing import set_random_seed

WIDE = [t.name for t in all_dtypes() if t.storage_bits >= 8]


def values(name: str, kind: TensorSupplyType, shape: tuple[int, ...] = (64, 16)) -> np.ndarray:  # type: ignore[type-arg]
    view = view_of(supply(dtype(name), shape, kind))
    assert view is not None
    array = as_numpy(view)
    # torch lacks some narrow types and carries their bits
    return array.view(dtype(name).numpy).astype(np.float64) if dtype(name).storage_bits == 8 else array.astype(np.float64)


@pytest.mark.parametrize("kind", list(TensorSupplyType))
@pytest.mark.parametrize("name", [t.name for t in all_dtypes()])
def test_every_type_and_kind_has_no_nan_unless_bits_are_random(name: str, kind: TensorSupplyType) -> None:
    made = supply(dtype(name), (4, 6), kind)
    assert isinstance(made, torch.Tensor)
    assert tuple(made.shape) == ((4, 3) if dtype(name).storage_bits < 8 else (4, 6))
    if dtype(name).storage_bits >= 8 and name not in ("float8_e3m4", "float8_e4m3", "float6_e2m3fn", "float6_e3m2fn"):
        assert not np.isnan(made.to(torch.float32).numpy()).any()


@pytest.mark.parametrize(
    ("kind", "name", "low", "high", "count"),
    [
        (TensorSupplyType.Integer, "float32", -2, 2, 5),
        (TensorSupplyType.Integer, "int8", -2, 2, 5),
        (TensorSupplyType.Integer, "uint16", 0, 2, 3),
        (TensorSupplyType.Integer, "bool", 0, 1, 2),
        (TensorSupplyType.Auto, "int64", -2, 2, 5),
        (TensorSupplyType.Zero, "bfloat16", 0, 0, 1),
        (TensorSupplyType.One, "float8_e5m2", 1, 1, 1),
        (TensorSupplyType.Uniform, "int32", 1, 1, 1),
    ],
)
def test_whole_numbers(kind: TensorSupplyType, name: str, low: int, high: int, count: int) -> None:
    found = values(name, kind)
    assert (found.min(), found.max(), len(np.unique(found))) == (low, high, count)


def test_real_numbers() -> None:
    for name in ("float16", "bfloat16", "float32", "float64"):
        uniform = values(name, TensorSupplyType.Auto)
        assert -1 <= uniform.min() < -0.9
        assert 0.9 < uniform.max() <= 1
        assert abs(values(name, TensorSupplyType.Randn).mean()) < 0.2
        assert abs(values(name, TensorSupplyType.Normal).mean() + 1) < 0.2


def test_packed_types_are_bytes() -> None:
    ones = supply(dtype("int4"), (2, 6), TensorSupplyType.One)
    assert ones.tolist() == [[0x11] * 3] * 2
    four = supply(dtype("float4_e2m1fn"), (2, 6), TensorSupplyType.One)
    assert four.view(torch.uint8).tolist() == [[0x22] * 3] * 2
    assert len(np.unique(supply(dtype("uint4"), (32, 64), TensorSupplyType.Integer).numpy())) > 100


def test_seed_makes_it_repeat() -> None:
    set_random_seed(3)
    first = supply(dtype("float32"), (8,), TensorSupplyType.Randn)
    other = supply(dtype("float32"), (8,), TensorSupplyType.Randn)
    set_random_seed(3)
    assert torch.equal(supply(dtype("float32"), (8,), TensorSupplyType.Randn), first)
    assert not torch.equal(first, other)


def test_without_torch_the_tensors_are_of_numpy() -> None:
    code = (
        "import sys, numpy as np; from zellige.dtypes import dtype; from zellige.runtime.supply import *;"
        "from zellige.testing import set_random_seed; set_random_seed(1);"
        "a = supply(dtype('bfloat16'), (3, 4), TensorSupplyType.Auto); set_random_seed(1);"
        "assert isinstance(a, np.ndarray) and (a == supply(dtype('bfloat16'), (3, 4), TensorSupplyType.Auto)).all();"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": ":".join(sys.path)})


def test_tensors_on_a_device_are_made_by_torch() -> None:
    moved = supply(dtype("float32"), (2,), TensorSupplyType.One, "meta")
    assert moved.device.type == "meta"


def test_a_device_without_a_framework_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ZelligeError) as caught:
        supply(dtype("float32"), (3,), TensorSupplyType.One, "elsewhere")
    assert caught.value.code == "E644"
    assert "tensors on elsewhere are made through torch" in str(caught.value)
