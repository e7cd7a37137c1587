"""The launching code: what reaches a driver made of C callbacks is what Python would hand to it, and what it does not know is Python's."""

from __future__ import annotations

import ctypes
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NoReturn

import pytest
import torch

from zellige.dtypes import dtype
from zellige.ir.expr import INT32, Binary, Buffer, Cast, Expr, Math, Var, const
from zellige.ir.stmt import Bind, Kernel, Launch, ScalarParam, Stmt, Store, TensorParam
from zellige.plugin.contract import DriverFunctions, LoadedCode, NativeLaunch, NativeMade, NativeStep
from zellige.runtime.arguments import Signature
from zellige.runtime.native import SLOW, layout, quick
from zellige.runtime.native.quick import QuickLaunch, quick_launch
from zellige.runtime.native.table import Foreign, foreign

M, N = (Var(name=name, dtype=INT32, kind="size") for name in "MN")
X, Y = Var(name="x", dtype=dtype("float32"), kind="scalar"), Var(name="y", dtype=dtype("float64"), kind="scalar")
COUNT = Var(name="n", dtype=INT32, kind="scalar")

_P, _U = ctypes.c_void_p, ctypes.c_uint
START = ctypes.CFUNCTYPE(ctypes.c_int, _P, *[_U] * 7, _P, ctypes.POINTER(_P), _P)
CONTEXT = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(_P))
ENTER = ctypes.CFUNCTYPE(ctypes.c_int, _P)
STREAM = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.POINTER(_P))

MAIN, OTHER = 0x1000, 0x2000


class Driver:
    """A driver that writes down what it is asked. ``parameters`` are the sizes in bytes of each launch's parameters."""

    def __init__(self, parameters: Sequence[Sequence[int]]) -> None:
        self.log: list[Any] = []
        self.current = MAIN
        self.answers: list[int] = []
        self.parameters = parameters
        self.began = 0
        self._kept = (START(self.start), CONTEXT(self.context), ENTER(self.enter), CONTEXT(self.leave), STREAM(self.stream))
        self._stack: list[int] = []
        self.streams = {0: 77}
        self.addresses = [ctypes.cast(f, ctypes.c_void_p).value or 0 for f in self._kept]

    def functions(self) -> DriverFunctions:
        start, current, enter, leave, _ = self.addresses
        return DriverFunctions(start=start, current=current, enter=enter, leave=leave)

    def start(self, handle: int, *rest: Any) -> int:
        *shape, stream, given, nothing = rest
        sizes = self.parameters[self.began % len(self.parameters)]
        self.began += 1
        values = [ctypes.string_at(given[place], size) for place, size in enumerate(sizes)]
        self.log.append(("start", handle, tuple(shape), stream, values, nothing, self.current))
        return self.answers.pop(0) if self.answers else 0

    def context(self, place: Any) -> int:
        place[0] = self.current
        return 0

    def enter(self, context: int) -> int:
        self._stack.append(self.current)
        self.current = context
        self.log.append(("enter", context))
        return 0

    def leave(self, place: Any) -> int:
        place[0] = self.current
        self.current = self._stack.pop()
        self.log.append(("leave", place[0]))
        return 0

    def stream(self, kind: int, index: int, place: Any) -> int:
        place[0] = self.streams.get(index)
        return 0 if index in self.streams else -1


class Compiled:
    """A kernel that core launches."""

    def __init__(self, driver: Driver, steps: Sequence[NativeStep], alignments: tuple[int, ...], most: tuple[int, int, int]) -> None:
        self.described: NativeLaunch | None = NativeLaunch(
            functions=driver.functions(), device_type=1, steps=tuple(steps), alignments=alignments, most_blocks=most
        )
        self.loaded = [LoadedCode(context=MAIN, device=0, is_shared=True, handles=tuple(500 + n for n in range(len(steps))))]
        self.slow: list[Any] = []

    def native_launch(self) -> NativeLaunch | None:
        return self.described

    def loaded_code(self) -> Sequence[LoadedCode]:
        return self.loaded

    def refuse(self, status: int) -> NoReturn:
        raise RuntimeError(f"the driver answers {status}")

    def launch(self, pointers: Sequence[int], scalars: Sequence[int | float], sizes: Sequence[int]) -> None:
        self.slow.append((pointers, scalars, sizes))

    def source(self) -> str:
        return ""

    def assembly(self) -> str:
        return ""


