"""The packing code: what it packs is what Python packs, and all else it leaves to Python."""

from __future__ import annotations

import struct
import subprocess
import sys
import threading
from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch

import zellige as zl
import zellige.language as T
from zellige.diagnostics import LaunchError
from zellige.dtypes import dtype
from zellige.ir.expr import INT32, Binary, Buffer, Expr, Load, Var, const
from zellige.ir.stmt import Bind, Kernel, Launch, Param, ScalarParam, Stmt, Store, TensorParam
from zellige.runtime.arguments import Place, Signature
from zellige.runtime.native import SLOW, layout, link
from zellige.runtime.native.quick import quick_launch

CPU = Place(target="cpu", devices=("cpu", 1))
M, N = (Var(name=name, dtype=INT32, kind="size") for name in "MN")


class Recorder:
    """A compiled kernel that keeps what it was launched with."""

    def __init__(self) -> None:
        self.launched: list[tuple[list[int], list[float], list[int]]] = []

    def launch(self, pointers: Sequence[int], scalars: Sequence[int | float], sizes: Sequence[int]) -> None:
        self.launched.append((list(pointers), list(scalars), list(sizes)))

    def source(self) -> str:
        return ""

    def assembly(self) -> str:
        return ""


def buffer(name: str, shape: tuple[Any, ...], element: str = "float32", strides: tuple[Any, ...] | None = None) -> Buffer:
    def sizes(items: tuple[Any, ...]) -> tuple[Expr, ...]:
        return tuple(const(item) if isinstance(item, int) else item for item in items)

    return Buffer(name=name, dtype=dtype(element), shape=sizes(shape), strides=None if strides is None else sizes(strides))


def signature(
    *params: Buffer | ScalarParam, written: tuple[str, ...] = (), out: tuple[str, ...] = (), scratch: tuple[str, ...] = ()
) -> Signature:
    body: list[Stmt] = []
    declared: list[Param] = []
    for param in params:
        if isinstance(param, ScalarParam):
            declared.append(param)
            continue
        role: Any = "output" if param.name in out else "workspace" if param.name in scratch else "argument"
        declared.append(TensorParam(buffer=param, role=role))
        first = tuple(const(0) for _ in param.shape)
        load = Load(buffer=param, indices=first)
        if param.name in (*written, *out, *scratch):
            body.append(Store(buffer=param, indices=first, value=load))
        else:
            body.append(Bind(var=Var(name="seen", dtype=param.dtype, kind="value"), value=load))
    launch = Launch(grid_vars=(Var(name="bx", dtype=INT32, kind="grid"),), grid=(const(1),), body=tuple(body))
    results = tuple(i for i, p in enumerate(params) if isinstance(p, Buffer) and p.name in out)
    return Signature(Kernel(name="main", params=tuple(declared), launches=(launch,), results=results))


def scalar(name: str, element: str, kind: Any = "scalar") -> ScalarParam:
    return ScalarParam(var=Var(name=name, dtype=dtype(element), kind=kind))


def both(described: Signature, *args: Any) -> tuple[Any, Any]:
    """What the quick way launches, SLOW where it does not; and what Python would launch, or its error."""
    recorder = Recorder()
    quick = quick_launch(described, recorder, CPU.devices, None)
    assert quick is not None
    answer = quick(args)
    found = recorder.launched[0] if recorder.launched else answer
    try:
        bound = described.bind(described.read(args, {}), CPU, {})
    except LaunchError as error:
        return found, error
    return found, (list(bound.pointers), list(bound.scalars), list(bound.sizes))


def packs(described: Signature, *args: Any) -> None:
    found, expected = both(described, *args)
    assert found == expected


def refuses(described: Signature, *args: Any) -> None:
    """Both ways refuse: the quick one silently."""
    found, expected = both(described, *args)
    assert found is SLOW and isinstance(expected, LaunchError)


def f32(*shape: int) -> Any:
    return np.ones(shape, np.float32)


