"""Arrays of every framework become the same view: address, shape, strides, element type, device, without a copy."""

from __future__ import annotations

import ctypes
import gc
import subprocess
import sys
import warnings
import weakref
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch

from zellige.dtypes import all_dtypes, dtype
from zellige.runtime.arrays import ArrayView, NoSuchArray, UnusableArray, allocate, as_numpy, cell_shape, view_of


def seen(value: object) -> ArrayView:
    view = view_of(value)
    assert view is not None
    return view


def test_numpy_array_is_seen_in_place() -> None:
    array = np.arange(24, dtype=np.float32).reshape(4, 6)[:, ::2]
    view = seen(array)
    assert (view.pointer, view.shape, view.strides) == (array.ctypes.data, (4, 3), (6, 2))
    assert (view.dtype, view.device, view.framework, view.is_writable) == (dtype("float32"), "cpu", "numpy", True)
    as_numpy(view)[1, 1] = -1
    assert array[1, 1] == -1


@pytest.mark.parametrize("name", [t.name for t in all_dtypes() if t.name != "tfloat32"])
def test_every_element_type_survives_numpy(name: str) -> None:
    array = np.zeros((2, 4), dtype(name).numpy)
    view = seen(array)
    assert view.dtype.name == name
    assert as_numpy(view).dtype == array.dtype
    assert as_numpy(view).__array_interface__["data"][0] == view.pointer


@pytest.mark.parametrize("name", [t.name for t in all_dtypes() if t.bits >= 8 and t.name != "tfloat32" and hasattr(torch, t.name)])
def test_every_torch_type_is_seen_in_place(name: str) -> None:
    raw = torch.arange(32, dtype=torch.uint8)
    tensor = raw.to(torch.bool) if name == "bool" else raw.view(getattr(torch, name))
    view = seen(tensor)
    assert (view.dtype.name, view.pointer, view.framework) == (name, tensor.data_ptr(), "torch")
    assert as_numpy(view).tobytes() == tensor.view(torch.uint8).numpy().tobytes()


def test_torch_strides_and_requires_grad() -> None:
    tensor = torch.zeros(4, 6, requires_grad=True).t()
    view = seen(tensor)
    assert (view.shape, view.strides) == ((6, 4), (1, 6))


def test_elements_behind_the_end_of_a_storage_that_was_made_smaller_are_refused() -> None:
    tensor = torch.zeros(4, 6)
    column = tensor[1:, 2]
    tensor.untyped_storage().resize_(4 * 21)
    assert view_of(column) is not None and view_of(tensor[:0]) is not None
    with pytest.raises(UnusableArray, match="its storage has 84 bytes, and its elements reach to 96"):
        view_of(tensor)
    tensor.untyped_storage().resize_(4 * 20)
    with pytest.raises(UnusableArray, match="its storage has 80 bytes, and its elements reach to 84"):
        view_of(column)


def test_packed_torch_type_counts_bytes() -> None:
    tensor = torch.zeros(3, 8, dtype=torch.uint8).view(torch.float4_e2m1fn_x2)
    view = seen(tensor)
    assert (view.dtype.name, view.packing, view.shape) == ("float4_e2m1fn", 2, (3, 8))
    assert as_numpy(view).dtype == np.uint8


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (1,)])
def test_zero_dimensional_and_empty(shape: tuple[int, ...]) -> None:
    for value in (np.ones(shape, np.int32), torch.ones(shape, dtype=torch.int32)):
        view = seen(value)
        assert view.shape == shape
        assert view.cells == int(np.prod(shape))
        assert as_numpy(view).shape == shape


def test_negative_strides() -> None:
    array = np.arange(5)[::-1]
    view = seen(array)
    assert view.strides == (-1,)
    assert as_numpy(view).tolist() == [4, 3, 2, 1, 0]


def test_read_only_is_noticed() -> None:
    array = np.zeros(3)
    array.flags.writeable = False
    assert not seen(array).is_writable
    assert not as_numpy(seen(array)).flags.writeable


class Exporter:
    """An array that only speaks DLPack, through NumPy's or torch's own exporter."""

    def __init__(self, array: object, device: tuple[int, int] | None = None, *, is_old: bool = False) -> None:
        self.array, self.device, self.is_old = array, device, is_old

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device or self.array.__dlpack_device__()  # type: ignore[attr-defined, no-any-return]

    def __dlpack__(self, **arguments: object) -> object:
        if self.is_old and arguments:
            raise TypeError("unexpected keyword argument")
        return self.array.__dlpack__(**arguments)  # type: ignore[attr-defined]