def tensor(name: str, *shape: Any, role: Any = "argument") -> TensorParam:
    extents = tuple(const(item) if isinstance(item, int) else item for item in shape)
    return TensorParam(buffer=Buffer(name=name, dtype=dtype("float32"), shape=extents), role=role)


def signature(*params: TensorParam | ScalarParam) -> Signature:
    body: list[Stmt] = []
    for param in params:
        if isinstance(param, TensorParam):
            first = tuple(const(0) for _ in param.buffer.shape)
            zero = Cast(value=const(0), dtype=dtype("float32"))
            body.append(Store(buffer=param.buffer, indices=first, value=zero))
        else:
            body.append(Bind(var=Var(name="seen", dtype=param.var.dtype, kind="value"), value=param.var))
    launch = Launch(grid_vars=(Var(name="bx", dtype=INT32, kind="grid"),), grid=(const(1),), body=tuple(body))
    results = tuple(i for i, p in enumerate(params) if isinstance(p, TensorParam) and p.role == "output")
    return Signature(Kernel(name="main", params=params, launches=(launch,), results=results))


def binary(op: Any, left: Expr, right: Expr | int) -> Expr:
    return Binary(op=op, left=left, right=const(right) if isinstance(right, int) else right)


def ceildiv(value: Expr, by: int) -> Expr:
    return binary("floordiv", binary("add", value, by - 1), by)


ROWS = signature(tensor("A", M, N), tensor("B", M, N))
ROWS_STEP = NativeStep(
    grid=(ceildiv(N, 32), M, const(2)), threads=(64, 2, 1), shared_bytes=4096, parameters=(("size", 1), ("tensor", 1), ("tensor", 0))
)
MOST = (2**31 - 1, 65535, 65535)


def made(
    monkeypatch: pytest.MonkeyPatch, described: Signature, steps: Sequence[NativeStep], sizes: Sequence[Sequence[int]], most: Any = MOST
) -> tuple[Driver, Compiled, QuickLaunch]:
    driver = Driver(sizes)
    known = foreign()
    assert known is not None and known.stream, "torch tells its stream"
    monkeypatch.setattr(quick, "foreign", lambda: Foreign(types=known.types, read=known.read, stream=driver.addresses[4]))
    tensors = sum(isinstance(p, TensorParam) for p in described.kernel.params)
    compiled = Compiled(driver, steps, (16,) * tensors, most)
    launch = quick_launch(described, compiled, ("cpu", 1), None)
    assert launch is not None
    return driver, compiled, launch


def number(data: bytes) -> int:
    return int.from_bytes(data, "little")


def test_what_reaches_the_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    driver, compiled, launch = made(monkeypatch, ROWS, [ROWS_STEP], [(4, 8, 8)])
    a, b = torch.ones(5, 100), torch.ones(5, 100)
    assert launch((a, b)) is None
    ((_, handle, shape, stream, values, nothing, context),) = driver.log
    assert (handle, shape, stream, nothing, context) == (500, (4, 5, 2, 64, 2, 1, 4096), 77, None, MAIN)
    assert list(map(number, values)) == [100, b.data_ptr(), a.data_ptr()]
    assert not compiled.slow


