"""A kernel asks for the lanes of a warp before its target is known: it gets those of the target, whatever their number."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import zellige as zl
import zellige.language as T
from zellige.claims import PROBES
from zellige.claims.machine import Subject
from zellige.cli.new_backend import write_package
from zellige.diagnostics import Unsupported
from zellige.interp import interpret
from zellige.ir.expr import Select, Var
from zellige.ir.parser import parse_kernel
from zellige.ir.printer import print_kernel
from zellige.ir.stmt import Shuffle
from zellige.ir.traverse import walk
from zellige.ir.verify import verify
from zellige.ir.warp_width import with_warps_of
from zellige.plugin.registry import registry

COUNT = 256
WIDTHS = (16, 32, 64, 128)


@pytest.fixture(scope="module", params=WIDTHS)
def lanes(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, announce: Callable[..., Path], forget: Callable[[], None]
) -> Iterator[int]:
    """A machine whose warps have so many lanes, installed as the target "wide"."""
    top = tmp_path_factory.mktemp("wide")
    folder = write_package("wide", "simt", top)
    machine = folder / "zellige_wide" / "machine.py"
    text = machine.read_text(encoding="utf-8")
    assert "LANES: Final = 32" in text
    machine.write_text(text.replace("LANES: Final = 32", f"LANES: Final = {request.param}"), encoding="utf-8")
    announce(folder, "zellige-wide", "wide = zellige_wide:backend\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        importlib.invalidate_caches()
        registry.cache_clear()
        yield request.param
    for name in [n for n in sys.modules if n.split(".")[0] == "zellige_wide"]:
        del sys.modules[name]
    forget()


@T.prim_func
def places(L: T.Tensor((COUNT,), "int32"), W: T.Tensor((COUNT,), "int32"), G: T.Tensor((COUNT,), "int32"), E: T.Tensor((COUNT,), "int32")):
    with T.Kernel(1, threads=COUNT) as _:
        tx = T.get_thread_binding()
        L[tx] = T.get_lane_idx()
        W[tx] = T.get_warp_idx()
        G[tx] = T.get_warp_group_idx(warps_per_group=2)
        E[tx] = T.get_lane_idx(8)


@T.prim_func
def exchanged(
    A: T.Tensor((COUNT,), "float32"), X: T.Tensor((COUNT,), "float32"), U: T.Tensor((COUNT,), "float32"),
    I: T.Tensor((COUNT,), "float32"), S: T.Tensor((COUNT,), "float32"), M: T.Tensor((COUNT,), "float32"),
    B: T.Tensor((COUNT,), "int32"), N: T.Tensor((COUNT,), "float32"),
):  # fmt: skip
    with T.Kernel(1, threads=COUNT) as _:
        tx = T.get_thread_binding()
        X[tx] = T.shfl_xor(A[tx], 8)
        U[tx] = T.shfl_down(A[tx], 1)
        I[tx] = T.shfl_sync(A[tx], 3)
        S[tx] = T.warp_reduce_sum(A[tx])
        M[tx] = T.warp_reduce_max(A[tx])
        B[tx] = T.warp_reduce_bitor(tx)
        N[tx] = T.shfl_down(A[tx], 1, 8)


@T.prim_func
def voted(A: T.Tensor((COUNT,), "float32"), Y: T.Tensor((COUNT,), "int32"), Z: T.Tensor((COUNT,), "int32")):
    with T.Kernel(1, threads=COUNT) as _:
        tx = T.get_thread_binding()
        Y[tx] = T.any_sync(A[tx] > 250)
        Z[tx] = T.all_sync(A[tx] < 17)


@T.prim_func
def masked(A: T.Tensor((COUNT,), "float32"), M: T.Tensor((COUNT,), "uint64"), P: T.Tensor((COUNT,), "uint64")):
    with T.Kernel(1, threads=COUNT) as _:
        tx = T.get_thread_binding()
        M[tx] = T.ballot(A[tx] > 3)
        P[tx] = T.match_any_sync(tx % 3)


def _expected(kernel: Any, lanes: int, a: Any) -> list[Any]:
    """What the kernel's results are where a warp has ``lanes`` lanes, said a second time, in NumPy."""
    at = np.arange(COUNT)
    rows = a.reshape(-1, lanes)
    spread = lambda values: np.repeat(values, lanes)  # noqa: E731
    if kernel is places:
        return [at % lanes, at // lanes, at // lanes // 2, at % 8]
    if kernel is exchanged:
        down = np.where(at % lanes == lanes - 1, at, at + 1) % COUNT
        few = np.where(at % 8 == 7, at, at + 1) % COUNT
        ors = np.bitwise_or.reduce(at.reshape(-1, lanes), axis=1)
        return [a[at ^ 8], a[down], a[at // lanes * lanes + 3], spread(rows.sum(1)), spread(rows.max(1)), spread(ors), a[few]]
    if kernel is voted:
        return [spread((rows > 250).any(1)), spread((rows < 17).all(1))]
    bits = np.uint64(1) << np.arange(lanes, dtype=np.uint64)
    ballot = (np.where(rows > 3, bits, np.uint64(0))).sum(1, dtype=np.uint64)
    alike = (at.reshape(-1, lanes)[:, :, None] % 3) == (at.reshape(-1, lanes)[:, None, :] % 3)
    return [spread(ballot), np.where(alike, bits, np.uint64(0)).sum(2, dtype=np.uint64).reshape(-1)]


def _arguments(kernel: Any) -> tuple[Any, list[Any]]:
    a = np.arange(COUNT, dtype=np.float32)
    buffers = [param.buffer for param in kernel.kernel.params]
    arrays = [a.copy() if buffer.name == "A" else np.zeros(COUNT, buffer.dtype.numpy) for buffer in buffers]
    return a, arrays


def _check(kernel: Any, lanes: int, run: Callable[[list[Any]], object]) -> None:
    a, arrays = _arguments(kernel)
    run(arrays)
    results = arrays if kernel is places else arrays[1:]
    for found, expected in zip(results, _expected(kernel, lanes, a), strict=True):
        assert (found == expected).all(), (kernel, lanes)


@pytest.mark.parametrize("kernel", [places, exchanged, voted], ids=["places", "exchanged", "voted"])
def test_a_target_counts_by_its_own_warps(kernel: Any, lanes: int) -> None:
    _check(kernel, lanes, lambda arrays: zl.compile(kernel, target="wide")(*arrays))


def test_a_mask_has_a_bit_for_each_lane_or_is_refused(lanes: int) -> None:
    if lanes <= 64:
        _check(masked, lanes, lambda arrays: zl.compile(masked, target="wide")(*arrays))
        return
    with pytest.raises(Unsupported, match=r"a ballot works on groups of at most 64 lanes, a warp of the target wide has 128") as caught:
        zl.compile(masked, target="wide")
    assert caught.value.code == "E446"
    assert caught.value.diagnostics[0].span is not None


def test_its_claim_about_lanes_holds(lanes: int) -> None:
    handle, target = registry().backend_and_target("wide", "")
    claims = tuple(PROBES["lanes"](Subject.of(handle, target)))
    assert len(claims) == 2
    for claim in claims:
        claim.check()


@pytest.mark.parametrize("kernel", [places, exchanged, voted, masked], ids=["places", "exchanged", "voted", "masked"])
@pytest.mark.parametrize("width", [8, *WIDTHS[:3]])
def test_the_interpreter_has_warps_of_the_width_asked_for(kernel: Any, width: int) -> None:
    if kernel is exchanged and width == 8:
        return _check_narrow()
    return _check(kernel, width, lambda arrays: interpret(kernel.kernel, arrays, lanes=width))


def _check_narrow() -> None:
    """Where lane ^ 8 is no lane of the warp, each lane has its own value."""
    a, arrays = _arguments(exchanged)
    interpret(exchanged.kernel, arrays, lanes=8)
    assert (arrays[1] == a).all()
    assert (arrays[4] == np.repeat(a.reshape(-1, 8).sum(1), 8)).all()


@pytest.mark.parametrize("kernel", [places, exchanged, voted, masked], ids=["places", "exchanged", "voted", "masked"])
def test_the_emulated_warps_of_the_host_have_32_lanes(kernel: Any) -> None:
    _check(kernel, 32, lambda arrays: zl.compile(kernel, target="cpu")(*arrays))


def test_the_text_holds_the_question_and_a_target_s_program_the_answer() -> None:
    text = print_kernel(exchanged.kernel)
    assert 'lanes(warp="warp")' in text
    assert print_kernel(parse_kernel(text)) == text
    for width in (16, 32, 64):
        program = with_warps_of(exchanged.kernel, width, "some")
        assert verify(program) == []
        nodes = list(walk(program))
        assert not [n for n in nodes if isinstance(n, Select) or (isinstance(n, Var) and n.name == "warp")]
        reductions = [n for n in nodes if isinstance(n, Shuffle) and n.mode == "xor"][1:]
        steps = [n.operand.value for n in reductions if n.width == width]
        halves = [width >> (1 + i) for i in range(width.bit_length() - 1)]
        assert steps == 3 * halves, "one step for each halving, and none for lanes that a warp does not have"


def test_a_kernel_that_does_not_ask_stays_the_same_object() -> None:
    @T.prim_func
    def literal(A: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64) as _:
            tx = T.get_thread_binding()
            A[tx] = T.shfl_xor(A[tx], 1, 32) + T.get_lane_idx(32)

    assert with_warps_of(literal.kernel, 64, "some") is literal.kernel
    assert literal.kernel.launches[0].warp is None


def test_warps_of_no_power_of_two_exchange_nothing() -> None:
    with pytest.raises(Unsupported, match=r"a shuffle \(xor\) over the warp works on groups of a power of two up to 128 lanes") as caught:
        with_warps_of(exchanged.kernel, 24, "odd")
    assert caught.value.code == "E446"
    with_warps_of(places.kernel, 24, "odd")  # numbers of lanes are no exchange


# ---- the numbers of the starting point


def _machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, **numbers: str) -> Any:
    """The template's numbers, some of them changed as a vendor does, as a module."""
    import zellige_template_simt.machine as template

    text = Path(template.__file__).read_text(encoding="utf-8")
    for name, value in numbers.items():
        before = next(line for line in text.splitlines() if line.startswith(f"{name}: Final = "))
        text = text.replace(before, f"{name}: Final = {value}")
    (tmp_path / "changed_machine.py").write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "changed_machine", raising=False)
    importlib.invalidate_caches()
    return importlib.import_module("changed_machine")


@pytest.mark.parametrize("product", ["(8, 8, 8)", "(8, 8, 4)", "(16, 16, 2)", "(32, 32, 16)", "(32, 1, 32)"])
def test_products_that_the_comment_allows_are_described(product: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = _machine(tmp_path, monkeypatch, PRODUCT=product)
    assert len(machine.capabilities("some").matmul) == len(machine.PRODUCT_TYPES)


@pytest.mark.parametrize("product, operand", [("(8, 8, 2)", "8 x 2"), ("(12, 8, 8)", "12 x 8"), ("(8, 24, 4)", "4 x 24")])
def test_products_that_do_not_fill_the_lanes_are_told_by_number(
    product: str, operand: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = _machine(tmp_path, monkeypatch, PRODUCT=product)
    with pytest.raises(ValueError, match=f"an operand of {operand} elements does not fill 32 lanes: change LANES or PRODUCT"):
        machine.capabilities("some")
