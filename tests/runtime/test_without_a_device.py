"""What a program meets that asks for a device on a machine without one, and for a compiler's answers where programs are simulated."""

from __future__ import annotations

import numpy as np
import pytest

import zellige as zl
import zellige.language as T
from zellige.dtypes import dtype
from zellige.plugin.contract import Unavailable
from zellige.plugin.registry import registry
from zellige.runtime.arguments import Place, Signature
from zellige.runtime.supply import TensorSupplyType, supply
from zellige.target import parse_target

SIMULATED = "cuda:sm_80,simulate"


@T.prim_func
def copied(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
    with T.Kernel(1, threads=32):
        for i in T.Parallel(64):
            B[i] = A[i]


@pytest.mark.parametrize(
    ("devices", "reason"), [(Unavailable(code="no-driver", reason="no driver is there"), "no driver is there"), ((), "none was found")]
)
def test_the_hint_names_the_target_that_works_here(monkeypatch: pytest.MonkeyPatch, devices: object, reason: str) -> None:
    handle = registry().named("cuda")
    monkeypatch.setitem(handle.__dict__, "devices", devices)
    target = parse_target("cuda:sm_80")
    place = Place(target=str(target), devices=handle.manifest.framework_devices, absence=lambda: handle.without_device(target))
    kernel = Signature(copied.kernel)
    one = np.ones(64, np.float32)
    with pytest.raises(zl.LaunchError, match="E608: argument A: expected a tensor on cuda for the target cuda:sm_80") as caught:
        kernel.bind(kernel.read([one, one], {}), place, {})
    assert caught.value.hint == (
        f"no device of cuda works on this machine: {reason}; "
        "the target 'cuda:sm_80,simulate' runs the same program here, on memory of the host"
    )


def test_where_a_device_works_the_hint_is_the_usual_one(monkeypatch: pytest.MonkeyPatch) -> None:
    handle = registry().named("cuda")
    monkeypatch.setitem(handle.__dict__, "devices", (object(),))
    target = parse_target("cuda:sm_80")
    assert handle.without_device(target) == ""
    place = Place(target=str(target), devices=("cuda",), absence=lambda: handle.without_device(target))
    kernel = Signature(copied.kernel)
    one = np.ones(64, np.float32)
    with pytest.raises(zl.LaunchError, match="E608") as caught:
        kernel.bind(kernel.read([one, one], {}), place, {})
    assert caught.value.hint == "move the tensor, or compile for the target of its device"


def test_a_backend_that_simulates_nothing_names_no_such_target(monkeypatch: pytest.MonkeyPatch) -> None:
    handle = registry().named("cpu")
    monkeypatch.setitem(handle.__dict__, "devices", ())
    assert handle.without_device(parse_target("cpu")) == "no device of cpu works on this machine: none was found"


def test_tensors_of_a_device_that_torch_cannot_reach() -> None:
    pytest.importorskip("torch")
    with pytest.raises(zl.LaunchError, match="E644: tensors on nonsense are made through torch, which says: "):
        supply(dtype("float32"), (3,), TensorSupplyType.One, "nonsense")


@pytest.mark.parametrize("name", ["n_regs", "n_spills", "resource_usage"])
def test_what_only_a_compiler_knows(name: str) -> None:
    kernel = zl.compile(copied, target=SIMULATED)
    with pytest.raises(zl.Unsupported, match="E440: the target cuda:sm_80,simulate does not report ") as caught:
        getattr(kernel, name)
    assert caught.value.hint == "the same target without the flag 'simulate' has it"


def test_machine_code_libraries_and_exports_of_a_simulated_kernel() -> None:
    kernel = zl.compile(copied, target=SIMULATED)
    for call in (kernel.get_asm, lambda: kernel.export_library("nowhere")):
        with pytest.raises(zl.Unsupported, match="E440: the target cuda:sm_80,simulate does not report ") as caught:
            call()
        assert caught.value.hint == "the same target without the flag 'simulate' has it"
    with pytest.raises(AttributeError, match="the target cuda:sm_80,simulate has no export_ptx: the same target without"):
        kernel.export_ptx
    assert not hasattr(kernel, "show_ptx")


def test_a_property_that_fails_shows_its_own_error(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = zl.compile(copied, target="cpu")
    monkeypatch.setattr(type(kernel), "n_regs", property(lambda self: self.signature.nothing_of_the_kind))
    with pytest.raises(AttributeError, match="nothing_of_the_kind"):
        kernel.n_regs