def test_results_are_made_and_launches_follow_one_another(monkeypatch: pytest.MonkeyPatch) -> None:
    described = signature(tensor("A", M), tensor("B", binary("mul", M, 2), role="output"))
    steps = [
        NativeStep(grid=(M, const(1), const(1)), threads=(32, 1, 1), shared_bytes=0, parameters=(("tensor", 0),)),
        NativeStep(grid=(const(3), M, const(1)), threads=(64, 1, 1), shared_bytes=8, parameters=(("tensor", 1), ("size", 0))),
    ]
    driver, _, launch = made(monkeypatch, described, steps, [(8,), (8, 4)])
    a = torch.ones(7)
    result = launch((a,))
    assert result.shape == (14,)
    first, second = driver.log
    assert first[1:3] == (500, (7, 1, 1, 32, 1, 1, 0)) and number(first[4][0]) == a.data_ptr()
    assert second[1:3] == (501, (3, 7, 1, 64, 1, 1, 8)) and list(map(number, second[4])) == [result.data_ptr(), 7]


def test_numbers_have_the_bits_of_their_types(monkeypatch: pytest.MonkeyPatch) -> None:
    described = signature(tensor("A", M), ScalarParam(var=X), ScalarParam(var=Y), ScalarParam(var=COUNT))
    parameters: Any = (("scalar", 0), ("scalar", 1), ("scalar", 2), ("tensor", 0))
    step = NativeStep(grid=(COUNT, const(1), const(1)), threads=(32, 1, 1), shared_bytes=0, parameters=parameters)
    driver, _, launch = made(monkeypatch, described, [step], [(4, 8, 4, 8)])
    assert launch((torch.ones(4), 0.1, 0.1, 9)) is None
    values = driver.log[0][4]
    assert ctypes.c_float.from_buffer_copy(values[0]).value == ctypes.c_float(0.1).value
    assert ctypes.c_double.from_buffer_copy(values[1]).value == 0.1
    assert number(values[2]) == 9 and driver.log[0][2][0] == 9
    narrow = signature(tensor("A", M), ScalarParam(var=Var(name="h", dtype=dtype("float16"), kind="scalar")))
    step = NativeStep(grid=(M, const(1), const(1)), threads=(32, 1, 1), shared_bytes=0, parameters=(("tensor", 0), ("scalar", 0)))
    assert made(monkeypatch, narrow, [step], [(8, 2)])[2].native is None