MATRIX = signature(buffer("A", (M, N)), buffer("B", (N, M)), buffer("C", (M,)), written=("C",))
GIVEN_BACK = torch.ones(3, 4)
GIVEN_BACK.untyped_storage().resize_(0)
LOCKED = f32(3)
LOCKED.flags.writeable = False


def test_right_arguments_are_packed() -> None:
    packs(MATRIX, f32(3, 4), f32(4, 3), f32(3))
    packs(MATRIX, f32(1, 1), f32(1, 1), f32(1))
    packs(MATRIX, f32(0, 4), f32(4, 0), f32(0))
    packs(MATRIX, torch.ones(3, 4), torch.ones(4, 3), torch.ones(3))
    packs(MATRIX, torch.ones(3, 4, requires_grad=True), torch.nn.Parameter(torch.ones(4, 3)), torch.ones(3))
    packs(MATRIX, f32(3, 4), torch.ones(4, 3), f32(3))
    packs(MATRIX, f32(4, 3).T.copy(), f32(9, 3)[2:6], f32(3))
    packs(signature(buffer("A", (3, 1, 4))), f32(3, 4)[:, None])
    packs(signature(buffer("A", (3, 1, 4))), torch.ones(3, 4)[:, None])
    packs(signature(buffer("A", (1, 4))), f32(9, 4)[::9])
    packs(signature(buffer("A", ())), f32())


@pytest.mark.parametrize(
    "args",
    [
        (f32(3, 4), f32(4, 3)),
        (f32(3, 4), f32(4, 3), f32(3), f32(3)),
        (f32(3, 4), f32(4, 4), f32(3)),
        (f32(3, 4), f32(4, 3), f32(4)),
        (f32(3, 4), f32(12), f32(3)),
        (f32(3, 4), f32(4, 3).astype(np.float64), f32(3)),
        (f32(3, 4), f32(4, 3).astype(np.int32), f32(3)),
        (f32(4, 3).T, f32(4, 3), f32(3)),
        (f32(3, 8)[:, ::2], f32(4, 3), f32(3)),
        (f32(3, 4)[::-1], f32(4, 3), f32(3)),
        (f32(3, 4), f32(4, 3), LOCKED),
        (f32(3, 4), f32(4, 3), [1.0, 2.0, 3.0]),
        (f32(3, 4), None, f32(3)),
        (f32(3, 4), 5, f32(3)),
        (f32(3, 4), f32(4, 3).astype(">f4"), f32(3)),
        (f32(3, 4), np.frombuffer(bytearray(50), np.uint8)[1:49].view(np.float32).reshape(4, 3), f32(3)),
        (torch.ones(4, 3).t(), f32(4, 3), f32(3)),
        (torch.ones(3, 4, dtype=torch.float64), f32(4, 3), f32(3)),
        (torch.ones(3, 4, device="meta"), f32(4, 3), f32(3)),
        (torch.ones(3, 4).to_sparse(), f32(4, 3), f32(3)),
        (GIVEN_BACK, f32(4, 3), f32(3)),
        (torch._neg_view(torch.ones(3, 4)), f32(4, 3), f32(3)),
    ],
)
def test_wrong_arguments_are_left_to_python(args: tuple[Any, ...]) -> None:
    refuses(MATRIX, *args)


class Subclass(np.ndarray):
    """Arrays that the packing code does not know."""


@pytest.mark.parametrize("args", [(f32(3, 4).view(Subclass), f32(4, 3), f32(3)), (f32(3, 4), f32(4, 3), memoryview(f32(3)))])
def test_unusual_types_are_left_to_python(args: tuple[Any, ...]) -> None:
    assert both(MATRIX, *args)[0] is SLOW


