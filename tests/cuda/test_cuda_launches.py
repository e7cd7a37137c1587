"""Launches without a device: what reaches a driver that only writes down what it is asked."""

from __future__ import annotations

import ctypes
import struct
import threading
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import zellige as zl
import zellige.language as T
from zellige.cache import memo
from zellige.diagnostics import LaunchError
from zellige.driver import compile_kernel
from zellige.dtypes import dtype
from zellige.ir.expr import INT32, INT64, Buffer, Var, const
from zellige.ir.sizes import evaluate_size
from zellige.plugin.contract import DriverFunctions
from zellige_cuda import device, native, variants
from zellige_cuda.device import CudaKernel, _grid
from zellige_cuda.records import Records, Site, shown


class Driver:
    """A driver with one device, one context and memory of the host."""

    class CUfunction_attribute:
        CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8

    class CUstreamCaptureMode:
        CU_STREAM_CAPTURE_MODE_RELAXED = 2

    def __init__(self) -> None:
        self.launches: list[dict[str, Any]] = []
        self.waits = 0
        self.memory: dict[int, Any] = {}
        self.widths: list[str] = []
        self.on_launch: Any = None
        self.mode = 0
        self.is_recording = False
        self.loading_modes: list[int] = []

    def cuCtxGetCurrent(self) -> Any:
        return 0, 77

    def cuCtxGetDevice(self) -> Any:
        return 0, 0

    def cuDeviceGetCount(self) -> Any:
        return 0, 1

    def cuModuleLoadData(self, data: bytes) -> Any:
        assert data.startswith(b"\x7fELF")
        self.loading_modes.append(self.mode)
        return 0, 5

    def cuModuleGetFunction(self, module: int, name: bytes) -> Any:
        return 0, 1000 + len(name)

    def cuFuncSetAttribute(self, *arguments: Any) -> Any:
        return (0,)

    def cuMemAlloc(self, size: int) -> Any:
        block = np.zeros(size, np.uint8)
        self.memory[block.ctypes.data] = block
        return 0, block.ctypes.data

    def cuMemsetD8(self, address: int, value: int, size: int) -> Any:
        ctypes.memset(address, value, size)
        return (0,)

    def cuMemcpyDtoH(self, to: int, source: int, size: int) -> Any:
        ctypes.memmove(to, source, size)
        return (0,)

    def cuThreadExchangeStreamCaptureMode(self, mode: int) -> Any:
        before, self.mode = self.mode, mode
        return 0, before

    def cuStreamIsCapturing(self, stream: int) -> Any:
        return 0, int(self.is_recording)

    def cuStreamSynchronize(self, stream: int) -> Any:
        self.waits += 1
        return (0,)

    def launch(self, handle: int, *rest: Any) -> int:
        *shape, stream, arguments, _ = rest
        words = [int.from_bytes(ctypes.string_at(a, 8), "little") for a in arguments]
        self.launches.append({"grid": tuple(shape[:3]), "threads": shape[3], "shared": shape[6], "stream": stream, "words": words})
        if self.on_launch is not None:
            self.on_launch(words)
        return 0


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Driver:
    made = Driver()
    monkeypatch.setattr(device, "driver", lambda: made)
    monkeypatch.setattr(device, "_count", lambda: 1)
    monkeypatch.setattr(device, "launcher", lambda: made.launch)
    monkeypatch.setattr(device, "current_stream", lambda index: 4242)
    monkeypatch.setattr(device, "shared_context", lambda index: 77 + index)
    return made


def compiled(kernel: Any) -> CudaKernel:
    """The kernel, not loaded anywhere yet."""
    memo.clear()
    found = compile_kernel(kernel.kernel, "cuda:sm_80")
    assert isinstance(found, CudaKernel)
    return found


@T.prim_func
def scaled(A: T.Tensor((1000,), "float32"), B: T.Tensor((1000,), "float32"), n: T.int32):
    with T.Kernel(8, threads=128) as b:
        for i in T.Parallel(128):
            if b * 128 + i < n:
                B[b * 128 + i] = A[b * 128 + i] * 2.0


