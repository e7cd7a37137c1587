"""Hints, layouts, assumptions, printing."""

import numpy as np
import pytest

import zellige.language as T
from zellige import layout
from zellige.diagnostics import LaunchError
from zellige.ir.stmt import Assume, LayoutHint, NamedHint, Print, RasterHint
from zellige.ir.traverse import walk
from zellige.layout import Fragment, Layout, PartialFragment


def hints(kernel):
    return kernel.kernel.launches[0].hints


def test_hints_are_noted_and_change_nothing(run):
    @T.prim_func
    def k(A: T.Tensor((8, 8), "float32"), B: T.Tensor((8, 8), "float32")):
        with T.Kernel(1, threads=128):
            tile = T.alloc_shared((8, 8), "float32")
            acc = T.alloc_fragment((8, 8), "float32")
            T.annotate_layout(
                {
                    tile: T.Layout((8, 8), lambda i, j: (i, j ^ i)),
                    acc: T.Fragment((8, 8), forward_fn=lambda i, j: (i * 4 + j // 2, j % 2)),
                }
            )
            T.annotate_layout({B: lambda i, j: i * 8 + j})
            T.annotate_layout({tile: layout.make_swizzled_layout(tile)})
            T.use_swizzle(10)
            T.use_swizzle(4, "row", enable=False)
            T.annotate_l2_hit_ratio({A: 0.5})
            T.annotate_min_blocks_per_sm(2)
            T.annotate_restrict_buffers(A, B)
            T.copy(A, tile)
            T.copy(tile, acc)
            T.copy(acc, B)

    found = hints(k)
    kinds = [h.kind for h in found if isinstance(h, LayoutHint)]
    assert kinds == ["map", "map", "map", "swizzle"]
    assert [h.lane is not None for h in found if isinstance(h, LayoutHint)] == [False, True, False, False]
    assert [h.panel for h in found if isinstance(h, RasterHint)] == [10]
    names = [(h.name, h.value) for h in found if isinstance(h, NamedHint)]
    assert names == [("l2_hit_ratio", 0.5), ("min_blocks_per_core", 2), ("may_alias", True), ("may_alias", True)]
    a = np.arange(64, dtype=np.float32).reshape(8, 8)
    np.testing.assert_array_equal(run(k, a, np.zeros((8, 8), np.float32)), a)


def test_settings_of_the_kernel():
    @T.prim_func
    def k(A: T.Tensor((8,), "float32")):
        T.annotate_pass_configs({"a.b": 1})
        with T.Kernel(1):
            T.annotate_compile_flags("-O3")
            T.annotate_compile_flags(["-g", "-v"])
            T.annotate_pass_configs({"c": True})
            A[0] = 0

    assert k.settings.compile_flags == ["-O3", "-g", "-v"]
    assert k.settings.pass_configs == {"a.b": 1, "c": True}


@pytest.mark.parametrize("forward", [lambda i: i % 64, lambda i: i * 0, lambda i: (i % 64) * 4])
def test_a_layout_that_puts_two_elements_in_one_place(refused, forward):
    def k(A: T.Tensor((128,), "int32")):
        with T.Kernel(1):
            tile = T.alloc_shared((128,), "int32")
            T.annotate_layout({tile: Layout((128,), forward)})

    assert "both get the place" in str(refused("E247", k))


@pytest.mark.parametrize("forward", [lambda i: i, lambda i: i ^ 1, lambda i: i * 2, lambda i: i + 10, lambda i: [i // 8, i % 8]])
def test_layouts_that_are_one_to_one(forward):
    @T.prim_func
    def k(A: T.Tensor((128,), "int32")):
        with T.Kernel(1):
            tile = T.alloc_shared((128,), "int32")
            T.annotate_layout({tile: Layout((128,), forward)})
            T.copy(A, tile)

    assert len(hints(k)) == 1


def test_a_layout_of_another_rank(refused):
    def k(A: T.Tensor((8, 8), "int32")):
        with T.Kernel(1):
            T.annotate_layout({A: Layout((64,), lambda i: i)})

    assert "has 1 dimension, the tile has 2" in str(refused("E247", k))


@pytest.mark.parametrize("shape", [(4, 8), (16, 8)])
def test_a_layout_of_another_shape(refused, shape):
    def k(A: T.Tensor((8, 8), "int32")):
        with T.Kernel(1):
            T.annotate_layout({A: Layout(shape, lambda i, j: i * 8 + j)})

    assert f"is one of {shape}, the tile is (8, 8)" in str(refused("E247", k))


def test_a_family_for_a_tile_of_another_shape(refused):
    def k(A: T.Tensor((8, 8), "int32"), B: T.Tensor((16, 8), "int32")):
        with T.Kernel(1):
            T.annotate_layout({A: layout.make_swizzled_layout(B)})

    assert "is one of (16, 8), the tile is (8, 8)" in str(refused("E247", k))


@pytest.mark.parametrize("wrong", ["swizzled", Layout((8, 8))], ids=["text", "without a function"])
def test_what_is_no_layout(refused, wrong):
    def k(A: T.Tensor((8, 8), "int32")):
        with T.Kernel(1):
            T.annotate_layout({A: wrong})

    refused("E246", k)


@pytest.mark.parametrize("forward", [lambda i, j: i / 2, lambda i, j: "a", lambda i, j: (i, None)])
def test_a_layout_whose_places_are_none(refused, forward):
    def k(A: T.Tensor((8, 8), "int32")):
        with T.Kernel(1):
            T.annotate_layout({A: Layout((8, 8), forward)})

    assert "a place is made of integers" in str(refused("E247", k))


def test_a_layout_for_a_reducer(refused):
    def k(A: T.Tensor((8,), "float32")):
        with T.Kernel(1):
            acc = T.alloc_reducer((8,), "float32")
            T.annotate_layout({acc: T.Fragment((8,), forward_thread_fn=lambda i: i)})

    assert "T.PartialFragment" in refused("E246", k).hint

    @T.prim_func
    def fine(A: T.Tensor((8,), "float32")):
        with T.Kernel(1):
            acc = T.alloc_reducer((8,), "float32")
            T.annotate_layout({acc: T.PartialFragment((8,), forward_thread_fn=lambda i, copy: i * 4 + copy, replicate=4)})
            T.reducer_init(acc)
            T.finalize_reducer(acc, A)

    assert hints(fine)[0].replicate == 4


def test_a_hint_for_what_is_no_tile(refused):
    def k(A: T.Tensor((8,), "float32")):
        with T.Kernel(1):
            T.annotate_safe_value({"A": 1})

    refused("E222", k)


@pytest.mark.parametrize("call", (
    lambda A: T.annotate_layout(A),
    lambda A: T.annotate_safe_value(A[0]),
    lambda A: T.annotate_l2_hit_ratio(0.5),
    lambda A: T.annotate_pass_configs(["tl.enable_fast_math"]),
))  # fmt: skip
def test_a_hint_that_is_no_dictionary(refused, call):
    def k(A: T.Tensor((8,), "float32")):
        with T.Kernel(1):
            call(A)

    assert " needs a dictionary {" in str(refused("E258", k))


@pytest.mark.parametrize("flags", (3, ["-O3", 1], {"-O3": True}))
def test_compile_flags_that_are_no_texts(refused, flags):
    def k(A: T.Tensor((8,), "float32")):
        with T.Kernel(1):
            T.annotate_compile_flags(flags)

    assert "needs a text or a list of texts" in str(refused("E258", k))


@pytest.mark.parametrize("share", (None, "half", 7.5, -0.1, float("nan"), float("inf"), 10**400))
def test_a_share_of_the_cache_that_is_none(refused, share):
    def k(A: T.Tensor((8,), "float32")):
        with T.Kernel(1):
            T.annotate_l2_hit_ratio({A: A[0] if share is None else share})

    assert "needs a share from 0 to 1" in str(refused("E258", k))


def test_a_safe_value_that_does_not_fit(refused):
    def k(A: T.Tensor((8,), "int8")):
        with T.Kernel(1):
            T.annotate_safe_value({A: 1000})

    refused("E254", k)


def test_an_unknown_order_of_blocks(refused):
    def k(A: T.Tensor((8,), "float32")):
        with T.Kernel(1):
            T.use_swizzle(4, order="diagonal")

    refused("E244", k)


@pytest.mark.parametrize("panel", [0, -4, 2.5, float("nan"), True])
def test_a_panel_that_is_no_count(refused, panel):
    def k(A: T.Tensor((8,), "float32")):
        with T.Kernel(1):
            T.use_swizzle(panel)

    refused("E245", k)


def test_an_assumption_about_sizes_is_checked_at_the_launch(run):
    n = T.dynamic("n")

    @T.prim_func
    def k(A: T.Tensor((n,), "int32")):
        T.assume(n % 4 == 0)
        with T.Kernel(1) as bx:
            T.assume(bx < n)
            A[0] = n

    assert len([node for node in walk(k.kernel) if isinstance(node, Assume)]) == 2
    assert run(k, np.zeros(8, np.int32))[0] == 8
    with pytest.raises(LaunchError, match="E620"):
        run(k, np.zeros(6, np.int32))


def test_an_assumption_that_is_false(refused):
    def k(A: T.Tensor((8,), "float32")):
        with T.Kernel(1):
            T.assume(A.shape[0] == 7)

    refused("E118", k)


def test_printing(run, capsys):
    @T.prim_func
    def k(A: T.Tensor((3,), "int32"), n: T.int32):
        with T.Kernel(1):
            T.print(n + 1, msg="sum is ")
            T.print(A)
            T.print(A[1:3], "slice ")
            T.print("only text")
            T.print(msg="message")
            T.print(n == 4, "equal ")
            T.print(T.float32x2(1, 2), "pair ")
            T.print(5)

    prints = [node for node in walk(k.kernel) if isinstance(node, Print)]
    assert len(prints) == 9
    run(k, np.array([7, 8, 9], np.int32), 4)
    text = capsys.readouterr().out
    for expected in ("sum is ", "5", "only text", "message", "pair [1]"):
        assert expected in text


def test_device_assertions(run):
    @T.prim_func
    def k(A: T.Tensor((3,), "int32")):
        with T.Kernel(1):
            T.device_assert(A[0] >= 0, "negative")
            A[1] = 1

    assert run(k, np.zeros(3, np.int32))[1] == 1
    with pytest.raises(LaunchError, match="negative") as caught:
        run(k, np.full(3, -1, np.int32))
    assert caught.value.code == "E620"
    assert caught.value.span.line == test_device_assertions.__code__.co_firstlineno + 4


# ---- layouts by themselves -----------------------------------------------------------------------------------------------------------


def test_a_layout_is_a_function_of_indices():
    made = Layout([4, 8], lambda i, j: [i // 2, i % 2 * 8 + j])
    assert made.index(3, 5) == (1, 13)
    assert made.map_forward_index([3, 5]) == [1, 13]
    assert made.get_input_shape() == [4, 8]
    assert made.get_output_shape() == [2, 16]
    assert made.is_equal(Layout([4, 8], lambda a, b: [a // 2, b + a % 2 * 8]))
    assert not made.is_equal(Layout([8, 4], lambda i, j: [i // 2, j]))
    assert made.collision() is None
    assert Layout(4, lambda i: i // 2).collision() == ((0,), (1,), (0,))


def test_layouts_made_of_layouts():
    atom = Layout([8, 64], lambda i, j: i * 64 + j)
    assert atom.repeat(0, 2).is_equal(Layout([16, 64], lambda i, j: [i // 8, i % 8 * 64 + j]))
    assert atom.repeat(1, 3).get_output_shape() == [3, 512]
    assert atom.repeat(0, 1) is atom
    assert atom.expand([4]).is_equal(Layout([4, 8, 64], lambda b, i, j: [b, i * 64 + j]))
    assert atom.expand([]) is atom
    assert atom.reshape([16, 32]).is_equal(Layout([16, 32], lambda i, j: i * 32 + j))
    split = Layout([128], lambda i: [i // 8, i % 8])
    back = split.inverse()
    assert back.get_input_shape() == [16, 8]
    assert all(back.index(*split.index(i)) == (i,) for i in range(128))


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda a: a.repeat(0, 0), ValueError),
        (lambda a: a.repeat(2, 2), ValueError),
        (lambda a: a.expand(0), ValueError),
        (lambda a: a.expand("4"), TypeError),
        (lambda a: a.reshape([7]), ValueError),
        (lambda a: Layout([4], lambda i: i // 2).inverse(), ValueError),
        (lambda a: Layout([4], kind="swizzle").index(1), ValueError),
        (lambda a: Layout([2], lambda i: i / 2).get_output_shape(), ValueError),
        (lambda a: Fragment([4]), ValueError),
        (lambda a: Fragment([4], lambda i: (i, 0), replicate=0), ValueError),
        (lambda a: PartialFragment([4], forward_thread_fn=lambda i, r: r, replicate=8, combine=3), ValueError),
    ],
)
def test_layouts_that_cannot_be_made(make, error):
    with pytest.raises(error):
        make(Layout([8, 64], lambda i, j: i * 64 + j))


def test_fragments():
    pair = Fragment([8, 4], lambda i, j: (i * 2 + j // 2, j % 2))
    assert pair.place(3, 3) == (7, 1)
    assert pair.index(3, 3) == (1,)
    assert pair.map_forward_thread([3, 3]) == 7
    assert pair.get_thread_size() == 16
    assert pair.is_equal(Fragment([8, 4], forward_thread_fn=lambda i, j: i * 2 + j // 2, forward_index_fn=lambda i, j: j % 2))
    doubled = pair.replicate(2)
    assert doubled.copies == 2
    assert doubled.place(3, 3, copy=1) == (23, 1)
    everywhere = layout.make_fully_replicated_layout_fragment(T.Tensor((2, 3), "float32"), 4)
    assert [everywhere.place(1, 2, copy=lane) for lane in range(4)] == [(lane, 5) for lane in range(4)]


def test_partial_fragments():
    partial = PartialFragment.from_fragment(Fragment([4], lambda i, copy: (i * 2 + copy, 0), replicate=2))
    assert (partial.copies, partial.combine) == (2, 2)
    assert partial.place(3, copy=1) == (7, 0)
    assert type(partial.as_post_collective()) is Fragment
    assert partial.as_post_collective().place(3, copy=1) == (7, 0)
    assert layout.make_fully_replicated_partial_fragment((4,), 32).get_thread_size() == 32


def test_families_and_linear_layouts():
    tile = T.Tensor((4, 8), "float16")
    swizzled = layout.make_swizzled_layout(tile)
    assert (swizzled.kind, swizzled.shape) == ("swizzle", (4, 8))
    assert layout.make_linear_layout(tile).index(2, 3) == (19,)
    assert layout.make_linear_layout(2, 3).index(1, 2) == (5,)
    assert layout.SwizzleMode.SWIZZLE_128B.value == 128


def test_swizzles_of_a_width_exchange_pieces_of_16_bytes():
    tile = T.Tensor((32, 32), "float16")  # two rows to a line of 128 bytes, four pieces of 8 elements to a row
    quarter, half = layout.make_quarter_bank_swizzled_layout, layout.make_half_bank_swizzled_layout
    makes = {1: quarter, 3: half, 7: layout.make_full_bank_swizzled_layout}
    for mask, make in makes.items():
        made = make(tile)
        assert made.kind == "map" and made.collision() is None
        for (i, j), (place,) in made.table().items():
            flat = i * 32 + j
            assert place == flat ^ (((flat >> 6) & mask) << 3)
    assert layout.make_full_bank_swizzled_layout(T.Tensor((8, 32), "float32")).index(3, 5) == (3 * 32 + (5 ^ 3 * 4),)
    assert layout.make_half_bank_swizzled_layout(T.Tensor((8, 128), "int8")).index(3, 5) == (3 * 128 + (5 ^ 3 * 16),)