ELEMENTS = ["bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "bfloat16", "float32", "float64"]
ELEMENTS += ["float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"]


@pytest.mark.parametrize("element", ELEMENTS)
def test_every_element_type_of_both_frameworks(element: str) -> None:
    described = signature(buffer("A", (M,), element))
    kind = dtype(element)
    packs(described, np.zeros(5, kind.numpy))
    packs(described, torch.zeros(5, dtype=kind.as_torch()))
    for other in ("float32", "int32", "float64"):
        if other != element:
            refuses(described, np.zeros(5, other))
            refuses(described, torch.zeros(5, dtype=getattr(torch, other)))


def test_carriers_of_elements() -> None:
    packs(signature(buffer("A", (M,), "bool")), np.zeros(3, np.uint8))
    packs(signature(buffer("A", (M,), "tfloat32")), f32(3))
    packed = signature(buffer("A", (M, 8), "int4"))
    packs(packed, np.zeros((3, 4), np.int8))
    packs(packed, np.zeros((3, 4), np.uint8))
    packs(packed, torch.zeros(3, 4, dtype=torch.int8))
    refuses(packed, np.zeros((3, 8), np.int8))
    found, expected = both(signature(buffer("A", (M,), "float8_e8m0fnu")), np.zeros(3, ml_dtypes.float8_e8m0fnu))
    assert found == expected


def times(left: Expr, right: int) -> Expr:
    return Binary(op="mul", left=left, right=const(right))


def plus(left: Expr, right: int) -> Expr:
    return Binary(op="add", left=left, right=const(right))


def test_sizes_are_solved_and_checked() -> None:
    multiple = signature(buffer("A", (plus(times(M, 2), 1),)), buffer("B", (times(M, 3),)))
    packs(multiple, f32(7), f32(9))
    refuses(multiple, f32(8), f32(9))
    refuses(multiple, f32(7), f32(10))
    fixed = signature(buffer("A", (M, 4)))
    packs(fixed, f32(2, 4))
    refuses(fixed, f32(2, 5))
    sized = signature(buffer("A", (M,)), scalar("n", "int32"))
    packs(sized, f32(3), 7)
    named = ScalarParam(var=M)
    packs(signature(buffer("A", (M,)), named), f32(3), 3)
    refuses(signature(buffer("A", (M,)), named), f32(3), 4)


def test_declared_strides() -> None:
    row = Var(name="s", dtype=INT32, kind="size")
    described = signature(buffer("A", (M, 4), strides=(row, 1)))
    packs(described, f32(3, 4))
    packs(described, f32(3, 9)[:, :4])
    packs(described, torch.ones(3, 9)[:, :4])
    refuses(described, f32(3, 8)[:, ::2])
    refuses(described, f32(3, 4)[::-1])
    packed = signature(buffer("A", (M, 8), "int4", strides=(row, 1)))
    packs(packed, np.zeros((3, 9), np.int8)[:, :4])


@pytest.mark.parametrize(
    "element, good, bad",
    [
        ("int32", [0, -1, 2**31 - 1, True], [2**31, -(2**31) - 1, 2**70, "1", None]),
        ("uint8", [0, 255], [-1, 256]),
        ("int64", [-(2**63), 2**63 - 1], [2**63]),
        ("bool", [True, False, 1], [2]),
        ("float32", [0.5, -1e30, float("inf")], ["x", None]),
        ("float64", [1e300], [[]]),
    ],
)
def test_numbers(element: str, good: list[Any], bad: list[Any]) -> None:
    described = signature(scalar("x", element), buffer("A", (M,)))
    for value in good:
        packs(described, value, f32(2))
    for value in bad:
        refuses(described, value, f32(2))


def test_numbers_of_other_types_are_left_to_python() -> None:
    described = signature(scalar("x", "float32"), scalar("n", "uint64"))
    for args in ((1, 1), (np.float32(1), 1), (1.0, np.int64(3)), (1.0, 2**64 - 1)):
        found, expected = both(described, *args)
        assert found is SLOW and isinstance(expected, tuple)


def test_results_are_made_in_the_framework_of_the_first_argument() -> None:
    fixed = signature(buffer("A", (4,)), buffer("B", (2, 4), "bfloat16"), out=("B",))
    dynamic = signature(buffer("A", (M,)), buffer("B", (times(M, 2), 3)), buffer("C", (M, 2), "int4"), out=("B", "C"))
    for described in (fixed, dynamic):
        recorder = Recorder()
        quick = quick_launch(described, recorder, CPU.devices, None)
        assert quick is not None
        for given in (f32(4), torch.ones(4)):
            returned = quick((given,))
            expected = described.bind(described.read((given,), {}), CPU, {}).returned()
            for found, wanted in zip(*(list(r) if isinstance(r, list) else [r] for r in (returned, expected)), strict=True):
                assert (type(found), tuple(found.shape), found.dtype) == (type(wanted), tuple(wanted.shape), wanted.dtype)
            made = returned if isinstance(returned, list) else [returned]
            addresses = [a.data_ptr() if isinstance(a, torch.Tensor) else a.ctypes.data for a in made]
            assert recorder.launched[-1][0][1:] == addresses
        assert quick((f32(3, 3),)) is SLOW
        assert quick(()) is SLOW


def test_results_of_negative_size_are_left_to_python() -> None:
    described = signature(buffer("A", (M,)), buffer("B", (plus(M, -5),)), out=("B",))
    assert both(described, f32(3))[0] is SLOW


def test_kernels_with_what_only_python_knows_have_no_quick_way() -> None:
    for described in (
        signature(scalar("p", "handle"), buffer("A", (M,))),
        signature(buffer("A", (M,)), buffer("W", (4,)), scratch=("W",)),
        signature(buffer("A", (M,)), buffer("B", (Binary(op="floordiv", left=M, right=const(2)),))),
        signature(*(buffer(f"A{n}", (M,)) for n in range(layout.MOST_ARGUMENTS + 1))),
    ):
        assert quick_launch(described, Recorder(), CPU.devices, None) is None


def test_devices_that_the_kernel_does_not_reach_are_left_to_python() -> None:
    elsewhere = quick_launch(MATRIX, Recorder(), ("gadget", 77), None)
    assert elsewhere is not None
    assert elsewhere((f32(3, 4), f32(4, 3), f32(3))) is SLOW
    assert elsewhere((torch.ones(3, 4), torch.ones(4, 3), torch.ones(3))) is SLOW


def test_the_spare_words_are_zero_and_their_address_stands_before_them() -> None:
    class Packed(Recorder):
        def launch_packed(self, words: bytes) -> None:
            self.words = words

    recorder = Packed()
    quick = quick_launch(MATRIX, recorder, CPU.devices, None)
    assert quick is not None
    quick((f32(3, 4), f32(4, 3), f32(3)))
    count = 3 + 2
    assert len(recorder.words) == 8 * (count + 2 + layout.SPARE_WORDS)
    values = struct.unpack(f"<{len(recorder.words) // 8}Q", recorder.words)
    assert values[3:5] == (3, 4)
    assert values[count] == id(recorder.words) + layout.BYTES_DATA + 8 * (count + 2)
    assert not any(values[count + 1 :])


def test_nothing_is_leaked() -> None:
    recorder = Recorder()
    quick = quick_launch(MATRIX, recorder, CPU.devices, None)
    assert quick is not None
    good, bad = (f32(3, 4), f32(4, 3), f32(3)), (f32(3, 4), f32(4, 4), f32(3))
    none = sys.getrefcount(None)
    counts = [sys.getrefcount(a) for a in good]
    for _ in range(1000):
        quick(good)
        assert quick(bad) is SLOW
    recorder.launched.clear()
    assert [sys.getrefcount(a) for a in good] == counts
    assert abs(sys.getrefcount(None) - none) < 500


def test_without_packing_code_every_call_goes_through_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link, "_kept", [])
    monkeypatch.setattr(link, "_is_right", lambda _linked: False)
    assert quick_launch(MATRIX, Recorder(), CPU.devices, None) is None
    monkeypatch.setattr(link, "_kept", [])
    monkeypatch.setattr(layout, "is_known_interpreter", lambda: False)
    assert quick_launch(MATRIX, Recorder(), CPU.devices, None) is None