@pytest.mark.parametrize("is_old", [False, True])
def test_dlpack_is_zero_copy(is_old: bool) -> None:
    array = np.arange(12, dtype=np.int16).reshape(3, 4)[:, 1:]
    view = seen(Exporter(array, is_old=is_old))
    assert (view.pointer, view.shape, view.strides) == (array.ctypes.data, (3, 3), (4, 1))
    assert (view.device, view.framework, view.is_writable) == ("cpu", "other", True)
    as_numpy(view)[0, 0] = 77
    assert array[0, 0] == 77


def test_dlpack_of_types_numpy_lacks() -> None:
    tensor = torch.ones(4, dtype=torch.bfloat16)
    view = seen(Exporter(tensor))
    assert view.dtype.name == "bfloat16"
    assert as_numpy(view).tolist() == [1.0] * 4
    assert as_numpy(view).dtype == np.dtype(ml_dtypes.bfloat16)


def test_dlpack_read_only_flag() -> None:
    array = np.zeros(3)
    array.flags.writeable = False
    assert not seen(Exporter(array)).is_writable


def test_dlpack_keeps_the_memory_alive_and_gives_it_back() -> None:
    class Owned(np.ndarray):  # type: ignore[type-arg]
        pass

    array = np.full(1000, 7, np.int32).view(Owned)
    watcher = weakref.ref(array)
    view = view_of(Exporter(array))
    del array
    gc.collect()
    assert watcher() is not None
    assert view is not None
    assert as_numpy(view)[999] == 7
    del view
    gc.collect()
    assert watcher() is None


def test_dlpack_refusals() -> None:
    class Broken:
        def __dlpack_device__(self) -> tuple[int, int]:
            return 1, 0

        def __dlpack__(self, **_arguments: object) -> object:
            raise BufferError("busy")

    class NoCapsule(Broken):
        def __dlpack__(self, **_arguments: object) -> object:
            return object()

    with pytest.raises(UnusableArray, match="refuses to export it: busy"):
        view_of(Broken())
    with pytest.raises(UnusableArray, match="no DLPack capsule"):
        view_of(NoCapsule())
    with pytest.raises(UnusableArray, match="complex64|type code 5"):
        view_of(Exporter(np.zeros(3, np.complex64)))


def test_array_interface_is_zero_copy() -> None:
    memory = (ctypes.c_int32 * 6)(*range(6))

    class Interface:
        __array_interface__ = {"data": (ctypes.addressof(memory), False), "shape": (2, 3), "typestr": "<i4", "version": 3}

    view = seen(Interface())
    assert (view.pointer, view.shape, view.framework) == (ctypes.addressof(memory), (2, 3), "other")
    as_numpy(view)[1, 2] = 50
    assert memory[5] == 50


def test_device_array_gets_a_device_name() -> None:
    class OnDevice:
        __gadget_array_interface__ = {"data": (4096, False), "shape": (2, 3), "typestr": "<f4", "strides": None, "version": 3}

    view = seen(OnDevice())
    assert (view.device, view.device_text, view.pointer, view.strides) == ("gadget", "gadget", 4096, (3, 1))
    with pytest.raises(NoSuchArray, match="gadget"):
        as_numpy(view)


@pytest.mark.parametrize(
    "changed, reason",
    [
        ({"typestr": ">f4"}, "not in this machine's byte order"),
        ({"mask": object()}, "masked array"),
        ({"data": (0, False)}, "no memory of its own"),
        ({"data": ("4096", False)}, "cannot be read"),
        ({"shape": "ab"}, "cannot be read"),
        ({"shape": (2, -3)}, r"the shape \(2, -3\)"),
        ({"strides": (4,)}, r"the strides \(4,\)"),
    ],
)
def test_device_arrays_that_no_kernel_reads_are_refused(changed: dict[str, Any], reason: str) -> None:
    class OnDevice:
        __gadget_array_interface__ = {"data": (4096, False), "shape": (2, 3), "typestr": "<f4", "version": 3} | changed

    with pytest.raises(UnusableArray, match=reason):
        view_of(OnDevice())


def test_device_arrays_without_elements_need_no_memory() -> None:
    class OnDevice:
        __gadget_array_interface__ = {"data": (0, False), "shape": (2, 0), "typestr": "<f4", "version": 3}

    assert seen(OnDevice()).shape == (2, 0)


@pytest.mark.parametrize("value", [None, 3, 2.5, "text", [1, 2], (1.0,), np.float32(1), np.ndarray, torch.Tensor, object()])
def test_other_objects_are_no_arrays(value: object) -> None:
    assert view_of(value) is None


