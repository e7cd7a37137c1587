"""docs/language-names.md is current, and each of its rows is true."""

import importlib.util
import re
import sys
from pathlib import Path

import numpy as np
import pytest

import zellige as zl
import zellige.language as T
from zellige.diagnostics import Unsupported, ZelligeError
from zellige.driver import dump
from zellige.language.refused import NOT_YET, DialectOnly, NotAvailable
from zellige.plugin.words import is_word

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def tool():
    spec = importlib.util.spec_from_file_location("language_names", ROOT / "tools" / "language_names.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["language_names"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["language_names"]


@pytest.fixture(scope="module")
def rows():
    page = (ROOT / "docs" / "language-names.md").read_text(encoding="utf-8")
    return [tuple(cell.strip() for cell in line.strip("|").split("|")) for line in page.splitlines() if line.startswith("| `")]


def names_in(rows, state):
    return [name.strip("`") for name, found, _ in rows if found == state]


def test_the_page_is_current(tool):
    assert tool.PAGE.read_text(encoding="utf-8") == tool.page(), "run python tools/language_names.py"
    assert tool.main(["--check"]) == 0


def test_every_public_name_has_a_row(tool, rows):
    listed = tool.names()
    assert listed == sorted(set(listed))
    assert [name.strip("`") for name, _, _ in rows] == listed
    assert len([name for name in listed if name.startswith("T.")]) > 600


def test_supported_names_are_usable(tool, rows):
    wrong = []
    for state in ("supported", "hint only"):
        for name in names_in(rows, state):
            found = tool.resolve(name)
            if isinstance(found, (NotAvailable, DialectOnly)) or found is None:
                wrong.append(name)
    assert not wrong


def test_names_that_some_targets_refuse_are_refused_with_their_codes(tool):
    @T.prim_func
    def meeting(A: T.Tensor((2,), "int32"), B: T.Tensor((2,), "int32")):
        with T.Kernel(2) as b:
            A[b] = b + 1
            T.sync_grid()
            B[b] = A[1 - b]

    assert tool.PARTLY == {"T.sync_grid": "supported by interp, refused E447 by cpu and cuda"}
    B = np.zeros(2, np.int32)
    zl.compile(meeting, target="interp")(np.zeros(2, np.int32), B)
    assert B.tolist() == [2, 1]
    for target in ("cpu", "cuda:sm_80"):
        with pytest.raises(ZelligeError, match="E447"):
            dump(meeting.kernel, target, "source")


def test_names_that_are_not_there_yet_say_what_to_write(tool, rows):
    names = names_in(rows, "refused E402")
    assert {name.removeprefix("T.") for name in names} == set(NOT_YET)
    for name in names:
        found = tool.resolve(name)
        for use in (lambda: found(1, 2), lambda: found[0], lambda: found.__enter__()):
            with pytest.raises(Unsupported) as caught:
                use()
            assert caught.value.code == "E402"
            assert caught.value.hint
        assert name in repr(found)


def test_dialect_names_say_which_targets_have_them(tool, rows):
    states = {(name.strip("`"), state.removeprefix("dialect of ")) for name, state, _ in rows if state.startswith("dialect of ")}
    assert ("T.tma_copy", "cuda:sm_90") in states
    for name, targets in states:
        if name.startswith("tilelang.JITKernel."):
            continue
        found = tool.resolve(name)
        assert found.targets == tuple(targets.split(", "))
        for use in (lambda: found(1), lambda: found[0], lambda: found.anything, lambda: found.__enter__()):
            with pytest.raises(Unsupported) as caught:
                use()
            assert caught.value.code == "E401"
            assert targets in str(caught.value)


def test_absent_names_are_absent(tool, rows):
    for name in names_in(rows, "refused E117"):
        with pytest.raises(AttributeError):
            tool.resolve(name)


def test_an_absent_name_in_a_kernel(refused):
    def k(A: T.Tensor((4,), "float32")):
        with T.Kernel(1):
            T.decl_buffer(A)

    refused("E117", k)


def test_a_misspelt_name_in_a_kernel(refused):
    def k(A: T.Tensor((4,), "float32")):
        with T.Kernel(1):
            T.cpoy(A, A)

    assert "copy" in str(refused("E117", k))


def test_a_dialect_name_in_a_kernel(refused):
    def k(A: T.Tensor((4,), "float32")):
        with T.Kernel(1):
            T.tma_copy(A, A)

    error = refused("E401", k)
    assert "cuda:sm_90" in str(error) and "no backend here takes it by this name" in error.hint


def test_wishes_of_a_dialect_stand_in_kernels_for_any_target(run, refused):
    @T.prim_func
    def k(A: T.Tensor((4,), "float32")):
        with T.Kernel(1):
            T.disable_warp_group_reg_alloc()
            T.no_set_max_nreg()
            T.pdl_sync()
            T.annotate_producer_reg_dealloc()
            T.annotate_consumer_reg_alloc(reg_count=240)
            T.pdl_trigger()
            T.fill(A, 1)

    np.testing.assert_array_equal(run(k, np.zeros(4, np.float32)), 1)

    def no_count(A: T.Tensor((4,), "float32")):
        with T.Kernel(1):
            T.annotate_producer_reg_dealloc(0)

    refused("E245", no_count)
    with pytest.raises(ValueError, match="E101"):
        T.no_set_max_nreg()


def test_element_types_are_found_in_the_module_of_dtypes():
    from zellige.language import dtypes

    assert dtypes.float16 is T.float16 and dtypes.half == T.float16 and dtypes.dtype is T.dtype
    with pytest.raises(AttributeError, match="no attribute 'float17'"):
        dtypes.float17  # noqa: B018


def test_a_name_that_is_not_there_yet_in_a_kernel(refused):
    def k(A: T.Tensor((4,), "float32")):
        with T.Kernel(1):
            T.call_extern("float32", "sinf", A[0])

    assert "@T.macro" in refused("E402", k).hint


def test_a_type_that_is_not_there_yet(refused):
    def k(A: T.Tensor((4,), "float32")):
        with T.Kernel(1):
            T.alloc_shared((4,), T.float4_e2m1_unpacked)

    refused("E402", k)


def test_a_layout_of_a_device():
    from zellige import layout

    with pytest.raises(Unsupported, match="E401"):
        layout.make_wgmma_swizzled_layout(None)
    with pytest.raises(AttributeError, match="no attribute 'make_nothing'"):
        layout.make_nothing  # noqa: B018


def test_the_module_shows_only_names_of_the_language():
    public = {name for name in vars(T) if not name.startswith("_")}
    submodules = {name for name in public if getattr(getattr(T, name), "__name__", "").startswith("zellige.language.")}
    listed = {line[2:] for line in (ROOT / "tools" / "tilelang_names.txt").read_text().splitlines() if line.startswith("T.")}
    own = {"PrimFunc", "let", "sum", "cbrt", "erfc", "expm1", "annotations"}
    assert public - submodules - listed <= own | {name for name in public if re.fullmatch(r"u?int\d+|b?float\d+.*|bool|handle", name)}


def test_the_words_that_no_backend_may_claim_are_those_of_the_language():
    spec = importlib.util.spec_from_file_location("language_words", ROOT / "tools" / "language_words.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.FILE.read_text(encoding="utf-8") == module.text(), "run python tools/language_words.py"
    everything = [name for name in dir(T) if not name.startswith("_")]
    assert len(everything) > 200
    assert [name for name in (*everything, *NOT_YET, "float32x4", "int8x16", "acme_dma", "__ldg") if not is_word(name)] == ["acme_dma"]