def test_the_machine_code_is_kept() -> None:
    class Store:
        def __init__(self) -> None:
            self.entries: dict[str, bytes] = {}

        def find(self, kind: str, key: str) -> bytes | None:
            return self.entries.get(f"{kind}/{key}")

        def keep(self, kind: str, key: str, content: bytes) -> None:
            self.entries[f"{kind}/{key}"] = content

    store = Store()
    made = link._machine_code(store)
    assert list(store.entries.values()) == [made]
    store.entries = dict.fromkeys(store.entries, b"kept")
    assert link._machine_code(store) == b"kept"


# ---- whole kernels


@pytest.fixture(scope="module")
def add() -> Any:
    @T.prim_func
    def add(A: T.Tensor((16,), "float32"), s: T.float32, B: T.Tensor((16,), "float32")):
        with T.Kernel(2) as i:
            for j in T.Parallel(8):
                B[i * 8 + j] = A[i * 8 + j] + s

    return zl.compile(add, out_idx=-1, target="cpu")


def test_later_calls_are_quick_and_right(add: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    a = np.arange(16, dtype=np.float32)
    for _ in range(3):
        np.testing.assert_array_equal(add(a, 1.5), a + 1.5)
    assert add._quick is not None
    monkeypatch.setattr(type(add), "_called_slowly", lambda *_a: pytest.fail("the slow way"))
    np.testing.assert_array_equal(add(a, 2.5), a + 2.5)
    made = add(torch.ones(16), 1.0)
    assert isinstance(made, torch.Tensor) and made.tolist() == [2.0] * 16


def test_errors_are_those_of_the_first_call(add: Any) -> None:
    a = np.ones(16, np.float32)
    for _ in range(3):
        add(a, 1.0)
    with pytest.raises(LaunchError, match="E605: argument A"):
        add(a[:8], 1.0)
    with pytest.raises(LaunchError, match="E601"):
        add(a)
    with pytest.raises(LaunchError, match="E612"):
        add(a, "x")
    np.testing.assert_array_equal(add(A=a, s=1.0), a + 1)


def test_an_assertion_that_fails_is_reported_by_the_quick_way() -> None:
    @T.prim_func
    def checked(A: T.Tensor((4,), "float32")):
        with T.Kernel(4) as i:
            T.device_assert(A[i] > 0, "positive")

    kernel = zl.compile(checked, target="cpu")
    for _ in range(3):
        kernel(np.ones(4, np.float32))
    assert kernel._quick is not None
    for _ in range(3):
        with pytest.raises(LaunchError, match="E620: assertion failed: positive"):
            kernel(np.array([1, 1, 0, 1], np.float32))
    kernel(np.ones(4, np.float32))


def test_a_kernel_that_prints_prints_the_quick_way(capfd: pytest.CaptureFixture[str]) -> None:
    @T.prim_func
    def shown(A: T.Tensor((4,), "float32"), s: T.float32, n: T.int32):
        with T.Kernel(1) as _:
            T.print(A[n] * s, msg="value")

    kernel = zl.compile(shown, target="cpu")
    for _ in range(4):
        kernel(np.arange(4, dtype=np.float32), 2.0, 3)
    lines = capfd.readouterr().out.splitlines()
    assert len(lines) == 4 and len(set(lines)) == 1 and "6" in lines[0]


def test_a_failure_of_the_backend_is_an_internal_error(add: Any) -> None:
    a = np.ones(16, np.float32)
    for _ in range(3):
        add(a, 1.0)

    def broken(_words: bytes) -> None:
        raise RuntimeError("broken")

    kept, add._quick._launch = add._quick._launch, broken
    try:
        with pytest.raises(zl.InternalError, match="RuntimeError: broken"):
            add(a, 1.0)
    finally:
        add._quick._launch = kept


def test_several_launches_dynamic_sizes_and_empty_grids() -> None:
    rows = T.dynamic("rows")

    @T.prim_func
    def twice(A: T.Tensor((rows, 4), "float32"), B: T.Tensor((rows, 4), "float32")):
        with T.Kernel(rows) as i:
            for j in T.Parallel(4):
                B[i, j] = A[i, j] + 1.0
        with T.Kernel(rows) as i:
            for j in T.Parallel(4):
                B[i, j] = B[i, j] * 2.0

    kernel = zl.compile(twice, out_idx=-1, target="cpu")
    for count in (3, 0, 1, 7, 0, 2):
        a = np.random.default_rng(count).random((count, 4), np.float32)
        np.testing.assert_allclose(kernel(a), (a + 1) * 2, rtol=1e-6)
    assert kernel._quick is not None


def test_none_stands_for_a_tensor_that_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    @T.prim_func
    def copy(A: T.Tensor((4,), "float32"), unused: T.Tensor((4,), "float32"), B: T.Tensor((4,), "float32")):
        with T.Kernel(1) as _:
            for j in T.Parallel(4):
                B[j] = A[j]

    kernel = zl.compile(copy, target="cpu")
    a, b = np.arange(4, dtype=np.float32), np.zeros(4, np.float32)
    for unused in (None, a, None, a, None, a):
        b[:] = 0
        kernel(a, unused, b)
        np.testing.assert_array_equal(a, b)
    assert kernel._quick is not None
    for missing in ((None, a, b), (a, a, None)):
        with pytest.raises(LaunchError, match="E618"):
            kernel(*missing)


def test_an_empty_tensor_runs_nothing_and_is_returned() -> None:
    rows = T.dynamic("rows")

    @T.prim_func
    def double(A: T.Tensor((rows,), "float32"), B: T.Tensor((rows,), "float32")):
        with T.Kernel(T.ceildiv(rows, 8)) as i:
            for j in T.Parallel(8):
                B[i * 8 + j] = A[i * 8 + j] * 2.0

    kernel = zl.compile(double, out_idx=-1, target="cpu")
    for _ in range(4):
        assert kernel(np.empty(0, np.float32)).shape == (0,)
        assert kernel(torch.empty(0)).shape == (0,)


def test_threads_share_a_kernel(add: Any) -> None:
    wrong: list[Any] = []

    def work(number: int) -> None:
        a = np.full(16, number, np.float32)
        for n in range(200):
            if not (add(a, float(n)) == number + n).all():
                wrong.append((number, n))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_torch_may_be_imported_later() -> None:
    program = """
import numpy as np, sys
import zellige as zl, zellige.language as T

@T.prim_func
def double(A: T.Tensor((4,), "float32"), B: T.Tensor((4,), "float32")):
    with T.Kernel(1) as _:
        for j in T.Parallel(4):
            B[j] = A[j] * 2.0
kernel = zl.compile(double, out_idx=-1, target="cpu")
for _ in range(3):
    kernel(np.ones(4, np.float32))
assert kernel._quick is not None and not kernel._quick.knows_torch and "torch" not in sys.modules
import torch
for _ in range(3):
    assert kernel(torch.ones(4)).tolist() == [2.0] * 4
assert kernel._quick.knows_torch
assert kernel._quick((torch.ones(4),)).tolist() == [2.0] * 4
"""
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize("torch_is_imported", [True, False])
def test_the_quick_way_makes_the_results_that_the_explained_way_makes(torch_is_imported: bool) -> None:
    """A kernel without tensor arguments: its first calls go the explained way, later ones the quick one."""
    program = """
import sys
if sys.argv[1] == "True":
    import torch
import zellige as zl
import zellige.language as T

@T.prim_func
def kernel(by: T.float32):
    out = T.empty((3, 4), "float32")
    with T.Kernel(3) as row:
        for column in T.Parallel(4):
            out[row, column] = by * row + column
    return out

compiled = zl.compile(kernel, target="cpu")
made = [compiled(10.0) for _ in range(6)]
assert all(array.tolist() == [[10 * r + c for c in range(4)] for r in range(3)] for array in made)
print(*sorted({type(array).__name__ for array in made}))
import torch
print(type(compiled(1.0)).__name__, type(compiled(1.0)).__name__)
"""
    done = subprocess.run([sys.executable, "-c", program, str(torch_is_imported)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["Tensor" if torch_is_imported else "ndarray", "Tensor", "Tensor"]