GRIDS = [
    (binary("floormod", M, 7), lambda m: m % 7),
    (binary("floordiv", binary("sub", const(0), M), 4), lambda m: -m // 4),
    (binary("floormod", binary("sub", const(0), M), 4), lambda m: -m % 4),
    (binary("min", M, 9), lambda m: min(m, 9)),
    (binary("max", binary("mul", M, 3), 11), lambda m: max(m * 3, 11)),
    (Cast(value=binary("add", binary("sub", M, 2), binary("mul", M, M)), dtype=dtype("int64")), lambda m: m - 2 + m * m),
]


@pytest.mark.parametrize("place", range(len(GRIDS)))
def test_grids_are_computed_as_in_python(monkeypatch: pytest.MonkeyPatch, place: int) -> None:
    grid, expected = GRIDS[place]
    described = signature(tensor("A", M))
    step = NativeStep(grid=(grid, const(1), const(1)), threads=(32, 1, 1), shared_bytes=0, parameters=(("tensor", 0),))
    driver, _, launch = made(monkeypatch, described, [step], [(8,)])
    for m in (1, 2, 3, 4, 5, 13, 1000):
        driver.log.clear()
        assert launch((torch.ones(m),)) is None
        wanted = expected(m)
        assert [entry[2][0] for entry in driver.log] == ([wanted] if wanted > 0 else [])


@pytest.mark.parametrize(
    "grid",
    [Cast(value=Math(function="sqrt", args=(Cast(value=M, dtype=dtype("float64")),), dtype=dtype("float64")), dtype=INT32),
     binary("shl", M, 2)],
)  # fmt: skip
def test_grids_without_instructions_are_left_to_python(monkeypatch: pytest.MonkeyPatch, grid: Expr) -> None:
    step = NativeStep(grid=(grid, const(1), const(1)), threads=(32, 1, 1), shared_bytes=0, parameters=(("tensor", 0),))
    assert made(monkeypatch, signature(tensor("A", M)), [step], [(8,)])[2].native is None


def test_deep_grids_are_left_to_python(monkeypatch: pytest.MonkeyPatch) -> None:
    def nested(depth: int) -> Expr:
        expr: Expr = M
        for _ in range(depth):
            expr = binary("add", M, expr)
        return expr

    for depth, is_native in ((layout.MOST_DEPTH - 1, True), (layout.MOST_DEPTH, False)):
        step = NativeStep(grid=(nested(depth), const(1), const(1)), threads=(1, 1, 1), shared_bytes=0, parameters=(("tensor", 0),))
        driver, _, launch = made(monkeypatch, signature(tensor("A", M)), [step], [(8,)])
        assert (launch.native is not None) == is_native
        if is_native:
            launch((torch.ones(3),))
            assert driver.log[0][2][0] == 3 * (depth + 1)


def test_an_empty_grid_starts_nothing_and_a_large_one_is_pythons(monkeypatch: pytest.MonkeyPatch) -> None:
    step = NativeStep(grid=(N, M, const(1)), threads=(32, 1, 1), shared_bytes=0, parameters=(("tensor", 0), ("tensor", 1), ("size", 0)))
    driver, _, launch = made(monkeypatch, ROWS, [step, step], [(8, 8, 4)], (1000, 10, 10))
    assert launch((torch.ones(0, 4), torch.ones(0, 4))) is None and not driver.log
    assert launch((torch.ones(11, 4), torch.ones(11, 4))) is SLOW and not driver.log
    assert launch((torch.ones(10, 4), torch.ones(10, 4))) is None and len(driver.log) == 2


def test_a_number_that_64_bits_do_not_hold_is_pythons(monkeypatch: pytest.MonkeyPatch) -> None:
    grid = binary("floormod", binary("mul", binary("mul", COUNT, COUNT), binary("mul", COUNT, COUNT)), 2)
    step = NativeStep(grid=(grid, const(1), const(1)), threads=(32, 1, 1), shared_bytes=0, parameters=(("tensor", 0),))
    driver, _, launch = made(monkeypatch, signature(tensor("A", M), ScalarParam(var=COUNT)), [step], [(8,)])
    assert launch((torch.ones(3), 2**31 - 1)) is SLOW
    assert launch((torch.ones(3), 3)) is None and len(driver.log) == 1


def test_the_drivers_refusal_is_raised_and_ends_the_launches(monkeypatch: pytest.MonkeyPatch) -> None:
    driver, _, launch = made(monkeypatch, ROWS, [ROWS_STEP, ROWS_STEP], [(4, 8, 8)])
    driver.answers = [700]
    with pytest.raises(RuntimeError, match="answers 700"):
        launch((torch.ones(2, 4), torch.ones(2, 4)))
    assert len(driver.log) == 1


def test_the_context_of_the_tensors_device_is_entered_and_left(monkeypatch: pytest.MonkeyPatch) -> None:
    driver, compiled, launch = made(monkeypatch, ROWS, [ROWS_STEP], [(4, 8, 8)])
    args = torch.ones(2, 4), torch.ones(2, 4)
    driver.current = OTHER
    assert launch(args) is None
    assert [entry[0] for entry in driver.log] == ["enter", "start", "leave"] and driver.log[1][-1] == MAIN
    assert driver.current == OTHER
    driver.log.clear()
    compiled.loaded.append(LoadedCode(context=OTHER, device=0, is_shared=False, handles=(900,)))
    assert launch.native is not None
    launch.native.note_contexts()  # a context of the same device that the caller made: it stays
    assert launch(args) is None
    assert [entry[:2] for entry in driver.log] == [("start", 900)]


def test_a_refused_launch_leaves_the_context_too(monkeypatch: pytest.MonkeyPatch) -> None:
    driver, _, launch = made(monkeypatch, ROWS, [ROWS_STEP], [(4, 8, 8)])
    driver.current, driver.answers = OTHER, [1]
    with pytest.raises(RuntimeError):
        launch((torch.ones(2, 4), torch.ones(2, 4)))
    assert driver.current == OTHER


def test_a_device_without_the_code_is_pythons(monkeypatch: pytest.MonkeyPatch) -> None:
    driver, compiled, launch = made(monkeypatch, ROWS, [ROWS_STEP], [(4, 8, 8)])
    compiled.loaded[:] = []
    again = quick_launch(ROWS, compiled, ("cpu", 1), None)
    assert again is not None and again.native is not None
    args = torch.ones(2, 4), torch.ones(2, 4)
    assert again(args) is SLOW and not driver.log
    compiled.loaded.append(LoadedCode(context=MAIN, device=0, is_shared=True, handles=(900,)))
    again.native.note_contexts()
    assert again(args) is None and len(driver.log) == 1
    driver.streams.clear()  # the framework knows no stream there
    assert again(args) is SLOW and len(driver.log) == 1


def test_contexts_beyond_the_room_are_pythons(monkeypatch: pytest.MonkeyPatch) -> None:
    driver, compiled, launch = made(monkeypatch, ROWS, [ROWS_STEP], [(4, 8, 8)])
    more = [LoadedCode(context=MAIN + n, device=0, is_shared=False, handles=(900 + n,)) for n in range(1, 2 * layout.MOST_CONTEXTS)]
    compiled.loaded += more
    assert launch.native is not None
    launch.native.note_contexts()
    launch.native.note_contexts()
    driver.current = MAIN + layout.MOST_CONTEXTS - 1
    assert launch((torch.ones(2, 4), torch.ones(2, 4))) is None and driver.log[-1][1] == 900 + layout.MOST_CONTEXTS - 1


@pytest.mark.parametrize(
    "args",
    [
        (torch.ones(2, 4),),
        (torch.ones(2, 4), torch.ones(2, 5)),
        (torch.ones(2, 4), None),
        (torch.ones(2, 4), 3),
        (torch.ones(2, 4), torch.ones(2, 4, dtype=torch.float64)),
        (torch.ones(2, 4), torch._neg_view(torch.ones(2, 4))),
        (torch.ones(9)[1:9].reshape(2, 4), torch.ones(2, 4)),
        (torch.ones(2, 4), torch.ones(2, 4), torch.ones(2, 4)),
        (torch.ones(2, 4, device="meta"), torch.ones(2, 4)),
    ],
)
def test_what_does_not_fit_is_left_to_python(monkeypatch: pytest.MonkeyPatch, args: tuple[Any, ...]) -> None:
    driver, _, launch = made(monkeypatch, ROWS, [ROWS_STEP], [(4, 8, 8)])
    assert launch(args) is SLOW and not driver.log


@pytest.mark.parametrize("apart,is_slow", [((), False), (((1, 0),), True), (((1, 2), (1, 0)), True), (((2, 1),), False)])
def test_one_array_under_two_names_is_pythons_where_the_code_takes_them_apart(
    monkeypatch: pytest.MonkeyPatch, apart: tuple[tuple[int, int], ...], is_slow: bool
) -> None:
    three = signature(tensor("A", M, N), tensor("B", M, N), tensor("C", M, N))
    driver, compiled, _ = made(monkeypatch, three, [ROWS_STEP], [(4, 8, 8)])
    assert compiled.described is not None
    compiled.described = replace(compiled.described, apart=apart)
    launch = quick_launch(three, compiled, ("cpu", 1), None)
    assert launch is not None
    one, other = torch.ones(2, 4), torch.ones(2, 4)
    assert (launch((one, one, other)) is SLOW) == is_slow
    assert len(driver.log) == int(not is_slow)
    assert launch((one, other, one.clone())) is None


MAKE = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_int64] * layout.MOST_MADE_ARGUMENTS)