@T.prim_func
def halved(A: T.Tensor((64,), "float16"), x: T.float16, y: T.bfloat16, z: T.float32):
    with T.Kernel(1, threads=64):
        for i in T.Parallel(64):
            A[i] = A[i] * x + T.cast(y, "float16") + T.cast(z, "float16")


@T.prim_func
def checked(A: T.Tensor((32,), "int32")):
    with T.Kernel(1, threads=32):
        for i in T.Parallel(32):
            T.device_assert(A[i] < 5, "A is too large")
            A[i] = A[i] + 1
        T.print(A[0], msg="first")


def test_arguments_are_where_the_kernel_looks(driver: Driver) -> None:
    compiled(scaled).launch([4096, 8192], [900], [])
    (launch,) = driver.launches
    assert (launch["grid"], launch["threads"], launch["stream"]) == ((8, 1, 1), 128, 4242)
    assert sorted(w & 0xFFFFFFFF for w in launch["words"]) == [900, 4096, 8192]
    assert driver.waits == 0


def test_packed_arguments_are_handed_on_where_they_lie(driver: Driver) -> None:
    kernel = compiled(scaled)
    block = ctypes.create_string_buffer(8 * (3 + 2 + 31))
    struct.pack_into("<3q", block, 0, 4096, 8192, 900)
    struct.pack_into("<q", block, 24, ctypes.addressof(block) + 40)
    kernel.launch_packed(block.raw[:32] + bytes(8 * 32))
    kernel.launch([4096, 8192], [900], [])
    assert driver.launches[0] == driver.launches[1]


def test_numbers_of_narrow_floats_are_their_bits(driver: Driver) -> None:
    compiled(halved).launch([4096], [1.5, 2.5, 0.25], [])
    words = driver.launches[0]["words"]
    bits = {int(np.float16(1.5).view(np.uint16)), 0x4020, int(np.float32(0.25).view(np.uint32))}
    assert bits <= set(words)


def test_a_tensor_at_an_odd_address_is_refused(driver: Driver) -> None:
    with pytest.raises(LaunchError) as raised:
        compiled(scaled).launch([4096, 8192 + 2], [900], [])
    assert raised.value.code == "E610"
    assert not driver.launches


def test_a_failed_assertion_is_the_callers_error(driver: Driver, capsys: pytest.CaptureFixture[str]) -> None:
    kernel = compiled(checked)
    places = [s.is_assertion for s in variants.sites(kernel)]
    assertion, line = places.index(True), places.index(False)

    def run(words: list[int]) -> None:
        block = np.frombuffer((ctypes.c_uint64 * 6).from_address(words[-1]), np.uint64)
        block[:4] = [assertion + 1, 2, line, 7]

    driver.on_launch = run
    with pytest.raises(LaunchError) as raised:
        kernel.launch([4096], [], [])
    assert raised.value.code == "E620"
    assert "A is too large" in str(raised.value)
    assert __file__.rsplit("/", 1)[1] in str(raised.value)
    assert capsys.readouterr().out == "first: 7\n"
    driver.on_launch = None
    kernel.launch([4096], [], [])  # the block was cleared
    assert driver.waits == 2


def test_a_failed_assertion_is_told_the_thread_whose_launch_it_was(driver: Driver) -> None:
    kernel = compiled(checked)
    kernel.launch([4096], [], [])
    site = [s.is_assertion for s in variants.sites(kernel)].index(True) + 1
    codes: dict[str, list[str]] = {"first": [], "second": []}

    def called(name: str) -> None:
        try:
            kernel.launch([4096], [], [])
        except zl.ZelligeError as error:
            codes[name].append(error.code)

    second = threading.Thread(target=called, args=("second",))

    def run(words: list[int]) -> None:
        driver.on_launch = None
        (ctypes.c_uint64 * 1).from_address(words[-1])[0] = site
        second.start()
        second.join(0.1)  # it has to wait for the first

    driver.on_launch = run
    called("first")
    second.join()
    assert codes == {"first": ["E620"], "second": []}


