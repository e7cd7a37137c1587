"""Values of vector types where values stand: names, choices, carried variables, arguments, results, containers; and addresses, which are
no values."""

import numpy as np
import pytest

import zellige.language as T

PAIR = "int32x2"


@pytest.fixture
def pairs(random):
    return random.integers(1, 9, (6, 2), dtype=np.int32)


def empty():
    return np.zeros((6, 2), np.int32)


def test_names_keep_the_lanes(run, pairs):
    @T.prim_func
    def k(A: T.Tensor((6,), PAIR), B: T.Tensor((6,), PAIR)):
        with T.Kernel(1):
            v = A[0]
            A[0] = 0
            B[0] = v
            v = A[1]
            B[1] = v
            x, y = A[1], A[2]
            B[2] = x + y
            first, second = A[3]
            B[3] = T.int32x2(second, first)
            m: T.int32x2 = 7
            B[4] = m
            A[4], A[5] = A[5], A[4]
            B[5] = A[5]

    wanted = [pairs[0], pairs[1], pairs[1] + pairs[2], pairs[3][::-1], [7, 7], pairs[4]]
    np.testing.assert_array_equal(run(k, pairs.copy(), empty()), wanted)


def test_choices_are_made_lane_by_lane(run, pairs):
    @T.macro
    def counted(count: T.Ref, v):
        count = count + 1
        return v

    @T.prim_func
    def k(A: T.Tensor((6,), PAIR), B: T.Tensor((6,), PAIR)):
        with T.Kernel(1):
            count = T.alloc_var("int32")
            for i in T.serial(2):
                B[i] = A[i] if i > 0 else T.int32x2(i, 5)
                B[i + 2] = counted(count, A[i]) if i > 0 else A[5]
            x, y = (A[0], 1) if T.extract_lane(A[0], 0) > 100 else (A[1], 2)
            B[4] = x
            B[5] = T.int32x2(y, count)

    np.testing.assert_array_equal(run(k, pairs.copy(), empty()), [[0, 5], pairs[1], pairs[5], pairs[1], pairs[1], [2, 1]])


def test_vectors_are_carried(run, pairs):
    @T.prim_func
    def k(A: T.Tensor((6,), PAIR), B: T.Tensor((6,), PAIR), n: T.int32):
        with T.Kernel(1):
            total = T.int32x2(0)
            older, old = A[0], A[1]
            for i in T.serial(n):
                total = total + A[i]
                older, old = old, older - old
            B[0] = total
            B[1] = old
            at = 0
            largest = A[5]
            while at < n:
                if at % 2 == 0:
                    largest = T.max(largest, A[at])
                at += 1
            B[2] = largest
            if n > 2:
                chosen = A[4]
            else:
                chosen = A[3]
            B[3] = chosen
            for i in T.Parallel(2):
                chosen = chosen * (i + 2)
                B[4 + i] = chosen

    older, old = pairs[0], pairs[1]
    for _ in range(5):
        older, old = old, older - old
    largest = np.maximum(pairs[5], pairs[[0, 2, 4]].max(0))
    wanted = [pairs[:5].sum(0), old, largest, pairs[4], pairs[4] * 2, pairs[4] * 3]
    found = empty()
    run(k, pairs.copy(), found, 5)
    np.testing.assert_array_equal(found, wanted)


def test_expressions_of_names_stay_small(run, pairs):
    @T.prim_func
    def k(A: T.Tensor((6,), PAIR)):
        with T.Kernel(1):
            v = A[0]
            for _ in range(60):
                v = v + v if A[1][0] > 0 else v
            A[0] = v
            w = T.int32x2(1)
            for _ in range(60):
                w = w * w + w
            A[1] = w

    assert str(k.kernel).count("+") < 300
    assert run(k, pairs.copy())[0].tolist() == [0, 0]


def test_arguments_results_and_containers(run, pairs):
    @T.macro
    def both(x, y):
        return x + y, -x

    @T.macro
    def doubled(place: T.Ref):
        place = place * 2

    @T.prim_func
    def k(A: T.Tensor((6,), PAIR), B: T.Tensor((6,), PAIR)):
        with T.Kernel(1):
            B[0], B[1] = both(A[0], A[1])
            B[2] = A[2]
            doubled(B[2])
            own = T.alloc_var(PAIR)
            own = A[3]
            doubled(own)
            B[3] = own
            values = [A[0], A[1]]
            values.append(own)
            A[0] = A[1]
            B[4] = sum(values, T.int32x2(0))
            own += (lambda v: v - 1)(A[5])
            B[5] = own

    a = pairs
    wanted = [a[0] + a[1], -a[0], a[2] * 2, a[3] * 2, a[0] + a[1] + a[3] * 2, a[3] * 2 + a[5] - 1]
    np.testing.assert_array_equal(run(k, pairs.copy(), empty()), wanted)