class Maker:
    """A function of a driver that makes a parameter: it notes its arguments and fills the place with a byte."""

    def __init__(self, fill: int) -> None:
        self.fill, self.answer = fill, 0
        self.seen: list[Any] = []
        self._kept = MAKE(self.make)
        self.address = ctypes.cast(self._kept, ctypes.c_void_p).value or 0

    def make(self, *given: int) -> int:
        result, kind, pointer, dims, pitches, last, *rest = given
        assert result % layout.MADE_ALIGNMENT == 0 and not any(rest)
        lists = [(ctypes.c_int64 * 2).from_address(dims)[:], ctypes.c_int64.from_address(pitches).value]
        self.seen.append((kind, pointer, *lists, last))
        ctypes.memset(result, self.fill, layout.MADE_BYTES)
        return self.answer


def test_parameters_that_the_driver_makes(monkeypatch: pytest.MonkeyPatch) -> None:
    makers = [Maker(0xA1), Maker(0xB2)]
    arguments: Any = (("result", 0), ("number", -5), ("tensor", 0), ("list", 0), ("list", 2), ("number", 7))
    values = (N, M, binary("mul", N, 4))
    made_of = tuple(
        NativeMade(function=maker.address, tensor=1 - n, values=values, positive=2, arguments=arguments) for n, maker in enumerate(makers)
    )
    parameters: Any = (("made", 1), ("tensor", 0), ("made", 0))
    step = NativeStep(grid=(M, const(1), const(1)), threads=(32, 1, 1), shared_bytes=0, parameters=parameters)
    driver, compiled, _ = made(monkeypatch, ROWS, [step, step], [(128, 8, 128)])
    assert compiled.described is not None
    compiled.described = replace(compiled.described, made=made_of)
    launch = quick_launch(ROWS, compiled, ("cpu", 1), None)
    assert launch is not None and launch.native is not None
    a, b = torch.ones(3, 20), torch.ones(3, 20)
    assert launch((a, b)) is None
    assert makers[0].seen == [(-5, b.data_ptr(), [20, 3], 80, 7)]
    assert makers[1].seen == [(-5, a.data_ptr(), [20, 3], 80, 7)]
    for entry in driver.log:
        assert entry[4] == [b"\xb2" * 128, a.data_ptr().to_bytes(8, "little"), b"\xa1" * 128]
    assert len(driver.log) == 2
    assert launch((torch.ones(3, 0), torch.ones(3, 0))) is SLOW  # an extent that is not positive
    makers[1].answer = 1
    assert launch((a, b)) is SLOW and len(driver.log) == 2


