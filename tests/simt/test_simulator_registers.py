"""What a lane or the block reads of registers that nobody wrote, in simulated programs; what the interpreter says of the same reads."""

import numpy as np
import pytest

import zellige as zl
import zellige.language as T
from zellige.interp import Report, interpret

ONLY_UNDEFINED = Report(races=False, bounds=False)


@T.macro
def an_element(u, A, C, n):
    C[0, 0] = u[3, 4]


@T.macro
def copied(u, A, C, n):
    T.copy(u, C)


@T.macro
def a_part_copied(u, A, C, n):
    T.copy(u[0:4, 0:4], C[0:4, 0:4])


@T.macro
def added_to(u, A, C, n):
    for i, j in T.Parallel(32, 32):
        u[i, j] = u[i, j] * 2.0


@T.macro
def multiplied(u, A, C, n):
    s = T.alloc_shared((32, 32), "float32")
    c = T.alloc_fragment((32, 32), "float32")
    T.copy(A, s)
    T.clear(c)
    T.gemm(u, s, c)
    T.copy(c, C)


@T.macro
def accumulated(u, A, C, n):
    s = T.alloc_shared((32, 32), "float32")
    T.copy(A, s)
    T.gemm(s, s, u)
    T.copy(u, C)


@T.macro
def reduced(u, A, C, n):
    row = T.alloc_fragment((32,), "float32")
    T.reduce_sum(u, row, dim=1)
    T.copy(row, C[0, 0:32])


@T.macro
def scanned(u, A, C, n):
    T.cumsum(u, dim=1)
    T.copy(u, C)


@T.macro
def decides(u, A, C, n):
    if u[0, 0] > 0:
        C[0, 0] = 1.0


@T.macro
def counts_in_an_index(u, A, C, n):
    C[T.cast(u[0, 0], "int32"), 0] = 1.0


@T.macro
def printed(u, A, C, n):
    T.print(u)


@T.macro
def seen_in_another_shape(u, A, C, n):
    flat = T.reshape(u, (1024,))
    C[0, 0] = flat[5]


@T.macro
def all_but_a_row(u, A, C, n):
    T.copy(A[0:31, 0:32], u[0:31, 0:32])
    T.copy(u, C)


@T.macro
def beyond_the_condition(u, A, C, n):
    for i, j in T.Parallel(32, 32):
        if i < j:
            u[i, j] = 1.0
    for i, j in T.Parallel(32, 32):
        if i <= j:
            C[i, j] = u[i, j]


UNDEFINED = (
    an_element, copied, a_part_copied, added_to, multiplied, accumulated, reduced, scanned, decides, counts_in_an_index, printed,
    seen_in_another_shape, all_but_a_row, beyond_the_condition,
)  # fmt: skip


@T.macro
def not_chosen(u, A, C, n):
    C[0, 0] = T.if_then_else(n > 100, u[0, 0], 1.0)


@T.macro
def the_rows_that_are_there(u, A, C, n):
    T.copy(A[0:31, 0:32], u[0:31, 0:32])
    T.copy(u[0:31, 0:32], C[0:31, 0:32])


@T.macro
def under_the_condition(u, A, C, n):
    for i, j in T.Parallel(32, 32):
        if i < j:
            u[i, j] = 1.0
    for i, j in T.Parallel(32, 32):
        if i < j:
            C[i, j] = u[i, j]


@T.macro
def cleared_by_the_product(u, A, C, n):
    s = T.alloc_shared((32, 32), "float32")
    T.copy(A, s)
    T.gemm(s[0:32, 0:4], s[0:4, 0:32], u, clear_accum=True)
    T.copy(u, C)


DEFINED = (not_chosen, the_rows_that_are_there, under_the_condition, cleared_by_the_product)


def kernel(space, body):
    allocate = T.alloc_fragment if space == "fragment" else T.alloc_local

    @T.prim_func
    def k(A: T.Tensor((32, 32), "float32"), C: T.Tensor((32, 32), "float32"), n: T.int32):
        with T.Kernel(1, threads=32):
            u = allocate((32, 32), "float32")
            body(u, A, C, n)

    return k


def arrays():
    return np.ones((32, 32), np.float32), np.zeros((32, 32), np.float32), 3


@pytest.mark.parametrize("body", UNDEFINED, ids=lambda body: body.__name__)
@pytest.mark.parametrize("space", ["fragment", "local"])
def test_an_undefined_read_is_a_fault_in_the_simulator_and_reported_by_the_interpreter(space, body, capsys):
    made = kernel(space, body)
    assert "E297" in {finding.code for finding in interpret(made.kernel, list(arrays()), report=ONLY_UNDEFINED).findings}
    with pytest.raises(zl.LaunchError, match="of u is read, which") as caught:
        zl.compile(made, target="cuda:sm_80,simulate")(*arrays())
    # a tile that is read element by element stands in memory that lanes share
    assert caught.value.code == "E658" if space == "local" else caught.value.code in ("E651", "E658")


@pytest.mark.parametrize("body", DEFINED, ids=lambda body: body.__name__)
@pytest.mark.parametrize("space", ["fragment", "local"])
def test_a_read_of_what_is_there_is_none(space, body):
    made = kernel(space, body)
    assert interpret(made.kernel, list(arrays()), report=ONLY_UNDEFINED).findings == ()
    zl.compile(made, target="cuda:sm_80,simulate")(*arrays())


@pytest.mark.parametrize("body", ["a lane's", "another lane's"])
def test_each_lane_has_registers_of_its_own(body):
    last = 31 if body == "a lane's" else 30

    @T.prim_func
    def k(A: T.Tensor((32,), "float32")):
        with T.Kernel(1, threads=32):
            lane = T.get_thread_binding()
            own = T.alloc_local((2,), "float32")
            if lane <= last:
                own[1] = 3.0
            A[lane] = own[1]

    out = np.zeros(32, np.float32)
    if last == 31:
        zl.compile(k, target="cuda:sm_80,simulate")(out)
        assert (out == 3).all()
        return
    with pytest.raises(zl.LaunchError, match="lane 31: register 1 of own is read, which the lane has not written") as caught:
        zl.compile(k, target="cuda:sm_80,simulate")(out)
    assert caught.value.code == "E658"
    assert caught.value.span.line == test_each_lane_has_registers_of_its_own.__code__.co_firstlineno + 11