def test_unusable_arrays_say_why() -> None:
    with pytest.raises(UnusableArray, match="byte order"):
        view_of(np.zeros(3, ">f4"))
    with pytest.raises(UnusableArray, match="complex128"):
        view_of(np.zeros(3, np.complex128))
    with pytest.raises(UnusableArray, match="object"):
        view_of(np.array([object()]))
    with pytest.raises(UnusableArray, match="mask"):
        view_of(np.ma.masked_array([1.0, 2.0], [True, False]))
    with pytest.raises(UnusableArray, match="strides"):
        view_of(np.zeros(4, [("a", "i1"), ("b", "<i4")])["b"])
    with pytest.raises(UnusableArray, match="sparse"):
        view_of(torch.eye(3).to_sparse())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch calls nested tensors a prototype
        ragged = torch.nested.nested_tensor([torch.zeros(3), torch.zeros(2)])
    with pytest.raises(UnusableArray, match="nested tensor"):
        view_of(ragged)
    with pytest.raises(UnusableArray, match="negated"):
        view_of(torch.zeros(3, dtype=torch.complex64).conj().imag)


@pytest.mark.filterwarnings("ignore:Accessing the data pointer")
def test_tensors_without_memory() -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        fake = torch.empty(3)
    for tensor in (fake, torch.empty(3, device="meta")):
        with pytest.raises(UnusableArray, match="no memory"):
            view_of(tensor)


def test_cell_shape_of_packed_types() -> None:
    assert cell_shape(dtype("int4"), (3, 8)) == (3, 4)
    assert cell_shape(dtype("float6_e2m3fn"), (3, 8)) == (3, 8)
    with pytest.raises(NoSuchArray, match="multiple of 2"):
        cell_shape(dtype("int4"), (3, 7))
    with pytest.raises(NoSuchArray, match="multiple of 2"):
        cell_shape(dtype("int4"), ())


def test_results_follow_the_framework(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, expected in [("float32", torch.float32), ("tfloat32", torch.float32), ("bfloat16", torch.bfloat16), ("int4", torch.int8)]:
        made = allocate(dtype(name), (2, 6), seen(torch.zeros(1)))
        assert isinstance(made, torch.Tensor)
        assert made.dtype == expected
        assert made.shape == ((2, 3) if name == "int4" else (2, 6))
    assert allocate(dtype("float4_e2m1fn"), (2, 6), seen(torch.zeros(1))).dtype == torch.float4_e2m1fn_x2
    assert allocate(dtype("float8_e3m4"), (2,), seen(torch.zeros(1))).dtype == torch.uint8
    assert allocate(dtype("bfloat16"), (2, 6), None).dtype == torch.bfloat16, "torch is imported, so its tensors are expected"
    others = [seen(np.zeros(1)), seen(Exporter(np.zeros(1)))]
    monkeypatch.delitem(sys.modules, "torch")
    for like in (None, *others):
        made = allocate(dtype("bfloat16"), (2, 6), like)
        assert isinstance(made, np.ndarray)
        assert made.dtype == np.dtype(ml_dtypes.bfloat16)
    assert allocate(dtype("uint4"), (2, 6), None).dtype == np.uint8


def test_a_result_of_a_call_without_tensors_lies_where_the_target_reaches_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """torch's device without storage stands for one that is not there."""
    assert allocate(dtype("float32"), (2,), None, "meta").device.type == "meta"
    assert allocate(dtype("float32"), (2,), seen(torch.zeros(1)), "meta").device.type == "cpu", "an argument decides"

    def built_without(*shape: object, **options: object) -> None:
        raise AssertionError("torch was built without it")

    with monkeypatch.context() as without:
        without.setattr(torch, "empty", built_without)
        with pytest.raises(NoSuchArray, match="torch was built without it"):
            allocate(dtype("float32"), (2,), None, "gadget")
    monkeypatch.delitem(sys.modules, "torch")
    with pytest.raises(NoSuchArray, match="memory of gadget, is not imported"):
        allocate(dtype("float32"), (2,), None, "gadget")
    assert isinstance(allocate(dtype("float32"), (2,), None, "cpu"), np.ndarray)


def test_results_that_cannot_be_made() -> None:
    class OnDevice:
        __gadget_array_interface__ = {"data": (4096, False), "shape": (1,), "typestr": "<f4", "version": 3}

    with pytest.raises(NoSuchArray, match="gadget"):
        allocate(dtype("float32"), (1,), seen(OnDevice()))
    with pytest.raises(NoSuchArray, match="int4 lies 2 to a byte"):
        allocate(dtype("int4"), (3,), None)


def test_the_lanes_of_vectors_are_one_more_dimension() -> None:
    for like in (None, seen(np.zeros(1)), seen(torch.zeros(1))):
        made = allocate(dtype("float32x4"), (3, 2), like)
        assert tuple(made.shape) == (3, 2, 4)
        assert str(made.dtype).endswith("float32")


def test_numpy_arrays_need_no_torch() -> None:
    code = (
        "import sys, numpy as np; from zellige.runtime.arrays import view_of; view_of(np.zeros(3)); view_of(3);"
        "assert 'torch' not in sys.modules and 'ml_dtypes' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": ":".join(sys.path)})