@pytest.mark.parametrize(
    "bits,name,text",
    [(0x3DCCCCCD, "float32", "0.1"), (0xFFFFFFFE, "int32", "-2"), (0x3C00, "float16", "1.0"), (0xF8, "int4", "-8"), (1, "bool", "True"),
     (0x3FB999999999999A, "float64", "0.1"), (0x38, "float8_e4m3fn", "1")],
)  # fmt: skip
def test_values_are_shown_as_everywhere(bits: int, name: str, text: str) -> None:
    assert str(shown(bits, name)) == text


def test_lines_that_did_not_fit_are_counted(driver: Driver, capsys: pytest.CaptureFixture[str]) -> None:
    records = Records(driver, [Site(message="x", dtype="int32", is_assertion=False, span=None)])
    records.tell(0, 6, np.array([0, 3], np.uint64))
    assert capsys.readouterr().out == "x: 3\n(2 more lines did not fit)\n"


def test_the_stream_of_the_framework_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    inner, cuda = SimpleNamespace(_cuda_getCurrentRawStream=lambda index: 90 + index), SimpleNamespace(is_initialized=lambda: True)
    torch = SimpleNamespace(_C=inner, cuda=cuda)
    monkeypatch.setitem(device.sys.modules, "torch", torch)
    assert device.current_stream(1) == 91


class Two(Driver):
    """Two devices, whose shared contexts are 77 and 78; odd pages are memory of the second."""

    def __init__(self) -> None:
        super().__init__()
        self.stack = [77]
        self.seen: list[int] = []

    def cuCtxGetCurrent(self) -> Any:
        return 0, self.stack[-1]

    def cuCtxGetDevice(self) -> Any:
        return 0, self.stack[-1] - 77

    def cuCtxPushCurrent(self, context: int) -> Any:
        self.stack.append(context)
        return (0,)

    def cuCtxPopCurrent(self) -> Any:
        return 0, self.stack.pop()

    def cuPointerGetAttribute(self, found: Any, attribute: int, pointer: Any) -> int:
        """As the library itself has it: the answer goes to where ``found`` points."""
        assert attribute == 9
        found._obj.value = pointer.value // 4096 % 2
        return 0

    def launch(self, handle: int, *rest: Any) -> int:
        self.seen.append(self.stack[-1])
        return super().launch(handle, *rest)