def test_a_kernel_that_says_nothing_is_launched_through_python(monkeypatch: pytest.MonkeyPatch) -> None:
    _, compiled, _ = made(monkeypatch, ROWS, [ROWS_STEP], [(4, 8, 8)])
    compiled.described = None
    launch = quick_launch(ROWS, compiled, ("cpu", 1), None)
    assert launch is not None and launch.native is None
    assert launch((torch.ones(2, 4), torch.ones(2, 4))) is None and len(compiled.slow) == 1


def test_other_threads_run_while_the_driver_works(monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver sleeps in C (``usleep`` of the handle); no thread is interrupted, so another one counts on only where the lock was given
    up."""
    _, _, launch = made(monkeypatch, ROWS, [ROWS_STEP], [(4, 8, 8)])
    assert launch.native is not None
    sleep = ctypes.cast(ctypes.CDLL(None).usleep, ctypes.c_void_p).value or 0
    launch.native.table._block[layout.Launching.START] = sleep
    launch.native.table._block[layout.Launching.WORDS + layout.Context.HANDLES] = 300_000
    counted, is_over = [0], threading.Event()

    def count() -> None:
        while not is_over.is_set():
            counted[0] += 1
            time.sleep(0.001)  # gives the lock back, so that the launch need not wait for it

    args, interval = (torch.ones(2, 4), torch.ones(2, 4)), sys.getswitchinterval()
    helper = threading.Thread(target=count)
    helper.start()
    try:
        sys.setswitchinterval(60)
        before = counted[0]
        answer, after = launch(args), counted[0]
    finally:
        sys.setswitchinterval(interval)
        is_over.set()
        helper.join()
    assert answer is None and after > before
