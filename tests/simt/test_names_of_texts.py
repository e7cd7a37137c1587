"""Names of kernels, tensors, tiles and variables that the printed language has for something else."""

import importlib.util
import re
from pathlib import Path

import pytest

import zellige
import zellige.language as T
from zellige.driver import dump
from zellige.simt.lower import function_name
from zellige.simt.words import declared_in, is_reserved

WORDS = (
    "namespace export friend mutable nullptr constexpr decltype alignas alignof noexcept static_assert thread_local wchar_t "
    "char16_t bitand bitor compl and_eq not_eq or_eq xor_eq NULL __LINE__ __FILE__ __CUDA_ARCH__ __global__ _Pragma requires "
    "co_await int double template "
).split()

TEXT = """
import zellige.language as T

@T.prim_func
def k({name}: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
    with T.Kernel(1, threads=64):
        for i in T.Parallel(64):
            B[i] = T.cast({name}[i] // 3, "float32") + T.min({name}[i], 2.0)
        for {name}_end in T.serial(63, -1, -1):
            B[0] = B[0] + {name}_end
"""


def module_of(path: Path):
    spec = importlib.util.spec_from_file_location("kernels", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def kernel_of(path: Path, name: str):
    path.write_text(TEXT.format(name=name), encoding="utf-8")
    return module_of(path).k


def kernel(tmp_path: Path, name: str):
    return kernel_of(tmp_path / f"{name}.py", name).kernel  # a file each: byte code is kept by the time and the length of the text


@pytest.mark.parametrize("name", WORDS)
def test_words_of_the_language(tmp_path, name) -> None:
    text = dump(kernel(tmp_path, name), "cuda:sm_80", "source")
    parameter = re.search(r" k\(const float\* APART (\w+), float\* (?:APART )?B\)", text)
    assert parameter is not None and parameter[1] != name and not is_reserved(parameter[1])


@pytest.mark.parametrize("target", ["cuda:sm_80", "cuda:sm_90a"])
def test_names_of_functions_that_the_text_has(tmp_path, target) -> None:
    plain = dump(kernel(tmp_path, "plain"), target, "source")
    helpers = set(re.findall(r"__forceinline__ [\w ]+?(\w+)\(", plain))
    assert {"float_min32", "trip_count"} <= helpers
    for name in sorted(helpers):
        text = dump(kernel(tmp_path, name), target, "source")
        body = text[text.index('extern "C"') :]
        assert re.search(r"const float\* APART (\w+), ", body)[1] == f"{name}_2"  # type: ignore[index]
        assert body.replace(f"{name}_2", "plain").replace(f"{name}_end", "plain_end").count("plain") >= 3
        assert name in set(re.findall(r"(\w+)\(", body)) | set(re.findall(r"(\w+)\(", text[: text.index('extern "C"')]))


@pytest.mark.parametrize("target", ["cuda:sm_80", "cuda:sm_90a"])
def test_kernels_called_as_what_the_text_declares_or_is_compiled_with(tmp_path, target) -> None:
    plain = dump(kernel(tmp_path, "plain"), target, "source")
    declared = declared_in(plain[: plain.index('extern "C"')])
    for name in sorted(declared | {"TENSORS_MEET", "ELEMENTWISE", "WITHOUT_BOXES"}):
        path = tmp_path / f"kernel_{name}.py"
        path.write_text(TEXT.format(name="A").replace("def k(", f"def {name}("), encoding="utf-8")
        assert f" {name}_kernel(" in dump(getattr(module_of(path), name).kernel, target, "source")


def test_names_of_types_and_macros_of_the_text(tmp_path) -> None:
    plain = dump(kernel(tmp_path, "plain"), "cuda:sm_90a", "source")
    declared = declared_in(plain[: plain.index('extern "C"')])
    assert {"wide4", "wide16", "APART", "LANES"} <= declared
    for name in sorted(declared):
        text = dump(kernel(tmp_path, name), "cuda:sm_90a", "source")
        assert re.search(r"const float\* APART (\w+), ", text[text.index('extern "C"') :])[1] == f"{name}_2"  # type: ignore[index]


def test_ordinary_names_stay() -> None:
    @T.prim_func
    def k(A: T.Tensor((64,), "float32"), x: T.float32, signals: T.float32):
        with T.Kernel(1, threads=64):
            for i in T.Parallel(64):
                A[i] = A[i] * x + signals

    text = dump(k.kernel, "cuda:sm_80", "source")
    assert all(f"const float {name}" in text for name in ("x", "signals")) and "A[i] = ((A[i] * x) + signals);" in text


def test_names_of_kernels() -> None:
    assert function_name("add", 0) == "add" and function_name("add", 1) == "add_1" and function_name("_add", 0) == "_add"
    for name in ("namespace", "__global__", "α", "wide4", "expf", "1", "_A", "main"):
        found = function_name(name, 0)
        assert found.endswith("_kernel") and found.isidentifier() and not is_reserved(found)
    assert function_name("threadIdx", 0, frozenset(("threadIdx",))) == "threadIdx_kernel"
    kept = frozenset(("cuda[A-Z]*", "NV_*"))
    assert [function_name(name, 1, kept) for name in ("cudaFree", "NV_x")] == ["cudaFree_1_kernel", "NV_x_1_kernel"]
    assert [function_name(name, 0, kept) for name in ("cuda_add", "cudaadd", "my_cudaFree")] == ["cuda_add", "cudaadd", "my_cudaFree"]


@pytest.mark.parametrize("name", ['we"ird.py', "new\nline.py", "per%d.py", "ü.py"])
def test_paths_of_files(tmp_path, name) -> None:
    markers = [line for line in dump(kernel_of(tmp_path / name, "A").kernel, "cuda:sm_80", "source").splitlines() if "#line" in line]
    assert markers and all(re.fullmatch(r'#line \d+ "[^"]*"', line) for line in markers)


def test_nvrtc_takes_the_names(tmp_path) -> None:
    for name in ("namespace", "NULL", "__LINE__", "float_min32", "wide4", "cudaArrayDefault", "CUDART_CB"):
        zellige.compile(kernel_of(tmp_path / f"{name}.py", name), target="cuda:sm_80")


def test_nvrtc_takes_kernels_called_as_what_it_declares(tmp_path) -> None:
    for name in ("norm", "dim3", "cudaSuccess", "cudaStream_t", "CUDA_R_16F", "NV_IF_ELSE_TARGET", "WARP_SZ", "A7"):
        path = tmp_path / f"kernel_{name}.py"
        path.write_text(TEXT.format(name="A").replace("def k(", f"def {name}("), encoding="utf-8")
        assert f"{name}_kernel(" in zellige.compile(getattr(module_of(path), name), target="cuda:sm_80").get_kernel_source()