@pytest.fixture
def two(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> Two:
    made = Two()
    monkeypatch.setattr(device, "driver", lambda: made)
    monkeypatch.setattr(device, "library", lambda: made)
    monkeypatch.setattr(device, "_count", lambda: 2)
    monkeypatch.setattr(device, "launcher", lambda: made.launch)
    monkeypatch.setattr(device, "current_stream", lambda index: 100 + index)
    return made


def test_the_memory_decides_the_device_and_the_callers_stays(two: Two) -> None:
    kernel = compiled(scaled)
    kernel.launch([4096, 4096 * 3], [900], [])
    assert (two.seen, two.stack, two.launches[0]["stream"]) == ([78], [77], 101)
    kernel.launch([8192, 8192 * 3], [900], [])
    assert (two.seen, two.stack, two.launches[1]["stream"]) == ([78, 77], [77], 100)
    assert [(e.context, e.device, e.is_shared) for e in kernel.loaded_code()] == [(78, 1, True), (77, 0, True)]
    two.stack = [0]
    kernel.launch([4096, 4096], [900], [])
    assert two.seen[-1] == 78 and two.stack == [0]


def test_the_callers_context_is_left_as_it_was_by_an_error(two: Two, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device, "launcher", lambda: lambda *given: 1)
    monkeypatch.setattr(device, "refused", lambda status: (_ for _ in ()).throw(RuntimeError(str(status))))
    with pytest.raises(RuntimeError):
        compiled(scaled).launch([4096, 4096], [900], [])
    assert two.stack == [77]


def test_code_is_loaded_beside_a_graph_that_is_recorded(driver: Driver) -> None:
    driver.is_recording = True
    compiled(scaled).launch([4096, 8192], [900], [])
    assert (driver.loading_modes, driver.mode, driver.waits) == ([2], 0, 0)


def test_a_kernel_that_reports_is_not_recorded(driver: Driver) -> None:
    driver.is_recording = True
    with pytest.raises(LaunchError) as raised:
        compiled(checked).launch([4096], [], [])
    assert raised.value.code == "E643" and "checked" in str(raised.value)
    assert not driver.launches and not driver.waits


@pytest.mark.parametrize("grid,three", [((5,), (5, 1, 1)), ((5, 6), (5, 6, 1)), ((5, 6, 7), (5, 6, 7)), ((2, 3, 4, 5), (2, 3, 20))])
def test_grids_of_any_rank_are_three_extents(grid: tuple[int, ...], three: tuple[int, int, int]) -> None:
    assert _grid([const(e) for e in grid], {}) == three


def test_core_is_told_how_a_kernel_is_launched(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    functions = DriverFunctions(start=1, current=2, enter=3, leave=4)
    monkeypatch.setattr(native, "functions", lambda: functions)
    assert compiled(checked).native_launch() is None
    kernel = compiled(scaled)
    described = kernel.native_launch()
    assert described is not None and described.functions is functions and described.device_type == 2
    (step,) = described.steps
    assert (step.threads, step.shared_bytes) == ((128, 1, 1), 0)
    assert [evaluate_size(e, {}) for e in step.grid] == [8, 1, 1]
    kernel.launch([4096, 8192], [900], [])
    words = [w & 0xFFFFFFFF for w in driver.launches[0]["words"]]
    assert [{"tensor": [4096, 8192], "scalar": [900]}[kind][place] for kind, place in step.parameters] == words  # type: ignore[index]
    assert all(a in (4, 8, 16) for a in described.alignments) and len(described.alignments) == 2


def test_a_map_of_a_longer_tensor_than_boxes_reach_is_left_to_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is not positive among the first values ends the call by machine code; so does an extent of 64 bits that is too long."""
    monkeypatch.setattr(native, "address_of", lambda name: 123)
    m = Var(name="m", dtype=INT64, kind="size")
    tensor = Buffer(name="A", dtype=dtype("float16"), shape=(m, const(64)))
    made = native.made_map({"tensor": 0, "box": [64, 64], "swizzle": 128}, tensor)
    assert made.positive == 3
    for rows, is_left in ((device.LONGEST_AXIS, False), (device.LONGEST_AXIS + 1, True), (2**40, True), (0, True)):
        assert any(evaluate_size(value, {m: rows}) <= 0 for value in made.values[: made.positive]) == is_left
    lists = [made.values[place] for kind, place in made.arguments if kind == "list"]
    assert [evaluate_size(value, {m: 7}) for value in lists[:2]] == [64, 128]


@pytest.mark.parametrize(
    "shape,box,strides",
    [((37, 129), (16, 64), None), ((5, 300, 64), (1, 32, 64), None), ((9, 40), (8, 8), (64, 1)), ((77,), (64,), None)],
)
def test_maps_made_by_machine_code_are_those_of_python(
    monkeypatch: pytest.MonkeyPatch, shape: tuple[int, ...], box: tuple[int, ...], strides: tuple[int, ...] | None
) -> None:
    given: list[Any] = []

    def encode(place: int, kind: int, rank: int, pointer: int, dims: Any, pitches: Any, boxes: Any, steps: Any, *rest: int) -> int:
        extents, strides = (list(struct.unpack(f"{rank}Q", numbers)) for numbers in (dims, pitches))
        given.append((kind, rank, pointer, extents, strides[:-1], *(list(struct.unpack(f"{rank}I", n)) for n in (boxes, steps)), rest))
        return 0

    monkeypatch.setattr(device, "_encoder", lambda: encode)
    monkeypatch.setattr(native, "address_of", lambda name: {"cuTensorMapEncodeTiled": 123}[name])
    m = Var(name="m", dtype=INT32, kind="size")
    extents = (m, *(const(e) for e in shape[1:]))
    pitch = None if strides is None else tuple(const(s) for s in strides)
    tensors = [Buffer(name=name, dtype=dtype("float16"), shape=extents, strides=pitch) for name in "AB"]
    maps = device.Maps([{"tensor": 1, "box": list(box), "swizzle": 128}], tensors, [m])
    maps.addresses([4096, 8192], {m: shape[0]})
    made = native.made_map(maps.wanted[0], tensors[1])
    values = [evaluate_size(value, {m: shape[0]}) & (1 << 64) - 1 for value in made.values]
    assert (made.function, made.tensor, made.positive) == (123, 1, len(shape))
    assert values[: made.positive] == list(reversed(shape))
    memory = (ctypes.c_uint64 * (len(values) + 8))(*values)
    kinds = [kind for kind, _ in made.arguments]
    assert kinds == ["result", "number", "number", "tensor", "list", "list", "list", "list", "number", "number", "number", "number"]
    kind, rank = made.arguments[1][1], made.arguments[2][1]
    dims, pitches, sides, steps = (ctypes.addressof(memory) + 8 * place for form, place in made.arguments if form == "list")

    def read(count: int, kind: Any, place: int) -> list[int]:
        return list((kind * count).from_address(place))

    found = (
        kind, rank, 8192, read(rank, ctypes.c_uint64, dims), read(rank - 1, ctypes.c_uint64, pitches), read(rank, ctypes.c_uint32, sides),
        read(rank, ctypes.c_uint32, steps), tuple(number for _, number in made.arguments[8:]),
    )  # fmt: skip
    assert found == given[0]


class Streams(Driver):
    """A driver that writes down what is put into each stream, in order."""

    CUevent_flags = SimpleNamespace(CU_EVENT_DISABLE_TIMING=2)

    def __init__(self) -> None:
        super().__init__()
        self.log: list[tuple[Any, ...]] = []
        self.events: set[int] = set()
        self.made = 0

    def cuEventCreate(self, flags: int) -> Any:
        assert flags == 2
        self.made += 1
        self.events.add(self.made)
        return 0, self.made

    def cuEventRecord(self, event: int, stream: int) -> Any:
        self.log.append(("record", stream, event))
        return (0,)

    def cuStreamWaitEvent(self, stream: int, event: int, flags: int) -> Any:
        self.log.append(("wait", stream, event))
        return (0,)

    def cuEventDestroy(self, event: int) -> Any:
        self.events.remove(event)
        return (0,)

    def launch(self, handle: int, *rest: Any) -> int:
        self.log.append(("launch", rest[7]))
        return super().launch(handle, *rest)


class DeviceArray:
    """An array that only names itself by the device's array interface."""

    def __init__(self, pointer: int, stream: Any) -> None:
        self.__cuda_array_interface__ = {
            "data": (pointer, False), "shape": (1000,), "typestr": "<f4", "strides": None, "stream": stream, "version": 3,
        }  # fmt: skip


@pytest.fixture
def streams(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> Streams:
    made = Streams()
    monkeypatch.setattr(device, "driver", lambda: made)
    monkeypatch.setattr(device, "launcher", lambda: made.launch)
    return made


def called(first: Any, second: Any) -> None:
    memo.clear()
    zl.compile(scaled, target="cuda:sm_80")(DeviceArray(4096, first), DeviceArray(8192, second), 900)


def test_streams_that_arrays_name_are_waited_for_and_wait(streams: Streams) -> None:
    called(900, 901)
    assert streams.log == [
        ("record", 900, 1), ("wait", 4242, 1), ("record", 901, 2), ("wait", 4242, 2), ("launch", 4242),
        ("record", 4242, 3), ("wait", 900, 3), ("record", 4242, 4), ("wait", 901, 4),
    ]  # fmt: skip
    assert not streams.events and not streams.waits


def test_the_callers_own_stream_needs_no_event(streams: Streams, monkeypatch: pytest.MonkeyPatch) -> None:
    called(4242, None)
    assert streams.log == [("launch", 4242)]
    monkeypatch.setattr(device, "current_stream", lambda index: 0)
    streams.log.clear()
    called(1, 1)  # the default stream by its other name
    assert streams.log == [("launch", 0)]
    streams.log.clear()
    called(900, 900)
    assert [entry[0] for entry in streams.log] == ["record", "wait", "launch", "record", "wait"]


@pytest.mark.parametrize("stream", [0, -1, "s", True])
def test_a_stream_that_is_none_is_refused(streams: Streams, stream: Any) -> None:
    with pytest.raises(LaunchError) as raised:
        called(stream, None)
    assert raised.value.code == "E616" and "stream" in str(raised.value)
    assert not streams.log
