"""The styles of jit, what a call compiles and what it finds again, options, outputs, methods, threads."""

from __future__ import annotations

import threading
import types
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import zellige.language as T
from zellige.diagnostics import CompileError, ZelligeError, ZelligeWarning
from zellige.frontend.eager import EagerFunction
from zellige.jit import JITFunction, compile, jit, par_compile
from zellige.kernel import JITKernel
from zellige.pass_configs import PassConfigKey, known_keys, option_fields
from zellige.target import Target


def array(*shape: int, dtype: str = "float32") -> np.ndarray[Any, Any]:
    return np.arange(int(np.prod(shape)), dtype=dtype).reshape(shape)


def count_traces(function: JITFunction, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Counts how often the function is traced or run by Python from now on."""
    traces: list[int] = []
    trace = EagerFunction.trace
    lazily = JITFunction._traced_lazily

    def counted(self: Any, *args: Any) -> Any:
        traces.append(1)
        return trace(self, *args)

    def counted_lazily(self: Any, *args: Any) -> Any:
        traces.append(1)
        return lazily(self, *args)

    monkeypatch.setattr(EagerFunction, "trace", counted)
    monkeypatch.setattr(JITFunction, "_traced_lazily", counted_lazily)
    return traces


# ---- lazy


@jit(out_idx=[-1], target="interp")
def add_lazily(M: int, N: int, dtype: Any = "float32") -> Any:
    @T.prim_func
    def main(A: T.Tensor((M, N), dtype), B: T.Tensor((M, N), dtype), C: T.Tensor((M, N), dtype)):
        with T.Kernel(M) as bx:
            for j in T.Parallel(N):
                C[bx, j] = A[bx, j] + B[bx, j]

    return main


def test_lazy_style_gives_a_kernel() -> None:
    kernel = add_lazily(3, 4)
    assert isinstance(kernel, JITKernel)
    np.testing.assert_array_equal(kernel(array(3, 4), array(3, 4)), 2 * array(3, 4))


def test_lazy_kernel_is_found_again_for_equal_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    first = add_lazily(5, 4)
    traces = count_traces(add_lazily, monkeypatch)
    assert add_lazily(5, N=4) is first
    assert add_lazily(M=5, N=4, dtype="float32") is first
    assert not traces
    assert add_lazily(5, 4, dtype=T.float16) is not first
    assert add_lazily(5, 4, dtype=T.float16) is add_lazily(5, 4, T.float16)
    assert len(traces) == 1


def test_true_and_one_are_different_constants() -> None:
    @jit(target="interp")
    def make(flag: Any) -> Any:
        @T.prim_func
        def main(A: T.Tensor((1,), "int32")):
            with T.Kernel(1):
                A[0] = 10 if flag is True else 20

        return main

    seen = []
    for flag in (True, 1, 1.0):
        a = np.zeros(1, np.int32)
        make(flag)(a)
        seen.append(int(a[0]))
    assert seen == [10, 20, 20]


def test_factory_that_calls_another_factory() -> None:
    def build(n: int) -> Any:
        @T.prim_func
        def main(A: T.Tensor((n,), "int32")):
            with T.Kernel(n) as bx:
                A[bx] = n

        return main

    @jit(target="interp")
    def make(n: int) -> Any:
        return build(n)

    a = np.zeros(3, np.int32)
    make(3)(a)
    assert a.tolist() == [3, 3, 3]


FACTOR = 2


def helper(x: Any) -> Any:
    return x * FACTOR


def test_changed_global_helper_and_closure_compile_anew() -> None:
    global FACTOR
    extra = [1]

    @jit(target="interp")
    def make() -> Any:
        @T.prim_func
        def main(A: T.Tensor((1,), "int32")):
            with T.Kernel(1):
                A[0] = helper(A[0]) + extra[0]

        return main

    @jit(target="interp")
    def eager(A):
        with T.Kernel(1):
            A[0] = helper(A[0]) + extra[0]

    def both() -> list[int]:
        a, b = np.array([5], np.int32), np.array([5], np.int32)
        make()(a)
        eager(b)
        return [int(a[0]), int(b[0])]

    try:
        assert both() == [11, 11]
        FACTOR = 3
        assert both() == [16, 16]
        extra[0] = 100
        assert both() == [115, 115]
        kernel = make()
        assert make() is kernel
    finally:
        FACTOR = 2


def test_redefined_helper_compiles_anew() -> None:
    module = types.ModuleType("kernels")
    module.T = T  # type: ignore[attr-defined]
    module.jit = jit  # type: ignore[attr-defined]
    source = '''
def helper(x):
    return x + 1

@jit(target="interp")
def kernel(A):
    with T.Kernel(1):
        A[0] = helper(A[0])
'''
    import linecache

    linecache.cache["<kernels>"] = (len(source), None, source.splitlines(keepends=True), "<kernels>")
    exec(compile_text(source, "<kernels>"), module.__dict__)
    a = np.zeros(1, np.int32)
    module.kernel(a)
    exec("def helper(x):\n    return x + 50\n", module.__dict__)
    module.kernel(a)
    module.kernel(a)
    assert a[0] == 101


def compile_text(source: str, name: str) -> types.CodeType:
    import builtins

    code: types.CodeType = builtins.compile(source, name, "exec")
    return code


def test_object_arguments_are_known_by_their_content() -> None:
    @dataclass
    class Settings:
        scale: int

    @jit(target="interp")
    def make(settings: Any, table: dict[str, int]) -> Any:
        @T.prim_func
        def main(A: T.Tensor((1,), "int32")):
            with T.Kernel(1):
                A[0] = settings.scale + table["x"]

        return main

    settings, table = Settings(1), {"x": 10}
    first = make(settings, table)
    assert make(Settings(1), {"x": 10}) is first
    settings.scale = 5
    table["x"] = 20
    a = np.zeros(1, np.int32)
    make(settings, table)(a)
    assert a[0] == 25


def test_tensor_is_no_constant() -> None:
    with pytest.raises(CompileError) as caught:
        add_lazily(np.zeros(3), 4)
    assert caught.value.code == "E150"


def test_a_constant_that_nests_without_end_is_refused() -> None:
    deep: object = 4
    for _ in range(3000):
        deep = [deep]
    with pytest.raises(CompileError, match="nests more than 50 deep") as caught:
        add_lazily(deep, 4)
    assert caught.value.code == "E150"


# ---- eager


@jit(target="interp")
def matmul(A, B, block: int = 16, dtype: Any = T.float32):
    M, N, K = T.const("M N K")
    A: T.Tensor[[M, K], dtype]
    B: T.Tensor[[K, N], dtype]
    C = T.empty((M, N), dtype)
    with T.Kernel(T.ceildiv(M, block), T.ceildiv(N, block)) as (bx, by):
        a = T.alloc_shared((block, K), dtype)
        b = T.alloc_shared((K, block), dtype)
        c = T.alloc_fragment((block, block), "float32")
        T.clear(c)
        T.copy(A[bx * block, 0], a)
        T.copy(B[0, by * block], b)
        T.gemm(a, b, c)
        T.copy(c, C[bx * block, by * block])
    return C


def test_eager_style_solves_its_constants_and_returns_its_output(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = array(20, 7), array(7, 18)
    np.testing.assert_allclose(matmul(a, b), a @ b)
    traces = count_traces(matmul, monkeypatch)
    matmul(a + 1, b)
    assert not traces
    matmul(array(21, 7), b)
    matmul(a, b, block=8)
    assert len(traces) == 2


def test_conflicting_constant_is_refused_at_the_call() -> None:
    with pytest.raises(ZelligeError) as caught:
        matmul(array(8, 4), array(5, 8))
    assert caught.value.code.startswith("E6")


def test_eager_compile_from_specifications_and_sizes() -> None:
    kernel = matmul.compile(A=T.Tensor((20, 7), "float32"), B=T.Tensor((7, 18)))
    np.testing.assert_allclose(kernel(array(20, 7), array(7, 18)), array(20, 7) @ array(7, 18))
    assert matmul.compile(M=20, N=18, K=7).kernel.results == kernel.kernel.results
    assert "gemm" in matmul.get_tir(M=20, N=18, K=7).script()
    assert "gemm" in matmul.get_kernel_source(M=20, N=18, K=7)


def test_eager_compile_without_shapes_is_refused() -> None:
    with pytest.raises(CompileError) as caught:
        matmul.compile()
    assert caught.value.code == "E160" and "A" in str(caught.value)


def test_unknown_keyword_is_refused() -> None:
    for wrong in ({"Q": 3}, {"blok": 3}, {"blok": "x"}):
        with pytest.raises(CompileError) as caught:
            matmul(array(8, 4), array(4, 8), **wrong)
        assert caught.value.code == "E157"


def test_misfit_shows_the_parameters_as_written() -> None:
    @jit(target="interp")
    def copy(A: T.Tensor((4,), "float32"), B: T.Tensor((4,), "float32")):
        with T.Kernel(4) as bx:
            B[bx] = A[bx]

    with pytest.raises(CompileError, match="missing a required argument: 'B'") as caught:
        copy(array(4))
    hint = "its signature is copy(A: T.Tensor((4,), 'float32'), B: T.Tensor((4,), 'float32'))"
    assert caught.value.diagnostics[0].hint == hint


def test_constant_size_decides_before_the_block() -> None:
    @jit(target="interp")
    def fill(A):
        M = T.const("M")
        A: T.Tensor((M,), "int32")
        block = 4 if M > 8 else 2
        with T.Kernel(M // block) as bx:
            for i in T.Parallel(block):
                A[bx * block + i] = block

    for size, want in ((4, 2), (16, 4)):
        a = np.zeros(size, np.int32)
        fill(a)
        assert a.tolist() == [want] * size


def test_dynamic_size_compiles_once(monkeypatch: pytest.MonkeyPatch) -> None:
    @jit(target="interp")
    def double(A):
        n = T.dynamic("n")
        A: T.Tensor((n,), "int32")
        B = T.empty((n * 2,), "int32")
        with T.Kernel(n) as bx:
            B[2 * bx] = A[bx]
            B[2 * bx + 1] = A[bx]
        return B

    assert double(np.array([1, 2], np.int32)).tolist() == [1, 1, 2, 2]
    traces = count_traces(double, monkeypatch)
    assert double(np.array([3], np.int32)).tolist() == [3, 3]
    assert not traces


def test_several_outputs_scratch_and_no_tensor_arguments() -> None:
    @jit(target="interp")
    def both(n: T.int32):
        A = T.empty((4,), "int32")
        scratch = T.empty((4,), "int32")
        B = T.empty(4, dtype="float32")
        with T.Kernel(4) as bx:
            scratch[bx] = bx * n
        with T.Kernel(4) as bx:
            A[bx] = scratch[3 - bx]
            B[bx] = 0.5
        return B, A

    b, a = both(10)
    assert a.tolist() == [30, 20, 10, 0] and b.tolist() == [0.5] * 4


def test_strided_tensors_and_constants_in_strides() -> None:
    @jit(target="interp")
    def rows(A):
        N, M, S = T.const("N, M, S")
        A: T.StridedTensor[[N, M], [S, 2], T.float32]
        B = T.empty(N, M, dtype=A.dtype)
        with T.Kernel(N) as bx:
            for j in T.Parallel(M):
                B[bx, j] = A[bx, j]
        return B

    wide = array(3, 8)
    np.testing.assert_array_equal(rows(wide[:, ::2]), wide[:, ::2])


# ---- direct


@jit(target="interp")
def scale_directly(A: T.Tensor((4, 5), "float32"), B: T.Tensor((4, 5), "float32"), by: float):
    with T.Kernel(4) as bx:
        for j in T.Parallel(5):
            B[bx, j] = A[bx, j] * by


def test_direct_style_with_annotated_tensors() -> None:
    b = np.zeros((4, 5), np.float32)
    scale_directly(array(4, 5), b, 2.5)
    np.testing.assert_array_equal(b, array(4, 5) * 2.5)
    with pytest.raises(ZelligeError) as caught:
        scale_directly(array(4, 6), b, 2.5)
    assert caught.value.code.startswith("E6") and "A" in str(caught.value)


def test_unannotated_tensors_take_shape_and_type_from_the_call() -> None:
    @jit(target="interp", out_idx=-1)
    def softplus(X, Y: T.Tensor((3,), "float32")):
        with T.Kernel(X.shape[0]) as bx:
            row = T.alloc_fragment((X.shape[1],), X.dtype)
            T.copy(X[bx, 0:X.shape[1]], row)
            total = T.alloc_var("float32")
            for j in T.serial(len(row)):
                total += row[j]
            Y[bx] = total

    for dtype in ("float32", "float16"):
        np.testing.assert_array_equal(softplus(array(3, 5, dtype=dtype)), array(3, 5).sum(1))
    np.testing.assert_array_equal(softplus(array(3, 7)), array(3, 7).sum(1))


def test_outputs_by_index_are_skipped_among_the_arguments() -> None:
    @jit(target="interp", out_idx=[1, 0])
    def split(A: T.Tensor((2,), "int32"), B: T.Tensor((2,), "int32"), C: T.Tensor((4,), "int32"), by: int = 1):
        with T.Kernel(2) as bx:
            A[bx] = C[bx] * by
            B[bx] = C[bx + 2] * by

    b, a = split(np.arange(4, dtype=np.int32), by=10)
    assert a.tolist() == [0, 10] and b.tolist() == [20, 30]


def test_run_time_numbers_do_not_compile_again(monkeypatch: pytest.MonkeyPatch) -> None:
    @jit(target="interp")
    def put(A: T.Tensor((2,), "float32"), x: T.float32, n: T.int32):
        with T.Kernel(1):
            A[0] = x
            A[1] = n

    a = np.zeros(2, np.float32)
    put(a, 1.5, 2)
    traces = count_traces(put, monkeypatch)
    put(a, 2.5, n=7)
    assert a.tolist() == [2.5, 7] and not traces


def test_the_body_of_an_eager_kernel_may_name_the_types_of_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    @jit(target="interp")
    def scale(A, x, times):
        N = T.const("N")
        A: T.Tensor[[N], T.float32]
        x: T.float32
        times: int
        B = T.empty((N,), T.float32)
        with T.Kernel(1):
            for i in T.Parallel(N):
                B[i] = A[i] * x * times
        return B

    assert scale(array(3), 0.5, 4).tolist() == [0, 2, 4]
    traces = count_traces(scale, monkeypatch)
    assert scale(array(3), x=1.5, times=4).tolist() == [0, 6, 12] and not traces
    assert scale(array(3), 1.5, 2).tolist() == [0, 3, 6] and traces


def test_a_size_of_the_eager_style_has_a_name() -> None:
    @jit(target="interp")
    def kernel(A):
        M = T.const(4)
        A: T.Tensor[[M], T.float32]
        with T.Kernel(1):
            A[0] = 1

    with pytest.raises(ZelligeError, match="E219"):
        kernel(array(4))


@pytest.mark.parametrize("value", (np.array(2.0), np.zeros(2)))
def test_a_tensor_is_no_number_of_a_parameter_that_python_annotates(value: Any) -> None:
    @jit(target="interp")
    def scale(A: T.Tensor((4,), "float32"), x: float):
        with T.Kernel(1):
            for i in T.Parallel(4):
                A[i] = A[i] * x

    with pytest.raises(ZelligeError, match="argument x: expected a number of type float, got ndarray") as caught:
        scale(array(4), value)
    assert caught.value.code == "E612" and caught.value.hint is not None and "value.item()" in caught.value.hint
    a = array(4)
    scale(a, np.float32(2))
    assert a.tolist() == [0, 2, 4, 6]


def test_wrong_calls_are_refused() -> None:
    b = np.zeros((4, 5), np.float32)
    for args, named in (((b,), {}), ((b, b, 1.0, 2), {}), ((b, b), {"by": 1.0, "A": b}), ((b, 3, 2.0), {}), ((None, b, 2.0), {})):
        with pytest.raises(ZelligeError):
            scale_directly(*args, **named)


# ---- compile, prim_func, methods, threads


def test_compile_and_jit_of_a_prim_func() -> None:
    @T.prim_func
    def main(A: T.Tensor((3,), "int32"), B: T.Tensor((3,), "int32")):
        with T.Kernel(3) as bx:
            B[bx] = A[bx] + 1

    a = np.arange(3, dtype=np.int32)
    assert compile(main, out_idx=-1, target="interp")(a).tolist() == [1, 2, 3]
    assert compile(main, [1], target={"kind": "interp"})(a).tolist() == [1, 2, 3]
    b = np.zeros(3, np.int32)
    jit(main, target="interp")(a, b)
    assert b.tolist() == [1, 2, 3]
    kernels = par_compile([main, main], out_idx=-1, target="interp", num_workers=2)
    assert all(k is not None and k(a).tolist() == [1, 2, 3] for k in kernels)


def test_compile_of_something_else() -> None:
    for wrong in (None, lambda: 0, 3):
        with pytest.raises(CompileError) as caught:
            compile(wrong)
        assert caught.value.code == "E156"


def test_par_compile_of_configurations_and_errors() -> None:
    kernels = add_lazily.par_compile([(2, 2), {"M": 3, "N": 2}])
    assert [k.params[0].shape for k in kernels if k is not None] == [(2, 2), (3, 2)]
    with pytest.raises(CompileError):
        add_lazily.par_compile([(2, 2, "floot")])
    with pytest.warns(ZelligeWarning, match="E217"):
        assert add_lazily.par_compile([(2, 2, "floot"), (2, 2)], ignore_error=True)[0] is None


def test_methods() -> None:
    class Layer:
        def __init__(self, by: int) -> None:
            self.by = by

        @jit(target="interp")
        def run(self, A):
            with T.Kernel(A.shape[0]) as bx:
                A[bx] = A[bx] * self.by

    layer = Layer(3)
    a = np.arange(3, dtype=np.int32)
    layer.run(a)
    layer.by = 10
    layer.run(a)
    assert a.tolist() == [0, 30, 60]
    assert layer.run.compile(a).kernel.name == "run"


def test_several_threads() -> None:
    results: dict[int, Any] = {}

    def work(size: int) -> None:
        for _ in range(3):
            a, b = array(size, 4), array(4, size)
            results[size] = np.array_equal(matmul(a, b), a @ b)

    threads = [threading.Thread(target=work, args=(size,)) for size in range(9, 15)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == dict.fromkeys(range(9, 15), True)


def test_torch_in_torch_out() -> None:
    torch = pytest.importorskip("torch")
    a, b = torch.arange(12.0).reshape(3, 4), torch.arange(8.0).reshape(4, 2)
    c = matmul(a, b)
    assert isinstance(c, torch.Tensor)
    torch.testing.assert_close(c, a @ b)


def test_decorated_function_keeps_its_identity() -> None:
    assert matmul.__name__ == "matmul" and matmul.__module__ == __name__
    assert repr(matmul).startswith("<jit function matmul(A, B")
    assert matmul.__wrapped__ is matmul.function


# ---- options


def test_options_of_other_programs_are_accepted() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message=".*E161", category=ZelligeWarning)

        @jit(
            out_idx=[-1],
            target="interp",
            target_host="llvm",
            execution_backend="cython",
            verbose=True,
            compile_flags="-O3",
            force_compile=True,
            cached=False,
            pass_configs={PassConfigKey.TL_ENABLE_FAST_MATH: True, "tl.disable_warp_specialized": True},
        )
        def make(n: int) -> Any:
            @T.prim_func
            def main(A: T.Tensor((n,), "int32"), B: T.Tensor((n,), "int32")):
                with T.Kernel(n) as bx:
                    B[bx] = A[bx]

            return main

        kernel = make(3)
    assert kernel.options.fast_math and not kernel.options.specialise
    assert kernel.options.compile_flags == ("-O3",) and kernel.options.is_verbose


def test_unknown_option() -> None:
    with pytest.raises(CompileError) as caught:
        jit(out_index=3)
    assert caught.value.code == "E159" and "out_index" in str(caught.value)


def test_pass_configs_become_options() -> None:
    target = Target(name="interp")
    fields = option_fields(
        {
            PassConfigKey.TL_DISABLE_THREAD_STORAGE_SYNC: True,
            PassConfigKey.TL_CONFIG_INDEX_BITWIDTH: 64,
            PassConfigKey.TL_DEVICE_COMPILE_FLAGS: ["-g"],
        },
        target,
    )
    assert fields == {"synchronise_shared": False, "index_bits": 64, "compile_flags": ("-g",)}
    wrong_flags = ({"tl.device_compile_flags": [3]}, {"tl.device_compile_flags": 3})
    for configs in ({"tl.config_index_bitwidth": 31}, {"tl.enable_fast_math": "yes"}, *wrong_flags):
        with pytest.raises(CompileError) as caught:
            option_fields(configs, target)
        assert caught.value.code == "E159"


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        ("tl.enable_fast_mth", "did you mean 'tl.enable_fast_math'"),
        (PassConfigKey.TL_AST_PRINT_ENABLE, "nothing here needs it"),
        ("tl.disable_wgmma", "belongs to cuda"),
    ],
)
def test_pass_config_without_effect_is_named(key: str, reason: str) -> None:
    with pytest.warns(ZelligeWarning, match="E161") as caught:
        option_fields({key: True}, Target(name="interp"))
    assert str(key) in str(caught[0].message) and reason in str(caught[0].message)


@pytest.mark.parametrize(
    ("options", "key"),
    [
        ({"pass_configs": {PassConfigKey.TL_CONFIG_INDEX_BITWIDTH: 64}}, "tl.config_index_bitwidth"),
        ({"pass_configs": {PassConfigKey.TL_DISABLE_WARP_SPECIALIZED: True}}, "tl.disable_warp_specialized"),
        ({"pass_configs": {PassConfigKey.TL_DISABLE_THREAD_STORAGE_SYNC: True}}, "tl.disable_thread_storage_sync"),
        ({"compile_flags": ["-O3"]}, "tl.device_compile_flags"),
    ],
)
@pytest.mark.parametrize("target", ["cpu", "auto"])
def test_an_option_that_the_target_does_not_act_on_is_named(options: dict[str, Any], key: str, target: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((3,), "int32")):
        with T.Kernel(3) as bx:
            A[bx] = 1

    with pytest.warns(ZelligeWarning, match="E161") as caught:
        compile(main, target=target, **options)
    assert [str(w.message) for w in caught if key in str(w.message) and "nothing on the target cpu depends on it" in str(w.message)]


def test_fast_arithmetic_acts_on_the_cpu() -> None:
    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(1):
            for i in T.Parallel(64):
                B[i] = T.exp(A[i]) / 3.0 + A[i] * 2.0

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        exact = compile(main, target="cpu").get_kernel_source()
        same = compile(main, target="cpu", pass_configs={PassConfigKey.TL_ENABLE_FAST_MATH: False}).get_kernel_source()
        fast = compile(main, target="cpu", pass_configs={PassConfigKey.TL_ENABLE_FAST_MATH: True}).get_kernel_source()
    assert exact == same != fast
    assert "reassoc" in fast and "reassoc" not in exact


def test_pass_config_names() -> None:
    assert PassConfigKey.TL_DISABLE_WGMMA == "tl.disable_wgmma"
    assert "tl.enable_fast_math" in known_keys()
    with pytest.raises(AttributeError):
        _ = PassConfigKey.TL_NO_SUCH_KEY


def test_settings_of_the_body() -> None:
    @T.prim_func
    def main(A: T.Tensor((3,), "int32")):
        T.annotate_pass_configs({PassConfigKey.TL_ENABLE_FAST_MATH: True})
        T.annotate_compile_flags(["-x"])
        with T.Kernel(3) as bx:
            A[bx] = 1

    assert compile(main, target="interp").options.fast_math
    assert compile(main, target="interp").options.compile_flags == ("-x",)
    assert not compile(main, target="interp", pass_configs={PassConfigKey.TL_ENABLE_FAST_MATH: False}).options.fast_math


def test_debug_root_gets_every_stage(tmp_path: Any) -> None:
    @jit(target="interp", debug_root_path=str(tmp_path))
    def make() -> Any:
        @T.prim_func
        def main(A: T.Tensor((3,), "int32")):
            with T.Kernel(3) as bx:
                A[bx] = 1

        return main

    make()
    assert any(tmp_path.iterdir())


def test_a_debug_root_that_cannot_be_written_does_not_stop_the_kernel(tmp_path: Any) -> None:
    (tmp_path / "file").write_text("")

    @jit(target="interp", debug_root_path=str(tmp_path / "file" / "stages"))
    def make() -> Any:
        @T.prim_func
        def main(A: T.Tensor((3,), "int32")):
            with T.Kernel(3) as bx:
                A[bx] = 7

        return main

    with pytest.warns(ZelligeWarning, match="E746: the stages of main cannot be written under .*: Not a directory"):
        kernel = make()
    kernel(given := np.zeros(3, np.int32))
    assert given.tolist() == [7, 7, 7]


def test_constants_of_packed_tensors_count_elements() -> None:
    @jit(target="interp")
    def shape_of(A):
        M, K, S = T.const("M K S")
        A: T.StridedTensor((M, K), (S, 1), T.float4_e2m1fn)
        B = T.empty((3,), "int32")
        with T.Kernel(1):
            B[0] = M
            B[1] = K
            B[2] = S
        return B

    packed = np.zeros((8, 16), np.int8)
    assert shape_of(packed[::2]).tolist() == [4, 32, 64]


def test_prim_func_under_another_name_is_still_the_lazy_style() -> None:
    kernel_function = T.prim_func

    @jit(target="interp")
    def make(n: int) -> Any:
        @kernel_function
        def main(A: T.Tensor((n,), "int32")):
            with T.Kernel(n) as bx:
                A[bx] = bx

        return main

    a = np.zeros(3, np.int32)
    make(3)(a)
    assert a.tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("size", "code", "says"),
    [
        (8.5, "E205", "an integer is needed as index or size, not 8.5"),
        (np.float32(8), "E205", "an integer is needed as index or size, not 8.0"),
        (1 << 70, "E201", f"{1 << 70} does not fit in 64 bits"),
    ],
)
def test_a_number_that_is_no_size_is_named_as_the_user_wrote_it(size: Any, code: str, says: str) -> None:
    @jit(target="interp")
    def make(n: Any) -> Any:
        @T.prim_func
        def main(A: T.Tensor((n,), "int32")):
            with T.Kernel(1):
                A[0] = 1

        return main

    with pytest.raises(CompileError) as caught:
        make(size)
    assert (caught.value.code, caught.value.diagnostics[0].message) == (code, says)
    assert "literal" not in caught.value.hint


@pytest.mark.parametrize(
    "value, code, words",
    [
        ([1.0], "E603", "argument B: expected a tensor here, got list"),
        (3, "E603", "got int 3"),
        (np.ones(4, ">f4"), "E616", "byte order"),
        (np.array([object()] * 4), "E616", "object"),
    ],
)
def test_what_is_no_tensor_is_named(value: Any, code: str, words: str) -> None:
    @jit(target="interp")
    def total(A, B):  # type: ignore[no-untyped-def]
        N = T.const("N")
        A: T.Tensor((N,), "float32")
        B: T.Tensor((N,), "float32")
        with T.Kernel(N) as bx:
            A[bx] = B[bx]

    for arguments in ((np.ones(4, np.float32), value), (value, value)):
        with pytest.raises(ZelligeError) as caught:
            total(*arguments)
        assert caught.value.code == code
        assert words.replace("argument B", "argument A" if arguments[0] is value else "argument B") in str(caught.value)