def test_slices_of_vectors_are_stored_together(run, pairs):
    @T.prim_func
    def k(A: T.Tensor((6,), PAIR), B: T.Tensor((6,), PAIR)):
        with T.Kernel(1):
            A[1:4] = A[0:3]
            A[0] = A[0][::-1]
            for i in T.Parallel(6):
                B[i : i + 1] = A[i : i + 1]
            B[5] = T.int32x2(A[4][-1], T.ceildiv(A[4], 2)[0])
            T.atomic_addx2(B[4], A[4])

    wanted = np.concatenate([pairs[:1, ::-1], pairs[:3], pairs[4:5] * 0 + 2 * pairs[4], [[pairs[4, 1], -(-pairs[4, 0] // 2)]]])
    np.testing.assert_array_equal(run(k, pairs.copy(), empty()), wanted)


def test_lanes_are_stored_together(run):
    @T.prim_func
    def k(B: T.Tensor((6,), PAIR), C: T.Tensor((6,), "int32")):
        with T.Kernel(1):
            B[T.extract_lane(B[1], 0)] = T.int32x2(4, 5)
            B[T.extract_lane(B[2], 1)] = B[T.extract_lane(B[2], 1) - 1]
            B[0] = B[T.extract_lane(B[0], 0) + 3]
            C[C[0] : C[0] + 2] = T.int32x2(3, 9)

    found, flat = np.repeat(np.arange(6, dtype=np.int32)[:, None], 2, axis=1), np.zeros(6, np.int32)
    run(k, found, flat)
    assert found.tolist() == [[3, 3], [4, 5], [4, 5], [3, 3], [4, 4], [5, 5]]
    assert flat.tolist() == [3, 9, 0, 0, 0, 0]


def test_lanes_outside_are_the_safe_value(run, pairs):
    @T.prim_func
    def k(A: T.Tensor((6,), PAIR), B: T.Tensor((6,), PAIR), n: T.int32):
        with T.Kernel(1):
            T.annotate_safe_value({A: -1})
            for i in T.serial(6):
                B[i] = A[i + n]

    found = empty()
    run(k, pairs.copy(), found, 2)
    np.testing.assert_array_equal(found, np.concatenate([pairs[2:], np.full((2, 2), -1)]))


@pytest.mark.parametrize("operation", [T.copy, T.transpose, lambda a, b: b.__setitem__(slice(0, 4), a)])
def test_tiles_of_other_lanes_are_not_moved(refused, operation):
    def kernel(A: T.Tensor((4, 4), PAIR), B: T.Tensor((4, 4), "int32")):
        with T.Kernel(1):
            operation(A, B)

    assert "T.view(" in str(refused("E203", kernel))


def test_a_tile_of_vectors_is_not_transposed_in_place(refused):
    def kernel(A: T.Tensor((4, 4), PAIR)):
        with T.Kernel(1):
            T.transpose(A, A)

    refused("E204", kernel)


def test_a_tile_is_no_vector(refused):
    def kernel(A: T.Tensor((4,), PAIR), B: T.Tensor((4,), PAIR)):
        with T.Kernel(1):
            B[0] = A

    assert "extract_lane" not in str(refused("E202", kernel))


def test_a_reducer_has_no_lanes(refused):
    def kernel(A: T.Tensor((4,), PAIR)):
        with T.Kernel(1):
            T.alloc_reducer((4,), PAIR)

    assert 'elements of "int32"' in str(refused("E290", kernel))


@pytest.mark.parametrize("operation", [T.any_of, T.all_of, T.sum, T.max, lambda a: T.cumsum(a, a), lambda a: T.atomic_add(a[0], a[1])])
def test_operations_of_elements_of_one_lane(refused, operation):
    def kernel(A: T.Tensor((4,), PAIR)):
        with T.Kernel(1):
            operation(A)

    assert "T.view(" in str(refused("E204", kernel))


def test_a_number_has_no_lanes(refused):
    def kernel(v: T.int32x2, A: T.Tensor((4,), PAIR)):
        with T.Kernel(1):
            A[0] = v

    assert "int32x2 has 2 lanes" in str(refused("E125", kernel))


def test_tiles_are_filled_with_vectors(run, pairs):
    @T.prim_func
    def k(A: T.Tensor((6,), PAIR), B: T.Tensor((6,), PAIR)):
        with T.Kernel(1):
            T.fill(B, A[0])
            T.clear(B[1:3])
            B[3:5] = T.int32x2(8, 9)
            for i in T.Parallel(1):
                B[i + 5 : i + 6] = A[1]

    wanted = [pairs[0], [0, 0], [0, 0], [8, 9], [8, 9], pairs[1]]
    np.testing.assert_array_equal(run(k, pairs.copy(), empty()), wanted)


@pytest.mark.parametrize(
    ("code", "use"),
    [
        ("E105", lambda a: a[T.extract_lane(a, 0)]),
        ("E241", lambda a: a[2]),
        ("E241", lambda a: a[2:]),
        ("E111", lambda a: a.__setitem__(0, 5)),
        ("E203", lambda a: T.cast(a, "float32x4")),
        ("E203", lambda a: a.astype("float32x4")),
        ("E203", lambda a: a + T.int32x4(1)),
        ("E104", lambda a: 1 if a == a else 2),
    ],
)
def test_what_vectors_do_not_fit(refused, code, use):
    def kernel(A: T.Tensor((6,), PAIR), B: T.Tensor((6,), PAIR)):
        with T.Kernel(1):
            B[0] = use(A[0])

    refused(code, kernel)


def test_a_variable_keeps_its_type(refused):
    def lanes(A: T.Tensor((6,), PAIR), n: T.int32):
        with T.Kernel(1):
            v = A[0]
            for _ in T.serial(n):
                v = T.int32x4(0)
            A[0] = v

    def number(A: T.Tensor((6,), PAIR), n: T.int32):
        with T.Kernel(1):
            v = A[0]
            if n > 1:
                v = 1
            A[0] = v

    def vector(A: T.Tensor((6,), PAIR), n: T.int32):
        with T.Kernel(1):
            total = 0
            for i in T.serial(n):
                total = total + A[i]
            A[0] = total

    assert "v is int32x2 and cannot become int32x4" in str(refused("E206", lanes))
    refused("E109", number)
    refused("E109", vector)


ADDRESS_USES = {
    "plus": lambda A, p: p + 1,
    "equal": lambda A, p: p == p,
    "less": lambda A, p: p < p,
    "minus": lambda A, p: -p,
    "not": lambda A, p: not p,
    "choice": lambda A, p: 1 if p else 2,
    "function": lambda A, p: T.exp(p),
    "cast": lambda A, p: T.cast(p, "int64"),
    "value": lambda A, p: p,
    "index": lambda A, p: A[p],
    "indexed": lambda A, p: p[0],
    "stored to": lambda A, p: p.__setitem__(0, 1),
    "print": lambda A, p: T.print(p),
}


@pytest.mark.parametrize("make", [lambda A: T.address_of(A[2]), lambda A: T.access_ptr(A[2], "r", 2)], ids=["address_of", "access_ptr"])
@pytest.mark.parametrize("use", ADDRESS_USES.values(), ids=ADDRESS_USES.keys())
def test_an_address_is_no_number(refused, use, make):
    def kernel(A: T.Tensor((6,), "float32")):
        with T.Kernel(1):
            p = make(A)
            A[0] = use(A, p)

    assert "A[i] itself is the element's value" in str(refused("E204", kernel))


def test_an_address_is_a_place(run):
    @T.macro
    def bumped(place):
        T.atomic_add(place, 5)

    @T.prim_func
    def k(A: T.Tensor((6,), "int32")):
        with T.Kernel(1):
            at = T.address_of(A[2])
            assert at is not None and not at == None  # noqa: E711
            bumped(at)
            T.copy(at, T.address_of(A[0]))
            T.copy(T.address_of(A[1]), T.access_ptr(A[4], "w", 2))

    assert run(k, np.arange(6, dtype=np.int32)).tolist() == [7, 1, 7, 3, 1, 7]
